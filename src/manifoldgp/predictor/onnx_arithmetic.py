"""Functions that ONNX or onnxruntime lack in float64 (Asin, Softplus, Elu, log1p, expm1), from operators that they have."""

from __future__ import annotations

import numpy as np

from manifoldgp.predictor.onnx_graph import Graph


def log1p(g: Graph, s: str) -> str:
    """log(1 + s): with u = 1 + s rounded, s log(u) / (u − 1) has full precision, also for small s (Kahan)."""
    one = g.constant(1.0)
    u = g.node("Add", s, one)
    exact = g.node("Div", g.node("Mul", s, g.node("Log", u)), g.node("Sub", u, one))
    return g.node("Where", g.node("Equal", u, one), s, exact)


def expm1(g: Graph, x: str) -> str:
    """exp(x) − 1: with u = exp(x) rounded, (u − 1) x / log(u) (Kahan); −1 where u is zero."""
    one, u = g.constant(1.0), g.node("Exp", x)
    less = g.node("Sub", u, one)
    exact = g.node("Div", g.node("Mul", less, x), g.node("Log", u))
    tiny = g.node("Less", u, g.constant(float(np.finfo(g.dtype).tiny)))
    return g.node("Where", g.node("Equal", u, one), x, g.node("Where", tiny, g.constant(-1.0), exact))


def arcsin(g: Graph, x: str) -> str:
    """arcsin(x). In float64: t = arcsin in float32, then twice t + sin(arcsin(x) − t), the sine being x cos t − √(1 − x²) sin t."""
    if g.dtype == np.float32:
        return g.node("Asin", x)
    TensorProto = g.onnx.TensorProto
    t = g.node("Cast", g.node("Asin", g.node("Cast", x, to=TensorProto.FLOAT)), to=TensorProto.DOUBLE)
    one = g.constant(1.0)
    cosine = g.node("Sqrt", g.node("Mul", g.node("Sub", one, x), g.node("Add", one, x)))
    for _ in range(2):
        gap = g.node("Sub", g.node("Mul", x, g.node("Cos", t)), g.node("Mul", cosine, g.node("Sin", t)))
        t = g.node("Add", t, gap)
    return t


def softplus(g: Graph, x: str) -> str:
    """log(1 + exp(x)), and x itself from 20 on."""
    edge = g.constant(20.0)
    curved = log1p(g, g.node("Exp", g.node("Min", x, edge)))
    return g.node("Where", g.node("Greater", x, edge), x, curved)


def elu(g: Graph, x: str, alpha: float) -> str:
    zero = g.constant(0.0)
    curved = g.node("Mul", g.constant(alpha), expm1(g, g.node("Min", x, zero)))
    return g.node("Where", g.node("Greater", x, zero), x, curved)


def sum_over(g: Graph, A: str, *axes: int, keep: bool = False) -> str:
    return g.node("ReduceSum", A, g.axes(*axes), keepdims=int(keep))


def square_sum(g: Graph, A: str, keep: bool = False) -> str:
    """Σ a² over the last axis."""
    return g.node("ReduceSumSquare", A, axes=[-1], keepdims=int(keep))


def columns(g: Graph, A: str, first: int, last: int, axis: int = -1) -> str:
    """A[..., first:last]."""
    return g.node("Slice", A, g.axes(first), g.axes(last), g.axes(axis))
