"""Loops from covariances to moments, and derivatives of what a mean depends on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise

import numpy as np

from manifoldgp.predictor.loops import Array, Loops, plus, times
from manifoldgp.predictor.operations_mixtures import (
    BISECTIONS,
    LEAST,
    NEWTON_STEPS,
    certain_std,
    certainty,
    explained,
    members,
    mix,
    mixture_std,
    warped_moments,
    weighted,
)

FAR = 1e4
"""More than any logarithm of a ratio of variances."""

COLUMNS = 8
"""Columns of L⁻¹ that are added to the result in one pass over it."""


def _next_weights(a: Array) -> int:
    """How far the next member's weights are, in (N,) or (R, N, 1)."""
    return a.batch(min(2, len(a.shape)))


@weighted.backend("loops")
def _(c: Loops, out: Array, K: Array, a: Array) -> None:
    N = K.shape[-1]
    with c.members(out, 1) as r:
        c.line(f"{out.at(r)} = {c.dot(N, (K, times(r, K.batch(2))), (a, times(r, _next_weights(a))))};")


@weighted.backend("slopes")
def _(c: Loops, out: Array, K: Array, a: Array) -> None:
    with c.members(out, 1) as r:
        g = c.let(c.slope(out).at(r))
        with c.loop("j", K.shape[-1]) as j:
            c.line(f"{c.slope(K).at(plus(times(r, K.batch(2)), j))} += {g} * {a.at(plus(times(r, _next_weights(a)), j))};")


def packed_columns(blocks: Sequence[np.ndarray]) -> np.ndarray:
    """L⁻¹ (R, packed): columns from the diagonal down, COLUMNS of them beside each other; those that do not fill a pack come first."""
    N = sum(block.shape[-1] for block in blocks)
    lower = np.zeros((*blocks[0].shape[:-2], N, N))
    first = 0
    for block in blocks:
        columns, rows = block.shape[-2:]
        lower[..., :columns, first : first + rows] = block  # a row of this array is a column of L⁻¹
        first += rows
    edges = [0] * bool(N % COLUMNS) + list(range(N % COLUMNS, N, COLUMNS)) + [N]
    packs = [lower[..., i:j, i:].reshape(*lower.shape[:-2], -1) for i, j in pairwise(edges)]
    return np.concatenate(packs, -1)


class _Triangle:
    """L⁻¹ in packs of columns, and how code goes through them."""

    def __init__(self, c: Loops, blocks: Sequence[Array]) -> None:
        arrays = [block.values for block in blocks if block.values is not None]
        values = packed_columns(arrays)
        self.c, self.N = c, sum(block.shape[-1] for block in arrays)
        self.pack = c.constant(values)
        self.batch = values.shape[-1] if values.ndim > 1 else 0

    def each_pack(self, r: str, body: Callable[[str, int, str, str], None]) -> None:
        """Calls body(first column, columns, length, place in the array) for the pack that is not full, and in a loop over the others."""
        c, rest = self.c, self.N % COLUMNS
        if rest:
            body("0", rest, str(self.N), times(r, self.batch))
        if self.N >= COLUMNS:
            at = c.place(plus(times(r, self.batch), rest * self.N))
            with c.loop("j", self.N, first=rest, step=COLUMNS) as j:
                body(j, COLUMNS, f"({self.N} - {j})", at)
                c.line(f"{at} += {COLUMNS} * ({self.N} - {j});")

    def entry(self, at: str, k: int, length: str) -> str:
        return self.pack.at(plus(plus(at, times(length, k) if length.isdigit() else f"{k} * {length}" if k else 0), "i"))


