"""What a comparison found: scores of every model, paired differences with their uncertainty, and the one sentence that follows from them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from manifoldgp import metrics
from manifoldgp._system.plain_text import counted, digits
from manifoldgp.chance.differences import CLEAR, Difference, paired
from manifoldgp.comparison.held_out import RowScores
from manifoldgp.errors import InputError

_BEYOND_DOUBT = 3.0
"""Standard errors from which on a difference is called clear; from two on it is probably no chance."""

_FASTER = 3.0
_ALIKE = 0.05
"""A model is offered as a cheaper choice when it takes a third of the time or less, and its score is within 5 %."""


@dataclass(frozen=True)
class Row:
    """One model of a comparison.

    Attributes
    ----------
    name, title
        Its short name, and what it is in words.
    density
        Where its predictive distribution comes from.
    status
        "done", "cut short by the budget", or why there are no scores.
    seconds
        Time a fold: training, with inner folds where its distribution needs them, and predicting.
    scores
        Of every row, by a model that has not seen it; None where it was not finished.
    """

    name: str
    title: str
    density: str
    status: str
    seconds: float = math.nan
    scores: RowScores | None = None

    @property
    def done(self) -> bool:
        """Whether it has scores."""
        return self.scores is not None


@dataclass(frozen=True)
class Comparison:
    """Models on the same held-out rows. Print it for a table; ``verdict`` is the sentence, ``write`` the page.

    Attributes
    ----------
    y : (N,)
        The targets.
    rows
        One `Row` a model, in the order in which they were tried.
    units : (N,)
        Rows with one number count as one piece of evidence in standard errors: those of a group, or of a short stretch of time.
    held_out
        In words, how rows were held out.
    target
        Its name.
    interrupted
        Whether somebody stopped it.
    """

    y: np.ndarray
    rows: tuple[Row, ...]
    units: np.ndarray
    held_out: str
    target: str = "y"
    interrupted: bool = False

    @cached_property
    def ranked(self) -> list[Row]:
        """The finished models, the one with the lowest CRPS first."""
        return sorted((row for row in self.rows if row.done), key=lambda row: self.numbers(row)["crps"])

    @property
    def best(self) -> Row:
        """The model with the lowest CRPS."""
        if not self.ranked:
            reasons = "; ".join(f"{row.name}: {row.status}" for row in self.rows)
            raise InputError(f"No model was finished ({reasons}). Give more time, or other models.")
        return self.ranked[0]

    def numbers(self, row: Row) -> dict[str, float]:
        """RMSE, MAE, R², CRPS, NLPP, coverage of 90 and 95 % intervals, and seconds of a finished model."""
        assert row.scores is not None
        y, found = self.y, row.scores
        inside = metrics.coverage_table(found.pit, (0.9, 0.95))
        return {
            "rmse": metrics.rmse(y, found.mean),
            "mae": metrics.mae(y, found.mean),
            "r2": metrics.r2(y, found.mean) if y.var() > 0 else math.nan,
            "crps": float(found.crps.mean()),
            "nlpp": metrics.nlpp(found.log_density),
            "coverage_90": inside[0].observed,
            "coverage_95": inside[1].observed,
            "seconds": row.seconds,
        }

    def difference(self, row: Row, other: Row, score: str = "crps") -> Difference:
        """How much higher (worse) a score of ``row`` is than that of ``other``, with its standard error over the rows.

        score: "crps", "nlpp", "mae" or "rmse". For the RMSE, which is no mean, (a² − b²) / (a + b) of the mean squared errors a², b².
        The error knows the chance in the held-out rows, not that in the training rows, which overlap between folds.
        """
        difference = self._each(row, score) - self._each(other, score)
        scale = self.numbers(row)["rmse"] + self.numbers(other)["rmse"] if score == "rmse" else 1.0
        value, error = paired(difference, self.units)
        return Difference(value / max(scale, 1e-300), error / max(scale, 1e-300))

    def _each(self, row: Row, score: str) -> np.ndarray:
        assert row.scores is not None
        errors = self.y - row.scores.mean
        found = {"crps": row.scores.crps, "nlpp": -row.scores.log_density, "mae": np.abs(errors), "rmse": errors**2}
        if score not in found:
            raise InputError(f"score must be one of {', '.join(found)}; got {score!r}.")
        return found[score]

    @property
    def verdict(self) -> str:
        """One sentence that says what to use and why, and another one of models that were stopped before they could be judged."""
        left = "; ".join(row.title for row in self.rows if not (row.done or row.status.startswith("failed")))
        why = "Stopped before it could be judged" if self.interrupted else "Not judged, for want of time"
        return self._verdict + (f" {why}: {left}." if left else "")

    @property
    def _verdict(self) -> str:
        best, others = self.best, self.ranked[1:]
        score = self.numbers(best)["crps"]
        if not others:
            return f"Only {best.title} was finished: there is nothing to compare it with."
        second = others[0]
        if best.name == "mean":
            return f"Use the mean, because no other model that was tried predicts {self.target} better from these inputs."
        mean = next((row for row in others if row.name == "mean"), None)
        if mean is not None and not self.difference(mean, best).clear:
            return (
                f"Use the mean for now, because no model is clearly better: {best.title} has the lowest CRPS, {digits(score)}, "
                f"and the mean's is {self._apart(mean, best)} higher."
            )
        behind = self.difference(second, best)
        lowest = f"its CRPS, {digits(score)}, is the lowest"
        if behind.clear:
            how = "clearly so" if abs(behind.value) > _BEYOND_DOUBT * behind.error else "probably not by chance"
            return f"Use {best.title}, because {lowest}, and {how}: that of {second.title}, the next, is {self._apart(second, best)} higher."
        cheaper = self._cheaper(best, others)
        if cheaper is not None:
            return (
                f"Use {cheaper.title}, because it takes {best.seconds / max(cheaper.seconds, 1e-9):.0f} times less time than {best.title}, "
                f"and its CRPS is not clearly higher ({self._apart(cheaper, best)})."
            )
        further = sum(not self.difference(row, best).clear for row in others) - 1
        also = f", nor are those of {further} more" if further > 0 else ""
        return f"Use {best.title}, because {lowest}; that of {second.title} is not clearly higher ({self._apart(second, best)}){also}."

    def _cheaper(self, best: Row, others: list[Row]) -> Row | None:
        """The fastest model that is neither clearly nor much worse than the best, where it is a lot faster and slow training matters at all."""
        alike = [
            row
            for row in others
            if not self.difference(row, best).clear and self.difference(row, best).value <= _ALIKE * self.numbers(best)["crps"]
        ]
        fastest = min(alike, key=lambda row: row.seconds, default=None)
        return fastest if fastest is not None and best.seconds > max(_FASTER * fastest.seconds, 1.0) else None

    def _apart(self, row: Row, best: Row) -> str:
        """A difference of CRPS in words.

        It is told with two standard errors, as all differences are.
        """
        found = self.difference(row, best)
        return f"{digits(found.value, 2)} ± {digits(CLEAR * found.error, 2)}"

    def table(self) -> list[dict[str, object]]:
        """A dictionary for each model, finished ones first, the best on top: for JSON, or ``pandas.DataFrame``."""
        found: list[dict[str, object]] = []
        for row in self.ranked:
            difference = self.difference(row, self.best)
            found.append(
                {"model": row.name, "title": row.title, "status": row.status, **self.numbers(row)}
                | {"crps_above_best": difference.value, "crps_above_best_error": difference.error, "density": row.density}
            )
        return found + [{"model": row.name, "title": row.title, "status": row.status} for row in self.rows if not row.done]

    def write(self, path: str | Path, title: str | None = None) -> Path:
        """Write one HTML file with the table and pictures, which opens without a network; returns its path."""
        from manifoldgp.comparison.page import write_comparison

        return write_comparison(self, path, title)

    def __str__(self) -> str:
        heads = ("model", "RMSE", "MAE", "CRPS", "above the best", "NLPP", "95 % holds", "s a fold")
        lines: list[tuple[str, ...]] = [heads]
        for row in self.ranked:
            n = self.numbers(row)
            apart = "" if row is self.best else self._apart(row, self.best)
            numbers = (digits(n[k]) for k in ("rmse", "mae", "crps"))
            lines.append((row.name, *numbers, apart, f"{n['nlpp']:.3g}", f"{100 * n['coverage_95']:.0f} %", f"{row.seconds:.2g}"))
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        shown = [
            "  ".join(cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(line, widths, strict=True)))
            for line in lines
        ]
        unfinished = [f"{row.name}: {row.status}" for row in self.rows if not row.done]
        return "\n".join(
            [
                f"{counted(len(self.y), 'row')}, {self.held_out}",
                *shown,
                *unfinished,
                "",
                self.verdict if self.ranked else "No model was finished.",
            ]
        )

    def _repr_html_(self) -> str:
        from manifoldgp.comparison.page import table_html

        return table_html(self)
