"""The headline rows of the tables, for a README."""

from __future__ import annotations

from manifoldgp.experiments import Outcome, Table, show

_METHODS = ("gp-se", "mgp-sigmoid", "mgp-restarts", "stack")
_METRICS = {"step": ("nlml", "nlpp"), "bumps": ("nlpp", "test_rmse"), "smooth": ("nlpp",)}
_NAMES = {"nlml": "NLML, train", "nlpp": "NLPP, test", "test_rmse": "RMSE, test"}


def headline(outcome: Outcome) -> str:
    """A Markdown table: the paper's mGP, then ours, median over seeds with the worst in parentheses; lower is better."""
    lines = [
        "| | paper's mGP | plain GP | mGP, best start | mGP, averaged restarts | stack (default) |",
        "|---|---|---|---|---|---|",
    ]
    for table in outcome.tables:
        for metric in _METRICS.get(table.experiment, ("nlpp",)):
            paper = table.row("mgp-sigmoid").cells[metric].paper
            # Nobody else has these walks: the paper's number is of another robot.
            shown = show(paper, metric) if not table.experiment.startswith(("walker", "icub", "recording")) else "other data"
            cells = [_cell(table, method, metric) for method in _METHODS]
            lines.append(f"| {table.title}: {_NAMES[metric]} | {shown} | {' | '.join(cells)} |")
    setting = "quick setting" if outcome.plan.quick else "full setting"
    seeds = max(row.seeds for table in outcome.tables for row in table.rows)
    lines += [
        "",
        f"Median over up to {seeds} seeds, the worst in parentheses; lower is better. Made by `mgp reproduce` ({setting}).",
    ]
    return "\n".join(lines) + "\n"


def _cell(table: Table, method: str, metric: str) -> str:
    row = table.row(method)
    cell = row.cells[metric]
    if cell.median is None:
        return "–"
    return show(cell.median, metric) + (f" ({show(cell.worst, metric)})" if row.seeds > 1 else "")
