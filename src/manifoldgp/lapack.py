"""The Cholesky routines of the LAPACK that SciPy brings, called so that other Python threads go on meanwhile.

SciPy's own wrappers keep Python's lock during the call, so that members of a batch could not be factored side by side. The same compiled routines
are published for Cython (scipy.linalg.cython_lapack); called through ctypes they run without the lock.

All work in place on C-contiguous float64 matrices, of which only the lower triangle counts: the transpose of a row-major matrix is
column-major, so LAPACK's "upper" is our "lower".
"""

from __future__ import annotations

import ctypes

import numpy as np
from scipy.linalg import cython_lapack  # pyright: ignore[reportAttributeAccessIssue]

_UPPER, _ONE = ctypes.c_char(b"U"), ctypes.c_int(1)


def _routine(name: str, arguments: int):
    """The compiled routine as a function of ``arguments`` pointers."""
    capsule = cython_lapack.__pyx_capi__[name]
    signature = ctypes.pythonapi.PyCapsule_GetName
    signature.restype, signature.argtypes = ctypes.c_char_p, [ctypes.py_object]
    address = ctypes.pythonapi.PyCapsule_GetPointer
    address.restype, address.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * arguments)(address(capsule, signature(capsule)))


_DPOTRF, _DPOTRS, _DPOTRI = _routine("dpotrf", 5), _routine("dpotrs", 8), _routine("dpotri", 5)


def potrf(A: np.ndarray) -> int:
    """Overwrite A's lower triangle by its Cholesky factor; a positive answer means that there is none."""
    if not A.flags.c_contiguous:
        raise ValueError(f"potrf works in place on a C-contiguous matrix; this one has strides {A.strides}.")
    n, info = ctypes.c_int(len(A)), ctypes.c_int(0)
    _DPOTRF(ctypes.byref(_UPPER), ctypes.byref(n), A.ctypes.data, ctypes.byref(n), ctypes.byref(info))
    return info.value


def potrs(L: np.ndarray, b: np.ndarray) -> None:
    """Overwrite the vector b by (L Lᵀ)⁻¹ b, for the factor L that :func:`potrf` left."""
    n, info = ctypes.c_int(len(L)), ctypes.c_int(0)
    size = ctypes.byref(n)
    _DPOTRS(ctypes.byref(_UPPER), size, ctypes.byref(_ONE), L.ctypes.data, size, b.ctypes.data, size, ctypes.byref(info))


def potri(L: np.ndarray) -> None:
    """Overwrite the factor L that :func:`potrf` left by the lower triangle of (L Lᵀ)⁻¹."""
    n, info = ctypes.c_int(len(L)), ctypes.c_int(0)
    _DPOTRI(ctypes.byref(_UPPER), ctypes.byref(n), L.ctypes.data, ctypes.byref(n), ctypes.byref(info))
