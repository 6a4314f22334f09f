"""Columns of texts as numbers: with thousands separators, a currency, a percent sign or a unit, and signs for "no value"."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from manifoldgp.data.dates import pandas
from manifoldgp.data.decimal_signs import FORMS, SPACES
from manifoldgp.data.no_values import NO_VALUE


class Written(NamedTuple):
    """A column of texts read as numbers (n,), one of the texts that is no plain number, if there is one, and the sign or word that stands beside them."""

    numbers: np.ndarray
    example: str | None
    unit: str


def read_numbers(values: Sequence[object], decimal: str = ".") -> Written | None:
    """Texts as numbers, if all of them are some in one unit, by the table's decimal sign or else by the other one; None: they are something else.

    Less than half may leave the unit out, as rows that were added later do.

    >>> read_numbers(["$1,234.50", "$80", "?"])
    Written(numbers=array([1234.5,   80. ,    nan]), example='$1,234.50', unit='$')
    >>> read_numbers(["1.234", "5,5"], decimal=",").numbers
    array([1234. ,    5.5])
    >>> read_numbers(["3 kg", "4 kg", "5"]).numbers
    array([3., 4., 5.])
    >>> read_numbers(["3 kg", "4 lb"]) is None
    True
    """
    for sign in (decimal, "," if decimal == "." else "."):
        found = _read(values, sign, decimal)
        if found is not None:
            return found
    return None


def _read(values: Sequence[object], decimal: str, usual: str) -> Written | None:
    """Texts as numbers by one decimal sign. usual: that of the table, whose numbers need no telling."""
    numbers = np.full(len(values), np.nan)
    units, example = Counter(), None
    for row, value in enumerate(values):
        if isinstance(value, (bool, np.bool_)):
            return None
        if isinstance(value, (int, float, np.number)):
            numbers[row] = value
        elif isinstance(value, str):
            if value.strip().casefold() in NO_VALUE:
                continue
            match = FORMS[decimal].fullmatch(value.strip())
            if match is None:
                return None
            numbers[row] = _number(match, decimal)
            units[match["before"] + match["unit"]] += 1
            example = example or (None if _plain(value, usual) == numbers[row] else value)
        elif not pandas().isna(value):
            return None
    known = np.isfinite(numbers).mean() if len(numbers) else 0.0
    one = len(units) == 1 or (len(units) == 2 and 2 * units.get("", units.total()) < units.total())
    unit = next(filter(None, units), "")
    return Written(numbers, example, unit) if (one or not units) and known > 0.5 else None


def _plain(value: str, decimal: str) -> float:
    """What the text says by the decimal sign alone; NaN if there is more to read."""
    try:
        return float(value.replace(",", ".") if decimal == "," and "." not in value else value)
    except ValueError:
        return math.nan


def _number(match: re.Match[str], decimal: str) -> float:
    digits = re.sub(rf"[{',' if decimal == '.' else '.'}{SPACES}]", "", match["number"]).replace(decimal, ".")
    return float(digits) * (-1.0 if match["sign"] in ("-", "−") else 1.0)
