"""A program as a C99 file and its header: no library but libm, no allocation, no state; the caller brings the workspace.

Constants are static arrays, so that they stay in flash. exp of numbers up to zero, of which predictions compute one for every training row, is
a polynomial that compilers vectorise without -ffast-math: 2^k e^r with |r| <= ln(2)/2, relative error below 1e-15 (float: 2e-7); results below
1e-150 (float: 1e-18) come out as about that. All else calls libm.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from manifoldgp._system.files import write_whole
from manifoldgp._system.plain_text import one_line
from manifoldgp.errors import InputError
from manifoldgp.predictor.loops import Constants
from manifoldgp.predictor.loops_program import Body, gradient_body, values_body
from manifoldgp.predictor.program import Program

_TYPES = {"float64": "double", "float32": "float"}

_FUNCTIONS = ("abs", "sqrt", "exp", "log", "log1p", "expm1", "sin", "cos", "asin", "tanh", "pow")

_EXPONENTIAL = """\
/* exp(x) for x <= 0. Without branches or calls, so that loops are vectorised: x = k ln(2) + r, e^r by its series. */
static inline real m_exp_negative(real x)
{{
    const real shift = {shift};
    real k = (x * {log2e} + shift) - shift;
    k = ((m_abs(k + {lowest}) + k) - {lowest}) / 2; /* at least -{lowest} */
    real r = (x - k * {ln2_high}) - k * {ln2_low};
    r = (m_abs(r + 1) - m_abs(r - 1)) / 2; /* between -1 and 1, where k was cut off */
    const real r2 = r * r, r4 = r2 * r2{r8};
    real y = {series};
    const real power = k + shift; /* its last bits are k */
    {bits} of_power, of_y;
    memcpy(&of_power, &power, sizeof power);
    memcpy(&of_y, &y, sizeof y);
    of_y += of_power << {mantissa};
    memcpy(&y, &of_y, sizeof y);
    return y;
}}
"""


@dataclass(frozen=True)
class CReport:
    """What an exported file needs on the robot. In bytes: flash for the constants, and the workspaces, which callers may put on the stack or anywhere else.

    source, header: the files. workspace: of the calls for mean and standard deviation; gradient_workspace: of the call for the gradient, 0 without it.
    """

    source: Path
    header: Path
    dtype: str
    flash: int
    workspace: int
    gradient_workspace: int
    distilled: str = ""

    def __str__(self) -> str:
        lines = [
            f"{self.source} and {self.header.name} ({_TYPES[self.dtype]}): {_bytes(self.flash)} of constants in flash, and some kB of code.",
            f"Workspace, on the caller's stack or static: {_bytes(self.workspace)}"
            + (f"; for the gradient {_bytes(self.gradient_workspace)}" if self.gradient_workspace else "")
            + ". The code itself uses less than 1 kB of stack, no heap, and no global variables.",
        ]
        return "\n".join(lines + [self.distilled] * bool(self.distilled))


class C:
    """C99, with numbers of one type."""

    def __init__(self, dtype: str) -> None:
        if dtype not in _TYPES:
            raise InputError(f"dtype must be 'float64' or 'float32'; got {dtype!r}.")
        self.type, self.single = _TYPES[dtype], dtype == "float32"

    def loop(self, variable: str, first: str, end: str, step: int) -> str:
        return f"for (int {variable} = {first}; {variable} < {end}; {variable} += {step}) {{"

    def declare(self, name: str, value: str, fixed: bool, whole: bool) -> str:
        return f"{'const ' * fixed}{'int' if whole else 'real'} {name} = {value};"

    def number(self, value: float) -> str:
        text = self._digits(value)
        return f"({text})" if text.startswith("-") else text

    def _digits(self, value: float) -> str:
        if not self.single:
            return repr(float(value))
        text = str(np.float32(value))
        return text + ("f" if "." in text or "e" in text else ".0f")

    def array(self, name: str, values: np.ndarray) -> list[str]:
        """The lines of a constant array."""
        flat = values.ravel().astype(np.float32 if self.single else np.float64)
        texts = [self._digits(v) for v in flat.tolist()] if self.single else [float(v).hex() for v in flat]
        rows = ["    " + ", ".join(texts[i : i + 8]) + "," for i in range(0, len(texts), 8)]
        return [f"static const real {name}[{len(texts)}] = {{", *rows, "};"]

    def functions(self) -> list[str]:
        end = "f" if self.single else ""
        return [f"#define m_{name} {'f' if name == 'abs' else ''}{name}{end}" for name in _FUNCTIONS]

    def exponential(self) -> str:
        """Coefficients 1/n!, to the order where the rest is below the rounding: r^13/13!, r^8/8! for |r| <= ln(2)/2."""
        order = 7 if self.single else 12
        terms = [self.number(1.0 / math.factorial(n)) for n in range(order + 1)]
        high, low = (0.693359375, -2.12194440e-4) if self.single else (0.693147180369123816490, 1.90821492927058770002e-10)
        return _EXPONENTIAL.format(
            shift=self.number(1.5 * 2.0 ** (23 if self.single else 52)),
            log2e=self.number(1.4426950408889634),
            lowest=60 if self.single else 500,
            ln2_high=self.number(high), ln2_low=self.number(low),
            series=_in_pairs(terms), r8="" if self.single else ", r8 = r4 * r4",
            bits="uint32_t" if self.single else "uint64_t", mantissa=23 if self.single else 52,
        )  # fmt: skip


def _in_pairs(terms: Sequence[str]) -> str:
    """Σ terms_n r^n, in halves of halves (Estrin): half as many steps wait for each other as in Horner's form."""
    if len(terms) == 1:
        return terms[0]
    half = 2 ** (len(terms) - 1).bit_length() // 2
    return f"({_in_pairs(terms[:half])} + {_in_pairs(terms[half:])} * r{half if half > 1 else ''})"


