"""Section c of benchmarks/robots.py: one point of a model in plain C against the NumPy predictor and against Eigen."""

from __future__ import annotations

import argparse
import ctypes
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import prediction
from bars import Bar, bar_table, table
from manifoldgp import Single
from manifoldgp.predictor import Predictor

FLAGS = {"-O3": ("-O3",), "-O3 -march=native": ("-O3", "-march=native")}
REPEATS = 20

_TIMED = """\
#include <stddef.h>
#include "model.h"
static {real} w[MODEL_GRADIENT_WORKSPACE];
void run(int what, int n, const {real} *x, {real} *out)
{{
    {real} slopes[MODEL_INPUTS];
    for (int i = 0; i < n; i++, x += MODEL_INPUTS, out += 2) {{
        if (what == 0) model_mean(x, out, w);
        else if (what == 1) model_predict(x, out, out + 1, w);
        else model_gradient(x, out, slopes, w);
    }}
}}
"""

_EIGEN = r"""
#include <Eigen/Dense>
// The products and functions of a GP's prediction, as one would write them: features, squared distances, exp, a dot product, a triangular solve.
using Matrix = Eigen::MatrixXd;
using Vector = Eigen::VectorXd;
struct Model { Matrix W1, W2, T, L; Vector b1, b2, d, e, alpha, k; double variance, scale, noise, offset; };
static Model m;
extern "C" void load(int P, int D, int Q, int N, const double *W1, const double *b1, const double *W2, const double *b2, const double *d, const double *e,
                     const double *T, const double *alpha, const double *L, double variance, double scale, double noise, double offset)
{
    m.W1 = Eigen::Map<const Matrix>(W1, P, D); m.b1 = Eigen::Map<const Vector>(b1, P);
    m.W2 = Eigen::Map<const Matrix>(W2, Q, P); m.b2 = Eigen::Map<const Vector>(b2, Q);
    m.d = Eigen::Map<const Vector>(d, Q); m.e = Eigen::Map<const Vector>(e, Q);
    m.T = Eigen::Map<const Matrix>(T, N, Q); m.alpha = Eigen::Map<const Vector>(alpha, N); m.L = Eigen::Map<const Matrix>(L, N, N);
    m.variance = variance; m.scale = scale; m.noise = noise; m.offset = offset;
    m.k.resize(N);
}
extern "C" void run(int what, int n, const double *points, double *out)
{
    for (int i = 0; i < n; i++, out += 2) {
        const Eigen::Map<const Vector> x(points + i * m.W1.cols(), m.W1.cols());
        const Vector h = (1 + (-(m.W1 * x + m.b1)).array().exp()).inverse().matrix();
        const Vector g = (1 + (-(m.W2 * h + m.b2)).array().exp()).inverse().matrix();
        const Vector z = g.cwiseProduct(m.d) + m.e;
        m.k = (-(m.T.rowwise() - z.transpose()).rowwise().squaredNorm()).array().exp();
        out[0] = m.offset + m.k.dot(m.alpha);
        if (what == 1) {
            m.k *= m.variance;
            m.L.triangularView<Eigen::Lower>().solveInPlace(m.k);
            out[1] = m.scale * std::sqrt(std::max(m.variance - m.k.squaredNorm(), 0.0) + m.noise);
        }
    }
}
"""


@dataclass(frozen=True)
class Contestant:
    """run: computes at points (n, D); what 0 is the mean, 1 with standard deviation, 2 the gradient."""

    run: Callable[[int, np.ndarray], None]
    gradient: bool = True


def show(given: argparse.Namespace) -> None:
    prediction._REALTIME = given.realtime
    X, y = prediction.make_data(given.rows)
    points = np.ascontiguousarray(prediction.make_data(REPEATS, seed=1)[0])
    with tempfile.TemporaryDirectory() as folder:
        model = prediction.fit(X, y, Single(restarts=2, max_iter=50))
        single = contestants(model.predictor(), Path(folder, "single")) | eigen(model, Path(folder))
        times = measured(single, points, given.turns)
        print(f"N = {len(X)}, MLP [2-10-3], SE-ARD, one thread; µs a point, the fastest tenth of the turns (median)\n")
        print(rows_of(times))
        print(bar_table(single_bars(times)))
        if not given.no_stack:
            stack_bars(prediction.fit(X, y), points, given.turns, Path(folder))


