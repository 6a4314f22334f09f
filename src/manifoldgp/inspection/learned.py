"""What was learned: features of the training rows, their widest directions, and which inputs matter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from manifoldgp.errors import InputError
from manifoldgp.inspection.chosen_rows import chosen_inputs, output_index, thinned

if TYPE_CHECKING:
    from manifoldgp.data.inputs import Table
    from manifoldgp.estimators.manifold_gp import ManifoldGPRegressor


def sensitivities(model: ManifoldGPRegressor, X: Table | None = None, *, output: int = 0, most: int = 500) -> np.ndarray:
    """s_d = sd(x_d) · sqrt(mean_i (∂m(x_i) / ∂x_d)²) (D,), in the units of y: the typical change of the posterior mean m with input d.

    Parameters
    ----------
    X : (n, D)
        Where derivatives are taken, by default the training rows; at most ``most`` of them.
    """
    output = output_index(model, output)
    X = chosen_inputs(model, X)
    from manifoldgp.estimators.units import on_device  # PyTorch, which drawing alone does not need

    U = on_device(model, model.x_scaler_.apply(X[thinned(len(X), most)]))
    slopes = model.x_scaler_.of_columns(model.ensembles_[output].gradients(U)[0].cpu().numpy() / model.x_scaler_.scales)
    return X.std(axis=0) * np.sqrt(np.mean(slopes**2, axis=0))


@dataclass(frozen=True)
class LearnedFeatures:
    """H = M(X) (n, Q) of one member, its group, and its weight in the mixture.

    Attributes
    ----------
    H : (n, Q)
        The features.
    group, weight
        Of the member in the mixture.
    lengthscales
        Those of the kernel on H, (Q,) or (1,); None where it has none of its own, as a sum of kernels. H / lengthscales has the distances that the kernel sees.
    """

    H: np.ndarray
    group: str
    weight: float
    lengthscales: np.ndarray | None


def learned_features(model: ManifoldGPRegressor, X: Table | None = None, *, output: int = 0) -> LearnedFeatures:
    """Features of the heaviest member that has learned any; X (n, D): by default the training rows."""
    from manifoldgp.estimators.hyperparameters import group_names
    from manifoldgp.estimators.units import on_device
    from manifoldgp.features import Identity  # PyTorch, which drawing alone does not need

    output = output_index(model, output)
    ensemble = model.ensembles_[output]
    weights = [w.detach().cpu().numpy() for w in ensemble.member_weights()]
    learned = [b for b, block in enumerate(ensemble.blocks) if not isinstance(block.model.features, Identity)]
    if not learned:
        groups = set(model.starts_["group"][model.starts_["output"] == output])
        what = "This model is a plain GP" if len(groups) == 1 else "All weight is on the plain GP"
        raise InputError(f"{what}: it has no learned features. Look at plot_relevance or plot_slice instead.")
    b = max(learned, key=lambda i: float(weights[i].max()))
    member = int(weights[b].argmax())
    U = on_device(model, model.x_scaler_.apply(chosen_inputs(model, X)))
    block = ensemble.blocks[b]
    H = block.transform(U)[member].detach().cpu().numpy()
    scales = block.values["kernel"].get("lengthscale")
    return LearnedFeatures(
        H=H,
        group=group_names(model, output)[b],
        weight=float(weights[b][member]),
        lengthscales=None if scales is None else scales[member].detach().cpu().numpy(),
    )


def widest_directions(H: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Principal directions of H (n, Q): coordinates (n, count) and their shares of the variance (count,)."""
    centred = H - H.mean(axis=0)
    U, s, _ = np.linalg.svd(centred, full_matrices=False)
    return U[:, :count] * s[:count], s[:count] ** 2 / max(float((s**2).sum()), 1e-300)
