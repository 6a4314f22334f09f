"""Checks of arguments that several features share."""

from __future__ import annotations

import math
import operator
from typing import Any

from manifoldgp.errors import InputError


def positive_integer(value: Any, name: str) -> int:
    """``value`` as an int of at least one; NumPy integers count."""
    try:
        number = operator.index(value)
    except TypeError:
        number = 0
    if number < 1 or isinstance(value, bool):
        raise InputError(f"{name} must be a positive integer, got {value!r}.")
    return number


def positive_number(value: Any, name: str) -> float:
    """``value`` as a finite float above zero."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not (math.isfinite(number) and number > 0):
        raise InputError(f"{name} must be a positive number, got {value!r}.")
    return number
