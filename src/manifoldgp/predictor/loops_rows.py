"""Loops of the operations on features, and their derivatives; results that only change shape are views of the same numbers."""

from __future__ import annotations

from dataclasses import replace

from manifoldgp.predictor.loops import FEW, Array, Loops, plus, times
from manifoldgp.predictor.operations_rows import affine, circle, column, constant_rows, pick, square_sum, transpose


def _pairs(arguments: tuple[Array, ...]) -> tuple[list[tuple[Array, Array]], Array | None]:
    """(A_i, W_i), and what is added if anything is."""
    pairs = [(arguments[i], arguments[i + 1]) for i in range(0, len(arguments) - 1, 2)]
    return pairs, arguments[-1] if len(arguments) % 2 else None


@affine.backend("loops")
def _(c: Loops, out: Array, *arguments: Array) -> None:
    pairs, b = _pairs(arguments)
    Q = out.shape[-1]
    with c.members(out, 2) as r:
        at = times(r, Q)
        with c.loop("q", Q) as q:
            c.line(f"{out.at(plus(at, q))} = {'0' if b is None else b.at(plus(times(r, b.batch(2)), q))};")
        for A, W in pairs:
            with c.loop("p", W.shape[-2]) as p:
                a = c.let(A.at(plus(times(r, A.batch(2)), p)))
                with c.loop("q", Q) as q:
                    entry = plus(plus(times(r, W.batch(2)), times(p, Q)), q)
                    c.line(f"{out.at(plus(at, q))} += {a} * {W.at(entry)};")


@affine.backend("slopes")
def _(c: Loops, out: Array, *arguments: Array) -> None:
    g, Q = c.slope(out), out.shape[-1]
    with c.members(out, 2) as r:
        for A, W in _pairs(arguments)[0]:
            with c.loop("p", W.shape[-2]) as p:
                row = plus(times(r, W.batch(2)), times(p, Q))
                total = c.dot(Q, (g, times(r, Q)), (W, row))
                c.line(f"{c.slope(A).at(plus(times(r, A.batch(2)), p))} += {total};")


@circle.backend("loops")
def _(c: Loops, out: Array, A: Array) -> None:
    Q = A.shape[-1]
    with c.members(out, 2) as r, c.loop("q", Q) as q:
        a, at = c.let(A.at(plus(times(r, A.batch(2)), q))), plus(times(r, 2 * Q), q)
        c.line(f"{out.at(at)} = m_cos({a});")
        c.line(f"{out.at(plus(at, Q))} = m_sin({a});")


@circle.backend("slopes")
def _(c: Loops, out: Array, A: Array) -> None:
    Q, g = A.shape[-1], c.slope(out)
    with c.members(out, 2) as r, c.loop("q", Q) as q:
        at = plus(times(r, 2 * Q), q)
        change = f"{g.at(plus(at, Q))} * {out.at(at)} - {g.at(at)} * {out.at(plus(at, Q))}"
        c.line(f"{c.slope(A).at(plus(times(r, A.batch(2)), q))} += {change};")


def length(c: Loops, A: Array, r: str) -> str:
    """Σ_q a_q² of a member."""
    Q, at = A.shape[-1], times(r, A.batch(2))
    if Q <= FEW:
        return " + ".join(f"{A.at(plus(at, q))} * {A.at(plus(at, q))}" for q in range(Q))
    return c.dot(Q, (A, at), (A, at))


@square_sum.backend("loops")
def _(c: Loops, out: Array, A: Array) -> None:
    with c.members(out, 1) as r:
        c.line(f"{out.at(r)} = {length(c, A, r)};")


@square_sum.backend("slopes")
def _(c: Loops, out: Array, A: Array) -> None:
    with c.members(out, 1) as r, c.loop("q", A.shape[-1]) as q:
        at = plus(times(r, A.batch(2)), q)
        c.line(f"{c.slope(A).at(at)} += 2 * {c.slope(out).at(r)} * {A.at(at)};")


@constant_rows.backend("loops")
def _(c: Loops, out: Array, X: Array, values: Array) -> None:
    with c.loop("i", out.size) as i:
        c.line(f"{out.at(i)} = {values.at(i)};")


@constant_rows.backend("slopes")
def _(c: Loops, out: Array, X: Array, values: Array) -> None:
    """A constant has none."""


@pick.backend("view")
def _(A: Array, shape: tuple[int, ...], index: int) -> Array:
    return replace(A, first=A.first + index * (A.size // A.shape[0]), shape=shape)


@transpose.backend("view")
@column.backend("view")
def _(A: Array, shape: tuple[int, ...]) -> Array:
    """One row of X: neither changes the order of the numbers."""
    return replace(A, shape=shape)
