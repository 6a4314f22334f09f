"""Numbers as people write them in tables: with thousands separators, a currency, a percent sign or a unit; a row of units below the names; signs for "no value"."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from manifoldgp._system.plain_text import name_in, unit_of, without_brackets
from manifoldgp.data.codes import padded
from manifoldgp.data.dates import are_months, pandas
from manifoldgp.errors import warn

if TYPE_CHECKING:
    from pandas import DataFrame, Series

ERROR_CELLS = (
    "#DIV/0!", "#N/A", "#NAME?", "#NULL!", "#NUM!", "#REF!", "#VALUE!", "#SPILL!", "#CALC!", "#NV", "#BEZUG!", "#WERT!", "#ZAHL!", "#ÜBERLAUF!",
    "#NOM?", "#NOMBRE!", "#NUL!", "#VALEUR!",
)  # fmt: skip
"""What spreadsheets show where a formula has no value, in English, German and French. Their own files say it in another way, which pandas reads as a gap."""

NO_VALUE = {
    "?",
    "-",
    "--",
    "–",
    "—",
    ".",
    "n.a.",
    "n. a.",
    "n/a",
    "na",
    "k.a.",
    "k. a.",
    "nan",
    "",
    *map(str.casefold, ERROR_CELLS),
}
"""Signs for "no value" among numbers, in small letters."""

_CURRENCY = "$€£¥"
_UNIT = r"(?!(?:[aApP][mM]|[eE])$)(?:[^\W\d_]|[°%‰µΩ/²³·$€£¥]){0,10}"
"""What may stand behind a number: a word or signs. Not half a time of day."""

UNITS = "units"
"""Under which name a DataFrame's attrs keep those of its columns."""

_PER = re.compile(r"1\s*(/\s*(?:[^\W\d_]|[°%‰]).*)")
"""A unit that begins like a number: 1/min."""

_SPACES = "'’ \u00a0\u202f"


class Written(NamedTuple):
    """A column of texts read as numbers (n,), one of the texts that is no plain number, if there is one, and the sign or word that stands beside them."""

    numbers: np.ndarray
    example: str | None
    unit: str


def _form(decimal: str) -> re.Pattern[str]:
    """What a number looks like if that is its decimal sign: thousands are groups of three after a first group that does not begin with 0."""
    thousands = f"[{',' if decimal == '.' else '.'}{_SPACES}]"
    whole = rf"[1-9]\d{{0,2}}(?:{thousands}\d{{3}})+|\d+"
    number = rf"(?:(?:{whole})(?:{re.escape(decimal)}\d*)?|{re.escape(decimal)}\d+)(?:[eE][-+]?\d+)?"
    return re.compile(rf"(?P<sign>[-+−]?)\s*(?P<before>[{_CURRENCY}]?)\s*(?P<number>{number})\s*(?P<unit>{_UNIT})")


_FORMS = {decimal: _form(decimal) for decimal in ".,"}
_SMALL = re.compile(r"(?!99+$)\d{1,3}")
"""Numbers that thousands separators leave alone; nines stand for "no value" as a rule."""

_SEVERAL = 3
"""Cells with a point in front of three digits from which on 999 and less beside them say what it means."""


class DecimalSign(NamedTuple):
    """A point or a comma, and where no cell said which: places of columns, and a cell of each that could mean either, as 1,250 could."""

    sign: str
    unclear: Mapping[int, str] = MappingProxyType({})


