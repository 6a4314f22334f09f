"""Named parameters: shape, transform, prior and initial law; and the map between named values and a flat theta.

A model is a description without state. Its parameters form a *tree*, a nested dict with :class:`Parameter` leaves;
its values form a dict of the same shape with tensor leaves. Every leaf has any number of leading batch dimensions
(restarts, members, folds, outputs): ``(*B, *shape)``.
"""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from manifoldgp.errors import InputError
from manifoldgp.registry import register

Law = Callable[[torch.Generator, int], Tensor]
"""Draws ``count`` natural values, shape ``(count, *shape)``."""

LARGEST_LOG = 50.0
"""Positive values stay between exp(-50) and exp(50): a length-scale that runs off to infinity stops being pushed there."""

Tree = dict[str, Any]
"""Nested dict of parameters (or of their values, of the same shape)."""


@register("priors.Normal")
@dataclass(frozen=True)
class Normal:
    """Normal prior on the natural value."""

    mean: float = 0.0
    sd: float = 1.0


@register("priors.StudentT")
@dataclass(frozen=True)
class StudentT:
    """Student-t prior on the natural value: most values near ``mean``, a few far away."""

    df: float = 2.0
    mean: float = 0.0
    scale: float = 1.0


@register("priors.LogNormal")
@dataclass(frozen=True)
class LogNormal:
    """Normal prior on the logarithm of a positive value.

    The density is taken with respect to the logarithm, so that the mode is ``exp(mean)`` and does not depend on units.
    """

    mean: float = 0.0
    sd: float = 1.0


@register("priors.GroupSparse")
@dataclass(frozen=True)
class GroupSparse:
    """Sparse prior on whole groups of a weight matrix: most groups vanish, and what remains is hardly shrunk.

    A group of n weights has the density p(w) ∝ (1 + |w| / width)^−(n + 1), a generalised double Pareto law: pointed at zero like a group lasso, where it pushes
    with (n + 1) / width nats, and with the heavy tails of a horseshoe. The point is rounded over ``width / 100``, so that gradients exist.

    width: the size of a group below which it is pushed to zero. columns: whether the columns are groups too, beside the rows.
    """

    width: float = 0.05
    columns: bool = False

    @property
    def rounding(self) -> float:
        return 0.01 * self.width

    @property
    def negligible(self) -> float:
        """The size of a group up to which it counts as zero."""
        return 0.5 * self.width


@dataclass(frozen=True)
class GroupTerm:
    """The groups of one parameter in theta: their places ``index`` (G, n), and the prior of each."""

    index: np.ndarray
    prior: GroupSparse

    @property
    def power(self) -> float:
        return self.index.shape[1] + 1.0

    @property
    def constant(self) -> float:
        """−log of the factor that normalises the densities: ∫ (1 + |w| / b)^−(n+1) dw = 2 π^(n/2) / Γ(n/2) · bⁿ B(n, 1), with B(n, 1) = 1/n."""
        G, n = self.index.shape
        sphere = math.log(2.0) + 0.5 * n * math.log(math.pi) - math.lgamma(0.5 * n)
        return G * (sphere + n * math.log(self.prior.width) - math.log(n))

    def __call__(self, theta: Tensor) -> Tensor:
        """−log p (*B,) of theta (*B, P): Σ (n + 1) log(1 + (r − r_0) / width) with r = √(|w|² + r_0²), which is |w| beyond the rounding r_0."""
        squares = (theta[..., torch.from_numpy(self.index).to(theta.device)] ** 2).sum(-1)
        rounding = self.prior.rounding
        size = (squares + rounding**2).sqrt() - rounding
        return self.power * torch.log1p(size / self.prior.width).sum(-1) + self.constant


@dataclass(frozen=True, eq=False)
class Around:
    """Normal prior on every entry, each with a mean of its own: ``centre`` (*shape,), what it was before training. No file holds it."""

    centre: Tensor
    sd: float


Prior = Normal | StudentT | LogNormal | GroupSparse | Around


