"""Where training stands, in a file: a job that is killed goes on from there, and ends with the same model to the last bit.

The file is a journal of what cost time: the bounds and gradients at the points that the minimiser asked for, the inducing points that were chosen, and
whether the time was up. A fit that finds it begins anew and gets these answers without a pass over the rows, until they are used up. So the minimiser's
memory, its line search, all counters and phases are what they were.

After a header, records follow each other: their kind, their length, what they hold, and a digest of it and of all records before.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import struct
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from manifoldgp._system.bounded_json import parse_table
from manifoldgp._system.files import refuse_unwritable, write_whole
from manifoldgp.errors import FileFormatError, InputError, warn
from manifoldgp.model import Model

_MAGIC = b"manifoldgp-checkpoint 2\n"
_DIGEST = 16
_HEAD = struct.Struct("<cQ")


class Checkpoints:
    """The checkpoints of one fit, a file for each target and group. fit: plain data by name in which other fits differ; see :class:`Checkpoint`."""

    def __init__(self, path: str | Path, fit: Mapping[str, object]) -> None:
        self.path, self._fit = path, dict(fit)
        self._made: list[Checkpoint] = []

    def of(self, group: str, output: int, details: Mapping[str, object]) -> Checkpoint:
        """The checkpoint of one training. details: further data by name in which other trainings differ."""
        name = ".".join([str(self.path), *([group.replace(" ", "-")] if group else []), str(output)])
        self._made.append(Checkpoint(name, fingerprint={**details, **self._fit}))
        return self._made[-1]

    def remove(self) -> None:
        """The fit has ended: the files are of no use any more."""
        for checkpoint in self._made:
            checkpoint.remove()


def fingerprint(model: Model) -> str:
    """A hash of the model's parts, the same in every process; different models have different ones."""
    parts = re.sub(
        r" at 0x[0-9a-f]+",
        "",
        repr((model.features, model.kernel, model.mean, model.noise, model.warping, sorted(model.priors.items()))),
    )
    return hashlib.sha256(parts.encode()).hexdigest()


