"""From covariances to moments: means and variances of members, of warped targets, and of their mixture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from manifoldgp.predictor.backends import named_operation, operation
from manifoldgp.predictor.operations_rows import product
from manifoldgp.predictor.target_warping import unwarped_moments

if TYPE_CHECKING:
    from manifoldgp.predictor.onnx_graph import Graph

BISECTIONS, NEWTON_STEPS = 40, 2

LEAST = 1e-300
"""The smallest variance of which a logarithm is taken."""

LEAST_CERTAIN, MOST_CERTAIN = 0.01, 8.0
"""The smallest and the largest exponent of variances that weights follow: below, nothing follows, and beyond, the surest member alone would count, right or wrong."""


@operation
def weighted(K: np.ndarray, a: np.ndarray) -> np.ndarray:
    """Σ_j K_ij a_j: (n,) for a (N,), (R, n) for a (R, N, 1)."""
    return product(K, a) if a.ndim == 1 else (K @ a)[..., 0]


@weighted.backend("onnx")
def _(g: Graph, K: str, a: str) -> str:
    total = g.node("MatMul", K, a)
    return total if g.initializers[a].ndim == 1 else g.node("Squeeze", total, g.axes(-1))


@operation
def explained(K: np.ndarray, *blocks: np.ndarray) -> np.ndarray:
    """|L⁻¹ k|² (..., n), the variance that the data explain, through the first entries of k or all of them.

    L⁻¹ comes as blocks of its rows, transposed, without the zeros beyond the diagonal: (..., columns, rows).
    """
    if len(K) == 1 and K.ndim == blocks[0].ndim == 2:
        return np.array([_explained_row(K[0], blocks)])
    batch = blocks[0].shape[:-2] or K.shape[:-2]
    V = np.empty((*batch, K.shape[-2], sum(block.shape[-1] for block in blocks)))
    first = 0
    for block in blocks:
        columns, rows = block.shape[-2:]
        np.matmul(K[..., :columns], block, out=V[..., first : first + rows])
        first += rows
    return np.einsum("...j,...j->...", V, V)


def _explained_row(k: np.ndarray, blocks: Sequence[np.ndarray]) -> float:
    """The same for one row of one member, where calls cost more than arithmetic."""
    total = 0.0
    for block in blocks:
        v = k[: len(block)].dot(block)
        total += v.dot(v)
    return total


@explained.backend("onnx")
def _(g: Graph, K: str, *blocks: str) -> str:
    parts = [g.square_sum(g.node("MatMul", g.columns(K, 0, g.initializers[b].shape[-2]), b)) for b in blocks]
    return parts[0] if len(parts) == 1 else g.node("Sum", *parts)


@operation
def variance(e: np.ndarray, prior: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """max(prior − explained, 0) + noise."""
    v = prior - e
    np.maximum(v, 0.0, out=v)
    v += noise
    return v


@variance.backend("onnx")
def _(g: Graph, e: str, prior: str, noise: str) -> str:
    return g.node("Add", g.node("Max", g.node("Sub", prior, e), g.constant(0.0)), noise)


@operation
def members(*parts: np.ndarray, lift: Sequence[bool]) -> np.ndarray:
    """All members' values (S, n) from (n,) where ``lift`` says so, else (R, n)."""
    return np.concatenate([part[None] if alone else part for part, alone in zip(parts, lift, strict=True)])


@members.backend("onnx")
def _(g: Graph, *parts: str, lift: Sequence[bool]) -> str:
    lifted = [g.node("Unsqueeze", part, g.axes(0)) if alone else part for part, alone in zip(parts, lift, strict=True)]
    return g.node("Concat", *lifted, axis=0)


@operation
def mix(M: np.ndarray, W: np.ndarray) -> np.ndarray:
    """W M: the means (n,) or (O, n) of the mixtures with weights W (S,) or (O, S)."""
    return W @ M


@mix.backend("onnx")
def _(g: Graph, M: str, W: str) -> str:
    return g.node("MatMul", W, M)


