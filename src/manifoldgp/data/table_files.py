"""Tables in files: CSV, TSV, Parquet and (to read) Excel by the file's ending, CSV on standard input and output as "-"."""

from __future__ import annotations

import csv
import glob
import re
import sys
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from manifoldgp._system.files import refuse_unwritable, written_whole
from manifoldgp._system.plain_text import NO_NAME, cell, name_in, one_line, visible
from manifoldgp.data.codes import padded
from manifoldgp.data.columns import column_of, missing_in, pandas, text
from manifoldgp.data.dates import are_months, month_text
from manifoldgp.data.decimal_signs import DecimalSign, KnownSigns, other_sign
from manifoldgp.data.excel_files import read_sheet
from manifoldgp.data.no_values import GAPS, NO_VALUE, NOTHING_OR_WORDS
from manifoldgp.data.number_columns import Numbered, Reading, signs_of, with_numbers, with_signs, with_words
from manifoldgp.data.summary_rows import summary_rows, tell_summaries
from manifoldgp.data.text_files import PACKED, TextSource, text_source
from manifoldgp.data.units import UNITS, text_columns, with_power_as_written, with_units
from manifoldgp.data.written_numbers import read_numbers
from manifoldgp.errors import InputError, MissingExtraError, warn

if TYPE_CHECKING:
    from pandas import DataFrame

_TEXT, _TABBED, _PARQUET, _EXCEL = (".csv", ".txt"), (".tsv", ".tab"), (".parquet", ".pq"), (".xlsx", ".xlsm")
_EMPTY_NAMES = "empty names"
"""Under which name a DataFrame's attrs keep what its columns are called whose names are empty in the file."""

_MOST_TOLD = 4
"""Columns that a warning names."""

_CALLED = {"parquet": "Parquet", "excel": "Excel"}


def read_table(
    path: str | Path, *, sheet: str | None = None, wanted: Sequence[str] = (), like: Reading | None = None
) -> DataFrame:
    """The table in a file as a pandas DataFrame, rows numbered from 0; "-" is CSV on standard input.

    A CSV whose first line has semicolons and no comma is read with semicolons, and with decimal commas where it has such numbers. Text is UTF-8, UTF-16 or,
    with a warning, Windows-1252; lines that begin with # are comments, and lines above the names that fill few cells are left out, with a warning. Of an Excel file
    the first sheet with two columns or more and numbers is read, percent as it is shown (10 % is 10).

    Numbers with thousands separators, a currency, a percent sign or one unit are read as numbers, and a row of
    units below the names is left out, with a warning that says so. So are rows at the end that are sums or means of those above, and notes below the table.

    Parameters
    ----------
    sheet
        Which sheet of an Excel file is read.
    wanted
        Columns that the table is read for: of an Excel file with several sheets the first one that has them is read.
    like
        How the table of a fit was read, ``model.table_encoding_.reading``: columns that held numbers there hold numbers, and single cells that are none stay as they are.
    """
    like = like or Reading()
    table, decimal = _read(path, sheet, wanted, like)
    told: list[str] = []
    read = _numbered(table, decimal, path, like, told.append).table
    found = summary_rows(read, like.categories)
    if found.out:  # as it stands without them: in some columns only they had a text, or a gap
        above = len(table) - len(read)  # a row of units
        table = table.drop(index=[above + row for row in found.out]).reset_index(drop=True)
        read = _numbered(with_whole_numbers(table.infer_objects()), decimal, path, like, warn).table
    else:
        for text in told:
            warn(text)
    tell_summaries(found, _called(str(path)))
    return read


def read_as_written(path: str | Path, *, wanted: Sequence[str] = (), like: Reading | None = None) -> Numbered:
    """The table in a file as `read_table` reads it, with all of its rows, and the texts of columns with a unit beside their numbers, for who writes these columns again."""
    like = like or Reading()
    table, decimal = _read(path, None, wanted, like)
    return _numbered(table, decimal, path, like, warn)


def _numbered(table: DataFrame, decimal: DecimalSign, path: str | Path, like: Reading, tell: Callable[[str], None]) -> Numbered:
    """The table with texts that are numbers as these. tell: is called with what there is to say."""
    name = str(path)
    parquet = name != "-" and _kind(name) == "parquet"
    return Numbered(table, {}) if parquet else with_numbers(table, decimal, _called(name), like, tell)


