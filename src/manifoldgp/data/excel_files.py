"""Tables in Excel files: which sheet is meant, where its table begins, and percent as it is shown."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from manifoldgp._system.plain_text import NO_NAME, listed_names, verb, visible
from manifoldgp.data.columns import pandas
from manifoldgp.data.no_values import GAPS, NOTHING_OR_WORDS
from manifoldgp.data.number_columns import Reading, with_words
from manifoldgp.data.text_files import titles_above
from manifoldgp.data.units import with_units
from manifoldgp.data.written_numbers import read_numbers
from manifoldgp.errors import InputError, MissingExtraError, warn

if TYPE_CHECKING:
    from pandas import DataFrame


class SheetTable(NamedTuple):
    """The table of a sheet, the cells that it has for names, and how many lines stand above these."""

    table: DataFrame
    names: list[str]
    titles: int


def read_sheet(
    name: str, sheet: str | None, wanted: Sequence[str], names_of: Callable[[DataFrame], Sequence[str]], like: Reading
) -> SheetTable:
    """The table of one sheet of an Excel file: of the named one, else of the first that has the wanted columns, or is a table at all.

    names_of: what the columns of a table are called in the end, as its first rows tell. like: how a table of its kind was read.
    """
    try:
        import_module("openpyxl")
    except ImportError as error:
        raise MissingExtraError(
            "Excel files need openpyxl, which is not installed. Run: pip install 'manifoldgp[excel]', or save the sheet as CSV."
        ) from error
    with pandas().ExcelFile(name, engine="openpyxl") as book:
        chosen = _chosen(book, name, sheet, wanted, names_of)
        first = _beginning(book, chosen)
        titles, header = _header(first)
        found = pandas().read_excel(
            book, chosen, header=header, dtype=object, na_values=GAPS, keep_default_na=False
        )  # else codes in cells of text become numbers
        found = with_words(found.mask(found.isin(NOTHING_OR_WORDS)), found, like)
        found = _as_shown(found, book.book[chosen], header, name)
        names = _cells(first)[titles] if len(first) else []
        return SheetTable(found.dropna(how="all").infer_objects(), names, titles)  # without rows that only look used


def _chosen(
    book: Any, file: str, sheet: str | None, wanted: Sequence[str], names_of: Callable[[DataFrame], Sequence[str]]
) -> str:
    """The name of the sheet to read; a warning says which of several it is."""
    names = list(map(str, book.sheet_names))
    several = f"{file} has {len(names)} {verb(len(names), 'sheet', 'sheets')}: {', '.join(names)}."
    if sheet is not None:
        if sheet not in names:
            raise InputError(f"{several} There is no sheet {sheet!r}. Correct its name.")
        return sheet
    if len(names) == 1:
        return names[0]
    found = next((sheet for sheet in names if _is_table(_beginning(book, sheet))), names[0])
    which = "The first one" if found == names[0] else f"{found}, the first one with two columns and numbers,"
    if wanted:
        columns = {sheet: _columns(book, sheet, names_of) for sheet in names}
        having = [sheet for sheet in names if set(wanted) <= set(columns[sheet])]
        if not having:
            each = "; ".join(f"{sheet} has {listed_names(columns[sheet], 20) or 'none'}" for sheet in names)
            what = f"the {verb(len(wanted), 'column', 'columns')} {', '.join(map(repr, wanted))}"
            raise InputError(f"{several} None of them has {what}: {each}. Correct the names, or put the columns into one sheet.")
        found = found if found in having else having[0]
        which = f"{found}, which has {listed_names(wanted, 3)},"
    others = "For another one, save it as a file of its own, or name it in Python: read_table(path, sheet=...)."
    warn(f"{several} {which} is read. {others}")
    return found


def _columns(book: Any, sheet: str, names_of: Callable[[DataFrame], Sequence[str]]) -> list[str]:
    """What the columns of a sheet are called."""
    first = _beginning(book, sheet)
    if first.empty:
        return []
    found = pandas().read_excel(book, sheet, header=_header(first)[1], nrows=30, dtype=object).dropna(how="all")
    return [name for name in names_of(found) if not NO_NAME.fullmatch(name)]


def _header(first: DataFrame) -> tuple[int, int]:
    """Of the beginning of a sheet, how many lines stand above the names of the columns, and the number of the row with these."""
    titles = titles_above(_cells(first))
    return titles, int(first.index[titles]) if len(first) else 0


def _as_shown(table: DataFrame, sheet: Any, header: int, name: str) -> DataFrame:
    """The table with percent as a person reads it: a cell that shows 10 % holds 0.1, but the same sheet as CSV says 10 %, and so do units."""
    places = _in_percent(sheet, header, 30) and _in_percent(sheet, header)
    for place in places:
        column = table.iloc[:, place]
        shown = [float(f"{100 * v:.15g}") if isinstance(v, (int, float)) else v for v in column]
        table.isetitem(place, pandas().Series(shown, index=column.index, dtype=object))
    if places:
        names = ", ".join(visible(str(table.columns[place])) for place in places)
        warn(f"Numbers that {name} shows in percent are read as they are shown (10 % is 10, not 0.1): {names}.")
    return with_units(table, dict.fromkeys((table.columns[place] for place in places), "%"))


def _in_percent(sheet: Any, header: int, rows: int | None = None) -> list[int]:
    """The places of the columns that show all their numbers in percent, as far as so many rows below the names tell."""
    shown: dict[int, set[bool]] = {}
    for row in sheet.iter_rows(min_row=header + 2, max_row=None if rows is None else header + 1 + rows):
        for place, found in enumerate(row):
            if isinstance(found.value, (int, float)):
                in_percent = "%" in re.sub(
                    r'"[^"]*"|\\.', "", found.number_format
                )  # a sign in quotes is text, and scales nothing
                shown.setdefault(place, set()).add(in_percent)
    return [place for place, ways in sorted(shown.items()) if ways == {True}]


def _beginning(book: Any, sheet: str) -> DataFrame:
    """The first rows of a sheet that are not empty, names and all."""
    return pandas().read_excel(book, sheet, header=None, nrows=30).dropna(how="all")


def _cells(sheet: DataFrame) -> list[list[str]]:
    return [["" if pandas().isna(value) else str(value) for value in row] for row in sheet.astype(object).to_numpy()]


def _is_table(sheet: DataFrame) -> bool:
    """Whether the beginning of a sheet has names for two columns or more, a row with as many cells below them, and a number there: notes stand in one column, or are words."""
    rows = _cells(sheet)
    table = rows[titles_above(rows) :] if rows else []
    numbers = (cell for row in table[1:] for cell in row if cell and read_numbers([cell]) is not None)
    return len(table) > 1 and all(sum(map(bool, row)) > 1 for row in table[:2]) and next(numbers, None) is not None
