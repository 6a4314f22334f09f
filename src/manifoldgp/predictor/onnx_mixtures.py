"""The operations of :mod:`manifoldgp.predictor._mixtures` as ONNX nodes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from manifoldgp.predictor.onnx_arithmetic import columns, square_sum, sum_over
from manifoldgp.predictor.onnx_graph import Graph
from manifoldgp.predictor.operations import BISECTIONS, NEWTON_STEPS


def weighted(g: Graph, K: str, a: str) -> str:
    total = g.node("MatMul", K, a)
    return total if g.initializers[a].ndim == 1 else g.node("Squeeze", total, g.axes(-1))


def explained(g: Graph, K: str, *blocks: str) -> str:
    parts = [square_sum(g, g.node("MatMul", columns(g, K, 0, g.initializers[b].shape[-2]), b)) for b in blocks]
    return parts[0] if len(parts) == 1 else g.node("Sum", *parts)


def variance(g: Graph, e: str, prior: str, noise: str) -> str:
    return g.node("Add", g.node("Max", g.node("Sub", prior, e), g.constant(0.0)), noise)


def members(g: Graph, *parts: str, lift: Sequence[bool]) -> str:
    lifted = [g.node("Unsqueeze", part, g.axes(0)) if alone else part for part, alone in zip(parts, lift, strict=True)]
    return g.node("Concat", *lifted, axis=0)


def mix(g: Graph, M: str, W: str) -> str:
    return g.node("MatMul", W, M)


def mixture_std(g: Graph, M: str, V: str, mean: str, W: str, G: str, owner: str | None = None) -> str:
    away = g.node("Sub", M, mean if owner is None else g.node("Gather", mean, owner, axis=0))
    return g.node("Sqrt", g.node("Add", g.node("MatMul", G, V), g.node("MatMul", W, g.node("Mul", away, away))))


def warped_moments(g: Graph, m: str, v: str, height: str, steepness: str, centre: str, nodes: str, weights: str) -> str:
    rank = 1 if g.initializers[height].ndim == 2 else 2
    column = (-1, *[1] * rank)
    at = g.constant(g.initializers[nodes].reshape(column))
    w = g.constant(g.initializers[weights].reshape(column))
    t = _unwarp(g, g.node("Add", m, g.node("Mul", g.node("Sqrt", v), at)), height, steepness, centre)
    middle = _unwarp(g, m, height, steepness, centre)
    away = g.node("Sub", t, middle)
    first = sum_over(g, g.node("Mul", w, away), 0)
    second = sum_over(g, g.node("Mul", w, g.node("Mul", away, away)), 0)
    spread = g.node("Max", g.node("Sub", second, g.node("Mul", first, first)), g.constant(0.0))
    both = (g.node("Add", middle, first), spread)
    return g.node("Concat", *(g.node("Unsqueeze", part, g.axes(0)) for part in both), axis=0)


def _unwarp(g: Graph, z: str, a: str, b: str, c: str) -> str:
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
    body = Graph(g.dtype, prefix=f"{name}_")
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
        slope = g.node("Add", sum_over(g, flat, -1), one)
        t = g.node("Sub", t, g.node("Div", gap, slope))
    return t
