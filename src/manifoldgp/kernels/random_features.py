"""Random functions whose covariance is a kernel: the prior half of a function draw (Rahimi and Recht 2007; Wilson et al. 2020).

A ridge is a function of one direction, shape(u(h) · direction + phase), with a random direction and phase. A product of ridges, times a deviation,
has the kernel as its covariance, E[ψ(h) ψ(h')] = k(h, h'), so that

    f(h) = S^(−1/2) Σ_s a_s ψ_s(h),   a_s independent with E[a²] = 1,

has it too, exactly, and is nearly Gaussian for many s. Every draw has its own directions: over draws, covariances have no error but that of counting.

Data take back the slow ridges of a draw, and what is left near them are the fast ones, of which a plain draw would have few: one large residual in one
draw of a hundred. So directions come from a mixture of the right law and of stretched ones, and ridges have the weights right density / drawn density.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from manifoldgp.errors import InputError
from manifoldgp.predictor.expression import Expression
from manifoldgp.predictor.rows import Rows

COSINE, ERROR_FUNCTION, LINEAR = "cosine", "error function", "linear"
_STRETCHES = (1.0, 2.0, 4.0)
"""By how much normal directions are stretched, a third of the ridges each."""

_HEAVY_STRETCHES = (1.0, 4.0, 16.0)
"""The same for directions whose law has heavy tails."""

_SHAPES = {COSINE: torch.cos, ERROR_FUNCTION: torch.erf, LINEAR: lambda t: t}


@dataclass(frozen=True)
class Randomness:
    """How many functions are drawn (k), how many ridges each consists of (S), and what draws them."""

    draws: int
    ridges: int
    generator: torch.Generator
    like: Tensor

    def normal(self, *shape: int) -> Tensor:
        """Independent N(0, 1) numbers."""
        return torch.randn(shape, generator=self.generator, dtype=self.like.dtype).to(self.like.device)

    def directions(self, width: int, chosen: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Directions (k, width, S) and their weights (k, S): N(0, I), a third of them with c times the deviation.

        chosen: ones and zeros (k, width, S); entries that are not chosen are zero, and do not count in

        N(z | 0, I) / Σ_c p_c N(z | 0, c² I) = 1 / Σ_c p_c c^(−width) exp(|z|² (1 − c⁻²) / 2)
        """
        stretch, parts = self._stretches(_STRETCHES)
        z = self.normal(self.draws, width, self.ridges) * stretch.unsqueeze(-2)
        z = z if chosen is None else z * chosen
        half, free = z.square().sum(-2) / 2, width if chosen is None else chosen.sum(-2)
        logs = [math.log(p) - free * math.log(c) + (1 - c**-2) * half for c, p in zip(_STRETCHES, parts, strict=True) if p]
        return z, torch.exp(-torch.logsumexp(torch.stack(logs), 0))

    def heavy_tails(self, nu: float) -> tuple[Tensor, Tensor]:
        """√(nu / gamma), gamma ~ Gamma(nu, 1), by which normal numbers become Student's t with 2 nu degrees of freedom; and weights, both (k, S).

        A third has gamma divided by c²:   p(gamma) / Σ_c p_c c² p(c² gamma) = 1 / Σ_c p_c c^(2 nu) exp(−(c² − 1) gamma)
        """
        stretch, parts = self._stretches(_HEAVY_STRETCHES)
        gamma = self.gamma(self.like.new_tensor([nu])) / stretch**2
        logs = [
            math.log(p) + 2 * nu * math.log(c) - (c**2 - 1) * gamma for c, p in zip(_HEAVY_STRETCHES, parts, strict=True) if p
        ]
        return (nu / gamma).sqrt(), torch.exp(-torch.logsumexp(torch.stack(logs), 0))

    def _stretches(self, choices: tuple[float, ...]) -> tuple[Tensor, list[float]]:
        """A stretch for each ridge (k, S), and the share of each choice: dealt evenly, and shuffled, because in a product of kernels each has its own."""
        turn = torch.arange(self.ridges) % len(choices)
        shares = [int((turn == i).sum()) / self.ridges for i in range(len(choices))]
        dealt = self.like.new_tensor(choices)[turn][self.uniform(self.draws, self.ridges).argsort(-1)]
        return dealt, shares

    def uniform(self, *shape: int) -> Tensor:
        """Independent numbers between 0 and 1."""
        return torch.rand(shape, generator=self.generator, dtype=self.like.dtype).to(self.like.device)

    def gamma(self, shape: Tensor) -> Tensor:
        """Independent Gamma(shape, 1) numbers (k, S), for a shape (1,) or (k,)."""
        concentration = shape.detach()[:, None].expand(self.draws, self.ridges).cpu().contiguous()
        # torch.distributions has no Gamma that takes a generator
        drawn = torch._standard_gamma(concentration, generator=self.generator)  # pyright: ignore[reportPrivateImportUsage]
        return drawn.to(self.like)