def stack_bars(model, points: np.ndarray, turns: int, folder: Path) -> None:
    """The default stack whole, and distilled to a loss of a thousandth of a nat."""
    p, few = model.predictor(), model.predictor(tolerance=1e-3)
    times = measured(contestants(p, folder / "stack"), points, max(20, turns // 4))
    members = int(sum((w > 0).sum() for w in model.ensembles_[0].member_weights()))
    print(f"The default stack, {members} members\n")
    print(rows_of(times))
    fastest = min((t[1] for name, t in times.items() if name.startswith("C double")), key=lambda t: float(np.quantile(t, 0.1)))
    print(bar_table([Bar("default stack in C, double, mean and std", 1e6 * float(np.quantile(fastest, 0.1)), 100.0, "µs")]))
    print(few.distilled + "\n")
    print(rows_of(measured(contestants(few, folder / "few"), points, max(20, turns // 4))))


def contestants(p: Predictor, folder: Path) -> dict[str, Contestant]:
    """C by every compiler, with both types of numbers; and NumPy, one point at a time as in a control loop."""

    def numpy(what: int, points: np.ndarray) -> None:
        for i in range(len(points)):
            p(points[i : i + 1], return_std=what == 1)

    found = {"NumPy": Contestant(numpy, gradient=False)}
    for cc in filter(shutil.which, ("gcc", "clang")):
        for title, flags in FLAGS.items():
            for dtype in ("float64", "float32") if cc == "gcc" else ("float64",):
                real = {"float64": "double", "float32": "float"}[dtype]
                found[f"C {real}, {cc} {title}"] = compiled(p, folder / f"{cc}{len(found)}", cc, flags, dtype, real)
    return found


def compiled(p: Predictor, folder: Path, cc: str, flags: tuple[str, ...], dtype: str, real: str) -> Contestant:
    folder.mkdir(parents=True)
    report = p.to_c(folder / "model.c", dtype=dtype, gradient=True)
    if cc == "gcc" and len(flags) == 1:
        print(f"{report}\nCode: {code_bytes(folder, cc)} bytes by {cc} -Os\n".replace(f"{folder}/", ""))
    (folder / "timed.c").write_text(_TIMED.format(real=real))
    subprocess.run(
        [cc, "-std=c99", *flags, "-shared", "-fPIC", "-o", "model.so", "model.c", "timed.c", "-lm"], cwd=folder, check=True
    )
    return called(ctypes.CDLL(str(folder / "model.so")), np.dtype(dtype))


def code_bytes(folder: Path, cc: str) -> int:
    subprocess.run([cc, "-std=c99", "-Os", "-c", "model.c"], cwd=folder, check=True)
    sections = subprocess.run(["size", "-A", "model.o"], cwd=folder, check=True, capture_output=True, text=True).stdout
    return sum(int(line.split()[1]) for line in sections.splitlines() if line.startswith(".text"))


def called(library: ctypes.CDLL, dtype: np.dtype) -> Contestant:
    out = np.zeros((REPEATS, 2), dtype)

    def run(what: int, points: np.ndarray) -> None:
        library.run(what, len(points), pointer(points.astype(dtype, copy=False)), pointer(out))

    return Contestant(run)


def pointer(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def eigen(model, folder: Path) -> dict[str, Contestant]:
    """The same model by Eigen; nothing where its headers or g++ are missing. What it predicts is compared first."""
    include = next((path for path in (Path("/usr/include/eigen3"), Path("/usr/local/include/eigen3")) if path.is_dir()), None)
    if include is None or not shutil.which("g++"):
        print("Eigen is not measured: its headers (Debian: libeigen3-dev) or g++ are missing.\n")
        return {}
    (folder / "eigen.cpp").write_text(_EIGEN)
    found = {}
    for title, flags in FLAGS.items():
        name = f"eigen{len(found)}.so"
        command = ["g++", "-std=c++17", "-DNDEBUG", *flags, f"-I{include}", "-shared", "-fPIC", "-o", name, "eigen.cpp"]
        subprocess.run(command, cwd=folder, check=True)
        library = ctypes.CDLL(str(folder / name))
        load_eigen(library, model)
        found[f"Eigen double, g++ {title}"] = Contestant(called(library, np.dtype(float)).run, gradient=False)
    return found


def load_eigen(library: ctypes.CDLL, model) -> None:
    """Hands over the numbers that the predictor's program has, but L itself in place of its inverse."""
    program, (ensemble,) = model.predictor().program, model.ensembles_
    steps = {}
    for step in program.instructions:
        constants = [program.constants[slot] for slot in step.inputs if slot in program.constants]
        steps.setdefault(step.operation, []).append(constants)
    (W1, b1), (W2, b2) = steps["affine"]
    (d, e), T, (alpha,) = steps["scale_shift"][0], steps["squared_exponential"][0][0], steps["weighted"][0]
    block = ensemble.blocks[0]
    kernel = float(block.values["kernel"]["variance"][0])
    arrays = [np.asfortranarray(A, dtype=float) for A in (W1.T, b1, W2.T, b2, d, e, T.T, alpha, block.L[0].numpy())]
    numbers = [kernel, ensemble.scale, float(block.noise_variance()[0]), ensemble.offset]
    sizes = [W1.shape[1], W1.shape[0], W2.shape[1], T.shape[1]]
    library.load(*map(ctypes.c_int, sizes), *map(pointer, arrays), *map(ctypes.c_double, numbers))
    out, points = np.zeros((REPEATS, 2)), prediction.make_data(REPEATS, seed=1)[0]
    library.run(1, REPEATS, pointer(points), pointer(out))
    np.testing.assert_allclose(out.T, model.predict(points, return_std=True), rtol=1e-8)


def measured(found: dict[str, Contestant], points: np.ndarray, turns: int) -> dict[str, list[np.ndarray]]:
    """Seconds a point (turns,) of each contestant, for mean, mean and std, gradient; they take turns."""
    times: dict[str, list[list[float]]] = {name: [[], [], []] for name in found}
    with prediction._undisturbed():
        for turn in range(turns + 3):
            for name, contestant in found.items():
                for what in range(3 if contestant.gradient else 2):
                    contestant.run(what, points[:2])  # what the others left in the caches is not ours to measure
                    begin = time.perf_counter()
                    contestant.run(what, points)
                    if turn >= 3:
                        times[name][what].append((time.perf_counter() - begin) / len(points))
    return {name: [np.array(t) for t in each] for name, each in times.items()}


def rows_of(times: dict[str, list[np.ndarray]]) -> str:
    def cell(t: np.ndarray) -> str:
        return f"{1e6 * np.quantile(t, 0.1):.1f} ({1e6 * np.median(t):.1f})" if len(t) else "–"

    return table(["one point", "mean", "mean and std", "gradient"], [[name, *map(cell, each)] for name, each in times.items()])


def single_bars(times: dict[str, list[np.ndarray]]) -> list[Bar]:
    """Of plain -O3 and of the machine's own instructions; ratios are medians of ratios within a turn."""
    bars = []
    for title in FLAGS:
        ours = times[f"C double, gcc {title}"]
        for what, limit, name in ((0, 5.0, "mean"), (1, 20.0, "mean and std")):
            bars.append(Bar(f"{name}, gcc {title}", 1e6 * float(np.quantile(ours[what], 0.1)), limit, "µs"))
            bars.append(Bar(f"{name}, gcc {title}, of NumPy's", float(np.median(ours[what] / times["NumPy"][what])), 1 / 3, "x"))
            if (peer := times.get(f"Eigen double, g++ {title}")) is not None:
                bars.append(Bar(f"{name}, gcc {title}, of Eigen's", float(np.median(ours[what] / peer[what])), 1.0, "x"))
    return bars
