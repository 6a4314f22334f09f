"""What the page's script draws: a chart with its choices, as plain data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

Spec = dict[str, Any]


BLUE, INK, GREY, VERMILLION = "var(--blue)", "var(--ink)", "var(--grey)", "var(--vermillion)"
SERIES = (
    "var(--blue)",
    "var(--vermillion)",
    "var(--green)",
    "var(--purple)",
    "var(--orange)",
    "var(--sky)",
    "var(--brown)",
    "var(--grey)",
)
"""Colours by their names in the style sheet, which knows lighter ones for a dark page."""

POINT = "Point at the picture to read values."
BAR = "Point at a bar to read its value."


def numbers(values: Any, digits: int = 5) -> list[float | None]:
    """An array (n,) as numbers with this many significant digits; None where it is not finite.

    >>> numbers(np.array([1.23456789, np.inf]))
    [1.2346, None]
    """
    return [float(f"{v:.{digits}g}") if np.isfinite(v) else None for v in np.asarray(values, dtype=float).ravel().tolist()]


def padded(*values: Any, share: float = 0.05) -> list[float]:
    """A range that holds all finite values, and a little more."""
    every = np.concatenate([np.asarray(v, dtype=float).ravel() for v in values])
    every = every[np.isfinite(every)]
    if not len(every):
        return [0.0, 1.0]
    low, high = float(every.min()), float(every.max())
    margin = share * (high - low) if high > low else 0.5 * max(abs(low), 1.0)
    return [low - margin, high + margin]


def axis(label: str, limits: Sequence[float], **more: Any) -> Spec:
    return {"label": label, "name": label, "range": [float(v) for v in limits], **more}


def choice(label: str, options: Iterable[str], *, buttons: bool = False) -> Spec:
    """One of several options, the first one chosen."""
    return {"label": label, "options": list(options), "shown": True, "buttons": buttons}


def chip(key: str, color: str, label: str | None = None) -> Spec:
    """A legend entry that hides the layers with its key."""
    return {"key": key, "label": label or key, "color": color}


def chart(key: str, specs: Sequence[Spec], choices: Sequence[Spec] = (), legend: Sequence[Spec] = ()) -> Spec:
    """specs: one for each combination of choices, the last choice fastest."""
    return {"id": key, "choices": list(choices), "legend": list(legend), "specs": list(specs)}


def rows_of_bars(start: np.ndarray, length: np.ndarray) -> Spec:
    """Horizontal bars from top to bottom, the k-th around −k."""
    k = np.arange(len(length))
    return {"kind": "bars", "along": "y", "x0": numbers(start), "x1": numbers(start + length), "y0": numbers(-k - 0.32), "y1": numbers(-k + 0.32)}  # fmt: skip
