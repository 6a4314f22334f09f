"""Charts of how much each input matters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from manifoldgp.inspection.page_view import BAR, BLUE, SKY, ModelView, Spec, axis, chart, chip, numbers, rows_of_bars

MOST_SOBOL, SOBOL_SAMPLES = 30, 1024
"""Inputs up to which a page computes Sobol indices, and the rows of its samples."""


def relevance_chart(view: ModelView) -> Spec | None:
    if len(view.columns) < 2:
        return None
    specs = []
    for target in view.targets:
        order = np.argsort(-target.strength, kind="stable")[:20].tolist()
        values = target.strength[order]
        bars = rows_of_bars(np.zeros(len(order)), values)
        bars |= {
            "color": BLUE,
            "label": [view.columns[c].label for c in order],
            "value": numbers(values),
            "tell": [["", "label"], ["", "value"]],
            "last": True,
        }
        specs.append(
            {
                "title": f"How much {target.name} changes with each input",
                "hover": "nearest",
                "height": 60 + 26 * len(order),
                "x": axis(f"typical change of {target.name}", (0.0, 1.04 * float(values.max()) or 1.0), target.name, fixed=True),
                "y": {
                    "range": [0.5 - len(order), 0.5],
                    "fixed": True,
                    "ticks": [[-k, view.columns[c].label] for k, c in enumerate(order)],
                },
                "layers": [bars],
                "idle": BAR,
            }
        )
    return chart("relevance", specs, view.target_choice)


def sobol_chart(view: ModelView) -> Spec | None:
    """Total and first-order Sobol indices of every input, with their standard errors under the pointer."""
    if not 2 <= len(view.columns) <= MOST_SOBOL:
        return None
    specs = []
    for target in view.targets:
        found = view.model.sensitivity(samples=SOBOL_SAMPLES, output=target.output)
        order = np.argsort(-found.total, kind="stable")[:20]
        labels = [column.label for column in view.columns] if len(view.columns) == len(found.names) else found.names
        layers = [
            _shares(labels, order, shares, errors, color, what)
            for what, shares, errors, color in (
                ("with interactions", found.total, found.total_error, SKY),
                ("alone", found.first, found.first_error, BLUE),
            )
        ]
        specs.append(
            {
                "title": f"Share of the variation of {target.name} that each input causes",
                "hover": "nearest",
                "height": 60 + 26 * len(order),
                "x": axis("share of the variance", (0.0, max(1.0, 1.04 * float(found.total.max()))), fixed=True),
                "y": {
                    "range": [0.5 - len(order), 0.5],
                    "fixed": True,
                    "ticks": [[-k, labels[d]] for k, d in enumerate(order)],
                },
                "layers": layers,
                "idle": BAR,
            }
        )
    legend = [chip("total", SKY, "with all its interactions"), chip("first", BLUE, "alone")]
    return chart("sobol", specs, view.target_choice, legend)


def _shares(labels: Sequence[str], order: np.ndarray, shares: np.ndarray, errors: np.ndarray, color: str, what: str) -> Spec:
    values = np.maximum(shares[order], 0.0)
    return rows_of_bars(np.zeros(len(order)), values) | {
        "color": color,
        "label": [f"{labels[d]}, {what}" for d in order],
        "value": numbers(shares[order]),
        "error": numbers(errors[order]),
        "tell": [["", "label"], ["share", "value"], ["±", "error"]],
        "last": True,
    }
