"""What torchrun tells the processes that it starts, by their environment; asked without PyTorch."""

from __future__ import annotations

import os


def launched() -> bool:
    """Whether torchrun, or something like it, started this process as one of several."""
    return "WORLD_SIZE" in os.environ and "RANK" in os.environ


def process_count() -> int:
    """How many processes share the work."""
    return int(os.environ["WORLD_SIZE"])


def rank() -> int:
    """The number of this one, from 0."""
    return int(os.environ["RANK"])


def is_first() -> bool:
    """Whether it speaks for all."""
    return rank() == 0
