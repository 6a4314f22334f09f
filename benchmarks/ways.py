"""Which way to learn features? All of them on the paper's four problems and on real tables: NLML, NLPP, RMSE and processor time.

    python benchmarks/ways.py                                      # 200 rows, 3 seeds; what is finished is kept and not run again
    python benchmarks/ways.py --rows 200 1000 --seeds 5            # more of it
    python benchmarks/ways.py --only step concrete --ways "mGP"    # a part of it; every way whose name contains one of these
    python benchmarks/ways.py --table                              # the tables of what is finished, as markdown

A seed draws the data of the paper's functions, or the rows of a table: so many to learn from, and up to 1,000 others to test on. Targets are standardised by the training rows, so that
scores can be compared between sets. Tables are read from ../shared/data beside the repository, and a set that is not there is skipped. NLML and NLPP are nats a row.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from manifoldgp import GPRegressor, ManifoldGPRegressor

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT))

from paper import methods  # noqa: E402
from paper.experiment import Config, Method  # noqa: E402

DATA = ROOT.parent / "shared" / "data"
TABLES = ("boston", "concrete", "energy", "yacht", "wine", "airfoil", "elevators", "pol", "bike", "kin40k")
PAPER = ("step", "bumps", "walker", "smooth")
MOST_TESTS = 1000
PLAIN, AVERAGE = "GP SE-ARD", "mGP, average (default)"
LAYERS, RESTARTS = (6, 2), 5


class Split(NamedTuple):
    """Rows to learn from and rows to test on, y standardised by the former. options: what fit is told."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    options: dict[str, Any]


# ---- the ways: the rows of the paper's tables, and ours


def ways(D: int) -> dict[str, Method]:
    """Every way for D inputs by its name, the plain GP first; those that take a dimension away need two."""
    q = max(1, min(3, D - 1))
    few = () if D == 1 else (methods.pca(q), methods.random_embedding(q))
    additive = Method("additive", "GP additive", lambda c: GPRegressor("additive", restarts=c.restarts, random_state=c.seed))
    ours = Method("average", AVERAGE, lambda c: ManifoldGPRegressor(random_state=c.seed), average=True)
    every = (methods.gp_se(), methods.gp_nn(), *few, *methods.named(LAYERS, D), additive, methods.mgp_sigmoid(LAYERS), ours)
    return {way.label: way for way in every}


# ---- the problems


def problem(name: str, rows: int, seed: int) -> Split:
    """A problem of the paper in its own size, or ``rows`` rows of a table."""
    X, y, X_test, y_test, options = _paper(name, seed) if name in PAPER else _table(name, rows, seed)
    offset, scale = y.mean(), y.std()
    return Split(X, (y - offset) / scale, X_test, (y_test - offset) / scale, options)


def _paper(name: str, seed: int) -> Split:
    from manifoldgp import data

    if name == "smooth":  # the paper's "sinusoidal function", as paper/functions.py reads it
        rng = np.random.default_rng(seed)
        X = rng.uniform(-np.pi, np.pi, (900, 1))
        y = np.sin(X[:, 0]) + 0.003 * rng.normal(size=900)
        return Split(X[:400], y[:400], X[400:], y[400:], {})
    drawn = {"step": lambda: data.step_function(seed), "bumps": lambda: data.rotated_bumps(seed), "walker": data.walker}[name]()
    return Split(drawn.X_train, drawn.y_train, drawn.X_test, drawn.y_test, {})


def _table(name: str, rows: int, seed: int) -> Split:
    path = DATA / f"{name}.npz"
    if not path.is_file():
        raise FileNotFoundError(f"needs {name}.npz in ../shared/data beside the repository")
    table = np.load(path)
    X, y = table["X"].astype(float), table["y"].astype(float).ravel()
    if len(y) < rows + 50:
        raise FileNotFoundError(f"has {len(y)} rows, too few to learn from {rows} and test")
    order = np.random.default_rng(seed).permutation(len(y))
    train, test = order[:rows], order[rows : rows + MOST_TESTS]
    return Split(X[train], y[train], X[test], y[test], {})


# ---- one result


def score(way: Method, split: Split, seed: int) -> dict[str, Any]:
    """Fit one way and score it; what fails says why, and counts as finished."""
    begin = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # remarks on fits that end at their limits, hundreds of them
            model = way.build(Config("", way.key, seed, RESTARTS)).fit(split.X, split.y, **split.options)
            seconds = time.process_time() - begin
            nlpp = -float(model.log_predictive_density(split.X_test, split.y_test).mean())
            error = float(np.sqrt(np.mean((model.predict(split.X_test) - split.y_test) ** 2)))
    except Exception as problem:
        return {"failed": f"{type(problem).__name__}: {problem}"}
    nlml = None if way.average else float(model.nlml_) / len(split.y)
    return {"nlml": nlml, "nlpp": nlpp, "rmse": error, "seconds": seconds}


def read(path: Path) -> dict[tuple[str, int, int, str], dict[str, Any]]:
    """What is finished, by problem, rows, seed and way."""
    if not path.is_file():
        return {}
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return {(r["problem"], r["rows"], r["seed"], r["way"]): r for r in lines}


