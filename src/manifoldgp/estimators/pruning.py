"""Fitted models without the inputs, units and features that sparse networks have switched off."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from manifoldgp.data.scaling import Standardizer
from manifoldgp.errors import InputError
from manifoldgp.features import MLP
from manifoldgp.features.sparsity import Remaining, pruned, remaining
from manifoldgp.inference.local_posterior import LocalPosterior, conditioned
from manifoldgp.inference.posterior import Conditioned
from manifoldgp.inference.sparse_posterior import SparsePosterior
from manifoldgp.kernels.stationary import Stationary
from manifoldgp.means import Constant, Zero
from manifoldgp.model import Model
from manifoldgp.parameters import Tree

if TYPE_CHECKING:
    from manifoldgp.estimators.manifold_gp import ManifoldGPRegressor


def sparse_network(model: Model) -> MLP | None:
    """The sparse network of a model, if its features are one."""
    features = model.features
    return features if type(features) is MLP and features.sparsity is not None else None


def left_of(block: Conditioned) -> Remaining | None:
    """What its sparse prior has left of the network of a block's members; None for other features.

    Training of exact members sets to zero what is off (unless it was stopped, or the data ask for it); that of sparse ones does not.
    """
    network = sparse_network(block.model)
    return None if network is None else remaining(network, block.values["features"], not isinstance(block, SparsePosterior))


def pruned_estimator(estimator: ManifoldGPRegressor) -> ManifoldGPRegressor:
    """A copy that does not hold what is switched off; refuses where no member is a sparse network."""
    blocks = [block for ensemble in estimator.ensembles_ for block in ensemble.blocks]
    lefts = [left_of(block) for block in blocks]
    if all(left is None for left in lefts):
        raise InputError("There is nothing to prune: no member is a sparse network. Fit with features=MLP(sizes, sparsity=0.05).")
    used = torch.zeros(blocks[0].data.X.shape[-1], dtype=torch.bool, device=blocks[0].data.X.device)
    for block, left in zip(blocks, lefts, strict=True):  # inputs are columns of all members: they can go where nobody uses them
        used |= True if left is None or _mean_uses_inputs(block.model) else left.inputs.any(0)
    smaller = copy.copy(estimator)
    smaller.ensembles_ = [replace(e, blocks=[_pruned_block(block, used) for block in e.blocks]) for e in estimator.ensembles_]
    smaller.x_scaler_, off = _without_columns(estimator.x_scaler_, used.cpu().numpy())
    smaller.switched_off_ = np.union1d(getattr(estimator, "switched_off_", np.empty(0, dtype=np.int64)), off)
    return smaller


def _without_columns(scaler: Standardizer, used: np.ndarray) -> tuple[Standardizer, np.ndarray]:
    """The standardisation for the inputs ``used`` (C,) of a model alone, and the columns that it does not look at any more."""
    numbers = np.append(np.where(used, np.cumsum(used) - 1, -1), -1)  # the last is for columns that had no place before
    place = numbers[scaler.place]
    return replace(scaler, place=place), np.flatnonzero((place < 0) & (scaler.place >= 0))


def _pruned_block(block: Conditioned, used: Tensor) -> Conditioned:
    """The posterior on the inputs ``used`` (D,), a sparse network without what is off in it."""
    if bool(used.all()) and sparse_network(block.model) is None:
        return block
    data = replace(block.data, X=block.data.X[:, used])
    network, left = sparse_network(block.model), left_of(block)
    assert network is not None
    assert left is not None
    # Inducing points lie in feature space, where those of a sparse posterior may differ in a feature that is the same for all rows.
    features = not isinstance(block, SparsePosterior) and _can_lose_features(block.model)
    left = replace(left, inputs=left.inputs | (used & ~left.inputs.any(0)))
    smaller, values, _, kept = pruned(network, block.values["features"], left, features)
    model, tree = replace(block.model, features=smaller), {**block.values, "features": values}
    if isinstance(block, SparsePosterior):
        return replace(block, model=model, values=tree, data=data)
    nearness = block.nearness if isinstance(block, LocalPosterior) else None
    return conditioned(model, _with_lengthscales(tree, kept), data, nearness)


def _mean_uses_inputs(model: Model) -> bool:
    """Whether the mean is a function of the inputs, whatever the network makes of them."""
    return model.mean.on == "inputs" and not isinstance(model.mean, (Constant, Zero))


def _can_lose_features(model: Model) -> bool:
    """Whether a feature that is the same for all rows can be left out of what comes after the network."""
    return isinstance(model.kernel, Stationary) and model.kernel.dims is None and model.mean.on != "features"


def _with_lengthscales(values: Tree, kept: Tensor) -> Tree:
    """The values with the length-scales of the features kept (R, Q') alone, where every feature has its own."""
    lengthscale = values.get("kernel", {}).get("lengthscale")
    if lengthscale is None or lengthscale.shape[-1] == 1:
        return values
    return {**values, "kernel": {**values["kernel"], "lengthscale": lengthscale.gather(-1, kept)}}
