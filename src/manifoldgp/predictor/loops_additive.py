"""Loops of additive covariances, w_0 + Σ_r w_r e_r(z_1, …, z_Q), and their derivatives.

e_r ← e_r + z_q e_(r−1), one q after another;   dK/dz_q = c_0 − z_q (c_1 − z_q (c_2 − …)),   c_k = Σ_(r > k) w_r e_(r−1−k)
"""

from __future__ import annotations

from manifoldgp.predictor.loops import Array, Loops, plus, times
from manifoldgp.predictor.operations_additive import DEFAULT, additive, additive_diagonal

_BASES = {
    "squared_exponential": ("m_exp_negative(-{d} * {d})", "-2 * {d} * {k}"),
    "matern12": ("m_exp_negative(-m_abs({d}))", "({d} > 0 ? -{k} : ({d} < 0 ? {k} : 0))"),
    "matern32": ("(1 + m_abs({d})) * m_exp_negative(-m_abs({d}))", "-{d} * {k} / (1 + m_abs({d}))"),
    "matern52": (
        "(1 + m_abs({d}) + {d} * {d} / 3) * m_exp_negative(-m_abs({d}))",
        "-{d} * (1 + m_abs({d})) * {k} / (3 * (1 + m_abs({d}) + {d} * {d} / 3))",
    ),
}
"""One-dimensional covariances k of a difference d, and dk/dd."""


class _Pairs:
    """One member's covariances of single features, z (Q, N), and their polynomials, e (orders, N), in the workspace."""

    def __init__(self, c: Loops, Z: Array, T: Array, weights: Array, means: tuple[Array, ...], base: str, room: Array) -> None:
        self.c, self.Z, self.T, self.weights, self.means, self.room = c, Z, T, weights, means, room
        self.Q, self.N = T.shape[-2:]
        self.orders = min(weights.shape[-1] - 1, self.Q)
        self.value, self.slope = _BASES[base]

    def z(self, q: str | int, j: str) -> str:
        return self.room.at(plus(times(q, self.N), j))

    def e(self, order: int, j: str) -> str:
        """e_order, from 1 on."""
        return self.room.at(plus((self.Q + order - 1) * self.N, j))

    def weight(self, r: str, order: int) -> str:
        return self.weights.at(plus(times(r, self.weights.batch(1)), order))

    def new(self, A: Array, r: str, q: str) -> str:
        """Of the new row, (1, Q)."""
        return A.at(plus(times(r, A.batch(2)), q))

    def old(self, A: Array, r: str, q: str, j: str) -> str:
        """Of the training rows, (Q, N)."""
        return A.at(plus(plus(times(r, A.batch(2)), times(q, self.N)), j))

    def fill(self, r: str) -> None:
        """z and e of a member."""
        c = self.c
        for order in range(1, self.orders + 1):
            with c.loop("j", self.N) as j:
                c.line(f"{self.e(order, j)} = 0;")
        with c.loop("q", self.Q) as q:
            x = c.let(self.new(self.Z, r, q))
            a = c.let(self.new(self.means[0], r, q)) if self.means else ""
            with c.loop("j", self.N) as j:
                d = c.let(f"{x} - {self.old(self.T, r, q, j)}")
                less = f" - {a} * {self.old(self.means[1], r, q, j)}" if self.means else ""
                z = c.let(self.value.format(d=d) + less)
                c.line(f"{self.z(q, j)} = {z};")
                for order in range(self.orders, 0, -1):
                    below = f" * {self.e(order - 1, j)}" if order > 1 else ""
                    c.line(f"{self.e(order, j)} += {z}{below};")


def _pairs(c: Loops, out: Array, Z: Array, T: Array, weights: Array, means: tuple[Array, ...], base: str) -> _Pairs:
    Q, N = T.shape[-2:]
    return _Pairs(c, Z, T, weights, means, base, c.scratch(out, (Q + min(weights.shape[-1] - 1, Q), N)))


