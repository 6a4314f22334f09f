"""The Cholesky routines of the LAPACK that SciPy brings, called so that other Python threads go on meanwhile.

SciPy's own wrappers keep Python's lock during the call, so that members of a batch could not be factored side by side. The same compiled routines
are published for Cython (scipy.linalg.cython_lapack, cython_blas); called through ctypes they run without the lock.

All work in place on C-contiguous float64 matrices, of which only the lower triangle counts: the transpose of a row-major matrix is
column-major, so LAPACK's "upper" U = Lᵀ is our "lower".
"""

from __future__ import annotations

import ctypes
import functools
from types import ModuleType
from typing import Any

import numpy as np
from scipy.linalg import cython_blas, cython_lapack  # pyright: ignore[reportAttributeAccessIssue]

_HALVE_ABOVE, _HALVE_BELOW = 64, 1000
"""Triangles between these sizes are inverted by halves: measured 1.3 to 2 times faster than LAPACK's own routine; beyond, as fast."""


def _letter(letter: bytes) -> Any:
    return ctypes.byref(ctypes.c_char(letter))


@functools.cache
def _integer(value: int) -> Any:
    return ctypes.byref(ctypes.c_int(value))


_UPPER, _PLAIN, _LEFT, _RIGHT = (_letter(letter) for letter in (b"U", b"N", b"L", b"R"))
_ONE, _PLUS, _MINUS = _integer(1), ctypes.byref(ctypes.c_double(1.0)), ctypes.byref(ctypes.c_double(-1.0))
_ZERO = ctypes.byref(ctypes.c_double(0.0))


def _routine(module: ModuleType, name: str, arguments: int):
    """The compiled routine as a function of ``arguments`` pointers."""
    capsule = module.__pyx_capi__[name]
    signature = ctypes.pythonapi.PyCapsule_GetName
    signature.restype, signature.argtypes = ctypes.c_char_p, [ctypes.py_object]
    address = ctypes.pythonapi.PyCapsule_GetPointer
    address.restype, address.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * arguments)(address(capsule, signature(capsule)))


_DPOTRF, _DPOTRS, _DPOTRI = (_routine(cython_lapack, *r) for r in (("dpotrf", 5), ("dpotrs", 8), ("dpotri", 5)))
_DTRTRI, _DLAUUM = (_routine(cython_lapack, *r) for r in (("dtrtri", 6), ("dlauum", 5)))
_DTRMM, _DSYR, _DSYMM = (_routine(cython_blas, *r) for r in (("dtrmm", 11), ("dsyr", 7), ("dsymm", 12)))


class Square:
    """Where a C-contiguous float64 matrix (n, n) is. Made once for a matrix that is worked on again and again: looking it up costs as much
    as a short routine."""

    __slots__ = ("_array", "address", "n", "order")

    def __init__(self, A: np.ndarray) -> None:
        if not A.flags.c_contiguous:
            raise ValueError(f"LAPACK works in place on a C-contiguous matrix; this one has strides {A.strides}.")
        self.address, self.n, self.order = A.ctypes.data, len(A), _integer(len(A))
        self._array = A  # keeps the memory


def potrf(A: Square) -> int:
    """Overwrite A's lower triangle by its Cholesky factor; a positive answer means that there is none."""
    info = ctypes.c_int(0)
    _DPOTRF(_UPPER, A.order, A.address, A.order, ctypes.byref(info))
    return info.value


def potrs(L: Square, b: int) -> None:
    """Overwrite the vector at the address b by (L Lᵀ)⁻¹ b, for the factor L that :func:`potrf` left."""
    _DPOTRS(_UPPER, L.order, _ONE, L.address, L.order, b, L.order, ctypes.byref(ctypes.c_int(0)))


def potri(L: Square) -> None:
    """Overwrite the factor L that :func:`potrf` left by the lower triangle of (L Lᵀ)⁻¹."""
    info = ctypes.byref(ctypes.c_int(0))
    if not _HALVE_ABOVE < L.n < _HALVE_BELOW:
        _DPOTRI(_UPPER, L.order, L.address, L.order, info)
        return
    _invert_triangle(L.address, L.n, L.n)
    _DLAUUM(_UPPER, L.order, L.address, L.order, info)


def syr(A: Square, x: int) -> None:
    """Subtract x xᵀ, for the vector at the address x, from A's lower triangle."""
    _DSYR(_UPPER, A.order, _MINUS, x, _ONE, A.address, A.order)


def symm(A: Square, B: int, out: int, count: int) -> None:
    """Overwrite the matrix (count, n) at the address ``out`` by B A, for B (count, n) and the symmetric A, of which the lower triangle is read."""
    _DSYMM(_LEFT, _UPPER, A.order, _integer(count), _PLUS, A.address, A.order, B, A.order, _ZERO, out, A.order)


def _invert_triangle(address: int, n: int, stride: int) -> None:
    """Overwrite the upper triangle U (n, n), column-major, by its inverse.

        U = [U1 B; 0 U2],   U⁻¹ = [U1⁻¹  −U1⁻¹ B U2⁻¹; 0  U2⁻¹]

    Halving turns most of the work into matrix products, which run at several times the speed of the inversion of small triangles.
    """
    step = _integer(stride)
    if n <= _HALVE_ABOVE:
        _DTRTRI(_UPPER, _PLAIN, _integer(n), address, step, ctypes.byref(ctypes.c_int(0)))
        return
    h = (n // 2 + 7) // 8 * 8
    corner, below = address + 8 * h * stride, address + 8 * h * (stride + 1)
    _invert_triangle(address, h, stride)
    _invert_triangle(below, n - h, stride)
    rows, columns = _integer(h), _integer(n - h)
    _DTRMM(_LEFT, _UPPER, _PLAIN, _PLAIN, rows, columns, _MINUS, address, step, corner, step)
    _DTRMM(_RIGHT, _UPPER, _PLAIN, _PLAIN, rows, columns, _PLUS, below, step, corner, step)
