"""One translation for each class of means."""

from __future__ import annotations

import numpy as np

from manifoldgp import means
from manifoldgp.errors import InputError
from manifoldgp.estimators.program_modules import module_rows
from manifoldgp.estimators.program_rows import Rows
from manifoldgp.parameters import Tree


def mean_of(description: means.Mean, values: Tree, points: Rows, scale: np.ndarray) -> tuple[int | None, np.ndarray]:
    """scale · m(points) as a slot (R, n), None where m is constant, plus a constant (R,). values: leaves (R, *shape); scale (R,)."""
    if isinstance(description, means.Zero):
        return None, np.zeros(1)
    if isinstance(description, means.Constant):
        return None, scale * values["constant"]
    if isinstance(description, means.Linear):
        return points.weighted(scale[:, None] * values["weights"]), scale * values["bias"]
    if isinstance(description, means.Module):
        return module_rows(description.module, values, points).weighted(scale[:, None]), np.zeros(1)
    raise InputError(
        f"A predictor cannot express the mean {description!r}. Use 'zero', 'constant', 'linear' or a torch.nn.Sequential; or predict "
        "with the model itself."
    )
