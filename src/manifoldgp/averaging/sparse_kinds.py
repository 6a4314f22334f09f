"""The kinds of members that a stack of many rows tries: what each is made of, and where it starts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from manifoldgp.averaging.kinds import COLD, LARGE, OWN, PLAIN, ROUGH, ROUGH_GP, WARM, large, rough_kernel
from manifoldgp.averaging.members import nested_gp, on_all_features, plain_gp, warm_and_cold
from manifoldgp.features import MLP, Concatenate, Identity
from manifoldgp.kernels import SquaredExponential
from manifoldgp.model import Data, Model
from manifoldgp.parameters import LogNormal, Prior, StudentT, Tree, leaves, map_leaves, nest
from manifoldgp.training.pretraining import pretrained_on_targets

if TYPE_CHECKING:
    from manifoldgp.averaging.stack import Stack


@dataclass(frozen=True)
class Kind:
    """Members of one architecture that start alike.

    name: of their group. model: on so many rows. first: members to begin with. most: at most so many.
    start: "plain" for GPs on the inputs as they are, "warm" for networks that begin at the plain GP, "cold" far from it, "pretrained", or "drawn".
    """

    name: str
    model: Callable[[int], Model]
    first: int
    most: int
    start: str = "drawn"

    @property
    def plain(self) -> bool:
        """Whether it is a GP on the inputs as they are."""
        return self.start == "plain"

    @property
    def grows(self) -> bool:
        """Whether its network is larger where there are more rows."""
        return self.start == "pretrained"


def network_for(N: int) -> MLP:
    """A tanh network whose weights number about a quarter of the rows, at most 128 and 64 units wide.

    >>> [network_for(N).sizes for N in (5_000, 36_000, 1_000_000)]
    [(48, 24, 4), (120, 60, 8), (128, 64, 8)]
    """
    width = int(np.clip(8 * round(math.sqrt(N / 2.5) / 8), 16, 128))
    return MLP((width, width // 2, 2 if width < 32 else 4 if width <= 64 else 8), ("tanh", "tanh", "identity"))


def deep_network(template: Model, N: int) -> Model:
    """The mGP on [x, network(x)]: it contains the plain GP, and heavy-tailed priors keep most weights small."""
    priors: dict[str, Prior] = {"features.1.*.weight": StudentT(2.0, 0.0, 0.3)}
    if template.noise.learned:
        priors["noise.scale"] = LogNormal(-2.0, 2.0)
    return replace(
        template, features=Concatenate(Identity(), network_for(N)), kernel=on_all_features(template.kernel), priors=priors
    )


def kinds_of(template: Model, settings: Stack) -> dict[str, Kind]:
    """The kinds of a stack by their names, the plain GP first."""
    warm, cold, first = settings.warm_members, settings.cold_members, settings.fold_members
    small, wide = (nested_gp(template, *size) for size in ((settings.hidden, settings.q), large(settings.hidden, settings.q)))
    smooth = isinstance(template.kernel, SquaredExponential)
    rough = replace(template, kernel=rough_kernel(template.kernel))
    kinds = [
        Kind(PLAIN, lambda _: plain_gp(template), 1, 1, "plain"),
        *([Kind(ROUGH_GP, lambda _: plain_gp(rough), 1, 1, "plain")] if smooth else []),
        Kind(WARM, lambda _: small, min(first, warm), warm, "warm"),
        Kind(COLD, lambda _: small, min(first, cold), cold, "cold"),
        Kind(LARGE, lambda _: wide, min(first, cold), cold, "cold"),
        Kind("deep", lambda N: deep_network(template, N), min(first, cold), cold, "pretrained"),
        *(
            [Kind(ROUGH, lambda _: replace(wide, kernel=replace(rough.kernel, scaled=False)), min(first, cold), cold, "cold")]
            if smooth
            else []
        ),
        Kind(OWN, lambda _: template, min(first, settings.own_members), settings.own_members),
    ]
    return {kind.name: kind for kind in kinds}


def around_the_gp(kind: Kind, model: Model, drawn: Tree, gp: Tree) -> Tree:
    """Starts (R, ...) of nested members: at the trained plain GP ``gp`` (1, ...), or far from it."""
    count = len(next(leaves(drawn))[1])
    repeated = map_leaves(lambda leaf: leaf.expand(count, *leaf.shape[1:]), gp)
    return warm_and_cold(drawn, model.features.width, repeated, np.full(count, kind.start == "warm"))  # type: ignore[attr-defined]


def pretrained_start(model: Model, start: Tree, rows: Data, epochs: int, seed: int, over: Callable[[], bool]) -> Tree:
    """One start (without batch) of a deep member: its network knows the targets already, and length-scales fit the features that it has.

    The kernel may begin with its own features' scales: as long as all of them together, and three times that for the inputs, which the network knows.
    """
    assert isinstance(model.features, Concatenate)
    network = model.features.parts[1]
    assert isinstance(network, MLP)
    features = {**start["features"], "1": pretrained_on_targets(network, start["features"]["1"], rows, epochs, seed, over)}
    values = {**start, "features": features}
    if "lengthscale" not in start.get("kernel", {}):
        return values
    with torch.no_grad():
        H = model.features_at(values, rows.X[:2000])
    scale = H.std(-2).clamp_min(1e-3) * math.sqrt(H.shape[-1])
    scale[: rows.X.shape[-1]] *= 3.0
    named = dict(leaves(values))
    if named["kernel.lengthscale"].shape[-1] == 1:  # one for all features
        scale = scale.square().mean(-1, keepdim=True).sqrt()
    named["kernel.lengthscale"] = scale.expand_as(named["kernel.lengthscale"]).clone()
    return nest(named)
