"""The one decision between the exact and the sparse method, and rows that only the sparse one can read."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from manifoldgp.averaging import Averaging
from manifoldgp.data.sources import ArrayRows, RowSource, Survey, survey
from manifoldgp.errors import InputError, warn
from manifoldgp.estimators.combinations import why_exact
from manifoldgp.training.processes import Ranks, slots_of
from manifoldgp.training.settings import Exact, Sparse

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from manifoldgp.data.inputs import Table

EXACT_UP_TO = 5_000
"""Rows up to which method="auto" is exact: beyond, one evaluation of the evidence takes seconds, and many are needed."""


def chosen_method(method: Exact | Sparse | None, N: int, averaging: Averaging, outputs: int = 2) -> Exact | Sparse:
    """The method of a fit to N rows. "auto" (None) is sparse beyond EXACT_UP_TO rows, unless only the exact method can do what is asked for.

    >>> from manifoldgp import Fast, Stack
    >>> chosen_method(None, 5_001, Stack()), chosen_method(None, 5_001, Fast()), chosen_method(None, 5_000, Stack())
    (Sparse(), Exact(), Exact())
    """
    because = why_exact(averaging, outputs)
    if isinstance(method, Sparse) and because is not None:
        raise InputError(because)
    if method is not None:
        return method
    return Sparse() if N > EXACT_UP_TO and because is None else Exact()


def tell_method(asked: Exact | Sparse | None, taken: Exact | Sparse, N: int, averaging: Averaging, outputs: int) -> None:
    """A warning says what "auto" (None) takes beyond EXACT_UP_TO rows."""
    if asked is not None or N <= EXACT_UP_TO:
        return
    if isinstance(taken, Sparse):
        words = (
            f"trains the sparse model with {taken.inducing} inducing points (the exact one up to {EXACT_UP_TO:,} rows). "
            "Say method='sparse' or method='exact' to choose."
        )
    else:
        words = f"stays exact, which takes long with so many rows: {why_exact(averaging, outputs)}"
    warn(f"{N:,} rows: method='auto' {words}")


def row_source(
    X: Table | RowSource, y: ArrayLike | None, noise_std: ArrayLike | None, method: Exact | Sparse | None, averaging: Averaging
) -> RowSource | None:
    """X itself where it is a source of rows, memory-mapped arrays as one (unless the exact method takes them), else None."""
    if isinstance(X, RowSource):
        if y is not None or noise_std is not None:
            raise InputError("A source of rows brings its own targets and noise: fit(source), without y and noise_std.")
        return X
    if not isinstance(X, np.memmap) or not isinstance(y, np.ndarray):
        return None
    taken = chosen_method(method, len(X), averaging, y.shape[1] if y.ndim == 2 else 1)
    return ArrayRows(X, y, None if noise_std is None else np.asanyarray(noise_std)) if isinstance(taken, Sparse) else None


def surveyed(source: RowSource, ranks: Ranks) -> Survey:
    """The survey of all processes' rows; refuses too few, and says how many have no target."""
    slots, mine = slots_of(source.total, ranks)
    spans = [(source.total * slot // slots, source.total * (slot + 1) // slots) for slot in mine]
    parts = [part for several in ranks.gather([survey(source, *span) for span in spans]) for part in several]
    total = reduce(Survey.merged, parts)
    if total.rows < 2:
        raise InputError(f"At least 2 rows with a target are needed; there {'is' if total.rows == 1 else 'are'} {total.rows}.")
    if total.left_out and ranks.first:
        warn(f"{total.left_out:,} of {source.total:,} rows have a missing target (NaN) and are left out of the fit.")
    return total
