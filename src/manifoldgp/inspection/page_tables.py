"""The tables of a model's page, and in words why starts ended."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from manifoldgp import inspection, metrics
from manifoldgp._system.plain_text import explained_share, named_number
from manifoldgp.averaging.verdict import errors_of
from manifoldgp.chance.interval_checks import FEWEST_ROWS
from manifoldgp.estimators.diagnosis import Diagnosis
from manifoldgp.inspection.page_view import ModelView, TargetView
from manifoldgp.inspection.table_columns import TableColumn
from manifoldgp.training.coarse_to_fine import on_a_level
from manifoldgp.training.optimizer import CUT_SHORT

if TYPE_CHECKING:
    from manifoldgp.estimators.manifold_gp import ManifoldGPRegressor

_ENDINGS = {
    "clearly lost": "stopped early: the best was out of reach",
    "screened out": "only tried on few rows: others did better",
    "not reached": "never begun: time was up",
}


def ending(status: str) -> str:
    """A status of the table of starts, in words.

    >>> ending("not reached"), ending("converged"), ending("lost on 500 rows")
    ('never begun: time was up', 'converged', 'lost on 500 rows: others did better there')
    """
    if on_a_level([status])[0]:
        return f"{status}: others did better " + ("there" if status.startswith("lost") else "on all rows")
    return _ENDINGS.get(status, status)


def comparable(starts: np.ndarray) -> np.ndarray:
    """Which starts' objectives are those of all rows: not of those that were only screened, on few rows."""
    return starts["status"] != "screened out"


def about_endings(starts: np.ndarray) -> str:
    """Sentences about starts that ended in unusual ways, where there are any."""
    status, text = starts["status"], ""
    lost, screened = int((status == "clearly lost").sum()), int((status == "screened out").sum())
    never = ~np.isfinite(starts["objective"]) & (starts["iterations"] == 0)
    idle = int(((status == "not reached") | (np.isin(status, CUT_SHORT) & never)).sum())
    if lost:
        text += f" {_starts(lost)} stopped early, because the best was out of reach."
    if screened:
        text += f" {_starts(screened)} only tried on few rows and not drawn: the values are not comparable."
    left = int(on_a_level(status).sum())
    if left:
        text += (
            f" {_starts(left)} left behind on a part of the rows, where training is cheap; only the best one went on to all rows."
        )
    if idle:
        text += f" {_starts(idle)} never begun, because time was up."
    return text


def _starts(count: int) -> str:
    return "1 start was" if count == 1 else f"{count} starts were"


_MOST_COLUMNS, _MOST_STARTS = 60, 60


def say(value: float) -> str:
    """A number for reading: four digits, a real minus sign.

    >>> say(-0.012345), say(1234567.0), say(12.0)
    ('−0.01235', '1235000', '12')
    """
    return _say_named("", value)


def _say_named(name: str, value: float) -> str:
    """The same of a number that has a name: R² may need more digits."""
    shown = named_number(name, value)
    return shown if "e" in shown else shown.replace("-", "−")


def say_input(value: float) -> str:
    """The value of an input: a whole number in full, as codes and years are written, others with four digits.

    >>> say_input(80331.0000000001), say_input(-12.0), say_input(12.34567)
    ('80331', '−12', '12.35')
    """
    value = float(f"{value:.12g}")  # scaling back and forth leaves traces behind that
    return f"{value:.0f}".replace("-", "−") if value.is_integer() and abs(value) < 1e12 else say(value)


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], kind: str = "") -> str:
    """An HTML table whose first column names the rows; cells are HTML."""
    head = "".join(f'<th scope="col">{text}</th>' for text in heads)
    body = "".join(
        f'<tr><th scope="row">{row[0]}</th>' + "".join(f"<td>{cell}</td>" for cell in row[1:]) + "</tr>" for row in rows
    )
    return f'<div class="scroll"><table class="wrap {kind}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def data_table(view: ModelView) -> str:
    """Range, median and spread of every input and target, in the training rows that the model keeps."""
    dated = {column.places[0]: column for column in view.columns if column.column.kind == "date"}
    rows = [
        _dates_row(dated[d], a) if d in dated else _numbers_row(name, "input", a)
        for d, (name, a) in list(enumerate(zip(view.inputs, view.X.T, strict=True)))[:_MOST_COLUMNS]
    ]
    rows += [_numbers_row(t.name, "target", inspection.training_rows(view.model, t.output).y) for t in view.targets]
    return table(("column", "", "smallest", "median", "largest", "standard deviation"), rows)