def _read(path: str | Path, sheet: str | None, wanted: Sequence[str], like: Reading) -> tuple[DataFrame, DecimalSign]:
    """The table in a file, with texts as they are, and its decimal sign."""
    name = str(path)
    kind = "text" if name == "-" else _kind(name)
    if sheet is not None and kind != "excel":
        raise InputError(f"sheet={sheet!r} has no effect on {_called(name)}: only Excel files have sheets. Leave it out.")
    if name != "-" and not Path(name).is_file():
        raise InputError(f"There is no file {name}. Check its name.")
    try:
        if kind == "excel":
            table, decimal = _read_excel(name, sheet, wanted, like), DecimalSign(".", looked_for=False)
        elif kind == "parquet":
            table, decimal = _read_parquet(name), DecimalSign(".", looked_for=False)
        else:
            table, decimal = _read_text(name, kind, like)
    except (InputError, MissingExtraError, OSError):
        raise
    except pandas().errors.EmptyDataError as error:
        raise InputError(f"{_called(name)} is empty: a line with the names of the columns was expected, then rows.") from error
    except (ValueError, UnicodeError, EOFError, KeyError, zipfile.BadZipFile) as error:  # what readers raise for damaged files
        raise InputError(f"{_called(name)} cannot be read as {_CALLED.get(kind, 'CSV')}: {one_line(str(error))}") from error
    named = [str(column).strip() if kind == "parquet" else name_in(str(column)) for column in table.columns]
    table.columns = [name or _no_name(place) for place, name in enumerate(named)]
    table = table.reset_index(drop=True)
    if kind != "parquet":
        table = _named_by_two_rows(table, decimal.sign, name)
    _refuse_repeated(list(table.columns), name)
    return table, decimal


def _no_name(place: int) -> str:
    """What a column without a name is called, by its place; pandas does so too."""
    return f"Unnamed: {place}"


def _with_empty_names(table: DataFrame, names: Sequence[str]) -> DataFrame:
    """The table, which keeps what its columns are called whose names are empty in the file. names: as they stand there."""
    empty = [_no_name(place) for place, name in enumerate(names) if not name.strip()]
    table.attrs |= {_EMPTY_NAMES: empty} if empty else {}
    return table


def _named_by_two_rows(table: DataFrame, decimal: str, file: str) -> DataFrame:
    """The table with its first row among the names, where some have none of their own: a name in merged cells stands above several columns."""
    names = _names_of_two_rows(table, decimal)
    if names is None:
        return table
    warn(
        f"The names of {_called(file)} stand in two rows, one of them over several columns: {', '.join(map(visible, names))}. Rows are counted below both."
    )
    renamed = dict(zip(table.columns, names, strict=True))
    units = {renamed[name]: unit for name, unit in table.attrs.pop(UNITS, {}).items()}
    return with_units(table.iloc[1:].reset_index(drop=True).infer_objects().rename(columns=renamed), units)


def _names_of_two_rows(table: DataFrame, decimal: str) -> list[str] | None:
    """Names of columns by what stands in the first row below those that several share; None where that row is one of units or of the table."""
    if len(table) < 3:
        return None
    words = ["" if pandas().isna(value) or str(value).strip() in NO_VALUE else str(value).strip() for value in table.iloc[0]]
    lacks = [bool(NO_NAME.fullmatch(name)) for name in table.columns]
    if not any(map(all, zip(lacks[1:], words[1:], strict=True))) or any(read_numbers([word], decimal) for word in words if word):
        return None
    numeric = [
        bool(word) and _numbers_below(list(column), decimal) for (_, column), word in zip(table.items(), words, strict=True)
    ]
    if not _are_names(words, lacks, numeric):
        return None
    groups: list[str] = []
    for name, unnamed, word in zip(table.columns, lacks, words, strict=True):
        groups.append(name if not unnamed else groups[-1] if groups and word else "")
    both = [f"{group} {word}".strip() or name for name, group, word in zip(table.columns, groups, words, strict=True)]
    short = [word if word and groups.count(group) > 1 else long for group, word, long in zip(groups, words, both, strict=True)]
    return short if len(set(short)) == len(short) else both


def _are_names(words: Sequence[str], lacks: Sequence[bool], numeric: Sequence[bool]) -> bool:
    """Whether words in the first row are names: above one column of numbers, or above two where a word stands above texts in a column with a name of its own, as a row of the table has it.

    lacks: columns without a name of their own; numeric: those with a word above numbers.
    """
    above_texts = any(word and not lack and not number for word, lack, number in zip(words, lacks, numeric, strict=True))
    return sum(numeric) > above_texts


