"""The operations of :mod:`manifoldgp.predictor._covariances` as ONNX nodes."""

from __future__ import annotations

from manifoldgp.predictor.onnx_arithmetic import arcsin, columns, log1p, square_sum, sum_over
from manifoldgp.predictor.onnx_graph import Graph
from manifoldgp.predictor.operations import LARGEST_SINE


def squared_distances(g: Graph, Z: str, T: str, norms: str, expand: bool) -> str:
    """|z_i − t_j|²: expanded, or summed from differences feature by feature, so that no (n, N, Q) tensor exists."""
    if expand:
        cross = g.node("MatMul", g.node("Mul", Z, g.constant(-2.0)), T)
        total = g.node("Add", g.node("Add", cross, norms), square_sum(g, Z, keep=True))
        return g.node("Max", total, g.constant(0.0))
    total = ""
    for q in range(g.initializers[T].shape[-2]):
        gap = g.node("Sub", columns(g, Z, q, q + 1), columns(g, T, q, q + 1, axis=-2))
        square = g.node("Mul", gap, gap)
        total = g.node("Add", total, square) if total else square
    return total


def squared_exponential(g: Graph, Z: str, T: str, norms: str, expand: bool) -> str:
    return g.node("Exp", g.node("Neg", squared_distances(g, Z, T, norms, expand)))


def matern12(g: Graph, Z: str, T: str, norms: str, expand: bool) -> str:
    return g.node("Exp", g.node("Neg", g.node("Sqrt", squared_distances(g, Z, T, norms, expand))))


def matern32(g: Graph, Z: str, T: str, norms: str, expand: bool) -> str:
    a = g.node("Sqrt", squared_distances(g, Z, T, norms, expand))
    return g.node("Mul", g.node("Add", a, g.constant(1.0)), g.node("Exp", g.node("Neg", a)))


def matern52(g: Graph, Z: str, T: str, norms: str, expand: bool) -> str:
    s = squared_distances(g, Z, T, norms, expand)
    a = g.node("Sqrt", s)
    polynomial = g.node("Add", g.node("Add", g.node("Mul", s, g.constant(1.0 / 3.0)), a), g.constant(1.0))
    return g.node("Mul", polynomial, g.node("Exp", g.node("Neg", a)))


def rational_quadratic(g: Graph, Z: str, T: str, norms: str, shape: str, expand: bool) -> str:
    s = squared_distances(g, Z, T, norms, expand)
    return g.node("Exp", g.node("Mul", log1p(g, s), g.node("Neg", shape)))


def neural_network(g: Graph, A: str, U: str, u: str, one_plus_bias: str) -> str:
    size = g.node("Sqrt", g.node("Add", square_sum(g, A), one_plus_bias))
    sine = g.node("Div", g.node("Add", g.node("MatMul", A, U), u), g.node("Unsqueeze", size, g.axes(-1)))
    return arcsin(g, g.node("Clip", sine, g.constant(-LARGEST_SINE), g.constant(LARGEST_SINE)))


def neural_network_diagonal(g: Graph, A: str, one_plus_bias: str) -> str:
    q = g.node("Add", square_sum(g, A), one_plus_bias)
    sine = g.node("Div", g.node("Sub", q, g.constant(1.0)), q)
    return arcsin(g, g.node("Min", sine, g.constant(LARGEST_SINE)))


def spectral_mixture(
    g: Graph, H: str, width: str, speed: str, T: str, norms: str, cosines: str, sines: str, weights: str, expand: bool
) -> str:
    G = g.node("Unsqueeze", H, g.axes(-3))
    K = squared_exponential(g, g.node("Mul", G, width), T, norms, expand)
    phase = g.node("Mul", G, speed)
    C, S = g.node("Cos", phase), g.node("Sin", phase)
    for q in range(g.initializers[T].shape[-2]):
        both = [
            g.node("Mul", columns(g, new, q, q + 1), columns(g, old, q, q + 1, axis=-2))
            for new, old in ((C, cosines), (S, sines))
        ]
        K = g.node("Mul", K, g.node("Add", *both))
    return sum_over(g, g.node("Mul", K, weights), -3)


def constant_covariance(g: Graph, X: str, c: str) -> str:
    nothing = sum_over(g, g.node("Mul", X, g.constant(0.0)), -1, keep=True)
    return g.node("Add", c, nothing)
