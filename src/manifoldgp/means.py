"""Mean functions m, of the inputs X or of the features H: zero, constant, linear, any torch.nn.Module."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import vmap

from manifoldgp.errors import InputError
from manifoldgp.parameters import Law, Parameter, Tree, constant_law, leaves, nest, normal_law
from manifoldgp.predictor.rows import Rows
from manifoldgp.registry import overridden, register, shorthands
from manifoldgp.torch_modules import called_with, module_rows

_SCATTER = 0.1
"""Targets are standardised, so means start within about a tenth of zero."""


class Mean(ABC):
    """A mean function: a description without state, its values handed in at each call.

    A new mean implements ``parameters`` and ``__call__``, and for predictors ``_program``. ``@register`` lets files name it.

    Attributes
    ----------
    on
        What its points are: "inputs", the rows of X (standardised, as the model sees them), or "features", the rows of H = M(X).
    """

    on: str = "inputs"

    @abstractmethod
    def parameters(self, points: Tensor) -> Tree:
        """The parameters; their initial laws follow the points `(*B, N, width)`: inputs, or features at the starting values."""

    @abstractmethod
    def __call__(self, values: Tree, points: Tensor) -> Tensor:
        """m(p_i) `(*B, N)` for points `(*B, N, width)`; the batches of values and points broadcast."""

    def program(self, values: Tree, points: Rows) -> Rows:
        """m(points) as part of a predictor's program: rows of width 1, for values with leaves `(R, *shape)`."""
        stale = overridden(type(self), "_program", ("parameters",))
        if stale and type(self)._program is not Mean._program:
            raise InputError(
                f"A predictor cannot express the mean {self!r}: {type(self).__name__} has a {stale} of its own and inherits the program of another mean. "
                "Give it a _program(values, points) that computes the same."
            )
        return self._program(values, points)

    def _program(self, values: Tree, points: Rows) -> Rows:
        raise InputError(
            f"A predictor cannot express the mean {self!r}: it has no program. Write {type(self).__name__}._program(values, points), which returns Rows of "
            "width 1 (docs/guide/own-parts.md shows one); or use 'zero', 'constant', 'linear' or a torch.nn.Sequential."
        )


@register("means.Zero", shorthand="zero")
@dataclass(frozen=True)
class Zero(Mean):
    """m = 0, as in the paper."""

    def parameters(self, points: Tensor) -> Tree:
        return {}

    def __call__(self, values: Tree, points: Tensor) -> Tensor:
        return points.new_zeros(points.shape[:-1])

    def _program(self, values: Tree, points: Rows) -> Rows:
        return Rows.constant(points.writer, np.zeros((1, 1)))


@register("means.Constant", shorthand="constant")
@dataclass(frozen=True)
class Constant(Mean):
    """m = constant.

    Its parameters: constant ().
    """

    def parameters(self, points: Tensor) -> Tree:
        return {"constant": Parameter((), normal_law((), _SCATTER, like=points))}

    def __call__(self, values: Tree, points: Tensor) -> Tensor:
        batch = np.broadcast_shapes(values["constant"].shape, points.shape[:-2])
        return values["constant"].unsqueeze(-1).expand(*batch, points.shape[-2])

    def _program(self, values: Tree, points: Rows) -> Rows:
        return Rows.constant(points.writer, values["constant"][:, None])


@register("means.Linear", shorthand="linear")
@dataclass(frozen=True)
class Linear(Mean):
    """m(x) = bias + weights . x, of the inputs; m(h) = bias + weights . h of the features with on="features".

    Its parameters: weights (D,), or (Q,) on features; bias ().
    """

    on: str = "inputs"

    def __post_init__(self) -> None:
        _check_points(self)

    def parameters(self, points: Tensor) -> Tree:
        P = points.shape[-1]
        scale = _SCATTER / math.sqrt(P) / points.detach().std(-2, correction=0).clamp(min=1e-3)
        bias = Parameter((), normal_law((), _SCATTER, like=points))
        return {"weights": Parameter((P,), _scaled_normal_law(scale)), "bias": bias}

    def __call__(self, values: Tree, points: Tensor) -> Tensor:
        return (points @ values["weights"].unsqueeze(-1)).squeeze(-1) + values["bias"].unsqueeze(-1)

    def _program(self, values: Tree, points: Rows) -> Rows:
        return points.times(values["weights"][..., None]).shifted(values["bias"][:, None])


