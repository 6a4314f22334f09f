"""Tables as text, the way programs and instruments write them: in several encodings, with comments, points or commas."""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import lzma
import re
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from manifoldgp._system.plain_text import name_in
from manifoldgp.data.codes import padded_cell
from manifoldgp.data.dates import without_months
from manifoldgp.data.decimal_signs import NO_SIGNS, DecimalSign, KnownSigns, decimal_sign, is_number
from manifoldgp.errors import InputError, warn

PACKED: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_NUMBER = re.compile(r"\s*[-+]?(\d+[.,]?\d*|[.,]\d+)([eE][-+]?\d+)?\s*")
_CHUNK = 2**20

_LINES_WITH_NUMBERS, _CELLS_WITH_NUMBERS = 200, 20_000
"""Lines and cells, about, whose numbers show the decimal sign."""

_LINES_WHERE_UNCLEAR = 20_000
"""Lines that are looked through where these do not show it."""

_ROWS_SHOWN = 4
"""First rows whose cells are kept as they are written."""


class Layout(NamedTuple):
    """The columns' names, whether they stand in a comment line, the numbers of the lines that are no rows, whether a cell begins with zeros, as codes and months do, and the first rows."""

    names: list[str]
    in_comment: bool
    skipped: list[int]
    padded: bool
    rows: list[list[str]]


