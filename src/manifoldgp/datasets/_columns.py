"""Named columns of a CSV file as numbers, with errors that name the place."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from manifoldgp.errors import InputError


def read_columns(path: str | Path, columns: Sequence[str]) -> NDArray[np.float64]:
    """The named ``columns`` of a comma-separated file with a header line, (N, len(columns)), in the order asked for."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"Expected a CSV file at {str(path)!r}; there is none. Check the path.")
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.reader(file)
        header = [name.strip() for name in next(reader, [])]
        missing = [name for name in columns if name not in header]
        if missing:
            raise InputError(
                f"{path.name} lacks the columns {', '.join(missing)}; its first line has: {', '.join(header) or 'nothing'}. "
                f"Name the columns in the first line, separated by commas."
            )
        where = [header.index(name) for name in columns]
        rows = [_numbers(path, reader.line_num, row, where, columns) for row in reader if row]
    return np.array(rows, dtype=np.float64).reshape(-1, len(columns))


def _numbers(path: Path, line: int, row: list[str], where: list[int], columns: Sequence[str]) -> list[float]:
    numbers = []
    for index, name in zip(where, columns, strict=True):
        text = row[index] if index < len(row) else ""
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise InputError(
                f"{path.name}, line {line}: expected a finite number in column {name}, got {text!r}. Correct or remove that line."
            )
        numbers.append(number)
    return numbers
