"""fit_files: the same estimator on files that need not fit into memory, shared by as many processes as torchrun started."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from manifoldgp._system.files import refuse_overwriting, refuse_unwritable
from manifoldgp.data.columns import Column
from manifoldgp.data.encoding import TableEncoding
from manifoldgp.data.source_files import FileRows
from manifoldgp.estimators.manifold_gp import ManifoldGPRegressor
from manifoldgp.training.processes import joined_ranks


def fit_files(
    paths: str | Path | Sequence[str | Path],
    target: str | Sequence[str],
    out: str | Path,
    *,
    columns: Sequence[str] | None = None,
    noise_std: str | None = None,
    checkpoint: str | Path | None = None,
    **arguments: Any,
) -> ManifoldGPRegressor:
    """Train a sparse model on Parquet or CSV files and write it to ``out``; every process reads its own part of the rows.

    paths, target, columns, noise_std: as in manifoldgp.data.FileRows. arguments: of ManifoldGPRegressor.
    checkpoint: where training keeps what it has reached, by default beside ``out``; a run that was killed goes on from there, and the
    file goes away when training ends. The model knows the names of its columns: mgp predict, score and inspect need nothing else.
    """
    out = Path(out)
    refuse_unwritable(out)
    device = str(arguments.get("device", "cpu"))
    with joined_ranks(device) as ranks:
        if device == "cuda":  # one GPU a process
            arguments["device"] = f"cuda:{ranks.rank % torch.cuda.device_count()}"
        checkpoint = f"{out}.checkpoint" if checkpoint is None else str(checkpoint)
        arguments["verbose"] = bool(arguments.get("verbose", False)) and ranks.first
        estimator = ManifoldGPRegressor(**{"method": "sparse", **arguments, "checkpoint": checkpoint})
        rows = FileRows(paths, target, columns, noise_std)
        refuse_overwriting([out], rows.paths)
        estimator.fit(rows)
        estimator.table_encoding_ = TableEncoding(  # pyright: ignore[reportAttributeAccessIssue]
            tuple(Column(name) for name in rows.names), tuple(rows.target_names), noise_std
        )
        if ranks.first:
            estimator.save(out)
            print(f"{out}: {estimator.ensembles_[0].blocks[0].rows:,} rows, NLML at most {estimator.nlml_:.6g}", file=sys.stderr)
        ranks.gather(None)  # nobody leaves before the file is there
    return estimator