def run(given: argparse.Namespace) -> None:
    """Everything that is asked for and not finished; seed by seed, so that tables are fair whenever it is interrupted."""
    done = read(given.out)
    for rows, seed, name in _cases(given):
        try:
            split = problem(name, rows, seed)
        except FileNotFoundError as error:
            print(f"{name}: skipped, {error}")
            continue
        for label, way in ways(split.X.shape[1]).items():
            key = (name, rows, seed, label)
            if key in done or not any(part in label for part in given.ways):
                continue
            found = dict(zip(("problem", "rows", "seed", "way"), key, strict=True)) | score(way, split, seed)
            with given.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(found) + "\n")
            print(
                *key,
                {
                    k: round(v, 3) if isinstance(v, float) else v
                    for k, v in found.items()
                    if k not in ("problem", "rows", "seed", "way")
                },
                flush=True,
            )


def _cases(given: argparse.Namespace) -> Iterator[tuple[int, int, str]]:
    for k, rows in enumerate(given.rows):
        for seed in range(given.seeds):
            yield from ((rows, seed, name) for name in given.only if name in TABLES)
            # The paper's problems have their own size, which is run once; of the walk there is one recording.
            yield from ((0, seed, name) for name in given.only if name in PAPER and k == 0 and (name != "walker" or seed == 0))


# ---- the tables


def print_tables(path: Path) -> None:
    """For the paper's problems and for each number of rows: a summary, then NLPP, RMSE, NLML and seconds."""
    results = list(read(path).values())
    for rows in sorted({r["rows"] for r in results}):
        mine = [r for r in results if r["rows"] == rows]
        print(f"\n## {f'{rows} rows' if rows else 'The four problems of the paper'}\n")
        print_summary(mine)
        for metric, title, digits in (
            ("nlpp", "NLPP", 2), ("rmse", "RMSE", 3), ("nlml", "NLML", 2), ("seconds", "Seconds of processor time", 1)
        ):  # fmt: skip
            print(f"\n{title}, mean over seeds\n")
            print_metric(mine, metric, digits)


def print_summary(results: list[dict[str, Any]]) -> None:
    """Each way beside the plain GP on the same rows: how often better, the middle and the worst difference of the NLPP, error and time as ratios."""
    base = {(r["problem"], r["seed"]): r for r in results if r["way"] == PLAIN and "failed" not in r}
    print(
        "| way | fits | better by 0.02 nats | worse by 0.02 | NLPP − plain GP's, median | worst | RMSE / plain GP's, median | time / plain GP's, median |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for way in [way for way in ways(2) if any(r["way"] == way for r in results)]:
        mine = [r for r in results if r["way"] == way and (r["problem"], r["seed"]) in base]
        pairs = [(r, base[r["problem"], r["seed"]]) for r in mine if "failed" not in r]
        if not pairs:
            print(f"| {way} | 0 of {len(mine)} | | | | | | |")
            continue
        d = np.array([a["nlpp"] - b["nlpp"] for a, b in pairs])
        error, seconds = (np.median([a[k] / b[k] for a, b in pairs]) for k in ("rmse", "seconds"))
        worst = _short(float(d.max()), "+")
        shares = f"{100 * np.mean(d < -0.02):.0f} % | {100 * np.mean(d > 0.02):.0f} %"
        print(f"| {way} | {len(pairs)} of {len(mine)} | {shares} | {np.median(d):+.2f} | {worst} | {error:.2f} | {seconds:.1f} |")


def print_metric(results: list[dict[str, Any]], metric: str, digits: int) -> None:
    """A row a way, a column a problem."""
    names = [name for name in (*PAPER, *TABLES) if any(r["problem"] == name for r in results)]
    print("| way | " + " | ".join(names) + " |\n|" + "---|" * (len(names) + 1))
    for way in [way for way in ways(2) if any(r["way"] == way for r in results)]:
        cells = [[r.get(metric) for r in results if (r["way"], r["problem"]) == (way, name)] for name in names]
        print(f"| {way} | " + " | ".join(_mean(cell, digits) for cell in cells) + " |")


def _mean(values: list[float | None], digits: int) -> str:
    known = [v for v in values if v is not None]
    if not known or len(known) < len(values):
        return "–"
    return _short(float(np.mean(known)), digits=digits)


def _short(number: float, sign: str = "", digits: int = 2) -> str:
    """With so many digits, and as a power of ten where a model was certain of something else.

    >>> _short(1.234), _short(12345678.0, "+")
    ('1.23', '+1.2e+07')
    """
    return f"{number:{sign}.{digits}f}" if abs(number) < 1000 else f"{number:{sign}.1e}"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/ways.jsonl"))
    parser.add_argument("--rows", type=int, nargs="+", default=[200])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=[*PAPER, *TABLES], default=[*PAPER, *TABLES])
    parser.add_argument("--ways", nargs="+", default=[""], help="parts of names: all ways that contain one of them")
    parser.add_argument("--table", action="store_true", help="print the tables of what is finished, run nothing")
    given = parser.parse_args(arguments)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    if not given.table:
        run(given)
    print_tables(given.out)


if __name__ == "__main__":
    main()
