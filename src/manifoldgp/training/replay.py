"""Answers of an earlier run of the same training, in place of passes over the rows; and new answers, kept for the next run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from manifoldgp.errors import FileFormatError, InputError, ManifoldGPError, warn
from manifoldgp.training.checkpoint import Checkpoint
from manifoldgp.training.processes import ALONE, Ranks

EVALUATION, PLACEMENT, DECISION = b"e", b"p", b"d"
"""Kinds of answers: a bound and its gradient, inducing points, whether the time is up."""

_SAME_POINT = 1e-6
"""Relative difference of a point up to which a recorded answer is taken for it: another processor rounds otherwise."""

_ERRORS: dict[str, type[ManifoldGPError]] = {error.__name__: error for error in (FileFormatError, InputError)}


@dataclass
class Replay:
    """Hands out the answers in a checkpoint, the same in all processes, and records those that are computed. Without a checkpoint it computes everything."""

    checkpoint: Checkpoint | None = None
    ranks: Ranks = ALONE
    replaying: bool = False

    def begin(self, tell: bool = True) -> None:
        """Open the checkpoint, in the first process, and say (tell) if training goes on from it. What is wrong with it is raised in all processes."""
        if self.checkpoint is None:
            return
        answers, said = 0, ""
        if self.ranks.first:
            try:
                answers = self.checkpoint.open()
            except (FileFormatError, InputError) as error:  # all processes end, not the first alone
                said = f"{type(error).__name__} {error}"
        answers, said = self.ranks.gather([answers, said])[0][0]
        if said:
            kind, _, words = said.partition(" ")
            raise _ERRORS[kind](words)
        self.replaying = answers > 0
        if tell and self.replaying and self.ranks.first:
            warn(
                f"Training is going on from the checkpoint {self.checkpoint.path}, after {answers:,} evaluations and choices; remove the file to start anew."
            )

    def numbers(self, kind: bytes, compute: Callable[[], np.ndarray], point: np.ndarray | None = None) -> np.ndarray:
        """The answer (n,) of an earlier run, or that of ``compute``. point: where it is asked for; the answer must be for (nearly) the same one."""
        known = self._known(kind, point) if self.replaying else None
        if known is not None:
            return known
        found = compute()
        if self.checkpoint is not None and self.ranks.first:
            self.checkpoint.record(kind, np.concatenate([_marks(point), found]).astype("<f8").tobytes())
        return found

    def decision(self, flag: bool) -> bool:
        """A decision that depends on the clock, as it was taken by the earlier run."""
        return bool(self.numbers(DECISION, lambda: np.array([float(flag)]))[0])

    def end(self) -> None:
        """This training has ended: all its answers are on the disk, and a fit of several members does not repeat it."""
        if self.checkpoint is not None and self.ranks.first:
            self.checkpoint.flush()

    def close(self) -> None:
        """Somebody stops this training: what it computes from here on belongs to its end, which a run that goes on has elsewhere."""
        self.end()
        self.checkpoint, self.replaying = None, False

    def _known(self, kind: bytes, point: np.ndarray | None) -> np.ndarray | None:
        found: np.ndarray | None = None
        if self.checkpoint is not None and self.ranks.first:
            payload = self.checkpoint.answer(kind)
            found = None if payload is None else np.frombuffer(payload, "<f8").astype(np.float64)
            marks = _marks(point)
            if found is not None and not np.allclose(found[: len(marks)], marks, rtol=_SAME_POINT, atol=0.0):
                self.checkpoint.leave_out_the_rest()
                found = None
            found = None if found is None else found[len(marks) :]
        if self.ranks.count > 1:
            found = self._of_first(found)
        if found is None:
            self.replaying = False
        return found

    def _of_first(self, found: np.ndarray | None) -> np.ndarray | None:
        length = torch.tensor([-1.0 if found is None else float(len(found))], dtype=torch.float64)
        self.ranks.follow_first_(length)
        if length < 0:
            return None
        answer = torch.zeros(int(length), dtype=torch.float64) if found is None else torch.from_numpy(found)
        self.ranks.follow_first_(answer)
        return answer.numpy()


def _marks(point: np.ndarray | None) -> np.ndarray:
    """Two numbers by which a point (P,) is recognised: they move when any of its entries does."""
    if point is None:
        return np.zeros(0)
    size = np.abs(point)
    return np.array([1.0 + size.sum(), 1.0 + size @ np.linspace(1.0, 2.0, len(point))])
