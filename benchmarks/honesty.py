"""Is the averaged model ever worse than a plain GP, and where is it better? The bars of honest predictions, one command.

    python benchmarks/honesty.py --out benchmarks/results/honesty           # everything; finished splits are not run again
    python benchmarks/honesty.py --only step bumps --averaging restarts single
    python benchmarks/honesty.py --only yacht --splits 20                   # more splits than the table has: at most those that a set has

Every split fits a plain SE-ARD GP with 5 restarts and ManifoldGPRegressor(averaging=...) with its default settings, and scores both on
the test rows: NLPP and RMSE of standardised y, coverage of 95 % intervals, seconds. The recorded data sets are read from
../shared/data beside the repository; without that folder only the synthetic ones run.
"""

from __future__ import annotations

import argparse
import csv
import json
import time
from pathlib import Path

import numpy as np

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
UCI = ("boston", "concrete", "energy", "yacht", "wine")
TWINS = "wine, twins together"
SPLITS = {
    "step": 20,
    "bumps": 5,
    "switches": 12,
    **dict.fromkeys(UCI, 5),
    TWINS: 5,
    "well log": 5,
    "iCub": 1,
    "cube toss": 5,
    "smooth": 5,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/honesty"))
    parser.add_argument("--only", nargs="+", choices=list(SPLITS), default=list(SPLITS))
    parser.add_argument("--averaging", nargs="+", default=["stack"])
    parser.add_argument("--splits", type=int, help="splits of each set; the standard UCI sets have 20")
    parser.add_argument("--table", action="store_true", help="print the table of finished splits, run nothing")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name in [] if arguments.table else arguments.only:
        for split in range(arguments.splits or SPLITS[name]):
            for averaging in arguments.averaging:
                run(name, split, averaging, arguments.out)
    print_tables(arguments.out)


def run(name: str, split: int, averaging: str, out: Path) -> None:
    path = out / f"{name.replace(' ', '-')}-{split}-{averaging}.json"
    if path.exists():
        return
    try:
        X, y, X_test, y_test, options = load(name, split)
    except FileNotFoundError as error:
        print(f"{name}: skipped, {error}")
        return
    from manifoldgp import GPRegressor, ManifoldGPRegressor

    offset, scale = y.mean(), y.std()
    y, y_test = (y - offset) / scale, (y_test - offset) / scale
    result = {"name": name, "split": split, "averaging": averaging, "rows": len(y), "inputs": X.shape[1], "sd_y": float(scale)}
    for label, model, extra in (
        ("gp", GPRegressor(restarts=5), {}),
        ("ours", ManifoldGPRegressor(averaging=averaging), options),
    ):
        result[label] = score(model, X, y, X_test, y_test, extra)
        report = model.held_out_[0]
        if report is not None:
            result["weights"] = dict(zip(report.groups, report.weights.sum(1).tolist(), strict=True))
    path.write_text(json.dumps(result, indent=1))
    gp, ours = result["gp"], result["ours"]
    print(
        f"{name} {split} {averaging}: NLPP {gp['nlpp']:.3f} -> {ours['nlpp']:.3f}, RMSE {gp['rmse']:.4f} -> {ours['rmse']:.4f}, "
        f"{gp['seconds']:.1f} s -> {ours['seconds']:.1f} s",
        flush=True,
    )


def score(model, X, y, X_test, y_test, options) -> dict[str, float]:
    """Fit, and score on the test rows."""
    begin = time.perf_counter()
    model.fit(X, y, **options)
    seconds = time.perf_counter() - begin
    pit = model.predict_cdf(X_test, y_test)
    return {
        "nlpp": float(-model.log_predictive_density(X_test, y_test).mean()),
        "rmse": float(np.sqrt(np.mean((model.predict(X_test) - y_test) ** 2))),
        "coverage": float((np.abs(pit - 0.5) <= 0.475).mean()),
        "seconds": seconds,
    }


def load(name: str, split: int):
    """X, y, X_test, y_test, and what fit is told (groups, ordered)."""
    from manifoldgp.data import rotated_bumps, step_function

    rng = np.random.default_rng(1000 + split)
    if name in ("step", "bumps"):
        data = step_function(split) if name == "step" else rotated_bumps(split)
        return data.X_train, data.y_train, data.X_test, data.y_test, {}
    if name == "iCub":
        table = np.genfromtxt(recorded("icub_walking_only_100Hz.csv"), delimiter=",", names=True)
        inputs = ("q_r_hip_pitch", "q_l_hip_pitch", "q_r_knee", "rf_contact_20N", "lf_contact_20N")
        X, y = np.stack([table[column] for column in inputs], axis=1), table["q_l_knee"]
        return X[:400], y[:400], X[400:647], y[400:647], {"ordered": True}
    if name in UCI:
        table = np.load(recorded(f"{name}.npz"))
        X, y, test = table["X"].astype(float), table["y"].astype(float).ravel(), table["test_mask"][:, split].astype(bool)
        return X[~test], y[~test], X[test], y[test], {}
    if name == TWINS:  # rows with the same inputs are on the same side of the split
        table = np.load(recorded("wine.npz"))
        X, y = table["X"].astype(float), table["y"].astype(float).ravel()
        _, row = np.unique(X, axis=0, return_inverse=True)
        test = np.isin(row, rng.permutation(row.max() + 1)[: (row.max() + 1) // 10])
        return X[~test], y[~test], X[test], y[test], {}
    if name == "switches":
        X, y = switches(split, rng)
        rows = (60, 120, 200)[split % 3]
        return X[:rows], y[:rows], X[rows:], y[rows:], {}
    if name == "well log":
        with open(recorded("well_log.csv")) as file:
            y = np.array([float(row["nuclear_response"]) for row in csv.DictReader(file)])[1000:2500]
        rows = rng.permutation(1500)
        X, train, test = np.arange(1500.0)[:, None], rows[:500], rows[500:]
        return X[train], y[train], X[test], y[test], {}
    if name == "cube toss":
        table = np.load(recorded("cube_toss_onestep.npz"))
        toss, X, y = table["run"], table["X"].astype(float), table["Y"][:, 2].astype(float)
        tosses = rng.permutation(np.unique(toss))
        test = rng.permutation(np.flatnonzero(np.isin(toss, tosses[:100])))[:1000]
        train = rng.permutation(np.flatnonzero(np.isin(toss, tosses[100:])))[:500]
        return X[train], y[train], X[test], y[test], {"groups": toss[train]}
    from scipy.spatial.distance import pdist, squareform

    X = rng.normal(size=(800, 3))
    K = np.exp(-0.25 * squareform(pdist(X)) ** 2) + 1e-10 * np.eye(800)
    y = np.linalg.cholesky(K) @ rng.normal(size=800) + 0.1 * rng.normal(size=800)
    return X[:300], y[:300], X[300:], y[300:], {}


def switches(split: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Small problems with a step or a switch, of four kinds: one input decides, at once or softly, alone or together with another one."""
    X = rng.uniform(-2, 2, (700, 3))
    function = (
        np.sign(X[:, 0] - 0.3) + 0.3 * np.sin(2 * X[:, 1]),
        np.where(X[:, 0] > 0, np.sin(6 * X[:, 1]), 0.3 * X[:, 1]),
        np.tanh(8 * (X[:, 0] + X[:, 1] - 0.5)) + 0.5 * X[:, 2],
        np.where(X[:, 0] + X[:, 2] > 0, 1.0, -1.0) * np.cos(2 * X[:, 1]),
    )[split % 4]
    return X, function + 0.02 * rng.normal(size=len(X))


def recorded(name: str) -> Path:
    if not (DATA / name).is_file():
        raise FileNotFoundError(f"needs {name} in ../shared/data beside the repository")
    return DATA / name


def print_tables(out: Path) -> None:
    results = [json.loads(path.read_text()) for path in sorted(out.glob("*.json"))]
    for averaging in sorted({r["averaging"] for r in results}):
        mine = [r for r in results if r["averaging"] == averaging]
        print(f"\naveraging={averaging!r}; standardised y; dNLPP = ours - plain GP (negative is better)\n")
        header = (
            "data",
            "splits",
            "rows",
            "GP NLPP",
            "NLPP",
            "median d",
            "worst d",
            "better",
            "RMSE ratio",
            "coverage",
            "x GP time",
        )
        print("| " + " | ".join(header) + " |\n|" + "---|" * len(header))
        for name in [n for n in SPLITS if any(r["name"] == n for r in mine)]:
            print("| " + " | ".join(_row(name, [r for r in mine if r["name"] == name])) + " |")
        _verdict(mine)


def _row(name: str, rows: list[dict]) -> list[str]:
    gp, ours = (np.array([[r[k][m] for m in ("nlpp", "rmse", "coverage", "seconds")] for r in rows]) for k in ("gp", "ours"))
    d = ours[:, 0] - gp[:, 0]
    fewest, most = (extreme(r["rows"] for r in rows) for extreme in (min, max))
    return [
        name, str(len(rows)), str(fewest) if fewest == most else f"{fewest} to {most}", f"{gp[:, 0].mean():.3f}", f"{ours[:, 0].mean():.3f}", f"{np.median(d):+.3f}",
        f"{d.max():+.3f}", f"{np.sum(d < -0.02)}/{len(d)}", f"{(ours[:, 1] / gp[:, 1]).mean():.3f}", f"{ours[:, 2].mean():.3f}",
        f"{np.median(ours[:, 3] / gp[:, 3]):.1f}",
    ]  # fmt: skip


def _verdict(rows: list[dict]) -> None:
    def lines(name: str) -> np.ndarray:  # in the units of y
        return np.array([r["ours"]["nlpp"] + np.log(r["sd_y"]) for r in rows if r["name"] == name])

    print()
    for name in ("step", "bumps"):
        if len(value := lines(name)):
            print(
                f"{name}: NLPP in the units of y, median {np.median(value):.3f}, worst {value.max():.3f} over {len(value)} seeds"
            )
    small = [r["ours"] for r in rows if r["name"] == "switches"]
    if small:
        rmse = np.exp(np.mean([np.log(r["rmse"]) for r in small]))
        print(
            f"switches: mean NLPP {np.mean([r['nlpp'] for r in small]):.3f}, geometric mean RMSE {rmse:.4f} over {len(small)} problems, standardised y"
        )
    others = [r for r in rows if r["name"] not in ("step", "bumps", "switches", TWINS)]
    if others:
        d = np.array([r["ours"]["nlpp"] - r["gp"]["nlpp"] for r in others])
        ratio = np.array([r["ours"]["rmse"] / r["gp"]["rmse"] for r in others])
        print(
            f"other data, {len(d)} splits: worst dNLPP {d.max():+.3f} (bar +0.03), better by 0.02 on {100 * np.mean(d < -0.02):.0f} % (bar 80 %), "
            f"mean RMSE ratio {ratio.mean():.3f} (bar 0.88)"
        )
    uci = [r["ours"]["coverage"] for r in rows if r["name"] in UCI]
    if uci:
        print(f"95 % intervals on UCI: {100 * np.mean(uci):.1f} % (bar 94 to 97 %)")


if __name__ == "__main__":
    main()
