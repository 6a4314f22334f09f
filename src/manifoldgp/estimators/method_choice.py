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

METHODS = ("auto", "exact", "sparse")


def takes_sparse(method: str, N: int, exact_because: str | None) -> bool:
    """Whether a fit to N rows is sparse: as asked, and with "auto" beyond EXACT_UP_TO unless (why_exact) only the exact method can do it.

    >>> takes_sparse("auto", 5_001, None), takes_sparse("auto", 5_001, "groups"), takes_sparse("auto", 5_000, None)
    (True, False, False)
    """
    return method == "sparse" or (method == "auto" and N > EXACT_UP_TO and exact_because is None)


def chosen_method(method: Any, N: int, inducing: int, exact_because: str | None, calls: int) -> str:
    """ "exact" or "sparse"; a warning says what "auto" takes beyond EXACT_UP_TO rows. calls: from here up to the line that calls fit."""
    if not isinstance(method, str) or method not in METHODS:
        raise InputError(f"method must be one of {', '.join(map(repr, METHODS))}; got {method!r}.")
    sparse = takes_sparse(method, N, exact_because)
    if method == "auto" and N > EXACT_UP_TO:
        if sparse:
            words = (
                f"trains the sparse model with {inducing} inducing points (the exact one up to {EXACT_UP_TO:,} rows). "
                "Say method='sparse' or method='exact' to choose."
            )
        else:
            words = f"stays exact, which takes long with so many rows: {exact_because}"
        warnings.warn(f"{N:,} rows: method='auto' {words}", FitWarning, stacklevel=calls + 1)
    return "sparse" if sparse else "exact"


def row_source(X: Any, y: Any, noise_std: Any, method: str, exact_because: str | None) -> RowSource | None:
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
