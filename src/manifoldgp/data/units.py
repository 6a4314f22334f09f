"""Units of columns: in a row of their own below the names, or beside numbers, and whether the name of a column tells its unit."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from manifoldgp._system.plain_text import name_in, unit_of, without_brackets
from manifoldgp.data.dates import pandas
from manifoldgp.data.no_values import NO_VALUE
from manifoldgp.data.written_numbers import read_numbers

if TYPE_CHECKING:
    from pandas import DataFrame

UNITS = "units"
"""Under which name a DataFrame's attrs keep those of its columns."""

_PER = re.compile(r"1\s*(/\s*(?:[^\W\d_]|[°%‰]).*)")
"""A unit that begins like a number: 1/min."""


def with_units(table: DataFrame, units: Mapping[Any, str]) -> DataFrame:
    """The table, which keeps the units of columns whose names do not tell them in brackets."""
    told = {name_in(str(name)): unit for name, unit in units.items() if not (ends_in(str(name), unit) and unit_of(str(name)))}
    if told:
        table.attrs[UNITS] = table.attrs.get(UNITS, {}) | told
    return table


def ends_in(name: str, unit: str) -> bool:
    """Whether a name ends in the unit.

    >>> ends_in("length [m]", "m"), ends_in("length_m", "m"), ends_in("fat%", "%"), ends_in("alarm", "m")
    (True, True, True, False)
    """
    apart = r"(?<![^\W_])" if unit[:1].isalpha() else ""
    return re.search(rf"{apart}{re.escape(unit)}[)\]]?\s*$", name) is not None


def units_of(table: DataFrame) -> dict[str, str]:
    """What stood below the names of columns of numbers, or beside all numbers, by name; signs without a letter, such as -, are no unit."""
    said = table.attrs.get(UNITS, {})
    return {name: unit for name, unit in said.items() if re.search(r"[^\W\d_]|[%‰°$€£¥]", unit)}


def units_row(table: DataFrame, decimal: str) -> dict[Any, str]:
    """The words of the first row by column, if no cell of it is a number and two columns or more hold nothing but numbers below it, or one where all other cells are empty.

    One number, such as 1e-5, may be a unit where words stand above the numbers of three columns or more.
    """
    if len(table) < 3:
        return {}
    first = {name: value for name, value in table.iloc[0].items() if not pandas().isna(value) and str(value).strip()}
    if any(not isinstance(value, (str, int, float, np.number)) or len(str(value)) > 12 for value in first.values()):
        return {}
    alike = [name for name, value in first.items() if _begins_numbers(str(value), table[name].iloc[1:], decimal)]
    below = [name for name in text_columns(table) if name not in alike and _numbers_below(table[name], decimal)]
    alone = len(first) == 1 < len(table.columns)
    found = len(below) > 1 - alone if not alike else len(alike) == 1 and len(below) > 2
    return {name: without_brackets(str(value)) for name, value in first.items()} if found else {}


def _begins_numbers(cell: str, below: Iterable[object], decimal: str) -> bool:
    """Whether the first cell of a column is a number; 1/min is a unit, unless others end in it."""
    per = _PER.fullmatch(cell.strip())
    is_unit = per is not None and not any(str(value).strip().endswith(per[1]) for value in below)
    return not is_unit and read_numbers([cell], decimal) is not None


def _numbers_below(values: Iterable[object], decimal: str) -> bool:
    cells = list(values)
    return isinstance(cells[0], str) and cells[0].strip() not in NO_VALUE and read_numbers(cells[1:], decimal) is not None


def text_columns(table: DataFrame) -> list[Any]:
    """Names of columns that pandas has read as text or as a mixture."""
    types = pandas().api.types
    return [
        name for name in table.columns if types.is_object_dtype(table[name].dtype) or types.is_string_dtype(table[name].dtype)
    ]