@dataclass(frozen=True)
class Ridge:
    """shape(u(h) · direction + phase) for k draws of S ridges. u(h): the features ``dims``, around the circle where there is a speed.

    direction: (k, P, S). phase: (k, S). speed: (k, Q) or (1, Q), then P = 2 Q.
    """

    direction: Tensor
    phase: Tensor
    shape: str = COSINE
    dims: tuple[int, ...] | None = None
    speed: Tensor | None = None

    def __call__(self, H: Tensor) -> Tensor:
        """(k, n, S) at H (k, n, Q) or (1, n, Q)."""
        U = H if self.dims is None else H[..., list(self.dims)]
        if self.speed is not None:
            angle = U * self.speed.unsqueeze(-2)
            U = torch.cat([angle.cos(), angle.sin()], -1)
        return _SHAPES[self.shape](U @ self.direction + self.phase.unsqueeze(-2))

    def program(self, H: Rows) -> Rows:
        """The same as part of a predictor's program: (k, n, S)."""
        U = H.columns(self.dims)
        if self.speed is not None:
            U = U.scaled(self.speed.cpu().numpy()).through("circle", width=2 * U.width)
        U = U.times(self.direction.cpu().numpy()).shifted(self.phase.cpu().numpy())
        if self.shape == ERROR_FUNCTION:
            raise InputError(
                "NumPy alone has no error function, which draws of the neural-network kernel consist of. Call the functions themselves."
            )
        return U.through("cosine") if self.shape == COSINE else U


@dataclass(frozen=True)
class RandomFunctions:
    """k draws of S functions with covariance k(h, h'): a product of ridges, times a deviation (k, S) or what broadcasts to it."""

    ridges: tuple[Ridge, ...]
    deviation: Tensor

    def restricted(self, dims: tuple[int, ...] | None) -> RandomFunctions:
        """The functions of the chosen features, for a kernel that sees these alone."""
        if dims is None:
            return self
        inside = (replace(r, dims=dims if r.dims is None else tuple(dims[d] for d in r.dims)) for r in self.ridges)
        return replace(self, ridges=tuple(inside))

    def times(self, other: RandomFunctions) -> RandomFunctions:
        """Independent factors: covariances multiply."""
        return RandomFunctions(self.ridges + other.ridges, self.deviation * other.deviation)


@dataclass(frozen=True)
class PriorDraws:
    """k functions f(h) = Σ over terms, Σ_s weights_s Π ridges, with weights (k, S) for each term."""

    terms: Sequence[tuple[tuple[Ridge, ...], Tensor]]

    def __call__(self, H: Tensor) -> Tensor:
        """f (k, n) at H (k, n, Q) or (1, n, Q)."""
        return torch.stack([_sum_of_products(ridges, weights, H) for ridges, weights in self.terms]).sum(0)

    def scaled(self, factor: Tensor) -> PriorDraws:
        """The functions times factors (k,)."""
        return PriorDraws([(ridges, weights * factor[:, None]) for ridges, weights in self.terms])

    def only(self, draws: Tensor) -> PriorDraws:
        """Some of the functions."""
        return PriorDraws([(tuple(_only(ridge, draws) for ridge in ridges), weights[draws]) for ridges, weights in self.terms])

    def program(self, H: Rows) -> Expression:
        """f (k, n) as part of a predictor's program."""
        total: Expression | None = None
        for ridges, weights in self.terms:
            rows = ridges[0].program(H) if ridges else Rows.constant(H.writer, torch.ones_like(weights).cpu().numpy())
            for ridge in ridges[1:]:
                rows = rows.multiplied(ridge.program(H))
            slot = H.writer.do("weighted", rows.slot(), H.writer.vector(weights.cpu().numpy(), keep_members=True))
            part = Expression(H.writer, slot, axes=1)
            total = part if total is None else total + part
        assert total is not None
        return total


def weighted_draws(terms: Sequence[RandomFunctions], random: Randomness) -> PriorDraws:
    """Functions with the sum of the terms' covariances.

    A cosine of random phase gets the size of two normal numbers, E[a²] = 1: a cos + b sin with independent a and b, Gaussian for given directions.
    """
    drawn, k, S = [], random.draws, random.ridges
    for term in terms:
        a = random.normal(k, S)
        if any(ridge.shape == COSINE for ridge in term.ridges):
            a = torch.sqrt((a**2 + random.normal(k, S) ** 2) / 2)
        drawn.append((term.ridges, a * term.deviation / math.sqrt(S)))
    return PriorDraws(drawn)


def waves(
    frequency: Tensor, weight: Tensor, variance: Tensor | None, random: Randomness, speed: Tensor | None = None
) -> RandomFunctions:
    """√(2 variance weight) cos(frequency · u + phase), frequency (k, P, S) with weights (k, S) from the spectral measure of a stationary kernel."""
    phase = 2 * math.pi * random.uniform(random.draws, random.ridges)
    size = weight if variance is None else weight * variance.unsqueeze(-1)
    return RandomFunctions((Ridge(frequency, phase, speed=speed),), (2 * size).sqrt())


def _sum_of_products(ridges: tuple[Ridge, ...], weights: Tensor, H: Tensor) -> Tensor:
    if not ridges:
        return weights.sum(-1, keepdim=True).expand(len(weights), H.shape[-2])
    product = ridges[0](H)
    for ridge in ridges[1:]:
        product = product * ridge(H)
    return (product @ weights.unsqueeze(-1)).squeeze(-1)


def _only(ridge: Ridge, draws: Tensor) -> Ridge:
    speed = ridge.speed if ridge.speed is None or len(ridge.speed) == 1 else ridge.speed[draws]
    return replace(ridge, direction=ridge.direction[draws], phase=ridge.phase[draws], speed=speed)
