"""Where training stands, in a file: a job that is killed goes on from there."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from manifoldgp._system.files import refuse_unwritable, written_whole
from manifoldgp.errors import FileFormatError, InputError, ManifoldGPError, warn
from manifoldgp.model import Model
from manifoldgp.parameters import Layout, Tree
from manifoldgp.training.inducing_placement import Placement
from manifoldgp.training.model_rows import ModelRows
from manifoldgp.training.processes import Ranks


@dataclass(frozen=True)
class Saved:
    """What a checkpoint file holds: theta (P,) after so many iterations of a stage, and the names of its parameters, in order."""

    stage: int
    iterations: int
    theta: np.ndarray
    names: Sequence[str]


@dataclass
class Progress:
    """What training has reached: values without batch dimension (inducing points included), the stage, and the iterations in it.

    rows: how many rows the objective values in ``history`` were computed on.
    """

    values: Tree
    stage: int = 0
    iterations: int = 0
    history: list[float] = field(default_factory=list)
    status: str = ""
    evaluations: int = 0
    rows: int = 0


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
    """A file that is written at most every ``seconds`` and replaced at once or not at all.

    fingerprint: plain data by name (rows, seed, a hash of the model). A file whose fingerprint differs was written by another fit and is refused.
    """

    def __init__(self, path: str | Path, seconds: float = 1.0, fingerprint: Mapping[str, object] | None = None) -> None:
        self.path, self.seconds, self.fingerprint = Path(path), seconds, dict(fingerprint or {})
        self._last = time.perf_counter()

    def due(self) -> bool:
        return time.perf_counter() - self._last >= self.seconds

    def write(self, saved: Saved) -> None:
        self._last = time.perf_counter()
        header = {"stage": saved.stage, "iterations": saved.iterations, "names": list(saved.names), "fit": self.fingerprint}
        with written_whole(self.path) as partial:
            save_file({"theta": np.ascontiguousarray(saved.theta)}, partial, {"checkpoint": json.dumps(header)})

    def read(self) -> Saved | None:
        """What the file holds; None where there is none. A place where none could be written is refused before training, not after its first second."""
        refuse_unwritable(self.path)
        if not self.path.is_file():
            return None
        try:
            with safe_open(self.path, framework="np") as file:
                header = json.loads((file.metadata() or {})["checkpoint"])
                saved = Saved(int(header["stage"]), int(header["iterations"]), file.get_tensor("theta"), header["names"])
                other = dict(header["fit"])
        except (SafetensorError, OSError, KeyError, ValueError) as error:
            raise FileFormatError(
                f"{self.path} is not a checkpoint, or it is damaged ({error}). Remove it to start anew."
            ) from error
        names = [name for name in {**self.fingerprint, **other} if not _same(self.fingerprint.get(name), other.get(name))]
        if names:
            raise InputError(
                f"The checkpoint {self.path} belongs to another fit: it differs in {', '.join(names)}. "
                "Remove the file to start anew, name another checkpoint, or continue with the data and arguments it was written with."
            )
        return saved

    def remove(self) -> None:
        """Training has ended: the file is of no use any more."""
        self.path.unlink(missing_ok=True)


def _same(one: object, other: object) -> bool:
    """Equal; lists of numbers up to rounding, which another number of processes changes."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and np.allclose(one, other, rtol=1e-6, atol=1e-9, equal_nan=True)
    return one == other


_OTHER_MODEL = "The checkpoint belongs to another model. Remove it, or continue with the arguments it was written with."


def saved_state(checkpoint: Checkpoint | None, ranks: Ranks) -> Saved | None:
    """What the checkpoint holds, None where there is none. The first process reads it for all, so that all go on from the same state."""
    mine: Saved | ManifoldGPError | None = None
    if checkpoint is not None and ranks.first:
        try:
            mine = checkpoint.read()
        except ManifoldGPError as error:  # all processes end, not the first alone
            mine = error
    saved = ranks.gather(mine)[0]
    if isinstance(saved, ManifoldGPError):
        raise saved
    return saved


def resumed(saved: Saved, placement: Placement, rows: ModelRows) -> Progress:
    """The values and the stage that a checkpoint holds, to go on training from; refuses those of another model."""
    plain, device = Layout(placement.parameters), placement.device
    any_values = plain.unflatten(torch.zeros(plain.size, dtype=torch.float64, device=device), placement.constants)
    sample = rows.sample(2, placement.seed)
    Q = placement.model.features_at(any_values, sample.X).shape[-1]
    Z_size = len(saved.theta) - plain.size
    if Z_size <= 0 or Z_size % Q:
        raise InputError(_OTHER_MODEL)
    layout = placement.layout(torch.zeros(Z_size // Q, Q, dtype=torch.float64, device=device))
    if list(saved.names) != list(layout.names):
        raise InputError(_OTHER_MODEL)
    values = layout.unflatten(torch.as_tensor(saved.theta, device=device), placement.constants)
    return Progress(values, saved.stage, saved.iterations)


def tell_where(saved: Saved, checkpoint: Checkpoint, stages: int) -> None:
    """Say that training goes on, and from where."""
    words = "had ended" if saved.stage >= stages else f"had reached iteration {saved.iterations} of stage {saved.stage + 1}"
    warn(f"Training is going on from the checkpoint {checkpoint.path}, where it {words}; remove the file to start anew.")