@explained.backend("loops")
def _(c: Loops, out: Array, K: Array, *blocks: Array) -> None:
    """v = L⁻¹ k, columns of L⁻¹ times entries of k; then |v|²."""
    L = _Triangle(c, blocks)
    N, v = L.N, c.scratch(out, (out.size, L.N))
    with c.members(out, 1) as r:
        here = times(r, N)

        def add_columns(j: str, columns: int, length: str, at: str) -> None:
            k = [c.let(K.at(plus(plus(times(r, K.batch(2)), j), i))) for i in range(columns)]
            with c.loop("i", length):
                terms = " + ".join(f"{k[i]} * {L.entry(at, i, length)}" for i in range(columns))
                c.line(f"{v.at(plus(plus(here, j), 'i'))} += {terms};")

        with c.loop("i", N) as i:
            c.line(f"{v.at(plus(here, i))} = 0;")
        L.each_pack(r, add_columns)
        c.line(f"{out.at(r)} = {c.dot(N, (v, here), (v, here))};")


@explained.backend("slopes")
def _(c: Loops, out: Array, K: Array, *blocks: Array) -> None:
    """d|v|²/dk = 2 L⁻ᵀ v."""
    L, v = _Triangle(c, blocks), c.scratch_of(out)
    with c.members(out, 1) as r:
        g = c.let(f"2 * {c.slope(out).at(r)}")

        def back(j: str, columns: int, length: str, at: str) -> None:
            sums = [c.sum_in() for _ in range(columns)]
            with c.loop("i", length):
                w = c.let(v.at(plus(plus(times(r, L.N), j), "i")))
                for k, total in enumerate(sums):
                    c.line(f"{total} += {L.entry(at, k, length)} * {w};")
            for k, total in enumerate(sums):
                c.line(f"{c.slope(K).at(plus(plus(times(r, K.batch(2)), j), k))} += {g} * {total};")

        L.each_pack(r, back)


@members.backend("loops")
def _(c: Loops, out: Array, *parts: Array, lift: Sequence[bool]) -> None:
    first = 0
    for part in parts:
        with c.loop("i", part.size) as i:
            c.line(f"{out.at(plus(first, i))} = {part.at(i)};")
        first += part.size


@members.backend("slopes")
def _(c: Loops, out: Array, *parts: Array, lift: Sequence[bool]) -> None:
    first = 0
    for part in parts:
        if not part.constant:
            with c.loop("i", part.size) as i:
                c.line(f"{c.slope(part).at(i)} += {c.slope(out).at(plus(first, i))};")
        first += part.size


@mix.backend("loops")
def _(c: Loops, out: Array, M: Array, W: Array) -> None:
    with c.loop("o", out.size) as o:
        c.line(f"{out.at(o)} = {c.dot(M.size, (M, '0'), (W, times(o, M.size)))};")


@mix.backend("slopes")
def _(c: Loops, out: Array, M: Array, W: Array) -> None:
    with c.loop("o", out.size) as o, c.loop("i", M.size) as i:
        c.line(f"{c.slope(M).at(i)} += {c.slope(out).at(o)} * {W.at(plus(times(o, M.size), i))};")


@mixture_std.backend("loops")
def _(c: Loops, out: Array, M: Array, V: Array, mean: Array, W: Array, G: Array, owner: Array | None = None) -> None:
    """Weights of other targets' members are zero, so that nobody has to look up whose a member is."""
    _std(c, out, M, V, None, mean, W, G)


@certain_std.backend("loops")
def _(c: Loops, out: Array, M: Array, V: Array, A: Array, mean: Array, W: Array, G: Array, owner: Array | None = None) -> None:
    _std(c, out, M, V, A, mean, W, G)


def _std(c: Loops, out: Array, M: Array, V: Array, A: Array | None, mean: Array, W: Array, G: Array) -> None:
    S = M.size
    with c.loop("o", out.size) as o:
        total = c.sum_in()
        with c.loop("i", S) as i:
            away, at = c.let(f"{M.at(i)} - {mean.at(o)}"), plus(times(o, S), i)
            spread = f"{G.at(at)} * {V.at(i)} + {W.at(at)} * {away} * {away}"
            c.line(f"{total} += {spread};" if A is None else f"{total} += {A.at(i)} * ({spread});")
        c.line(f"{out.at(o)} = m_sqrt({total});")


@contextmanager
def _own_members(c: Loops, o: str, S: int, W: Array) -> Iterator[tuple[str, str]]:
    """A loop over the members that have weight in target o: the member, and its weight there."""
    with c.loop("i", S) as i, c.block(f"if ({W.at(plus(times(o, S), i))} > 0) {{"):
        yield i, W.at(plus(times(o, S), i))


