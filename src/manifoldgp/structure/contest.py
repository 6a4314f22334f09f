"""All candidates of one step against each other: a few iterations for each, then the best to the end; and their scores.

Candidates that differ only in the inputs they see have parameters of the same shapes. They are one batch: a start has its own columns of X. Batches of
different shapes go to the cores side by side.
"""

from __future__ import annotations

import math
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from manifoldgp._system.threads import Workers
from manifoldgp.errors import NotPositiveDefiniteError
from manifoldgp.inference.exact_posterior import condition
from manifoldgp.kernels import Kernel
from manifoldgp.model import Data, Model
from manifoldgp.parameters import Tree, map_leaves
from manifoldgp.structure.expansions import Candidates
from manifoldgp.structure.expressions import Valued, degrees, inputs_of, renamed, text_of
from manifoldgp.structure.record import Reached, Record
from manifoldgp.training.optimizer import INVALID_START
from manifoldgp.training.trained import Trained
from manifoldgp.training.trainer import Trainer

SCREENING = 15
"""Iterations by which candidates are screened."""


class Entry(NamedTuple):
    """A candidate that was tried."""

    kernel: Kernel
    reached: Reached

    @property
    def valued(self) -> Valued:
        return Valued(self.kernel, self.reached.values["kernel"])

    @property
    def score(self) -> float:
        return self.reached.score


@dataclass(frozen=True)
class _Start:
    """One start of a candidate: values of the whole model, without those that training draws."""

    kernel: Kernel
    values: Tree


@dataclass
class Contest:
    """Trains candidates on some rows and scores them.

    data: the rows they are trained on. screening: a part of them, on which all are screened.
    held_out: rows by whose density they are scored; None: scored by the BIC of their training rows.
    stopped: whether somebody or the clock has stopped it. screened: the candidates that were screened last, best first.
    """

    template: Model
    data: Data
    screening: Data
    held_out: Data | None
    trainer: Trainer
    record: Record
    max_iter: int
    stopped: bool = field(default=False, init=False)
    screened: list[Entry] = field(default_factory=list, init=False)

    def run(self, phase: str, candidates: Candidates, keep: int) -> list[Entry]:
        """Screen all candidates, train the best ``keep`` of them to the end, and return those that were.

        The record knows candidates by phase and expression: one that comes back in a later phase has better values to start from.
        """
        self.screened = sorted(self._trained(f"{phase}, all", candidates, False), key=lambda entry: entry.score)
        best = {entry.kernel: [entry.reached.values] for entry in self.screened[:keep]}
        return self._trained(f"{phase}, best", best, True)

    def _trained(self, phase: str, wanted: Candidates, finish: bool) -> list[Entry]:
        """Each candidate's best start after a few iterations, or at its end. Those that the record knows are not trained again."""
        known = {k: reached for k in wanted if (reached := self.record[f"{phase}: {text_of(k)}"]) is not None}
        groups = _groups([_Start(k, values) for k, starts in wanted.items() if k not in known for values in starts])
        found = dict(known)
        if groups and not self.stopped:
            for entry in self._in_batches(phase, groups, finish):
                found[entry.kernel] = entry.reached
        return [Entry(kernel, reached) for kernel, reached in found.items() if math.isfinite(reached.score)]

    def _in_batches(self, phase: str, groups: list[_Group], finish: bool) -> list[Entry]:
        watch = _Watch(self.trainer, phase, [len(group.starts) for group in groups])
        alone = Workers(1) if len(groups) > 1 else self.trainer.workers

        def train(number: int) -> list[Entry]:
            if number and (
                watch.stop or time.perf_counter() > self.trainer.deadline
            ):  # the first one is evaluated, whatever the time
                self.stopped = True
                return []
            entries, cut_short = self._group(
                groups[number], replace(self.trainer, workers=alone, watch=watch.of(number)), phase, finish
            )
            self.stopped |= cut_short
            with watch.lock:
                for entry in () if cut_short else entries:
                    self.record.keep(f"{phase}: {text_of(entry.kernel)}", entry.reached)
            return entries

        try:
            numbers = list(range(len(groups)))
            if len(groups) == 1:
                return train(0)
            return [entry for entries in self.trainer.workers.map(train, numbers, large=False) for entry in entries]
        finally:
            watch.stop = True  # an interrupt leaves other threads at work: they end after their next round

    def _group(self, group: _Group, trainer: Trainer, phase: str, finish: bool) -> tuple[list[Entry], bool]:
        """Train one batch; returns its candidates' best starts, and whether somebody or the clock cut it short."""
        count = len(group.starts)
        rows = self.data if finish else self.screening
        data = _batched(rows, [start.columns for start in group.starts])
        seeded = replace(trainer, generator=torch.Generator().manual_seed(zlib.crc32(text_of(group.kernel).encode())))
        given = _stacked([start.values for start in group.starts])
        trained = seeded.fit(
            phase, replace(self.template, kernel=group.kernel), data, count, self.max_iter if finish else SCREENING,
            lambda drawn: {**drawn, **given}, group="own",
        )  # fmt: skip
        usable = trained.result.status != INVALID_START
        best: dict[Kernel, int] = {}
        for r, start in enumerate(group.starts):
            if usable[r] and (start.kernel not in best or trained.nlml[r] < trained.nlml[best[start.kernel]]):
                best[start.kernel] = r
        return [Entry(k, self._reached(k, trained, r, finish)) for k, r in best.items()], bool(trained.cut_short.any())

    def _reached(self, kernel: Kernel, trained: Trained, r: int, finish: bool) -> Reached:
        values, nlml = map_leaves(lambda leaf: leaf[0], trained.values(np.array([r]))), float(trained.nlml[r])
        return Reached(values, nlml, self._score(kernel, values, nlml, finish))

    def _score(self, kernel: Kernel, values: Tree, nlml: float, finish: bool) -> float:
        """BIC / 2 = NLML + ½ P log N; of finished candidates, where rows are held out, −Σ log p(y | training rows) over these."""
        if self.held_out is not None and finish:
            return held_out_score(replace(self.template, kernel=kernel), values, self.data, self.held_out)
        parameters, rows = sum(degrees(Valued(kernel, values.get("kernel", {})))), self.data if finish else self.screening
        return nlml + 0.5 * parameters * math.log(len(rows.X))


