"""A program as JavaScript: one function of a row, in float64, with its constants inside; for pages that compute without a server."""

from __future__ import annotations

from base64 import b64encode

import numpy as np

from manifoldgp.predictor.loops import WORK, Constants
from manifoldgp.predictor.loops_program import values_body
from manifoldgp.predictor.program import Program

_FUNCTIONS = ("abs", "sqrt", "exp", "log", "log1p", "expm1", "sin", "cos", "asin", "tanh", "pow")

_NUMBERS = "const numbers = (text) => new Float64Array(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);"


class JavaScript:
    """How JavaScript begins loops and declares variables."""

    def loop(self, variable: str, first: str, end: str, step: int) -> str:
        return f"for (let {variable} = {first}; {variable} < {end}; {variable} += {step}) {{"

    def declare(self, name: str, value: str, fixed: bool, whole: bool) -> str:
        return f"{'const' if fixed else 'let'} {name} = {value};"

    def number(self, value: float) -> str:
        return f"({float(value)!r})" if value < 0 else repr(float(value))


def javascript(program: Program, inputs: int, targets: int) -> str:
    """An expression: a function that takes one row x (D,) and returns {mean, std}, each (O,)."""
    constants = Constants()
    body = values_body(program, {"mean": "mean", "std": "std"}, inputs, JavaScript(), constants)
    used = {name: values for name, values in constants.arrays.items() if any(f"{name}[" in line for line in body.lines)}
    lines = ["(() => {", _NUMBERS, *(f"const m_{name} = Math.{name};" for name in _FUNCTIONS), "const m_exp_negative = Math.exp;"]
    lines += [f'const {name} = numbers("{_base64(values)}");' for name, values in used.items()]
    lines += [f"const {WORK} = new Float64Array({max(1, body.workspace)});", "return (x) => {"]
    lines += [f"const mean = new Float64Array({targets}), std = new Float64Array({targets});"]
    return "\n".join([*lines, *body.lines, "return { mean, std };", "};", "})()"])


def _base64(values: np.ndarray) -> str:
    return b64encode(values.astype("<f8").tobytes()).decode("ascii")
