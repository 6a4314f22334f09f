"""What acts on a system: a small network of its state, squashed to the limits of the actions."""

from __future__ import annotations

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


class NetworkPolicy(nn.Module):
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
        Units of the network.
    random_state
        Draws its first weights; the first actions are near the middle of the limits.

    Examples
    --------
    >>> policy = NetworkPolicy(low=[-2.0], high=[2.0], scale=[1.0, 5.0], angles=[0])
    >>> policy.act([3.1, 0.2]).shape
    (1,)
    """

    centre: Tensor
    reach: Tensor
    scale: Tensor

    def __init__(
        self,
        low: ArrayLike,
        high: ArrayLike,
        scale: ArrayLike,
        angles: Sequence[int] = (),
        hidden: int = 32,
        random_state: int = 0,
    ) -> None:
        super().__init__()
        lowest, highest, sizes = (np.array(given, dtype=np.float64).reshape(-1) for given in (low, high, scale))
        self.angles = tuple(int(i) for i in angles)
        self.plain = tuple(i for i in range(len(sizes)) if i not in self.angles)
        self.hidden = inputs.whole_number(hidden, "hidden")
        _check(lowest, highest, sizes, self.angles)
        for name, numbers in (("centre", (highest + lowest) / 2), ("reach", (highest - lowest) / 2), ("scale", sizes)):
            self.register_buffer(name, torch.tensor(numbers))
        width, A, generator = len(sizes) + len(self.angles), len(lowest), torch.Generator().manual_seed(random_state)
        self.inner = nn.Parameter(_normal(generator, width, self.hidden) / width**0.5)
        self.threshold = nn.Parameter(_normal(generator, self.hidden))
        self.outer = nn.Parameter(0.05 * _normal(generator, self.hidden, A) / self.hidden**0.5)
        self.offset = nn.Parameter(torch.zeros(A, dtype=torch.float64))

    def forward(self, states: Tensor) -> Tensor:
        """Actions (..., A) of states (..., S)."""
        angle = states[..., self.angles]
        z = torch.cat([(states / self.scale)[..., self.plain], angle.sin(), angle.cos()], -1)
        units = torch.tanh(z @ self.inner + self.threshold)
        return self.centre + self.reach * torch.tanh(units @ self.outer + self.offset)

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
        units = Rows.side_by_side(parts).times(n["inner"]).shifted(n["threshold"]).through("tanh")
        actions = units.times(n["outer"]).shifted(n["offset"]).through("tanh").scaled(n["reach"]).shifted(n["centre"])
        mean, zero = actions.slot(), Rows.constant(writer, np.zeros((1, A))).slot()
        outputs = {"mean": mean, "latent_mean": mean, "std": zero, "latent_std": zero}
        program = writer.program(outputs, 8 * (S + 2 * self.hidden + A))
        return Predictor(program, np.zeros(S), n["scale"][0].copy(), A, False, tuple(state_names))


def _normal(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def _check(low: np.ndarray, high: np.ndarray, scale: np.ndarray, angles: tuple[int, ...]) -> None:
    if low.shape != high.shape or not (np.isfinite(low) & np.isfinite(high) & (low < high)).all():
        raise InputError(f"Each action needs a finite low below its high; got low {low.tolist()} and high {high.tolist()}.")
    if not (np.isfinite(scale) & (scale > 0)).all():
        raise InputError(f"scale must be one positive number for each state; got {scale.tolist()}.")
    if len(set(angles)) < len(angles) or not all(0 <= i < len(scale) for i in angles):
        raise InputError(f"angles must be different places from 0 to {len(scale) - 1}; got {list(angles)}.")
