"""The smooth function (section IV): an easy task, on which learnt features should cost nothing, Table IV."""

from __future__ import annotations

from typing import Any

import numpy as np

from manifoldgp.datasets import Dataset, smooth_function
from manifoldgp.experiments import _methods as methods
from manifoldgp.experiments._experiment import Config, Experiment, Method, PaperRow
from manifoldgp.experiments._pictures import band

SIZES = (6, 2)
"""The paper does not say which network; this is the one of the step function."""

GRID = np.linspace(-np.pi, np.pi, 161)

TABLE_IV = {
    "gp-se": PaperRow(-4.30, 2.78e-3, -4.42, 2.91e-3),
    "mgp-sigmoid": PaperRow(-4.31, 2.76e-3, -4.42, 2.90e-3),
}
"""Table IV as printed."""


def picture(model: Any, data: Dataset, method: Method) -> dict[str, Any]:
    """Band on GRID minus sin(x): the error of the prediction, which would be invisible beside the function."""
    return {name: curve - np.sin(GRID) for name, curve in band(model, GRID[:, None]).items()}


def _dataset(config: Config) -> Dataset:
    return smooth_function(config.seed)


SMOOTH = Experiment(
    key="smooth",
    title="Smooth function",
    table="Table IV",
    methods=(methods.gp_se(1.0), methods.mgp_sigmoid(SIZES, 14.0), methods.mgp_restarts(SIZES, 14.0), methods.stack(SIZES, 15.0)),
    paper=TABLE_IV,
    dataset=_dataset,
    picture=picture,
    restarts=5,
    note=(
        "One period of a sinusoid, noise of sd 0.003, 400 training and 500 test points: what the paper's numbers imply, for it says no more than "
        "'a sinusoidal function'. The ideal NLPP is -4.39."
    ),
)
