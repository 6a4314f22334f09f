"""Loops entry by entry: values, and derivatives with respect to every input, of the operations in ``operations_elementwise``.

Each function of numbers is written as text: ``a``, ``b``, ... are the inputs, ``y`` is the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack

import numpy as np

from manifoldgp.predictor.loops import Array, Loops, times
from manifoldgp.predictor.operations import OPERATIONS
from manifoldgp.predictor.operations_elementwise import elu, leaky_relu
from manifoldgp.predictor.operations_rows import kumaraswamy

Entry = Callable[..., str]
"""The text of a number, given the code under construction and the texts of the inputs' entries."""

_FUNCTIONS: dict[str, tuple[str, ...]] = {
    "add": ("{a} + {b}", "1", "1"),
    "subtract": ("{a} - {b}", "1", "-1"),
    "multiply": ("{a} * {b}", "{b}", "{a}"),
    "divide": ("{a} / {b}", "1 / {b}", "-{y} / {b}"),
    "power": ("m_pow({a}, {b})", "{b} * m_pow({a}, {b} - 1)", "{y} * m_log({a})"),
    "maximum": ("({a} > {b} ? {a} : {b})", "({a} > {b} ? 1 : 0)", "({a} > {b} ? 0 : 1)"),
    "minimum": ("({a} < {b} ? {a} : {b})", "({a} < {b} ? 1 : 0)", "({a} < {b} ? 0 : 1)"),
    "negative": ("-{a}", "-1"),
    "absolute": ("m_abs({a})", "({a} < 0 ? -1 : 1)"),
    "square_root": ("m_sqrt({a})", "({y} > 0 ? 1 / (2 * {y}) : 0)"),
    "exponential": ("m_exp({a})", "{y}"),
    "logarithm": ("m_log({a})", "1 / {a}"),
    "sine": ("m_sin({a})", "m_cos({a})"),
    "cosine": ("m_cos({a})", "-m_sin({a})"),
    "tanh": ("m_tanh({a})", "(1 - {y} * {y})"),
    "log1p": ("m_log1p({a})", "1 / (1 + {a})"),
    "expm1": ("m_expm1({a})", "(1 + {y})"),
    "arcsine": ("m_asin({a})", "1 / m_sqrt(1 - {a} * {a})"),
    "scale_shift": ("{a} * {b} + {c}", "{b}", "{a}", "1"),
    "sigmoid": ("1 / (1 + m_exp(-{a}))", "{y} * (1 - {y})"),
    "relu": ("({a} > 0 ? {a} : 0)", "({a} > 0 ? 1 : 0)"),
    "softplus": ("({a} > 20 ? {a} : m_log1p(m_exp({a})))", "1 / (1 + m_exp(-{a}))"),
    "silu": ("{a} / (1 + m_exp(-{a}))", "(1 + ({a} - {y}) ) / (1 + m_exp(-{a}))"),
    "gaussian_bumps": ("{b} * m_exp_negative(-{a} * {a})", "-2 * {a} * {y}", "m_exp_negative(-{a} * {a})"),
    "variance": ("({b} > {a} ? {b} - {a} : 0) + {c}", "({b} > {a} ? -1 : 0)", "({b} > {a} ? 1 : 0)", "1"),
}


def entry_by_entry(c: Loops, arrays: Sequence[Array], body: Callable[..., None]) -> None:
    """Loops over the first array's entries; the others are broadcast as NumPy does. body: gets the text of the entry of each."""
    steps = _steps(arrays)
    with ExitStack() as inside:
        places = [inside.enter_context(c.loop(f"i{depth}", size)) for depth, (size, _) in enumerate(steps)]
        body(*(array.at(_index(places, [strides[k] for _, strides in steps])) for k, array in enumerate(arrays)))


def _index(places: Sequence[str], strides: Sequence[int]) -> str:
    terms = [times(place, stride) for place, stride in zip(places, strides, strict=True)]
    return " + ".join(term for term in terms if term != "0") or "0"


def _steps(arrays: Sequence[Array]) -> list[tuple[int, tuple[int, ...]]]:
    """Sizes of nested loops over the first array, and how far each array moves in them; neighbours that move as one are one loop."""
    shape = arrays[0].shape
    strides = [_strides(array.shape, len(shape)) for array in arrays]
    steps: list[tuple[int, tuple[int, ...]]] = []
    for d, size in enumerate(shape):
        if size == 1:
            continue
        own = tuple(s[d] for s in strides)
        if steps and all(outer == inner * size for outer, inner in zip(steps[-1][1], own, strict=True)):
            steps[-1] = (steps[-1][0] * size, own)
        else:
            steps.append((size, own))
    return steps