@dataclass(frozen=True)
class Parameter:
    """One named tensor of a model.

    shape: of one value, without batch dimensions.
    initial: law of the starting values (natural units).
    positive: the natural value is exp(theta); otherwise it is theta itself.
    prior: for MAP training; None is flat.
    trainable: False marks a constant found without targets (a PCA matrix, say), part of the model's state but not of theta.
    dtype: of a constant; what is trained is float64.
    """

    shape: tuple[int, ...]
    initial: Law
    positive: bool = False
    prior: Prior | None = None
    trainable: bool = True
    dtype: torch.dtype = torch.float64

    def __post_init__(self) -> None:
        if isinstance(self.prior, LogNormal) and not self.positive:
            raise InputError("A LogNormal prior needs a positive parameter; use Normal or StudentT for this one.")
        if isinstance(self.prior, GroupSparse) and (self.positive or len(self.shape) != 2):
            raise InputError("A GroupSparse prior needs a matrix of weights; use Normal, StudentT or LogNormal for this one.")


def normal_law(shape: tuple[int, ...], scale: float = 1.0, like: Tensor | None = None) -> Law:
    """Independent N(0, scale^2) values."""

    def draw(generator: torch.Generator, count: int) -> Tensor:
        values = torch.randn((count, *shape), generator=generator, dtype=torch.float64)
        return (scale * values).to(like.device if like is not None else "cpu")

    return draw


def constant_law(value: Tensor) -> Law:
    """The same value for every start."""

    def draw(generator: torch.Generator, count: int) -> Tensor:
        return value.expand(count, *value.shape).clone()

    return draw


def log_normal_law(centre: Tensor, sd: float, per_start: bool = False) -> Law:
    """Positive values scattered around ``centre`` (*shape,) by a factor exp(sd * N(0, 1)); per_start: centre is (count, *shape)."""

    def draw(generator: torch.Generator, count: int) -> Tensor:
        shape = centre.shape if per_start else (count, *centre.shape)
        scatter = torch.randn(shape, generator=generator, dtype=torch.float64).to(centre.device)
        return centre * torch.exp(sd * scatter)

    return draw


def repeated(parameter: Parameter, count: int) -> Parameter:
    """The parameter with a leading dimension: one value for each of ``count`` outputs, drawn independently."""

    def draw(generator: torch.Generator, starts: int) -> Tensor:
        return torch.stack([parameter.initial(generator, starts) for _ in range(count)], 1)

    return replace(parameter, shape=(count, *parameter.shape), initial=draw)


