"""The wish to stop, from outside: Ctrl-C, SIGTERM (kill, a scheduler) and SIGHUP (a terminal that is closed)."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import Any

_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]  # no SIGHUP on Windows
_STREAMS = (1, 2)

_AGAIN = " Ctrl-C again ends at once."


class Interruption:
    """Listens to signals inside its ``with``.

    Work that can end early and in good order sets ``listening`` and looks at ``wanted`` now and then. When nobody listens, the first signal
    raises KeyboardInterrupt; a later Ctrl-C always does. A later SIGTERM or SIGHUP changes nothing: a terminal that closes and a system
    that shuts down send several, which must not cut short what the first one asked for.

    answer: a line that whoever sends the first signal to a listener reads at once; after Ctrl-C also that another one ends all.
    """

    def __init__(self) -> None:
        self.listening = False
        self.answer = ""
        self._signal: int | None = None

    @property
    def wanted(self) -> bool:
        return self._signal is not None

    @property
    def exit_code(self) -> int:
        """What shells say of a program that the signal ended: 130 for Ctrl-C, 143 for SIGTERM, 129 for SIGHUP."""
        return 128 + (signal.SIGINT if self._signal is None else self._signal)

    def __enter__(self) -> Interruption:
        self._terminals = [stream for stream in _STREAMS if os.isatty(stream)]
        self._before = {number: signal.getsignal(number) for number in _SIGNALS}
        for number, handler in self._before.items():
            if handler is not signal.SIG_IGN:  # a job in the background of a shell, or under nohup, goes on ignoring it
                signal.signal(number, self._receive)
        return self

    def __exit__(self, *_: Any) -> None:
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def _receive(self, number: int, frame: Any) -> None:
        first = not self.wanted
        if first:
            self._signal = number
        self._leave_lost_terminals()
        if first and self.listening and self.answer:
            with suppress(OSError):  # nobody reads it any more
                os.write(
                    2, f"{self.answer}{_AGAIN if number == signal.SIGINT else ''}\n".encode()
                )  # what Python prints itself may be half written at this moment
        if (first and not self.listening) or (number == signal.SIGINT and not first):
            raise KeyboardInterrupt

    def _leave_lost_terminals(self) -> None:
        """Writing to a terminal that was closed fails, and a progress bar must not be what loses the model."""
        for stream in self._terminals:
            if not os.isatty(stream):
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, stream)
                os.close(nowhere)
