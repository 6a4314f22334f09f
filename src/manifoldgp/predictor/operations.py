"""All operations of a program by name: the table is complete once this module is imported."""

from __future__ import annotations

from manifoldgp.predictor import (
    operations_additive,
    operations_covariances,
    operations_elementwise,
    operations_mixtures,
    operations_rows,
)
from manifoldgp.predictor.backends import OPERATIONS, Operation

__all__ = [
    "OPERATIONS",
    "Operation",
    "operations_additive",
    "operations_covariances",
    "operations_elementwise",
    "operations_mixtures",
    "operations_rows",
]
