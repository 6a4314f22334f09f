"""Time and accuracy of the default from 500 to 36,000 rows, beside an earlier checkout, boosting and GPyTorch.

    python benchmarks/sizes.py                                   # ours and the peers; finished fits are not run again
    python benchmarks/sizes.py --tree ../first-release           # the same with another checkout of this package beside
    python benchmarks/sizes.py --sets kin40k --rows 1000 3000
    python benchmarks/sizes.py --budgets 2 5 15 40               # is time_budget kept? Wall time of fits with so many seconds, as shares of them
    python benchmarks/sizes.py --budgets 10 --how processor more # the same with processor seconds, half of them for fit_more

Every fit has a process of its own and one thread; seconds are processor seconds of the fit, imports left out. NLPP and RMSE are of standardised y on 2,000 test rows of the first standard split.
Beside the default: scikit-learn's boosting, five CatBoost models with uncertainty (make bench-sizes installs CatBoost in .venv-boosting), GPyTorch's exact GP up to
3,000 rows, and its SVGP. The data sets are read from ../shared/data beside the repository.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve()
DATA = HERE.parents[2] / "shared" / "data"
BOOSTING = HERE.parents[1] / ".venv-boosting"
SETS, ROWS = ("elevators", "bike", "kin40k", "pol"), (500, 1000, 3000, 8600, 10_000, 36_000)
PEERS = {"boosting": "scikit-learn boosting", "catboost": "5 CatBoost", "gpytorch": "GPyTorch exact", "svgp": "GPyTorch SVGP"}
EXACT_ROWS = 3000
"""Rows up to which GPyTorch's exact GP takes part."""

TEST_ROWS = 2000

