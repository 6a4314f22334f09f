"""Tables and verdicts as HTML."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

from manifoldgp import plots
from manifoldgp.experiments import HEADINGS, METRICS, Check, Row, Table, show

_VERDICTS = {
    "bar": {True: "reached", False: "not reached", None: "no result"},
    "claim": {True: "holds here", False: "does not hold here", None: "no result"},
}
_CLASSES = {True: "held", False: "missed", None: "open"}


def table_html(table: Table) -> str:
    """The paper's value beside ours, which is a median over seeds with the worst below it; the columns sort."""
    heads = ["Method"]
    for metric in METRICS:
        name = HEADINGS[metric].replace(" ", "<br>")
        heads += [f"{name}<br>paper", f"{name}<br>ours"]
    heads += ["inside<br>95 %<br>bounds", "re-<br>starts", "seeds", "seconds<br>to fit"]
    best = {m: min((v for row in table.rows if (v := row.median(m)) is not None), default=None) for m in METRICS}
    head = "".join(f'<th scope="col"><button type="button">{text}</button></th>' for text in heads)
    body = "".join(_row(row, best) for row in table.rows)
    return f'<div class="scroll"><table class="sortable" id="table-{table.experiment}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _row(row: Row, best: dict[str, float | None]) -> str:
    color = plots.style_of(row.method).color
    cells = [
        f'<th scope="row" data-value="{escape(row.label)}"><span class="swatch" style="background:{color}"></span>{escape(row.label)}</th>'
    ]
    for metric, cell in row.cells.items():
        printed = ""
        if cell.printed is not None and cell.printed != cell.paper:
            printed = f'<span class="worst">printed {minus(f"{cell.printed:.2e}".replace("e-0", "e-"))}</span>'
        cells.append(f'<td class="paper" data-value="{_data(cell.paper)}">{minus(show(cell.paper, metric))}{printed}</td>')
        worst = "" if cell.worst is None or row.seeds < 2 else f'<span class="worst">{minus(show(cell.worst, metric))}</span>'
        bold = ' class="best"' if cell.median is not None and cell.median == best[metric] else ""
        cells.append(f'<td{bold} data-value="{_data(cell.median)}">{minus(show(cell.median, metric))}{worst}</td>')
    covered = "–" if row.coverage is None else f"{100 * row.coverage:.0f} %"
    failed = f" ({row.failed} failed)" if row.failed else ""
    cells += [
        f'<td data-value="{_data(row.coverage)}">{covered}</td>',
        f'<td data-value="{_data(row.restarts)}">{"–" if row.restarts is None else row.restarts}</td>',
        f'<td data-value="{row.seeds}">{row.seeds}{failed}</td>',
        f'<td data-value="{_data(row.seconds)}">{"–" if row.seconds is None else f"{row.seconds:.1f}"}</td>',
    ]
    return ('<tr class="ours">' if row.ours else "<tr>") + "".join(cells) + "</tr>"


def checks_html(checks: Sequence[Check]) -> str:
    """Each check with its verdict, what was expected, and the numbers."""
    items = "".join(
        f'<li class="{_CLASSES[c.held]}"><span class="verdict">{_VERDICTS[c.kind][c.held]}</span><span class="what">{escape(c.text)}</span>'
        f'<span class="numbers">{escape(minus(c.observed))} · expected: {escape(minus(c.expected))} · {escape(c.reference)}</span></li>'
        for c in checks
    )
    return f'<ul class="checks">{items}</ul>'


def _data(value: float | None) -> str:
    return "" if value is None else repr(value)


def minus(text: str) -> str:
    """A minus sign instead of a hyphen in front of numbers, but not in exponents and ranges.

    >>> minus("median -3.1, 2e-05")
    'median −3.1, 2e-05'
    """
    return re.sub(r"(?<![\w-])-(?=\d)", "−", text)
