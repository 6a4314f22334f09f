"""Memory that is used again instead of being fetched anew.

Every evaluation of a fit needs the same few N x N matrices. By default glibc gives large freed blocks back to the operating system at once, and
each new one arrives as pages that must be zeroed: measured, that costs as much as a third of an evaluation at N = 1000 and half of one at N = 100.
Inside :func:`kept_pages` freed blocks stay with the process; at the end they are given back. Elsewhere than glibc nothing happens.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # glibc's names: M_TRIM_THRESHOLD, M_MMAP_THRESHOLD
_KEEP = 2**31 - 1
_LARGEST_BLOCK = 2**30
_USUAL_BLOCK = 2**22  # blocks from here on go straight back to the operating system

_lock = threading.Lock()
_inside = 0


def _glibc() -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL(None)
        library.mallopt, library.malloc_trim, library.gnu_get_libc_version  # noqa: B018 (is it glibc?)
    except (OSError, AttributeError, TypeError):
        return None
    library.malloc_trim.argtypes = [ctypes.c_size_t]
    return library


_LIBC = _glibc()


@contextmanager
def kept_pages() -> Iterator[None]:
    """Keep freed memory for the next allocation; several threads may be inside, the last one out gives it back."""
    global _inside
    with _lock:
        _inside += 1
        if _inside == 1 and _LIBC is not None:
            _LIBC.mallopt(_MMAP_THRESHOLD, _LARGEST_BLOCK)
            _LIBC.mallopt(_TRIM_THRESHOLD, _KEEP)
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0 and _LIBC is not None:
                _LIBC.mallopt(_MMAP_THRESHOLD, _USUAL_BLOCK)
                _LIBC.mallopt(_TRIM_THRESHOLD, 2 * _USUAL_BLOCK)
                _LIBC.malloc_trim(0)
