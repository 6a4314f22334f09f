"""Additive kernels: functions of one input each, of two, of three ..., added up."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from manifoldgp.errors import InputError
from manifoldgp.kernels._polynomials import AdditiveForm, additive, sum_of_orders
from manifoldgp.kernels._profiles import MATERN12, MATERN32, MATERN52, SQUARED_EXPONENTIAL
from manifoldgp.kernels.kernel import Kernel, constant_diagonal, positive_parameter, resolved, spread
from manifoldgp.kernels.random_features import RandomFunctions, Randomness, waves
from manifoldgp.parameters import Tree
from manifoldgp.predictor.covariance import Covariance
from manifoldgp.predictor.expression import Expression
from manifoldgp.predictor.rows import Rows
from manifoldgp.registry import overridden, register

PROFILES = {"se": SQUARED_EXPONENTIAL, "matern12": MATERN12, "matern32": MATERN32, "matern52": MATERN52}
"""One-dimensional kernels that an additive kernel may be made of, by their shorthands."""


@dataclass(frozen=True)
class SumOfOrders(Kernel):
    """k = Σ_r variance_r · (mean of the products of one-dimensional kernels over all sets of r inputs), from the lowest order on."""

    lowest: ClassVar[int] = 1

    @property
    @abstractmethod
    def form(self) -> AdditiveForm:
        """The one-dimensional kernels and the highest order."""

    def _parameters(self, H: Tensor) -> Tree:
        scale, count = spread(H), self._order(H.shape[-1]) + 1 - self.lowest
        return {
            "variance": positive_parameter(scale.new_full((count,), 1 / count), (count,), sd=0.5),
            "lengthscale": positive_parameter(scale * math.sqrt(2.0), scale.shape[-1:], sd=0.5),
        }

    def _matrix(self, values: Tree, H: Tensor) -> Tensor:
        return self._cross(values, H, H)

    def _cross(self, values: Tree, H1: Tensor, H2: Tensor) -> Tensor:
        T1, T2 = (H / values["lengthscale"].unsqueeze(-2) for H in (H1, H2))
        a1, a2 = (self._means(values, H) for H in (H1, H2))
        return additive(T1, T2, a1, a2, self._weights(values, H1.shape[-1]), self.form)

    def _means(self, values: Tree, H: Tensor) -> Tensor | None:
        return None

    def _weights(self, values: Tree, D: int) -> Tensor:
        """w (*B, orders + 1), from order 0 on: each order's variance over the number of its sets."""
        variance = values["variance"]
        w = variance / variance.new_tensor(counts(D, self._order(D))[self.lowest :])
        return w if self.lowest == 0 else torch.nn.functional.pad(w, (1, 0))

    def _sides(self, values: Tree, H: np.ndarray, new: Rows) -> tuple[int, int, int]:
        """The new rows, the training rows (R, Q, N) and the weights of a program, so that distances are what its operations expect."""
        scale, writer = math.sqrt(abs(self.form.profile.scale)) / resolved(values["lengthscale"], H), new.writer
        centre = H.mean(-2)  # around it, fewer digits are lost
        T = np.ascontiguousarray(np.swapaxes((H - centre[:, None, :]) * scale[:, None, :], -1, -2))
        w = values["variance"] / counts(H.shape[-1], self._order(H.shape[-1]))[self.lowest :]
        w = np.concatenate([np.zeros((len(w), self.lowest)), w], -1)
        return new.shifted(-centre).scaled(scale).slot(), writer.constant(T), writer.constant(w)

    def _order(self, D: int) -> int:
        return self.form.order_of(D)