class Checkpoint:
    """A journal that grows at most every ``seconds``, in the first process alone.

    fingerprint: plain data by name (rows, seed, a hash of the model). A file whose fingerprint differs was written by another fit and is refused.
    """

    def __init__(self, path: str | Path, seconds: float = 1.0, fingerprint: Mapping[str, object] | None = None) -> None:
        self.path, self.seconds, self.fingerprint = Path(path), seconds, dict(fingerprint or {})
        self._last = time.perf_counter()
        self._answers: list[tuple[bytes, bytes]] = []
        self._next = 0
        self._digest, self._end, self._unwritten = b"", 0, b""
        self._given_up = False

    @property
    def replaying(self) -> bool:
        """Whether there are answers left from the run before."""
        return self._next < len(self._answers)

    def open(self) -> int:
        """Read what an earlier run left, or begin a new file; how many answers there are.

        A place where no file can be written is refused before training, not after its first second. Records from the first damaged one on are left out: they are
        computed anew.
        """
        refuse_unwritable(self.path)
        if not self.path.is_file():
            header = json.dumps(self.fingerprint).encode()
            begin = _MAGIC + struct.pack("<Q", len(header)) + header
            self._digest = hashlib.sha256(begin).digest()[:_DIGEST]
            write_whole(self.path, begin + self._digest)
            self._end = len(begin) + _DIGEST
            return 0
        data = self.path.read_bytes()
        self._refuse_another_fit(self._read_header(data))
        self._read_records(data)
        return len(self._answers)

    def answer(self, kind: bytes) -> bytes | None:
        """The next recorded answer, which must be of this kind; None if there is none. From the first of another kind on, all are left out."""
        if not self.replaying:
            return None
        found, payload = self._answers[self._next]
        self._next += 1
        if found != kind:
            self.leave_out_the_rest()
            return None
        return payload

    def leave_out_the_rest(self) -> None:
        """The recorded answers, from the one just given on, belong to another way of training: this run goes on by itself."""
        warn(
            f"The checkpoint {self.path} tells of another way of training from here on, as on another machine; training goes on without it."
        )
        self._next -= 1
        self._answers = self._answers[: self._next]
        self._rewrite()

    def record(self, kind: bytes, payload: bytes) -> None:
        """Add an answer; it reaches the file with those of a second."""
        if self.replaying:
            raise RuntimeError(
                "An answer was recorded while others were left: training asked for something that it did not ask for before."
            )
        self._unwritten += self._framed(kind, payload)
        if time.perf_counter() - self._last >= self.seconds:
            self.flush()

    def flush(self) -> None:
        """Have all answers in the file, and the file on the disk. A full disk ends the checkpoint, not the training."""
        try:
            if self._unwritten and not self._given_up:
                self._append(self._unwritten)
        except OSError as error:
            self._given_up = True
            warn(f"The checkpoint {self.path} can no longer be written ({error.strerror}); training goes on without it.")
        self._end, self._unwritten = self._end + len(self._unwritten), b""
        self._last = time.perf_counter()

    def _append(self, records: bytes) -> None:
        with self.path.open("r+b") as file:
            file.seek(self._end)
            file.write(records)
            file.truncate()
            file.flush()
            os.fsync(file.fileno())

    def remove(self) -> None:
        """Training has ended: the file is of no use any more."""
        self._unwritten = b""
        self.path.unlink(missing_ok=True)

    def _framed(self, kind: bytes, payload: bytes) -> bytes:
        head = _HEAD.pack(kind, len(payload))
        self._digest = hashlib.sha256(self._digest + head + payload).digest()[:_DIGEST]
        return head + payload + self._digest

    def _read_header(self, data: bytes) -> dict[str, object]:
        try:
            begin = len(_MAGIC) + 8
            (length,) = struct.unpack("<Q", data[len(_MAGIC) : begin])
            self._end = begin + length + _DIGEST
            self._digest = hashlib.sha256(data[: begin + length]).digest()[:_DIGEST]
            if not data.startswith(_MAGIC) or data[begin + length : self._end] != self._digest:
                raise ValueError("its beginning does not match its digest")
            return parse_table(data[begin : begin + length])
        except (struct.error, ValueError, OverflowError) as error:
            raise FileFormatError(
                f"{self.path} is not a checkpoint, or it is damaged ({error}). Remove it to start anew."
            ) from error

    def _refuse_another_fit(self, other: Mapping[str, object]) -> None:
        mine = json.loads(json.dumps(self.fingerprint))
        names = [name for name in {**mine, **other} if not _same(mine.get(name), other.get(name))]
        if names:
            raise InputError(
                f"The checkpoint {self.path} belongs to another fit: it differs in {', '.join(names)}. "
                "Remove the file to start anew, name another checkpoint, or continue with the data and arguments it was written with."
            )

    def _read_records(self, data: bytes) -> None:
        while len(data) - self._end >= _HEAD.size + _DIGEST:
            kind, length = _HEAD.unpack_from(data, self._end)
            body = self._end + _HEAD.size
            if length > len(data) - body - _DIGEST:
                break
            digest = hashlib.sha256(self._digest + data[self._end : body + length]).digest()[:_DIGEST]
            if data[body + length : body + length + _DIGEST] != digest:
                break
            self._answers.append((kind, data[body : body + length]))
            self._digest, self._end = digest, body + length + _DIGEST
        if left := len(data) - self._end:
            warn(
                f"The last {left} bytes of the checkpoint {self.path} are damaged or were not written whole; what they held is computed anew."
            )

    def _rewrite(self) -> None:
        """Count digest and end anew, for the answers that are left."""
        self._read_header(self.path.read_bytes())
        self._end += sum(len(self._framed(kind, payload)) for kind, payload in self._answers)


def _same(one: object, other: object) -> bool:
    """Equal; lists of numbers up to rounding, which another number of processes changes."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and np.allclose(one, other, rtol=1e-6, atol=1e-9, equal_nan=True)
    return one == other
