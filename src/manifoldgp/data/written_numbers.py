"""Columns of texts as numbers: with thousands separators, a currency, a percent sign or a unit, and signs for "no value"."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from manifoldgp.data.dates import pandas
from manifoldgp.data.decimal_signs import FORMS, SPACES, other_sign
from manifoldgp.data.no_values import NO_VALUE


class Written(NamedTuple):
    """A column of texts read as numbers (n,), one of the texts that is no plain number, if there is one, and the sign or word that stands beside them.

    decimal: the decimal sign by which they were read, "" where none of them has a point or a comma. odd: rows that are no numbers.
    """

    numbers: np.ndarray
    example: str | None
    unit: str
    decimal: str = ""
    odd: tuple[int, ...] = ()


def read_numbers(values: Sequence[object], decimal: str = ".", first: str = "") -> Written | None:
    """Texts as numbers, if all of them are some in one unit, by the table's decimal sign or else by the other one; None: they are something else.

    Less than half may leave the unit out, as rows that were added later do. first: the sign that is tried first, where that is not the table's.

    >>> read_numbers(["$1,234.50", "$80", "?"])
    Written(numbers=array([1234.5,   80. ,    nan]), example='$1,234.50', unit='$', decimal='.', odd=())
    >>> read_numbers(["1.234", "5,5"], decimal=",").numbers
    array([1234. ,    5.5])
    >>> read_numbers(["3 kg", "4 kg", "5"]).numbers
    array([3., 4., 5.])
    >>> read_numbers(["3 kg", "4 lb"]) is None
    True
    """
    for sign in (first or decimal, other_sign(first or decimal)):
        cells = _Cells(len(values), sign)
        if not all(cells.read(row, value) for row, value in enumerate(values)):
            continue
        units, known = Counter(cells.units.values()), np.isfinite(cells.numbers).mean() if len(values) else 0.0
        one = len(units) == 1 or (len(units) == 2 and 2 * units.get("", units.total()) < units.total())
        if (one or not units) and known > 0.5:
            return cells.written(values, next(filter(None, units), ""), decimal)
    return None


def read_known_numbers(
    values: Sequence[object], decimal: str = ".", first: str = "", own: Callable[[str], bool] = bool
) -> Written | None:
    """Texts of a column that is known to hold numbers: all that are some in one unit, or without one, by the decimal sign that reads more of them; None: there is none.

    own: which unit is surely the column's; else it is the one that most cells have.

    >>> read_known_numbers(["12 %", "n.a.%", "?", "7"])
    Written(numbers=array([12., nan, nan,  7.]), example='12 %', unit='%', decimal='', odd=(1,))
    >>> read_known_numbers(["80 lb", "70 lb", "90 kg"], own=lambda unit: unit == "kg").odd, read_known_numbers(["n.a."])
    ((0, 1), None)
    """
    found = []
    for sign in (first or decimal, other_sign(first or decimal)):
        cells = _Cells(len(values), sign)
        odd = [row for row, value in enumerate(values) if not cells.read(row, value)]
        units = Counter(cells.units.values())
        unit = next(
            (unit for unit in units if unit and own(unit)), max(units, key=lambda unit: (units[unit], not unit), default="")
        )
        others = [row for row, beside in cells.units.items() if beside not in (unit, "")]
        cells.numbers[others] = np.nan
        found.append(cells.written(values, unit, decimal)._replace(odd=tuple(sorted([*odd, *others]))))
    most = max(found, key=lambda written: np.isfinite(written.numbers).sum())  # of two the first
    return most if np.isfinite(most.numbers).any() else None


class _Cells:
    """Cells of a column that are read one by one by a decimal sign: their numbers, and what stands beside those that were texts, by row."""

    def __init__(self, rows: int, decimal: str) -> None:
        self.numbers = np.full(rows, np.nan)
        self.units: dict[int, str] = {}
        self.decimal, self.shown = decimal, False

    def read(self, row: int, value: object) -> bool:
        """Whether a cell is a number, or has none; the number is kept."""
        if isinstance(value, str):
            text = value.strip()
            match = FORMS[self.decimal].fullmatch(text)
            if match is None:
                return text.casefold() in NO_VALUE
            self.numbers[row] = _number(match, self.decimal)
            self.units[row] = match["before"] + match["unit"]
            self.shown = self.shown or "." in match["number"] or "," in match["number"]
            return True
        if isinstance(value, (int, float, np.number)) and not isinstance(value, bool):
            self.numbers[row] = value
            return True
        return not isinstance(value, (bool, np.bool_)) and bool(pandas().isna(value))

    def written(self, values: Sequence[object], unit: str, usual: str) -> Written:
        """The column. usual: the decimal sign of the table, whose numbers need no telling."""
        texts = ((value, self.numbers[row]) for row in self.units if isinstance(value := values[row], str))
        example = next((text for text, number in texts if math.isfinite(number) and plain_number(text, usual) != number), None)
        return Written(self.numbers, example, unit, self.decimal if self.shown else "")


def plain_number(text: str, decimal: str) -> float:
    """What the text says by the decimal sign alone; NaN if there is more to read."""
    try:
        return float(text.replace(",", ".") if decimal == "," and "." not in text else text)
    except ValueError:
        return math.nan


def _number(match: re.Match[str], decimal: str) -> float:
    digits = re.sub(rf"[{other_sign(decimal)}{SPACES}]", "", match["number"]).replace(decimal, ".")
    return float(digits) * (-1.0 if match["sign"] in ("-", "−") else 1.0)
