"""Rows at the end of a table that sum up those above: totals and means, which are no rows of their own."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from manifoldgp._system.plain_text import listed_names, verb
from manifoldgp.data.columns import UNNAMED, column_of, missing_in, text
from manifoldgp.data.dates import pandas
from manifoldgp.errors import warn

if TYPE_CHECKING:
    from pandas import DataFrame, Series

_MOST_SUMMARIES, _MOST_CALLED = 4, 9
"""Rows of sums and means that a table ends in, at most, and of all that are called so or stand below such a row."""

_BY_CHANCE = 1e-3
"""A row that is the mean of the others to so many digits that one in a thousand would be by chance is no row of its own."""

_ABOUT_SUM, _ABOUT_MEAN = 0.1, 0.1
"""How far a number may be from the sum, in shares of it, and from the mean, in standard deviations, where its row is called a total or a mean."""

_NAMES = frozenset((
    "average", "averages", "avg", "durchschnitt", "mean", "means", "media", "mittel", "mittelwert", "mittelwerte", "moyenne", "promedio", "ø",
    "gesamt", "gesamtsumme", "insgesamt", "somme", "sum", "suma", "summe", "sums", "total", "totale", "totals", "σ", "∑",
))  # fmt: skip
"""Words that such a row has in a column of texts, in small letters."""

_BESIDE = frozenset((
    "abw", "anzahl", "coefficient", "count", "cv", "dev", "deviation", "err", "error", "iqr", "kurtosis", "mad", "max", "maximum", "median", "min",
    "minimum", "n", "percentile", "perzentil", "quantil", "quantile", "quartil", "quartile", "range", "sd", "se", "sem", "skew", "skewness",
    "spannweite", "st", "stabw", "standard", "standardabweichung", "standardfehler", "std", "stdabw", "stddev", "stderr", "stdev", "var", "variance",
    "varianz", "variation", "%",
))  # fmt: skip
"""What stands in rows beside them: they are no rows of their own where one of the others is there. % stands for a quantile, such as Q1 or 25%."""

_ALSO_LABELS = frozenset(("abw", "dev", "err", "error", "range", "st", "standard", "var", "%"))
"""Those of them that alone name rows of a table as well, such as a quarter, Q4: they begin no sums and means."""

_DOTTED = re.compile(r"\b([^\W\d])\.(?=[^\W\d]\b)")
"""A letter of an abbreviation such as S.D."""

_QUANTILE = re.compile(r"\bq[1-4]\b|\b\d{1,2}([.,]\d+)?\s?%")

_NOTE = re.compile(r"\s*[*†‡].*|.*\S[\s:]+\S.*", re.DOTALL)
"""A text below a table that tells something of it: several words, or one with a star."""

_WITH = frozenset(("aller", "all", "der", "grand", "of", "overall", "rows", "the", "values", "werte", "zeilen"))
"""Words beside these that leave a text the name of such a row: grand total, mean of all rows."""


class SummaryRows(NamedTuple):
    """Rows at the end of a table, by their names in its index.

    Parameters
    ----------
    rows
        Those that are certainly no rows of their own: sums, and means that are called so or lack a text where all others have one.
    names
        What these are called in the table, where they are.
    means
        Those that are means of all rows above, and may be rows all the same: a centre point of an experiment is one.
    called
        Those that are called sums or means, or stand below such a row, and have other numbers, with their names.
    notes
        Those below the table that hold one text and nothing else, such as a source, with these.
    """

    rows: tuple[Any, ...] = ()
    names: tuple[str, ...] = ()
    means: tuple[Any, ...] = ()
    called: tuple[tuple[Any, str], ...] = ()
    notes: tuple[tuple[Any, str], ...] = ()

    @property
    def out(self) -> tuple[Any, ...]:
        """All rows that are certainly no rows of the table."""
        return (*self.rows, *(row for row, _ in self.notes))


class _Row(NamedTuple):
    """What a row is: "sum", "mean", or "about" these where it is called so, else ""; its name; whether it says that it is no row of its own, by that or by an empty cell.

    Not beside: a row like any other, below one that is none.
    """

    kind: str
    name: str
    described: bool
    beside: bool = True


def tell_summaries(found: SummaryRows, file: str) -> None:
    """Which rows at the end of a file's table are sums or means of those above, and left out, and which may be."""
    if found.rows:
        names = f" ({listed_names(found.names)})" if found.names else ""
        which, count = _which(found.rows, file), len(found.rows)
        warn(
            f"{which}{names} {verb(count, 'holds', 'hold')} sums or means of the rows above, and {verb(count, 'is', 'are')} left out."
        )
    if found.means:
        which, count = _which(found.means, file), len(found.means)
        warn(
            f"{which} {verb(count, 'holds', 'hold')} means of all rows above, and {verb(count, 'is', 'are')} kept, as the centre point of an experiment is one too. "
            f"If nothing was measured there, remove {verb(count, 'this row', 'these rows')} from the table."
        )
    if found.notes:
        which, count = _which(tuple(row for row, _ in found.notes), file), len(found.notes)
        texts = listed_names([repr(_shortened(text)) for _, text in found.notes])
        warn(
            f"{which} {verb(count, 'holds', 'hold')} a text and nothing else ({texts}), and {verb(count, 'is', 'are')} left out."
        )
    for row, name in found.called:
        called = f"is called {name!r}, and " if name else ""
        warn(
            f"{_which((row,), file)} {called}is kept, as its numbers are neither sums nor means of the rows above. Remove it from the table if it is no row of its own."
        )