Scored = tuple[float, np.ndarray, np.ndarray | None]
"""Processor seconds of a fit without its imports, means of the test rows, and their log densities (None for a model without a distribution)."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/sizes"))
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    parser.add_argument("--rows", nargs="+", type=int, default=list(ROWS))
    parser.add_argument("--tree", type=Path, help="another checkout of this package")
    parser.add_argument("--models", nargs="+", default=["ours", *PEERS, "earlier"])
    parser.add_argument("--plot", type=Path, help="draw the finished fits into this picture")
    parser.add_argument("--budgets", nargs="+", type=float, help="seconds: fit the default with these time budgets instead")
    parser.add_argument(
        "--how", nargs="*", choices=["processor", "more"], default=[], help="budgets of processor time; half of each for fit_more"
    )
    parser.add_argument("--table", action="store_true", help="print the table of finished fits, run nothing")
    parser.add_argument("--fit", nargs="+", metavar=("MODEL", "SET"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.fit:
        model, name, rows, *budget = arguments.fit
        found = in_time(name, int(rows), float(budget[0]), budget[1:]) if budget else fitted(model, name, int(rows))
        print(json.dumps(found))
        return
    if not DATA.is_dir():
        print(f"Skipped: the data sets are not there ({DATA}).")
        return
    if arguments.budgets:
        print_budgets(arguments.sets, arguments.rows, arguments.budgets, arguments.how)
        return
    arguments.out.mkdir(parents=True, exist_ok=True)
    for rows in [] if arguments.table else arguments.rows:
        for name in arguments.sets:
            for model in arguments.models:
                run(model, name, rows, arguments)
    print_table(arguments.out)
    if arguments.plot:
        draw(arguments.out, arguments.plot)


def run(model: str, name: str, rows: int, arguments: argparse.Namespace) -> None:
    """One fit in a process of its own; its result is kept."""
    path = arguments.out / f"{model}-{name}-{rows}.json"
    if path.exists() or (model == "earlier" and arguments.tree is None) or (model == "gpytorch" and rows > EXACT_ROWS):
        return
    if rows > rows_of(name):
        return
    found = in_own_process([model, name, str(rows)], (arguments.tree if model == "earlier" else HERE.parents[1]) / "src")
    if found is None:
        return
    path.write_text(json.dumps(found, indent=1))
    print(
        f"{model} on {name}, {rows:,} rows: {found['seconds']:.1f} s, NLPP {found['nlpp']}, RMSE {found['rmse']:.4f}", flush=True
    )


def in_own_process(fit: list[str], source: Path) -> dict | None:
    """What a fit in a process of its own found; None, and why in a line, where it failed."""
    environment = os.environ | {"PYTHONPATH": str(source), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(HERE), "--fit", *fit], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        print(f"{' '.join(fit)}: {done.stderr.strip().splitlines()[-1]}", flush=True)
        return None
    return json.loads(done.stdout.splitlines()[-1])


def print_budgets(sets: list[str], sizes: list[int], budgets: list[float], how: list[str]) -> None:
    """Time of fits with a budget, as a share of it; and what they reach. how: words for :func:`in_time`."""
    print("| data | rows | budget | wall / budget | processor / budget | NLPP | RMSE |\n|---|---|---|---|---|---|---|")
    shares = []
    for name in sets:
        for rows in sizes:
            for budget in budgets:
                found = in_own_process(["ours", name, str(rows), str(budget), *how], HERE.parents[1] / "src")
                if found is not None:
                    shares.append(found["share"])
                    times = f"{found['wall'] / budget:.2f} | {found['seconds'] / budget:.2f}"
                    print(
                        f"| {name} | {rows:,} | {budget:g} s | {times} | {found['nlpp']:.3f} | {found['rmse']:.4f} |", flush=True
                    )
    if shares:
        clock = "processor" if "processor" in how else "wall"
        print(f"At most {max(shares):.2f} of the budget ({clock} time, {len(shares)} fits).")


def in_time(name: str, rows: int, budget: float, how: list[str]) -> dict[str, object]:
    """One fit of the default within a budget: wall and processor seconds, NLPP and RMSE.

    how: "processor": the budget is of processor time (with one thread, what an idle machine would take). "more": half of it for fit, half for fit_more.
    """
    wall_clock = time.perf_counter
    if "processor" in how:
        time.perf_counter = time.process_time
    import torch

    from manifoldgp import ManifoldGPRegressor

    torch.set_num_threads(1)
    X, y, X_test, y_test = split(name, rows)
    wall, begin = wall_clock(), time.process_time()
    if "more" in how:
        model = ManifoldGPRegressor(time_budget=0.5 * budget).fit(X, y).fit_more(X, y, seconds=0.5 * budget)
    else:
        model = ManifoldGPRegressor(time_budget=budget).fit(X, y)
    wall, seconds = wall_clock() - wall, time.process_time() - begin
    nlpp = -float(np.mean(model.log_predictive_density(X_test, y_test)))
    share = (seconds if "processor" in how else wall) / budget
    return {"wall": wall, "seconds": seconds, "share": share, "nlpp": nlpp, "rmse": _rmse(model.predict(X_test), y_test)}


def rows_of(name: str) -> int:
    """Rows outside the test rows."""
    with np.load(DATA / f"{name}.npz") as recorded:
        return int((recorded["test_mask"][:, 0] == 0).sum())


def split(name: str, rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Training and test rows of the first standard split, inputs that vary, y standardised."""
    recorded = np.load(DATA / f"{name}.npz")
    X, y, test = recorded["X"], recorded["y"].ravel(), recorded["test_mask"][:, 0].astype(bool)
    rng = np.random.default_rng(0)
    train, test = rng.permutation(np.flatnonzero(~test))[:rows], rng.permutation(np.flatnonzero(test))[:TEST_ROWS]
    X = X[:, X[train].std(0) > 0]
    y = (y - y[train].mean()) / y[train].std()
    return X[train], y[train], X[test], y[test]


def fitted(model: str, name: str, rows: int) -> dict[str, object]:
    """One fit: processor seconds, NLPP (None for a model without a distribution) and RMSE."""
    X, y, X_test, y_test = split(name, rows)
    fit = {"boosting": _boosting, "catboost": _catboost, "gpytorch": _gpytorch, "svgp": _svgp}.get(model, _ours)
    seconds, mean, log_density = fit(X, y, X_test, y_test)
    nlpp = None if log_density is None else -float(np.mean(log_density))
    return {"model": model, "name": name, "rows": len(y), "seconds": seconds, "nlpp": nlpp, "rmse": _rmse(mean, y_test)}


