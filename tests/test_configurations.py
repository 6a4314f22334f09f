"""A fixed list of 61 combinations of all parts: each fits and predicts usable numbers, or refuses in words. `make fuzz` draws others without end."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from manifoldgp.errors import FitWarning
from programmes.configurations import CHOICES, configuration, run


def each_choice() -> list[dict[str, str]]:
    """One configuration for every choice there is, the rest of it drawn; but one sparse stack, which takes as long as twenty others."""
    rng = np.random.default_rng(15)
    drawn = [configuration(rng) for choices in CHOICES.values() for _ in choices]
    others = [c | {"average": "single"} if c["average"] == "sparse stack" else c for c in drawn]
    named = [{name: choice} for name, choices in CHOICES.items() for choice in choices]
    return [
        other | one | ({"method": "sparse"} if one == {"average": "sparse stack"} else {})
        for other, one in zip(others, named, strict=True)
    ]


@pytest.mark.parametrize("chosen", each_choice(), ids=lambda chosen: " ".join(chosen.values()))
def test_a_combination_of_parts(chosen):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        assert run(chosen, np.random.default_rng(0), stored=False) in ("answered", "refused")


def test_every_choice_occurs():
    for name, choices in CHOICES.items():
        assert {chosen[name] for chosen in each_choice()} == set(choices)
