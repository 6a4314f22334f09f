"""Limits on the threads of PyTorch and BLAS that several Python threads hold together.

The limits belong to the whole process, and every fit and every prediction wants its own. If each saved and restored them for itself,
one that begins inside another would save the other's limit and, ending last, leave it behind. So those inside are counted: the first one
in remembers what was there, and the last one out gives it back.
"""

from __future__ import annotations

import threading
from typing import Any

import torch
from threadpoolctl import ThreadpoolController


class _Mine(threading.local):
    """Of one Python thread: how often it has come in, and how many threads PyTorch may use in it outside."""

    depth = 0
    allowed = 1


class TorchLimit:
    """PyTorch keeps to one thread in every Python thread that is inside.

    PyTorch has a number of threads for each Python thread, one for those that will use it for the first time, and one for MKL;
    ``torch.set_num_threads`` sets the caller's and the other two.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = self._lasting = self._allowed = 0
        self._mine = _Mine()

    def needless(self) -> bool:
        """Whether this Python thread has one thread of PyTorch anyway, and nobody's limit is the reason."""
        return self._inside == 0 and torch.get_num_threads() == 1

    def take(self, lasting: bool) -> int:
        """Come in; how many threads PyTorch was allowed. lasting: for long enough to matter to others who leave earlier."""
        mine = self._mine
        mine.depth += 1
        with self._lock:
            self._lasting += lasting
            if mine.depth > 1:
                return 1
            allowed = torch.get_num_threads()
            if self._inside == 0:
                self._allowed = allowed
            elif allowed == 1:  # the limit itself, met by a thread that uses PyTorch for the first time
                allowed = self._allowed
            self._inside += 1
            mine.allowed = allowed
            torch.set_num_threads(1)
            return allowed

    def give_back(self, lasting: bool) -> None:
        """Leave, as often as one came in, in the same Python thread."""
        mine = self._mine
        mine.depth -= 1
        with self._lock:
            self._lasting -= lasting
            if mine.depth:
                return
            self._inside -= 1
            torch.set_num_threads(mine.allowed)
            if self._lasting:  # of the three numbers, those that are not this thread's own stay low
                limiting = threading.Thread(target=torch.set_num_threads, args=(1,))
                limiting.start()
                limiting.join()

    def join(self) -> None:
        """Called in a thread that works for one who is inside, and that ends before."""
        self._mine.depth = 1
        torch.set_num_threads(1)


class BlasLimit:
    """The number of threads of every BLAS that the process has loaded."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = self._count = 0
        self._before: dict[str, tuple[Any, int]] = {}

    def take(self) -> None:
        """Come in; one thread each, until somebody inside says otherwise."""
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
        """Leave, as often as one came in."""
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


def _set_threads(library: Any, count: int) -> None:
    """Newer versions of threadpoolctl let the Python thread that has set a limit first change it, and pass over others in silence."""
    release = getattr(library, "clear_controlling_thread", lambda force: None)
    release(force=True)
    library.set_num_threads(count)
    release(force=True)


TORCH, BLAS = TorchLimit(), BlasLimit()
"""Those of this process."""
