"""The paper's tables with ours beside them: median and worst over seeds, as data, CSV and Markdown."""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from paper.experiment import METRICS, Experiment, Result
from paper.methods import OTHER_STARTS, note_on_named

HEADINGS = {
    "nlml": "train NLML",
    "train_rmse": "train RMSE",
    "nlpp": "test NLPP",
    "test_rmse": "test RMSE",
}


@dataclass(frozen=True)
class Cell:
    """One metric of one method: the paper's value (as printed, and to compare with), and ours over the seeds. Lower is better."""

    median: float | None
    worst: float | None
    best: float | None
    paper: float | None
    printed: float | None


@dataclass(frozen=True)
class Row:
    """One method. coverage: median share of test targets inside 95 % bounds. seconds: median time to fit. failed: seeds without result."""

    method: str
    label: str
    ours: bool
    restarts: int | None
    seeds: int
    failed: int
    cells: dict[str, Cell]
    coverage: float | None
    seconds: float | None

    def median(self, metric: str) -> float | None:
        """Ours, median over seeds."""
        return self.cells[metric].median


@dataclass(frozen=True)
class Table:
    """One experiment."""

    experiment: str
    title: str
    reference: str
    note: str
    caution: str
    rows: tuple[Row, ...]

    def row(self, method: str) -> Row:
        """The row of a method."""
        return next(row for row in self.rows if row.method == method)


def make_tables(
    experiments: Sequence[Experiment], results: Sequence[Result], planned_seeds: Mapping[tuple[str, str], int]
) -> list[Table]:
    """Tables of all experiments. planned_seeds: by the keys of experiment and method; seeds without a result count as failed."""
    return [
        Table(
            experiment.key,
            experiment.title,
            experiment.table,
            _note(experiment),
            experiment.caution,
            tuple(
                _row(
                    experiment,
                    method.key,
                    [r for r in results if (r.config.experiment, r.config.method) == (experiment.key, method.key)],
                    planned_seeds[experiment.key, method.key],
                )
                for method in experiment.methods
            ),
        )
        for experiment in experiments
    ]


def _note(experiment: Experiment) -> str:
    """What the experiment says of itself, and of the rows that the paper does not have."""
    return f"{experiment.note} {note_on_named(experiment.methods)}".strip()


def _row(experiment: Experiment, key: str, results: list[Result], seeds: int) -> Row:
    method = experiment.method(key)
    paper = experiment.paper.get(key)
    cells = {}
    for metric in METRICS:
        values = [v for r in results if (v := r.scores[metric]) is not None]
        cells[metric] = Cell(
            median=statistics.median(values) if values else None,
            worst=max(values, default=None),
            best=min(values, default=None),
            paper=None if paper is None else paper.value(metric),
            printed=None if paper is None else getattr(paper, metric),
        )
    covered = [v for r in results if (v := r.scores["coverage"]) is not None]
    return Row(
        method=key,
        label=method.label,
        ours=method.average,
        restarts=None if key in OTHER_STARTS or not results else results[0].config.restarts,
        seeds=len(results),
        failed=seeds - len(results),
        cells=cells,
        coverage=statistics.median(covered) if covered else None,
        seconds=statistics.median(r.seconds for r in results) if results else None,
    )


def show(value: float | None, metric: str) -> str:
    """A number as the tables print it: log densities with two decimals, errors with three significant digits.

    >>> show(-3.0894, "nlpp"), show(0.06716, "test_rmse"), show(8.32e-06, "test_rmse")
    ('-3.09', '0.0672', '8.32e-6')
    """
    if value is None:
        return "–"
    if metric in ("nlml", "nlpp"):
        return f"{value:.2f}" if abs(value) < 1000 else f"{value:.2g}".replace("e+0", "e")
    if 1e-3 <= abs(value) < 1000:
        return f"{value:#.3g}"
    digits, exponent = f"{value:.2e}".split("e")
    return f"{digits}e{int(exponent)}"


def tables_as_csv(tables: Sequence[Table]) -> str:
    """One line a number: experiment, method, metric, paper (printed and to compare with), ours (median, worst, best), seeds, restarts, seconds."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        [
            "experiment",
            "method",
            "metric",
            "paper_printed",
            "paper",
            "median",
            "worst",
            "best",
            "seeds",
            "failed",
            "restarts",
            "coverage",
            "seconds",
        ]
    )
    for table in tables:
        for row in table.rows:
            for metric, cell in row.cells.items():
                numbers = (cell.printed, cell.paper, cell.median, cell.worst, cell.best)
                settings = (row.seeds, row.failed, row.restarts, row.coverage, row.seconds)
                writer.writerow([table.experiment, row.method, metric, *("" if v is None else v for v in (*numbers, *settings))])
    return text.getvalue()


def tables_as_markdown(tables: Sequence[Table]) -> str:
    """Each table with the paper's value, our median, and the worst seed in parentheses."""
    return "\n".join(_markdown(table) for table in tables)


def _markdown(table: Table) -> str:
    heads = [
        "Method",
        *(part for m in METRICS for part in (f"{HEADINGS[m]}: paper", "ours (worst)")),
        "covered",
        "restarts",
        "seeds",
        "seconds",
    ]
    lines = [
        f"## {table.title} ({table.reference})",
        "",
        table.note,
        "",
        *([table.caution, ""] if table.caution else []),
        _line(heads),
        _line(["---"] * len(heads)),
    ]
    for row in table.rows:
        cells = []
        for metric, cell in row.cells.items():
            cells += [show(cell.paper, metric), f"{show(cell.median, metric)} ({show(cell.worst, metric)})"]
        covered = "–" if row.coverage is None else f"{100 * row.coverage:.0f} %"
        restarts = "–" if row.restarts is None else str(row.restarts)
        seconds = "–" if row.seconds is None else f"{row.seconds:.1f}"
        label = f"**{row.label}**" if row.ours else row.label
        lines.append(
            _line([label, *cells, covered, restarts, f"{row.seeds}" + (f" ({row.failed} failed)" if row.failed else ""), seconds])
        )
    return "\n".join([*lines, ""])


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def tables_as_data(tables: Sequence[Table]) -> list[dict]:
    """The tables as plain dictionaries, for JSON."""
    return [asdict(table) for table in tables]
