"""What the paper claims, and what this project promises, held against the numbers."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from manifoldgp.data import rotated_bumps
from paper.experiment import Result
from paper.functions import as_fields, bandwidth, horizontal_spectrum
from paper.tables import HEADINGS, Row, Table, show

LINEAR = ("gp-se", "mgp-identity", "random-embedding")
"""On one input these are one model: a GP on a rescaled x."""

TABLE_I_ORDER = (("mgp-sigmoid",), ("gp-nn",), LINEAR)
AVERAGED_ORDER = (("mgp-restarts",), ("gp-nn",), LINEAR)
TABLE_II_ORDER = (("mgp-sigmoid",), ("mgp-identity",), ("gp-se",), ("gp-nn",), ("random-embedding",))


@dataclass(frozen=True)
class Check:
    """kind: "bar", what this project promises, or "claim", what the paper says. held: None where there is nothing to judge by."""

    kind: Literal["bar", "claim"]
    experiment: str
    text: str
    reference: str
    expected: str
    observed: str
    held: bool | None


VERDICTS = {
    "bar": {True: "reached", False: "not reached", None: "no result"},
    "claim": {True: "holds here", False: "does not hold here", None: "no result"},
}


def claims_as_markdown(found: Sequence[Check]) -> str:
    """The paper's claims with what was found here, for docs/claims.md."""
    rows = [f"| {c.text} ({c.reference}) | **{VERDICTS['claim'][c.held]}** | {c.observed} |" for c in found if c.kind == "claim"]
    return "\n".join(["| the paper says | | found |", "|---|---|---|", *rows, ""])


def checks(tables: Sequence[Table], results: Sequence[Result]) -> list[Check]:
    """All checks of the experiments that were run, bars first."""
    found: list[Check] = []
    by_key = {table.experiment: table for table in tables}
    if "step" in by_key:
        found += _step(by_key["step"])
    if "bumps" in by_key:
        found += _bumps(by_key["bumps"], [r for r in results if r.config.experiment == "bumps"])
    for key in ("walker", "icub", "recording"):
        if key in by_key:
            found += _walk(by_key[key])
    if "smooth" in by_key:
        found += _smooth(by_key["smooth"])
    return sorted(found, key=lambda check: check.kind)


def _step(table: Table) -> list[Check]:
    return [
        _at_most(table, "mgp-sigmoid", "nlml", -3.05),
        _at_most(table, "mgp-restarts", "nlpp", -3.1),
        _at_most(table, "stack", "nlpp", -3.1),
        *(_order(table, metric, TABLE_I_ORDER) for metric in ("nlml", "nlpp", "test_rmse")),
        _order(table, "nlpp", AVERAGED_ORDER, with_averaging=True),
        _claim_best(table, "The mGP (log-sigmoid) outperforms the other models on the step", ("nlml", "nlpp"), "section III-A"),
        _claim_alike(table, "Linear features (identity, random embedding) perform like the SE-ARD GP", "section III-A"),
    ]


def _bumps(table: Table, results: Sequence[Result]) -> list[Check]:
    return [
        _at_most(table, "mgp-sigmoid", "nlml", -9.5),
        _at_most(table, "mgp-sigmoid", "nlpp", -10.5),
        _at_most(table, "mgp-sigmoid", "test_rmse", 4e-5),
        *(_order(table, metric, TABLE_II_ORDER) for metric in ("nlml", "nlpp", "test_rmse")),
        _claim_best(table, "The mGP outperforms all other methods on several length-scales", ("nlml", "nlpp"), "section III-B"),
        _claim_compact(results),
    ]


def _walk(table: Table) -> list[Check]:
    return [
        _claim_best(
            table, f"The mGP models the walk better than the other models ({table.title})", ("nlml", "nlpp"), "section III-C"
        ),
    ]


def _smooth(table: Table) -> list[Check]:
    gp, mgp = table.row("gp-se").median("nlpp"), table.row("mgp-sigmoid").median("nlpp")
    gap = None if gp is None or mgp is None else mgp - gp
    observed = "no result" if gap is None else f"{mgp:.3f} against {gp:.3f}"
    return [
        _at_most(table, "mgp-sigmoid", "nlpp", -4.3),
        Check(
            "bar",
            "smooth",
            "Smooth function: test NLPP of the mGP within 0.02 of the plain GP's",
            "Table IV",
            "≤ GP + 0.02",
            observed,
            None if gap is None else gap <= 0.02,
        ),
        Check(
            "claim",
            "smooth",
            "No relevant difference between mGP and GP on a smooth function",
            "section IV, Table IV",
            "-4.42 and -4.42",
            observed,
            None if gap is None else abs(gap) <= 0.02,
        ),
    ]


