"""The Cholesky routines of the LAPACK that SciPy brings, called so that other Python threads go on meanwhile.

SciPy's own wrappers keep Python's lock during the call, so that members of a batch could not be factored side by side. The same compiled routines
are published for Cython (scipy.linalg.cython_lapack, cython_blas); called through ctypes they run without the lock.

All work in place on C-contiguous float64 matrices, of which only the lower triangle counts: the transpose of a row-major matrix is
column-major, so LAPACK's "upper" U = Lᵀ is our "lower".
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from scipy.linalg import cython_blas, cython_lapack  # pyright: ignore[reportAttributeAccessIssue]

_HALVE_ABOVE, _HALVE_BELOW = 64, 1000
"""Triangles between these sizes are inverted by halves: measured 1.3 to 2 times faster than LAPACK's own routine; beyond, as fast."""


def _letter(letter: bytes) -> Any:
    return ctypes.byref(ctypes.c_char(letter))


_UPPER, _PLAIN, _LEFT, _RIGHT = (_letter(letter) for letter in (b"U", b"N", b"L", b"R"))
_ONE, _PLUS, _MINUS = ctypes.byref(ctypes.c_int(1)), ctypes.byref(ctypes.c_double(1.0)), ctypes.byref(ctypes.c_double(-1.0))
_ZERO = ctypes.byref(ctypes.c_double(0.0))


def _routine(module: Any, name: str, arguments: int):
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


def potrf(A: np.ndarray) -> int:
    """Overwrite A's lower triangle by its Cholesky factor; a positive answer means that there is none."""
    if not A.flags.c_contiguous:
        raise ValueError(f"potrf works in place on a C-contiguous matrix; this one has strides {A.strides}.")
    size, info = ctypes.byref(ctypes.c_int(len(A))), ctypes.c_int(0)
    _DPOTRF(_UPPER, size, A.ctypes.data, size, ctypes.byref(info))
    return info.value


def potrs(L: np.ndarray, b: np.ndarray) -> None:
    """Overwrite the vector b by (L Lᵀ)⁻¹ b, for the factor L that :func:`potrf` left."""
    size, info = ctypes.byref(ctypes.c_int(len(L))), ctypes.byref(ctypes.c_int(0))
    _DPOTRS(_UPPER, size, _ONE, L.ctypes.data, size, b.ctypes.data, size, info)


def potri(L: np.ndarray) -> None:
    """Overwrite the factor L that :func:`potrf` left by the lower triangle of (L Lᵀ)⁻¹."""
    size, info = ctypes.byref(ctypes.c_int(len(L))), ctypes.byref(ctypes.c_int(0))
    if not _HALVE_ABOVE < len(L) < _HALVE_BELOW:
        _DPOTRI(_UPPER, size, L.ctypes.data, size, info)
        return
    _invert_triangle(L.ctypes.data, len(L), len(L))
    _DLAUUM(_UPPER, size, L.ctypes.data, size, info)


def syr(A: np.ndarray, x: np.ndarray) -> None:
    """Subtract x xᵀ from A's lower triangle."""
    size = ctypes.byref(ctypes.c_int(len(A)))
    _DSYR(_UPPER, size, _MINUS, x.ctypes.data, _ONE, A.ctypes.data, size)


def symm(A: np.ndarray, B: np.ndarray, out: np.ndarray) -> None:
    """Overwrite ``out`` (k, N) by B A, for B (k, N) and the symmetric A (N, N), of which the lower triangle is read."""
    size, count = ctypes.byref(ctypes.c_int(len(A))), ctypes.byref(ctypes.c_int(len(B)))
    _DSYMM(_LEFT, _UPPER, size, count, _PLUS, A.ctypes.data, size, B.ctypes.data, size, _ZERO, out.ctypes.data, size)


def _invert_triangle(address: int, n: int, stride: int) -> None:
    """Overwrite the upper triangle U (n, n), column-major, by its inverse.

        U = [U1 B; 0 U2],   U⁻¹ = [U1⁻¹  −U1⁻¹ B U2⁻¹; 0  U2⁻¹]

    Halving turns most of the work into matrix products, which run at several times the speed of the inversion of small triangles.
    """
    step = ctypes.byref(ctypes.c_int(stride))
    if n <= _HALVE_ABOVE:
        _DTRTRI(_UPPER, _PLAIN, ctypes.byref(ctypes.c_int(n)), address, step, ctypes.byref(ctypes.c_int(0)))
        return
    h = (n // 2 + 7) // 8 * 8
    corner, below = address + 8 * h * stride, address + 8 * h * (stride + 1)
    _invert_triangle(address, h, stride)
    _invert_triangle(below, n - h, stride)
    rows, columns = ctypes.byref(ctypes.c_int(h)), ctypes.byref(ctypes.c_int(n - h))
    _DTRMM(_LEFT, _UPPER, _PLAIN, _PLAIN, rows, columns, _MINUS, address, step, corner, step)
    _DTRMM(_RIGHT, _UPPER, _PLAIN, _PLAIN, rows, columns, _PLUS, below, step, corner, step)
