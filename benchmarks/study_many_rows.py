"""How should a stack be sized with 500 to 36,000 rows? Settings of Stack beside the default: densities, errors and processor time.

    python benchmarks/study_many_rows.py                          # everything; finished fits are not run again
    python benchmarks/study_many_rows.py --rows 500 1000          # a part of it
    python benchmarks/study_many_rows.py --table                  # print the tables of finished fits

The protocol keeps choice and report apart: settings are compared on the CHOOSING data sets; what would pay there is reported on the REPORTING ones, which nobody looks at while
choosing (``--report "one member" ...``). One draw of rows and the first standard split of each set, one thread a fit; the rows of wine are made unique, and tosses of the cube are
on one side of the split, in the folds too. Where a set has fewer rows it takes no part. The data sets are read from ../shared/data beside the repository.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch

import sizes
from honesty import recorded
from manifoldgp import ManifoldGPRegressor, Stack, metrics

CHOOSING = ("elevators", "kin40k", "airfoil", "wine")
REPORTING = ("concrete", "bike", "pol", "cube toss")
ROWS = (500, 1000, 3000, 8600, 36_000)
VARIANTS = {
    "default": Stack(),
    "half as large": Stack(hidden=4, q=1),
    "twice as large": Stack(hidden=16, q=3),
    "one member": Stack(fold_members=1),
    "half as many on all rows": Stack(warm_members=3, cold_members=3, own_members=10),
    "four members": Stack(fold_members=4),
    "80 iterations at most": Stack(steps=(25, 80)),
    "400 iterations at most": Stack(steps=(25, 80, 200, 400)),
    "goes on for less": Stack(go_on=0.005),
    "250 rows at a time": Stack(learn_rows=250),
    "900 rows at a time": Stack(learn_rows=900),
}
MANY = ("default", "half as large", "twice as large", "one member", "four members", "250 rows at a time")
"""Variants with 3,000 rows and more."""

RETRAINED = 600
"""Rows below which members are trained anew on all of them, so that their number is a setting of its own."""

ALONE = 36_000
"""Rows with which the default is fitted alone."""

TESTED_TOSSES, TESTED_TWINS = 100, 0.1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/study-many-rows"))
    parser.add_argument("--rows", type=int, nargs="+", default=list(ROWS))
    parser.add_argument("--only", nargs="+", choices=CHOOSING + REPORTING, default=list(CHOOSING + REPORTING))
    parser.add_argument("--variants", nargs="+", choices=list(VARIANTS), default=list(VARIANTS))
    parser.add_argument("--report", nargs="+", choices=list(VARIANTS), default=[], help="variants to report beside the default")
    parser.add_argument("--table", action="store_true", help="print the tables of finished fits, run nothing")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    for rows in [] if arguments.table else arguments.rows:
        for name in arguments.only:
            for variant in variants(name, rows, arguments.variants, arguments.report):
                run(name, rows, variant, arguments.out)
    print_tables(arguments.out)


def variants(name: str, rows: int, chosen: list[str], reported: list[str]) -> list[str]:
    """Which settings are fitted to so many rows of a set."""
    if rows >= ALONE:
        return ["default"]
    if name in REPORTING:
        return ["default", *(variant for variant in reported if variant != "default")]
    chosen = [variant for variant in chosen if rows < RETRAINED or variant != "half as many on all rows"]
    return [variant for variant in chosen if rows < 3000 or variant in MANY]


def run(name: str, rows: int, variant: str, out: Path) -> None:
    """Fit and score, unless that is done already or there are not so many rows."""
    path = out / f"{name}-{rows}-{variant}.json".replace(" ", "_")
    if path.exists():
        return
    try:
        data = subset(name, rows)
    except FileNotFoundError as error:
        print(f"{name}: skipped, {error}")
        return
    if data is None:
        return
    X, y, X_test, y_test, options = data
    begin = time.process_time()
    model = ManifoldGPRegressor(averaging=VARIANTS[variant]).fit(X, y, **options)
    seconds = time.process_time() - begin
    found = {
        "name": name, "rows": rows, "variant": variant, "seconds": seconds,
        "nlpp": metrics.nlpp(model.log_predictive_density(X_test, y_test)), "rmse": metrics.rmse(y_test, model.predict(X_test)),
    }  # fmt: skip
    path.write_text(json.dumps(found))
    print(f"{path.stem}: {seconds:.1f} s, NLPP {found['nlpp']:.3f}, RMSE {found['rmse']:.4f}", flush=True)


def subset(name: str, rows: int):
    """So many training rows, up to 2,000 test rows, y standardised, and what fit is told; None where the set has fewer rows."""
    rng = np.random.default_rng(0)
    if name == "wine":
        table = np.load(recorded("wine.npz"))
        X, row = np.unique(table["X"].astype(float), axis=0, return_index=True)
        y = table["y"].astype(float).ravel()[row]
        test, groups = rng.random(len(y)) < TESTED_TWINS, None
    elif name == "cube toss":
        table = np.load(recorded("cube_toss_onestep.npz"))
        X, y, groups = table["X"].astype(float), table["Y"][:, 2].astype(float), table["run"]
        test = np.isin(groups, rng.permutation(np.unique(groups))[:TESTED_TOSSES])
    else:
        recorded(f"{name}.npz")
        return None if rows > sizes.rows_of(name) else (*sizes.split(name, rows), {})
    if rows > (~test).sum():
        return None
    kept = rng.permutation(np.flatnonzero(~test))[:rows]
    tested = rng.permutation(np.flatnonzero(test))[: sizes.TEST_ROWS]
    offset, scale = y[kept].mean(), y[kept].std()
    options = {} if groups is None else {"groups": groups[kept]}
    return X[kept], (y[kept] - offset) / scale, X[tested], (y[tested] - offset) / scale, options


def print_tables(out: Path) -> None:
    """Every setting against the default on the same rows, for either half of the sets, and the default by itself."""
    results = [json.loads(path.read_text()) for path in sorted(out.glob("*.json"))]
    found = {(r["variant"], r["rows"], r["name"]): r for r in results}
    for half, names in (("Choosing", CHOOSING), ("Reporting", REPORTING)):
        print(f"\n{half} ({', '.join(names)}): difference of NLPP to the default, mean / worst, ratio of RMSE, of processor time; negative and below 1 is better\n")  # fmt: skip
        others = [variant for variant in VARIANTS if any(v == variant != "default" and n in names for v, _, n in found)]
        sizes_of = sorted({r for v, r, n in found if v in others and n in names})
        if not others:
            print("No fits yet.")
            continue
        print("| | " + " | ".join(f"{rows:,} rows" for rows in sizes_of) + " |\n|---|" + "---|" * len(sizes_of))
        for variant in others:
            print(f"| {variant} | " + " | ".join(_cell(found, variant, rows, names) for rows in sizes_of) + " |")
    sets = [name for name in CHOOSING + REPORTING if any(key[0] == "default" and key[2] == name for key in found)]
    print("\nThe default: processor seconds / NLPP / RMSE\n")
    print("| rows | " + " | ".join(sets) + " |\n|---|" + "---|" * len(sets))
    for rows in sorted({r for v, r, _ in found if v == "default"}):
        mine = [found.get(("default", rows, name)) for name in sets]
        print(f"| {rows:,} | " + " | ".join(f"{r['seconds']:.1f} / {r['nlpp']:.3f} / {r['rmse']:.4f}" if r else "–" for r in mine) + " |")  # fmt: skip


def _cell(found: dict, variant: str, rows: int, names: tuple[str, ...]) -> str:
    keys = [(rows, name) for name in names]
    pairs = [
        (found["default", *key], found[variant, *key]) for key in keys if ("default", *key) in found and (variant, *key) in found
    ]
    if not pairs:
        return "–"
    d = np.array([other["nlpp"] - ours["nlpp"] for ours, other in pairs])
    rmse, seconds = (np.exp(np.mean([np.log(other[what] / ours[what]) for ours, other in pairs])) for what in ("rmse", "seconds"))
    return f"{d.mean():+.3f} / {d.max():+.3f}, {rmse:.3f}, {seconds:.2f} ({len(pairs)})"


if __name__ == "__main__":
    main()
