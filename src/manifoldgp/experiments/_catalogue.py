"""All experiments, by key."""

from __future__ import annotations

from manifoldgp.errors import InputError
from manifoldgp.experiments._experiment import Experiment
from manifoldgp.experiments.rotated_bumps import BUMPS
from manifoldgp.experiments.smooth import SMOOTH
from manifoldgp.experiments.step import STEP
from manifoldgp.experiments.walking import ICUB, RECORDING, WALKER

EXPERIMENTS: tuple[Experiment, ...] = (STEP, BUMPS, WALKER, ICUB, RECORDING, SMOOTH)
"""In the order of the paper."""


def experiment_of(key: str) -> Experiment:
    """The experiment with this key."""
    for experiment in EXPERIMENTS:
        if experiment.key == key:
            return experiment
    raise InputError(f"There is no experiment {key!r}; choose from {', '.join(e.key for e in EXPERIMENTS)}.")