def _numbers_below(column: Sequence[object], decimal: str) -> bool:
    """Whether numbers stand below the first row, or below a row of units there."""
    return any(read_numbers(column[start:], decimal) for start in (1, 2))


def table_names(paths: Sequence[str | Path]) -> list[str]:
    """The files that are meant. A name that is not a file and has a *, ? or [ stands for all that match."""
    return [found for path in paths for found in _expanded(str(path))]


def read_tables(paths: Sequence[str | Path], *, wanted: Sequence[str] = ()) -> Any:
    """Several files with the same columns, one below the other; names as in `table_names`, ``wanted`` as in `read_table`."""
    names = table_names(paths)
    tables = [read_table(name, wanted=wanted) for name in names]
    for name, table in zip(names[1:], tables[1:], strict=True):
        lacking, surplus = set(tables[0].columns) - set(table.columns), set(table.columns) - set(tables[0].columns)
        if lacking or surplus:
            difference = [f"lacks {', '.join(sorted(lacking))}"] * bool(lacking) + [f"adds {', '.join(sorted(surplus))}"] * bool(
                surplus
            )
            raise InputError(f"All files need the same columns; compared with {names[0]}, {name} {' and '.join(difference)}.")
    if len(tables) == 1:
        return tables[0]
    signs = KnownSigns.joined([signs_of(table) for table in tables])
    alike = [with_signs(table, signs) for table in _alike(tables)]  # pandas keeps what is said of all of them alone
    return pandas().concat(alike, ignore_index=True)


def _alike(tables: Sequence[DataFrame]) -> list[DataFrame]:
    """The tables with codes and months as text in all of them: a file in which these happen to have no zeros in front was read as numbers."""
    codes = dict.fromkeys((name for table in tables for name in table if padded(table[name].dropna())), text)
    months = dict.fromkeys((name for table in tables for name in table if are_months(table[name].dropna())), month_text)
    written = codes | months
    return [table.assign(**{name: table[name].map(written[name], na_action="ignore") for name in written}) for table in tables]


def with_whole_numbers(table: DataFrame) -> DataFrame:
    """The table with columns of floats that are all whole as integers: 4, and not 4.0, stands in the file that it goes on.

    >>> import pandas as pd
    >>> with_whole_numbers(pd.DataFrame({"year": [1971.0, 1972.0], "mean": [0.5, 1.0]})).iloc[0].tolist()
    [1971.0, 0.5]
    >>> with_whole_numbers(pd.DataFrame({"year": [1971.0, 1972.0]})).to_csv(index=False).split()
    ['year', '1971', '1972']
    >>> with_whole_numbers(pd.DataFrame({0: pd.array([4.0, None], dtype="Float64")})).to_csv(index=False).split()
    ['0', '4.0', '""']
    """
    floats = table.select_dtypes("float")
    values = {name: floats[name].to_numpy(dtype=np.float64, na_value=np.nan) for name in floats}
    whole = [name for name, x in values.items() if np.all((x % 1 == 0) & (np.abs(x) < 2**53))]
    return table.astype(dict.fromkeys(whole, "int64"))


def write_table(table: DataFrame, path: str | Path, like: str | Path | None = None) -> None:
    """Write a DataFrame in the format of the file's ending; "-" is CSV on standard output. A file is there whole or not at all.

    like: a table whose way of writing text is taken over (separator, decimal sign, encoding), so that rows can be pasted into it.
    """
    name = str(path)
    if name == "-":
        rows = _text(table, form=_form(like))
        sys.stdout.write("\n".join(map(visible, rows.split("\n"))) if sys.stdout.isatty() else rows)
        sys.stdout.flush()
        return
    target = Path(name)
    if _is_device(target):
        target.write_text(_text(table), encoding="utf-8")
        return
    refuse_unwritable(name)
    kind = _written_kind(name)
    if kind == "parquet":
        _parquet()
    with written_whole(name) as partial:
        if kind == "parquet":
            table.to_parquet(partial, index=False)
        else:  # packed as the ending says, which the partial file has too
            _text(table, partial, _form(like, "\t" if kind == "tabbed" else ","))


def _form(like: str | Path | None, separator: str = ",") -> dict[str, str]:
    """How a table is written as text: as another one is, or with this separator."""
    if like is not None and str(like) != "-" and (kind := _kind(str(like))) in ("text", "tabbed"):
        source = text_source(str(like))
        separator, decimal = source.separator_and_decimal(kind == "tabbed")
        return {"sep": separator, "decimal": decimal.sign, "encoding": source.encoding}
    return {"sep": separator}


