"""Which model to use for a table: ours and others on the same held-out rows."""

from manifoldgp.chance.differences import Difference
from manifoldgp.comparison.comparing import compare
from manifoldgp.comparison.result import Comparison, Row

__all__ = ["Comparison", "Difference", "Row", "compare"]
