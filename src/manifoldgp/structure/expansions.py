"""From one expression to the next ones: every part S becomes S + B, S * B or, where it is a base kernel, B (Duvenaud 2013); a period also S * (B + C), and the
whole S a change from S to S (Lloyd 2014)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch

from manifoldgp.kernels import ChangePoint, Constant, Kernel, Periodic, Product, Sum
from manifoldgp.parameters import Tree
from manifoldgp.structure.base_kernels import (
    BASE_KERNELS,
    Growth,
    InputFacts,
    change_places,
    constant_start,
    smooth_in_all,
)
from manifoldgp.structure.expressions import Valued, change_point_of, parts_of, product_of, rebuilt, scaled, sum_of

MOST_STARTS = 4
"""Starting values of one expression, at most."""

Candidates = dict[Kernel, list[Tree]]
"""Expressions to be tried, each with the values it starts from: those of the kernel, and those of noise and mean where they are known."""


@dataclass(frozen=True)
class Grammar:
    """What expressions grow by: base kernels by name, on these inputs. all_vary: whether there are no others, which never change."""

    names: tuple[str, ...]
    facts: Sequence[InputFacts]
    all_vary: bool = True

    def first(self, periods: Sequence[tuple[float, ...]]) -> Candidates:
        """Base kernels alone, and a squared exponential of all inputs together where there are several."""
        starts = [s for fact in self.facts for s in self._base(fact, Growth(0.7, False, periods[fact.number]))]
        if len(self.facts) > 1 and "se" in self.names:
            starts += smooth_in_all(list(self.facts), self.all_vary)
        return collected(starts, {})

    def grown(self, valued: Valued, rest: Tree, variance: float, periods: Sequence[tuple[float, ...]]) -> Candidates:
        """All expressions that are one step away. rest: values of noise and mean. variance, periods: of what the expression leaves unexplained."""

        def added(part: Valued) -> Iterator[Valued]:
            if isinstance(part.kernel, Sum):  # one of its parts, added to, is the same sum
                return
            for new in self._everywhere(Growth(variance, False), periods):
                yield sum_of([part, new])
                yield sum_of([_relaxed(part, 0.0), new])
            if "constant" in self.names and not isinstance(part.kernel, Constant):
                yield sum_of([part, constant_start(variance)])

        def multiplied(part: Valued) -> Iterator[Valued]:
            if isinstance(part.kernel, Product):
                return
            part = _awake(part, variance)
            for new in self._everywhere(Growth(1.0, True), periods):
                if isinstance(new.kernel, Periodic):
                    calm = _relaxed(part, 2.0 * float(new.values["period"][0]))
                    yield product_of([calm, new])
                    # What is there goes on, and a period comes on top.
                    above = sum_of([constant_start(1.0), scaled(new, torch.tensor(0.1, dtype=torch.float64))])
                    yield product_of([calm, above])
                    yield product_of([part, above])
                yield product_of([part, new])

        def exchanged(part: Valued) -> Iterator[Valued]:
            if parts_of(part) or part.kernel.dims is None:
                return
            size = float(part.values.get("variance", torch.ones(())))
            for new in self._everywhere(Growth(size, False), periods):
                if new.kernel != part.kernel:
                    yield new

        def changed(part: Valued) -> Iterator[Valued]:
            for fact in self.facts if "changepoint" in self.names else ():
                for switch in change_places(fact):
                    yield change_point_of(part, part, fact.number, switch)

        grown = [new for change in (added, multiplied, exchanged) for new in _one_changed(valued, change)]
        return collected([*grown, *changed(valued)], rest)

    def _everywhere(self, growth: Growth, periods: Sequence[tuple[float, ...]]) -> list[Valued]:
        return [
            start
            for fact in self.facts
            for start in self._base(fact, Growth(growth.variance, growth.multiplies, periods[fact.number]))
        ]

    def _base(self, fact: InputFacts, growth: Growth) -> list[Valued]:
        return [start for name in self.names if name in BASE_KERNELS for start in BASE_KERNELS[name](fact, growth)]


def reduced(valued: Valued, rest: Tree) -> Candidates:
    """The expression without one of its parts, wherever that is possible: what a longer search may have made superfluous."""

    def dropped(part: Valued) -> Iterator[Valued]:
        parts = parts_of(part)
        if isinstance(part.kernel, ChangePoint):
            yield from parts
        elif parts:
            yield from (rebuilt(part, [*parts[:i], *parts[i + 1 :]]) for i in range(len(parts)))

    return collected(_one_changed(valued, dropped), rest)


def collected(starts: Iterable[Valued], rest: Tree) -> Candidates:
    """Starting values by expression, the first few of each."""
    found: Candidates = {}
    for kernel, values in starts:
        known = found.setdefault(kernel, [])
        if len(known) < MOST_STARTS:
            known.append({"kernel": values, **rest})
    return found


def _one_changed(valued: Valued, change: Callable[[Valued], Iterator[Valued]]) -> Iterator[Valued]:
    """The expression with one of its parts, at any depth, or itself, changed."""
    yield from change(valued)
    parts = parts_of(valued)
    for i, part in enumerate(parts):
        for new in _one_changed(part, change):
            yield rebuilt(valued, [*parts[:i], new, *parts[i + 1 :]])


def _awake(valued: Valued, least: float) -> Valued:
    """A base kernel with at least this variance: one that explained nothing alone has none left, and may be half of an interaction."""
    name = next((name for name in ("variance", "weights") if name in valued.values), None)
    if name is None or parts_of(valued):
        return valued
    return Valued(valued.kernel, {**valued.values, name: valued.values[name].clamp_min(least)})


def _relaxed(valued: Valued, least: float) -> Valued:
    """The expression with longer length-scales, four times and at least ``least``: what explained everything leaves something to a new part."""
    if parts_of(valued):
        return rebuilt(valued, [_relaxed(part, least) for part in parts_of(valued)])
    if "lengthscale" not in valued.values or isinstance(valued.kernel, Periodic):
        return valued
    return Valued(valued.kernel, {**valued.values, "lengthscale": (4.0 * valued.values["lengthscale"]).clamp_min(least)})
