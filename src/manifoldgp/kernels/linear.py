"""The linear and the constant kernel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from manifoldgp.kernels.kernel import (
    Kernel,
    constant_diagonal,
    location_parameter,
    positive_parameter,
    spread,
    variance_parameter,
)
from manifoldgp.kernels.random_features import LINEAR, RandomFunctions, Randomness, Ridge
from manifoldgp.parameters import Tree
from manifoldgp.predictor.covariance import Covariance
from manifoldgp.predictor.expression import Expression
from manifoldgp.predictor.rows import Rows
from manifoldgp.registry import register


@register("kernels.Linear", shorthand="linear")
@dataclass(frozen=True)
class Linear(Kernel):
    """k(h, h') = sum_q weights_q (h_q - origin_q) (h'_q - origin_q): linear functions that are zero at the origin. Add `Constant` for an offset.

    Its parameters: weights (Q,) or (1,); variance () and origin (Q,) if asked for, the latter is otherwise 0.

    Parameters
    ----------
    ard
        One weight for each feature, or one for all.
    amplitude
        The weights carry the variance already; True multiplies by one more.
    origin
        Whether the origin is learned: in a product with another kernel it is where that kernel's functions vanish.
    """

    ard: bool = True
    amplitude: bool = False
    origin: bool = False

    def _parameters(self, H: Tensor) -> Tree:
        scale = spread(H, self.ard)
        weights = positive_parameter(scale**-2 / H.shape[-1], scale.shape[-1:], sd=1.0)
        tree: Tree = ({"variance": variance_parameter()} if self.amplitude else {}) | {"weights": weights}
        return tree | ({"origin": location_parameter(H)} if self.origin else {})

    def _matrix(self, values: Tree, H: Tensor) -> Tensor:
        A = self._scaled(values, H)
        return A @ A.mT

    def _cross(self, values: Tree, H1: Tensor, H2: Tensor) -> Tensor:
        return self._scaled(values, H1) @ self._scaled(values, H2).mT

    def _diagonal(self, values: Tree, H: Tensor) -> Tensor:
        return self._scaled(values, H).square().sum(-1)

    def _program(self, values: Tree, H: np.ndarray, new: Rows) -> Covariance:
        root = np.sqrt(np.broadcast_to(values["weights"], (len(values["weights"]), H.shape[-1])))
        if self.origin:
            new, H = new.shifted(-values["origin"]), H - values["origin"][:, None, :]
        rows = new.scaled(root)
        return Covariance.of(rows.inner_products(H * root[:, None, :]), rows.square_sum(), values.get("variance"))

    def _random_functions(self, values: Tree, width: int, random: Randomness) -> list[RandomFunctions]:
        direction = random.normal(random.draws, width, random.ridges) * values["weights"].sqrt().unsqueeze(-1)
        deviation = values["variance"].sqrt().unsqueeze(-1) if self.amplitude else direction.new_ones(1, 1)
        bias = direction.new_zeros(random.draws, random.ridges)
        if self.origin:
            bias = -(values["origin"].unsqueeze(-1) * direction).sum(-2)
        return [RandomFunctions((Ridge(direction, bias, LINEAR),), deviation)]

    def _scaled(self, values: Tree, H: Tensor) -> Tensor:
        weights = values["weights"] * values["variance"].unsqueeze(-1) if self.amplitude else values["weights"]
        centred = H - values["origin"].unsqueeze(-2) if self.origin else H
        return centred * weights.sqrt().unsqueeze(-2)


@register("kernels.Constant")
@dataclass(frozen=True)
class Constant(Kernel):
    """k(h, h') = variance: functions that are constant. It does not depend on H, so its gradient with respect to H is none.

    Its parameters: variance ().

    Parameters
    ----------
    amplitude
        False fixes the variance to 1.
    """

    amplitude: bool = True

    def _parameters(self, H: Tensor) -> Tree:
        return {"variance": variance_parameter()} if self.amplitude else {}

    def _matrix(self, values: Tree, H: Tensor) -> Tensor:
        return self._cross(values, H, H)

    def _cross(self, values: Tree, H1: Tensor, H2: Tensor) -> Tensor:
        variance = values["variance"] if self.amplitude else H1.new_ones(())
        batch = np.broadcast_shapes(variance.shape, H1.shape[:-2], H2.shape[:-2])
        return variance[..., None, None].expand(*batch, H1.shape[-2], H2.shape[-2]).clone()

    def _diagonal(self, values: Tree, H: Tensor) -> Tensor:
        return constant_diagonal(values.get("variance"), H)

    def _program(self, values: Tree, H: np.ndarray, new: Rows) -> Covariance:
        ones = Rows.constant(new.writer, np.ones((1, H.shape[-2])))
        return Covariance.of(Expression(new.writer, ones.slot(), axes=2), variance=values.get("variance"))

    def _random_functions(self, values: Tree, width: int, random: Randomness) -> list[RandomFunctions]:
        return [RandomFunctions((), values["variance"].sqrt().unsqueeze(-1) if self.amplitude else random.like.new_ones(1, 1))]
