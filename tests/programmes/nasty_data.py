"""Data that somebody will hand in: other types, scales from 1e-300 to 1e300, duplicates, missing values, dates, objects, markup in names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from manifoldgp import GPRegressor, Local, ManifoldGPRegressor, Single

from .cases import Case, refused_or, require_usable
from .configurations import SMALL_STACK

_SCALES = [1e-300, 1e-160, 1e-30, 1e-9, 1.0, 1e9, 1e30, 1e150, 1e300]
_NAMES = [
    "<!--<script>",
    "</script><script>alert(1)</script>",
    "=cmd|' /C calc'!A0",
    "\x1b[31mred\x1b[0m",
    "a\nb",
    "",
    " ",
    "é" * 50,
    "'; drop table--",
    "x0",
    "{0}",
    "%s",
]


def _clean(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    N, D = int(rng.choice([1, 2, 3, 5, 12, 20])), int(rng.choice([1, 2, 4]))
    X = rng.normal(size=(N, D))
    return X, np.sin(X[:, 0]) + 0.1 * rng.normal(size=N)


def spoilt(X: Any, y: Any, rng: np.random.Generator) -> tuple[Any, Any]:
    """One thing about the data that is unusual."""
    N, D = X.shape
    if not len(y):  # a first flaw may have taken all targets away
        return X, y
    kind = rng.integers(24)
    row, column = int(rng.integers(N)), int(rng.integers(D))
    bad = rng.choice([np.nan, np.inf, -np.inf])
    if kind == 0:
        return X * rng.choice(_SCALES), y
    if kind == 1:
        return X, y * rng.choice(_SCALES)
    if kind == 2:
        return X * rng.choice(_SCALES, size=D), y * rng.choice(_SCALES) + rng.choice([0.0, 1e12, -1e-12])
    if kind == 3:
        return np.repeat(X, 3, 0)[:20], np.repeat(y, 3)[:20]
    if kind == 4:
        return np.concatenate([X, X[:, :1], 2 * X[:, :1] + 1], 1), y
    if kind == 5:
        X[row, column] = bad
    elif kind == 6:
        y[row % len(y)] = bad
    elif kind == 7:
        X[:, column] = X[0, column]
    elif kind == 8:
        y[:] = y[0]
    elif kind == 9:
        X.flags.writeable = False
        y.flags.writeable = False
    elif kind == 10:
        return np.asfortranarray(np.repeat(X, 2, 1))[::-1, ::2], np.repeat(y, 2)[::-2]
    elif kind == 11:
        return np.ma.masked_array(X, mask=rng.random(X.shape) < 0.1), np.ma.masked_array(y, mask=rng.random(len(y)) < 0.1)
    elif kind == 12:
        return (X * 1e3).astype("datetime64[s]"), y
    elif kind == 13:
        return X.astype(object), y.astype(object)
    elif kind == 14:
        mixed = X.astype(object)
        mixed[row, column] = rng.choice(np.array([None, "text", "1.5", b"x", 1j, []], dtype=object))
        return mixed, y
    elif kind == 15:
        return X[:0], y[:0]
    elif kind == 16:
        return X, rng.choice(np.array([0, 1]), size=N).astype(rng.choice(["int8", "bool", "uint64", "float16", "complex128"]))
    elif kind == 17:
        return X.astype(rng.choice(["float16", "float32", "int8", "uint8", "bool", "longdouble"])), y
    elif kind == 18:
        return pd.DataFrame(X, columns=[str(name) for name in rng.choice(_NAMES, size=D)]), pd.Series(
            y, name=str(rng.choice(_NAMES))
        )
    elif kind == 19:
        return X.tolist(), tuple(y)
    elif kind == 20:
        return (X[:, 0], y) if rng.random() < 0.5 else (X[None], y)
    elif kind == 21:
        return X, y[:-1]
    elif kind == 22:
        return X + 1e8, y + 1e8
    else:
        X[row] = X[0] + 1e-9
        y[row % len(y)] = y[0] + 1e3
    return X, y


def nasty_data(rng: np.random.Generator) -> str:
    """Fit data with one or two such things; what is answered is usable."""
    X, y = _clean(rng)
    X, y = spoilt(X, y, rng)
    if (
        rng.random() < 0.3
        and isinstance(X, np.ndarray)
        and X.ndim == 2
        and X.dtype == np.float64
        and len(X)
        and np.asarray(y).dtype == np.float64
    ):
        X, y = spoilt(np.array(X), np.array(y), rng)
    quick = Single(restarts=1, max_iter=5)
    models = [
        GPRegressor(restarts=1, max_iter=5),
        ManifoldGPRegressor((2,), averaging=quick),
        ManifoldGPRegressor(averaging="fast"),
        ManifoldGPRegressor(averaging=SMALL_STACK),
        ManifoldGPRegressor(averaging=SMALL_STACK, method=Local(cell=3, near=6)),
        ManifoldGPRegressor(),
    ]
    # the default takes as long as a hundred others
    model = models[-1] if rng.random() < 0.01 else models[rng.integers(len(models) - 1)]

    def answer() -> None:
        require_usable(*model.fit(X, y).predict(X, return_std=True))

    return refused_or(answer)


AREAS: dict[str, Case] = {"nasty-data": nasty_data}
