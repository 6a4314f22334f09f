"""A fitted estimator in a notebook: what its diagnosis says, who carries the weight, and where to look next."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import numpy as np

from manifoldgp._system.plain_text import visible
from manifoldgp.estimators.diagnosing import diagnose

if TYPE_CHECKING:
    from manifoldgp.estimators.manifold_gp import ManifoldGPRegressor

_MOST_ROWS = 2000
"""Of larger models a diagnosis takes so long that showing them should not begin it."""
_NEXT = (
    ("model.diagnose()", "all of this again, with every number"),
    ("model.parameters()", "what was learned, in the units of the data"),
    ("model.sensitivity()", "which inputs matter"),
    ("manifoldgp.plots", "pictures: predictions, calibration, features, weights"),
)


def fitted_view(estimator: ManifoldGPRegressor) -> str:
    """HTML below the arguments of a fitted estimator; of one with many rows only the way to ask."""
    said = ""
    if len(estimator.ensembles_[0].blocks[0].data.X) <= _MOST_ROWS:
        said = diagnose(estimator)._repr_html_()
    return said + _weights(estimator) + _next()


def _weights(estimator: ManifoldGPRegressor) -> str:
    """A row for each group of members that has weight, the heaviest first; nothing where one member has all of it."""
    rows = []
    for output in range(estimator.n_outputs_):
        starts = estimator.starts_[estimator.starts_["output"] == output]
        weight = {group: starts["weight"][starts["group"] == group] for group in np.unique(starts["group"])}
        for group, each in sorted(weight.items(), key=lambda item: -item[1].sum()):
            if each.sum() > 0.0:
                cells = (
                    f"target {output}: {group}" if estimator.n_outputs_ > 1 else group,
                    np.count_nonzero(each),
                    f"{100 * each.sum():.1f} %",
                )
                rows.append("<tr>" + "".join(f"<td>{escape(visible(str(cell)))}</td>" for cell in cells) + "</tr>")
    if np.count_nonzero(estimator.starts_["weight"]) <= estimator.n_outputs_:
        return ""
    head = "<tr><th>group</th><th>members</th><th>weight</th></tr>"
    return f"<details><summary>Members and their weights</summary><table><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table></details>"


def _next() -> str:
    ways = "".join(f"<li><code>{code}</code>: {words}</li>" for code, words in _NEXT)
    return f"<details><summary>Where to look next</summary><ul>{ways}</ul></details>"