@register("means.Module")
@dataclass(frozen=True, eq=False)
class Module(Mean):
    """m(x) = module(x) for any ``torch.nn.Module`` that maps inputs (N, D) to (N,) or (N, 1), row by row. The module is never changed.

    With on="features" it maps features: m(h) = module(h), (N, Q) to (N,) or (N, 1).
    Its parameters: those of ``module.named_parameters()`` (trained if they require a gradient) and, as constants, its buffers.
    The first start is the module as it comes; the others scatter around it by 10 %.
    """

    module: nn.Module
    on: str = "inputs"

    def __post_init__(self) -> None:
        _check_points(self)
        if not isinstance(self.module, nn.Module):
            raise InputError(f"A torch.nn.Module is expected, got {self.module!r}.")
        if any(nn.parameter.is_lazy(p) for p in (*self.module.parameters(), *self.module.buffers())):
            raise InputError(f"{self._name} has lazy layers without sizes. Call it once on rows before it becomes a mean.")

    def parameters(self, points: Tensor) -> Tree:
        named: dict[str, Parameter] = {}
        for name, value in self._own().items():
            natural = value.detach().to(points.device, torch.float64 if value.is_floating_point() else value.dtype)
            law = _scattered_law(natural) if value.requires_grad else constant_law(natural)
            named[name] = Parameter(tuple(value.shape), law, trainable=value.requires_grad)
        self._refuse_what_is_no_mean(points.detach().reshape(-1, points.shape[-1])[:5])
        return nest(named)

    def __call__(self, values: Tree, points: Tensor) -> Tensor:
        named, own, (N, P) = dict(leaves(values)), self._own(), points.shape[-2:]
        batch = np.broadcast_shapes(points.shape[:-2], *(v.shape[: v.ndim - own[n].ndim] for n, v in named.items()))
        count = math.prod(batch)
        stacked = {n: v.expand((*batch, *own[n].shape)).reshape((count, *own[n].shape)) for n, v in named.items()}
        rows = points.expand(*batch, N, P).reshape(count, N, P)
        if count == 1:
            return self._one({n: v[0] for n, v in stacked.items()}, rows[0]).reshape(*batch, N)
        try:
            means = vmap(self._one, randomness="error")(stacked, rows)
        except (RuntimeError, ValueError, TypeError):  # not every module can be batched; what else is wrong, the loop will say
            means = torch.stack([self._one({n: v[i] for n, v in stacked.items()}, rows[i]) for i in range(count)])
        return means.reshape(*batch, N)

    def _program(self, values: Tree, points: Rows) -> Rows:
        return module_rows(self.module, values, points)

    def __eq__(self, other: object) -> bool:
        # Modules compare by identity only; two descriptions are equal when structure and values are.
        if not isinstance(other, Module) or repr(self) != repr(other):
            return False
        mine, theirs = self.module.state_dict(), other.module.state_dict()
        return mine.keys() == theirs.keys() and all(torch.equal(mine[name], theirs[name]) for name in mine)

    def __hash__(self) -> int:
        return hash(repr(self))

    @property
    def _name(self) -> str:
        return f"The module {type(self.module).__name__}"

    def _own(self) -> dict[str, Tensor]:
        return dict(self.module.named_parameters()) | dict(self.module.named_buffers())

    def _one(self, named: dict[str, Tensor], points: Tensor) -> Tensor:
        m, N = called_with(self.module, named, (points,)), len(points)
        if not isinstance(m, Tensor) or m.shape not in ((N,), (N, 1)):
            came = f"shape {tuple(m.shape)}" if isinstance(m, Tensor) else f"a {type(m).__name__}"
            raise InputError(f"A mean maps {self.on} {tuple(points.shape)} to ({N},) or ({N}, 1); {self._name} gave {came}.")
        return m.reshape(N)

    def _refuse_what_is_no_mean(self, points: Tensor) -> None:
        """Raise if the module does not accept the points, is random, or looks at several rows at a time."""
        copies = {n: v.detach().clone() for n, v in self._own().items()}
        device = points.device
        named = {n: v.to(device, points.dtype) if v.is_floating_point() else v.to(device) for n, v in copies.items()}
        few = max(1, len(points) // 2)
        try:
            with torch.no_grad():
                all_rows, fewer = self._one(named, points), self._one(named, points[:few])
        except RuntimeError as error:  # PyTorch's way to say that sizes do not fit
            other = "features" if self.on == "inputs" else "inputs"
            raise InputError(
                f"{self._name} is a mean on the {self.on}, which have {points.shape[-1]} columns here, and does not accept them: {error}. "
                f"Give it that many, or say mean=Module(module, on='{other}')."
            ) from error
        if not torch.allclose(all_rows[:few], fewer, rtol=0, atol=1e-8 * float(all_rows.abs().max())):
            raise InputError(
                f"{self._name} is random, or gives a row another mean when other rows are present. "
                "Call module.eval() first (dropout, batch normalisation), or remove those layers."
            )


def as_mean(mean: Mean | nn.Module | str) -> Mean:
    """The mean itself, :class:`Module` of a torch module, or what "zero", "constant" or "linear" stands for; all of them on the inputs.

    >>> as_mean("linear")
    Linear(on='inputs')
    """
    if isinstance(mean, Mean):
        _check_points(mean)
        return mean
    if isinstance(mean, nn.Module):
        return Module(mean)
    known = shorthands(Mean)
    if isinstance(mean, str) and mean in known:
        return known[mean]()
    raise InputError(f"A mean is expected, a torch.nn.Module, or one of {', '.join(map(repr, known))}; got {mean!r}.")


def _check_points(mean: Mean) -> None:
    if mean.on not in ("inputs", "features"):
        raise InputError(f"The argument on of a {type(mean).__name__} mean must be 'inputs' or 'features'; got {mean.on!r}.")


def _scaled_normal_law(scale: Tensor) -> Law:
    """Independent N(0, scale^2) values; scale: (P,), or (count, P) with one a start."""

    def draw(generator: torch.Generator, count: int) -> Tensor:
        values = torch.randn((count, scale.shape[-1]), generator=generator, dtype=torch.float64)
        return scale * values.to(scale.device)

    return draw


def _scattered_law(value: Tensor) -> Law:
    """``value`` first, then value plus 10 % noise, relative to its root mean square (0.1 where that is zero)."""

    def draw(generator: torch.Generator, count: int) -> Tensor:
        size = value.square().mean().sqrt()
        noise = torch.randn((count, *value.shape), generator=generator, dtype=torch.float64).to(value.device)
        noise[:1] = 0.0
        return value + _SCATTER * torch.where(size > 0, size, 1.0) * noise

    return draw