@register("kernels.Additive", shorthand="additive")
@dataclass(frozen=True)
class Additive(SumOfOrders):
    """A sum of functions of every single input, of every pair of inputs, of every three, up to ``orders`` of them (Duvenaud et al. 2011).

    k(h, h') = sum_r variance_r · mean over all sets of r inputs of prod_d k0((h_d - h'_d) / lengthscale_d), so that k(h, h) = sum_r variance_r and
    each variance says how much of the function interactions of that order explain.

    Its parameters: variance (min(orders, Q),), lengthscale (Q,).

    Parameters
    ----------
    base
        The one-dimensional kernel k0: "se", "matern12", "matern32" or "matern52".
    orders
        How many inputs may interact, at most; with fewer features than that, all of them.

    Examples
    --------
    >>> import torch
    >>> values = {"variance": torch.tensor([1.0, 2.0]), "lengthscale": torch.ones(2)}
    >>> Additive(orders=2).matrix(values, torch.tensor([[0.0, 0.0], [1.0, 0.0]]))
    tensor([[3.0000, 2.0163],
            [2.0163, 3.0000]])
    """

    base: str = "se"
    orders: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.base not in PROFILES:
            raise InputError(f"base must be one of {', '.join(map(repr, PROFILES))}; got {self.base!r}.")
        _refuse_no_orders(self)

    @property
    def form(self) -> AdditiveForm:
        return AdditiveForm(PROFILES[self.base], self.orders)

    def additive_form(self) -> AdditiveForm | None:
        return (
            None
            if self.dims is not None or overridden(type(self), "additive_form", ("_parameters", "_random_functions"))
            else self.form
        )

    def _diagonal(self, values: Tree, H: Tensor) -> Tensor:
        return constant_diagonal(values["variance"].sum(-1), H, values["lengthscale"])

    def _program(self, values: Tree, H: np.ndarray, new: Rows) -> Covariance:
        K = new.writer.do("additive", *self._sides(values, H, new), base=self.form.profile.operation or "")
        return Covariance.of(Expression(new.writer, K, axes=2), values["variance"].sum(-1))

    def _random_functions(self, values: Tree, width: int, random: Randomness) -> list[RandomFunctions]:
        # an order with the probability of its variance, a set of so many inputs, and a wave in these alone
        k, S, variance = random.draws, random.ridges, values["variance"]
        edges = (variance.cumsum(-1) / variance.sum(-1, keepdim=True)).expand(k, -1).contiguous()
        order = 1 + torch.searchsorted(edges, random.uniform(k, S)).clamp_max(variance.shape[-1] - 1)
        rank = random.uniform(k, width, S).argsort(-2).argsort(-2)
        chosen = (rank < order.unsqueeze(-2)).to(variance)
        frequency, weight = self._frequencies(chosen, random)
        return [waves(frequency / values["lengthscale"].unsqueeze(-1), weight, variance.sum(-1), random)]

    def _frequencies(self, chosen: Tensor, random: Randomness) -> tuple[Tensor, Tensor]:
        """Frequencies (k, Q, S) of products of one-dimensional kernels over the chosen inputs, and their weights (k, S)."""
        nu, width = self.form.profile.smoothness, chosen.shape[-2]
        if nu is None:
            return random.directions(width, chosen)
        tails = [random.heavy_tails(nu) for _ in range(width)]  # each input has its own
        stretch, weights = (torch.stack(parts, -2) for parts in zip(*tails, strict=True))
        return chosen * stretch * random.normal(*chosen.shape), torch.where(chosen > 0, weights, 1.0).prod(-2)


@register("kernels.OrthogonalAdditive", shorthand="oak")
@dataclass(frozen=True)
class OrthogonalAdditive(SumOfOrders):
    """The additive kernel whose parts do not overlap (Lu, Boukouvalas and Hensman 2022, "OAK"): a constant, effects of single inputs, of pairs ...

    Every function of an input has mean zero under a standard normal law of that input, which standardised inputs have roughly. So what one input does alone
    cannot hide in an interaction, and the shares of variance are those of a functional analysis of variance. With

        k0(h, h') = exp(-(h - h')² / (2 l²)) - a(h) a(h'),   a(h) = (1 - 1/b²)^(1/4) exp(-h² / (2 b)),   b = l² + 1

    it is k(h, h') = sum_r variance_r · mean over all sets of r inputs of prod_d k0_d(h_d, h'_d), from the constant r = 0 on. An input with a long
    length-scale drops out: its k0 goes to zero.

    Its parameters: variance (min(orders, Q) + 1,), lengthscale (Q,).

    Parameters
    ----------
    orders
        How many inputs may interact, at most; with fewer features than that, all of them.
    """

    orders: int = 4

    lowest: ClassVar[int] = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        _refuse_no_orders(self)

    @property
    def form(self) -> AdditiveForm:
        return AdditiveForm(SQUARED_EXPONENTIAL, self.orders, orthogonal=True)

    def additive_form(self) -> AdditiveForm | None:
        return (
            None
            if self.dims is not None or overridden(type(self), "additive_form", ("_parameters", "_random_functions"))
            else self.form
        )

    def _means(self, values: Tree, H: Tensor) -> Tensor:
        b = values["lengthscale"].unsqueeze(-2) ** 2 + 1
        return torch.exp(0.25 * torch.log1p(-(b**-2)) - H * H / (2 * b))

    def _diagonal(self, values: Tree, H: Tensor) -> Tensor:
        z = (1 - self._means(values, H) ** 2).unbind(-1)
        return sum_of_orders(list(z), self._weights(values, H.shape[-1]), 1)

    def _program(self, values: Tree, H: np.ndarray, new: Rows) -> Covariance:
        b = values["lengthscale"][:, None, :] ** 2 + 1
        height = (1 - b**-2) ** 0.25
        known = height * np.exp(-(H**2) / (2 * b))
        writer, (Z, T, weights) = new.writer, self._sides(values, H, new)
        means = writer.do("gaussian_bumps", new.scaled(1 / np.sqrt(2 * b[:, 0, :])).slot(), writer.constant(height))
        K = writer.do("additive", Z, T, weights, means, writer.constant(np.ascontiguousarray(np.swapaxes(known, -1, -2))))
        diagonal = writer.do("additive_diagonal", means, weights, features=H.shape[-1])
        return Covariance.of(Expression(writer, K, axes=2), Expression(writer, diagonal, axes=1))


def counts(D: int, orders: int) -> np.ndarray:
    """How many sets of 0, 1, ... ``orders`` inputs D inputs have."""
    return np.array([float(math.comb(D, r)) for r in range(orders + 1)])


def _refuse_no_orders(kernel: Additive | OrthogonalAdditive) -> None:
    if not isinstance(kernel.orders, int) or isinstance(kernel.orders, bool) or kernel.orders < 1:
        raise InputError(f"{type(kernel).__name__} needs a whole number of orders, at least 1; got {kernel.orders!r}.")