@certainty.backend("loops")
def _(
    c: Loops, out: Array, V: Array, log_usual: Array, exponent: Array, share: Array, W: Array, owner: Array | None = None
) -> None:
    """First log v/u, and from it how it compares with the least one of the target."""
    S, least = V.size, c.number(LEAST)
    with c.loop("i", S) as i:
        c.line(f"{out.at(i)} = m_log({V.at(i)} > {least} ? {V.at(i)} : {least}) - {log_usual.at(i)};")
    with c.loop("o", exponent.size) as o:
        smallest, total = c.sum_in(c.number(FAR)), c.sum_in()
        with _own_members(c, o, S, W) as (i, _):
            c.line(f"if ({out.at(i)} < {smallest}) {smallest} = {out.at(i)};")
        with _own_members(c, o, S, W) as (i, w):
            c.line(f"{out.at(i)} = m_exp_negative({exponent.at(o)} * ({smallest} - {out.at(i)}));")
            c.line(f"{total} += {w} * {out.at(i)};")
        with _own_members(c, o, S, W) as (i, _):
            c.line(f"{out.at(i)} = 1 - {share.at(o)} + {share.at(o)} * {out.at(i)} / {total};")


@certainty.backend("slopes")
def _(
    c: Loops, out: Array, V: Array, log_usual: Array, exponent: Array, share: Array, W: Array, owner: Array | None = None
) -> None:
    """With a_s = 1 − p + p b_s, in the share p: da_s/dv_t = −β p b_s (1[s = t] − w_t b_t) / v_t."""
    S, g = V.size, c.slope(out)
    with c.loop("o", exponent.size) as o:
        total, part = c.sum_in(), share.at(o)
        with _own_members(c, o, S, W) as (i, _):
            c.line(f"{total} += {g.at(i)} * ({out.at(i)} - 1 + {part});")
        with _own_members(c, o, S, W) as (i, w), c.block(f"if ({part} > 0) {{"):
            own = c.let(f"{out.at(i)} - 1 + {part}")
            change = f"{own} * ({w} * {total} / {part} - {g.at(i)})"
            c.line(f"{c.slope(V).at(i)} += {exponent.at(o)} * {change} / {V.at(i)};")


class _Unwarped:
    """Loops that solve g(t) = t + Σ_i height_i tanh(steepness_i (t + centre_i)) = z for a member."""

    def __init__(self, c: Loops, height: Array, steepness: Array, centre: Array, r: str) -> None:
        self.c, self.terms, self.r = c, height.shape[-1], r
        self.shape = (height, steepness, centre)
        self.reach = c.sum_in()
        with c.loop("k", self.terms) as k:
            c.line(f"{self.reach} += {height.at(plus(times(r, height.batch(2)), k))};")

    def _terms(self, t: str, value: str, slope: str) -> None:
        """Adds the bent part of g(t), and of g'(t), to two variables; an empty name: not that one."""
        c = self.c
        with c.loop("k", self.terms) as k:
            a, b, centre = (A.at(plus(times(self.r, A.batch(2)), k)) for A in self.shape)
            bent = c.let(f"m_tanh({b} * ({t} + {centre}))")
            if value:
                c.line(f"{value} += {a} * {bent};")
            if slope:
                c.line(f"{slope} += {a} * {b} * (1 - {bent} * {bent});")

    def solve(self, z: str) -> str:
        """t: bisection, then Newton."""
        c = self.c
        low, high = c.sum_in(f"{z} - {self.reach}"), c.sum_in(f"{z} + {self.reach}")
        with c.loop("step", BISECTIONS):
            middle = c.let(f"({low} + {high}) / 2")
            value = c.sum_in(middle)
            self._terms(middle, value, "")
            c.line(f"if ({value} > {z}) {high} = {middle}; else {low} = {middle};")
        t = c.sum_in(f"({low} + {high}) / 2")
        with c.loop("step", NEWTON_STEPS):
            value, slope = c.sum_in(t), c.sum_in("1")
            self._terms(t, value, slope)
            c.line(f"{t} -= ({value} - {z}) / {slope};")
        return t

    def steepness(self, t: str) -> str:
        """dt/dz = 1 / g'(t)."""
        slope = self.c.sum_in("1")
        self._terms(t, "", slope)
        return self.c.let(f"1 / {slope}")


