"""Many mappings instead of one: mixtures of members, weighted by what they predict on held-out rows."""

from manifoldgp.averaging.settings import NUTS, Fast, Restarts, Single, Stack

__all__ = ["NUTS", "Fast", "Restarts", "Single", "Stack"]