def _rmse(mean: np.ndarray, y: np.ndarray) -> float:
    return float(np.sqrt(np.mean((mean - y) ** 2)))


def _ours(X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray) -> Scored:
    import torch

    from manifoldgp import ManifoldGPRegressor

    torch.set_num_threads(1)
    begin = time.process_time()
    model = ManifoldGPRegressor().fit(X, y)
    seconds = time.process_time() - begin
    return seconds, model.predict(X_test), model.log_predictive_density(X_test, y_test)


def _boosting(X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray) -> Scored:
    from sklearn.ensemble import HistGradientBoostingRegressor

    begin = time.process_time()
    model = HistGradientBoostingRegressor(max_iter=1000, early_stopping=True, random_state=0).fit(X, y)
    return time.process_time() - begin, model.predict(X_test), None


def _catboost(X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray) -> Scored:
    """Five models with uncertainty, each stopped early on rows of its own; their mixture."""
    sys.path.append(str(BOOSTING))
    from catboost import CatBoostRegressor
    from scipy.special import logsumexp

    means, densities = [], []
    models, begin = [], time.process_time()
    for seed in range(5):
        held = np.random.default_rng(seed).random(len(y)) < 0.1
        model = CatBoostRegressor(
            iterations=2000,
            loss_function="RMSEWithUncertainty",
            random_seed=seed,
            thread_count=1,
            verbose=False,
            allow_writing_files=False,
        )
        models.append(model.fit(X[~held], y[~held], eval_set=(X[held], y[held]), early_stopping_rounds=50))
    seconds = time.process_time() - begin
    for model in models:
        mean, variance = model.predict(X_test).T
        means.append(mean)
        densities.append(-0.5 * ((y_test - mean) ** 2 / variance + np.log(2 * np.pi * variance)))
    return seconds, np.mean(means, axis=0), logsumexp(densities, axis=0) - np.log(len(densities))


def _gpytorch(X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray) -> Scored:
    """An exact GP with ARD by 100 steps of Adam, as in GPyTorch's first example."""
    import gpytorch
    import torch

    torch.set_num_threads(1)
    begin = time.process_time()
    X, y, X_test = _as_tensors(X, y, X_test)

    class Exact(gpytorch.models.ExactGP):
        def __init__(self, likelihood):
            super().__init__(X, y, likelihood)
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=X.shape[1]))

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = Exact(likelihood).double()
    evidence = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    adam = torch.optim.Adam(model.parameters(), lr=0.1)
    for _ in range(100):
        adam.zero_grad()
        (-evidence(model(X), y)).backward()
        adam.step()
    return time.process_time() - begin, *_gaussian(model, likelihood, X_test, y_test)


def _svgp(X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray) -> Scored:
    """A sparse variational GP: 500 inducing points, batches of 1,024 rows, 2,000 steps of Adam."""
    import gpytorch
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(1)
    begin = time.process_time()
    X, y, X_test = _as_tensors(X, y, X_test)
    inducing = X[torch.randperm(len(X))[:500]]

    class Sparse(gpytorch.models.ApproximateGP):
        def __init__(self):
            law = gpytorch.variational.CholeskyVariationalDistribution(len(inducing))
            super().__init__(gpytorch.variational.VariationalStrategy(self, inducing, law, learn_inducing_locations=True))
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=X.shape[1]))

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    likelihood, model = gpytorch.likelihoods.GaussianLikelihood().double(), Sparse().double()
    bound = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(y))
    adam = torch.optim.Adam([*model.parameters(), *likelihood.parameters()], lr=0.01)
    for _ in range(2000):
        rows = torch.randint(len(y), (min(1024, len(y)),))
        adam.zero_grad()
        (-bound(model(X[rows]), y[rows])).backward()
        adam.step()
    return time.process_time() - begin, *_gaussian(model, likelihood, X_test, y_test)


def _as_tensors(X: np.ndarray, y: np.ndarray, X_test: np.ndarray):
    import torch

    mean, scale = X.mean(0), X.std(0)
    return (torch.as_tensor(array, dtype=torch.float64) for array in ((X - mean) / scale, y, (X_test - mean) / scale))


