"""Minimisers over a batch of starts, and the result they share."""

from manifoldgp.optimize._result import CUT_SHORT, INVALID_START, ITERATION_LIMIT, LOST, Curvature, Monitor, OptimizeResult
from manifoldgp.optimize.lbfgs import minimize_lbfgs
from manifoldgp.optimize.scipy_minimizers import minimize_lbfgsb, minimize_newton_cg

MINIMIZERS = {"l-bfgs": minimize_lbfgs, "l-bfgs-b": minimize_lbfgsb, "newton-cg": minimize_newton_cg}
"""By the name used in the estimators."""

__all__ = [
    "CUT_SHORT",
    "INVALID_START",
    "ITERATION_LIMIT",
    "LOST",
    "MINIMIZERS",
    "Curvature",
    "Monitor",
    "OptimizeResult",
    "minimize_lbfgs",
    "minimize_lbfgsb",
    "minimize_newton_cg",
]