def _numbers_row(name: str, kind: str, a: np.ndarray) -> list[str]:
    *places, spread = _summary(a)
    return [escape(name), kind, *map(say_input, places), say(spread)]


def _dates_row(column: TableColumn, a: np.ndarray) -> list[str]:
    """a (n,): the time since its origin, of which the spread alone is no date."""
    *places, spread = _summary(a)
    assert column.column.time is not None
    return [escape(column.axis_label), "input", *column.dates(np.array(places)), f"{say(spread)} {column.column.time.unit}"]


def _summary(a: np.ndarray) -> list[float]:
    """Smallest, median, largest, standard deviation; zero where rounding left a trace only.

    >>> _summary(np.array([-0.3, 0.1 + 0.2 - 0.3, 0.3]))[:3]
    [-0.3, 0.0, 0.3]
    """
    trace = 1e-12 * np.abs(a).max()
    return [float(v) if abs(v) > trace else 0.0 for v in (a.min(), np.median(a), a.max(), a.std())]


def score_table(view: ModelView) -> str:
    """Scores of test rows if there are any, of the rows that a stack held out, and of training rows with each left out."""
    rows = []
    for target in view.targets:
        if target.test is not None:
            rows.append(_scores(target, target.test, "test rows"))
        if target.held_out is not None:
            rows.append(_held_out_scores(target, view.model.ensembles_[target.output].scale))
        which = "a sample of the training rows, left out" if view.sampled else "training rows, left out"
        rows.append(_scores(target, target.left_out, which))
    heads = (
        "target", "scored on", "rows", "typical error (RMSE)", "mean error (MAE)", "RMSE of always predicting the mean", "RMSE of a linear model", "explained (R²)", "95 % intervals hold", "NLPP",
    )  # fmt: skip
    return table(heads, rows)


def _held_out_scores(target: TargetView, scale: float) -> list[str]:
    """Scores of the rows that the folds of a stack kept from the models that predict them; scale: sd of y."""
    report = target.held_out
    assert report is not None
    inside = _share_inside(float(np.mean(np.abs(report.pit - 0.5) <= 0.475)), len(report.pit))
    nlpp = metrics.nlpp(report.log_density["stack"]) + math.log(scale)
    errors = ["–"] * 5
    if report.mean is not None and report.observed is not None:
        found = errors_of(report.observed, report.mean, scale)
        spread = scale * float(np.sqrt(np.mean(report.observed**2)))  # targets are standardised: the training mean is zero
        errors = [say(found["RMSE"]), say(found["MAE"]), say(spread), "–", _explained(found.get("R²"))]
    return [escape(target.name), "training rows, held out", f"{len(report.pit):,}", *errors, inside, say(nlpp)]


def linear_rmse(found: inspection.Predictions, X: np.ndarray, y: np.ndarray) -> float:
    """What a linear model (ridge, on standardised inputs) errs by at the same rows: learnt from the training rows X (n, D), y (n,); or each row left out.

    With A = [1, Z] and H = A (AᵀA + diag(0, 1, ..., 1))⁻¹ Aᵀ the error of a row that is left out is that of the fit divided by 1 − H_ii.
    """
    X, y = (found.X, found.observed) if found.left_out else (X, y)
    centre, spread = X.mean(0), X.std(0)
    spread = np.where(spread > 1e-12 * np.abs(X).max(0, initial=1e-300), spread, np.inf)  # of a constant column nothing is left

    def terms(rows: np.ndarray) -> np.ndarray:
        return np.column_stack([np.ones(len(rows)), (rows - centre) / spread])

    A = terms(X)
    penalty = np.diag(np.r_[0.0, np.ones(X.shape[1])])
    solved = np.linalg.solve(A.T @ A + penalty, A.T)
    if found.left_out:
        error = (y - A @ (solved @ y)) / np.maximum(1.0 - np.einsum("nd,dn->n", A, solved), 1e-9)
    else:
        error = found.observed - terms(found.X) @ (solved @ y)
    return float(np.sqrt(np.mean(error**2)))


def _explained(share: float | None) -> str:
    """R² for reading."""
    return "–" if share is None else explained_share(share, 4).replace("-", "−")


