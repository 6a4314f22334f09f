"""A whole run: what was planned, found and judged, what it ran on, and its headline in a README."""

from __future__ import annotations

import os
import platform
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from manifoldgp.data import write_whole
from manifoldgp.errors import InputError
from paper.checks import Check, checks
from paper.experiment import Experiment, Result
from paper.plan import Plan
from paper.run import Failure
from paper.tables import Table, make_tables, show

_PACKAGES = ("manifoldgp", "torch", "numpy", "scipy", "scikit-learn", "matplotlib", "mujoco-core")


@dataclass(frozen=True)
class Outcome:
    """All results of a Plan with tables and checks. seconds: of this run, without what was found before."""

    plan: Plan
    results: tuple[Result, ...]
    failures: tuple[Failure, ...]
    tables: tuple[Table, ...]
    checks: tuple[Check, ...]
    finished: str
    seconds: float
    versions: dict[str, str]
    machine: str

    def of(self, experiment: str, method: str | None = None) -> list[Result]:
        """Results of an experiment, or of one method in it, in the order of their seeds."""
        found = [r for r in self.results if r.config.experiment == experiment and method in (None, r.config.method)]
        return sorted(found, key=lambda r: r.config.seed)

    def table(self, experiment: str) -> Table:
        """The table of an experiment."""
        return next(table for table in self.tables if table.experiment == experiment)

    def ranked_seeds(self, experiment: Experiment, method: str = "mgp-sigmoid") -> list[int]:
        """Seeds from the best to the worst test NLPP of a method: the middle one is typical."""
        scored = [(r.scores["nlpp"], r.config.seed) for r in self.of(experiment.key, method)]
        return [seed for _, seed in sorted(scored)]


def gather(plan: Plan, results: Sequence[Result], failures: Sequence[Failure], seconds: float) -> Outcome:
    """Tables and checks of what was found."""
    tables = make_tables(plan.experiments, results, Counter((c.experiment, c.method) for c in plan.configs))
    return Outcome(
        plan=plan,
        results=tuple(results),
        failures=tuple(failures),
        tables=tuple(tables),
        checks=tuple(checks(tables, results)),
        finished=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        seconds=seconds,
        versions={"Python": platform.python_version(), **_versions()},
        machine=f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}",
    )


def _versions() -> dict[str, str]:
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


# ---- the headline rows and the step figure, for a README

_HEADLINE_METHODS = ("gp-se", "mgp-sigmoid", "mgp-restarts", "stack")
_HEADLINE_METRICS = {"step": ("nlml", "nlpp"), "bumps": ("nlpp", "test_rmse"), "smooth": ("nlpp",)}
_HEADLINE_NAMES = {"nlml": "NLML, train", "nlpp": "NLPP, test", "test_rmse": "RMSE, test"}


def headline(outcome: Outcome) -> str:
    """A Markdown table: the paper's mGP, then ours, median over seeds with the worst in parentheses; lower is better."""
    lines = [
        "| | paper's mGP | plain GP | mGP, best start | mGP, averaged restarts | stack (default) |",
        "|---|---|---|---|---|---|",
    ]
    for table in outcome.tables:
        for metric in _HEADLINE_METRICS.get(table.experiment, ("nlpp",)):
            paper = table.row("mgp-sigmoid").cells[metric].paper
            # Nobody else has these walks: the paper's number is of another robot.
            shown = show(paper, metric) if not table.experiment.startswith(("walker", "icub", "recording")) else "other data"
            cells = [_cell(table, method, metric) for method in _HEADLINE_METHODS]
            lines.append(f"| {table.title}: {_HEADLINE_NAMES[metric]} | {shown} | {' | '.join(cells)} |")
    setting = "quick setting" if outcome.plan.quick else "full setting"
    seeds = max(row.seeds for table in outcome.tables for row in table.rows)
    lines += [
        "",
        f"Median over up to {seeds} seeds, the worst in parentheses; lower is better. Made by `python -m paper reproduce` ({setting}).",
    ]
    return "\n".join(lines) + "\n"


def _cell(table: Table, method: str, metric: str) -> str:
    row = table.row(method)
    cell = row.cells[metric]
    if cell.median is None:
        return "–"
    return show(cell.median, metric) + (f" ({show(cell.worst, metric)})" if row.seeds > 1 else "")


BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"
_FIGURES = Path("docs") / "images"


def update_readme(path: Path, outcome: Outcome | None, report: Path) -> None:
    """Replace what stands between the marks in ``path`` by the step figure of ``report`` and the headline rows.

    The figure is copied to docs/images beside the file. outcome None: only check that the marks are there.
    """
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise InputError(f"{path} needs the lines {BEGIN} and {END}, once each and in this order: the results go between them.")
    if outcome is None:
        return
    parts = [BEGIN]
    figure = report / "figures" / "step-gap.png"
    if figure.is_file():
        target = path.parent / _FIGURES / figure.name
        target.parent.mkdir(parents=True, exist_ok=True)
        write_whole(target, figure.read_bytes())
        parts += [
            f"![A step with a gap in the training data: one model decides, averages do not]({(_FIGURES / figure.name).as_posix()})",
            "",
        ]
    parts += [headline(outcome), END]
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    write_whole(path, before + "\n".join(parts) + after)