@dataclass(frozen=True)
class CModel:
    """What is written: a program with the numbers of inputs and targets, and what the header says about them."""

    program: Program
    inputs: int
    targets: int
    columns: Sequence[str] = ()
    distilled: str = ""
    predicted: Sequence[str] = ()
    """Names of the targets, where they have some."""


def write_c(model: CModel, path: str | Path, dtype: str, latent: bool, gradient: bool) -> CReport:
    """Write the source to ``path`` and the header beside it; functions are called after the file."""
    source = Path(path)
    if source.suffix != ".c":
        raise InputError(f"A C file ends in .c; got {source.name!r}.")
    name, dialect, constants = _identifier(source.stem), C(dtype), Constants()
    prefix = "latent_" if latent else ""
    D, outputs = model.inputs, {"mean": f"{prefix}mean", "std": f"{prefix}std"}
    mean = values_body(model.program, {"mean": outputs["mean"]}, D, dialect, constants)
    both = values_body(model.program, outputs, D, dialect, constants)
    slopes = gradient_body(model.program, outputs["mean"], D, dialect, constants) if gradient else None
    size, header = 4 if dialect.single else 8, source.with_suffix(".h")
    bodies = [body for body in (mean, both, slopes) if body]
    arrays = {
        array: values
        for array, values in constants.arrays.items()
        if any(f"{array}[" in line for body in bodies for line in body.lines)
    }
    flash = size * sum(values.size for values in arrays.values())
    report = CReport(
        source,
        header,
        dtype,
        flash,
        size * max(mean.workspace, both.workspace, 1),
        size * slopes.workspace if slopes else 0,
        model.distilled,
    )
    text = "\n".join(_source(name, header.name, dialect, arrays, mean, both, slopes))
    write_whole(source, text.encode())
    write_whole(header, "\n".join(_header(name, model, dialect, report, latent)).encode())
    return report


def _source(
    name: str, header: str, c: C, constants: dict[str, np.ndarray], mean: Body, both: Body, slopes: Body | None
) -> list[str]:
    lines = [f"/* Written by manifoldgp; {_comment(header)} says what is in here. C99 and libm. */", f'#include "{header}"', ""]
    lines += ["#include <math.h>", "#include <stdint.h>", "#include <string.h>", "", f"typedef {c.type} real;", ""]
    bodies = [line for body in (mean, both, slopes) if body for line in body.lines]
    lines += [line for line in c.functions() if re.search(rf"\b{line.split()[1]}\(", "\n".join([*bodies, "m_abs("]))]
    lines += ["", c.exponential()] if any("m_exp_negative(" in line for line in bodies) else [""]
    for array, values in constants.items():
        lines += c.array(array, values)
    for function, arguments, body in (
        ("mean", ("mean",), mean),
        ("predict", ("mean", "std"), both),
        ("gradient", ("mean", "gradient"), slopes),
    ):
        if body is not None:
            lines += ["", *_signature(name, function, arguments, restrict=True), "{", *_used(body), *body.lines, "}"]
    return [*lines, ""]


