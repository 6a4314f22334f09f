"""Arrays that NumPy would turn into float64 without a word, and into other numbers than their owner means: dates, durations, masked entries."""

from __future__ import annotations

import datetime
from contextlib import suppress
from typing import Any

import numpy as np

from manifoldgp.errors import InputError

_TIMES = (np.datetime64, np.timedelta64, datetime.date, datetime.time, datetime.timedelta)


def as_meant(values: Any, name: str, *, mask_is_missing: bool = False) -> Any:
    """The values as they came, if they can only be read in one way.

    Dates and durations are refused: as numbers they count in units nobody asked for, and NaT is -9.2e18. Masked entries are refused, or NaN with mask_is_missing.

    >>> as_meant(np.ma.array([1.0, 2.0], mask=[False, True]), "y", mask_is_missing=True)
    array([ 1., nan])
    """
    if _holds_times(values):
        raise InputError(
            f"{name} holds dates, times or durations. Turn them into numbers that mean something for your task, such as hours since the start: "
            "(t - t[0]) / np.timedelta64(1, 'h')."
        )
    if not isinstance(values, np.ma.MaskedArray):
        return values
    masked = int(np.ma.getmaskarray(values).sum())
    if masked and not mask_is_missing:
        raise InputError(f"{name} has {masked} masked entries. Fill them in, or leave these rows out.")
    return np.ma.filled(values.astype(np.float64), np.nan) if masked else values.data


def as_numbers(values: Any, name: str, *, mask_is_missing: bool = False) -> np.ndarray:
    """A float64 copy of values that mean numbers; dates, masked entries (unless they are missing values), complex numbers and texts that are none are refused.

    >>> as_numbers([1, 2], "y")
    array([1., 2.])
    """
    given = as_meant(values, name, mask_is_missing=mask_is_missing)
    try:
        if np.iscomplexobj(given):
            raise TypeError("complex numbers")
        return np.array(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be real numbers: {error}.") from error


def _holds_times(values: Any) -> bool:
    kind = getattr(getattr(values, "dtype", None), "kind", None)
    if isinstance(values, (list, tuple)):
        with suppress(ValueError):  # rows of different lengths, which others refuse
            values = np.asarray(values)
            kind = values.dtype.kind
    if kind == "O" and isinstance(values, np.ndarray):
        return any(isinstance(value, _TIMES) for value in values.ravel())
    return kind in ("m", "M")