def _text(table: Any, to: Path | None = None, form: dict[str, str] | None = None) -> Any:
    """Write a table as text, or return it; names that a spreadsheet would compute get an apostrophe, for a table may come from anyone."""
    empty = table.attrs.get(_EMPTY_NAMES, ())
    header = ["" if name in empty else cell(str(name)) for name in table.columns]
    texts = [
        *header,
        *(v for _, values in table.items() if values.dtype.kind not in "biuf" for v in values if isinstance(v, str)),
    ]
    quoting = csv.QUOTE_NONNUMERIC if any("\r" in words for words in texts) else csv.QUOTE_MINIMAL  # which leaves a lone \r bare
    return table.to_csv(
        to,
        index=False,
        header=header,
        lineterminator="\n",
        quoting=quoting,
        **(_able(form, texts) if form and to else form or {}),
    )


def _able(form: dict[str, str], texts: Sequence[str]) -> dict[str, str]:
    """The form with an encoding that has all characters: where Windows-1252 lacks one UTF-8 takes its place, with a warning."""
    if form.get("encoding") != "cp1252":  # the others have them all
        return form
    for words in texts:
        try:
            words.encode("cp1252")
        except UnicodeEncodeError as error:
            warn(f"Windows-1252, in which the other table is, has no {words[error.start]}: written as UTF-8.")
            return form | {"encoding": "utf-8-sig"}  # whose mark tells Excel
    return form


def check_writable(path: str | Path) -> None:
    """Refuse a file whose ending or place cannot be written, before any work is done for it."""
    if str(path) != "-" and not _is_device(Path(path)):
        refuse_unwritable(path)
        _written_kind(str(path))


def _is_device(path: Path) -> bool:
    """A device or a pipe: it has no ending, and cannot be replaced by a file."""
    return path.exists() and not path.is_file() and not path.is_dir()


def _kind(name: str) -> str:
    path = Path(name)
    packed = path.suffix.lower() in PACKED
    ending = (Path(path.stem) if packed else path).suffix.lower()
    for kind, endings in (("text", _TEXT), ("tabbed", _TABBED), ("parquet", _PARQUET), ("excel", _EXCEL)):
        if ending in endings and not (packed and kind in _CALLED):
            return kind
    if ending in (".xls", ".xlsb", ".ods"):
        raise InputError(f"{name}: spreadsheets are read from {', '.join(_EXCEL)} only. Save it as one of these, or as CSV.")
    raise InputError(
        f"{name}: the ending says the format, one of {', '.join((*_TEXT, *_TABBED, *_PARQUET, *_EXCEL))} (text also with {', '.join(PACKED)}). "
        "Rename the file."
    )


def _written_kind(name: str) -> str:
    if (kind := _kind(name)) == "excel":
        raise InputError(f"{name}: Excel files are read, not written. Write .csv, which Excel opens, or .parquet.")
    return kind


def _read_text(name: str, kind: str, like: Reading) -> tuple[Any, DecimalSign]:
    """The table and its decimal sign. like: how another table of the kind was read."""
    known = like.signs
    source = text_source(name)
    separator, found = source.separator_and_decimal(kind == "tabbed", known)
    _tell_titles(source.titles(), name)
    layout = source.layout(separator)
    unclear = {layout.names[place]: cell for place, cell in found.unclear.items() if place < len(layout.names)}
    _tell_unclear_signs(found.sign, unclear, name, known)
    _refuse_repeated(layout.names, name)  # pandas would rename them
    named: dict[str, Any] = (
        {"names": [name or _no_name(place) for place, name in enumerate(layout.names)], "header": None}
        if layout.in_comment
        else {}
    )
    form = {
        "sep": separator,
        "skiprows": layout.skipped,
        "encoding": source.encoding,
        "low_memory": False,
        "na_values": (*GAPS, *NOTHING_OR_WORDS),
    }
    form |= named
    # Cells like 1.250 of a column that had decimal commas in texts, although its table has points: who reads texts knows them.
    texts = {} if found.looked_for else {name: str for name in layout.names if dict(known.columns).get(name_in(name)) == ","}
    table = pandas().read_csv(source.opened(), decimal=found.sign, dtype=texts, **form)
    table = _with_words(table, source, form, like)
    table = with_power_as_written(table, layout.rows)
    table = _with_codes(table, source, form) if layout.padded else table
    return _with_empty_names(table, layout.names), found


