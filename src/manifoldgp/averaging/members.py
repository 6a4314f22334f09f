"""Members of an average: the models they are made of, and where they start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch

from manifoldgp.features import Identity, Nested
from manifoldgp.kernels import Kernel, SquaredExponential
from manifoldgp.kernels.stationary import Stationary
from manifoldgp.model import Model
from manifoldgp.parameters import LogNormal, Tree, leaves, map_leaves, nest
from manifoldgp.training.plan import Phase, cost, until_convergence


def plain_phase(starts: int, most: int, N: int) -> Phase:
    """The phase that trains the plain GP on all rows: about 40 iterations as a rule."""
    iterations = until_convergence(most, usual=40)
    return Phase("plain GP", iterations, starts * iterations * cost(N), most)


def plain_gp(template: Model) -> Model:
    """The plain GP: the template's kernel on the inputs themselves."""
    return replace(template, features=Identity(), kernel=on_all_features(template.kernel), priors={})


def on_all_features(kernel: Kernel) -> Kernel:
    """The kernel without dims, which choose among the user's own features."""
    return kernel if kernel.dims is None else replace(kernel, dims=None)


def nested_gp(template: Model, hidden: int, q: int) -> Model:
    """The mGP that contains the plain GP (:class:`Nested`), with priors that keep its network small unless the data object."""
    kernel = template.kernel if isinstance(template.kernel, Stationary) else SquaredExponential()
    priors = {"kernel.variance": LogNormal(0.0, 3.0)} if kernel.amplitude else {}
    if template.noise.learned:
        priors["noise.scale"] = LogNormal(-2.0, 2.0)
    return replace(template, features=Nested(hidden, q), kernel=replace(kernel, scaled=False, dims=None), priors=priors)


def pick(values: Tree, members: np.ndarray) -> Tree:
    """Some members' values, in the given order, repetitions allowed."""
    index = torch.as_tensor(members)
    return map_leaves(lambda leaf: leaf[index], values)


def warm_and_cold(drawn: Tree, width: float, gp: Tree, warm: np.ndarray) -> Tree:
    """Starts of nested members (R, ...): where ``warm`` (R,), almost the trained plain GP ``gp`` (R, ...); elsewhere far from it.

    Warm: length-scales, variance, noise and mean of the GP, the network's outputs at ``width`` (exactly zero would be a stationary point).
    Cold: outer weights of size one, a skip of size one half, length-scales as drawn.
    """
    flag = torch.as_tensor(warm)
    named, trained = dict(leaves(drawn)), dict(leaves(gp))
    trained["features.lengthscale"] = trained.get("kernel.lengthscale", named["features.lengthscale"])
    if "noise.scale" in trained:
        trained["noise.scale"] = trained["noise.scale"].clamp_min(1e-4)
    started = {}
    for name, cold in named.items():
        if name == "features.outer":
            hot, cold = cold, cold / width
        elif name == "features.skip":
            hot, cold = cold, 0.5 * cold / width
        else:
            hot = trained[name].expand_as(cold) if name in trained else cold
        started[name] = torch.where(flag.reshape(-1, *([1] * (cold.ndim - 1))), hot, cold)
    return nest(started)


def nested_start(model: Model, gp: Tree, is_warm: np.ndarray) -> Callable[[Tree], Tree]:
    """From drawn values to those of warm and cold starts around the plain GPs ``gp``."""
    return lambda drawn: warm_and_cold(drawn, model.features.width, gp, is_warm)  # type: ignore[attr-defined]