def _strides(shape: tuple[int, ...], dimensions: int) -> list[int]:
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(0 if size == 1 else step)
        step *= size
    return [0] * (dimensions - len(shape)) + strides[::-1]


def write(c: Loops, out: Array, *inputs: Array, value: Entry) -> None:
    """out = value(inputs), entry by entry."""
    entry_by_entry(c, [out, *inputs], lambda y, *entries: c.line(f"{y} = {value(c, *entries)};"))


def spread(c: Loops, out: Array, *inputs: Array, slopes: Sequence[Entry]) -> None:
    """Adds the derivatives of what follows, with respect to every input that is not constant. slopes: of the value, for each input."""
    moving = [k for k, array in enumerate(inputs) if not array.constant]
    targets = [c.slope(inputs[k]) for k in moving]

    def body(y: str, g: str, *entries: str) -> None:
        values, slots = entries[: len(inputs)], entries[len(inputs) :]
        for k, target in zip(moving, slots, strict=True):
            c.line(f"{target} += {g} * ({slopes[k](c, *values, y)});")

    entry_by_entry(c, [out, c.slope(out), *inputs, *targets], body)


def _text(form: str) -> Entry:
    def entry(_: Loops, *entries: str) -> str:
        return form.format(**dict(zip("abcd", entries, strict=False)), y=entries[-1])

    return entry


def _register(name: str, value: Entry, slopes: Sequence[Entry]) -> None:
    OPERATIONS[name].backend("loops")(lambda c, out, *inputs: write(c, out, *inputs, value=value))
    OPERATIONS[name].backend("slopes")(lambda c, out, *inputs: spread(c, out, *inputs, slopes=slopes))


for _name, (_value, *_slopes) in _FUNCTIONS.items():
    _register(_name, _text(_value), [_text(slope) for slope in _slopes])


@leaky_relu.backend("loops")
def _(c: Loops, out: Array, A: Array, slope: float) -> None:
    write(c, out, A, value=lambda c, a: f"({a} > 0 ? {a} : {c.number(slope)} * {a})")


@leaky_relu.backend("slopes")
def _(c: Loops, out: Array, A: Array, slope: float) -> None:
    spread(c, out, A, slopes=[lambda c, a, _: f"({a} > 0 ? 1 : {c.number(slope)})"])


@elu.backend("loops")
def _(c: Loops, out: Array, A: Array, alpha: float) -> None:
    write(c, out, A, value=lambda c, a: f"({a} > 0 ? {a} : {c.number(alpha)} * m_expm1({a}))")


@elu.backend("slopes")
def _(c: Loops, out: Array, A: Array, alpha: float) -> None:
    spread(c, out, A, slopes=[lambda c, a, y: f"({a} > 0 ? 1 : {y} + {c.number(alpha)})"])


def _warped_input(c: Loops, u: str, a: str, b: str, end: float) -> tuple[str, str]:
    """w(u) = 1 − (1 − uᵃ)ᵇ, along its tangents beyond the ends; and its slope."""
    low, high = c.number(end), c.number(float(np.float64(1.0) - end))
    inside = c.let(f"{u} < {low} ? {low} : ({u} > {high} ? {high} : {u})")
    log_u = c.let(f"m_log({inside})")
    log_rest = c.let(f"m_log(-m_expm1({a} * {log_u}))")
    slope = c.let(f"{a} * {b} * m_exp(({a} - 1) * {log_u} + ({b} - 1) * {log_rest})")
    return f"-m_expm1({b} * {log_rest}) + {slope} * ({u} - {inside})", slope


@kumaraswamy.backend("loops")
def _(c: Loops, out: Array, U: Array, a: Array, b: Array, end: float) -> None:
    write(c, out, U, a, b, value=lambda c, u, a, b: _warped_input(c, u, a, b, end)[0])


@kumaraswamy.backend("slopes")
def _(c: Loops, out: Array, U: Array, a: Array, b: Array, end: float) -> None:
    spread(c, out, U, a, b, slopes=[lambda c, u, a, b, _: _warped_input(c, u, a, b, end)[1]])
