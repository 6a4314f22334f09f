"""The sparse mGP: the collapsed variational bound (Titsias 2009) with inducing points Z in feature space."""

from manifoldgp.sparse.bound import Bound, Statistics, collapsed_bound
from manifoldgp.sparse.chunks import JITTER_LADDER, Forward, Inducing, forward, place_inducing, pull_back
from manifoldgp.sparse.greedy import greedy_inducing_points
from manifoldgp.sparse.posterior import SparsePosterior, condition_sparse

__all__ = [
    "JITTER_LADDER",
    "Bound",
    "Forward",
    "Inducing",
    "SparsePosterior",
    "Statistics",
    "collapsed_bound",
    "condition_sparse",
    "forward",
    "greedy_inducing_points",
    "place_inducing",
    "pull_back",
]