@dataclass(frozen=True)
class TextSource:
    """Text of a file, or what standard input held, and its encoding."""

    name: str
    held: bytes | None
    encoding: str

    def opened(self) -> Any:
        """What pandas reads: the name of the file, or the bytes."""
        return self.name if self.held is None else io.BytesIO(self.held)

    def lines(self) -> Iterator[str]:
        with _binary(self.name, self.held) as file, io.TextIOWrapper(file, encoding=self.encoding) as text:
            yield from text

    def separator_and_decimal(self, tabbed: bool = False, known: KnownSigns = NO_SIGNS) -> tuple[str, DecimalSign]:
        """What the first lines use: comma and point, or semicolon or tabulator with the decimal sign that their numbers have.

        tabbed: tabulators, as the file's name says. known: the signs of another table of the kind, which decide where these lines leave it open.
        """
        lines = self._first_lines(_LINES_WITH_NUMBERS)[self.titles() :] or [""]
        header = re.sub(r"(?<=\d),(?=\d)", "", lines[0])  # the names may stand in a comment, and this be the first row
        even = [separator for separator in ";\t" if _separates(separator, lines)]  # a name or a text may hold commas too
        if not tabbed and not even and ("," in header or not (";" in header or "\t" in header)):
            return _of_single_column(lines, known) or (",", DecimalSign(".", looked_for=False))
        separator = "\t" if tabbed else even[0] if even else ";" if ";" in header else "\t"
        names = _cells(lines[0], separator)
        named = not any(_NUMBER.fullmatch(name) and not name.strip().isdigit() for name in names)  # else they stand in a comment
        first, usual = self.titles() + named, "." if tabbed else ","
        enough = max(20, _CELLS_WITH_NUMBERS // max(len(names), 1))
        before = {place: known.of(name_in(name)) if named else known.plain for place, name in enumerate(names)}
        found = decimal_sign((without_months(_cells(line, separator)) for line in lines[named:][:enough]), usual, before)
        if found.unclear:
            more = self._first_lines(_LINES_WHERE_UNCLEAR)[first:]
            found = decimal_sign((without_months(_cells(line, separator)) for line in more), usual, before)
        return separator, found

    def _first_lines(self, most: int = 21) -> list[str]:
        """Some lines that are neither empty nor comments."""
        return list(islice((line for line in self.lines() if line.strip() and not line.startswith("#")), most))

    def titles(self) -> int:
        """How many of these stand above the line with the names: words about the table."""
        lines, found = self._first_lines(), []
        for separator in ";\t,":
            rows = [_cells(line, separator) for line in lines]
            widths, named = [len(row) for row in rows], sum(bool(cell.strip()) for cell in rows[0]) if rows else 0
            if len(rows) > 1 and named == statistics.mode(widths[1:]) > 1:
                return 0  # names, whatever else could separate cells
            titles = titles_above(rows)
            if rows and min(widths[titles:]) == max(widths[titles:]) > 1:  # all rows below alike, and of several cells
                found.append(titles)
        # Where decimals have commas, these seem to separate cells as well, below one line more.
        return min(found, default=0)

    def layout(self, separator: str) -> Layout:
        """The lines of :meth:`titles` are left out. Lines that begin with # are comments: those above the table, and those between its rows that have another number of cells.

        The last one above may hold the columns' names, as NumPy writes them: if it has as many cells as the line below, and that one has numbers.
        """
        above: list[str] = []
        cell_of_zeros = padded_cell(separator)
        names: list[str] | None = None
        rows: list[list[str]] = []
        in_comment, padded, skipped, titles = False, False, [], self.titles()
        for number, line in enumerate(self.lines()):
            if not line.strip():
                continue
            if names is None and line.startswith("#"):
                above.append(line)
                skipped.append(number)
            elif titles:
                titles -= 1
                skipped.append(number)
            elif names is None:
                cells = _cells(line, separator)
                above_cells = _cells(above[-1].lstrip("# "), separator) if above else []
                in_comment = len(above_cells) == len(cells) > 1 and any(_NUMBER.fullmatch(cell) for cell in cells)
                names = [cell.strip() for cell in above_cells] if in_comment else cells
                rows += [cells] * in_comment
            elif line.startswith("#") and len(_cells(line, separator)) != len(names):
                skipped.append(number)
            elif len(rows) < _ROWS_SHOWN:
                rows.append(_cells(line, separator))
            padded = padded or cell_of_zeros.search(line) is not None
        return Layout(names or [], in_comment, skipped, padded, rows)


def text_source(name: str) -> TextSource:
    """The text of a file, packed or not; "-" is standard input."""
    held = _standard_input() if name == "-" else None
    encoding = _encoding(name, held)
    if encoding == "cp1252":
        called = "Standard input" if name == "-" else name
        warn(f"{called} is not UTF-8; it is read as Windows-1252 (Western European). If names look wrong, save it as UTF-8.")
    return TextSource(name, held, encoding)


def _standard_input() -> bytes:
    if sys.stdin.isatty():
        raise InputError("- means standard input, and nothing is piped into it. Name a file, or write: cat new.csv | mgp ...")
    binary = getattr(sys.stdin, "buffer", None)
    return sys.stdin.read().encode() if binary is None else binary.read()


def _binary(name: str, held: bytes | None) -> BinaryIO:
    return io.BytesIO(held) if held is not None else PACKED.get(Path(name).suffix.lower(), open)(name, "rb")


def _encoding(name: str, held: bytes | None) -> str:
    """By the mark at the beginning, else UTF-8 if all of it is, else UTF-16 if every other byte is zero, else Windows-1252."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    with _binary(name, held) as file:
        first = file.read(_CHUNK)
        for mark, encoding in _MARKS.items():
            if first.startswith(mark):
                return encoding
        for place, encoding in ((1, "utf-16-le"), (0, "utf-16-be")):
            if len(first) > 3 and first[place:64:2].count(0) > 0.8 * len(first[place:64:2]):
                return encoding
        try:
            decoder.decode(first)
            while chunk := file.read(_CHUNK):
                decoder.decode(chunk)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return "cp1252"
    return "utf-8"


def titles_above(rows: Sequence[Sequence[str]]) -> int:
    """How many of the first rows are words about the table: they fill at most half of its cells, and below them stands a row of names, which fills all and has no number.

    The last one is a row of names too where these repeat, and it tells them apart as names in merged cells do. Two rows may also fill all cells together.

    >>> titles_above([["Report"], ["a", "b"], ["1", "2"]]), titles_above([["", "a", "b"], ["0", "1", "2"]])
    (1, 0)
    """
    width = max(map(len, rows[1:]), default=0)
    for number, cells in enumerate(rows):
        if number and _are_names_together(cells, rows[number + 1 :]):
            return number
        filled = [cell for cell in cells if cell.strip()]
        if len(filled) == width > 1:
            below = rows[number + 1 :]
            named = not any(_NUMBER.fullmatch(cell) for cell in cells) and below and all(len(row) == width for row in below)
            return number - (number > 0 and _tells_apart(rows[number - 1], cells)) if named else 0
        if len(filled) > max(1, width // 2):
            return 0
    return 0


def _are_names_together(above: Sequence[str], below: Sequence[Sequence[str]]) -> bool:
    """Whether a row with empty cells holds names together with the one below it, as merged cells do: no cell is empty in both, none is a number, and numbers stand below.

    >>> _are_names_together(["day", "oven", ""], [["", "temp", "time"], ["1", "200", "5"]])
    True
    >>> _are_names_together(["day", "oven", ""], [["mon", "200", "5"]]), _are_names_together(["a title", "", ""], [["x", "y", "z"], ["1", "2", "3"]])
    (False, False)
    """
    if len(below) < 2 or len({len(above), *map(len, below)}) > 1:
        return False
    upper, lower = ([bool(cell.strip()) for cell in cells] for cells in (above, below[0]))
    spanned = any(left and not here and under for left, here, under in zip(upper, upper[1:], lower[1:], strict=False))
    if not spanned or all(lower) or not all(map(max, upper, lower)) or any(map(_NUMBER.fullmatch, (*above, *below[0]))):
        return False
    return any(under and _NUMBER.fullmatch(cell) for row in below[1:] for cell, under in zip(row, lower, strict=True))


def _tells_apart(above: Sequence[str], names: Sequence[str]) -> bool:
    """Whether names that repeat differ with those in the row above, each of which stands for the empty cells behind it too.

    >>> _tells_apart(["warm", "", "cold", ""], ["x", "y", "x", "y"]), _tells_apart(["a table", "", "", ""], ["x", "y", "x", "y"])
    (True, False)
    """
    filled = list(accumulate(above, lambda last, cell: cell if cell.strip() else last))
    return len(set(names)) < len(names) == len(above) == len(set(zip(filled, names, strict=False)))


def _of_single_column(lines: Sequence[str], known: KnownSigns) -> tuple[str, DecimalSign] | None:
    """What lines of a single cell use where their commas are part of numbers, or the column is known to have had such; None: commas separate cells.

    >>> _of_single_column(["x", "1,250", "1,5 kg"], NO_SIGNS)[1].sign, _of_single_column(["x", "1.250"], KnownSigns(","))[1].sign
    (',', ',')
    >>> _of_single_column(["x", "a,b"], NO_SIGNS), _of_single_column(["x", "1.250"], NO_SIGNS)
    (None, None)
    """
    with_comma, before = [line for line in lines[1:] if "," in line], known.of(name_in(lines[0]))
    if "," in lines[0] or not all(map(is_number, with_comma)) or not (with_comma or before):
        return None
    return ";", decimal_sign(([line] for line in lines[1:]), known={0: before})


def _separates(separator: str, lines: Sequence[str]) -> bool:
    """Whether (almost) all lines below the first have as many cells as that one has, several."""
    first, *below = (len(_cells(line, separator)) for line in lines)
    return first > 1 and len(below) > 0 and below.count(first) >= 0.9 * len(below)


def _cells(line: str, separator: str) -> list[str]:
    try:
        return next(csv.reader([line.rstrip("\r\n")], delimiter=separator), [])
    except csv.Error:  # a cell that is longer than Python reads; pandas does
        return line.rstrip("\r\n").split(separator)
