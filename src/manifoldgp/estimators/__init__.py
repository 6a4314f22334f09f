"""The scikit-learn estimators: ManifoldGPRegressor; GPRegressor, the same with Identity features; KernelSearch, which finds its own kernel; Forecaster, which iterates one of them on a series."""

from manifoldgp.estimators.forecaster import Forecaster
from manifoldgp.estimators.kernel_search import KernelSearch
from manifoldgp.estimators.manifold_gp import ManifoldGPRegressor
from manifoldgp.estimators.plain_gp import GPRegressor

__all__ = ["Forecaster", "GPRegressor", "KernelSearch", "ManifoldGPRegressor"]
