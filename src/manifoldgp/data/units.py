"""Units of columns: in a row of their own below the names, or beside numbers, and whether the name of a column tells its unit."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from manifoldgp._system.plain_text import factor_of, name_in, unit_of, without_brackets
from manifoldgp.data.dates import pandas
from manifoldgp.data.no_values import NO_VALUE
from manifoldgp.data.written_numbers import read_known_numbers, read_numbers

if TYPE_CHECKING:
    from pandas import DataFrame

UNITS = "units"
"""Under which name a DataFrame's attrs keep those of its columns."""

_PER = re.compile(r"1\s*(/\s*(?:[^\W\d_]|[°%‰]).*)")
"""A unit that begins like a number: 1/min."""

_POWER = re.compile(r"1[eE]-?[1-9]\d?(?:\s*|\s+(\S.*))")
_WITH_EXPONENT = re.compile(r"\d[eE][-+]?\d")
"""A unit that could be a number, 1e3 or 1e3 m³, as people write it and no program (1e+03); and numbers among which it is one."""


def with_units(table: DataFrame, units: Mapping[Any, str]) -> DataFrame:
    """The table, which keeps the units of columns whose names do not tell them in brackets."""
    told = {name_in(str(name)): unit for name, unit in units.items() if not (tells(str(name), unit) and unit_of(str(name)))}
    if told:
        table.attrs[UNITS] = table.attrs.get(UNITS, {}) | told
    return table


def tells(name: str, unit: str) -> bool:
    """Whether a name tells the unit: in brackets, or at its end, where it may go on with what the unit is for.

    >>> tells("length [m]", "m"), tells("length_m", "m"), tells("fat%", "%"), tells("alarm", "m"), tells("force [N] (mean)", "N")
    (True, True, True, False, True)
    >>> tells("funding ($/pupil)", "$"), tells("dose mg/kg", "mg"), tells("force (kN)", "N"), tells("A/B test", "A")
    (True, True, False, False)
    """
    this = (r"(?<![^\W_])" if unit[:1].isalpha() else "") + re.escape(unit)
    return re.search(rf"[\[(]\s*{this}\s*[)\]]|{this}(?:\s*/[^\[\]()]*[)\]]|/\S+|[)\]])?\s*$", name) is not None


def others_than_told(units: Mapping[Any, str]) -> list[str]:
    """Names that tell another unit than stands below them, with that one.

    >>> others_than_told({"force (N)": "kN", "length (m)": "m", "people (total)": "10^6", "share [%]": "-"})
    ['force (N) [kN]']
    """
    return [
        f"{name} [{unit}]" for name, unit in units.items() if unit_of(str(name)) and _is_unit(unit) and not tells(str(name), unit)
    ]


def units_of(table: DataFrame) -> dict[str, str]:
    """What stood below the names of columns of numbers, or beside all numbers, by name; signs without a letter, such as -, are no unit."""
    return {name: unit for name, unit in table.attrs.get(UNITS, {}).items() if _is_unit(unit)}


def _is_unit(text: str) -> bool:
    return re.search(r"[^\W\d_]|[%‰°$€£¥]", text) is not None or factor_of(text) != ""


def units_row(table: DataFrame, decimal: str, numbers: Container[str] = ()) -> dict[Any, str]:
    """The words of the first row by column, if no cell of it is a number and two columns or more hold nothing but numbers below it.

    One such column is enough where all other cells of the row are empty, or the one above it is a power of ten (10^6).
    One number, such as 1000, may be a unit where words stand above the numbers of three columns or more.
    numbers: columns that are known to hold numbers, where a few cells may be none.
    """
    if len(table) < 3:
        return {}
    first = {name: value for name, value in table.iloc[0].items() if not pandas().isna(value) and str(value).strip()}
    if any(not isinstance(value, (str, int, float, np.number)) or len(str(value)) > 12 for value in first.values()):
        return {}
    alike = [name for name, value in first.items() if _begins_numbers(str(value), table[name].iloc[1:], decimal)]
    below = [name for name in text_columns(table) if name not in alike and _numbers_below(table[name], decimal, name in numbers)]
    alone = len(first) == 1 < len(table.columns)
    sure = alone or any(_is_power(without_brackets(str(first[name]))) for name in below)
    found = len(below) > 1 - sure if not alike else len(alike) == 1 and len(below) > 2
    return {name: without_brackets(str(value)) for name, value in first.items()} if found else {}


def _begins_numbers(cell: str, below: Iterable[object], decimal: str) -> bool:
    """Whether the first cell of a column is a number; 1/min and 1e3 are units, unless others end in the same or have exponents too."""
    if read_numbers([cell], decimal) is None:
        return False
    per, power = _PER.fullmatch(cell.strip()), _POWER.fullmatch(cell.strip())
    end = per[1] if per else power[1] if power else None
    others = [str(value).strip() for value in below] if per or power else []
    alike = (other for other in others if (end and other.endswith(end)) or (power and _WITH_EXPONENT.search(other)))
    return not (per or power) or next(alike, None) is not None


def _is_power(cell: str) -> bool:
    """Whether a cell is a power of ten, and surely no number of the table: 10^6, but not 1e3."""
    factor = factor_of(cell)
    return factor != "" and not factor.startswith("1e")


def with_power_as_written(table: DataFrame, rows: Sequence[Sequence[str]]) -> DataFrame:
    """The table with 1e3 in its first row as text, where no other number stands in that row: it may be a unit, and was read as 1000.

    rows: the cells of the first rows as they are written.
    """
    first, *below = rows if rows and len(rows[0]) == len(table.columns) else [[]]
    powers = [place for place, cell in enumerate(first) if _POWER.fullmatch(cell.strip())]
    others = [cell for place, cell in enumerate(first) if place not in powers]
    if not powers or not others or any(read_numbers([cell]) for cell in others):
        return table
    table = table.copy(deep=False)
    for place in powers:
        column = table.iloc[:, place]
        exponents = any(_WITH_EXPONENT.search(row[place]) for row in below if place < len(row))
        if pandas().api.types.is_numeric_dtype(column.dtype) and not exponents:
            table.isetitem(place, pandas().Series([first[place].strip(), *column.iloc[1:]], index=column.index, dtype=object))
    return table


def with_powers_as_numbers(table: DataFrame) -> DataFrame:
    """What `with_power_as_written` changed as it was read, where the first row holds no units after all."""
    changed = {
        name: pandas().to_numeric(table[name])
        for name in text_columns(table)
        if len(table) and _POWER.fullmatch(str(table[name].iloc[0])) and not any(isinstance(v, str) for v in table[name].iloc[1:])
    }
    return table.assign(**changed) if changed else table


def _numbers_below(values: Iterable[object], decimal: str, known: bool) -> bool:
    first, *below = values
    if not isinstance(first, str) or first.strip() in NO_VALUE:
        return False
    found = read_known_numbers(below, decimal) if known else read_numbers(below, decimal)
    return found is not None and bool(np.isfinite(found.numbers).mean() > 0.5)


def text_columns(table: DataFrame) -> list[Any]:
    """Names of columns that pandas has read as text or as a mixture."""
    types = pandas().api.types
    return [
        name for name in table.columns if types.is_object_dtype(table[name].dtype) or types.is_string_dtype(table[name].dtype)
    ]
