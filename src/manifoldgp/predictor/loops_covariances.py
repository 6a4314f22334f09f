"""Loops of covariances with the training rows, and their derivatives with respect to the features of the new row.

Distances are summed from differences, which loses no digits. Loops over training rows have no branches and no calls but m_exp_negative, so that compilers vectorise them.
"""

from __future__ import annotations

from collections.abc import Callable

from manifoldgp.predictor.loops import FEW, Array, Loops, plus, times
from manifoldgp.predictor.loops_rows import length
from manifoldgp.predictor.operations_covariances import (
    LARGEST_SINE,
    matern12,
    matern32,
    matern52,
    neural_network,
    neural_network_diagonal,
    rational_quadratic,
    spectral_mixture,
    squared_distances,
    squared_exponential,
)


def _differences(c: Loops, Z: Array, T: Array, r: str) -> Callable[[str], list[str]]:
    """A function that writes z_q − t_qj for a training row j, and names them."""
    Q, N = T.shape[-2:]
    z = [c.let(Z.at(plus(times(r, Z.batch(2)), q))) for q in range(Q)]
    first = times(r, T.batch(2))
    return lambda j: [c.let(f"{z[q]} - {T.at(plus(plus(first, q * N), j))}") for q in range(Q)]


def _distances(c: Loops, out: Array, Z: Array, T: Array, r: str, of: str) -> None:
    """out_j = of(|z − t_j|²)."""
    Q, N = T.shape[-2:]
    at = times(r, N)
    if Q <= FEW:
        gaps = _differences(c, Z, T, r)
        with c.loop("j", N) as j:
            s = c.let(" + ".join(f"{d} * {d}" for d in gaps(j)))
            c.line(f"{out.at(plus(at, j))} = {of.format(s=s)};")
        return
    with c.loop("j", N) as j:
        c.line(f"{out.at(plus(at, j))} = 0;")
    with c.loop("q", Q) as q:
        z, row = c.let(Z.at(plus(times(r, Z.batch(2)), q))), plus(times(r, T.batch(2)), times(q, N))
        with c.loop("j", N) as j:
            d = c.let(f"{z} - {T.at(plus(row, j))}")
            c.line(f"{out.at(plus(at, j))} += {d} * {d};")
    if of != "{s}":
        with c.loop("j", N) as j:
            s = c.let(out.at(plus(at, j)))
            c.line(f"{out.at(plus(at, j))} = {of.format(s=s)};")


def _towards_features(c: Loops, out: Array, Z: Array, T: Array, slope: str, number: Array | None = None) -> None:
    """Adds Σ_j g_j dk_j/ds · 2 (z − t_j). slope: dk/ds as text with {s}, {k} and {p}, a number that each member has."""
    Q, N = T.shape[-2:]
    with c.members(out, 2) as r:
        here = times(r, Z.batch(2))
        targets = [c.slope(Z).at(plus(here, q)) for q in range(Q)]
        sums = [c.sum_in() for _ in range(Q)] if Q <= FEW else targets
        with c.loop("j", N) as j:
            at, first = plus(times(r, N), j), plus(times(r, T.batch(2)), j)
            gaps = [c.let(f"{Z.at(plus(here, q))} - {T.at(plus(first, q * N))}") for q in range(Q)]
            s = c.let(" + ".join(f"{d} * {d}" for d in gaps)) if "{s}" in slope else ""
            p = "" if number is None else number.at(times(r, number.batch(2)))
            f = c.let(f"2 * {c.slope(out).at(at)} * ({slope.format(s=s, k=out.at(at), p=p)})")
            for total, d in zip(sums, gaps, strict=True):
                c.line(f"{total} += {f} * {d};")
        for target, total in zip(targets, sums, strict=True):
            if target != total:
                c.line(f"{target} += {total};")


