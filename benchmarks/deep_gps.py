"""Does DeepGPRegressor reach the published test log-likelihoods of deep GPs on the standard UCI splits?

    python benchmarks/deep_gps.py --splits 5 --out benchmarks/results/deep_gps     # finished splits are not run again
    python benchmarks/deep_gps.py --only energy --layers 3 --table

Published: doubly stochastic variational inference as reported by Lindinger et al. (2020), mean test log-likelihood in the units of y over 10 random splits of 90:10; here it is
the standard splits of the same size. They have no yacht: its number is that of two layers in the README of ../shared/data beside the repository, from which the data are read.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from honesty import load, score

PUBLISHED = {"boston": -2.43, "concrete": -3.06, "energy": -0.73, "yacht": -0.46}
MARGIN = 0.05


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/deep_gps"))
    parser.add_argument("--only", nargs="+", choices=list(PUBLISHED), default=list(PUBLISHED))
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--layers", type=int, nargs="+", default=[2])
    parser.add_argument("--table", action="store_true", help="print the table of finished splits, run nothing")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for split in range(0 if arguments.table else arguments.splits):
        for layers in arguments.layers:
            for name in arguments.only:
                run(name, split, layers, arguments.out)
    print_table(arguments.out)


def run(name: str, split: int, layers: int, out: Path) -> None:
    """Fit one split with default settings, and keep its scores."""
    path = out / f"{name}-{split}-{layers}.json"
    if path.exists():
        return
    from manifoldgp import DeepGPRegressor

    X, y, X_test, y_test, options = load(name, split)
    model = DeepGPRegressor(layers)
    found = score(model, X, y, X_test, y_test, options)
    (start,) = model.starts_
    found |= {"name": name, "layers": layers, "split": split, "rows": len(y), "steps": int(start["iterations"]), "ended": str(start["status"])}  # fmt: skip
    path.write_text(json.dumps(found, indent=1))
    print(f"{name} {split}, {layers} layers: {-found['nlpp']:.3f} nats, RMSE {found['rmse']:.3f}, {found['steps']} steps, {found['seconds']:.0f} s", flush=True)  # fmt: skip


def print_table(out: Path) -> None:
    results = [json.loads(path.read_text()) for path in sorted(out.glob("*.json"))]
    header = (
        "data",
        "layers",
        "splits",
        "rows",
        "log-likelihood",
        "published",
        "difference",
        "RMSE",
        "95 % intervals hold",
        "seconds a fit",
    )
    print("\n| " + " | ".join(header) + " |\n|" + "---|" * len(header))
    for name, layers in sorted({(r["name"], r["layers"]) for r in results}):
        mine = [r for r in results if (r["name"], r["layers"]) == (name, layers)]
        mean = {key: float(np.mean([r[key] for r in mine])) for key in ("nlpp", "rmse", "coverage", "seconds")}
        away = -mean["nlpp"] - PUBLISHED[name]
        row = (
            name, str(layers), str(len(mine)), str(mine[0]["rows"]), f"{-mean['nlpp']:.3f}", f"{PUBLISHED[name]:.2f}",
            f"{away:+.3f}" + ("" if away > -MARGIN else ", below"), f"{mean['rmse']:.3f}", f"{100 * mean['coverage']:.0f} %", f"{mean['seconds']:.0f}",
        )  # fmt: skip
        print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    main()
