"""The inputs as people have them in their tables: each with the numbers that the model sees for it, its values in words, and how much it matters."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import TYPE_CHECKING

import numpy as np

from manifoldgp._system.plain_text import one_line
from manifoldgp.data.columns import Column
from manifoldgp.data.dates import UNITS
from manifoldgp.inspection.chosen_rows import FORGOTTEN, thinned
from manifoldgp.inspection.curves import predictive
from manifoldgp.inspection.learned import sensitivities

if TYPE_CHECKING:
    from manifoldgp.data.encoding import TableEncoding
    from manifoldgp.estimators.manifold_gp import ManifoldGPRegressor

_MOST_VALUES = 12
"""Values of a category that it is changed to."""


@dataclass(frozen=True)
class TableColumn:
    """An input: what it is called, what kind of column it is, and the places of its numbers among those of the model.

    which: of columns with many categories, the how-manieth it is.
    """

    label: str
    column: Column
    places: tuple[int, ...]
    which: int = 0

    @property
    def is_number(self) -> bool:
        """Whether its first number can run along an axis."""
        return self.column.kind in ("number", "date", "duration")

    @property
    def codes(self) -> np.ndarray:
        """The numbers that each category becomes, (categories, numbers)."""
        return np.eye(len(self.column.categories)) if self.column.effects is None else np.array(self.column.effects.shifts)

    def words(self, X: np.ndarray, levels: np.ndarray | None = None) -> list[str] | None:
        """Its values in rows X (n, D) in words, if it is a category, or true or false. levels (n, C): of training rows, see `row_levels`."""
        if self.column.categories:
            return [one_line(category) for category in self.categories(X, levels)]
        return ["true" if x > 0.5 else "false" for x in X[:, self.places[0]]] if self.column.kind == "flag" else None

    def is_missing(self, X: np.ndarray) -> np.ndarray:
        """In which of the model's inputs X (n, D) it has a gap that the model was told of."""
        return X[:, self.places[-1]] > 0.5 if self.column.indicator else np.zeros(len(X), dtype=bool)

    def categories(self, X: np.ndarray, levels: np.ndarray | None = None) -> list[str]:
        """Its categories in rows X (n, D); of a row that was filled in the nearest one. levels (n, C): as in `words`."""
        own = X[:, list(self.places[: len(self.places) - self.column.indicator])]
        found = ((own[:, None, :] - self.codes) ** 2).sum(-1).argmin(1)
        if levels is not None and self.column.effects is not None:
            found = np.where(levels[:, self.which] == -1, found, levels[:, self.which])
        return ["not known: fit anew" if k == FORGOTTEN else self.column.categories[k] for k in found]

    @property
    def axis_label(self) -> str:
        """What its axis is called: dates with a zone are counted in UTC, which a name may say itself."""
        zoned = self.column.time is not None and self.column.time.zoned
        return f"{self.label} (UTC)" if zoned and not re.search(r"\bUTC\W*$", self.label) else self.label

    def dates(self, x: np.ndarray) -> list[str]:
        """The dates that its first numbers (n,) stand for, with a time of day where it is not midnight."""
        assert self.column.time is not None
        times = (self._origin + timedelta(seconds=round(float(v) * UNITS[self.column.time.unit])) for v in x)
        return [time.isoformat(" ").removesuffix(" 00:00:00") for time in times]

    def clock(self, X: np.ndarray) -> dict[str, float | bool] | None:
        """How scripts read its first number as a date, origin + unit · x milliseconds since 1970; days: whether all dates in rows X (n, D) are days. None where it is no date."""
        if self.column.kind != "date" or self.column.time is None:
            return None
        x, unit = X[:, self.places[0]], self.column.time.unit
        days = bool((x == np.round(x)).all()) and unit == "days" and self._origin.time() == time()
        return {"origin": self._origin.replace(tzinfo=UTC).timestamp() * 1e3, "unit": UNITS[unit] * 1e3, "days": days}

    @property
    def _origin(self) -> datetime:
        """The date from which its first number counts, in UTC."""
        assert self.column.time is not None
        assert self.column.time.origin is not None
        return datetime.fromisoformat(self.column.time.origin).replace(tzinfo=None)


def table_columns(inputs: Sequence[str], encoding: TableEncoding | None) -> list[TableColumn]:
    """The inputs of a model; inputs: names of its numbers, which are the inputs where no encoding says otherwise."""
    if encoding is None:
        return [TableColumn(name, Column(name), (d,)) for d, name in enumerate(inputs)]
    found, first, which = [], 0, 0
    for column in encoding.columns:
        duration = column.time is not None and column.time.origin is None
        name = encoding.label(column.names[0] if duration else column.name)
        found.append(TableColumn(one_line(name), column, tuple(range(first, first + len(column.names))), which))
        first += len(column.names)
        which += column.effects is not None
    return found


def column_strengths(
    model: ManifoldGPRegressor, columns: Sequence[TableColumn], X: np.ndarray, *, output: int = 0, most: int = 400
) -> np.ndarray:
    """The typical change of the posterior mean with each input (C,), in the units of y.

    What has no values between its categories, or between true and false, has no slope: rows get other values, as often as these occur, and the mean varies by so much
    (standard deviation over the values, root mean square over the rows). Of numbers it is that of `sensitivities`, a slope times a spread, but at most what
    other values do: a step has slopes without end, and so has the foot of a dose that spans powers of ten.

    Parameters
    ----------
    X : (n, D)
        The rows that are looked at; at most ``most`` of them.
    """
    slopes = sensitivities(model, X, output=output, most=most)
    rows = X[thinned(len(X), most)]
    means = predictive(model, rows, output).moments()[0].cpu().numpy()
    squares = [
        min(float((slopes[list(column.places)] ** 2).sum()), _moved_squared(model, rows, means, column, output))
        if column.is_number
        else _change_squared(model, X, column, output, most)
        for column in columns
    ]
    return np.sqrt(squares)


def _moved_squared(model: ManifoldGPRegressor, X: np.ndarray, means: np.ndarray, column: TableColumn, output: int) -> float:
    """Half the mean square by which the posterior mean at rows X (n, D) changes as a number takes the value of a row that is a quarter, a half or three quarters of all away."""
    n, places = len(X), list(column.places)
    order = np.argsort(X[:, places[0]], kind="stable")
    away = np.maximum(1, (1 + np.arange(n) % 3) * n // 4)
    moved = X.copy()
    moved[:, places] = X[order[(np.argsort(order) + away) % n]][:, places]
    return 0.5 * float(np.mean((predictive(model, moved, output).moments()[0].cpu().numpy() - means) ** 2))


def _change_squared(model: ManifoldGPRegressor, X: np.ndarray, column: TableColumn, output: int, most: int) -> float:
    """The mean over rows X (n, D) of the variance of the posterior mean as a column takes the values that occur."""
    values, counts = np.unique(np.round(X[:, list(column.places)], 9), axis=0, return_counts=True)
    usual = np.argsort(-counts, kind="stable")[:_MOST_VALUES]
    rows = X[thinned(len(X), max(1, most // len(usual)))]
    moved = np.repeat(rows[None], len(usual), 0)
    moved[:, :, list(column.places)] = values[usual][:, None, :]
    means = predictive(model, moved.reshape(-1, X.shape[1]), output).moments()[0].cpu().numpy().reshape(len(usual), -1)
    shares = counts[usual] / counts[usual].sum()
    return float((shares @ (means - shares @ means) ** 2).mean())
