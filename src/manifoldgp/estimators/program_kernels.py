"""One translation for each class of kernels. Training features H (R, N, Q) are constants; new ones come as rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from manifoldgp import kernels
from manifoldgp.errors import InputError
from manifoldgp.estimators.program_covariance import Covariance, Diagonal
from manifoldgp.estimators.program_rows import Rows
from manifoldgp.parameters import Tree

LARGEST_NORM = 1e2
"""Squared norms up to which |z|² + |t|² − 2 z·t is exact enough: its error is about 2e-16 of them."""

_ONE, _ZERO = np.ones(1), np.zeros(1)


def covariance(description: kernels.Kernel, values: Tree, H: np.ndarray, new: Rows) -> Covariance:
    """K(new, H) and k(new, new)."""
    translate = _TRANSLATIONS.get(type(description))
    if translate is None:
        raise InputError(
            f"A predictor cannot express the kernel {description!r}. Use one of this package, or predict with the model itself."
        )
    chosen = H if description.dims is None else H[..., list(description.dims)]
    return translate(description, values, chosen, new.columns(description.dims))


def _radial(operation: str, r2: float) -> Callable[[Any, Tree, np.ndarray, Rows], Covariance]:
    """A function of s = r2 |h − h'|² / lengthscale²."""

    def translate(description: Any, values: Tree, H: np.ndarray, new: Rows) -> Covariance:
        lengthscale = values["lengthscale"] if description.scaled else np.ones((1, 1))
        return _of_distance(operation, math.sqrt(r2) / lengthscale, values, H, new)

    return translate


def _rational_quadratic(description: Any, values: Tree, H: np.ndarray, new: Rows) -> Covariance:
    shape = values["shape"]
    scale = 1.0 / (values["lengthscale"] * np.sqrt(2 * shape)[:, None])
    return _of_distance("rational_quadratic", scale, values, H, new, new.writer.constant(shape[:, None, None]))


def _periodic(description: Any, values: Tree, H: np.ndarray, new: Rows) -> Covariance:
    speed = np.broadcast_to(2 * math.pi / values["period"], (len(values["period"]), H.shape[-1]))
    phase = H * speed[:, None, :]
    around = np.concatenate([np.cos(phase), np.sin(phase)], -1)
    lengthscale = np.broadcast_to(values["lengthscale"], (len(values["lengthscale"]), H.shape[-1]))
    scale = math.sqrt(0.5) / np.concatenate([lengthscale, lengthscale], -1)
    new = new.scaled(speed).through("circle", width=2 * H.shape[-1])
    return _of_distance("squared_exponential", scale, values, around, new)


def _neural_network(description: Any, values: Tree, H: np.ndarray, new: Rows) -> Covariance:
    root = np.broadcast_to(np.sqrt(values["weights"]), (len(values["weights"]), H.shape[-1]))
    A, bias = H * root[:, None, :], values["bias"][:, None]
    U = np.ascontiguousarray(np.swapaxes(A / np.sqrt(1 + bias + (A * A).sum(-1))[..., None], -1, -2))
    u = bias[..., None] / np.sqrt(1 + bias + (A * A).sum(-1))[:, None, :]
    writer, rows = new.writer, new.scaled(root).slot()
    one_plus_bias = writer.constant(1 + bias)
    K = writer.do("neural_network", rows, writer.constant(U), writer.constant(u), one_plus_bias)
    diagonal = writer.do("neural_network_diagonal", rows, one_plus_bias)
    variance = values.get("variance", _ONE)
    return Covariance(K, variance, Diagonal(diagonal, variance, _ZERO))


