"""Kernels k on features H. ``k1 + k2`` and ``k1 * k2`` are kernels; ``dims`` restricts one to some features."""

from __future__ import annotations

from manifoldgp.errors import InputError
from manifoldgp.kernels._radial import squared_distances
from manifoldgp.kernels.additive import Additive, OrthogonalAdditive
from manifoldgp.kernels.kernel import Kernel, constant_diagonal, positive_parameter, spread, variance_parameter
from manifoldgp.kernels.linear import Constant, Linear
from manifoldgp.kernels.neural_network import NeuralNetwork
from manifoldgp.kernels.periodic import Periodic
from manifoldgp.kernels.rational_quadratic import RationalQuadratic
from manifoldgp.kernels.spectral_mixture import SpectralMixture
from manifoldgp.kernels.stationary import Matern12, Matern32, Matern52, SquaredExponential, Stationary
from manifoldgp.kernels.sums_and_products import Product, Sum
from manifoldgp.predictor.covariance import Covariance
from manifoldgp.registry import shorthands

__all__ = [
    "Additive",
    "Constant",
    "Covariance",
    "Kernel",
    "Linear",
    "Matern12",
    "Matern32",
    "Matern52",
    "NeuralNetwork",
    "OrthogonalAdditive",
    "Periodic",
    "Product",
    "RationalQuadratic",
    "SpectralMixture",
    "SquaredExponential",
    "Stationary",
    "Sum",
    "as_kernel",
    "constant_diagonal",
    "positive_parameter",
    "spread",
    "squared_distances",
    "variance_parameter",
]


def as_kernel(kernel: Kernel | str) -> Kernel:
    """The kernel itself, or the one a shorthand stands for.

    >>> as_kernel("linear")
    Linear(dims=None, ard=True, amplitude=False)
    """
    if isinstance(kernel, Kernel):
        return kernel
    known = shorthands(Kernel)
    if isinstance(kernel, str) and kernel in known:
        return known[kernel]()
    raise InputError(f"A kernel is expected, or one of the shorthands {', '.join(map(repr, known))}; got {kernel!r}.")
