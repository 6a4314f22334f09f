"""fit_files: the same estimator on files that need not fit into memory, shared by as many processes as torchrun started."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from manifoldgp._system.files import refuse_overwriting, refuse_unwritable
from manifoldgp.data.columns import Column
from manifoldgp.data.encoding import TableEncoding
from manifoldgp.data.source_files import FileRows
from manifoldgp.estimators.manifold_gp import ManifoldGPRegressor
from manifoldgp.training.processes import joined_ranks
from manifoldgp.training.settings import Sparse, as_method


def fit_files(
    paths: str | Path | Sequence[str | Path],
    target: str | Sequence[str],
    out: str | Path,
    *,
    columns: Sequence[str] | None = None,
    noise_std: str | None = None,
    ordered: bool = False,
    method: Sparse | str = "sparse",
    **arguments: Any,
) -> ManifoldGPRegressor:
    """Train a sparse model on Parquet or CSV files and write it to ``out``; every process reads its own part of the rows.

    The model knows the names of its columns: mgp predict, score and inspect need nothing else.

    Parameters
    ----------
    paths, target, columns, noise_std
        As in ``manifoldgp.data.FileRows``.
    ordered
        As in ``ManifoldGPRegressor.fit``.
    method
        "sparse", or a Sparse(...), whose checkpoint is by default beside ``out``: a run that was killed goes on from there.
    arguments
        Further arguments of ``ManifoldGPRegressor``.
    """
    out = Path(out)
    refuse_unwritable(out)
    device = str(arguments.get("device", "cpu"))
    with joined_ranks(device) as ranks:
        if device == "cuda":  # one GPU a process
            arguments["device"] = f"cuda:{ranks.rank % torch.cuda.device_count()}"
        sparse = as_method(method) or Sparse()
        if isinstance(sparse, Sparse) and sparse.checkpoint is None:
            sparse = replace(sparse, checkpoint=f"{out}.checkpoint")
        arguments["verbose"] = bool(arguments.get("verbose", False)) and ranks.first
        estimator = ManifoldGPRegressor(method=sparse, **arguments)
        rows = FileRows(paths, target, columns, noise_std)
        refuse_overwriting([out], rows.paths)
        estimator.fit(rows, ordered=ordered)
        estimator.table_encoding_ = TableEncoding(tuple(Column(name) for name in rows.names), tuple(rows.target_names), noise_std)
        if ranks.first:
            estimator.save(out)
        ranks.gather()  # nobody leaves before the file is there
    return estimator