def _spectral_mixture(description: Any, values: Tree, H: np.ndarray, new: Rows) -> Covariance:
    centre, Q = H.mean(-2), H.shape[-1]
    M = values["weights"].shape[-1]
    width = math.sqrt(0.5) * 2 * math.pi * np.broadcast_to(values["bandwidth"], (len(values["bandwidth"]), M, Q))
    speed = 2 * math.pi * np.broadcast_to(values["frequency"], (len(values["frequency"]), M, Q))
    T = np.ascontiguousarray(np.swapaxes((H - centre[:, None, :])[:, None], -1, -2))  # (R, 1, Q, N)
    scaled, phase = T * width[..., None], T * speed[..., None]
    norms = (scaled**2).sum(-2, keepdims=True)
    arrays = (
        width[..., None, :], speed[..., None, :], scaled, norms, np.cos(phase), np.sin(phase),
        values["weights"][..., None, None],
    )  # fmt: skip
    writer = new.writer
    constants = [writer.constant(array) for array in arrays]
    rows = new.shifted(-centre).slot()
    K = writer.do("spectral_mixture", rows, *constants, expand=bool(norms.max() <= LARGEST_NORM))
    variance = values.get("variance", _ONE)
    return Covariance(K, variance, Diagonal(None, _ZERO, variance * values["weights"].sum(-1)))


def _linear(description: Any, values: Tree, H: np.ndarray, new: Rows) -> Covariance:
    weights = np.broadcast_to(values["weights"], (len(values["weights"]), H.shape[-1]))
    rows = Rows.of(new.writer, new.scaled(np.sqrt(weights)).slot(), new.width)
    K = rows.times(np.ascontiguousarray(np.swapaxes(H * np.sqrt(weights)[:, None, :], -1, -2))).slot()
    variance = values.get("variance", _ONE)
    return Covariance(K, variance, Diagonal(new.writer.do("square_sum", rows.slot()), variance, _ZERO))


def _constant(description: Any, values: Tree, H: np.ndarray, new: Rows) -> Covariance:
    K = new.writer.do("constant_covariance", 0, new.writer.constant(np.ones((1, 1, H.shape[-2]))))
    variance = values.get("variance", _ONE)
    return Covariance(K, variance, Diagonal(None, _ZERO, variance))


def _sum(description: Any, values: Tree, H: np.ndarray, new: Rows) -> Covariance:
    return reduce(lambda a, b: a.plus(b, new.writer), _parts(description, values, H, new))


def _product(description: Any, values: Tree, H: np.ndarray, new: Rows) -> Covariance:
    return reduce(lambda a, b: a.times(b, new.writer), _parts(description, values, H, new))


def _parts(description: Any, values: Tree, H: np.ndarray, new: Rows) -> list[Covariance]:
    return [covariance(part, values.get(str(i), {}), H, new) for i, part in enumerate(description.parts)]


def _of_distance(operation: str, scale: np.ndarray, values: Tree, H: np.ndarray, new: Rows, *more: int) -> Covariance:
    """A function of |z − t|², Z = new · scale and T = H · scale, both less the mean of T; scale (R, Q) or (R, 1)."""
    writer, scale = new.writer, np.broadcast_to(scale, (len(scale), H.shape[-1]))
    T = H * scale[:, None, :]
    centre = T.mean(-2)
    T = np.ascontiguousarray(np.swapaxes(T - centre[:, None, :], -1, -2))
    norms = (T * T).sum(-2, keepdims=True)
    # Matérn 1/2 has a kink at zero, where rounding of s would show as √s.
    expand = operation != "matern12" and bool(norms.max() <= LARGEST_NORM)
    rows = new.scaled(scale).shifted(-centre).slot()
    K = writer.do(operation, rows, writer.constant(T), writer.constant(norms), *more, expand=expand)
    variance = values.get("variance", _ONE)
    return Covariance(K, variance, Diagonal(None, _ZERO, variance))


_TRANSLATIONS: dict[type, Callable[[Any, Tree, np.ndarray, Rows], Covariance]] = {
    kernels.SquaredExponential: _radial("squared_exponential", 0.5),
    kernels.Matern12: _radial("matern12", 1.0),
    kernels.Matern32: _radial("matern32", 3.0),
    kernels.Matern52: _radial("matern52", 5.0),
    kernels.RationalQuadratic: _rational_quadratic,
    kernels.Periodic: _periodic,
    kernels.NeuralNetwork: _neural_network,
    kernels.SpectralMixture: _spectral_mixture,
    kernels.Linear: _linear,
    kernels.Constant: _constant,
    kernels.Sum: _sum,
    kernels.Product: _product,
}
