"""Pages that a person reads: one HTML file each, which opens from disk without a network."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from manifoldgp.report.model import write_model_report
    from manifoldgp.report.readme import update_readme
    from manifoldgp.report.reproduction import write_reproduction

# Loaded when first used: the page of a model needs no matplotlib, the report of the paper does.
_HOME = {"update_readme": "readme", "write_model_report": "model", "write_reproduction": "reproduction"}

__all__ = ["update_readme", "write_model_report", "write_reproduction"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'manifoldgp.report' has no attribute {name!r}")
    return getattr(import_module(f"manifoldgp.report.{_HOME[name]}"), name)