def _which(rows: tuple[Any, ...], file: str) -> str:
    return f"{verb(len(rows), 'Row', 'Rows')} {listed_names([str(row + 1) for row in rows])} at the end of {file}"


def summary_rows(table: DataFrame, categories: Mapping[str, Collection[str]] = MappingProxyType({})) -> SummaryRows:
    """The rows at the end that are sums or means of all rows above in their numbers, as far as they have some, or are called so.

    categories: of columns, by name, that are known to have some: there Total is a company, if rows of it were seen, and names no sum.

    >>> rows = np.random.default_rng(0).normal(5.0, 2.0, (20, 3)).round(2)
    >>> summary_rows(pandas().DataFrame(rows)).rows, summary_rows(pandas().DataFrame(np.r_[rows, [rows.sum(0)], [rows.mean(0).round(2)]])).rows
    ((), (20, 21))
    """
    known = {name: own for name, own in categories.items() if own and name in table}
    table = table.assign(**{name: _masked(column_of(table, name), own) for name, own in known.items()})
    named = [column_of(table, name) for name in table.columns if not UNNAMED.fullmatch(str(name))]
    numbers = [column for column in named if _holds_numbers(column)]
    texts = [column_of(table, name) for name in table.columns if not _holds_numbers(column_of(table, name))]
    end, notes = _without_notes(table, numbers, texts)
    kept = SummaryRows()
    for count in range(min(_MOST_CALLED, end // 2), 0, -1):
        found = _found(end - count, end, numbers, texts)
        if found:
            decided = _decided(list(table.index[end - count : end]), found)
            if decided.rows:
                return decided._replace(notes=notes)
            kept = kept if any(kept) else decided
    called = tuple(
        (table.index[row], name)
        for row in range(end - min(_MOST_CALLED, end // 2), end)
        if not _NAMES.isdisjoint(_words(name := _name(row, row, texts))) and table.index[row] not in kept.means
    )
    return kept._replace(called=called, notes=notes)


def _masked(column: Series, known: Collection[str]) -> Series:
    """A column of categories with nothing to read in those that are known, where a table may end in notes and sums."""
    masked = column.astype(object)
    last = masked.iloc[-2 * _MOST_CALLED :]
    masked.iloc[-2 * _MOST_CALLED :] = ["·" if text(cell) in known else cell for cell in last]
    return masked


def _without_notes(table: DataFrame, numbers: list[Series], texts: list[Series]) -> tuple[int, tuple[tuple[Any, str], ...]]:
    """Where the table ends but for empty rows and notes below it, and these: rows with one text, of several words, where all above have more."""
    end, notes = len(table), []
    while end and len(notes) < _MOST_CALLED:
        row = table.iloc[end - 1]
        known = row[~row.isna()]
        if len(known) > 1 or (len(known) and not (isinstance(known.iloc[0], str) and _NOTE.fullmatch(known.iloc[0]))):
            break
        if len(known):
            notes.append((table.index[end - 1], known.iloc[0].strip()))
        end -= 1
    if not notes:
        return end, ()
    if end < 2 or len(numbers) + len(texts) < 3 or (table.iloc[:end].notna().sum(axis=1) == 1).any():
        return len(table), ()
    return end, tuple(reversed(notes))


def _found(start: int, end: int, numbers: list[Series], texts: list[Series]) -> list[_Row]:
    """What each of the last rows is, with those above their start as the table; none where one is a row like any other, unless a row above it is certainly a sum or a mean."""
    found: list[_Row] = []
    for row in range(start, end):
        told = _told(row, start, numbers, texts)
        sure = any(above.kind and above.name for above in found)
        named = bool(told.name) or (bool(told.kind) and end - start <= _MOST_SUMMARIES)
        label = row == start and len(words := _words(told.name)) == 1 and words[0] in _ALSO_LABELS
        if label or not (named or sure):
            return []
        found.append(told if named or told.kind else told._replace(name=_first_text(row, texts), beside=False))
    return found


def _first_text(row: int, texts: list[Series]) -> str:
    """The first text of a row, "" where it has none."""
    return next((cell.strip() for column in texts if isinstance(cell := column.iloc[row], str) and cell.strip()), "")


def _shortened(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."


def _decided(rows: list[Any], found: list[_Row]) -> SummaryRows:
    """Which of the last rows are certain: all beside an exact sum, else those that say so, and those with a name beside them."""
    sums = any(row.kind == "sum" for row in found)
    sure = any(row.kind and row.name for row in found)
    out = [row.beside and (sums or bool(row.kind and row.described) or (sure and bool(row.name))) for row in found]
    each = list(zip(rows, found, out, strict=True))
    return SummaryRows(
        tuple(name for name, _, certain in each if certain),
        tuple(row.name for _, row, certain in each if certain and row.name),
        tuple(name for name, row, certain in each if not certain and row.kind),
        tuple(
            (name, row.name)
            for name, row, certain in each
            if not certain and not row.kind and not (row.beside and _NAMES.isdisjoint(_words(row.name)))
        ),
    )


def _told(row: int, above: int, numbers: list[Series], texts: list[Series]) -> _Row:
    """What a row is, by its place, of so many rows above."""
    name = _name(row, above, texts)
    kind, columns = _kind(row, above, numbers)
    described = bool(kind) and any(_describes(column.iloc[row], column.iloc[:above]) for column in texts)
    if kind and (columns > 1 or described):
        return _Row(kind, name, described)
    about = not _NAMES.isdisjoint(_words(name)) and _is_about(row, above, numbers)
    return _Row("about", name, True) if about else _Row("", name, False)


def _name(row: int, above: int, texts: list[Series]) -> str:
    """The text that says of a row what it sums up, and nothing else: Total, mean of all rows. No row above has it."""
    for column in texts:
        cell = column.iloc[row]
        words = set(_words(cell))
        if words & (_NAMES | _BESIDE) and words <= _NAMES | _BESIDE | _WITH and not (column.iloc[:above] == cell).any():
            return cell.strip()
    return ""


def _words(cell: object) -> list[str]:
    """The words of a text in small letters, % for a quantile.

    >>> _words("Std. Dev."), _words("S.E.M."), _words("Q1"), _words("25%"), _words("Mean (n=50)")
    (['std', 'dev'], ['sem'], ['%'], ['%'], ['mean', 'n'])
    """
    if not isinstance(cell, str):
        return []
    return re.findall(r"[^\W\d]+|[∑%]", _QUANTILE.sub("%", _DOTTED.sub(r"\1", cell.casefold())))


def _describes(cell: Any, above: Series) -> bool:
    """Whether a cell of texts or dates says that its row sums up those above: by a word that none of them has, or by being empty where none of them is."""
    if missing_in(pandas().Series([cell])).any():
        return not missing_in(above).any()
    return not _NAMES.isdisjoint(_words(cell)) and not (above == cell).any()


@np.errstate(all="ignore")  # sums of the largest numbers
def _kind(row: int, above: int, numbers: list[Series]) -> tuple[str, int]:
    """What a row is of so many above, "mean" or "sum", as far as its digits tell, and hardly by chance, and in how many columns; "" for neither. Most rows are neither by the first column."""
    kinds, by_chance, varying = {"mean": np.mean, "sum": np.sum}, 1.0, 0
    for column in numbers:
        value, known = _cell(row, above, column)
        if known is None or _counts_on(row, above, column):
            continue
        digit = 0.5 * _last_digit(value)
        kinds = {kind: f for kind, f in kinds.items() if abs(value - f(known)) <= 1.01 * digit + 1e-9 * abs(f(known))}
        if not kinds:
            return "", 0
        by_chance *= min(1.0, 2.0 * digit / max(float(known.std()), digit))
        varying += 1
    return (next(iter(kinds)), varying) if varying and by_chance < _BY_CHANCE else ("", 0)


@np.errstate(all="ignore")
def _is_about(row: int, above: int, numbers: list[Series]) -> bool:
    """Whether most numbers of a row are about sums or means, or lie as far beyond all others as sums of more rows do."""
    near: list[bool] = []
    for column in numbers:
        value, known = _cell(row, above, column)
        if known is not None and not _counts_on(row, above, column):
            off, total, spread = abs(value - known.mean()), float(known.sum()), float(np.ptp(known))
            to_mean = off <= max(_ABOUT_MEAN * float(known.std()), 0.51 * _last_digit(value))
            near.append(bool(to_mean or abs(value - total) <= _ABOUT_SUM * abs(total) or value > known.max() + spread))
    return 2 * sum(near) > len(near)


def _cell(row: int, above: int, column: Series) -> tuple[float, np.ndarray | None]:
    """A row's number and the known ones above it; None where there is none, or nothing to tell by, as all above are alike."""
    value = float(_floats(column.iloc[row : row + 1])[0])
    if not math.isfinite(value):
        return value, None
    known = _floats(column.iloc[:above])
    known = known[np.isfinite(known)]
    return value, known if len(known) and known.min() < known.max() else None


def _counts_on(row: int, above: int, column: Series) -> bool:
    """Whether a column numbers the rows, this one too."""
    first, value = _floats(column.iloc[[0, row]])
    return value == first + row and bool((np.diff(_floats(column.iloc[:above])) == 1.0).all())


def _floats(column: Series) -> np.ndarray:
    return column.to_numpy(dtype=np.float64, na_value=np.nan)


def _holds_numbers(column: Series) -> bool:
    types = pandas().api.types
    return (
        types.is_numeric_dtype(column.dtype)
        and not types.is_bool_dtype(column.dtype)
        and not types.is_complex_dtype(column.dtype)
    )


def _last_digit(value: float) -> float:
    """What one more in the last digit of a number is.

    >>> _last_digit(12.25), _last_digit(300.0)
    (0.01, 1.0)
    """
    return 1.0 if value.is_integer() else float(Decimal(1).scaleb(int(Decimal(repr(value)).as_tuple().exponent)))
