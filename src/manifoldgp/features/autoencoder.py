"""Networks that learn from inputs alone, by reconstructing them: as fixed features, or as the start of features that are then trained on the evidence."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from manifoldgp._system.threads import SMALL_WORK
from manifoldgp.errors import InputError
from manifoldgp.features.feature_map import ClosedForm, Features, positive_integer, positive_number
from manifoldgp.features.joint_law import JointLaw
from manifoldgp.features.minibatches import Named, minimised
from manifoldgp.features.module import scattered
from manifoldgp.features.network import MLP
from manifoldgp.parameters import Around, Layout, Parameter, Tree, first_of, leaves, nest
from manifoldgp.predictor.rows import Rows
from manifoldgp.registry import NOT_IN_FILES, register

STEPS, SPREAD = 3000, 0.1
_HELD_OUT, _MOST_HELD_OUT = 10, 2000  # one row in so many, and never more of them
_CHECKS, _PATIENCE = 50, 10


@register("features.AutoEncoder")
@dataclass(frozen=True)
class AutoEncoder(Features):
    """H = the code of an auto-encoder, learnt from the inputs alone and then fixed: the two-stage way that the paper compares itself with (Vincent et al. 2008).

    The encoder, and a decoder that mirrors it, learn to give the inputs back through the few features in between; a tenth of the rows is held out, and learning stops
    when these are not given back any better. Rows without targets count as much as others: ``fit(X, y, unlabelled=X_more)``. Constants: ``{"0": {"weight", "bias"}, ...}``.

    Parameters
    ----------
    sizes
        The outputs of each layer of the encoder; the last are the features.
    noise
        Standard deviation of the noise that is added to the (standardised) inputs and has to be taken away again: a denoising auto-encoder. 0: none.
    activation
        One name for all layers but the last, which is linear; or one a layer. The names are those of `MLP`.
    steps
        Steps of Adam on 256 rows each, at most.
    seed
        Draws starting values, held-out rows, minibatches and noise.
    """

    sizes: tuple[int, ...]
    noise: float = 0.0
    activation: str | tuple[str, ...] = "tanh"
    steps: int = STEPS
    seed: int = 0
    learnt: Tree | None = field(default=None, repr=False, compare=False, metadata=NOT_IN_FILES)
    """What ``bind`` has learnt; a model keeps it among its values. Empty: a file has it."""

    def __post_init__(self) -> None:
        network = self.encoder
        object.__setattr__(self, "sizes", network.sizes)
        if not isinstance(self.activation, str):
            object.__setattr__(self, "activation", network.activations)
        _check_settings(self)

    @property
    def encoder(self) -> MLP:
        """The network from inputs to features."""
        if not isinstance(self.activation, str):
            return MLP(self.sizes, self.activation)
        sizes = MLP(self.sizes, self.activation).sizes
        return MLP(sizes, (*(self.activation,) * (len(sizes) - 1), "identity"))

    @property
    def uses_unlabelled(self) -> bool:
        return True

    def bind(self, X: Tensor) -> AutoEncoder:
        return self if self.learnt is not None else replace(self, learnt=reconstructing(self.encoder, X, self))

    def already_learnt(self) -> AutoEncoder:
        return replace(self, learnt={})

    def parameters(self, X: Tensor) -> Tree:
        return _starting_at(self.learnt, self.encoder.parameters(X), trainable=False)

    def __call__(self, values: Tree, X: Tensor) -> Tensor:
        return self.encoder(values, X)

    def _program(self, values: Tree, X: Rows) -> Rows:
        return self.encoder.program(values, X)


@register("features.Pretrained")
@dataclass(frozen=True)
class Pretrained(Features):
    """A network that starts as the encoder of an auto-encoder and is then trained on the evidence (Salakhutdinov & Hinton 2007): ``MLP((50, 10)).pretrained()``.

    Rows without targets help it to start: ``fit(X, y, unlabelled=X_more)``. The first of several starts is the encoder itself, the others are scattered around it by
    10 %. Its parameters are those of the network, with a Gaussian prior around the encoder's: the evidence of few targets alone would lead a large network astray.
    For the same reason exact models learn kernel and noise first, on the features of the encoder, and hold them while the network is tuned.

    Parameters
    ----------
    network
        The network.
    spread
        Standard deviation of the prior, relative to the root mean square of each array of weights. None: no prior, and everything is trained together.
    noise, steps, seed
        Those of `AutoEncoder`.
    """

    network: MLP
    spread: float | None = SPREAD
    noise: float = 0.0
    steps: int = STEPS
    seed: int = 0
    learnt: Tree | None = field(default=None, repr=False, compare=False, metadata=NOT_IN_FILES)
    """What ``bind`` has learnt. Empty: a file has it."""

    def __post_init__(self) -> None:
        if not isinstance(self.network, MLP):
            raise InputError(f"Pretrained needs an MLP, such as MLP((50, 10)).pretrained(); got {self.network!r}.")
        _refuse_sparsity(self.network, "Pretrained, whose weights have a prior around those of the encoder")
        if self.spread is not None:
            object.__setattr__(self, "spread", positive_number(self.spread, "The spread of Pretrained (None for no prior)"))
        _check_settings(self)

    @property
    def uses_unlabelled(self) -> bool:
        return True

    def bind(self, X: Tensor) -> Pretrained:
        return self if self.learnt is not None else replace(self, learnt=reconstructing(self.network, X, self))

    def already_learnt(self) -> Pretrained:
        return replace(self, learnt={})

    def parameters(self, X: Tensor) -> Tree:
        tree = _starting_at(self.learnt, self.network.parameters(X), trainable=True)
        if not self.learnt or self.spread is None:
            return tree
        named, centres = dict(leaves(tree)), dict(leaves(self.learnt))
        return nest({name: replace(p, prior=_around(centres[name], self.spread)) for name, p in named.items()})

    def __call__(self, values: Tree, X: Tensor) -> Tensor:
        return self.network(values, X)

    def _program(self, values: Tree, X: Rows) -> Rows:
        return self.network.program(values, X)

    def _closed_form(self, layout: Layout, prefix: str) -> ClosedForm | None:
        return self.network.closed_form(layout, prefix)


@register("features.Guided")
@dataclass(frozen=True)
class Guided(Features):
    """A network whose features must also give the inputs back (Snoek et al. 2012): ``MLP((10, 3)).guided(1.0)``.

    Training minimises NLML + weight · ½ Σ_n ‖x_n − x̂_n‖² / D with x̂ = decoder(H), a network that mirrors this one and is trained along with it: features that forget
    the inputs cost something, which keeps a network from overfitting few targets. Exact models only. Held-out rows choose the weight, by scikit-learn's
    ``GridSearchCV`` for example. Its parameters: ``{"network": ..., "decoder": ...}``.

    Parameters
    ----------
    network
        The network that the kernel sees.
    weight
        What the reconstruction counts; 1 counts a row as much as an observation with the spread of the (standardised) inputs.
    """

    network: MLP
    weight: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.network, MLP):
            raise InputError(f"Guided needs an MLP, such as MLP((10, 3)).guided(); got {self.network!r}.")
        _refuse_sparsity(self.network, "Guided, whose features must tell about all inputs")
        object.__setattr__(self, "weight", positive_number(self.weight, "The weight of Guided"))

    def parameters(self, X: Tensor) -> Tree:
        network = self.network.parameters(X)
        H = self.network(first_of(Layout(network).draw(torch.Generator().manual_seed(0), 1)), X)
        return {"network": network, "decoder": mirrored(self.network, X.shape[-1]).parameters(H)}

    def __call__(self, values: Tree, X: Tensor) -> Tensor:
        return self.network(values["network"], X)

    def penalty(self, values: Tree, X: Tensor) -> Tensor:
        back = mirrored(self.network, X.shape[-1])(values["decoder"], self(values, X))
        return 0.5 * self.weight * ((back - X) ** 2).mean(-1)

    def _program(self, values: Tree, X: Rows) -> Rows:
        return self.network.program(values["network"], X)


@torch.no_grad()
def reconstructing(network: MLP, X: Tensor, settings: AutoEncoder | Pretrained) -> Tree:
    """Values of the network (without batch) whose features tell the most about X (N, D): a decoder, thrown away, gives X back from them."""
    generator = torch.Generator().manual_seed(settings.seed)
    decoder, start = mirrored(network, X.shape[-1]), {}
    start["network"] = first_of(Layout(network.parameters(X)).draw(generator, 1))
    H = network(start["network"], X)
    start["decoder"] = first_of(Layout(decoder.parameters(H)).draw(generator, 1))
    rows = X.float()[torch.randperm(len(X), generator=generator).to(X.device)]
    count = min(len(rows) // _HELD_OUT, _MOST_HELD_OUT)
    held_out, training = (rows[:count], rows[count:]) if count else (rows, rows)

    def error(values: Named, clean: Tensor, noise: float = 0.0) -> Tensor:
        tree = nest(values)
        seen = (
            clean + noise * torch.randn(clean.shape, generator=generator, dtype=clean.dtype).to(clean.device) if noise else clean
        )
        return ((decoder(tree["decoder"], network(tree["network"], seen)) - clean) ** 2).mean()

    def loss(values: Named, chosen: Tensor) -> Tensor:
        return error(values, training[chosen], settings.noise)

    best = _Best(lambda values: float(error(values, held_out)), settings.steps)
    named = {name: leaf.float() for name, leaf in leaves(start)}
    with SMALL_WORK:  # the same numbers whatever the number of threads
        minimised(named, loss, len(training), settings.steps, generator, best)
    return nest({name: leaf.double() for name, leaf in best.values.items()})["network"]


def mirrored(network: MLP, inputs: int) -> MLP:
    """The decoder: the network's layers in reverse, with linear outputs.

    >>> decoder = mirrored(MLP((20, 10, 2), "tanh"), 5)
    >>> decoder.sizes, decoder.activations
    ((10, 20, 5), ('tanh', 'tanh', 'identity'))
    """
    return MLP((*network.sizes[-2::-1], inputs), (*network.activations[-2::-1], "identity"))


class _Best:
    """Keeps the values with the smallest error on held-out rows, and says when these have not become better for long."""

    def __init__(self, error: Callable[[Named], float], steps: int) -> None:
        self._error, self._every = error, max(1, steps // _CHECKS)
        self._smallest, self._waiting, self._last = float("inf"), 0, steps
        self.values: Named = {}

    def __call__(self, step: int, values: Named) -> bool:
        if step % self._every and step < self._last:
            return False
        error, self._waiting = self._error(values), self._waiting + 1
        if not self.values or error < self._smallest:
            # min keeps infinity where the first error is no number: any number is better
            self.values, self._smallest, self._waiting = values, min(self._smallest, error), 0
        return self._waiting >= _PATIENCE


def _around(learnt: Tensor, spread: float) -> Around:
    size = float(learnt.square().mean().sqrt())
    return Around(learnt, spread * size if size > 0 else spread)


def _starting_at(learnt: Tree | None, tree: Tree, trainable: bool) -> Tree:
    """The parameters of a network that start at what was learnt, trained ones also scattered around it; where nothing was, as in files, as they were."""

    def draw(generator: torch.Generator, count: int) -> dict[str, Tensor]:
        return {
            name: torch.stack([leaf, *(scattered(leaf, generator) if trainable else leaf for _ in range(count - 1))])
            for name, leaf in leaves(learnt or {})
        }

    joint = JointLaw(draw)
    return nest({
        name: Parameter(p.shape, joint.law(name) if learnt else p.initial, trainable=trainable) for name, p in leaves(tree)
    })  # fmt: skip


def _refuse_sparsity(network: MLP, owner: str) -> None:
    if network.sparsity is not None:
        raise InputError(f"sparsity={network.sparsity} has no place in {owner}. Leave it out, or use the network as it is.")


def _check_settings(features: Any) -> None:
    """Noise, steps and seed of an auto-encoder, as plain numbers of their kind."""
    name = type(features).__name__
    if features.noise != 0:
        object.__setattr__(features, "noise", positive_number(features.noise, f"The noise of {name} (0 for none)"))
    object.__setattr__(features, "steps", positive_integer(features.steps, f"The steps of {name}"))
    try:
        object.__setattr__(features, "seed", operator.index(features.seed))
    except TypeError:
        raise InputError(f"The seed of {name} must be an integer, got {features.seed!r}.") from None