def held_out_score(model: Model, values: Tree, data: Data, held_out: Data) -> float:
    """−Σ log p(y_i | data) over held-out rows, each by itself; infinite where the covariance has no factor."""
    try:
        posterior = condition(model, map_leaves(lambda leaf: leaf[None], values), data)
    except NotPositiveDefiniteError:
        return math.inf
    with torch.no_grad():
        mean, variance, _ = posterior.moments(held_out.X)
    noise = posterior.noise_variance()[0] + (0.0 if held_out.known_noise is None else held_out.known_noise)
    total = variance[0] + noise
    z, log_slope = model.warp(posterior.values, held_out.y)
    density = -0.5 * ((z.reshape(-1) - mean[0]) ** 2 / total + total.log() + math.log(2 * math.pi)) + log_slope.reshape(-1)
    score = -float(density.sum())
    return score if math.isfinite(score) else math.inf


class _Placed(NamedTuple):
    kernel: Kernel
    values: Tree
    columns: tuple[int, ...] | None


class _Group(NamedTuple):
    """Starts of candidates that are one kernel when inputs are counted in the order of each candidate's own."""

    kernel: Kernel
    starts: list[_Placed]


def _groups(starts: Iterable[_Start]) -> list[_Group]:
    groups: dict[Kernel, _Group] = {}
    for start in starts:
        columns = inputs_of(start.kernel)
        shape = start.kernel if columns is None else renamed(start.kernel, columns.index)
        groups.setdefault(shape, _Group(shape, [])).starts.append(_Placed(start.kernel, start.values, columns))
    return list(groups.values())


def _batched(data: Data, columns: Sequence[tuple[int, ...] | None]) -> Data:
    """The rows once for each start, each with its own columns of X; a kernel without inputs sees the first column, and does not look."""
    X = torch.stack([data.X if chosen is None else data.X[:, list(chosen or (0,))] for chosen in columns])
    y = data.y.expand(len(columns), -1)
    known = None if data.known_noise is None else data.known_noise.expand(len(columns), -1)
    return Data(X, y, known, batched=True)


def _stacked(each: Sequence[Tree]) -> Tree:
    """Values of several starts with a leading dimension."""
    first = each[0]
    return {
        name: _stacked([values[name] for values in each])
        if isinstance(first[name], dict)
        else torch.stack([_tensor(values[name]) for values in each])
        for name in first
    }


def _tensor(leaf: Tensor) -> Tensor:
    return torch.as_tensor(leaf, dtype=torch.float64)


class _Watch:
    """Who watches a step sees all its batches as one: iterations and objective values of every start, whichever thread trains it."""

    def __init__(self, trainer: Trainer, phase: str, sizes: Sequence[int]) -> None:
        self.stop, self.lock = False, threading.Lock()
        self._watch, self._phase = trainer.watch, phase
        self._iterations, self._values = np.zeros(sum(sizes), dtype=int), np.full(sum(sizes), np.inf)
        edges = np.cumsum([0, *sizes])
        self._slices = [slice(a, b) for a, b in pairwise(edges)]

    def of(self, number: int) -> Callable[[str, np.ndarray, np.ndarray], bool]:
        """The watch of one batch."""

        def watch(phase: str, iterations: np.ndarray, values: np.ndarray) -> bool:
            with self.lock:
                self._iterations[self._slices[number]], self._values[self._slices[number]] = iterations, values
                self.stop |= bool(self._watch(self._phase, self._iterations, self._values))
                return self.stop

        return watch
