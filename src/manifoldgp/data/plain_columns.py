"""Columns as plain data, as JSON holds them in model files, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import pairwise
from typing import Any

from manifoldgp.data.columns import Column
from manifoldgp.data.dates import TimeScale
from manifoldgp.data.levels import Effects


def column_to_plain(column: Column) -> Any:
    """What `column_from_plain` reads."""
    return _as_lists(asdict(column))


def column_from_plain(plain: Mapping[str, Any]) -> Column:
    time, effects = plain["time"], plain["effects"]
    return Column(
        str(plain["name"]),
        str(plain["kind"]),
        tuple(map(str, plain["categories"])),
        None
        if time is None
        else TimeScale(time["unit"], time["origin"], tuple(time["cyclic"]), time["order"], bool(time["zoned"])),
        None
        if effects is None
        else Effects(tuple(effects["targets"]), tuple(map(tuple, effects["shifts"])), tuple(effects["curves"])),
        bool(plain["indicator"]),
    )


def in_order(numbers: Sequence[Any]) -> tuple[int, ...]:
    """Numbers of rows from a file, which must grow."""
    rows = tuple(map(int, numbers))
    if any(not -1 < a < b < 2**53 for a, b in pairwise((*rows, 2**53 - 1))):
        raise ValueError(f"rows {str(rows)[:80]} are not in order")
    return rows


def _as_lists(value: Any) -> Any:
    """Plain data with lists where there were tuples, as JSON gives them back."""
    if isinstance(value, dict):
        return {key: _as_lists(entry) for key, entry in value.items()}
    return [_as_lists(entry) for entry in value] if isinstance(value, tuple) else value
