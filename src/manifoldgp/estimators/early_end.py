"""A fit that ended before its time, and how that is said wherever its model is looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from manifoldgp.training.optimizer import TIME_LIMIT

if TYPE_CHECKING:
    from manifoldgp.estimators.manifold_gp import ManifoldGPRegressor

OUT_OF_TIME = (TIME_LIMIT, "not reached")
"""How starts end that had no time, or too little."""

INTERRUPTED = "Training was interrupted: this is the best model that there was by then, and a fit to the end may predict better."
_OUT_OF_TIME = "Training ended because its time was up (time_budget): a fit with more of it may predict better."


def early_end(estimator: ManifoldGPRegressor) -> str:
    """Why training ended early, in a sentence; empty where it did not."""
    if estimator.interrupted_:
        return INTERRUPTED
    return _OUT_OF_TIME if np.isin(estimator.starts_["status"], OUT_OF_TIME).any() else ""
