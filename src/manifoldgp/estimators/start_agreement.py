"""Whether the starts of a fit agree on the optimum, and how many of them were stopped on their way, left behind or never begun."""

from __future__ import annotations

import math

import numpy as np

from manifoldgp._system.plain_text import verb
from manifoldgp.estimators.diagnosis import Diagnosis
from manifoldgp.training.coarse_to_fine import on_a_level
from manifoldgp.training.optimizer import CUT_SHORT

_AGREE = 0.01


def start_agreement(starts: np.ndarray, N: int, limit: bool) -> Diagnosis:
    """What the table of starts says of a fit to N rows. limit: whether a user can say how many iterations a start has at most."""
    same_model = starts["group"] == starts["group"][np.argmax(starts["weight"])]
    compared = starts["status"] != "screened out"  # those saw few rows only
    usable = starts[np.isfinite(starts["objective"]) & same_model & compared]
    best = usable["objective"].min() if len(usable) else math.nan
    agree = int((usable["objective"] <= best + _AGREE * N).sum())
    invalid = int((starts["status"] == "invalid start").sum())
    numbers = {
        "starts": len(starts),
        "starts that agree on the optimum (0.01 nats a row)": agree,
        "invalid starts": invalid,
    }
    remarks: list[str] = []
    if invalid:
        remarks.append(f"{_starts_in_words(invalid, starts)} not finite or not positive definite and left out.")
    cut = int(np.isin(starts["status"], CUT_SHORT).sum())
    if cut:
        remarks.append(
            f"{_starts_in_words(cut, starts)} stopped on {verb(cut, 'its', 'their')} way: a fit with more time may predict better."
        )
    idle = int((starts["status"] == "not reached").sum())
    if idle:
        remarks.append(
            f"{_starts_in_words(idle, starts)} never begun, because time was up: a fit with more time tries {verb(idle, 'it', 'them')} too."
        )
    if len(set(starts["group"])) > 1 or np.count_nonzero(starts["weight"]) > 1:
        return Diagnosis(numbers, remarks)  # members of an average need not agree, and some stop early on purpose
    left = int(on_a_level(starts["status"]).sum())
    if left:
        remarks.append(
            f"{_starts_in_words(left, starts)} trained on a part of the {N:,} rows and left behind there; the best one went on to all of them "
            "(levels=False trains every start on all rows)."
        )
    elif len(usable) > 1 and agree == 1:
        remarks.append("Only one start found the best optimum: more restarts may find a better one.")
    limited = int((starts["status"] == "iteration limit").sum())
    if limited and limit:
        remarks.append(
            f"{limited} of {len(starts)} {'start' if len(starts) == 1 else 'starts'} stopped at the iteration limit: raise max_iter to see {'it' if limited == 1 else 'them'} converge."
        )
    return Diagnosis(numbers, remarks)


def _starts_in_words(count: int, starts: np.ndarray) -> str:
    """So many of the starts, before what was done with them.

    >>> _starts_in_words(1, np.zeros(2)), _starts_in_words(1, np.zeros(1)), _starts_in_words(2, np.zeros(20))
    ('1 of 2 starts was', '1 of 1 start was', '2 of 20 starts were')
    """
    return f"{count} of {len(starts)} {verb(len(starts), 'start', 'starts')} {verb(count, 'was', 'were')}"
