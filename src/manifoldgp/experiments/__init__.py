"""The paper's experiments: a Config in, a Result out, one file an experiment."""

from manifoldgp.experiments._catalogue import EXPERIMENTS, experiment_of
from manifoldgp.experiments._checks import Check, checks
from manifoldgp.experiments._experiment import METRICS, Config, Experiment, Method, PaperRow, Result
from manifoldgp.experiments._one import run_one
from manifoldgp.experiments._outcome import Outcome, gather
from manifoldgp.experiments._plan import Plan, make_plan
from manifoldgp.experiments._run import Failure, expected_seconds, run
from manifoldgp.experiments._tables import (
    HEADINGS,
    Row,
    Table,
    make_tables,
    show,
    tables_as_csv,
    tables_as_data,
    tables_as_markdown,
)

__all__ = [
    "EXPERIMENTS",
    "HEADINGS",
    "METRICS",
    "Check",
    "Config",
    "Experiment",
    "Failure",
    "Method",
    "Outcome",
    "PaperRow",
    "Plan",
    "Result",
    "Row",
    "Table",
    "checks",
    "expected_seconds",
    "experiment_of",
    "gather",
    "make_plan",
    "make_tables",
    "run",
    "run_one",
    "show",
    "tables_as_csv",
    "tables_as_data",
    "tables_as_markdown",
]
