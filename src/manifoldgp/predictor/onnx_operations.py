"""All operations of a program by name, as functions that add ONNX nodes."""

from __future__ import annotations

from collections.abc import Callable

from manifoldgp.predictor import onnx_arithmetic as arithmetic
from manifoldgp.predictor import onnx_covariances as covariances
from manifoldgp.predictor import onnx_mixtures as mixtures
from manifoldgp.predictor.onnx_arithmetic import columns, expm1
from manifoldgp.predictor.onnx_graph import Graph


def _same(operator: str) -> Callable[..., str]:
    """An operation that ONNX has."""
    return lambda g, *inputs: g.node(operator, *inputs)


def _affine(g: Graph, *arguments: str) -> str:
    pairs = range(0, len(arguments) - 1, 2)
    parts = [g.node("MatMul", arguments[i], arguments[i + 1]) for i in pairs] + list(arguments[2 * len(pairs) :])
    total = parts[0]
    for part in parts[1:]:
        total = g.node("Add", total, part)
    return total


def _scale_shift(g: Graph, A: str, d: str, e: str) -> str:
    return g.node("Add", g.node("Mul", A, d), e)


def _silu(g: Graph, A: str) -> str:
    return g.node("Mul", A, g.node("Sigmoid", A))


def _leaky_relu(g: Graph, A: str, slope: float) -> str:
    # LeakyRelu's own slope is a float32
    return g.node("Where", g.node("Greater", A, g.constant(0.0)), A, g.node("Mul", A, g.constant(slope)))


def _kumaraswamy(g: Graph, U: str, a: str, b: str, end: float) -> str:
    one = g.constant(1.0)
    inside = g.node("Clip", U, g.constant(end), g.constant(1.0 - end))
    log_u = g.node("Log", inside)
    log_rest = g.node("Log", g.node("Neg", expm1(g, g.node("Mul", a, log_u))))
    exponents = [g.node("Mul", g.node("Sub", power, one), log) for power, log in ((a, log_u), (b, log_rest))]
    slope = g.node("Mul", g.node("Mul", a, b), g.node("Exp", g.node("Add", *exponents)))
    w = g.node("Neg", expm1(g, g.node("Mul", b, log_rest)))
    return g.node("Add", w, g.node("Mul", slope, g.node("Sub", U, inside)))


def _circle(g: Graph, A: str) -> str:
    return g.node("Concat", g.node("Cos", A), g.node("Sin", A), axis=-1)


def _pick(g: Graph, A: str, index: int) -> str:
    return g.node("Squeeze", columns(g, A, index, index + 1, axis=0), g.axes(0))


OPERATIONS: dict[str, Callable[..., str]] = {
    "subtract": _same("Sub"),
    "add": _same("Add"),
    "multiply": _same("Mul"),
    "square_root": _same("Sqrt"),
    "tanh": _same("Tanh"),
    "sine": _same("Sin"),
    "sigmoid": _same("Sigmoid"),
    "relu": _same("Relu"),
    "pick": _pick,
    "transpose": lambda g, A: g.node("Transpose", A, perm=[1, 0]),
    "column": lambda g, A: g.node("Unsqueeze", A, g.axes(-1)),
    "affine": _affine,
    "scale_shift": _scale_shift,
    "softplus": arithmetic.softplus,
    "silu": _silu,
    "leaky_relu": _leaky_relu,
    "elu": arithmetic.elu,
    "kumaraswamy": _kumaraswamy,
    "circle": _circle,
    "square_sum": arithmetic.square_sum,
    "squared_exponential": covariances.squared_exponential,
    "matern12": covariances.matern12,
    "matern32": covariances.matern32,
    "matern52": covariances.matern52,
    "rational_quadratic": covariances.rational_quadratic,
    "neural_network": covariances.neural_network,
    "neural_network_diagonal": covariances.neural_network_diagonal,
    "spectral_mixture": covariances.spectral_mixture,
    "constant_covariance": covariances.constant_covariance,
    "weighted": mixtures.weighted,
    "explained": mixtures.explained,
    "variance": mixtures.variance,
    "members": mixtures.members,
    "mix": mixtures.mix,
    "mixture_std": mixtures.mixture_std,
    "warped_moments": mixtures.warped_moments,
}
