"""Operations entry by entry, on arrays of any shape: what new kernels, feature maps and means are composed of.

Arithmetic broadcasts as NumPy does. ONNX, or onnxruntime in float64, lacks some functions: these are written with what it has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from manifoldgp.predictor.backends import named_operation, operation

if TYPE_CHECKING:
    from manifoldgp.predictor.onnx_graph import Graph

_LARGEST_EXPONENT = 709.0  # exp of more is infinite
_SOFTPLUS_LINEAR = 20.0  # beyond, PyTorch's softplus is the identity

add = named_operation("add", np.add, onnx="Add")
subtract = named_operation("subtract", np.subtract, onnx="Sub")
multiply = named_operation("multiply", np.multiply, onnx="Mul")
divide = named_operation("divide", np.divide, onnx="Div")
power = named_operation("power", np.power, onnx="Pow")
maximum = named_operation("maximum", np.maximum, onnx="Max")
minimum = named_operation("minimum", np.minimum, onnx="Min")
negative = named_operation("negative", np.negative, onnx="Neg")
absolute = named_operation("absolute", np.abs, onnx="Abs")
square_root = named_operation("square_root", np.sqrt, onnx="Sqrt")
exponential = named_operation("exponential", np.exp, onnx="Exp")
logarithm = named_operation("logarithm", np.log, onnx="Log")
sine = named_operation("sine", np.sin, onnx="Sin")
cosine = named_operation("cosine", np.cos)
tanh = named_operation("tanh", np.tanh, onnx="Tanh")
log1p = named_operation("log1p", np.log1p)
expm1 = named_operation("expm1", np.expm1)


@cosine.backend("onnx")
def _(g: Graph, x: str) -> str:
    """1 − 2 sin²(x / 2): before onnxruntime 1.29 the operator Cos knows float32 alone."""
    s = g.node("Sin", g.node("Mul", x, g.constant(0.5)))
    return g.node("Sub", g.constant(1.0), g.node("Mul", g.constant(2.0), g.node("Mul", s, s)))


@log1p.backend("onnx")
def _(g: Graph, s: str) -> str:
    """With u = 1 + s rounded, s log(u) / (u − 1) has full precision, also for small s (Kahan)."""
    one = g.constant(1.0)
    u = g.node("Add", s, one)
    exact = g.node("Div", g.node("Mul", s, g.node("Log", u)), g.node("Sub", u, one))
    return g.node("Where", g.node("Equal", u, one), s, exact)


@expm1.backend("onnx")
def _(g: Graph, x: str) -> str:
    """With u = exp(x) rounded, (u − 1) x / log(u) (Kahan); −1 where u is zero."""
    one, u = g.constant(1.0), g.node("Exp", x)
    less = g.node("Sub", u, one)
    exact = g.node("Div", g.node("Mul", less, x), g.node("Log", u))
    tiny = g.node("Less", u, g.constant(float(np.finfo(g.dtype).tiny)))
    return g.node("Where", g.node("Equal", u, one), x, g.node("Where", tiny, g.constant(-1.0), exact))


arcsine = named_operation("arcsine", np.arcsin)


@arcsine.backend("onnx")
def _(g: Graph, x: str) -> str:
    """In float64: t = arcsin in float32, then twice t + sin(arcsin(x) − t), the sine being x cos t − √(1 − x²) sin t."""
    if g.dtype == np.float32:
        return g.node("Asin", x)
    TensorProto = g.onnx.TensorProto
    t = g.node("Cast", g.node("Asin", g.node("Cast", x, to=TensorProto.FLOAT)), to=TensorProto.DOUBLE)
    one = g.constant(1.0)
    adjacent = g.node("Sqrt", g.node("Mul", g.node("Sub", one, x), g.node("Add", one, x)))
    for _ in range(2):
        gap = g.node("Sub", g.node("Mul", x, g.do(cosine, t)), g.node("Mul", adjacent, g.node("Sin", t)))
        t = g.node("Add", t, gap)
    return t


@operation
def scale_shift(A: np.ndarray, d: np.ndarray, e: np.ndarray) -> np.ndarray:
    """A d + e."""
    H = A * d
    return H + e


@scale_shift.backend("onnx")
def _(g: Graph, A: str, d: str, e: str) -> str:
    return g.node("Add", g.node("Mul", A, d), e)


@operation
def sigmoid(A: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(−a)), exact in both tails."""
    T = np.negative(A)
    np.minimum(T, _LARGEST_EXPONENT, out=T)
    np.exp(T, out=T)
    T += 1.0
    return np.reciprocal(T, out=T)


@sigmoid.backend("onnx")
def _(g: Graph, A: str) -> str:
    return g.node("Sigmoid", A)


@operation
def relu(A: np.ndarray) -> np.ndarray:
    """max(a, 0)."""
    return np.maximum(A, 0.0)


@relu.backend("onnx")
def _(g: Graph, A: str) -> str:
    return g.node("Relu", A)


@operation
def softplus(A: np.ndarray) -> np.ndarray:
    """log(1 + exp(a)), and a itself from 20 on, as in PyTorch."""
    return np.where(A > _SOFTPLUS_LINEAR, A, np.log1p(np.exp(np.minimum(A, _SOFTPLUS_LINEAR))))


@softplus.backend("onnx")
def _(g: Graph, A: str) -> str:
    edge = g.constant(_SOFTPLUS_LINEAR)
    curved = g.do(log1p, g.node("Exp", g.node("Min", A, edge)))
    return g.node("Where", g.node("Greater", A, edge), A, curved)


@operation
def silu(A: np.ndarray) -> np.ndarray:
    """a sigmoid(a)."""
    return A * sigmoid.numpy(A)


@silu.backend("onnx")
def _(g: Graph, A: str) -> str:
    """a / (1 + exp(−a)): before onnxruntime 1.31 a Sigmoid times its input becomes an operator that knows float32 alone."""
    return g.node("Div", A, g.node("Add", g.constant(1.0), g.node("Exp", g.node("Neg", A))))


@operation
def leaky_relu(A: np.ndarray, slope: float) -> np.ndarray:
    """a, and slope · a below zero."""
    return np.where(A > 0.0, A, slope * A)


@leaky_relu.backend("onnx")
def _(g: Graph, A: str, slope: float) -> str:
    # LeakyRelu's own slope is a float32
    return g.node("Where", g.node("Greater", A, g.constant(0.0)), A, g.node("Mul", A, g.constant(slope)))


@operation
def elu(A: np.ndarray, alpha: float) -> np.ndarray:
    """a, and alpha (exp(a) − 1) below zero."""
    return np.where(A > 0.0, A, alpha * np.expm1(np.minimum(A, 0.0)))


@elu.backend("onnx")
def _(g: Graph, A: str, alpha: float) -> str:
    zero = g.constant(0.0)
    curved = g.node("Mul", g.constant(alpha), g.do(expm1, g.node("Min", A, zero)))
    return g.node("Where", g.node("Greater", A, zero), A, curved)
