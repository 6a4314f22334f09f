"""Why a start of the optimiser ended, for readers who have not seen an optimiser."""

from __future__ import annotations

import numpy as np

from manifoldgp.optimize import CUT_SHORT

_ENDINGS = {
    "clearly lost": "stopped early: the best was out of reach",
    "screened out": "only tried on few rows: others did better",
    "not reached": "never begun: time was up",
}


def ending(status: str) -> str:
    """A status of the table of starts, in words.

    >>> ending("not reached"), ending("converged")
    ('never begun: time was up', 'converged')
    """
    return _ENDINGS.get(status, status)


def comparable(starts: np.ndarray) -> np.ndarray:
    """Which starts' objectives are those of all rows: not of those that were only screened, on few rows."""
    return starts["status"] != "screened out"


def about_endings(starts: np.ndarray) -> str:
    """Sentences about starts that ended in unusual ways, where there are any."""
    status, text = starts["status"], ""
    lost, screened = int((status == "clearly lost").sum()), int((status == "screened out").sum())
    idle = int(((status == "not reached") | (np.isin(status, CUT_SHORT) & ~np.isfinite(starts["objective"]))).sum())
    if lost:
        text += f" {_starts(lost)} stopped early, because the best was out of reach."
    if screened:
        text += f" {_starts(screened)} only tried on few rows and not drawn: the values are not comparable."
    if idle:
        text += f" {_starts(idle)} never begun, because time was up."
    return text


def _starts(count: int) -> str:
    return "1 start was" if count == 1 else f"{count} starts were"