def decimal_sign(rows: Iterable[Sequence[str]], usual: str = ",") -> DecimalSign:
    """The decimal sign of rows of cells that no comma separates: the one that more of them can only have, as 0,5 or 1.250,0 a comma.

    Where 1,250 says neither: the usual one; but where there are 999 and less in its column too, written without a comma, it separates thousands, and
    the point is the decimal sign of all columns, as it is where there is 1,250,000. So it is with several cells like 1.250 and the comma; without 999 and less, the point is a decimal point there.

    >>> decimal_sign([["0,5", "1,250"]]).sign, decimal_sign([["1.5", "1,250"]]).sign, decimal_sign([["1,250"], ["120"]]).sign
    (',', '.', '.')
    >>> decimal_sign([["1.250 €"], ["1.300 €"], ["2.100 €"], ["957 €"]]).sign, decimal_sign([["1.250"], ["1.300"], ["0.100"], ["957"]]).sign
    (',', '.')
    >>> decimal_sign([["1,250"], ["1,300"]]), decimal_sign([["A", "1.250"], ["B", "1.300"]])
    (DecimalSign(sign=',', unclear={0: '1,250'}), DecimalSign(sign='.', unclear={1: '1.250'}))
    """
    only, points, grouped = Counter[str](), Counter[int](), set[str]()
    commas: dict[int, str] = {}
    pointed: dict[int, str] = {}
    small, above_zero, large = set[int](), set[int](), set[int]()
    for row in rows:
        for place, cell in enumerate(map(str.strip, row)):
            found = {sign: match for sign in ".," if (match := _FORMS[sign].fullmatch(cell))}
            number = next((match["number"] for match in found.values()), "")
            if len(found) == 1 and set(found) & set(cell):
                only.update(found.keys())
            elif "e" in number.casefold() and (signs := set(number) & {".", ","}):
                only.update(signs)
            elif len(found) == 1 and {".", ","} & set(number):  # 1.250.000
                grouped |= set(found)
            elif "," in number:
                commas.setdefault(place, cell)
            elif "." in number:
                pointed.setdefault(place, cell)
                points[place] += 1
            elif _SMALL.fullmatch(number):
                small.add(place)
                if not number.startswith("0"):
                    above_zero.add(place)
            elif number.isdigit() and len(number) > 3:
                large.add(place)
    if only:
        return DecimalSign("," if only[","] >= only["."] else ".")
    if small & set(commas) or "." in grouped:
        return DecimalSign(".")
    if "," in grouped or any(count >= _SEVERAL and place in above_zero - large for place, count in points.items()):
        return DecimalSign(",")
    return DecimalSign(usual if commas else ".", commas | pointed)


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
            match = _FORMS[decimal].fullmatch(value.strip())
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
    digits = re.sub(rf"[{',' if decimal == '.' else '.'}{_SPACES}]", "", match["number"]).replace(decimal, ".")
    return float(digits) * (-1.0 if match["sign"] in ("-", "−") else 1.0)


def signs_of_nothing(categories: Sequence[str]) -> list[str]:
    """Categories that stand for "no value" as a rule, where all others are words.

    >>> signs_of_nothing(["-", "agree", "disagree"]), signs_of_nothing(["-", "+"]), signs_of_nothing(["-"])
    (['-'], [], [])
    """
    signs = [category for category in categories if category.strip().casefold() in NO_VALUE]
    words = [category for category in categories if category not in signs]
    return signs if words and all(any(map(str.isalnum, word)) for word in words) else []


_COMMA = re.compile(r"(\s*[-+]?\d*),(\d+(?:[eE][-+]?\d+)?\s*)")


def _with_point(value: object) -> object:
    """A number with a decimal comma with a point, as all who read it later expect it; everything else as it is.

    >>> [_with_point(value) for value in ("1,5", "-,5e3", "<2,0", "1.234,5", 7)]
    ['1.5', '-.5e3', '<2,0', '1.234,5', 7]
    """
    found = _COMMA.fullmatch(value) if isinstance(value, str) else None
    return value if found is None else f"{found[1]}.{found[2]}"


def looks_like_number(text: str) -> bool:
    """Whether a text is a number by one decimal sign or the other, perhaps with a currency or a percent sign; 12A is a name rather.

    >>> [looks_like_number(text) for text in ("1.234,5", "$12", "5 %", "12A", "n. b.", "12:30")]
    [True, True, True, False, False, False]
    """
    found = next((match for form in _FORMS.values() if (match := form.fullmatch(text.strip()))), None)
    return found is not None and not any(map(str.isalpha, found["unit"]))


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


class Numbered(NamedTuple):
    """A table whose texts were read as numbers, and the texts of its columns that have a unit beside the numbers, by name."""

    table: DataFrame
    texts: dict[str, Series]