def _used(body: Body) -> list[str]:
    """A function that needs no workspace, or does not look at x, says so, for compilers that ask."""
    text = "\n".join(body.lines)
    return [f"    (void){name};" for name in ("x", "w") if not re.search(rf"\b{name}\[", text)]


def _signature(name: str, function: str, outputs: Sequence[str], restrict: bool) -> list[str]:
    pointer = "*restrict " if restrict else "*"
    real = "real" if restrict else "{real}"
    arguments = [f"const {real} {pointer}x", *(f"{real} {pointer}{output}" for output in outputs), f"{real} {pointer}w"]
    return [f"void {name}_{function}({', '.join(arguments)})"]


def _header(name: str, model: CModel, c: C, report: CReport, latent: bool) -> list[str]:
    upper, size = name.upper(), 4 if c.single else 8
    what = "the target without noise" if latent else "the target, noise included"
    named = {"x": model.columns, "mean and std": model.predicted}
    columns = [f"   {of}: {', '.join(map(_comment, names))}" for of, names in named.items() if names]
    lines = [
        "/* Predictions of a Gaussian process, written by manifoldgp.",
        "",
        f"   x has {upper}_INPUTS numbers, in the units of the training data; mean and std have {upper}_TARGETS, of {what}.",
        "   w is a workspace of the size below. Calls with workspaces of their own may run at the same time. Inputs must be finite.",
        *columns,
        f"   Constants: {report.flash} bytes. {_comment(model.distilled)}".rstrip() + " */",
        f"#ifndef {upper}_H", f"#define {upper}_H", "",
        f"#define {upper}_INPUTS {model.inputs}", f"#define {upper}_TARGETS {model.targets}",
        f"#define {upper}_WORKSPACE {report.workspace // size}",
    ]  # fmt: skip
    if report.gradient_workspace:
        lines.append(f"#define {upper}_GRADIENT_WORKSPACE {report.gradient_workspace // size}")
    lines += ["", "#ifdef __cplusplus", 'extern "C" {', "#endif", ""]
    calls = {"mean": ("mean",), "predict": ("mean", "std")}
    for function, outputs in calls.items():
        lines += [f"{line};".format(real=c.type) for line in _signature(name, function, outputs, restrict=False)]
    if report.gradient_workspace:
        lines.append(
            f"/* The derivatives of mean[i] by x[j] go to gradient[i * {upper}_INPUTS + j]; w has {upper}_GRADIENT_WORKSPACE numbers. */"
        )
        lines += [f"{line};".format(real=c.type) for line in _signature(name, "gradient", ("mean", "gradient"), restrict=False)]
    return [*lines, "", "#ifdef __cplusplus", "}", "#endif", "", "#endif", ""]


def _identifier(stem: str) -> str:
    """A name for functions: letters, digits and underscores."""
    name = re.sub(r"\W", "_", stem, flags=re.ASCII)
    return name if name[:1].isalpha() else f"model_{name}"


def _comment(text: str) -> str:
    """Text in UTF-8 that can neither end or begin a comment, nor join lines, nor be a trigraph, nor turn the direction of what follows.

    >>> print(_comment("Öl*/ [°C]"), _comment("Druck\\n(bar)"), _comment("what??/"))
    Öl* / [°C] Druck (bar) what? ?/
    """
    plain = re.sub(r"\\$", "/", one_line(text))
    for pair in ("*/", "/*", "??"):
        plain = re.sub(f"(?<={re.escape(pair[0])})(?={re.escape(pair[1])})", " ", plain)
    return plain


def _bytes(size: int) -> str:
    return f"{size} bytes" if size < 10_000 else f"{size / 1e3:.0f} kB" if size < 1e7 else f"{size / 1e6:.1f} MB"
