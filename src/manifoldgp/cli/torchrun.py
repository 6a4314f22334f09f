"""``fit`` for processes that torchrun started: torchrun -m manifoldgp fit data/*.parquet --target y --out model.mgp."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from manifoldgp.errors import ManifoldGPError
from manifoldgp.estimators.fit_files import fit_files


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line and fit; what goes wrong for a known reason is told in one line."""
    parser = argparse.ArgumentParser(prog="python -m manifoldgp fit", description=__doc__)
    parser.add_argument("paths", nargs="+", help="Parquet or CSV files, folders of them, or patterns")
    parser.add_argument("--target", required=True, help="the column to predict; several, separated by commas")
    parser.add_argument("--out", required=True, help="the model file to write")
    parser.add_argument("--columns", help="input columns, separated by commas; all others by default")
    parser.add_argument("--noise-std", help="the column with the known noise standard deviation")
    parser.add_argument("--averaging", default="stack", choices=("stack", "none"))
    parser.add_argument("--inducing", type=int, default=512)
    parser.add_argument("--hidden", help="layer sizes of the network, separated by commas, such as 64,32,4")
    parser.add_argument("--activation", help="transfer functions of the layers, separated by commas")
    parser.add_argument("--restarts", type=int, default=5)
    parser.add_argument("--max-iter", type=int, default=500)
    parser.add_argument("--time-budget", type=float, help="seconds")
    parser.add_argument("--random-state", type=int, default=0)
    parser.add_argument("--device", default="cpu", help="cpu, or cuda (one GPU a process)")
    parser.add_argument("--checkpoint", help="by default the model file's name and .checkpoint")
    parser.add_argument("--verbose", action="store_true")
    given = vars(parser.parse_args(arguments))
    target, paths, out = given.pop("target").split(","), given.pop("paths"), given.pop("out")
    columns = given.pop("columns")
    more = {name: given.pop(name) for name in ("noise_std", "checkpoint")}
    hidden, activation = given.pop("hidden"), given.pop("activation")
    if hidden:
        given["hidden"] = tuple(int(size) for size in hidden.split(","))
    if activation:
        names = tuple(activation.split(","))
        given["activation"] = names[0] if len(names) == 1 else names
    try:
        fit_files(
            paths,
            target[0] if len(target) == 1 else target,
            out,
            columns=columns.split(",") if columns else None,
            **more,
            **given,
        )
    except ManifoldGPError as error:
        print(f"manifoldgp: {error}", file=sys.stderr)
        raise SystemExit(1) from None