@squared_distances.backend("loops")
def _(c: Loops, out: Array, Z: Array, T: Array, norms: Array, expand: bool) -> None:
    with c.members(out, 2) as r:
        _distances(c, out, Z, T, r, "{s}")


@squared_distances.backend("slopes")
def _(c: Loops, out: Array, Z: Array, T: Array, norms: Array, expand: bool) -> None:
    _towards_features(c, out, Z, T, "1")


@squared_exponential.backend("loops")
def _(c: Loops, out: Array, Z: Array, T: Array, norms: Array, expand: bool) -> None:
    with c.members(out, 2) as r:
        _distances(c, out, Z, T, r, "m_exp_negative(-{s})")


@squared_exponential.backend("slopes")
def _(c: Loops, out: Array, Z: Array, T: Array, norms: Array, expand: bool) -> None:
    _towards_features(c, out, Z, T, "-{k}")


def _of_root(c: Loops, out: Array, Z: Array, T: Array, value: str) -> None:
    """A function of a = √s. Roots have a loop of their own: where errno keeps compilers from vectorising it, exponentials still are."""
    with c.members(out, 2) as r:
        _distances(c, out, Z, T, r, "m_sqrt({s})")
        with c.loop("j", T.shape[-1]) as j:
            entry = out.at(plus(times(r, T.shape[-1]), j))
            a = c.let(entry)
            c.line(f"{entry} = {value.format(a=a)};")


@matern12.backend("loops")
def _(c: Loops, out: Array, Z: Array, T: Array, norms: Array, expand: bool) -> None:
    _of_root(c, out, Z, T, "m_exp_negative(-{a})")


@matern12.backend("slopes")
def _(c: Loops, out: Array, Z: Array, T: Array, norms: Array, expand: bool) -> None:
    """At a training row there is a kink: its slope is taken as zero."""
    _towards_features(c, out, Z, T, "{s} > 0 ? -{k} / (2 * m_sqrt({s})) : 0")


@matern32.backend("loops")
def _(c: Loops, out: Array, Z: Array, T: Array, norms: Array, expand: bool) -> None:
    _of_root(c, out, Z, T, "(1 + {a}) * m_exp_negative(-{a})")


@matern32.backend("slopes")
def _(c: Loops, out: Array, Z: Array, T: Array, norms: Array, expand: bool) -> None:
    _towards_features(c, out, Z, T, "-{k} / (2 * (1 + m_sqrt({s})))")


@matern52.backend("loops")
def _(c: Loops, out: Array, Z: Array, T: Array, norms: Array, expand: bool) -> None:
    _of_root(c, out, Z, T, "(1 + {a} + {a} * {a} / 3) * m_exp_negative(-{a})")


@matern52.backend("slopes")
def _(c: Loops, out: Array, Z: Array, T: Array, norms: Array, expand: bool) -> None:
    _towards_features(c, out, Z, T, "-(1 + m_sqrt({s})) / (6 * (1 + m_sqrt({s}) + {s} / 3)) * {k}")


@rational_quadratic.backend("loops")
def _(c: Loops, out: Array, Z: Array, T: Array, norms: Array, shape: Array, expand: bool) -> None:
    N = T.shape[-1]
    with c.members(out, 2) as r:
        _distances(c, out, Z, T, r, "m_log1p({s})")
        power = c.let(shape.at(times(r, shape.batch(2))))
        with c.loop("j", N) as j:
            entry = out.at(plus(times(r, N), j))
            c.line(f"{entry} = m_exp_negative(-{power} * {entry});")


@rational_quadratic.backend("slopes")
def _(c: Loops, out: Array, Z: Array, T: Array, norms: Array, shape: Array, expand: bool) -> None:
    _towards_features(c, out, Z, T, "-{p} * {k} / (1 + {s})", shape)


