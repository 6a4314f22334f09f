"""Kernels k on features H. ``k1 + k2`` and ``k1 * k2`` are kernels; ``dims`` restricts one to some features."""

from __future__ import annotations

from manifoldgp.errors import InputError
from manifoldgp.kernels._abstract import Kernel
from manifoldgp.kernels.combine import Product, Sum
from manifoldgp.kernels.linear import Constant, Linear
from manifoldgp.kernels.neural_network import NeuralNetwork
from manifoldgp.kernels.periodic import Periodic
from manifoldgp.kernels.rational_quadratic import RationalQuadratic
from manifoldgp.kernels.spectral_mixture import SpectralMixture
from manifoldgp.kernels.stationary import Matern12, Matern32, Matern52, SquaredExponential

__all__ = [
    "Constant",
    "Kernel",
    "Linear",
    "Matern12",
    "Matern32",
    "Matern52",
    "NeuralNetwork",
    "Periodic",
    "Product",
    "RationalQuadratic",
    "SpectralMixture",
    "SquaredExponential",
    "Sum",
    "as_kernel",
]

_SHORTHANDS: dict[str, type[Kernel]] = {
    "se": SquaredExponential,
    "nn": NeuralNetwork,
    "matern12": Matern12,
    "matern32": Matern32,
    "matern52": Matern52,
    "rq": RationalQuadratic,
    "periodic": Periodic,
    "sm": SpectralMixture,
    "linear": Linear,
}


def as_kernel(kernel: Kernel | str) -> Kernel:
    """The kernel itself, or the one a shorthand stands for.

    >>> as_kernel("linear")
    Linear(dims=None, ard=True, amplitude=False)
    """
    if isinstance(kernel, Kernel):
        return kernel
    if isinstance(kernel, str) and kernel in _SHORTHANDS:
        return _SHORTHANDS[kernel]()
    known = ", ".join(map(repr, _SHORTHANDS))
    raise InputError(f"A kernel is expected, or one of the shorthands {known}; got {kernel!r}.")
