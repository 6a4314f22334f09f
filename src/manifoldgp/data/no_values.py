"""What stands for "no value" in tables: signs among numbers and words, and values of nines."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

ERROR_CELLS = (
    "#DIV/0!", "#N/A", "#NAME?", "#NULL!", "#NUM!", "#REF!", "#VALUE!", "#SPILL!", "#CALC!", "#NV", "#BEZUG!", "#WERT!", "#ZAHL!", "#ÜBERLAUF!",
    "#NOM?", "#NOMBRE!", "#NUL!", "#VALEUR!",
)  # fmt: skip
"""What spreadsheets show where a formula has no value, in English, German and French. Their own files say it in another way, which pandas reads as a gap."""

_SIGNS = ("?", "-", "--", "–", "—", ".", "n.a.", "n. a.", "n/a", "na", "k.a.", "k. a.", "nan", "")

NO_VALUE = frozenset((*_SIGNS, *map(str.casefold, ERROR_CELLS)))
"""Signs for "no value" among numbers, in small letters."""


GAPS = (
    "",
    "#N/A",
    "#N/A N/A",
    "#NA",
    "-1.#IND",
    "-1.#QNAN",
    "-NaN",
    "-nan",
    "1.#IND",
    "1.#QNAN",
    "<NA>",
    "N/A",
    "NA",
    "NaN",
    "n/a",
    "nan",
    *ERROR_CELLS,
)
"""Cells of files that are missing values in every column."""

NOTHING_OR_WORDS = ("None", "none", "NONE", "NULL", "null", "Null")
"""Cells of files that are missing values among numbers, dates, true and false, and a category among words."""


def signs_of_nothing(categories: Sequence[str]) -> list[str]:
    """Categories that stand for "no value" as a rule, where all others are words.

    >>> signs_of_nothing(["-", "agree", "disagree"]), signs_of_nothing(["-", "+"]), signs_of_nothing(["-"])
    (['-'], [], [])
    """
    signs = [category for category in categories if category.strip().casefold() in NO_VALUE]
    words = [category for category in categories if category not in signs]
    return signs if words and all(any(map(str.isalnum, word)) for word in words) else []


def numbers_for_nothing(columns: Mapping[str, np.ndarray]) -> dict[float, dict[str, int]]:
    """Values of nines, such as -999 or -99.9, that stand for "no value" as a rule, and in how many rows of which columns.

    Such a value lies far from all others of a column, or is below 0 where all others are not; other columns that have it at their end are named with this one.

    >>> numbers_for_nothing({"wind": np.array([1.0, 4.0, -99.9, 5.0]), "p": np.array([990.0, 999.0, 1010.0]), "n": np.array([98.0, 98.0, 99.0])})
    {-99.9: {'wind': 1}}
    >>> numbers_for_nothing({"T": np.array([-5.0, 4.0, -999.0]), "p": np.array([-999.0, -999.0, 1013.0, 1009.0]), "sun": np.array([-999.0, 600.0, 0.0])})
    {-999.0: {'T': 1, 'p': 2, 'sun': 1}}
    """
    ends = {name: _ends_of_nines(numbers[np.isfinite(numbers)]) for name, numbers in columns.items()}
    return {
        value: {
            name: int((columns[name] == value).sum())
            for name, (values, others) in ends.items()
            if value in values and (value < 0 or _is_far(value, others, 1.0))
        }
        for value in sorted({value for values, others in ends.values() for value in values if _stands_for_nothing(value, others)})
    }


def _ends_of_nines(numbers: np.ndarray) -> tuple[list[float], np.ndarray]:
    """The smallest values that nines alone write, below 0, and the largest one; and all others, none where there are fewer than two.

    >>> _ends_of_nines(np.array([-99.0, -999.0, 3.0, 7.0, 99.0]))
    ([-999.0, -99.0, 99.0], array([3., 7.]))
    """
    values, low = np.unique(numbers), 0
    while low < len(values) and values[low] < 0 and _is_nines(values[low]):
        low += 1
    high = len(values) - (low < len(values) and _is_nines(values[-1]))
    others = numbers[(numbers >= values[low]) & (numbers <= values[high - 1])] if low < high else numbers[:0]
    return ([float(value) for value in (*values[:low], *values[high:])], others) if len(others) > 1 else ([], others)


def _is_nines(value: float) -> bool:
    return re.fullmatch(r"9{2,}(\.(9+|0))?", repr(abs(float(value)))) is not None


def _stands_for_nothing(value: float, others: np.ndarray) -> bool:
    return _is_far(value, others, 5.0) or value < 0 <= others.min()


def _is_far(value: float, others: np.ndarray, times: float) -> bool:
    """Whether a value is so many times as far from all others as these are large or from each other."""
    return bool(np.abs(others - value).min() > times * max(np.ptp(others), float(np.abs(others).max())))
