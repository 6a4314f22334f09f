"""The scikit-learn estimators: ManifoldGPRegressor, and GPRegressor, the same with Identity features."""

from manifoldgp.regressor.manifold import ManifoldGPRegressor
from manifoldgp.regressor.plain import GPRegressor

__all__ = ["GPRegressor", "ManifoldGPRegressor"]
