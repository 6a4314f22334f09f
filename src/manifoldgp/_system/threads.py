"""Who may use the cores during a fit or a prediction, limits that several Python threads hold together, and freed memory that stays for the next evaluation."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from typing import TypeVar

import torch
from threadpoolctl import LibController, ThreadpoolController

Item = TypeVar("Item")
Result = TypeVar("Result")

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # glibc's names: M_TRIM_THRESHOLD, M_MMAP_THRESHOLD
_KEEP = 2**31 - 1
_LARGEST_BLOCK = 2**30
_USUAL_BLOCK = 2**22  # blocks from here on go straight back to the operating system

_lock = threading.Lock()
_inside = 0


def _glibc() -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL(None)
    except (OSError, TypeError):
        return None
    if not all(hasattr(library, name) for name in ("mallopt", "malloc_trim", "gnu_get_libc_version")):
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


class _Mine(threading.local):
    """What the limit knows of one Python thread: whether it was ever inside, how many times it is now, and how many threads PyTorch had in it before."""

    known = False
    depth = 0
    allowed = 1


def _in_a_new_thread(function: Callable[..., Result], *arguments: object) -> Result:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function, *arguments).result()


def _of_the_process() -> int:
    """How many threads PyTorch has in a new Python thread; one where Python is about to end and begins none."""
    try:
        return _in_a_new_thread(torch.get_num_threads)
    except RuntimeError:
        return 1


class TorchLimit:
    """PyTorch keeps to one thread in every Python thread that is inside.

    PyTorch has a number of threads for each Python thread, one for those that will use it for the first time, and one for MKL;
    ``torch.set_num_threads`` sets the caller's and the other two. A thread that uses PyTorch for the first time while another is inside
    takes the limit for its own number, so the number of a thread that was never inside is doubted.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = self._lasting = self._allowed = 0
        self._mine = _Mine()

    def needless(self) -> bool:
        """Whether this Python thread has one thread of PyTorch anyway."""
        return self._mine.known and torch.get_num_threads() == 1

    def take(self, lasting: bool) -> int:
        """Enter the limit; returns how many threads PyTorch was allowed before.

        lasting: the caller stays long (a fit, not a prediction), so that whoever leaves earlier must not lift the limit for it.
        """
        mine = self._mine
        mine.depth += 1
        with self._lock:
            self._lasting += lasting
            if mine.depth > 1:
                return 1
            allowed = torch.get_num_threads()
            if allowed == 1 and not mine.known:
                allowed = self._allowed if self._inside else _of_the_process()
            if self._inside == 0:
                self._allowed = allowed
            self._inside += 1
            mine.known, mine.allowed = True, allowed
            torch.set_num_threads(1)
            return allowed

    def give_back(self, lasting: bool) -> None:
        """Leave the limit, once for each :meth:`take`, in the same Python thread."""
        mine = self._mine
        mine.depth -= 1
        with self._lock:
            self._lasting -= lasting
            if mine.depth:
                return
            self._inside -= 1
            torch.set_num_threads(mine.allowed)
            if self._lasting:  # of the three numbers, those that are not this thread's own stay low
                _in_a_new_thread(torch.set_num_threads, 1)

    def join(self) -> None:
        """Put a worker thread of a fit under the limit; it ends before the fit does, and restores nothing."""
        self._mine.depth = 1
        torch.set_num_threads(1)


class BlasLimit:
    """The number of threads of every BLAS that the process has loaded."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = self._count = 0
        self._before: dict[str, tuple[LibController, int]] = {}

    def take(self) -> None:
        """Enter: every BLAS keeps to one thread, until :meth:`use` says otherwise."""
        with self._lock:
            for library in ThreadpoolController().lib_controllers:
                if library.user_api == "blas" and library.filepath not in self._before:
                    self._before[library.filepath] = (library, library.get_num_threads())
            self._inside += 1
            self._set(1)

    def use(self, count: int) -> None:
        """This many threads from now on, for all that are inside; nothing where nobody is."""
        if count != self._count and self._inside:
            with self._lock:
                self._set(count)

    def give_back(self) -> None:
        """Leave, once for each :meth:`take`; the last one out restores what was."""
        with self._lock:
            self._inside -= 1
            if self._inside:
                return
            for library, before in self._before.values():
                _set_threads(library, before)
            self._before.clear()
            self._count = 0

    def _set(self, count: int) -> None:
        for library, _ in self._before.values():
            _set_threads(library, count)
        self._count = count


def _set_threads(library: LibController, count: int) -> None:
    """Newer versions of threadpoolctl let the Python thread that has set a limit first change it, and pass over others in silence."""
    release = getattr(library, "clear_controlling_thread", lambda force: None)
    release(force=True)
    library.set_num_threads(count)
    release(force=True)


TORCH, BLAS = TorchLimit(), BlasLimit()
"""Those of this process."""


class Workers:
    """Runs functions side by side on the cores, or, inside :func:`training_threads`, hands all cores to BLAS when there is just one thing to do."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._pool = ThreadPoolExecutor(count, initializer=TORCH.join) if count > 1 else None

    def map(self, function: Callable[[Item], Result], items: Sequence[Item], large: bool) -> list[Result]:
        """[function(item) for item in items], side by side; one item alone gets all cores for BLAS if it is large."""
        if self._pool is None or len(items) == 1:
            BLAS.use(self.count if large else 1)
            return [function(item) for item in items]
        BLAS.use(1)
        return list(self._pool.map(function, items))

    def begin(self, function: Callable[[Item], Result], items: Sequence[Item]) -> list[Future[Result]]:
        """Futures of function(item) for the items, side by side with the caller; for several workers only."""
        assert self._pool is not None
        BLAS.use(1)
        return [self._pool.submit(function, item) for item in items]

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


ROWS_WORTH_THREADS = 1500
"""Rows of a model from which on the threads of PyTorch and BLAS share a product of its training."""

ROWS_WORTH_WAITING = 3000
"""Rows of a model from which on they do when it is looked at: there products are shorter, and on a busy machine threads wait for each other at 2,500 rows for three times as long as they work."""


@contextmanager
def threads_for(rows: int) -> Iterator[None]:
    """What looks at a model of few rows keeps to one thread: on a busy machine those of many short products wait for each other most of the time."""
    if rows >= ROWS_WORTH_WAITING:
        yield
        return
    with one_thread():
        yield


@contextmanager
def one_thread() -> Iterator[None]:
    """PyTorch and BLAS keep to one thread."""
    with SMALL_WORK:
        BLAS.take()
        try:
            yield
        finally:
            BLAS.give_back()


class SmallWork:
    """``with SMALL_WORK``: PyTorch keeps to one thread. Each of many short steps would wait for all threads, which costs more than they save."""

    def __enter__(self) -> None:
        TORCH.take(lasting=False)

    def __exit__(self, *error: object) -> None:
        TORCH.give_back(lasting=False)


SMALL_WORK = SmallWork()
"""May be entered any number of times, by any thread; an object of its own for each prediction would take longer than entering it."""
