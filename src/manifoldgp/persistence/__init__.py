"""One file a model, without pickle: tensors and a JSON header in the safetensors format. Loading runs no code."""

from manifoldgp.persistence.estimators import load, save

__all__ = ["load", "save"]
