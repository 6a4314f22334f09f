"""Pages that a person reads: one HTML file each, which opens from disk without a network."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from manifoldgp.report.readme import update_readme
    from manifoldgp.report.reproduction import write_reproduction

_HOME = {"update_readme": "readme", "write_reproduction": "reproduction"}

__all__ = ["update_readme", "write_reproduction"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'manifoldgp.report' has no attribute {name!r}")
    return getattr(import_module(f"manifoldgp.report.{_HOME[name]}"), name)
