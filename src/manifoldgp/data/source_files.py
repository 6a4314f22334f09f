"""Rows of Parquet or CSV files, read through pyarrow datasets batch by batch."""

from __future__ import annotations

import glob
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from manifoldgp._system.plain_text import name_in
from manifoldgp.data.sources import Block, RowSource
from manifoldgp.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from pyarrow import Array, RecordBatch, Schema
    from pyarrow.dataset import Fragment

_READ_ROWS = 32_768


class FileRows(RowSource):
    """The rows of one or several files, in the order of their names; all of one format, told by the ending (.parquet, .csv).

    Parameters
    ----------
    paths
        A file, a folder, a pattern such as "data/*.parquet", or several of these.
    target
        The column (or columns) to predict.
    columns
        The inputs; all other columns by default.
    noise_std
        The column with the known noise standard deviation, if there is one.
    """

    names: list[str]
    target_names: list[str]

    def __init__(
        self,
        paths: str | Path | Sequence[str | Path],
        target: str | Sequence[str],
        columns: Sequence[str] | None = None,
        noise_std: str | None = None,
    ) -> None:
        self.paths = _expanded([paths] if isinstance(paths, (str, Path)) else list(paths))
        self.target_names = [target] if isinstance(target, str) else list(target)
        self.flat = isinstance(target, str)
        self._fragments = list(_dataset(self.paths).get_fragments())
        schema = _dataset(self.paths).schema
        self._written = {_name(written, self.paths[0]): written for written in schema.names}
        special = [*self.target_names, *([noise_std] if noise_std else [])]
        self.names = list(columns) if columns is not None else [name for name in self._written if name not in special]
        self.noise_column, self.has_noise = noise_std, noise_std is not None
        _refuse_columns(schema, self._written, [*self.names, *special], self.paths[0])
        if not self.names:
            raise InputError(f"{self.paths[0]} has no columns beside the target: nothing to predict from.")
        self.inputs, self.outputs = len(self.names), len(self.target_names)
        self._counts = [fragment.count_rows() for fragment in self._fragments]
        self.total = sum(self._counts)

    def read(self, first: int, last: int, size: int) -> Iterator[Block]:
        names = [*self.names, *self.target_names, *([self.noise_column] if self.noise_column else [])]
        wanted = [self._written[name] for name in names]
        start = 0
        for fragment, count in zip(self._fragments, self._counts, strict=True):
            if start < last and start + count > first:
                yield from self._of_fragment(fragment, start, first, last, size, wanted)
            start += count

    def _of_fragment(
        self, fragment: Fragment, start: int, first: int, last: int, size: int, wanted: list[str]
    ) -> Iterator[Block]:
        for piece, rows in _row_groups(fragment):
            if rows is not None and (start + rows <= first or start >= last):
                start += rows
                continue
            # Read ahead little: memory must not grow with the files.
            for batch in piece.to_batches(
                columns=wanted, batch_size=max(size, _READ_ROWS), batch_readahead=1, fragment_readahead=1
            ):
                low, high = max(first - start, 0), min(last - start, batch.num_rows)
                for a in range(low, high, size):
                    part = batch.slice(a, min(size, high - a))
                    yield self._block(part, start + a)
                start += batch.num_rows
                if start >= last:
                    return

    def _block(self, batch: RecordBatch, number: int) -> Block:
        table = np.column_stack([_numbers(batch.column(name)) for name in batch.schema.names])
        place = {_name(written, self.paths[0]): i for i, written in enumerate(batch.schema.names)}
        X, Y = (table[:, [place[name] for name in group]] for group in (self.names, self.target_names))
        noise = None
        if self.noise_column:
            noise = np.repeat(table[:, [place[self.noise_column]]] ** 2, self.outputs, axis=1)
        return Block(X, Y, noise, np.arange(number, number + len(table)))


def _expanded(paths: list[str | Path]) -> list[str]:
    """Files by name: patterns and folders opened, in order, hidden files left out."""
    files: list[str] = []
    for path in map(str, paths):
        if Path(path).is_dir():
            found = sorted(str(p) for p in Path(path).iterdir() if p.is_file() and not p.name.startswith((".", "_")))
        else:
            found = sorted(glob.glob(path)) if glob.has_magic(path) else [path]
        if not found or not Path(found[0]).is_file():
            raise InputError(f"There is no file {path}. Give Parquet or CSV files, a folder of them, or a pattern in quotes.")
        files += found
    endings = {Path(file).suffix.lower() for file in files}
    if len(endings) != 1 or not endings <= {".parquet", ".pq", ".csv"}:
        raise InputError(f"All files must be Parquet (.parquet) or all CSV (.csv); these end in {', '.join(sorted(endings))}.")
    return files


def _dataset(files: list[str]) -> Any:
    try:
        from pyarrow import dataset
    except ImportError as error:
        raise MissingExtraError("Reading files needs pyarrow. Run: pip install 'manifoldgp[data]'") from error
    return dataset.dataset(files, format="csv" if files[0].lower().endswith(".csv") else "parquet")


def _row_groups(fragment: Fragment) -> Iterator[tuple[Fragment, int | None]]:
    """The pieces of a file that can be read by themselves, with their rows: the row groups of Parquet; a CSV file is one piece."""
    if hasattr(fragment, "split_by_row_group"):
        for piece in fragment.split_by_row_group():
            yield piece, sum(group.num_rows for group in piece.row_groups)
    else:
        yield fragment, None


def _name(written: str, file: str) -> str:
    """A column's name by what stands in the file."""
    return name_in(written) if Path(file).suffix.lower() == ".csv" else written


def _refuse_columns(schema: Schema, written: Mapping[str, str], wanted: Sequence[str], file: str) -> None:
    """written: what stands in the file for each name."""
    from pyarrow import types

    missing = [name for name in wanted if name not in written]
    if missing:
        raise InputError(f"{file} has no column {', '.join(missing)}. It has: {', '.join(written)}.")
    text = [
        name
        for name in wanted
        if not (types.is_integer(kind := schema.field(written[name]).type) or types.is_floating(kind) or types.is_boolean(kind))
    ]
    if text:
        raise InputError(
            f"These columns are not numbers: {', '.join(text)}. Encode them as numbers first, or leave them out (columns=...)."
        )


def _numbers(column: Array) -> np.ndarray:
    """A column as float64; missing entries become NaN."""
    import pyarrow

    return column.cast(pyarrow.float64()).to_numpy(zero_copy_only=False)
