"""fit_files: the same estimator on files that need not fit into memory, shared by as many processes as torchrun started."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from manifoldgp._system.files import refuse_overwriting, refuse_unwritable
from manifoldgp.averaging import Stack, as_averaging
from manifoldgp.data.columns import Column
from manifoldgp.data.encoding import TableEncoding
from manifoldgp.data.source_files import FileRows
from manifoldgp.data.sources import joined
from manifoldgp.estimators.manifold_gp import ManifoldGPRegressor
from manifoldgp.training.processes import joined_ranks
from manifoldgp.training.settings import Local, Sparse, as_method


def fit_files(
    paths: str | Path | Sequence[str | Path],
    target: str | Sequence[str],
    out: str | Path,
    *,
    columns: Sequence[str] | None = None,
    noise_std: str | None = None,
    ordered: bool = False,
    method: Sparse | str = "auto",
    **arguments: Any,
) -> ManifoldGPRegressor:
    """Train a model on Parquet or CSV files and write it to ``out``, shared by all processes.

    Of many rows every process reads its own part, and the model is sparse. So few that the stack is exact are read by each of them, and its members are trained side by side.
    The model knows the names of its columns: mgp predict, score and inspect need nothing else.

    Parameters
    ----------
    paths, target, columns, noise_std
        As in ``manifoldgp.data.FileRows``.
    ordered
        As in ``ManifoldGPRegressor.fit``.
    method
        "sparse", or a Sparse(...), whose checkpoint is by default beside ``out``: a run that was killed goes on from there. "auto": the same, unless a stack of so few rows
        is exact, which keeps no checkpoint.
    arguments
        Further arguments of ``ManifoldGPRegressor``.
    """
    out = Path(out)
    refuse_unwritable(out)
    device = str(arguments.get("device", "cpu"))
    with joined_ranks(device) as ranks:
        if device == "cuda":  # one GPU a process
            arguments["device"] = f"cuda:{ranks.rank % torch.cuda.device_count()}"
        arguments["verbose"] = bool(arguments.get("verbose", False)) and ranks.first
        rows = FileRows(paths, target, columns, noise_std)
        refuse_overwriting([out], rows.paths)
        averaging = as_averaging(arguments.get("averaging", "stack"))
        asked = as_method(method)
        few = asked is None and isinstance(averaging, Stack) and rows.total <= max(averaging.exact_up_to, averaging.local_up_to)
        if few or isinstance(asked, Local):
            estimator = ManifoldGPRegressor(method="auto" if asked is None else asked, **arguments)
            _fit_few(estimator, rows, ordered)
        else:
            asked = Sparse() if asked is None else asked
            if isinstance(asked, Sparse) and asked.checkpoint is None:
                asked = replace(asked, checkpoint=f"{out}.checkpoint")
            estimator = ManifoldGPRegressor(method=asked, **arguments).fit(rows, ordered=ordered)
        estimator.table_encoding_ = TableEncoding(
            tuple(Column(name) for name in rows.names), tuple(rows.target_names), noise_std, rows_left_out=None
        )
        if ranks.first:
            estimator.save(out)
        ranks.gather()  # nobody leaves before the file is there
    return estimator


def _fit_few(estimator: ManifoldGPRegressor, rows: FileRows, ordered: bool) -> None:
    """Fit rows that every process holds in memory."""
    block = joined(list(rows.blocks(0, rows.total, rows.total)))
    noise_std = None if block.noise is None else np.sqrt(block.noise)
    Y, noise_std = (block.Y[:, 0], noise_std if noise_std is None else noise_std[:, 0]) if rows.flat else (block.Y, noise_std)
    estimator.fit(block.X, Y, noise_std=noise_std, ordered=ordered)
    estimator.feature_names_in_ = np.array(rows.names, dtype=object)