def _sine(c: Loops, out: Array, A: Array, U: Array, u: Array, r: str, j: str, size: str) -> str:
    """(a·U_j + u_j) / size, between −1 and 1."""
    Q, N = U.shape[-2:]
    total = c.sum_in(u.at(plus(times(r, u.batch(2)), j)))
    with c.loop("q", Q) as q:
        entry = plus(plus(times(r, U.batch(2)), times(q, N)), j)
        c.line(f"{total} += {A.at(plus(times(r, A.batch(2)), q))} * {U.at(entry)};")
    edge = c.number(LARGEST_SINE)
    x = c.let(f"{total} / {size}")
    return c.let(f"{x} > {edge} ? {edge} : ({x} < -{edge} ? -{edge} : {x})")


@neural_network.backend("loops")
def _(c: Loops, out: Array, A: Array, U: Array, u: Array, one_plus_bias: Array) -> None:
    with c.members(out, 2) as r:
        size = c.let(f"m_sqrt({length(c, A, r)} + {one_plus_bias.at(times(r, one_plus_bias.batch(1)))})")
        with c.loop("j", U.shape[-1]) as j:
            c.line(f"{out.at(plus(times(r, U.shape[-1]), j))} = m_asin({_sine(c, out, A, U, u, r, j, size)});")


@neural_network.backend("slopes")
def _(c: Loops, out: Array, A: Array, U: Array, u: Array, one_plus_bias: Array) -> None:
    Q, N = U.shape[-2:]
    target = c.slope(A)
    with c.members(out, 2) as r:
        here = times(r, A.batch(2))
        size = c.let(f"m_sqrt({length(c, A, r)} + {one_plus_bias.at(times(r, one_plus_bias.batch(1)))})")
        with c.loop("j", N) as j:
            sine = _sine(c, out, A, U, u, r, j, size)
            f = c.let(f"{c.slope(out).at(plus(times(r, N), j))} / (m_sqrt((1 - {sine}) * (1 + {sine})) * {size})")
            with c.loop("q", Q) as q:
                entry = plus(plus(times(r, U.batch(2)), times(q, N)), j)
                c.line(f"{target.at(plus(here, q))} += {f} * ({U.at(entry)} - {sine} * {A.at(plus(here, q))} / {size});")


@neural_network_diagonal.backend("loops")
def _(c: Loops, out: Array, A: Array, one_plus_bias: Array) -> None:
    with c.members(out, 1) as r:
        q = c.let(f"{length(c, A, r)} + {one_plus_bias.at(times(r, one_plus_bias.batch(1)))}")
        sine, edge = c.let(f"({q} - 1) / {q}"), c.number(LARGEST_SINE)
        c.line(f"{out.at(r)} = m_asin({sine} > {edge} ? {edge} : {sine});")


@neural_network_diagonal.backend("slopes")
def _(c: Loops, out: Array, A: Array, one_plus_bias: Array) -> None:
    """With sine p / (1 + p), the cosine is √(1 + 2p) / (1 + p)."""
    with c.members(out, 1) as r:
        q = c.let(f"{length(c, A, r)} + {one_plus_bias.at(times(r, one_plus_bias.batch(1)))}")
        f = c.let(f"2 * {c.slope(out).at(r)} / ({q} * m_sqrt(2 * {q} - 1))")
        with c.loop("q", A.shape[-1]) as k:
            at = plus(times(r, A.batch(2)), k)
            c.line(f"{c.slope(A).at(at)} += {f} * {A.at(at)};")


