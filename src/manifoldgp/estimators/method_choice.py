"""Which method a fit takes, and the way from a table or a source of rows to the sparse one."""

from __future__ import annotations

import warnings
from functools import reduce
from typing import Any

import numpy as np

from manifoldgp.data.inputs import TrainingTable
from manifoldgp.data.scaling import Standardizer
from manifoldgp.data.sources import ArrayRows, RowSource, Survey, survey
from manifoldgp.errors import FitWarning, InputError
from manifoldgp.estimators.exact_fit import FittedOutput, FoldChoice, Settings, data_of_outputs
from manifoldgp.estimators.sparse_fit import EXACT_UP_TO, SparseSettings, fit_sparse_outputs
from manifoldgp.model import Model
from manifoldgp.training.processes import Ranks, slots_of
from manifoldgp.training.rows import MemoryRows, StreamedRows
from manifoldgp.training.settings import Exact, Sparse


def takes_sparse(method: Exact | Sparse | None, N: int, exact_because: str | None) -> bool:
    """Whether a fit to N rows is sparse: as asked, and with "auto" (None) beyond EXACT_UP_TO unless (why_exact) only the exact method can do it.

    >>> takes_sparse(None, 5_001, None), takes_sparse(None, 5_001, "groups"), takes_sparse(None, 5_000, None)
    (True, False, False)
    """
    return isinstance(method, Sparse) or (method is None and N > EXACT_UP_TO and exact_because is None)


def chosen_method(method: Exact | Sparse | None, N: int, exact_because: str | None, calls: int) -> Exact | Sparse:
    """The method of a fit to N rows; a warning says what "auto" (None) takes beyond EXACT_UP_TO rows. calls: from here up to the line that calls fit."""
    if isinstance(method, Sparse) and exact_because is not None:
        raise InputError(exact_because)
    if method is not None:
        return method
    sparse = takes_sparse(method, N, exact_because)
    if N > EXACT_UP_TO:
        if sparse:
            words = (
                f"trains the sparse model with {Sparse().inducing} inducing points (the exact one up to {EXACT_UP_TO:,} rows). "
                "Say method='sparse' or method='exact' to choose."
            )
        else:
            words = f"stays exact, which takes long with so many rows: {exact_because}"
        warnings.warn(f"{N:,} rows: method='auto' {words}", FitWarning, stacklevel=calls + 1)
    return Sparse() if sparse else Exact()


def row_source(X: Any, y: Any, noise_std: Any, method: Exact | Sparse | None, exact_because: str | None) -> RowSource | None:
    """X itself where it is a source of rows, memory-mapped arrays as one (unless the exact method takes them), else None."""
    if isinstance(X, RowSource):
        if y is not None or noise_std is not None:
            raise InputError("A source of rows brings its own targets and noise: fit(source), without y and noise_std.")
        return X
    if not isinstance(X, np.memmap) or not isinstance(y, np.ndarray):
        return None
    return ArrayRows(X, y, noise_std) if takes_sparse(method, len(X), exact_because) else None


def surveyed(source: RowSource, ranks: Ranks) -> Survey:
    """The survey of all processes' rows; refuses too few, and says how many have no target."""
    slots, mine = slots_of(source.total, ranks)
    spans = [(source.total * slot // slots, source.total * (slot + 1) // slots) for slot in mine]
    parts = [part for several in ranks.gather([survey(source, *span) for span in spans]) for part in several]
    total = reduce(Survey.merged, parts)
    if total.rows < 2:
        raise InputError(f"At least 2 rows with a target are needed; there {'is' if total.rows == 1 else 'are'} {total.rows}.")
    if total.left_out and ranks.first:
        message = f"{total.left_out:,} of {source.total:,} rows have a missing target (NaN) and are left out of the fit."
        warnings.warn(message, FitWarning, stacklevel=5)
    return total


def fit_sparse_table(
    model: Model,
    table: TrainingTable,
    x_scaler: Standardizer,
    y_scaler: Standardizer,
    settings: Settings,
    sparse: SparseSettings,
    folds: FoldChoice,
) -> list[FittedOutput]:
    """Sparse models of a table in memory."""
    data = data_of_outputs(table, x_scaler, y_scaler, settings.device)

    def rows_of(output: int) -> MemoryRows:
        return MemoryRows(data[output])

    return fit_sparse_outputs(model, rows_of, x_scaler, y_scaler, settings, sparse, folds)


def fit_sparse_source(
    model: Model,
    source: RowSource,
    rows: int,
    x_scaler: Standardizer,
    y_scaler: Standardizer,
    settings: Settings,
    sparse: SparseSettings,
    folds: FoldChoice,
) -> list[FittedOutput]:
    """Sparse models of rows that are read again for every pass, each process its own part. rows: those with a target."""

    def rows_of(output: int) -> StreamedRows:
        return StreamedRows(source, x_scaler, y_scaler, rows, output, settings.device, sparse.ranks)

    return fit_sparse_outputs(model, rows_of, x_scaler, y_scaler, settings, sparse, folds)
