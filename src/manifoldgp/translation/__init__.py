"""From fitted estimators to programs that run without PyTorch: one translation for each class of features, kernels and means."""

from manifoldgp.translation.estimators import to_predictor

__all__ = ["to_predictor"]