class _Mixture:
    """The arrays of a spectral mixture, and the terms of its component m at training row j."""

    def __init__(self, c: Loops, H: Array, width: Array, speed: Array, T: Array, cosines: Array, sines: Array, weights: Array):
        self.c, self.H, self.width, self.speed, self.T = c, H, width, speed, T
        self.cosines, self.sines, self.weights = cosines, sines, weights
        self.M, self.Q, self.N = T.shape[-3:]

    def entry(self, A: Array, r: str, m: str, q: int) -> str:
        """Of width or speed, (M, 1, Q)."""
        return A.at(plus(plus(times(r, A.batch(3)), times(m, self.Q)), q))

    def row(self, A: Array, r: str, m: str, q: int, j: str) -> str:
        """Of the training side, (M, Q, N)."""
        return A.at(plus(plus(times(r, A.batch(3)), times(m, self.Q * self.N)), plus(q * self.N, j)))

    def phases(self, r: str, m: str) -> tuple[list[str], list[str], list[str]]:
        """h_q width, cos and sin of h_q speed, for all q."""
        h = [self.H.at(plus(times(r, self.H.batch(2)), q)) for q in range(self.Q)]
        turned = [f"{h[q]} * {self.entry(self.speed, r, m, q)}" for q in range(self.Q)]
        near = [self.c.let(f"{h[q]} * {self.entry(self.width, r, m, q)}") for q in range(self.Q)]
        return near, [self.c.let(f"m_cos({p})") for p in turned], [self.c.let(f"m_sin({p})") for p in turned]

    def factors(self, phases: tuple[list[str], list[str], list[str]], r: str, m: str, j: str) -> tuple[list[str], list[str], str]:
        """Differences, cosines of differences of phases, and weight · exp(−s)."""
        near, C, S = phases
        c, each = self.c, range(self.Q)
        gaps = [c.let(f"{near[q]} - {self.row(self.T, r, m, q, j)}") for q in each]
        turns = [
            c.let(f"{C[q]} * {self.row(self.cosines, r, m, q, j)} + {S[q]} * {self.row(self.sines, r, m, q, j)}") for q in each
        ]
        weight = self.weights.at(plus(times(r, self.weights.batch(3)), m))
        return gaps, turns, c.let(f"{weight} * m_exp_negative(-({' + '.join(f'{d} * {d}' for d in gaps)}))")


@spectral_mixture.backend("loops")
def _(
    c: Loops, out: Array, H: Array, width: Array, speed: Array, T: Array, norms: Array, cosines: Array, sines: Array, weights: Array, expand: bool
) -> None:  # fmt: skip
    mixture = _Mixture(c, H, width, speed, T, cosines, sines, weights)
    with c.members(out, 2) as r:
        with c.loop("j", mixture.N) as j:
            c.line(f"{out.at(plus(times(r, mixture.N), j))} = 0;")
        with c.loop("m", mixture.M) as m:
            phases = mixture.phases(r, m)
            with c.loop("j", mixture.N) as j:
                _, turns, size = mixture.factors(phases, r, m, j)
                c.line(f"{out.at(plus(times(r, mixture.N), j))} += {' * '.join([size, *turns])};")


@spectral_mixture.backend("slopes")
def _(
    c: Loops, out: Array, H: Array, width: Array, speed: Array, T: Array, norms: Array, cosines: Array, sines: Array, weights: Array, expand: bool
) -> None:  # fmt: skip
    mixture = _Mixture(c, H, width, speed, T, cosines, sines, weights)
    with c.members(out, 2) as r, c.loop("m", mixture.M) as m:
        phases = mixture.phases(r, m)
        _, C, S = phases
        with c.loop("j", mixture.N) as j:
            gaps, turns, size = mixture.factors(phases, r, m, j)
            g = c.let(f"{c.slope(out).at(plus(times(r, mixture.N), j))} * {size}")
            for q in range(mixture.Q):
                others = [turn for k, turn in enumerate(turns) if k != q]
                turning = f"{C[q]} * {mixture.row(sines, r, m, q, j)} - {S[q]} * {mixture.row(cosines, r, m, q, j)}"
                falling = f"2 * {gaps[q]} * {mixture.entry(width, r, m, q)} * {turns[q]}"
                change = f"{mixture.entry(speed, r, m, q)} * ({turning}) - {falling}"
                c.line(f"{c.slope(H).at(plus(times(r, H.batch(2)), q))} += {' * '.join([g, f'({change})', *others])};")
