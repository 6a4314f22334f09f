"""A fixed matrix of 60 combinations of all parts: each fits and predicts usable numbers, or refuses in words. `make fuzz` draws others without end."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from manifoldgp.errors import FitWarning
from programmes.configurations import CHOICES, run

QUICK = ["single", "restarts", "shared", "single", "l-bfgs-b", "single", "newton", "restarts", "single", "fast"]
"""Which average comes next; stacks and chains take longer than others, and have a few rows of their own."""


def matrix() -> list[dict[str, str]]:
    """60 configurations in which every choice occurs, in turn and shuffled."""
    rng = np.random.default_rng(15)
    columns = {name: [choices[i % len(choices)] for i in range(60)] for name, choices in CHOICES.items()}
    columns["average"] = ["stack", "stack", "nuts", "nuts", *(QUICK[i % len(QUICK)] for i in range(56))]
    shuffled = {name: [column[i] for i in rng.permutation(60)] for name, column in columns.items()}
    drawn = [{name: column[i] for name, column in shuffled.items()} for i in range(59)]
    return [*drawn, {name: choices[0] for name, choices in CHOICES.items()} | {"average": "sparse stack", "method": "sparse"}]


@pytest.mark.parametrize("chosen", matrix(), ids=lambda chosen: " ".join(chosen.values()))
def test_a_combination_of_parts(chosen):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        assert run(chosen, np.random.default_rng(0), stored=False) in ("answered", "refused")


def test_the_matrix_has_every_choice():
    for name, choices in CHOICES.items():
        assert {chosen[name] for chosen in matrix()} == set(choices)