def _gaussian(model, likelihood, X_test, y_test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means and log densities of a GPyTorch model."""
    import torch

    model.eval()
    likelihood.eval()
    with torch.no_grad():
        found = likelihood(model(X_test))
        mean, variance = found.mean.numpy(), found.variance.numpy()
    return mean, -0.5 * ((y_test - mean) ** 2 / variance + np.log(2 * np.pi * variance))


def draw(out: Path, picture: Path) -> None:
    """Processor seconds and NLPP against rows, a panel for each data set."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.ticker import NullFormatter

    found = [json.loads(path.read_text()) for path in sorted(out.glob("*.json"))]
    names = {"ours": "manifoldgp", **PEERS, "earlier": "manifoldgp 0.1"}
    colours = dict(zip(names, ("#c1272d", "#8c564b", "#2ca02c", "#1f77b4", "#17becf", "#999999"), strict=True))
    sets = [name for name in SETS if any(r["name"] == name for r in found)]
    figure, axes = plt.subplots(2, len(sets), figsize=(2.9 * len(sets), 5.4), sharex=True, squeeze=False, layout="constrained")
    for axis in axes[0, 1:]:
        axis.sharey(axes[0, 0])
    for column, name in zip(axes.T, sets, strict=True):
        for model, label in names.items():
            for axis, what in zip(column, ("seconds", "nlpp"), strict=True):
                mine = sorted(
                    (r["rows"], r[what]) for r in found if r["name"] == name and r["model"] == model and r[what] is not None
                )
                if mine:
                    axis.plot(
                        *zip(*mine, strict=True),
                        "o-",
                        color=colours[model],
                        markersize=3.5,
                        linewidth=2.2 if model == "ours" else 1.1,
                        label=label,
                    )
        column[0].set(title=name, xscale="log", yscale="log")
        column[1].set(xlabel="rows")
        sizes = [size for size in sorted({r["rows"] for r in found}) if size != 8600]  # too near to 10,000 for a label
        column[1].set_xticks(sizes, [f"{size:,}" for size in sizes], rotation=60, fontsize=7)
        column[1].xaxis.set_minor_formatter(NullFormatter())
    axes[0, 0].set_ylabel("processor seconds")
    axes[1, 0].set_ylabel("NLPP, nats a row")
    shown = {label: line for panel in axes.flat for line, label in zip(*panel.get_legend_handles_labels(), strict=True)}
    figure.legend(shown.values(), shown.keys(), loc="outside upper center", ncols=len(shown), fontsize=8, frameon=False)
    figure.savefig(picture, dpi=110)


def print_table(out: Path) -> None:
    """All finished fits, and by rows the median ratio of our processor time to everybody else's."""
    found = {(r["rows"], r["name"], r["model"]): r for r in (json.loads(path.read_text()) for path in sorted(out.glob("*.json")))}
    models = list(dict.fromkeys(model for _, _, model in found))
    print("\n| rows | data | " + " | ".join(f"{model}: s / NLPP / RMSE" for model in models) + " |")
    print("|---|---|" + "---|" * len(models))
    for rows, name in sorted({key[:2] for key in found}):
        cells = [_cell(found.get((rows, name, model))) for model in models]
        print(f"| {rows:,} | {name} | " + " | ".join(cells) + " |")
    for other in models:
        for rows in sorted({key[0] for key in found}) if other != "ours" else ():
            pairs = [
                (found[rows, n, "ours"], found[rows, n, other])
                for r, n, m in found
                if (r, m) == (rows, other) and (r, n, "ours") in found
            ]
            if pairs:
                ratio = float(np.median([mine["seconds"] / theirs["seconds"] for mine, theirs in pairs]))
                print(f"{rows:,} rows: {ratio:.2f} of the processor time of {other} (median of {len(pairs)} sets)")


def _cell(result: dict | None) -> str:
    if result is None:
        return "-"
    density = "-" if result["nlpp"] is None else f"{result['nlpp']:.3f}"
    return f"{result['seconds']:.1f} / {density} / {result['rmse']:.4f}"


if __name__ == "__main__":
    main()