def _at_most(table: Table, method: str, metric: str, bound: float) -> Check:
    row = table.row(method)
    cell = row.cells[metric]
    paper = "" if cell.paper is None else f"; paper {show(cell.paper, metric)}"
    return Check(
        "bar",
        table.experiment,
        f"{table.title}: {HEADINGS[metric]} of {row.label}",
        table.reference,
        f"≤ {show(bound, metric)}{paper}",
        _median_and_worst(row, metric),
        None if cell.median is None else cell.median <= bound,
    )


def _median_and_worst(row: Row, metric: str) -> str:
    cell = row.cells[metric]
    if cell.median is None:
        return "no result"
    if row.seeds == 1:
        return f"{show(cell.median, metric)} (one seed)"
    return f"median {show(cell.median, metric)}, worst {show(cell.worst, metric)} of {row.seeds} seeds"


def _order(table: Table, metric: str, groups: tuple[tuple[str, ...], ...], with_averaging: bool = False) -> Check:
    """Medians of each group lie below those of the next."""
    values = [[table.row(key).median(metric) for key in group] for group in groups]
    known = all(v is not None for group in values for v in group)
    held = known and all(max(a) < min(b) for a, b in itertools.pairwise(values))  # pyright: ignore
    names = [table.row(group[0]).label if len(group) == 1 else "linear methods" for group in groups]
    numbers = [" / ".join(sorted({_fine(v, metric) for v in group})) for group in values]
    return Check(
        "bar",
        table.experiment,
        f"{table.title}: the order of {table.reference} in {HEADINGS[metric]}"
        + (", the mGP averaged over its restarts" if with_averaging else ""),
        table.reference,
        "ascending in this order",
        ", ".join(f"{name} {number}" for name, number in zip(names, numbers, strict=True)),
        held if known else None,
    )


def _fine(value: float | None, metric: str) -> str:
    """One digit more than tables show: orders are decided by it now and then."""
    return f"{value:.3f}" if value is not None and metric in ("nlml", "nlpp") else show(value, metric)


def _claim_best(table: Table, text: str, metrics: tuple[str, ...], section: str) -> Check:
    """The log-sigmoid mGP is ahead of all other methods of the paper, by medians."""
    pieces, held = [], True
    for metric in metrics:
        mine = table.row("mgp-sigmoid").median(metric)
        others = [
            (row.median(metric), row.label)
            for row in table.rows
            if row.cells[metric].printed is not None and row.method != "mgp-sigmoid"
        ]
        known = [(value, label) for value, label in others if value is not None]
        if mine is None or len(known) < len(others):
            return Check("claim", table.experiment, text, f"{section}, {table.reference}", "best", "no result", None)
        value, label = min(known)
        held = held and mine < value
        place = "ahead of" if mine < value else "behind"
        pieces.append(f"{HEADINGS[metric]} {_fine(mine, metric)}, {place} {label} with {_fine(value, metric)}")
    expected = "lowest " + " and ".join(HEADINGS[m] for m in metrics)
    return Check("claim", table.experiment, text, f"{section}, {table.reference}", expected, "; ".join(pieces), held)


def _claim_alike(table: Table, text: str, section: str, within: float = 0.25) -> Check:
    values = [table.row(key).median("nlpp") for key in LINEAR]
    known = [v for v in values if v is not None]
    enough = len(known) == len(values)
    return Check(
        "claim",
        table.experiment,
        text,
        f"{section}, {table.reference}",
        f"test NLPP within {within:g}",
        ", ".join(show(v, "nlpp") for v in values),
        max(known) - min(known) <= within if enough else None,
    )


def _claim_compact(results: Sequence[Result]) -> Check:
    """Features have a narrower spectrum than the function; medians over seeds of the frequency that 95 % of the power lies below."""
    widths = {}
    for key in ("mgp-identity", "mgp-sigmoid"):
        scaled = [np.array(r.picture["scaled_features"]) for r in results if r.config.method == key]
        if scaled:
            widths[key] = float(np.median([bandwidth(*horizontal_spectrum(as_fields(H))) for H in scaled]))
    function = bandwidth(*horizontal_spectrum(as_fields(rotated_bumps(0).y_test[:, None])))
    known = len(widths) == 2
    observed = "no result"
    if known:
        identity, sigmoid = widths["mgp-identity"], widths["mgp-sigmoid"]
        observed = f"95 % of the power below {identity:.2f} (identity) and {sigmoid:.2f} (log-sigmoid), function {function:.2f}"
    return Check(
        "claim",
        "bumps",
        "Learned features have a more compact spectrum than the function",
        "section III-B, Figure 3",
        "narrower than the function",
        observed,
        all(width < function for width in widths.values()) if known else None,
    )
