"""What can go wrong, by name. Every message says what was expected, what came, and what to do."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path


class ManifoldGPError(Exception):
    """The root of everything this package raises on purpose."""


class InputError(ManifoldGPError, ValueError):
    """The data or an argument cannot be used as given."""


class SeveralFaults(InputError):  # noqa: N818 - what it is, not that something failed
    """Several things cannot be used as given; lines: each of them, in the order in which they are told."""

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__("\n".join(lines))
        self.lines = tuple(lines)


class Faults:
    """Collects what cannot be used as given, so that all of it is told at once and nobody has to try again for each.

    >>> faults = Faults()
    >>> for size in (-1, 2, -3):
    ...     with faults.noted():
    ...         if size < 0:
    ...             raise InputError(f"{size} is too small.")
    >>> faults.told
    ['-1 is too small.', '-3 is too small.']
    """

    def __init__(self) -> None:
        self.told: list[str] = []

    @contextmanager
    def noted(self) -> Iterator[None]:
        """An InputError inside is noted, not raised."""
        try:
            yield
        except SeveralFaults as error:
            self.told += error.lines
        except InputError as error:
            self.told.append(str(error))

    def refuse(self) -> None:
        """Raise what was noted, if anything was."""
        if self.told:
            raise InputError(self.told[0]) if len(self.told) == 1 else SeveralFaults(self.told)


class NotPositiveDefiniteError(ManifoldGPError, ArithmeticError):
    """A covariance matrix has no Cholesky factor, even with the largest jitter allowed."""


class DisconnectedParameterError(ManifoldGPError, RuntimeError):
    """A trainable parameter receives no gradient, so training it would silently do nothing."""


class TrainingFailedError(ManifoldGPError, RuntimeError):
    """No start of the optimiser produced a usable model."""


class FileFormatError(ManifoldGPError, ValueError):
    """A model file is damaged, foreign, or from an unknown version."""


class MissingExtraError(ManifoldGPError, ImportError):
    """An optional dependency is needed for what was asked."""


class FitWarning(UserWarning):
    """The fit went through, and something about it deserves attention."""


def warn(message: str) -> None:
    """A :class:`FitWarning` that points at the line of the user's own code: the nearest call from outside this package."""
    package = str(Path(__file__).parent)
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(package):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, FitWarning, stacklevel=level)