def leaves(tree: Tree, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """All leaves of a tree with their dotted names, in order."""
    for key, value in tree.items():
        name = f"{prefix}.{key}" if prefix else key
        if isinstance(value, dict):
            yield from leaves(value, name)
        else:
            yield name, value


def map_leaves(function: Callable[[Any], Any], tree: Tree) -> Tree:
    """The tree with ``function`` applied to every leaf."""
    return {k: map_leaves(function, v) if isinstance(v, dict) else function(v) for k, v in tree.items()}


def members_in(values: Tree) -> int:
    """How many members values (leaves (R, *shape), or (1, *shape) of what all share) are of."""
    return max((leaf.shape[0] for _, leaf in leaves(values)), default=1)


def of_members(values: Tree, members: int, index: int | slice | Tensor) -> Tree:
    """The values of one or some of so many members, which may share some of them."""
    return map_leaves(lambda leaf: leaf.expand(members, *leaf.shape[1:])[index], values)


def first_of(values: Tree) -> Tree:
    """Values of the first start, without the batch dimension."""
    return map_leaves(lambda leaf: leaf[0], values)


def nest(named: Mapping[str, Any]) -> Tree:
    """Dotted names back to a tree."""
    tree: Tree = {}
    for name, value in named.items():
        *path, last = name.split(".")
        node = tree
        for key in path:
            node = node.setdefault(key, {})
        node[last] = value
    return tree


def with_priors(tree: Tree, priors: Mapping[str, Prior]) -> Tree:
    """The tree with the priors of every pattern (``"features.*.weight"``) put on the parameters it matches."""
    named = dict(leaves(tree))
    for pattern, prior in priors.items():
        matched = [name for name, p in named.items() if p.trainable and fnmatch.fnmatchcase(name, pattern)]
        if not matched:
            known = ", ".join(named)
            raise InputError(f"No trainable parameter matches the prior's pattern {pattern!r}. There are: {known}.")
        for name in matched:
            named[name] = replace(named[name], prior=prior)
    return nest(named)


class Layout:
    """Where each trainable parameter stands in the flat theta: first the unconstrained ones, then the logs of the positive ones.

    Sorting by transform makes the map from theta to natural values one ``exp`` and two ``split`` calls, whatever the model.
    """

    def __init__(self, tree: Tree) -> None:
        self.parameters: dict[str, Parameter] = dict(leaves(tree))
        trainable = {n: p for n, p in self.parameters.items() if p.trainable}
        free = [n for n, p in trainable.items() if not p.positive]
        positive = [n for n, p in trainable.items() if p.positive]
        self.names = free + positive
        sizes = [math.prod(trainable[n].shape) for n in self.names]
        self._free_sizes, self._positive_sizes = sizes[: len(free)], sizes[len(free) :]
        self.free_size = sum(self._free_sizes)
        self.size = sum(sizes)
        starts = [sum(sizes[:i]) for i in range(len(sizes))]
        self.slices = {n: slice(a, a + s) for n, a, s in zip(self.names, starts, sizes, strict=True)}
        self._paths = [n.split(".") for n in self.names]
        self._shapes = [trainable[n].shape for n in self.names]
        self.prior_terms = self._collect_priors()
        self.group_terms = [term for name in self.names for term in self._groups(name)]

    @property
    def tuned(self) -> np.ndarray:
        """Which entries of theta (P,) were learnt before training, have a prior around that, and are tuned after everything else."""
        chosen = np.zeros(self.size, dtype=bool)
        for name in self.names:
            chosen[self.slices[name]] = isinstance(self.parameters[name].prior, Around)
        return chosen

    def unflatten(self, theta: Tensor, constants: Tree) -> Tree:
        """Named natural values, leaves (*B, *shape), of theta (*B, P); ``constants`` supplies what is not trained."""
        batch = theta.shape[:-1]
        free = theta[..., : self.free_size].split(self._free_sizes, -1)
        positive = theta[..., self.free_size :].clamp(-LARGEST_LOG, LARGEST_LOG).exp().split(self._positive_sizes, -1)
        values = map_leaves(lambda leaf: leaf, constants)
        for path, shape, flat in zip(self._paths, self._shapes, (*free, *positive), strict=True):
            node = values
            for key in path[:-1]:
                node = node.setdefault(key, {})
            node[path[-1]] = flat if len(shape) == 1 else flat.reshape((*batch, *shape))
        return values

    def batch(self, theta: Tensor, constants: Tree) -> Tree:
        """Values of theta (R, P) with the constants that all rows share, every leaf (R, *shape)."""
        fixed = {name: leaf.expand(len(theta), *leaf.shape) for name, leaf in leaves(constants)}
        return nest({**dict(leaves(self.unflatten(theta, {}))), **fixed})

    def flatten(self, values: Tree) -> Tensor:
        """theta (*B, P) of named natural values: the inverse of :meth:`unflatten`."""
        named = dict(leaves(values))
        parts = []
        for name, shape in zip(self.names, self._shapes, strict=True):
            value = named[name]
            batch = value.shape[: value.ndim - len(shape)]
            flat = value.reshape(*batch, -1)
            parts.append(flat.log() if self.parameters[name].positive else flat)
        batch = np.broadcast_shapes(*(p.shape[:-1] for p in parts))
        return torch.cat([p.expand(*batch, p.shape[-1]) for p in parts], -1)

    def draw(self, generator: torch.Generator, count: int) -> Tree:
        """Starting values of every parameter, constants included: leaves (count, *shape)."""
        return nest({n: p.initial(generator, count) for n, p in self.parameters.items()})

    def constants(self, values: Tree) -> Tree:
        """The part of ``values`` that is not trained."""
        return nest({n: v for n, v in leaves(values) if not self.parameters[n].trainable})

    def _collect_priors(self) -> dict[str, Tensor] | None:
        if all(self.parameters[n].prior is None for n in self.names):
            return None
        centre, inverse_scale, normal, student, inverse_df = (torch.zeros(self.size, dtype=torch.float64) for _ in range(5))
        natural = torch.zeros(self.size, dtype=torch.bool)
        constant = 0.0
        for name in self.names:
            parameter, where = self.parameters[name], self.slices[name]
            count = where.stop - where.start
            match parameter.prior:
                case None | GroupSparse():  # groups have terms of their own
                    continue
                case StudentT(df, mean, scale):
                    centre[where], inverse_scale[where] = mean, 1.0 / scale
                    student[where], inverse_df[where] = 0.5 * (df + 1), 1.0 / df
                    log_norm = math.lgamma(0.5 * df) - math.lgamma(0.5 * (df + 1)) + 0.5 * math.log(df * math.pi)
                    constant += count * (log_norm + math.log(scale))
                case Around(values, sd):
                    centre[where], inverse_scale[where], normal[where] = values.reshape(-1).cpu(), 1.0 / sd, 0.5
                    constant += count * (0.5 * math.log(2 * math.pi) + math.log(sd))
                case Normal(mean, sd) | LogNormal(mean, sd):
                    centre[where], inverse_scale[where], normal[where] = mean, 1.0 / sd, 0.5
                    constant += count * (0.5 * math.log(2 * math.pi) + math.log(sd))
            natural[where] = parameter.positive and not isinstance(parameter.prior, LogNormal)
        return {
            "centre": centre, "inverse_scale": inverse_scale, "normal": normal, "student": student,
            "inverse_df": inverse_df, "natural": natural, "constant": torch.tensor(constant, dtype=torch.float64),
        }  # fmt: skip

    def _groups(self, name: str) -> list[GroupTerm]:
        prior, where = self.parameters[name].prior, self.slices[name]
        if not isinstance(prior, GroupSparse):
            return []
        index = np.arange(where.start, where.stop).reshape(self.parameters[name].shape)
        return [GroupTerm(i, prior) for i in ((index, index.T) if prior.columns else (index,))]

    def negligible(self, theta: np.ndarray) -> np.ndarray:
        """Which entries of theta (R, P) belong to groups that a sparse prior has made so small that they count as zero; the largest group of a matrix never does."""
        found = np.zeros(theta.shape, dtype=bool)
        for term in self.group_terms:
            size = np.linalg.norm(theta[:, term.index], axis=-1)
            found[:, term.index] |= ((size <= term.prior.negligible) & (size < size.max(-1, keepdims=True)))[..., None]
        return found

    @property
    def has_priors(self) -> bool:
        return self.prior_terms is not None

    def negative_log_prior(self, theta: Tensor) -> Tensor:
        """-log p(theta) (*B,), normalised; zero where no prior was given."""
        if self.prior_terms is None:
            return theta.new_zeros(theta.shape[:-1])
        t = {k: v.to(theta.device) for k, v in self.prior_terms.items()}
        coordinate = torch.where(t["natural"], theta.exp(), theta) if bool(t["natural"].any()) else theta
        z2 = ((coordinate - t["centre"]) * t["inverse_scale"]) ** 2
        # -log N = z^2/2 + c;   -log t_v = (v+1)/2 log(1 + z^2/v) + c
        value = (t["normal"] * z2 + t["student"] * torch.log1p(z2 * t["inverse_df"])).sum(-1) + t["constant"]
        return value + sum(term(theta) for term in self.group_terms) if self.group_terms else value
