"""Sums, products and change-points of kernels together with their values, in an order that makes equal expressions equal.

A search goes from one expression to the next and wants to keep what was learned. So a kernel and its values travel together, and whatever joins
them (:func:`sum_of`, :func:`product_of`) keeps the function they describe. Values here have no batch dimension.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from manifoldgp.kernels import (
    ChangePoint,
    Constant,
    Kernel,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    NeuralNetwork,
    Periodic,
    Product,
    RationalQuadratic,
    SquaredExponential,
    Sum,
    Switch,
)
from manifoldgp.parameters import Tree, leaves

_SHORT: dict[type[Kernel], str] = {
    SquaredExponential: "SE", Matern12: "M12", Matern32: "M32", Matern52: "M52", RationalQuadratic: "RQ", NeuralNetwork: "NN",
    Periodic: "Per", Linear: "Lin", Constant: "C",
}  # fmt: skip


class Valued(NamedTuple):
    """A kernel and the values of its parameters."""

    kernel: Kernel
    values: Tree


class Degrees(NamedTuple):
    """How many numbers an expression has: shapes (length-scales, periods, places) and scales (variances, of a product one)."""

    shapes: int
    scales: int


def parts_of(valued: Valued) -> list[Valued]:
    """The parts of a sum, a product or a change-point; none of a base kernel."""
    parts: Sequence[Kernel] = getattr(valued.kernel, "parts", ())
    return [Valued(part, valued.values.get(str(i), {})) for i, part in enumerate(parts)]


def sum_of(given: Iterable[Valued]) -> Valued:
    """The sum, in order; constants become one."""
    parts = [_with_variance(part) for part in _flat(Sum, given)]
    constants = [part for part in parts if isinstance(part.kernel, Constant)]
    if len(constants) > 1:
        total = torch.stack([_variance(part) for part in constants]).sum()
        parts = [p for p in parts if not isinstance(p.kernel, Constant)] + [Valued(Constant(), {"variance": total})]
    return _joined(Sum, parts)


def product_of(given: Iterable[Valued]) -> Valued:
    """The product, in order, with its variance in one place; constants become part of the variance, squared exponentials of one input one."""
    factor, parts = torch.ones((), dtype=torch.float64), []
    for part in _flat(Product, given):
        plain, variance = _without_variance(part)
        factor = factor * variance
        if not isinstance(plain.kernel, Constant):
            parts.append(plain)
    parts = sorted(_merged_exponentials(parts), key=_order)
    if not parts:
        return Valued(Constant(), {"variance": factor})
    carriers = [i for i, p in enumerate(parts) if isinstance(p.kernel, (Sum, ChangePoint))]
    carriers += [i for i, p in enumerate(parts) if isinstance(p.kernel, Linear)]
    at = next(iter(carriers), None)
    if at is None:
        at = next((i for i, p in enumerate(parts) if not isinstance(p.kernel, Switch)), None)
        if at is None:  # switches alone
            return _joined(Product, [*parts, Valued(Constant(), {"variance": factor})])
    parts[at] = scaled(parts[at], factor)
    return _joined(Product, parts)


def change_point_of(before: Valued, beyond: Valued, on: int, switch: Tree) -> Valued:
    """One expression before a place of input ``on``, the other one beyond it. switch: location and width."""
    before, beyond = _with_variance(before), _with_variance(beyond)
    return Valued(ChangePoint(before.kernel, beyond.kernel, on=on), {**switch, "0": before.values, "1": beyond.values})


def rebuilt(valued: Valued, parts: Sequence[Valued]) -> Valued:
    """The expression with other parts, of its own kind."""
    if isinstance(valued.kernel, ChangePoint):
        switch = {name: valued.values[name] for name in ("location", "width")}
        return change_point_of(parts[0], parts[1], valued.kernel.on, switch)
    return sum_of(parts) if isinstance(valued.kernel, Sum) else product_of(parts)


def scaled(valued: Valued, factor: Tensor) -> Valued:
    """The expression times a number."""
    if isinstance(valued.kernel, (Sum, ChangePoint)):
        scaled_parts = {str(i): scaled(part, factor).values for i, part in enumerate(parts_of(valued))}
        return Valued(valued.kernel, {**valued.values, **scaled_parts})
    if isinstance(valued.kernel, Product):
        return product_of([*parts_of(valued), Valued(Constant(), {"variance": factor})])
    valued = _with_variance(valued)
    name = "weights" if isinstance(valued.kernel, Linear) else "variance"
    return Valued(valued.kernel, {**valued.values, name: valued.values[name] * factor})


def degrees(valued: Valued) -> Degrees:
    """How many numbers the expression has, each counted once: of the variances in a product only their product matters.

    >>> se = Valued(SquaredExponential(dims=(0,)), {"variance": torch.ones(()), "lengthscale": torch.ones(1)})
    >>> degrees(product_of([se, sum_of([se, Valued(Constant(), {"variance": torch.ones(())})])]))
    Degrees(shapes=2, scales=2)
    """
    inner = [degrees(part) for part in parts_of(valued)]
    shapes = sum(d.shapes for d in inner)
    if isinstance(valued.kernel, Product):
        return Degrees(shapes, 1 + sum(d.scales - 1 for d in inner))
    if inner:
        own = 2 if isinstance(valued.kernel, ChangePoint) else 0
        return Degrees(shapes + own, sum(d.scales for d in inner))
    count = sum(leaf.numel() for name, leaf in leaves(valued.values) if name != "variance")
    return Degrees(count - isinstance(valued.kernel, Linear), 1)


def inputs_of(kernel: Kernel) -> tuple[int, ...] | None:
    """The inputs that an expression sees, in order of their number; None: all of them."""
    own = ((kernel.on,) if isinstance(kernel, ChangePoint) else ()) if hasattr(kernel, "parts") else kernel.dims
    seen = [() if isinstance(kernel, Constant) else own] + [inputs_of(part) for part in getattr(kernel, "parts", ())]
    return None if any(s is None for s in seen) else tuple(sorted({d for s in seen if s is not None for d in s}))


def renamed(kernel: Kernel, places: Callable[[int], int]) -> Kernel:
    """The same kernel on other inputs: input d becomes places(d)."""
    if isinstance(kernel, ChangePoint):
        return ChangePoint(parts=[renamed(part, places) for part in kernel.parts], on=places(kernel.on))
    if isinstance(kernel, (Sum, Product)):
        return type(kernel)(parts=[renamed(part, places) for part in kernel.parts])
    return kernel if kernel.dims is None else replace(kernel, dims=tuple(places(d) for d in kernel.dims))


def text_of(kernel: Kernel, names: Sequence[str] | None = None) -> str:
    """An expression as it is written.

    >>> text_of(SquaredExponential(dims=(0,)) * (Periodic(dims=(0,)) + Constant()), ["year"])
    'SE(year) * (Per(year) + C)'
    """

    def name(d: int) -> str:
        return f"x{d}" if names is None else names[d]

    if isinstance(kernel, ChangePoint):
        return f"CP({name(kernel.on)}; {', '.join(text_of(part, names) for part in kernel.parts)})"
    if isinstance(kernel, Sum):
        return " + ".join(text_of(part, names) for part in kernel.parts)
    if isinstance(kernel, Product):
        return " * ".join(f"({t})" if isinstance(p, Sum) else t for p in kernel.parts for t in [text_of(p, names)])
    if isinstance(kernel, Switch):
        return f"{'from' if kernel.rising else 'until'}({name((kernel.dims or (kernel.on,))[0])})"
    short = _SHORT.get(type(kernel), type(kernel).__name__)
    return short if kernel.dims is None or isinstance(kernel, Constant) else f"{short}({', '.join(map(name, kernel.dims))})"


def _joined(kind: type[Sum] | type[Product], parts: list[Valued]) -> Valued:
    if len(parts) == 1:
        return parts[0]
    parts = sorted(parts, key=_order)
    return Valued(kind(parts=[p.kernel for p in parts]), {str(i): p.values for i, p in enumerate(parts)})


def _order(valued: Valued) -> str:
    return text_of(valued.kernel)


def _flat(kind: type[Kernel], given: Iterable[Valued]) -> list[Valued]:
    return [leaf for part in given for leaf in (parts_of(part) if type(part.kernel) is kind else [part])]


def _variance(valued: Valued) -> Tensor:
    return valued.values.get("variance", torch.ones((), dtype=torch.float64))


def _with_variance(valued: Valued) -> Valued:
    """A base kernel that had lost its variance to a product, with a variance of 1; a linear one has its weights."""
    kernel: Any = valued.kernel
    if getattr(kernel, "amplitude", True) or isinstance(kernel, Linear):
        return valued
    return Valued(replace(kernel, amplitude=True), {**valued.values, "variance": torch.ones((), dtype=torch.float64)})


def _without_variance(valued: Valued) -> tuple[Valued, Tensor]:
    """A base kernel without its variance, and the variance; other expressions as they are, and 1."""
    kernel: Any = valued.kernel
    if not getattr(kernel, "amplitude", False) or "variance" not in valued.values:
        return valued, torch.ones((), dtype=torch.float64)
    rest = {name: value for name, value in valued.values.items() if name != "variance"}
    return Valued(replace(kernel, amplitude=False), rest), valued.values["variance"]


def _merged_exponentials(parts: list[Valued]) -> list[Valued]:
    """Squared exponentials of the same inputs multiply to one: 1/l² = 1/l1² + 1/l2²."""
    merged: list[Valued] = []
    for part in parts:
        twin = next((i for i, m in enumerate(merged) if m.kernel == part.kernel), None)
        if twin is None or not isinstance(part.kernel, SquaredExponential):
            merged.append(part)
        else:
            both = [merged[twin].values["lengthscale"], part.values["lengthscale"]]
            merged[twin] = Valued(part.kernel, {"lengthscale": (both[0] ** -2 + both[1] ** -2) ** -0.5})
    return merged
