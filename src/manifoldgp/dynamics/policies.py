"""What acts on a system: small functions of its state, squashed to the limits of the actions.

    action = centre + reach · squash(raw(z))        z: states divided by their scale; of angles the sine and the cosine

`RadialPolicy` is a sum of bumps in z, `NetworkPolicy` a network with one hidden layer.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from manifoldgp.data import inputs
from manifoldgp.errors import InputError
from manifoldgp.predictor import Predictor
from manifoldgp.predictor.rows import Rows
from manifoldgp.predictor.writer import Writer

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


class LimitedPolicy(nn.Module):
    """A policy whose actions keep to their limits; see the module. Its kinds give the raw actions, squashed to −1 ... 1, and the same as part of a program."""

    centre: Tensor
    reach: Tensor
    scale: Tensor
    picked: Tensor
    turned: Tensor

    units: int
    """Hidden units where no number is given."""

    def __init__(
        self,
        low: ArrayLike,
        high: ArrayLike,
        scale: ArrayLike,
        angles: Sequence[int] = (),
        hidden: int | None = None,
        random_state: int = 0,
    ) -> None:
        super().__init__()
        lowest, highest, sizes = (np.array(given, dtype=np.float64).reshape(-1) for given in (low, high, scale))
        self.angles = tuple(int(i) for i in angles)
        self.plain = tuple(i for i in range(len(sizes)) if i not in self.angles)
        self.hidden = self.units if hidden is None else inputs.whole_number(hidden, "hidden")
        _check(lowest, highest, sizes, self.angles)
        for name, numbers in (("centre", (highest + lowest) / 2), ("reach", (highest - lowest) / 2), ("scale", sizes)):
            self.register_buffer(name, torch.tensor(numbers))
        unit = torch.eye(len(sizes), dtype=torch.float64)  # products are quicker than picking columns, above all their gradients
        self.register_buffer("picked", (unit / self.scale)[:, self.plain], persistent=False)
        self.register_buffer("turned", unit[:, self.angles], persistent=False)
        for name, first in self.drawn(torch.Generator().manual_seed(random_state)).items():
            self.register_parameter(name, nn.Parameter(first))

    @abstractmethod
    def drawn(self, generator: torch.Generator) -> dict[str, Tensor]:
        """First values of the parameters, by name."""

    @property
    def width(self) -> int:
        """Numbers in z."""
        return len(self.plain) + 2 * len(self.angles)

    @abstractmethod
    def squashed(self, z: Tensor) -> Tensor:
        """Actions between −1 and 1 (..., A), of z (..., width)."""

    @abstractmethod
    def squashed_program(self, z: Rows, parameters: dict[str, np.ndarray]) -> Rows:
        """The same as part of a predictor's program; parameters by name, each with a first dimension of 1."""

    def forward(self, states: Tensor) -> Tensor:
        """Actions (..., A) of states (..., S)."""
        angle = states @ self.turned
        z = torch.cat([states @ self.picked, angle.sin(), angle.cos()], -1)
        return self.centre + self.reach * self.squashed(z)

    def act(self, state: ArrayLike) -> np.ndarray:
        """The action (A,) of one state (S,), or (n, A) of several, as arrays."""
        with torch.no_grad():
            return self(torch.as_tensor(np.asarray(state, dtype=np.float64))).numpy()

    def predictor(self, state_names: Sequence[str] = ()) -> Predictor:
        """The policy for NumPy alone, with save, load and to_c; the mean that it gives are the actions, and their standard deviation is 0."""
        writer, (S, A) = Writer(), (len(self.scale), len(self.reach))
        n = {name: tensor.detach().numpy()[None] for name, tensor in self.state_dict().items()}
        x = Rows.of(writer, 0, S)
        parts = [x.scaled(1.0 / n["scale"]).columns(self.plain)] if self.plain else []
        parts += [x.columns(self.angles).through(name) for name in ("sine", "cosine") if self.angles]
        actions = self.squashed_program(Rows.side_by_side(parts), n).scaled(n["reach"]).shifted(n["centre"])
        mean, zero = actions.slot(), Rows.constant(writer, np.zeros((1, A))).slot()
        outputs = {"mean": mean, "latent_mean": mean, "std": zero, "latent_std": zero}
        program = writer.program(outputs, 8 * (S + 2 * self.hidden + A))
        return Predictor(program, np.zeros(S), n["scale"][0].copy(), A, False, tuple(state_names))


