"""Tables in files: CSV, TSV and Parquet by the file's ending, CSV on standard input and output as "-"."""

from __future__ import annotations

import bz2
import csv
import glob
import gzip
import io
import lzma
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from manifoldgp._system.files import refuse_unwritable, written_whole
from manifoldgp.data.columns import pandas
from manifoldgp.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from pandas import DataFrame

_PACKED = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_TEXT, _TABBED, _PARQUET = (".csv", ".txt"), (".tsv", ".tab"), (".parquet", ".pq")


def read_table(path: str | Path) -> DataFrame:
    """The table in a file as a pandas DataFrame, rows numbered from 0; "-" is CSV on standard input.

    A CSV whose first line has semicolons and no comma is read with semicolons, and with decimal commas where it has such numbers.
    """
    name = str(path)
    kind = "text" if name == "-" else _kind(name)
    if name != "-" and not Path(name).is_file():
        raise InputError(f"There is no file {name}. Check its name.")
    try:
        table = _read_parquet(name) if kind == "parquet" else _read_text(name, kind)
    except (InputError, MissingExtraError, OSError):
        raise
    except pandas().errors.EmptyDataError as error:
        raise InputError(f"{_called(name)} is empty: a line with the names of the columns was expected, then rows.") from error
    except (ValueError, UnicodeError, EOFError) as error:  # what pandas and pyarrow raise for damaged files
        reason = " ".join(str(error).split())
        raise InputError(f"{_called(name)} cannot be read as {'Parquet' if kind == 'parquet' else 'CSV'}: {reason}") from error
    table.columns = [str(column).strip() for column in table.columns]
    _refuse_repeated(list(table.columns), name)
    return table.reset_index(drop=True)


def table_names(paths: Sequence[str | Path]) -> list[str]:
    """The files that are meant. A name that is not a file and has a *, ? or [ stands for all that match."""
    return [found for path in paths for found in _expanded(str(path))]


def read_tables(paths: Sequence[str | Path]) -> Any:
    """Several files with the same columns, one below the other; names as in `table_names`."""
    names = table_names(paths)
    tables = [read_table(name) for name in names]
    for name, table in zip(names[1:], tables[1:], strict=True):
        lacking, surplus = set(tables[0].columns) - set(table.columns), set(table.columns) - set(tables[0].columns)
        if lacking or surplus:
            difference = [f"lacks {', '.join(sorted(lacking))}"] * bool(lacking) + [f"adds {', '.join(sorted(surplus))}"] * bool(
                surplus
            )
            raise InputError(f"All files need the same columns; compared with {names[0]}, {name} {' and '.join(difference)}.")
    return tables[0] if len(tables) == 1 else pandas().concat(tables, ignore_index=True)


def write_table(table: DataFrame, path: str | Path) -> None:
    """Write a DataFrame in the format of the file's ending; "-" is CSV on standard output. A file is there whole or not at all."""
    name = str(path)
    if name == "-":
        table.to_csv(sys.stdout, index=False, lineterminator="\n")
        sys.stdout.flush()
        return
    target = Path(name)
    if _is_device(target):
        table.to_csv(target, index=False, lineterminator="\n")
        return
    refuse_unwritable(name)
    kind = _kind(name)
    if kind == "parquet":
        _parquet()
    with written_whole(name) as partial:
        if kind == "parquet":
            table.to_parquet(partial, index=False)
        else:  # packed as the ending says, which the partial file has too
            table.to_csv(partial, index=False, sep="\t" if kind == "tabbed" else ",", lineterminator="\n")


def check_writable(path: str | Path) -> None:
    """Refuse a file whose ending or place cannot be written, before any work is done for it."""
    if str(path) != "-" and not _is_device(Path(path)):
        refuse_unwritable(path)
        _kind(str(path))


def _is_device(path: Path) -> bool:
    """A device or a pipe: it has no ending, and cannot be replaced by a file."""
    return path.exists() and not path.is_file() and not path.is_dir()


def _kind(name: str) -> str:
    path = Path(name)
    ending = (Path(path.stem) if path.suffix.lower() in _PACKED else path).suffix.lower()
    for kind, endings in (("text", _TEXT), ("tabbed", _TABBED), ("parquet", _PARQUET)):
        if ending in endings and (kind != "parquet" or path.suffix.lower() not in _PACKED):
            return kind
    raise InputError(
        f"{name}: the ending says the format, one of {', '.join((*_TEXT, *_TABBED, *_PARQUET))} (text also with {', '.join(_PACKED)}). Rename the file."
    )


def _read_text(name: str, kind: str) -> Any:
    source: Any = name
    if name == "-":
        if sys.stdin.isatty():
            raise InputError("- means standard input, and nothing is piped into it. Name a file, or write: cat new.csv | mgp ...")
        source = io.StringIO(sys.stdin.read().removeprefix("\ufeff"))
    lines = _first_lines(source)
    separator, decimal = ("\t", ".") if kind == "tabbed" else _separator_and_decimal(lines)
    _refuse_repeated(next(csv.reader(lines[:1], delimiter=separator), []), name)  # pandas would rename them
    return pandas().read_csv(source, sep=separator, decimal=decimal, low_memory=False)


def _first_lines(source: str | IO[str], count: int = 20) -> list[str]:
    if isinstance(source, str):
        opened: Any = _PACKED.get(Path(source).suffix.lower(), open)
        with opened(source, "rt", encoding="utf-8-sig") as file:
            return [file.readline() for _ in range(count)]
    lines = [source.readline() for _ in range(count)]
    source.seek(0)
    return lines


def _separator_and_decimal(lines: list[str]) -> tuple[str, str]:
    """What the first lines use: comma and point, or semicolon or tabulator (with decimal commas, if there are any)."""
    header = lines[0]
    if "," in header or not (";" in header or "\t" in header):
        return ",", "."
    return ";" if ";" in header else "\t", "," if any(re.search(r"\d,\d", line) for line in lines[1:]) else "."


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
