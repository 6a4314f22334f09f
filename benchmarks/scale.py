"""The bars for many rows, each printed beside what was measured.

    python benchmarks/scale.py                          # everything: three quarters of an hour on 2 idle cores
    python benchmarks/scale.py evaluation ranks         # some of it
    python benchmarks/scale.py evaluation --largest 100000 --inducing 256
    python benchmarks/scale.py kin40k --minutes 5       # beside it, a GPyTorch SVGP with a deep kernel, given the same time

evaluation: time of one bound with gradient against N, its exponent, peak memory, and the time of a matrix product with as many operations.
ranks: the same sum shared by 1, 2 and 4 processes with one thread each. million: 1,000,000 x 8 memory-mapped rows through the default, with a time budget.
uci: 300 inducing points against the exact model. kin40k: accuracy in ten minutes (of the half an hour that the bar allows). The last two need the recorded data sets.
Every measurement runs in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

PARTS = ("evaluation", "ranks", "million", "uci", "kin40k")
SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=[], metavar="part", help=", ".join(PARTS))
    parser.add_argument("--largest", type=int, default=1_000_000, help="most rows")
    parser.add_argument("--inducing", type=int, default=512)
    parser.add_argument("--budget", type=float, default=300.0, help="seconds, for million")
    parser.add_argument("--minutes", type=float, default=10.0, help="for kin40k, each method")
    parser.add_argument("--data", type=Path, default=SHARED, help="the folder of the recorded data sets")
    parser.add_argument(
        "--cpu-time", action="store_true", help="kin40k: count processor seconds (2 a second), for a machine that others use too"
    )
    parser.add_argument("--inside", nargs="*", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside is not None:
        print("RESULT " + json.dumps(INSIDE[given.inside[0]](*given.inside[1:])))
        return
    for part in given.parts or PARTS:
        if part not in PARTS:
            parser.error(f"unknown part {part}; there are {', '.join(PARTS)}")
        SHOWN[part](given)


def in_a_process(*arguments: object, threads: int = 2, processes: int = 0) -> dict:
    """The result of one of INSIDE in a fresh process, or, with processes > 0, of the first of as many that torchrun starts."""
    environment = os.environ | {name: str(threads) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
    launcher = ["-m", "torch.distributed.run", f"--nproc-per-node={processes}", "--master-port", "29517"] if processes else []
    command = [sys.executable, *launcher, __file__, "--inside", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    _, found, result = done.stdout.partition("RESULT {")  # processes that write at the same time may share a line
    if done.returncode or not found:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-3000:]}")
    return json.JSONDecoder().raw_decode("{" + result)[0]


def peak_bytes() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


# --------------------------------------------------------------------------------------------------- time, memory and ranks


def written_rows(folder: str, N: int, D: int = 8) -> None:
    """N rows of a smooth function, memory-mapped."""
    rng = np.random.default_rng(0)
    X = np.lib.format.open_memmap(f"{folder}/X.npy", "w+", np.float64, (N, D))
    y = np.lib.format.open_memmap(f"{folder}/y.npy", "w+", np.float64, (N,))
    for start in range(0, N, 100_000):
        part = slice(start, min(start + 100_000, N))
        X[part] = rng.normal(size=(part.stop - part.start, D))
        y[part] = (
            np.sin(2 * X[part, 0]) * X[part, 1] + np.tanh(X[part, 2] + X[part, 3]) + 0.1 * rng.normal(size=part.stop - part.start)
        )
    X.flush()
    y.flush()


def objective(folder: str, N: int, J: int):
    """The bound of [x, tanh network 8-64-32-4(x)] on N mapped rows with J inducing points, and a point to evaluate it at."""
    import torch

    from manifoldgp.data.sources import ArrayRows, survey
    from manifoldgp.features import MLP, Concatenate, Identity
    from manifoldgp.model import Model
    from manifoldgp.parameters import Layout, Parameter, constant_law, map_leaves, nest
    from manifoldgp.training.inducing_placement import greedy_inducing_points
    from manifoldgp.training.model_rows import StreamedRows
    from manifoldgp.training.processes import current_ranks
    from manifoldgp.training.sparse_objective import BoundObjective

    X, y = (np.load(f"{folder}/{name}.npy", mmap_mode="r") for name in "Xy")
    source = ArrayRows(X[:N], y[:N])
    rows = StreamedRows(source, *survey(source, 0, min(N, 20_000)).standardizers(X.shape[1]), rows=N, ranks=current_ranks())
    model, few = Model(Concatenate(Identity(), MLP((64, 32, 4), ("tanh", "tanh", "identity")))), rows.sample(4000, 0)
    layout, drawn = model.draw(few, torch.Generator().manual_seed(0), 1)
    values = map_leaves(lambda leaf: leaf[0], drawn)
    H = model.features(values["features"], few.X)
    Z = H[greedy_inducing_points(model, values, H, J)].clone()
    layout = Layout({**nest(dict(layout.parameters)), "inducing": {"Z": Parameter(tuple(Z.shape), constant_law(Z))}})
    return BoundObjective(model, layout, {}, rows, kept_bytes=0), layout.flatten({**values, "inducing": {"Z": Z}}).numpy()


def timed_evaluation(folder: str, N: str, J: str) -> dict:
    """Seconds of an evaluation and of matrix products with as many operations, interleaved; medians, and peak memory.

    cpu_*: processor seconds, which say more where others use the machine too.
    """
    import torch

    from manifoldgp._system.threads import training_threads

    bound, theta = objective(folder, int(N), int(J))
    count, size, chunk = int(N), int(J), 2000
    # A = L⁻¹ K in both passes and the sum of A Aᵀ skip zero blocks (5/8 of a product); E A is whole.
    products = (3 * 0.625 + 1.0) * count / chunk + 9 * size / chunk  # and about nine J x J x J products
    G, K = torch.randn(size, size, dtype=torch.float64), torch.randn(size, chunk, dtype=torch.float64)
    taken = {"seconds": [], "gemm": [], "cpu_seconds": [], "cpu_gemm": []}
    with training_threads() as workers:
        bound.workers = workers

        def measured(name: str, function, share: float = 1.0) -> None:
            wall, cpu = time.perf_counter(), time.process_time()
            function()
            taken[name].append(share * (time.perf_counter() - wall))
            taken[f"cpu_{name}"].append(share * (time.process_time() - cpu))

        repeats = max(2 * workers.count, min(int(products), 60))
        several = list(range(repeats))
        bound.evaluate(theta)
        for _ in range(3 if count > 200_000 else 5):
            measured("seconds", lambda: bound.evaluate(theta))

            measured("gemm", lambda: workers.map(lambda _: torch.mm(G, K), several, large=False), products / repeats)
    medians = {name: float(np.median(values)) for name, values in taken.items()}
    ratio = float(np.median(np.array(taken["cpu_seconds"]) / np.array(taken["cpu_gemm"])))
    return {**medians, "ratio": ratio, "peak": peak_bytes()}


def show_evaluation(given: argparse.Namespace) -> None:
    sizes = [N for N in (10_000, 31_623, 100_000, 316_228, 1_000_000) if given.largest >= N]
    print(f"\nBound and gradient, J = {given.inducing}, 8 inputs, memory-mapped rows, 2 threads\n")
    print(f"{'N':>10} {'seconds':>9} {'processor s':>12} {'GEMM':>9} {'ratio':>7} {'peak MiB':>9}")
    seconds, cpu = [], []
    with tempfile.TemporaryDirectory() as folder:
        written_rows(folder, max(sizes))
        for N in sizes:
            r = in_a_process("evaluation", folder, N, given.inducing)
            seconds.append(r["seconds"])
            cpu.append(r["cpu_seconds"])
            line = f"{N:>10,} {r['seconds']:9.2f} {r['cpu_seconds']:12.2f} {r['cpu_gemm']:9.2f} {r['ratio']:6.2f}x {r['peak'] / 2**20:9.0f}"
            print(line, flush=True)
    wall, processor = (float(np.polyfit(np.log(sizes), np.log(values), 1)[0]) for values in (seconds, cpu))
    print(f"\nexponent {wall:.3f} of the time, {processor:.3f} of processor time (bar: 0.95 to 1.05)")
    print("ratio: processor time over that of matrix products with as many operations (bar: 1.5)")


def ranked_evaluation(folder: str, N: str, J: str) -> dict | None:
    """Median seconds of an evaluation shared by the processes that torchrun started, and the value."""
    import torch

    from manifoldgp.training.processes import joined_ranks

    torch.set_num_threads(1)
    with joined_ranks() as ranks:
        bound, theta = objective(folder, int(N), int(J))
        seconds = []
        for _ in range(4):
            ranks.gather(None)
            begin = time.perf_counter()
            value, gradient = bound.evaluate(theta)
            seconds.append(time.perf_counter() - begin)
        return (
            {"seconds": float(np.median(seconds[1:])), "value": value, "slope": float(gradient @ gradient)}
            if ranks.first
            else None
        )


def show_ranks(given: argparse.Namespace) -> None:
    N = min(100_000, given.largest)
    print(f"\nOne evaluation of {N:,} rows, J = {given.inducing}, shared by processes with one thread each\n")
    with tempfile.TemporaryDirectory() as folder:
        written_rows(folder, N)
        rounds = [
            {n: in_a_process("ranks", folder, N, given.inducing, threads=1, processes=n) for n in (1, 2, 4)} for _ in range(3)
        ]
    results = rounds[0]
    for n in (1, 2, 4):
        seconds = float(np.median([r[n]["seconds"] for r in rounds]))
        speed = float(np.median([r[1]["seconds"] / r[n]["seconds"] for r in rounds]))
        apart = abs(results[n]["value"] / results[1]["value"] - 1), abs(results[n]["slope"] / results[1]["slope"] - 1)
        print(f"{n} processes: {seconds:7.2f} s, {speed:4.2f}x; value and gradient differ from one process's by {max(apart):.1e}")
    print("bar: 2 processes at least 1.7x faster than 1 on 2 cores; 1, 2 and 4 agree")


def million(folder: str, N: str, seconds: str) -> dict:
    """Train the default on N mapped rows through the estimator, within its budget."""
    from manifoldgp import ManifoldGPRegressor

    X, y = (np.load(f"{folder}/{name}.npy", mmap_mode="r") for name in "Xy")
    begin = time.perf_counter()
    model = ManifoldGPRegressor(time_budget=float(seconds)).fit(X, y)
    taken = time.perf_counter() - begin
    few = slice(None, None, max(1, len(X) // 5000))
    error = model.predict(np.asarray(X[few])) - np.asarray(y[few])
    groups = {name: float(w) for name, w in zip(model.held_out_[0].groups, model.held_out_[0].weights.sum(1), strict=True)}
    seen = model.ensembles_[0].blocks[0].rows
    return {"seconds": taken, "peak": peak_bytes(), "rmse": float(np.sqrt(np.mean(error**2))), "rows": seen, "groups": groups}


def show_million(given: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        written_rows(folder, given.largest)
        r = in_a_process("million", folder, given.largest, given.budget)
    shares = ", ".join(f"{name} {100 * weight:.0f} %" for name, weight in r["groups"].items() if weight > 0.005)
    print(
        f"\n{r['rows']:,} of {given.largest:,} x 8 mapped rows, the default with time_budget={given.budget:g}: {r['seconds']:.0f} s (bar: {1.2 * given.budget:.0f}), "
        f"peak {r['peak'] / 2**30:.2f} GiB (bar: 2), RMSE {r['rmse']:.3f} ({shares})"
    )


# ----------------------------------------------------------------------------------------------------------------- accuracy


def uci(path: str, inducing: str) -> dict:
    """Test NLPP of a plain GP, exact and sparse, on the first standard split."""
    from manifoldgp import GPRegressor, Sparse

    data = np.load(path)
    X, y, test = data["X"], data["y"].ravel(), data["test_mask"][:, 0].astype(bool)
    scores = {}
    for name, method in (("exact", "exact"), ("sparse", Sparse(inducing=int(inducing)))):
        model = GPRegressor(method=method, restarts=3).fit(X[~test], y[~test])
        scores[name] = float(-model.log_predictive_density(X[test], y[test]).mean())
    return {**scores, "rows": int((~test).sum())}


def show_uci(given: argparse.Namespace) -> None:
    print("\nTest NLPP with 300 inducing points against the exact model (bar: within 0.02 on three sets)\n")
    for name in ("boston", "concrete", "energy", "wine"):
        path = given.data / f"{name}.npz"
        if not path.is_file():
            print(f"{name:>10}: skipped, {path} is not there")
            continue
        r = in_a_process("uci", path, 300)
        print(
            f"{name:>10}: {r['rows']:5d} rows, exact {r['exact']:7.3f}, sparse {r['sparse']:7.3f}, difference {r['sparse'] - r['exact']:+.3f}",
            flush=True,
        )


def kin40k_rows(path: str) -> tuple[np.ndarray, ...]:
    """Training and test rows of fold 0, standardised by the training rows."""
    data = np.load(path)
    X, y, test = data["X"], data["y"].ravel(), data["test_mask"][:, 0].astype(bool)
    X = (X - X[~test].mean(0)) / X[~test].std(0)
    y = (y - y[~test].mean()) / y[~test].std()
    return X[~test], y[~test], X[test], y[test]


def _clock(cpu: str):
    return (lambda: time.process_time() / 2) if cpu == "True" else time.perf_counter


def kin40k_ours(path: str, minutes: str, inducing: str, cpu: str) -> dict:
    """[x, tanh network 8-128-64-8(x)] through the estimator."""
    from manifoldgp import MLP, Concatenate, Identity, ManifoldGPRegressor, Single, Sparse

    X, y, X_test, y_test = kin40k_rows(path)
    budget, clock = 60 * float(minutes), _clock(cpu)
    begin = clock()
    model = ManifoldGPRegressor(
        Concatenate(Identity(), MLP((128, 64, 8), ("tanh", "tanh", "identity"))),
        averaging=Single(restarts=1, max_iter=1500 if cpu == "True" else 100_000),
        method=Sparse(inducing=int(inducing)),
        time_budget=None if cpu == "True" else budget,
        callback=lambda *_: clock() - begin > budget,
    ).fit(X, y)
    seconds = clock() - begin
    rmse = float(np.sqrt(np.mean((model.predict(X_test) - y_test) ** 2)))
    nlpp = float(-model.log_predictive_density(X_test, y_test).mean())
    return {"rmse": rmse, "nlpp": nlpp, "seconds": seconds, "evaluations": int(model.starts_["evaluations"].sum())}


def kin40k_default(path: str, minutes: str, inducing: str, cpu: str) -> dict:
    """The default, as a user types it; where processor seconds are counted it has no budget."""
    from manifoldgp import ManifoldGPRegressor

    X, y, X_test, y_test = kin40k_rows(path)
    clock = _clock(cpu)
    begin = clock()
    model = ManifoldGPRegressor(time_budget=None if cpu == "True" else 60 * float(minutes)).fit(X, y)
    seconds = clock() - begin
    rmse = float(np.sqrt(np.mean((model.predict(X_test) - y_test) ** 2)))
    nlpp = float(-model.log_predictive_density(X_test, y_test).mean())
    return {"rmse": rmse, "nlpp": nlpp, "seconds": seconds, "evaluations": int(model.starts_["evaluations"].sum())}


def kin40k_gpytorch(path: str, minutes: str, inducing: str, cpu: str) -> dict:
    """GPyTorch's stochastic variational GP on the same network's features (float32, minibatches of 1024, Adam): its documented way."""
    import gpytorch
    import torch

    X, y, X_test, y_test = (torch.from_numpy(a).float() for a in kin40k_rows(path))
    torch.manual_seed(0)

    class Net(torch.nn.Sequential):
        def forward(self, x):
            return torch.cat([x, super().forward(x)], -1)

    net = Net(torch.nn.Linear(8, 128), torch.nn.Tanh(), torch.nn.Linear(128, 64), torch.nn.Tanh(), torch.nn.Linear(64, 8))

    class SVGP(gpytorch.models.ApproximateGP):
        def __init__(self, Z):
            variational = gpytorch.variational.CholeskyVariationalDistribution(len(Z))
            super().__init__(gpytorch.variational.VariationalStrategy(self, Z, variational, learn_inducing_locations=True))
            self.mean_module = gpytorch.means.ZeroMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=16))

        def forward(self, h):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(h), self.covar_module(h))

    with torch.no_grad():
        Z = net(X[torch.randperm(len(X))[: int(inducing)]])
    model, likelihood = SVGP(Z), gpytorch.likelihoods.GaussianLikelihood()
    loss = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(X))
    parameters = [*net.parameters(), *model.parameters(), *likelihood.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=0.01)
    budget, clock, steps = 60 * float(minutes), _clock(cpu), 0
    begin = clock()
    while (spent := clock() - begin) < budget:
        for group in optimizer.param_groups:  # to zero along a cosine, by the time spent
            group["lr"] = 0.01 * 0.5 * (1 + math.cos(math.pi * spent / budget)) + 1e-5
        batch = torch.randint(len(X), (1024,))
        optimizer.zero_grad()
        (-loss(model(net(X[batch])), y[batch])).backward()
        optimizer.step()
        steps += 1
    model.eval()
    likelihood.eval()
    with torch.no_grad():
        predicted = likelihood(model(net(X_test)))
        error, variance = (predicted.mean - y_test).double(), predicted.variance.double()
    nlpp = float((0.5 * (error**2 / variance + variance.log() + math.log(2 * math.pi))).mean())
    return {"rmse": float(error.square().mean().sqrt()), "nlpp": nlpp, "seconds": clock() - begin, "evaluations": steps}


def show_kin40k(given: argparse.Namespace) -> None:
    path = given.data / "kin40k.npz"
    if not path.is_file():
        print(f"\nkin40k: skipped, {path} is not there")
        return
    unit = "processor-seconds / 2" if given.cpu_time else "s"
    print("\nkin40k, 36,000 / 4,000 rows, fold 0 (bars: RMSE 0.035 and NLPP -1.9 within 30 minutes on 2 cores)\n")
    parts = (
        ("the default", "kin40k-default"),
        ("one network", "kin40k-ours"),
        ("GPyTorch SVGP, same network", "kin40k-gpytorch"),
    )
    for name, part in parts:
        r = in_a_process(part, path, given.minutes, given.inducing, given.cpu_time)
        print(
            f"{name:>28}: RMSE {r['rmse']:.4f}, NLPP {r['nlpp']:.3f}, {r['seconds']:.0f} {unit}, {r['evaluations']:,} evaluations",
            flush=True,
        )


INSIDE = {
    "evaluation": timed_evaluation,
    "ranks": ranked_evaluation,
    "million": million,
    "uci": uci,
    "kin40k-default": kin40k_default,
    "kin40k-ours": kin40k_ours,
    "kin40k-gpytorch": kin40k_gpytorch,
}
SHOWN = {"evaluation": show_evaluation, "ranks": show_ranks, "million": show_million, "uci": show_uci, "kin40k": show_kin40k}

if __name__ == "__main__":
    main()