class _Quadrature:
    """Loops over the nodes around t(m): sums of w · term(t − t(m), dt/dz, dt/dz at m, node)."""

    def __init__(self, c: Loops, m: Array, v: Array, shape: Sequence[Array], nodes: Array, weights: Array, r: str) -> None:
        self.c, self.nodes, self.weights = c, nodes, weights
        self.unwarped = _Unwarped(c, shape[0], shape[1], shape[2], r)
        self.mean, self.sd = c.let(m.at(times(r, m.batch(1)))), c.let(f"m_sqrt({v.at(times(r, v.batch(1)))})")
        self.middle = self.unwarped.solve(self.mean)

    def moments(self) -> tuple[str, str]:
        """Σ w away and Σ w away²."""
        c, sums = self.c, [self.c.sum_in() for _ in range(2)]
        with c.loop("node", self.nodes.size) as node:
            _, away = self._away(node)
            c.line(f"{sums[0]} += {self.weights.at(node)} * {away};")
            c.line(f"{sums[1]} += {self.weights.at(node)} * {away} * {away};")
        return sums[0], sums[1]

    def slopes(self) -> tuple[str, list[str]]:
        """dt/dz at m; Σ w away, then its derivative by m and by sd, then those of Σ w away²."""
        c, sums = self.c, [self.c.sum_in() for _ in range(5)]
        steep = self.unwarped.steepness(self.middle)
        with c.loop("node", self.nodes.size) as node:
            t, away = self._away(node)
            slope = self.unwarped.steepness(t)
            by_m, by_sd = f"({slope} - {steep})", f"{slope} * {self.nodes.at(node)}"
            for total, term in zip(sums, (away, by_m, by_sd, f"2 * {away} * {by_m}", f"2 * {away} * {by_sd}"), strict=True):
                c.line(f"{total} += {self.weights.at(node)} * {term};")
        return steep, sums

    def _away(self, node: str) -> tuple[str, str]:
        t = self.unwarped.solve(self.c.let(f"{self.mean} + {self.sd} * {self.nodes.at(node)}"))
        return t, self.c.let(f"{t} - {self.middle}")


@warped_moments.backend("loops")
def _(c: Loops, out: Array, m: Array, v: Array, *shape_and_nodes: Array) -> None:
    *shape, nodes, weights = shape_and_nodes
    R = out.size // 2
    with c.loop("r", R) as r:
        quadrature = _Quadrature(c, m, v, shape, nodes, weights, r)
        first, second = quadrature.moments()
        spread = c.let(f"{second} - {first} * {first}")
        c.line(f"{out.at(r)} = {quadrature.middle} + {first};")
        c.line(f"{out.at(plus(r, R))} = {spread} > 0 ? {spread} : 0;")


@warped_moments.backend("slopes")
def _(c: Loops, out: Array, m: Array, v: Array, *shape_and_nodes: Array) -> None:
    *shape, nodes, weights = shape_and_nodes
    R, g = out.size // 2, c.slope(out)
    with c.loop("r", R) as r:
        quadrature = _Quadrature(c, m, v, shape, nodes, weights, r)
        steep, (first, first_m, first_sd, second_m, second_sd) = quadrature.slopes()
        spread = g.at(plus(r, R))
        by_m = f"{g.at(r)} * ({steep} + {first_m}) + {spread} * ({second_m} - 2 * {first} * {first_m})"
        by_sd = f"{g.at(r)} * {first_sd} + {spread} * ({second_sd} - 2 * {first} * {first_sd})"
        c.line(f"{c.slope(m).at(times(r, m.batch(1)))} += {by_m};")
        c.line(f"{c.slope(v).at(times(r, v.batch(1)))} += ({by_sd}) / (2 * {quadrature.sd});")