class RadialPolicy(LimitedPolicy):
    """Actions centre + reach · s(Σ_i w_i exp(−½ |(z − c_i) / l|²)) of states x: what it does here is learnt apart from what it does elsewhere.

    z are the states divided by their scale; of angles it is the sine and the cosine. s(a) = (9 sin a + sin 3a) / 8 has slopes wherever a goes, unlike the tails of tanh,
    in which a search gets stuck (Deisenroth and Rasmussen 2011).

    Parameters
    ----------
    low, high : (A,)
        Limits of the actions.
    scale : (S,)
        How large each state is about, such as its standard deviation in recordings; of angles it does not matter.
    angles
        Places of states in radians, counted from 0.
    hidden
        Centres c_i; None: 50.
    random_state
        Draws centres and weights.

    Examples
    --------
    >>> policy = RadialPolicy(low=[-2.0], high=[2.0], scale=[1.0, 5.0], angles=[0])
    >>> policy.act([3.1, 0.2]).shape
    (1,)
    """

    units = 50
    bumps: Tensor
    log_length: Tensor
    weights: Tensor

    def drawn(self, generator: torch.Generator) -> dict[str, Tensor]:
        turn = 2 * math.pi * torch.rand(self.hidden, len(self.angles), generator=generator, dtype=torch.float64)
        plain = _normal(generator, self.hidden, len(self.plain))
        return {
            "bumps": torch.cat([plain, turn.sin(), turn.cos()], -1),
            "log_length": torch.zeros(self.width, dtype=torch.float64),
            "weights": 0.5 * _normal(generator, self.hidden, len(self.reach)),
        }

    def squashed(self, z: Tensor) -> Tensor:
        shrink = torch.exp(-self.log_length)
        here, there = z * shrink, self.bumps * shrink
        # |a − b|² = |a|² + |b|² − 2 a·b
        square = here.square().sum(-1, keepdim=True) + there.square().sum(-1) - 2 * here @ there.mT
        a = torch.exp(-0.5 * square.clamp_min(0.0)) @ self.weights
        return (9 * a.sin() + (3 * a).sin()) / 8

    def squashed_program(self, z: Rows, parameters: dict[str, np.ndarray]) -> Rows:
        shrink = np.exp(-parameters["log_length"])
        near = (-0.5 * z.scaled(shrink).squared_distances(parameters["bumps"] * shrink[:, None])).exp()
        a = Rows.of(z.writer, near.slot, self.hidden).times(parameters["weights"])
        ones = np.ones_like(parameters["reach"])
        return a.through("sine").scaled(9 / 8 * ones).plus(a.scaled(3 * ones).through("sine").scaled(ones / 8))


class NetworkPolicy(LimitedPolicy):
    """Actions centre + reach · tanh(W' tanh(W z + b) + b') of states x: never outside their limits, and smooth in x and in the weights.

    z are the states divided by their scale; of angles it is the sine and the cosine.

    Parameters
    ----------
    low, high : (A,)
        Limits of the actions.
    scale : (S,)
        How large each state is about, such as its standard deviation in recordings; of angles it does not matter.
    angles
        Places of states in radians, counted from 0.
    hidden
        Units of the network; None: 32.
    random_state
        Draws its first weights; the first actions are near the middle of the limits.

    Examples
    --------
    >>> policy = NetworkPolicy(low=[-2.0], high=[2.0], scale=[1.0, 5.0], angles=[0])
    >>> policy.act([3.1, 0.2]).shape
    (1,)
    """

    units = 32
    inner: Tensor
    threshold: Tensor
    outer: Tensor
    offset: Tensor

    def drawn(self, generator: torch.Generator) -> dict[str, Tensor]:
        A = len(self.reach)
        return {
            "inner": _normal(generator, self.width, self.hidden) / self.width**0.5,
            "threshold": _normal(generator, self.hidden),
            "outer": 0.05 * _normal(generator, self.hidden, A) / self.hidden**0.5,
            "offset": torch.zeros(A, dtype=torch.float64),
        }

    def squashed(self, z: Tensor) -> Tensor:
        return torch.tanh(torch.tanh(z @ self.inner + self.threshold) @ self.outer + self.offset)

    def squashed_program(self, z: Rows, parameters: dict[str, np.ndarray]) -> Rows:
        units = z.times(parameters["inner"]).shifted(parameters["threshold"]).through("tanh")
        return units.times(parameters["outer"]).shifted(parameters["offset"]).through("tanh")


def _normal(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def _check(low: np.ndarray, high: np.ndarray, scale: np.ndarray, angles: tuple[int, ...]) -> None:
    if low.shape != high.shape or not (np.isfinite(low) & np.isfinite(high) & (low < high)).all():
        raise InputError(f"Each action needs a finite low below its high; got low {low.tolist()} and high {high.tolist()}.")
    if not (np.isfinite(scale) & (scale > 0)).all():
        raise InputError(f"scale must be one positive number for each state; got {scale.tolist()}.")
    if len(set(angles)) < len(angles) or not all(0 <= i < len(scale) for i in angles):
        raise InputError(f"angles must be different places from 0 to {len(scale) - 1}; got {list(angles)}.")
