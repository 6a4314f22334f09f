"""Models written as C, compiled together with a program that calls them, and what it prints."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

STRICT = ("-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror")

_DRIVER = """\
#include <stdio.h>
#include <stdlib.h>
{includes}
static void print(const double *a, int n) {{ for (int i = 0; i < n; i++) printf("%.17g ", a[i]); }}
static void printf_single(const float *a, int n) {{ for (int i = 0; i < n; i++) printf("%.9g ", (double)a[i]); }}
{points}
int main(void)
{{
    (void)print; (void)printf_single;
{calls}
    return 0;
}}
"""

_CALL = """\
    for (int i = 0; i < {rows}; i++) {{
        {real} mean[{targets}], std[{targets}], slopes[{targets} * {inputs}] = {{0}}, again[{targets}], x[{inputs}];
        {real} *w = malloc({upper}_WORKSPACE * sizeof *w);
        for (int j = 0; j < {inputs}; j++) x[j] = ({real})points[i * {inputs} + j];
        {name}_predict(x, mean, std, w);
        {name}_mean(x, again, w);
        {gradient}
        for (int j = 0; j < {targets}; j++) if (mean[j] != again[j]) return 1;
        {print}(mean, {targets}); {print}(std, {targets}); {print}(slopes, {targets} * {inputs}); printf("\\n");
        free(w);
    }}
"""

_GRADIENT = """\
free(w);
        w = malloc({upper}_GRADIENT_WORKSPACE * sizeof *w);
        {name}_gradient(x, again, slopes, w);"""


@dataclass(frozen=True)
class Found:
    """mean, std (n, O) and gradient (n, O, D) of one model, as the C program printed them."""

    mean: np.ndarray
    std: np.ndarray
    gradient: np.ndarray


def compiler(name: str) -> str:
    """The compiler's path; the test is skipped where it is not installed."""
    return shutil.which(name) or pytest.skip(f"needs the compiler {name}, which is not installed")


def run(predictors, X, folder: Path, cc: str, flags: tuple[str, ...], dtype: str, gradient: bool = False) -> list[Found]:
    """What models compute at X (n, D) once compiled by ``cc``."""
    real = {"float64": "double", "float32": "float"}[dtype]
    names = [f"m{k}" for k in range(len(predictors))]
    calls, includes = [], []
    for name, p in zip(names, predictors, strict=True):
        p.to_c(folder / f"{name}.c", dtype=dtype, gradient=gradient)
        includes.append(f'#include "{name}.h"')
        calls.append(
            _CALL.format(
                rows=len(X), targets=p.n_outputs, inputs=p.n_features, upper=name.upper(), name=name, real=real,
                print="print" if real == "double" else "printf_single",
                gradient=_GRADIENT.format(name=name, upper=name.upper()) if gradient else "",
            )
        )  # fmt: skip
    points = f"static const double points[] = {{{', '.join(float(x).hex() for x in X.ravel())}}};"
    text = _DRIVER.format(includes="\n".join(includes), points=points, calls="\n".join(calls))
    (folder / "driver.c").write_text(text)
    sources = ["driver.c", *(f"{name}.c" for name in names)]
    done = subprocess.run([cc, *STRICT, *flags, "-o", "driver", *sources, "-lm"], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    ran = subprocess.run([str(folder / "driver")], capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")
    lines = iter(ran.stdout.splitlines())
    return [_parsed([next(lines) for _ in X], p.n_outputs, p.n_features) for p in predictors]


def _parsed(lines: list[str], targets: int, inputs: int) -> Found:
    table = np.array([line.split() for line in lines], dtype=float)
    return Found(table[:, :targets], table[:, targets : 2 * targets], table[:, 2 * targets :].reshape(-1, targets, inputs))