@operation
def mixture_std(
    M: np.ndarray, V: np.ndarray, mean: np.ndarray, W: np.ndarray, G: np.ndarray, owner: np.ndarray | None = None
) -> np.ndarray:
    """√(Σ_s G_s v_s + W_s (m_s − mean)²); G: weights times variance factors. owner (S,): the target of each member."""
    D = M - (mean if owner is None else mean[owner])
    D *= D
    return np.sqrt(G @ V + W @ D)


@mixture_std.backend("onnx")
def _(g: Graph, M: str, V: str, mean: str, W: str, G: str, owner: str | None = None) -> str:
    away = g.node("Sub", M, mean if owner is None else g.node("Gather", mean, owner, axis=0))
    return g.node("Sqrt", g.node("Add", g.node("MatMul", G, V), g.node("MatMul", W, g.node("Mul", away, away))))


@operation
def certainty(
    V: np.ndarray,
    log_usual: np.ndarray,
    exponent: np.ndarray,
    share: np.ndarray,
    W: np.ndarray,
    owner: np.ndarray | None = None,
) -> np.ndarray:
    """A (S, n), by which weights change where members are more or less sure than usual: in a share of each target's prediction a_s ∝ (v_s / u_s)^−β, in the rest one; Σ_s W_s a_s = 1.

    log_usual (S, 1): log u_s. exponent, share (O,): β and the share, of each target. W: (S,), or (O, S) with owner (S,), the target of each member.
    """
    unsure = np.log(np.maximum(V, LEAST)) - log_usual
    if owner is None:
        return _relative(unsure, exponent, share, W)
    A = np.empty_like(unsure)
    for o, (power, part, w) in enumerate(zip(exponent, share, W, strict=True)):
        own = owner == o
        A[own] = _relative(unsure[own], power, part, w[own])
    return A


def _relative(unsure: np.ndarray, power: np.ndarray, share: np.ndarray, w: np.ndarray) -> np.ndarray:
    """exp(−β unsure) (R, n) of the members of one target, divided by its average; beside that of the surest member, so that nothing overflows."""
    A = np.exp(-power * (unsure - unsure.min(0)))
    A *= share / (w @ A)
    A += 1.0 - share
    return A


@certainty.backend("onnx")
def _(g: Graph, V: str, log_usual: str, exponent: str, share: str, W: str, owner: str | None = None) -> str:
    least = g.constant(max(LEAST, float(np.finfo(g.dtype).tiny)))
    unsure = g.node("Sub", g.node("Log", g.node("Max", V, least)), log_usual)
    powers, shares, weights = g.initializers[exponent], g.initializers[share], np.atleast_2d(g.initializers[W])
    if owner is None:
        return _relative_in_onnx(g, unsure, powers[0], shares[0], weights[0])
    parts, places = [], []
    for o, (power, part, w) in enumerate(zip(powers, shares, weights, strict=True)):
        own = np.flatnonzero(g.initializers[owner] == o)
        parts.append(_relative_in_onnx(g, g.node("Gather", unsure, g.axes(*own.tolist()), axis=0), power, part, w[own]))
        places.append(own)
    return g.node("Gather", g.node("Concat", *parts, axis=0), g.axes(*np.argsort(np.concatenate(places)).tolist()), axis=0)


def _relative_in_onnx(g: Graph, unsure: str, power: np.ndarray, share: np.ndarray, w: np.ndarray) -> str:
    least = g.node("ReduceMin", unsure, axes=[0], keepdims=0)
    A = g.node("Exp", g.node("Mul", g.node("Sub", unsure, least), g.constant(-power)))
    following = g.node("Div", A, g.node("MatMul", g.constant(w), A))
    return g.node("Add", g.node("Mul", following, g.constant(share)), g.constant(1.0 - share))


@operation
def certain_std(
    M: np.ndarray, V: np.ndarray, A: np.ndarray, mean: np.ndarray, W: np.ndarray, G: np.ndarray, owner: np.ndarray | None = None
) -> np.ndarray:
    """``mixture_std`` with weights that change by the factors A (S, n) from point to point."""
    D = M - (mean if owner is None else mean[owner])
    D *= D
    D *= A
    return np.sqrt(G @ (A * V) + W @ D)