def _tell_unclear_signs(decimal: str, unclear: Mapping[str, str], file: str, known: KnownSigns) -> None:
    """How numbers such as 1,250 or 1.250 were read where nothing in the table says whether the sign separates thousands. unclear: a cell of each such column."""
    told = {name: text for name, text in unclear.items() if decimal in text and known.of(name_in(name)) in ("", decimal)}
    read = [f"{name_in(name)} ({_read_by(text, decimal)})" for name, text in told.items()]
    if read:
        sign, more = "points" if decimal == "." else "commas", ", ..." if len(read) > _MOST_TOLD else ""
        as_before = ", as at the fit" if any(known.of(name_in(name)) for name in told) else ""
        warn(
            f"{sign.capitalize()} in {_called(file)} are taken for decimal {sign}{as_before}: {', '.join(read[:_MOST_TOLD])}{more}. If they separate thousands, leave them out of the table."
        )


def _read_by(text: str, decimal: str) -> str:
    """What a number is by its decimal sign, and would be by the other one.

    >>> _read_by("1.250 €", ".")
    "'1.250 €' is 1.25, not 1250"
    """
    found, rather = read_numbers([text], decimal), read_numbers([text], other_sign(decimal))
    assert found is not None
    assert rather is not None
    return f"{text!r} is {found.numbers[0]:g}, not {rather.numbers[0]:g}"


def _with_words(table: DataFrame, source: TextSource, form: dict[str, Any], like: Reading) -> DataFrame:
    """The table with None and null as they are written where they are words, which pandas reads as gaps."""
    texts, known = text_columns(table), like.words
    asked = [name for name in table if name in texts or known.get(name_in(str(name)))]
    names = [name for name in asked if missing_in(column_of(table, name)).any()]
    if not names:
        return table
    written = {"dtype": dict.fromkeys(names, str), "keep_default_na": False, "na_values": GAPS}
    return with_words(table, pandas().read_csv(source.opened(), **form | written)[names], like)


def _with_codes(table: DataFrame, source: TextSource, form: dict[str, Any]) -> DataFrame:
    """The table with columns of codes and of months such as 03.1974, which were read as numbers, as they are written."""
    numbers = [name for name, kind in table.dtypes.items() if kind.kind in "if"]
    written = pandas().read_csv(source.opened(), dtype=dict.fromkeys(numbers, str), **form)[numbers]
    texts = {name: column.str.strip() for name, column in written.items()}
    codes = {name: column for name, column in texts.items() if padded(column.dropna()) or are_months(column.dropna())}
    return table.assign(**codes)


def _read_excel(name: str, sheet: str | None, wanted: Sequence[str], like: Reading) -> DataFrame:
    found = read_sheet(name, sheet, wanted, _names_in, like)
    _tell_titles(found.titles, name)
    _refuse_repeated(found.names, name)  # pandas has renamed them
    return _with_empty_names(found.table, found.names)


def _names_in(table: DataFrame) -> list[str]:
    """What the columns of a table are called, as the cells above them or two rows of these say it."""
    named = table.set_axis([name_in(str(column)) for column in table.columns], axis=1)
    return _names_of_two_rows(named.reset_index(drop=True), ".") or list(named.columns)


def _tell_titles(lines: int, name: str) -> None:
    if lines:
        what = "The first line" if lines == 1 else f"The first {lines} lines"
        warn(
            f"{what} of {_called(name)} {'is' if lines == 1 else 'are'} no row of the table and left out: the names stand below."
        )


def _refuse_repeated(names: Sequence[str], file: str) -> None:
    stripped = [name.strip() for name in names]
    repeated = sorted({name for name in stripped if name and stripped.count(name) > 1})
    if repeated:
        raise InputError(f"{_called(file)} has several columns named {', '.join(repeated)}. Rename or remove them.")


def _read_parquet(name: str) -> Any:
    _parquet()
    return pandas().read_parquet(name)


def _parquet() -> None:
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(
            "Parquet files need pyarrow, which is not installed. Run: pip install 'manifoldgp[data]'"
        ) from error


def _expanded(name: str) -> list[str]:
    if name == "-" or Path(name).exists() or not re.search(r"[*?\[]", name):
        return [name]
    found = sorted(glob.glob(name, recursive=True))
    if not found:
        raise InputError(f"No file matches {name}.")
    return found


def _called(name: str) -> str:
    return "Standard input" if name == "-" else name
