"""A whole run: what was planned, found and judged, and what it ran on."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata

from manifoldgp.experiments._checks import Check, checks
from manifoldgp.experiments._experiment import Experiment, Result
from manifoldgp.experiments._plan import Plan
from manifoldgp.experiments._run import Failure
from manifoldgp.experiments._tables import Table, make_tables

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
    seeds = {e.key: len({c.seed for c in plan.configs if c.experiment == e.key}) for e in plan.experiments}
    tables = make_tables(plan.experiments, results, seeds)
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
