"""Who may use the cores while a model trains or predicts.

PyTorch's OpenMP pool and the OpenBLAS pool that SciPy brings spin against each other: left alone, a fit can take 8x longer
without a line of code being wrong. So inside :func:`training_threads` PyTorch keeps to one thread, and the cores go either
to several batch members at once (worker threads, one BLAS thread each) or to one large factorisation (many BLAS threads).
A small prediction has nothing to divide, so inside :data:`SMALL_WORK` PyTorch keeps to one thread as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from typing import Any

from manifoldgp.allocation import kept_pages
from manifoldgp.thread_limits import BLAS, TORCH


class Workers:
    """Runs functions side by side on the cores, or, inside :func:`training_threads`, hands all cores to BLAS when there is just one thing to do."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._pool = ThreadPoolExecutor(count, initializer=TORCH.join) if count > 1 else None

    def map(self, function: Callable[[Any], Any], items: Sequence[Any], large: bool) -> list[Any]:
        """[function(item) for item in items], side by side; one item alone gets all cores for BLAS if it is large."""
        if self._pool is None or len(items) == 1:
            BLAS.use(self.count if large else 1)
            return [function(item) for item in items]
        BLAS.use(1)
        return list(self._pool.map(function, items))

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()


@contextmanager
def training_threads() -> Iterator[Workers]:
    """Workers for one fit, as many as PyTorch was allowed threads, and memory that stays; every setting is restored at the end."""
    with ExitStack() as settings:  # each is given back even if an interrupt comes while workers end
        count = TORCH.take(lasting=True)
        settings.callback(TORCH.give_back, lasting=True)
        BLAS.take()
        settings.callback(BLAS.give_back)
        workers = settings.enter_context(closing(Workers(count)))
        settings.enter_context(kept_pages())
        yield workers


class SmallWork:
    """``with SMALL_WORK``: PyTorch keeps to one thread. Each of many short steps would wait for all threads, which costs more than they save."""

    def __enter__(self) -> None:
        TORCH.take(lasting=False)

    def __exit__(self, *error: object) -> None:
        TORCH.give_back(lasting=False)


SMALL_WORK = SmallWork()
"""May be entered any number of times, by any thread; an object of its own for each prediction would take longer than entering it."""
