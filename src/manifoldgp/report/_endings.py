"""Why a start of the optimiser ended, for readers who have not seen an optimiser."""

from __future__ import annotations

import numpy as np

from manifoldgp.levels import on_a_level
from manifoldgp.optimize import CUT_SHORT

_ENDINGS = {
    "clearly lost": "stopped early: the best was out of reach",
    "screened out": "only tried on few rows: others did better",
    "not reached": "never begun: time was up",
}


def ending(status: str) -> str:
    """A status of the table of starts, in words.

    >>> ending("not reached"), ending("converged"), ending("lost on 500 rows")
    ('never begun: time was up', 'converged', 'lost on 500 rows: others did better there')
    """
    if on_a_level([status])[0]:
        return f"{status}: others did better " + ("there" if status.startswith("lost") else "on all rows")
    return _ENDINGS.get(status, status)


def comparable(starts: np.ndarray) -> np.ndarray:
    """Which starts' objectives are those of all rows: not of those that were only screened, on few rows."""
    return starts["status"] != "screened out"


def about_endings(starts: np.ndarray) -> str:
    """Sentences about starts that ended in unusual ways, where there are any."""
    status, text = starts["status"], ""
    lost, screened = int((status == "clearly lost").sum()), int((status == "screened out").sum())
    never = ~np.isfinite(starts["objective"]) & (starts["iterations"] == 0)
    idle = int(((status == "not reached") | (np.isin(status, CUT_SHORT) & never)).sum())
    if lost:
        text += f" {_starts(lost)} stopped early, because the best was out of reach."
    if screened:
        text += f" {_starts(screened)} only tried on few rows and not drawn: the values are not comparable."
    left = int(on_a_level(status).sum())
    if left:
        text += (
            f" {_starts(left)} left behind on a part of the rows, where training is cheap; only the best one went on to all rows."
        )
    if idle:
        text += f" {_starts(idle)} never begun, because time was up."
    return text


def _starts(count: int) -> str:
    return "1 start was" if count == 1 else f"{count} starts were"
