"""Who may use the cores while a model trains.

PyTorch's OpenMP pool and the OpenBLAS pool that SciPy brings spin against each other: left alone, a fit can take 8x longer
without a line of code being wrong. So inside :func:`training_threads` PyTorch keeps to one thread, and the cores go either
to several batch members at once (worker threads, one BLAS thread each) or to one large factorisation (many BLAS threads).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import torch
from threadpoolctl import ThreadpoolController

from manifoldgp.allocation import kept_pages


class Workers:
    """Runs functions side by side on the cores, or hands all cores to BLAS when there is just one thing to do."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._pool = ThreadPoolExecutor(count) if count > 1 else None
        self._blas = [lib for lib in ThreadpoolController().lib_controllers if lib.user_api == "blas"]
        self._before = [lib.get_num_threads() for lib in self._blas]
        self._threads = 0
        self.blas_threads(1)

    def blas_threads(self, count: int) -> None:
        """Let BLAS use this many threads from now on."""
        if count != self._threads:
            for lib in self._blas:
                lib.set_num_threads(count)
            self._threads = count

    def map(self, function: Callable[[Any], Any], items: Sequence[Any], large: bool) -> list[Any]:
        """[function(item) for item in items], side by side; one item alone gets all cores for BLAS if it is large."""
        if self._pool is None or len(items) == 1:
            self.blas_threads(self.count if large else 1)
            return [function(item) for item in items]
        self.blas_threads(1)
        return list(self._pool.map(function, items))

    def close(self) -> None:
        for lib, threads in zip(self._blas, self._before, strict=True):
            lib.set_num_threads(threads)
        if self._pool is not None:
            self._pool.shutdown()


@contextmanager
def training_threads() -> Iterator[Workers]:
    """Workers for one fit, as many as PyTorch was allowed threads, and memory that stays; every setting is restored at the end."""
    allowed = torch.get_num_threads()
    workers = Workers(allowed)
    torch.set_num_threads(1)
    try:
        with kept_pages():
            yield workers
    finally:
        torch.set_num_threads(allowed)
        workers.close()