def with_numbers(table: DataFrame, decimal: str, file: str) -> Numbered:
    """The table with columns of such texts as numbers and without a row of units; a warning says what was read how.

    Parameters
    ----------
    table
        As it was read, with different names.
    decimal
        The file's decimal sign, a point or a comma.
    file
        What the warning calls it.
    """
    units = _units_row(table, decimal)
    if units:
        warn(
            f"The first row of {file} holds units or words ({', '.join(units.values())}); it is left out, and rows are counted below it."
        )
        table = table.iloc[1:].reset_index(drop=True)
        others = {str(name): column.infer_objects() for name, column in table.items() if name not in units}  # true and false, too
        table = table.assign(**others)
        table = table.assign(**{str(name): _as_whole(column.to_numpy()) for name, column in table.select_dtypes("float").items()})
    texts = {name: _known(table[name]) for name in _text_columns(table)}
    codes = {str(name): known for name, known in texts.items() if padded(known.dropna()) or are_months(known.dropna())}
    read = {
        name: found for name in texts if name not in codes and (found := read_numbers(list(table[name]), decimal)) is not None
    }
    said = [
        f"{name} ({_quoted(found.example)} is {_in_full(_first(found, table[name]))})"
        for name, found in read.items()
        if found.example
    ]
    if said:
        warn(f"Texts in {file} are read as numbers: {', '.join(said)}.")
    changed: dict[str, Any] = codes | {str(name): _as_whole(found.numbers) for name, found in read.items()}
    if decimal == ",":
        others = [name for name in texts if name not in read and name not in codes]
        changed |= {str(name): table[name].map(_with_point) for name in others}
    beside_texts = {str(name): _written(table[name], found, decimal) for name, found in read.items() if found.unit}
    table = table.assign(**changed) if changed else table
    beside = {name: found.unit for name, found in read.items() if found.unit}
    below = {name: unit for name, unit in units.items() if name in read}
    return Numbered(with_units(table, beside | below), beside_texts)


def _written(values: Any, found: Written, decimal: str) -> Series:
    """Numbers and their unit as they are written in a table with decimal points, as all who read the column later expect them.

    >>> cells = pandas().Series(["3.500,5 kg", "4 kg", "?"])
    >>> _written(cells, Written(np.array([3500.5, 4.0, np.nan]), "3.500,5 kg", "kg"), ",").tolist()
    ['3500.5 kg', '4 kg', '?']
    """
    if decimal == ".":
        return values
    pairs = zip(found.numbers, values, strict=True)
    cells = [value if math.isnan(number) else f"{_in_full(number)} {found.unit}" for number, value in pairs]
    return pandas().Series(cells, index=values.index, dtype=object)


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


def units_of(table: DataFrame) -> dict[str, str]:
    """What stood below the names of columns of numbers, or beside all numbers, by name; signs without a letter, such as -, are no unit."""
    said = table.attrs.get(UNITS, {})
    return {name: unit for name, unit in said.items() if re.search(r"[^\W\d_]|[%‰°$€£¥]", unit)}


def _units_row(table: DataFrame, decimal: str) -> dict[Any, str]:
    """The words of the first row by column, if no cell of it is a number and two columns or more hold nothing but numbers below it, or one where all other cells are empty.

    One number, such as 1e-5, may be a unit where words stand above the numbers of three columns or more.
    """
    if len(table) < 3:
        return {}
    first = {name: value for name, value in table.iloc[0].items() if not pandas().isna(value) and str(value).strip()}
    if any(not isinstance(value, (str, int, float, np.number)) or len(str(value)) > 12 for value in first.values()):
        return {}
    alike = [name for name, value in first.items() if _begins_numbers(str(value), table[name].iloc[1:], decimal)]
    below = [name for name in _text_columns(table) if name not in alike and _numbers_below(table[name], decimal)]
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


def _text_columns(table: DataFrame) -> list[Any]:
    """Names of columns that pandas has read as text or as a mixture."""
    types = pandas().api.types
    return [
        name for name in table.columns if types.is_object_dtype(table[name].dtype) or types.is_string_dtype(table[name].dtype)
    ]