def _share_inside(share: float, rows: int) -> str:
    """The share of so many rows that intervals hold; nothing of rows that are too few to tell."""
    return "–" if rows < FEWEST_ROWS else f"{100 * share:.1f} %"


def _scores(target: TargetView, found: inspection.Predictions, which: str) -> list[str]:
    y = found.observed
    spread = float(np.sqrt(np.mean((y - target.rows.y.mean()) ** 2)))
    errors = errors_of(y, found.mean)
    inside = _share_inside(metrics.coverage(y, found.lower, found.upper), len(y))
    counted = f"{len(y):,}" + (f" of {found.total:,}" if found.total > len(y) else "")
    linear = linear_rmse(found, target.rows.X, target.rows.y)
    sizes = [say(errors["RMSE"]), say(errors["MAE"]), say(spread), say(linear), _explained(errors.get("R²"))]
    return [escape(target.name), which, counted, *sizes, inside, say(metrics.nlpp(found.log_density))]


def renamed(text: str, view: ModelView) -> str:
    """A remark or a number's name of diagnose() with the target's name instead of its number."""
    by_number = {t.output: t.name for t in view.targets}
    return re.sub(r"^output (\d+):", lambda m: f"{by_number.get(int(m[1]), m[0][:-1])}:", text)


def numbers_table(diagnosis: Diagnosis, view: ModelView) -> str:
    """All numbers of a diagnosis, below whose they are."""
    rows, whose = [], f'<p class="soft">{escape(diagnosis.whose)}</p>' if diagnosis.whose else ""
    for name, value in diagnosis.numbers.items():
        if isinstance(value, np.ndarray):
            text = ", ".join(say(float(v)) for v in value.ravel()[:12]) + (", …" if value.size > 12 else "")
        else:
            text = _say_named(name, float(value)) if isinstance(value, (int, float, np.number)) else escape(str(value))
        rows.append([escape(renamed(name, view)), text])
    return whose + table(("number", "value"), rows, "numbers")


def settings_table(model: ManifoldGPRegressor) -> str:
    """The arguments that the estimator was made with; those that differ from the defaults are marked."""
    given, usual = model.get_params(deep=False), type(model)().get_params(deep=False)
    rows = []
    for name, value in given.items():
        changed = repr(value) != repr(usual.get(name))
        rows.append(
            [escape(name), f"<b>{escape(_short(value))}</b>" if changed else escape(_short(value)), "changed" if changed else ""]
        )
    return table(("argument", "value", ""), rows, "numbers")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 200 else text[:199] + "…"


def starts_table(view: ModelView) -> str:
    """Every start: where it ended, why it stopped, its weight; the heaviest first."""
    starts = view.model.starts_.copy()
    for value in ("nlml", "objective"):
        starts[value][~comparable(starts)] = np.inf
    order = np.lexsort((starts["objective"], -starts["weight"]))
    heads = ("target", "group", "start", "NLML", "objective", "iterations", "why it stopped", "weight")
    head = "".join(f'<th scope="col"><button type="button">{text}</button></th>' for text in heads)
    rows = []
    names = {t.output: t.name for t in view.targets}
    for row in starts[order][:_MOST_STARTS]:
        name, why = names.get(int(row["output"]), str(row["output"])), ending(str(row["status"]))
        numbers = [(row["nlml"], say), (row["objective"], say), (row["iterations"], str)]
        cells = "".join(f'<td data-value="{float(v) if np.isfinite(v) else ""}">{show(v) if np.isfinite(v) else "–"}</td>' for v, show in numbers)  # fmt: skip
        rows.append(
            f'<tr><th scope="row" data-value="{escape(name, quote=True)}">{escape(name)}</th><td data-value="{escape(row["group"], quote=True)}">{escape(row["group"])}</td>'
            f'<td data-value="{row["start"]}">{row["start"]}</td>{cells}<td data-value="{escape(why, quote=True)}">{escape(why)}</td>'
            f'<td data-value="{row["weight"]}">{100 * row["weight"]:.1f} %</td></tr>'
        )
    more = f'<p class="soft">The {_MOST_STARTS} heaviest of {len(starts)} starts.</p>' if len(starts) > _MOST_STARTS else ""
    return f'<div class="scroll"><table class="sortable"><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>{more}'
