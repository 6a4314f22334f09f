"""The scikit-learn estimators: ManifoldGPRegressor; GPRegressor, the same with Identity features; KernelSearch, which finds its own kernel."""

from manifoldgp.estimators.kernel_search import KernelSearch
from manifoldgp.estimators.manifold_gp import ManifoldGPRegressor
from manifoldgp.estimators.plain_gp import GPRegressor

__all__ = ["GPRegressor", "KernelSearch", "ManifoldGPRegressor"]
