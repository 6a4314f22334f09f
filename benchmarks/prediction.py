"""Latency of predictions on one thread: the NumPy predictor and ONNX against GPyTorch and scikit-learn, in one process, interleaved.

    python benchmarks/prediction.py                  # N = 400, a single model [2-10-3]; a Markdown table with the bars
    python benchmarks/prediction.py --no-stack       # without fitting the default stack
    python benchmarks/prediction.py --realtime       # Linux, as root: undisturbed by other processes while it measures
    python benchmarks/prediction.py --bulk elevators pol --rows 5000 --models DIR    # 100,000 rows by mgp predict: rows a second and memory; fitted models are kept in DIR

Every contestant predicts the same points, a few calls at a time, in turn. "median" is over all turns; "quiet" is the fastest tenth of the
turns, what a machine that does nothing else would show. Ratios are medians of ratios within a turn.
GPyTorch's model has the same network and kernel; scikit-learn's is a plain GP, with less to compute.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"

import numpy as np  # noqa: E402

Call = Callable[[np.ndarray], object]
_REALTIME = False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=400, help="training rows N")
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--no-stack", action="store_true")
    parser.add_argument("--realtime", action="store_true")
    parser.add_argument("--bulk", nargs="+", metavar="SET", help="many rows instead, of the default on these data sets")
    parser.add_argument(
        "--models", type=Path, default=Path("benchmarks/results/bulk"), help="where fitted models of --bulk are kept"
    )
    arguments = parser.parse_args()
    if arguments.bulk:
        print(
            "| data, rows | members | model file MB | exact rows/s | program MB | made in | program rows/s | NLPP lost | RMSE exact, program | mean off, std off (rms; at most) |"
            " mgp predict rows/s | peak MiB |\n|---|---|---|---|---|---|---|---|---|---|---|---|"
        )
        for name in arguments.bulk:
            bulk(name, arguments.rows, arguments.models)
        return
    global _REALTIME
    _REALTIME = arguments.realtime
    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # optimisers that were stopped on purpose
    X, y = make_data(arguments.rows)
    new = make_data(1000, seed=1)[0]
    from manifoldgp import Single

    model = fit(X, y, Single(restarts=2, max_iter=50))
    load = f", load average {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    print(f"N = {len(X)}, MLP [2-10-3], SE-ARD, float64, one thread{load}\n")
    one_point(model, X, y, new, arguments.turns)
    batch(model, new, max(10, arguments.turns // 5))
    sizes("Single model", model)
    if not arguments.no_stack:
        stack(X, y, new, max(20, arguments.turns // 2))


def make_data(rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 2))
    return X, np.sin(3 * X[:, 0]) + np.abs(X[:, 1]) + 0.1 * rng.normal(size=rows)


def fit(X: np.ndarray, y: np.ndarray, averaging="stack"):
    from manifoldgp import ManifoldGPRegressor

    return ManifoldGPRegressor((10, 3), averaging=averaging).fit(X, y)


def one_point(model, X: np.ndarray, y: np.ndarray, new: np.ndarray, turns: int) -> None:
    p = model.predictor()
    peers = gpytorch_calls(X, y) | scikit_learn_calls(X, y) | onnx_calls(model)
    for what, mean_only, bar in (("mean", True, 40.0), ("mean and std", False, 120.0)):
        calls: dict[str, Call] = {
            "Predictor (NumPy)": (lambda x: p(x)) if mean_only else (lambda x: p(x, return_std=True)),
            "model.predict (PyTorch)": (lambda x: model.predict(x))
            if mean_only
            else (lambda x: model.predict(x, return_std=True)),
        }
        calls |= {name: both[0 if mean_only else 1] for name, both in peers.items() if both[0 if mean_only else 1] is not None}
        times = interleaved(calls, [new[i : i + 1].copy() for i in range(20)], turns)
        ours = times["Predictor (NumPy)"]
        print(f"| one point, {what} | quiet µs | median µs | ratio to Predictor |\n|---|---|---|---|")
        for name, t in times.items():
            print(f"| {name} | {1e6 * np.quantile(t, 0.1):.1f} | {1e6 * np.median(t):.1f} | {np.median(t / ours):.1f} |")
        print()
        checks = [("at most", 1e6 * np.quantile(ours, 0.1), bar, "µs")]
        for name, factor in (("GPyTorch", 20), ("scikit-learn", 5)):
            best = min((n for n in times if n.startswith(name)), key=lambda n: float(np.median(times[n])), default=None)
            if best:
                checks.append((f"1/{factor} of {best}: ratio", np.median(times[best] / ours), factor, "x"))
        (_, value, limit, _), *ratios = checks
        print(f"- bar: at most {limit:.0f} µs; quiet {value:.1f} µs: {'met' if value <= limit else 'MISSED'}")
        for text, value, limit, _ in ratios:
            print(f"- bar: at most {text} {value:.1f}: {'met' if value >= limit else 'MISSED'}")
        print()


def batch(model, new: np.ndarray, turns: int) -> None:
    """1000 points at once against the products that they need: Z Tᵀ, and L⁻¹ K as a triangular solve or as a product."""
    from scipy.linalg import blas

    block = model.ensembles_[0].blocks[0]
    L, H = block.L[0].numpy(), block.H[0].numpy()
    N, inverse = len(L), np.linalg.inv(block.L[0].numpy())
    F, p = np.asfortranarray(L), model.predictor()
    rng = np.random.default_rng(0)
    K, Z, T = rng.random((len(new), N)), rng.random((len(new), H.shape[1])), np.ascontiguousarray(H.T)
    K_columns, out = np.asfortranarray(K.T), np.empty((len(new), N))

    def trsm(_):
        np.matmul(Z, T, out=out)
        blas.dtrsm(1.0, F, K_columns, lower=1)

    def gemm(_):
        np.matmul(Z, T, out=out)
        np.matmul(K, inverse.T, out=out)

    calls: dict[str, Call] = {
        "Predictor, mean and std": lambda x: p(x, return_std=True),
        "GEMM + TRSM": trsm,
        "GEMM + GEMM with L⁻¹": gemm,
        "model.predict (PyTorch), mean and std": lambda x: model.predict(x, return_std=True),
    }
    calls |= {f"{name}, mean and std": call for name, (_, call) in onnx_calls(model).items()}
    times = interleaved(calls, [new], turns)
    ours = times["Predictor, mean and std"]
    print(f"| {len(new)} points | quiet ms | median ms | ratio to Predictor |\n|---|---|---|---|")
    for name, t in times.items():
        print(f"| {name} | {1e3 * np.quantile(t, 0.1):.2f} | {1e3 * np.median(t):.2f} | {np.median(t / ours):.2f} |")
    product, solve = (float(np.median(ours / times[name])) for name in ("GEMM + GEMM with L⁻¹", "GEMM + TRSM"))
    print(
        f"\n- bar: at most 1.3 of the products it needs (NumPy has no triangular solve); {product:.2f}: {'met' if product <= 1.3 else 'MISSED'}. "
        f"SciPy's TRSM does half of the arithmetic: {solve:.2f} of that\n"
    )


def stack(X: np.ndarray, y: np.ndarray, new: np.ndarray, turns: int) -> None:
    """The default estimator: a stack of many mappings."""
    begin = time.perf_counter()
    model = fit(X, y)
    members = sum(block.members for block in model.ensembles_[0].blocks)
    print(f"Default stack: {members} members, fitted in {time.perf_counter() - begin:.0f} s\n")
    p = model.predictor()
    calls: dict[str, Call] = {"Predictor, mean": lambda x: p(x), "Predictor, mean and std": lambda x: p(x, return_std=True)}
    calls |= {f"{name}, mean and std": call for name, (_, call) in onnx_calls(model).items()}
    calls["model.predict (PyTorch), mean and std"] = lambda x: model.predict(x, return_std=True)
    times = interleaved(calls, [new[i : i + 1].copy() for i in range(5)], turns)
    print("| one point, default stack | quiet µs | median µs |\n|---|---|---|")
    for name, t in times.items():
        print(f"| {name} | {1e6 * np.quantile(t, 0.1):.0f} | {1e6 * np.median(t):.0f} |")
    print()
    sizes("Default stack", model)


def bulk(name: str, rows: int, models: Path) -> None:
    """One row of the table: the default stack on so many rows of a data set, by itself and by its quick program, and ``mgp predict`` on 100,000 rows. Rows a second are of one core's time."""
    import sizes as data_sets
    from manifoldgp import ManifoldGPRegressor, load
    from manifoldgp.cli._fitted import MOST_LOST, SMALL_PROGRAM
    from manifoldgp.data.columns import Column
    from manifoldgp.data.encoding import TableEncoding
    from manifoldgp.estimators import model_file
    from manifoldgp.estimators.program_targets import small_predictor

    X, y, X_test, y_test = data_sets.split(name, rows)
    models.mkdir(parents=True, exist_ok=True)
    kept = models / f"{name}-{rows}.mgp"
    if not kept.exists():
        ManifoldGPRegressor().fit(X, y).save(kept)
    model = load(kept)
    members = sum(block.members for block in model.ensembles_[0].blocks)
    few = slice(0, 1000)
    begin = time.process_time()
    mean, std = model.predict(X_test[few], return_std=True)
    said = [
        f"{name}, {rows:,}",
        str(members),
        f"{kept.stat().st_size / 1e6:.1f}",
        f"{len(mean) / (time.process_time() - begin):,.0f}",
    ]
    begin = time.process_time()
    program = small_predictor(model, SMALL_PROGRAM, MOST_LOST)
    took = time.process_time() - begin
    many = np.tile(X_test, (-(-100_000 // len(X_test)), 1))[:100_000]
    model.table_encoding_ = TableEncoding(tuple(Column(f"x{d}") for d in range(X.shape[1])), ("y",))
    with tempfile.TemporaryDirectory() as folder:
        model_file.save(model, Path(folder, "model.mgp"), None, program)
        np.savetxt(Path(folder, "new.csv"), many, "%.9g", ",", header=",".join(f"x{d}" for d in range(X.shape[1])), comments="")
        rows_a_second, peak = _mgp_predict(Path(folder))
    at_the_end = f"{rows_a_second:,.0f} | {peak:.0f} |"
    if program is None:
        print(f"| {' | '.join(said)} | none | {took:.0f} s | | | | | {at_the_end}", flush=True)
        return
    begin = time.process_time()
    program(many[:20_000], return_std=True)
    rate = 20_000 / (time.process_time() - begin)
    other, spread = program(X_test[few], return_std=True)
    densities = program.mixtures(X_test[few])[0].log_density(y_test[few])
    lost = float(np.mean(model.log_predictive_density(X_test[few], y_test[few]) - densities))
    off = [(np.sqrt(np.mean(d**2)), d.max()) for d in (np.abs(other - mean) / std, np.abs(spread / std - 1.0))]
    rmse = [np.sqrt(np.mean((m - y_test[few]) ** 2)) for m in (mean, other)]
    deviations = "; ".join(f"{100 * rms:.2g} %, {100 * most:.2g} %" for rms, most in off)
    said += [
        f"{program.nbytes / 1e6:.2f}",
        f"{took:.0f} s",
        f"{rate:,.0f}",
        f"{lost:.4f}",
        f"{rmse[0]:.4f}, {rmse[1]:.4f}",
        deviations,
    ]
    print(f"| {' | '.join(said)} | {at_the_end}", flush=True)


def _mgp_predict(folder: Path) -> tuple[float, float]:
    """100,000 rows by the command, in a process of its own: rows a second while it predicts, quantiles included, in processor time; and its peak memory in MiB."""
    import json
    import subprocess
    import sys

    code = (
        "import json, re, sys, time; from pathlib import Path; from manifoldgp.cli import predict; began = []; whole = predict.predicted_columns\n"
        "def timed(*given):\n    t = time.process_time(); found = whole(*given); began.append(time.process_time() - t); return found\n"
        "predict.predicted_columns = timed\n"
        "predict.predict(*sys.argv[1:3], out=sys.argv[3], quiet=True)\n"
        "peak = re.search(r'VmHWM:\\s*(\\d+)', Path('/proc/self/status').read_text())\n"
        "print(json.dumps([began[0], int(peak[1]) / 1024]))"
    )
    files = [str(folder / name) for name in ("model.mgp", "new.csv", "out.csv")]
    done = subprocess.run([sys.executable, "-c", code, *files], capture_output=True, text=True, check=True)
    seconds, peak = json.loads(done.stdout.splitlines()[-1])
    return 100_000 / seconds, peak


def sizes(title: str, model) -> None:
    """Bytes of the predictor in memory and of all files."""
    p = model.predictor()
    with tempfile.TemporaryDirectory() as folder:
        p.save(Path(folder, "model.npz"))
        model.save(Path(folder, "model.mgp"))
        files = {"model.npz": "Predictor.save", "model.mgp": "model.save"}
        if _has("onnx"):
            from manifoldgp.predictor.onnx import export_onnx

            for dtype in ("float64", "float32"):
                export_onnx(model, Path(folder, f"{dtype}.onnx"), dtype=dtype)
                files[f"{dtype}.onnx"] = f"export_onnx, {dtype}"
        print(f"| {title} | bytes |\n|---|---|\n| Predictor in memory | {p.nbytes:,} |")
        for name, text in files.items():
            print(f"| {text} | {Path(folder, name).stat().st_size:,} |")
    print()


def interleaved(calls: dict[str, Call], points: list[np.ndarray], turns: int) -> dict[str, np.ndarray]:
    """Seconds a call (turns,): in every turn each contestant predicts some points in a row, and the median of its calls counts.

    All points, or as many as take a slow contestant 20 ms; at least three.
    """
    times: dict[str, list[float]] = {name: [] for name in calls}
    share = dict.fromkeys(calls, 3)
    with _undisturbed():
        _take_turns(calls, points, turns, share, times)
    return {name: np.array(t) for name, t in times.items()}


def _take_turns(
    calls: dict[str, Call], points: list[np.ndarray], turns: int, share: dict[str, int], times: dict[str, list[float]]
) -> None:
    for turn in range(turns + 3):
        for name, call in calls.items():
            each = []
            for x in points[: share[name]]:
                begin = time.perf_counter()
                call(x)
                each.append(time.perf_counter() - begin)
            share[name] = max(3, int(0.02 / np.median(each)))
            if turn >= 3:  # the first turns fill caches
                times[name].append(float(np.median(each)))


@contextmanager
def _undisturbed() -> Iterator[None]:
    """With --realtime: a priority above that of all ordinary processes."""
    if not _REALTIME:
        yield
        return
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
    try:
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def _has(package: str) -> bool:
    from importlib.util import find_spec

    return find_spec(package) is not None


def onnx_calls(model) -> dict[str, tuple[Call | None, Call]]:
    """onnxruntime has mean and std in one graph; it is asked for one of them, or for both."""
    if not _has("onnxruntime"):
        return {}
    import onnxruntime

    from manifoldgp.predictor.onnx import export_onnx

    found = {}
    for dtype in ("float64", "float32"):
        with tempfile.TemporaryDirectory() as folder:
            export_onnx(model, Path(folder, "model.onnx"), dtype=dtype)
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = options.inter_op_num_threads = 1
            session = onnxruntime.InferenceSession(
                Path(folder, "model.onnx").read_bytes(), options, providers=["CPUExecutionProvider"]
            )

        def mean(x, session=session, dtype=dtype):
            return session.run(["mean"], {"X": x.astype(dtype, copy=False)})

        def both(x, session=session, dtype=dtype):
            return session.run(["mean", "std"], {"X": x.astype(dtype, copy=False)})

        found[f"onnxruntime, {dtype}"] = (mean, both)
    return found


def scikit_learn_calls(X: np.ndarray, y: np.ndarray) -> dict[str, tuple[Call, Call]]:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    kernel = ConstantKernel(1.0) * RBF([1.0, 1.0]) + WhiteKernel(0.01)
    gp = GaussianProcessRegressor(kernel, optimizer=None).fit(X, y)
    return {"scikit-learn, plain GP": (lambda x: gp.predict(x), lambda x: gp.predict(x, return_std=True))}


def gpytorch_calls(X: np.ndarray, y: np.ndarray) -> dict[str, tuple[Call, Call]]:
    if not _has("gpytorch"):
        return {}
    import gpytorch
    import torch

    class DeepKernelGP(gpytorch.models.ExactGP):
        def __init__(self, inputs, targets, likelihood):
            super().__init__(inputs, targets, likelihood)
            layers = torch.nn.Linear(2, 10), torch.nn.Sigmoid(), torch.nn.Linear(10, 3), torch.nn.Sigmoid()
            self.net = torch.nn.Sequential(*layers)
            self.mean_module = gpytorch.means.ZeroMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=3))

        def forward(self, x):
            H = self.net(x)
            return gpytorch.distributions.MultivariateNormal(self.mean_module(H), self.covar_module(H))

    settings = gpytorch.settings

    def contestant(fast: bool) -> tuple[Call, Call]:
        likelihood = gpytorch.likelihoods.GaussianLikelihood()
        model = DeepKernelGP(torch.from_numpy(X), torch.from_numpy(y), likelihood).double().eval()
        likelihood.eval()

        def mean(x):
            with torch.no_grad(), settings.max_cholesky_size(10**6), settings.skip_posterior_variances(True):
                return model(torch.from_numpy(x)).mean.numpy()

        def both(x):
            with torch.no_grad(), settings.max_cholesky_size(10**6), settings.fast_pred_var(fast):
                predicted = likelihood(model(torch.from_numpy(x)))
                return predicted.mean.numpy(), predicted.variance.sqrt().numpy()

        return mean, both

    return {"GPyTorch": contestant(False), "GPyTorch, fast_pred_var": contestant(True)}


if __name__ == "__main__":
    main()