@certain_std.backend("onnx")
def _(g: Graph, M: str, V: str, A: str, mean: str, W: str, G: str, owner: str | None = None) -> str:
    away = g.node("Sub", M, mean if owner is None else g.node("Gather", mean, owner, axis=0))
    between = g.node("MatMul", W, g.node("Mul", A, g.node("Mul", away, away)))
    return g.node("Sqrt", g.node("Add", g.node("MatMul", G, g.node("Mul", A, V)), between))


warped_moments = named_operation("warped_moments", unwarped_moments)


@warped_moments.backend("onnx")
def _(g: Graph, m: str, v: str, height: str, steepness: str, centre: str, nodes: str, weights: str) -> str:
    rank = 1 if g.initializers[height].ndim == 2 else 2
    column = (-1, *[1] * rank)
    at = g.constant(g.initializers[nodes].reshape(column))
    w = g.constant(g.initializers[weights].reshape(column))
    t = _unwarp_in_onnx(g, g.node("Add", m, g.node("Mul", g.node("Sqrt", v), at)), height, steepness, centre)
    middle = _unwarp_in_onnx(g, m, height, steepness, centre)
    away = g.node("Sub", t, middle)
    first = g.sum_over(g.node("Mul", w, away), 0)
    second = g.sum_over(g.node("Mul", w, g.node("Mul", away, away)), 0)
    spread = g.node("Max", g.node("Sub", second, g.node("Mul", first, first)), g.constant(0.0))
    both = (g.node("Add", middle, first), spread)
    return g.node("Concat", *(g.node("Unsqueeze", part, g.axes(0)) for part in both), axis=0)


def _unwarp_in_onnx(g: Graph, z: str, a: str, b: str, c: str) -> str:
    """t with g(t) = z: bisection as a loop, then Newton."""
    helper, TensorProto = g.onnx.helper, g.onnx.TensorProto
    reach = g.constant(g.initializers[a].sum(-1))
    half, one = g.constant(0.5), g.constant(1.0)

    def middle_of(graph: Graph, low: str, high: str) -> str:
        return graph.node("Mul", graph.node("Add", low, high), half)

    def tanhs(graph: Graph, t: str) -> str:
        return graph.node("Tanh", graph.node("Mul", b, graph.node("Add", graph.node("Unsqueeze", t, last), c)))

    def warped(graph: Graph, t: str, T: str) -> str:
        return graph.node("Add", t, graph.node("ReduceSum", graph.node("Mul", a, T), last, keepdims=0))

    last = g.axes(-1)
    name = g.new_name("bisection")
    low, high, go_on = f"{name}_low", f"{name}_high", f"{name}_go_on"
    body = g.body(name)
    t = middle_of(body, low, high)
    above = body.node("Greater", warped(body, t, tanhs(body, t)), z)
    results = [body.node("Identity", go_on), body.node("Where", above, low, t), body.node("Where", above, t, high)]
    value = helper.make_tensor_value_info
    inside = helper.make_graph(
        body.nodes,
        name,
        [value(f"{name}_step", TensorProto.INT64, []), value(go_on, TensorProto.BOOL, [])]
        + [value(end, g.tensor_type, None) for end in (low, high)],
        [value(results[0], TensorProto.BOOL, [])] + [value(end, g.tensor_type, None) for end in results[1:]],
    )
    ends = [g.new_name("low"), g.new_name("high")]
    start = [g.node("Sub", z, reach), g.node("Add", z, reach)]
    always, steps = g.constant(np.array(True)), g.constant(np.array(BISECTIONS, dtype=np.int64))
    g.nodes.append(helper.make_node("Loop", [steps, always, *start], ends, body=inside))
    t = middle_of(g, *ends)
    for _ in range(NEWTON_STEPS):
        T = tanhs(g, t)
        gap = g.node("Sub", warped(g, t, T), z)
        flat = g.node("Mul", g.node("Mul", a, b), g.node("Sub", one, g.node("Mul", T, T)))
        slope = g.node("Add", g.sum_over(flat, -1), one)
        t = g.node("Sub", t, g.node("Div", gap, slope))
    return t
