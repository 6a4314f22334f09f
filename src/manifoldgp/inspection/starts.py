"""How the starts went, and the weights that the members got."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from manifoldgp.errors import InputError
from manifoldgp.inspection.chosen_rows import held_out, output_index

if TYPE_CHECKING:
    from manifoldgp.estimators.manifold_gp import ManifoldGPRegressor


@dataclass(frozen=True)
class Trace:
    """The objective (k,) of one start by iteration, the start first; its group, final status and weight in the prediction."""

    group: str
    start: int
    objective: np.ndarray
    status: str
    weight: float


def traces(model: ManifoldGPRegressor, *, output: int = 0) -> list[Trace]:
    """The way of every start that was trained; for posterior draws, which have none, an error says where to look.

    Left out: starts that were never begun (time was up), and those that were only screened, whose objective on few rows is not comparable.
    """
    output = output_index(model, output)
    chosen = np.flatnonzero(model.starts_["output"] == output)
    found = [
        Trace(
            str(row["group"]),
            int(row["start"]),
            np.asarray(model.histories_[i], dtype=float),
            str(row["status"]),
            float(row["weight"]),
        )
        for i, row in zip(chosen, model.starts_[chosen], strict=True)
    ]
    if all(trace.status in ("posterior draw", "invalid start") for trace in found):
        raise InputError(
            "The members of averaging='nuts' are draws from the posterior; they have no iterations. "
            "Look at the chains instead: after fit, model.sampling_[0].draws is an ArviZ InferenceData (a saved file does not keep it)."
        )
    trained = [trace for trace in found if len(trace.objective) and trace.status != "screened out"]
    if not trained:
        raise InputError(
            "No start of this model has a recorded way: training went on from a checkpoint that had finished. Look at model.starts_."
        )
    return trained


@dataclass(frozen=True)
class Weights:
    """Weights (G, F) by group (or start) and variance factor.

    Attributes
    ----------
    held_out
        Whether they were found on held-out rows.
    """

    names: list[str]
    variance_factors: tuple[float, ...]
    weights: np.ndarray
    held_out: bool


def mixture_weights(model: ManifoldGPRegressor, *, output: int = 0) -> Weights:
    """Weights of the groups of an average, or of the starts where all are of one group."""
    output = output_index(model, output)
    report, ensemble = held_out(model, output), model.ensembles_[output]
    if report is not None:
        return Weights(list(report.groups), tuple(report.variance_factors), np.asarray(report.weights), True)
    if sum(block.members for block in ensemble.blocks) == 1:
        raise InputError("This model is a single one: there are no weights to see. averaging='stack' or 'restarts' has some.")
    parts = [w.exp().detach().cpu().numpy() for w in ensemble.log_weights]
    if len(parts) > 1:
        by_group = np.stack([part.sum(axis=1) for part in parts])
        from manifoldgp.estimators.hyperparameters import group_names  # PyTorch, which drawing alone does not need

        return Weights(group_names(model, output), tuple(ensemble.variance_factors), by_group, False)
    kept = model.starts_[(model.starts_["output"] == output) & model.starts_["chosen"]]["start"]
    order = np.argsort(-parts[0].sum(axis=0), kind="stable")
    names = [f"start {int(start) + 1}" for start in kept]
    return Weights([names[i] for i in order], tuple(ensemble.variance_factors), parts[0].T[order], False)
