"""The tests on every kind of CPU that this one can play, each with 1 and with 2 threads.

    python tests/cpus.py                                          # all kinds, all tests
    python tests/cpus.py --cpu Haswell Prescott --threads 1       # some of them
    python tests/cpus.py -- tests/test_train.py --maxfail 1       # what follows -- goes to pytest

Sums are added in another order on another CPU, so results differ in their last digits, and a fit that is ill-conditioned or not convex makes much of them.
A test that compares such digits passes here and fails elsewhere; this finds it. Environment variables say for which CPU each library computes: OpenBLAS (of
NumPy and of SciPy), MKL and PyTorch's own loops, and NumPy's. A kind is left out if its instructions are missing here, or if its digits are those of another.
The output of each run is kept. Ends with 1 if a test failed, or if none of the kinds can be played.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]


def _cpu(openblas: str, mkl: str, torch: str, numpy_without: str = "") -> dict[str, str]:
    return {
        "OPENBLAS_CORETYPE": openblas,
        "MKL_CBWR": mkl,
        "ATEN_CPU_CAPABILITY": torch,
        "NPY_DISABLE_CPU_FEATURES": numpy_without,
    }


CPUS = {
    "default": {},
    "SkylakeX": _cpu("SkylakeX", "AVX512", "avx512"),
    "Haswell": _cpu("Haswell", "AVX2", "avx2"),
    "Zen": _cpu("Zen", "AVX2", "avx2"),
    "Sandybridge": _cpu("Sandybridge", "AVX", "default", "X86_V3"),
    "Nehalem": _cpu("Nehalem", "SSE4_2", "default", "X86_V3"),
    "Prescott": _cpu("Prescott", "COMPATIBLE", "default", "X86_V3"),
}

DIGITS = """
import hashlib, numpy as np, scipy.linalg, torch
A = np.random.default_rng(0).random((300, 301))
K = np.exp(-np.abs(np.subtract.outer(np.arange(300), np.arange(300))) / 10)
B = torch.from_numpy(A)
found = [A @ A.T, np.tanh(A), scipy.linalg.cholesky(K), B @ B.T, torch.sigmoid(B), torch.log_softmax(B, 1), torch.linalg.cholesky(torch.from_numpy(K))]
print(hashlib.sha256(b"".join(np.ascontiguousarray(f).tobytes() for f in found)).hexdigest())
"""
"""A program that prints what the libraries' products, factors and functions come to on this CPU, to the last digit."""


class Run(NamedTuple):
    """What became of the tests on one kind of CPU."""

    cpu: str
    threads: int
    passed: bool
    counted: str
    failed: list[str]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cpu", nargs="+", choices=CPUS, default=list(CPUS), help="kinds of CPU")
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2], help="threads of each library")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "test-cpus", help="folder for the output of each run")
    parser.add_argument("pytest", nargs="*", help="arguments for pytest, after --")
    given = parser.parse_args()
    skipped = reasons_to_skip(given.cpu)
    for cpu, reason in skipped.items():
        print(f"{cpu} is left out: {reason}", flush=True)
    cpus = [cpu for cpu in given.cpu if cpu not in skipped]
    runs = [run(cpu, threads, given.pytest, given.out) for threads in given.threads for cpu in cpus]
    print("\n" + table(runs, skipped))
    return 0 if runs and all(r.passed for r in runs) else 1


def reasons_to_skip(cpus: list[str]) -> dict[str, str]:
    """Why a kind cannot be played here, or need not be."""
    reasons, seen = {}, {}
    for cpu in cpus:
        done = subprocess.run([sys.executable, "-c", DIGITS], env=os.environ | CPUS[cpu], capture_output=True, text=True)
        if done.returncode == -signal.SIGILL:
            reasons[cpu] = "this CPU lacks its instructions"
        elif done.returncode:
            reasons[cpu] = f"the libraries refuse it: {done.stderr.strip().splitlines()[-1:]}, exit code {done.returncode}"
        elif (first := seen.setdefault(done.stdout, cpu)) != cpu:
            reasons[cpu] = f"it computes the same digits as {first}"
    return reasons


def run(cpu: str, threads: int, arguments: list[str], folder: Path) -> Run:
    limits = {name: str(threads) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
    command = [sys.executable, "-m", "pytest", "--numprocesses", "auto", "--maxprocesses", "4", "--dist", "loadfile", *arguments]
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{cpu}-{threads}.txt"
    begin = time.perf_counter()
    with file.open("w", encoding="utf-8") as output:
        code = subprocess.run(command, cwd=ROOT, env=os.environ | CPUS[cpu] | limits, stdout=output, stderr=output).returncode
    lines = file.read_text(encoding="utf-8").splitlines()
    counts = re.findall(r"\d+ (?:passed|failed|errors?|skipped)", lines[-1] if lines else "")
    counted = ", ".join(counts) or f"no tests ran, see {file}"
    print(f"{cpu}, {threads} threads: {counted} in {time.perf_counter() - begin:.0f} s", flush=True)
    return Run(
        cpu, threads, code == 0, counted, [line.split(" - ")[0] for line in lines if line.startswith(("FAILED ", "ERROR "))]
    )


def table(runs: list[Run], skipped: dict[str, str]) -> str:
    """A line for each run and for each kind that was left out, then the tests that failed and where."""
    rows = [(r.cpu, str(r.threads), "ok" if r.passed else "FAILED", r.counted) for r in runs]
    rows += [(cpu, "-", "left out", reason) for cpu, reason in skipped.items()]
    lines = [f"{cpu:12} {threads:>7}  {state:9} {text}" for cpu, threads, state, text in [("CPU", "threads", "", ""), *rows]]
    for test in sorted({test for r in runs for test in r.failed}):
        lines.append(f"{test}: {', '.join(f'{r.cpu} ({r.threads})' for r in runs if test in r.failed)}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
