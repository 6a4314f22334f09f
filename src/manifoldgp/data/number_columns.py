"""Tables whose texts are read as numbers: a row of units below the names is left out, and a warning says what was read how."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from manifoldgp._system.plain_text import name_in
from manifoldgp.data.codes import padded
from manifoldgp.data.dates import are_months, holds_times, pandas
from manifoldgp.data.decimal_signs import NO_SIGNS, DecimalSign, KnownSigns, means_either
from manifoldgp.data.no_values import NO_VALUE, NOTHING_OR_WORDS
from manifoldgp.data.units import others_than_told, tells, text_columns, units_row, with_powers_as_numbers, with_units
from manifoldgp.data.written_numbers import Written, plain_number, read_known_numbers, read_numbers
from manifoldgp.errors import warn

if TYPE_CHECKING:
    from pandas import DataFrame, Series


_SIGNS = "decimal signs"
"""Under which name a DataFrame's attrs keep by which it was read."""

_ROWS_WITH_SIGNS = 1000
"""Rows, the first, that show whether a table has decimals."""


class Reading(NamedTuple):
    """How the table of a fit was read, by which another one is read where its own cells leave something open.

    units: the columns that held numbers, and the unit of each, "" where none is known. signs: its decimal signs.
    categories: of every input, none of those that are numbers and the like.
    """

    units: Mapping[str, str] = MappingProxyType({})
    signs: KnownSigns = NO_SIGNS
    categories: Mapping[str, tuple[str, ...]] = MappingProxyType({})

    @property
    def words(self) -> dict[str, bool]:
        """Whether None, null or the like is a category, by column; of others the table itself tells."""
        return {name: not set(NOTHING_OR_WORDS).isdisjoint(own) for name, own in self.categories.items()}


class Numbered(NamedTuple):
    """A table whose texts were read as numbers, and the texts of its columns that have a unit beside the numbers, by name."""

    table: DataFrame
    texts: dict[str, Series]


def with_numbers(table: DataFrame, found: DecimalSign, file: str, like: Reading, tell: Callable[[str], None] = warn) -> Numbered:
    """The table with columns of such texts as numbers and without a row of units; a warning says what was read how.

    In columns that are known to hold numbers, cells that are none stay as they are; others with such cells are left alone.

    Parameters
    ----------
    table
        As it was read, with different names.
    found
        The file's decimal sign.
    file
        What the warning calls it.
    like
        How a table of its kind was read.
    tell
        What is called with what there is to say.
    """
    decimal, told_here = found.sign, found.looked_for and not found.unclear
    signs = KnownSigns(decimal) if told_here else like.signs
    units = units_row(table, decimal, like.units)
    if units:
        tell(
            f"The first row of {file} holds units or words ({', '.join(units.values())}); it is left out, and rows are counted below it."
        )
        table = table.iloc[1:].reset_index(drop=True)
        others = {str(name): column.infer_objects() for name, column in table.items() if name not in units}  # true and false, too
        table = table.assign(**others)
        table = table.assign(**{str(name): _as_whole(column.to_numpy()) for name, column in table.select_dtypes("float").items()})
    else:
        table = with_powers_as_numbers(table)
    texts = {name: _known(table[name]) for name in text_columns(table)}
    codes = {str(name): known for name, known in texts.items() if padded(known.dropna()) or are_months(known.dropna())}
    read = {
        name: column
        for name in texts
        if name not in codes and (column := _read(table[name], decimal, signs, like.units)) is not None
    }
    examples = {name: column.example for name, column in read.items() if column.example}
    if examples:
        as_before = not told_here and any(means_either(example) and signs.of(str(name)) for name, example in examples.items())
        said = [f"{name} ({_quoted(cell)} is {_in_full(_first(read[name], table[name]))})" for name, cell in examples.items()]
        tell(f"Texts in {file} are read as numbers{', points and commas as at the fit' * as_before}: {', '.join(said)}.")
    changed: dict[str, Any] = codes | {str(name): _as_numbers(table[name], column, decimal) for name, column in read.items()}
    if decimal == ",":
        others = [name for name in texts if name not in read and name not in codes]
        changed |= {str(name): table[name].map(_with_point) for name in others}
    beside_texts = {str(name): _written(table[name], column, decimal) for name, column in read.items() if column.unit}
    shown = KnownSigns(_plain_sign(table, found, read.values()), tuple((str(n), c.decimal) for n, c in read.items() if c.decimal))
    table = with_signs(table.assign(**changed) if changed else table, shown)
    beside = {name: column.unit for name, column in read.items() if column.unit}
    below = {name: unit for name, unit in units.items() if name in read}
    if others := others_than_told(beside | below):
        tell(f"{file} has other units below names than in these, and those below count: {', '.join(others)}.")
    return Numbered(with_units(table, beside | below), beside_texts)


def with_words(table: DataFrame, written: DataFrame, like: Reading) -> DataFrame:
    """The table with None, null and the like as texts in columns of words, and as gaps elsewhere.

    written: columns of the table that may be such, where only `GAPS` are missing.
    """
    changed, known = {}, like.words
    for name, cells in written.items():
        words = cells.isin(NOTHING_OR_WORDS)
        if words.any() and _holds_words(cells.mask(words).dropna(), known.get(name_in(str(name)))):
            changed[name] = table[name].astype(object).where(~words, cells)
    return table.assign(**changed) if changed else table


