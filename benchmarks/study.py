"""How should a stack be sized? Variants of Stack over data sets and numbers of rows.

    python benchmarks/study.py --out benchmarks/results/study        # everything; finished fits are not run again
    python benchmarks/study.py --table                               # print the tables of finished fits

The protocol keeps choice and report apart: settings are compared on the CHOOSING data sets only, and the chosen one (the default) is then
reported on the REPORTING data sets, which nobody looked at while choosing. Every fit is scored against a plain SE-ARD GP with 5 restarts on the same
rows: difference of NLPP (standardised y, negative is better) and ratio of RMSE.
"""

from __future__ import annotations

import argparse
import json
from functools import cache
from pathlib import Path

import numpy as np

from honesty import load, recorded, score
from manifoldgp import GPRegressor, ManifoldGPRegressor, Stack

CHOOSING = ("boston", "yacht", "well log", "smooth", "kin40k")
REPORTING = ("concrete", "energy", "wine", "cube toss", "iCub")
ROWS = (50, 100, 200, 500, 1000, 2000)
SPLITS = {50: 3, 100: 3, 200: 2, 500: 1, 1000: 1, 2000: 1}
VARIANTS: dict[str, str | Stack] = {
    "default": "stack",
    "fast": "fast",
    "wide": Stack(hidden=16, q=3),
    "wider": Stack(hidden=32, q=4),
    "small": Stack(hidden=4, q=1),
    "no widened copies": Stack(variance_factors=(1.0,)),
    "no prior for the GP": Stack(gp_prior=0.0),
}
TEST_ROWS = 1500


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/study"))
    parser.add_argument("--rows", type=int, nargs="+", default=list(ROWS))
    parser.add_argument("--only", nargs="+", choices=CHOOSING + REPORTING, default=list(CHOOSING + REPORTING))
    parser.add_argument("--variants", nargs="+", choices=list(VARIANTS), default=list(VARIANTS))
    parser.add_argument("--table", action="store_true", help="print the tables of finished fits, run nothing")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    if not arguments.table:
        for rows in arguments.rows:
            for name in arguments.only:
                for variant in arguments.variants if name in CHOOSING else ["default"]:
                    for split in range(SPLITS.get(rows, 1)):
                        run(name, rows, split, variant, arguments.out)
    print_tables(arguments.out)


@cache
def plain_gp(name: str, split: int, rows: int) -> dict[str, float]:
    """The score that all variants are held against, fitted once."""
    return score(GPRegressor(restarts=5), *subset(name, split, rows)[:4], {})


def subset(name: str, split: int, rows: int):
    """Training rows (``rows`` of them), test rows, y standardised, and what fit is told; None where the data set has fewer."""
    if name == "kin40k":
        table = np.load(recorded("kin40k.npz"))
        X, y, test = table["X"].astype(float), table["y"].astype(float).ravel(), table["test_mask"][:, 0].astype(bool)
        X, y, X_test, y_test, options = X[~test], y[~test], X[test], y[test], {}
    else:
        X, y, X_test, y_test, options = load(name, 0 if name == "iCub" else split)
    if rows > len(y):
        return None
    rng = np.random.default_rng(split)
    kept = np.arange(split, split + rows) if options.get("ordered") else np.sort(rng.permutation(len(y))[:rows])
    if kept[-1] >= len(y):
        return None
    options = {key: value[kept] if key == "groups" else value for key, value in options.items()}
    offset, scale = y[kept].mean(), y[kept].std()
    return X[kept], (y[kept] - offset) / scale, X_test[:TEST_ROWS], (y_test[:TEST_ROWS] - offset) / scale, options


def run(name: str, rows: int, split: int, variant: str, out: Path) -> None:
    path = out / f"{name}-{rows}-{split}-{variant}.json".replace(" ", "_")
    if path.exists():
        return
    try:
        data = subset(name, split, rows)
    except FileNotFoundError as error:
        print(f"{name}: skipped, {error}")
        return
    if data is None:
        return
    gp = plain_gp(name, split, rows)
    ours = score(ManifoldGPRegressor(averaging=VARIANTS[variant]), *data)
    path.write_text(json.dumps({"name": name, "rows": rows, "split": split, "variant": variant, "gp": gp, "ours": ours}))
    print(f"{path.stem}: dNLPP {ours['nlpp'] - gp['nlpp']:+.3f}, RMSE ratio {ours['rmse'] / gp['rmse']:.3f}", flush=True)


def print_tables(out: Path) -> None:
    results = [json.loads(path.read_text()) for path in sorted(out.glob("*.json"))]
    print("\nChoosing: mean dNLPP / worst dNLPP / mean RMSE ratio over " + ", ".join(CHOOSING) + "\n")
    _table(results, CHOOSING, list(VARIANTS), by="variant")
    print("\nReporting: the default on " + ", ".join(REPORTING) + "\n")
    _table([r for r in results if r["variant"] == "default"], REPORTING, list(REPORTING), by="name")


def _table(results: list[dict], names: tuple[str, ...], columns: list[str], by: str) -> None:
    chosen = [r for r in results if r["name"] in names]
    if by == "variant":  # compare variants on the splits that all of them have finished
        done = [{(r["name"], r["rows"], r["split"]) for r in chosen if r["variant"] == v} for v in columns]
        done = [d for d in done if d]
        common = set.intersection(*done) if done else set()
        chosen = [r for r in chosen if (r["name"], r["rows"], r["split"]) in common]
    columns = [c for c in columns if any(r[by] == c for r in chosen)]
    if not columns:
        print("No fits yet.")
        return
    print("| rows | fits | " + " | ".join(columns) + " |\n|---|---|" + "---|" * len(columns))
    for rows in sorted({r["rows"] for r in chosen}):
        cells, fits = [], 0
        for column in columns:
            mine = [r for r in chosen if r[by] == column and r["rows"] == rows]
            fits = max(fits, len(mine))
            cells.append(_cell(mine) if mine else "–")
        print(f"| {rows} | {fits} | " + " | ".join(cells) + " |")


def _cell(mine: list[dict]) -> str:
    d = np.array([r["ours"]["nlpp"] - r["gp"]["nlpp"] for r in mine])
    ratio = np.array([r["ours"]["rmse"] / r["gp"]["rmse"] for r in mine])
    return f"{d.mean():+.3f} / {d.max():+.3f} / {ratio.mean():.3f}"


if __name__ == "__main__":
    main()
