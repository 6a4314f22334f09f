"""Kernels that a place switches on, off, or from one to another: s(h) = 1 / (1 + exp(-(h - location) / width)) on one feature."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from manifoldgp.errors import InputError
from manifoldgp.kernels.kernel import Kernel, location_parameter, positive_parameter, spread
from manifoldgp.parameters import Tree
from manifoldgp.predictor.covariance import Covariance
from manifoldgp.predictor.expression import Expression
from manifoldgp.predictor.rows import Rows
from manifoldgp.registry import register


class _Switched(Kernel):
    """What kernels with a switch have in common: its two parameters, and s and 1 - s of some rows."""

    on: int

    def _refuse_no_feature(self) -> None:
        if not isinstance(self.on, int) or self.on < 0:
            raise InputError(f"on must be the index of a feature, counted from 0; got {self.on!r}.")

    def _switch_parameters(self, H: Tensor) -> Tree:
        one = self._feature(H)
        return {"location": location_parameter(one), "width": positive_parameter(0.1 * spread(one), (1,), sd=0.7)}

    def _opened(self, values: Tree, H: Tensor, rising: bool) -> Tensor:
        """s (*B, N), or 1 - s, which is s of the negative argument and exact in its tail."""
        argument = (self._feature(H)[..., 0] - values["location"]) / values["width"]
        return torch.sigmoid(argument if rising else -argument)

    def _opened_program(self, values: Tree, H: np.ndarray, new: Rows, rising: bool) -> tuple[Expression, np.ndarray]:
        """The same of new rows (R, n) in a program, and of the training rows (R, N)."""
        steepness = (1.0 if rising else -1.0) / values["width"]
        argument = new.columns((self.on,)).shifted(-values["location"]).scaled(steepness)
        training = (H[..., self.on] - values["location"]) * steepness
        return argument.through("sigmoid").feature(0), 1.0 / (1.0 + np.exp(np.minimum(-training, 700.0)))

    def _switch(self, values: Tree, H: np.ndarray, new: Rows, rising: bool) -> Covariance:
        """s s', or (1 - s)(1 - s'), as a covariance in a program."""
        s, training = self._opened_program(values, H, new, rising)
        return Covariance.of(new.of_training_rows(training) * s, s * s)

    def _feature(self, H: Tensor) -> Tensor:
        if self.on >= H.shape[-1]:
            raise InputError(
                f"{type(self).__name__} switches on feature {self.on} of those it sees, and there are {H.shape[-1]}."
            )
        return H.narrow(-1, self.on, 1)


@register("kernels.Switch")
@dataclass(frozen=True)
class Switch(_Switched):
    """k(h, h') = s(h) s(h'): a constant that a place switches on; times another kernel, that kernel switched on.

    Its parameters: location (1,), width (1,).

    Parameters
    ----------
    rising
        Whether it is on beyond the location; False: before it.
    on
        The feature that switches, by index among those that the kernel sees.
    """

    rising: bool = True
    on: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._refuse_no_feature()

    def _parameters(self, H: Tensor) -> Tree:
        return self._switch_parameters(H)

    def _cross(self, values: Tree, H1: Tensor, H2: Tensor) -> Tensor:
        return self._opened(values, H1, self.rising)[..., :, None] * self._opened(values, H2, self.rising)[..., None, :]

    def _diagonal(self, values: Tree, H: Tensor) -> Tensor:
        return self._opened(values, H, self.rising).square()

    def _program(self, values: Tree, H: np.ndarray, new: Rows) -> Covariance:
        return self._switch(values, H, new, self.rising)


@register("kernels.ChangePoint")
@dataclass(frozen=True, init=False)
class ChangePoint(_Switched):
    """k(h, h') = (1 - s(h)) k_0(h, h') (1 - s(h')) + s(h) k_1(h, h') s(h'): one kernel before a place, another one beyond it.

    Made from the two kernels, ``ChangePoint(before, beyond)``, or from a tuple, ``ChangePoint(parts=(before, beyond))``.
    Its parameters: location (1,), width (1,), and those of the two kernels under "0" and "1".

    Parameters
    ----------
    on
        The feature that switches, by index among those that the kernel sees.
    """

    parts: tuple[Kernel, ...]
    on: int = 0

    def __init__(self, *kernels: Kernel, parts: Iterable[Kernel] = (), on: int = 0, dims: tuple[int, ...] | None = None) -> None:
        given = (*kernels, *parts)
        if len(given) != 2 or not all(isinstance(part, Kernel) for part in given):
            raise InputError(f"ChangePoint switches between two kernels; got {given!r}.")
        for name, value in (("parts", given), ("on", on), ("dims", dims)):
            object.__setattr__(self, name, value)
        self.__post_init__()
        self._refuse_no_feature()

    def _parameters(self, H: Tensor) -> Tree:
        return self._switch_parameters(H) | {str(i): part.parameters(H) for i, part in enumerate(self.parts)}

    def _matrix(self, values: Tree, H: Tensor) -> Tensor:
        return self._joined([part.matrix(values.get(str(i), {}), H) for i, part in enumerate(self.parts)], values, H, H)

    def _cross(self, values: Tree, H1: Tensor, H2: Tensor) -> Tensor:
        return self._joined([part.cross(values.get(str(i), {}), H1, H2) for i, part in enumerate(self.parts)], values, H1, H2)

    def _diagonal(self, values: Tree, H: Tensor) -> Tensor:
        before, beyond = (part.diagonal(values.get(str(i), {}), H) for i, part in enumerate(self.parts))
        return self._opened(values, H, False).square() * before + self._opened(values, H, True).square() * beyond

    def _program(self, values: Tree, H: np.ndarray, new: Rows) -> Covariance:
        before, beyond = (part.program(values.get(str(i), {}), H, new) for i, part in enumerate(self.parts))
        return self._switch(values, H, new, False) * before + self._switch(values, H, new, True) * beyond

    def _joined(self, both: list[Tensor], values: Tree, H1: Tensor, H2: Tensor) -> Tensor:
        sides = [
            self._opened(values, H1, rising)[..., :, None] * K * self._opened(values, H2, rising)[..., None, :]
            for K, rising in zip(both, (False, True), strict=True)
        ]
        return sides[0] + sides[1]