def _holds_words(cells: Series, known: bool | None) -> bool:
    """Whether the other cells of a column with None or null are words, if that is not known: neither numbers nor dates, nor true and false."""
    if known is not None:
        return known
    texts = list(cells)
    if any(not isinstance(cell, str) for cell in texts) or {cell.strip().casefold() for cell in texts} <= {"true", "false"}:
        return False
    below = (texts[start:] for start in (0, 1, 2))  # two rows of names, or one, and units
    return all(read_numbers(part) is None for part in below) and not holds_times(cells)


def with_signs(table: DataFrame, signs: KnownSigns) -> DataFrame:
    """The table, which keeps by which decimal signs it was read."""
    table.attrs.pop(_SIGNS, None)
    table.attrs |= {_SIGNS: signs.to_plain()} if any(signs) else {}
    return table


def signs_of(table: DataFrame) -> KnownSigns:
    """By which decimal signs a table was read, as far as it shows any."""
    return KnownSigns.from_plain(table.attrs[_SIGNS]) if _SIGNS in table.attrs else NO_SIGNS


def _plain_sign(table: DataFrame, found: DecimalSign, texts: Iterable[Written]) -> str:
    """The file's decimal sign, where cells had to tell it and some have one."""
    floats = table.select_dtypes("float").head(_ROWS_WITH_SIGNS)
    some = any(column.decimal == found.sign for column in texts) or bool((floats % 1 > 0).to_numpy().any())
    return found.sign if found.looked_for and some else ""


def _read(values: Any, decimal: str, signs: KnownSigns, units: Mapping[str, str]) -> Written | None:
    """A column of texts as numbers. signs: tried first; units: those of columns that are known to hold numbers."""
    cells, name = list(values), str(values.name)
    found = read_numbers(cells, decimal, signs.of(name))
    if found is not None or name not in units:
        return found
    return read_known_numbers(cells, decimal, signs.of(name), lambda unit: unit == units[name] or tells(name, unit))


def _as_numbers(values: Any, found: Written, decimal: str) -> Any:
    """The numbers (n,) of a column; where some cells are none, all as texts with decimal points, and these as they are.

    >>> found = Written(np.array([1250.0, np.nan, np.nan, 7.0]), "1.250", "", odd=(1,))
    >>> _as_numbers(pandas().Series(["1.250", "n.a.%", "?", "7"]), found, ",").tolist()
    ['1250', 'n.a.%', nan, '7']
    """
    if not found.odd:
        return _as_whole(found.numbers)
    cells: list[Any] = [math.nan if math.isnan(number) else _in_full(number) for number in found.numbers]
    for row, value in enumerate(values):
        if isinstance(value, str) and plain_number(value, ".") == found.numbers[row]:
            cells[row] = value
    for row in found.odd:
        cells[row] = _with_point(values.iloc[row]) if decimal == "," else values.iloc[row]
    return pandas().Series(cells, index=values.index, dtype=object)


def _written(values: Any, found: Written, decimal: str) -> Series:
    """Numbers and their unit as they are written in a table with decimal points, as all who read the column later expect them.

    >>> cells = pandas().Series(["3.500,5 kg", "4 kg", "?"])
    >>> _written(cells, Written(np.array([3500.5, 4.0, np.nan]), "3.500,5 kg", "kg"), ",").tolist()
    ['3500.5 kg', '4 kg', '?']
    """
    if "," not in (decimal, found.decimal):
        return values
    pairs = zip(found.numbers, values, strict=True)
    cells = [value if math.isnan(number) else f"{_in_full(number)} {found.unit}" for number, value in pairs]
    return pandas().Series(cells, index=values.index, dtype=object)


_COMMA = re.compile(r"(\s*[-+]?\d*),(\d+(?:[eE][-+]?\d+)?\s*)")


def _with_point(value: object) -> object:
    """A number with a decimal comma with a point, as all who read it later expect it; everything else as it is.

    >>> [_with_point(value) for value in ("1,5", "-,5e3", "<2,0", "1.234,5", 7)]
    ['1.5', '-.5e3', '<2,0', '1.234,5', 7]
    """
    found = _COMMA.fullmatch(value) if isinstance(value, str) else None
    return value if found is None else f"{found[1]}.{found[2]}"


def _as_whole(numbers: np.ndarray) -> np.ndarray:
    """Numbers that are all whole as integers, as pandas reads them where there is nothing else: 1001 is written again as it was.

    >>> _as_whole(np.array([1001.0, 0.0])), _as_whole(np.array([1.0, np.nan]))
    (array([1001,    0]), array([ 1., nan]))
    """
    return numbers.astype(np.int64) if np.all((numbers % 1 == 0) & (np.abs(numbers) < 2**53)) else numbers


def _known(values: Any) -> Series:
    """Texts without blanks around them, and nothing where they stand for that."""
    plain = values.map(lambda value: value.strip() if isinstance(value, str) else value)
    return plain.mask(plain.map(lambda value: isinstance(value, str) and value.casefold() in NO_VALUE))


def _quoted(text: str) -> str:
    """A text in quotes, with spaces of every width as plain ones."""
    return repr(re.sub(r"\s", " ", text))


def _in_full(value: float) -> str:
    """A number with all its digits, and no point behind a whole one.

    >>> _in_full(11903.02), _in_full(1158.0), _in_full(12345678.0), _in_full(2.5e-9)
    ('11903.02', '1158', '12345678', '2.5e-09')
    """
    return repr(float(value)).removesuffix(".0")


def _first(found: Written, values: Iterable[object]) -> float:
    return float(found.numbers[next(row for row, value in enumerate(values) if value == found.example)])
