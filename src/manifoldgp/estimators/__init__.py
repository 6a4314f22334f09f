"""The scikit-learn estimators: ManifoldGPRegressor, and GPRegressor, the same with Identity features."""

from manifoldgp.estimators.manifold_gp import ManifoldGPRegressor
from manifoldgp.estimators.plain_gp import GPRegressor

__all__ = ["GPRegressor", "ManifoldGPRegressor"]