@additive.backend("loops")
def _(c: Loops, out: Array, Z: Array, T: Array, weights: Array, *means: Array, base: str = DEFAULT) -> None:
    pairs = _pairs(c, out, Z, T, weights, means, base)
    with c.members(out, 2) as r:
        pairs.fill(r)
        with c.loop("j", pairs.N) as j:
            terms = [f"{pairs.weight(r, order)} * {pairs.e(order, j)}" for order in range(1, pairs.orders + 1)]
            c.line(f"{out.at(plus(times(r, pairs.N), j))} = {' + '.join([pairs.weight(r, 0), *terms])};")


@additive.backend("slopes")
def _(c: Loops, out: Array, Z: Array, T: Array, weights: Array, *means: Array, base: str = DEFAULT) -> None:
    pairs = _Pairs(c, Z, T, weights, means, base, c.scratch_of(out))
    with c.members(out, 2) as r:
        pairs.fill(r)
        with c.loop("j", pairs.N) as j:
            g = c.let(c.slope(out).at(plus(times(r, pairs.N), j)))
            e = [pairs.e(order, j) for order in range(1, pairs.orders + 1)]
            falling = _falling(c, e, [pairs.weight(r, order) for order in range(pairs.orders + 1)])
            with c.loop("q", pairs.Q) as q:
                z = c.let(pairs.z(q, j))
                f = c.let(f"{g} * ({_horner(falling, z)})")
                d = c.let(f"{pairs.new(Z, r, q)} - {pairs.old(T, r, q, j)}")
                whole = z
                if means:
                    old = pairs.old(means[1], r, q, j)
                    whole = c.let(f"{z} + {pairs.new(means[0], r, q)} * {old}")
                    c.line(f"{pairs.new(c.slope(means[0]), r, q)} -= {f} * {old};")
                c.line(f"{pairs.new(c.slope(Z), r, q)} += {f} * ({pairs.slope.format(d=d, k=whole)});")


def _falling(c: Loops, e: list[str], weights: list[str]) -> list[str]:
    """c_k = w_(k+1) + Σ_(r > k + 1) w_r e_(r−1−k), for all k."""
    orders = len(e)
    return [
        c.let(" + ".join([weights[k + 1], *(f"{weights[r]} * {e[r - 2 - k]}" for r in range(k + 2, orders + 1))]))
        for k in range(orders)
    ]


def _horner(falling: list[str], z: str) -> str:
    """c_0 − z (c_1 − z (c_2 − …))."""
    text = falling[-1]
    for c_k in falling[-2::-1]:
        text = f"{c_k} - {z} * ({text})"
    return text


def _polynomials_of_row(c: Loops, means: Array, orders: int, r: str) -> list[str]:
    """e_1, e_2, … of 1 − a_q²."""
    e = [c.sum_in() for _ in range(orders)]
    with c.loop("q", means.shape[-1]) as q:
        a = c.let(means.at(plus(times(r, means.batch(2)), q)))
        z = c.let(f"1 - {a} * {a}")
        for order in range(orders, 0, -1):
            c.line(f"{e[order - 1]} += {z}{f' * {e[order - 2]}' if order > 1 else ''};")
    return e


@additive_diagonal.backend("loops")
def _(c: Loops, out: Array, means: Array, weights: Array, features: int) -> None:
    orders = min(weights.shape[-1] - 1, features)
    with c.members(out, 1) as r:
        e, at = _polynomials_of_row(c, means, orders, r), times(r, weights.batch(1))
        terms = [f"{weights.at(plus(at, order + 1))} * {e[order]}" for order in range(orders)]
        c.line(f"{out.at(r)} = {' + '.join([weights.at(at), *terms])};")


@additive_diagonal.backend("slopes")
def _(c: Loops, out: Array, means: Array, weights: Array, features: int) -> None:
    orders = min(weights.shape[-1] - 1, features)
    with c.members(out, 1) as r:
        e, at = _polynomials_of_row(c, means, orders, r), times(r, weights.batch(1))
        falling = _falling(c, e, [weights.at(plus(at, order)) for order in range(orders + 1)])
        with c.loop("q", means.shape[-1]) as q:
            place = plus(times(r, means.batch(2)), q)
            a = c.let(means.at(place))
            z = c.let(f"1 - {a} * {a}")
            c.line(f"{c.slope(means).at(place)} -= 2 * {a} * {c.slope(out).at(r)} * ({_horner(falling, z)});")
