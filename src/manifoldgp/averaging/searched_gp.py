"""The searched GP of a stack: a plain GP whose kernel is searched for anew wherever it is trained.

Which kernel is found depends on the targets. So every fold has a search of its own, which sees the rows of that fold alone, and a kernel of its own; the
kernel that predicts in the end, where members are trained anew on all rows, is found by one more search. Held-out rows weigh the way of finding kernels, not one of them.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import torch

from manifoldgp.averaging.averages import Averaging, FoldChoice
from manifoldgp.averaging.fold_groups import Group
from manifoldgp.averaging.fold_predictions import Folds
from manifoldgp.averaging.kinds import SEARCHED_GP
from manifoldgp.averaging.members import plain_gp
from manifoldgp.errors import TrainingFailedError
from manifoldgp.model import Data, Model
from manifoldgp.training.plan import Phase
from manifoldgp.training.progress import nobody
from manifoldgp.training.trained import Trained
from manifoldgp.training.trainer import Trainer

FOR_SEARCH = 0.5
"""Share of what is left of a time budget that all searches on the folds may take."""


def search_phases(search: Averaging | None, rows: int, folds: int = 0) -> list[Phase]:
    """What searches on so many rows go through: one on each fold, or, without folds, one on all rows."""
    planned = () if search is None else search.plan(rows).phases
    places = [_place(fold) for fold in range(folds)] if folds else [SEARCHED_GP]
    return [replace(phase, name=f"{place}, {phase.name}") for place in places for phase in planned]


def search_on_folds(search: Averaging, template: Model, folds: Folds, rows: int, trainer: Trainer) -> Group | None:
    """A searched GP for every fold, from its training rows or a sample of so many; None where time is up before each of them has one."""
    some = folds.learning(1, rows, np.random.default_rng(trainer.generator.initial_seed()))
    whole = some.y.shape[-1] == folds.train.y.shape[-1]
    end, groups = trainer.within(FOR_SEARCH).deadline, []
    for fold in range(folds.count):
        now = trainer.now()
        within = now + (end - now) / (folds.count - fold) if end < math.inf else end
        data = _of_fold(some, fold)
        found = None if trainer.late else searched(search, template, data, replace(trainer, deadline=within), _place(fold))
        if found is None:
            return None
        iterations = int(found.result.iterations.max(initial=0))
        groups.append(Group(found, np.zeros(1, dtype=int), np.ones((1, 1)), iterations, data, whole))
    return replace(groups[0], further=tuple(groups[1:]))


def searched(search: Averaging, template: Model, data: Data, trainer: Trainer, place: str = SEARCHED_GP) -> Trained | None:
    """The plain GP with the kernel that a search of these rows finds; None where it finds none. Other members draw what they would draw without it."""

    def watch(phase: str, iterations: np.ndarray, values: np.ndarray) -> bool:
        return trainer.watch(f"{place}, {phase}", iterations, values)

    generator = torch.Generator().manual_seed(trainer.generator.initial_seed())
    watched = nobody if trainer.watch is nobody else watch
    try:
        found = search.fit(plain_gp(template), data, replace(trainer, generator=generator, watch=watched), FoldChoice())
    except TrainingFailedError:
        return None
    return replace(found.trained[0], group=SEARCHED_GP)


def trained_further(group: Group, data: Data, parts: int, phase: str, iterations: int, trainer: Trainer) -> Group:
    """The searched GPs of all folds after more iterations, with the kernels that they have. data: so many data sets for each of them."""
    further = []
    for fold, own in enumerate(group.by_architecture()):
        values, rows = own.values, data.rows(torch.arange(fold * parts, (fold + 1) * parts))
        batch = trainer.fit(phase, own.batch.model, rows, 1, iterations, lambda _, values=values: values, parts=parts)
        further.append(replace(own, batch=batch, iterations=own.iterations + iterations, data=rows, whole=True))
    return replace(further[0], further=tuple(further[1:]))


def _place(fold: int) -> str:
    return f"{SEARCHED_GP} on fold {fold + 1}"


def _of_fold(data: Data, fold: int) -> Data:
    """The rows of one fold, without those that only fill it up."""
    known, mask = (None if part is None else part[fold] for part in (data.known_noise, data.mask))
    return Data(data.X[fold], data.y[fold], known, mask).without_masked()
