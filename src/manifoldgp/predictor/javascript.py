"""A program as JavaScript: one function of a row, in float64, with its constants inside; for pages that compute without a server."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping
from typing import Any

import numpy as np

from manifoldgp.predictor.loops import WORK, Constants
from manifoldgp.predictor.loops_program import values_body
from manifoldgp.predictor.program import COMPONENTS, Program

_FUNCTIONS = ("abs", "sqrt", "exp", "log", "log1p", "expm1", "sin", "cos", "asin", "tanh", "pow")

_NUMBERS = "const numbers = (text) => new Float64Array(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);"

_QUANTILE = """
// P(Z <= u) of a standard normal Z, by Marsaglia's series.
function below(u) {
  if (Math.abs(u) > 8) return u > 0 ? 1 : 0;
  let sum = u, term = u, before = NaN;
  for (let i = 3; sum !== before; i += 2) { before = sum; term *= (u * u) / i; sum += term; }
  return 0.5 + (sum * Math.exp(-0.5 * u * u)) / Math.sqrt(2 * Math.PI);
}
// How much more members (S) with these variances count than usual in target o: as `certainty` of operations_mixtures.py.
function following(variances, o, own) {
  const [power, share] = [mixture.exponents[o], mixture.following[o]], unsure = variances.map((v, s) => Math.log(Math.max(v, 1e-300)) - mixture.log_usual[s]);
  const least = Math.min(...unsure.filter((_, s) => own[s] > 0)), relative = unsure.map((v, s) => (own[s] > 0 ? Math.exp(-power * (v - least)) : 0));
  const total = relative.reduce((sum, a, s) => sum + own[s] * a, 0);
  return relative.map((a) => (share * a) / total + 1 - share);
}
// Height, steepness and centre of each term of member s; then z = g(t) and its slope, y = origin + scale t. Without terms z is t.
const termsOf = (s) => (mixture.height ? mixture.height[s].map((a, i) => [a, mixture.steepness[s][i], mixture.centre[s][i]]) : []);
function warped(t, terms) {
  let z = t, slope = 1;
  for (const [a, b, c] of terms) { const bent = Math.tanh(b * (t + c)); z += a * bent; slope += a * b * (1 - bent * bent); }
  return [z, slope];
}
// Where an increasing function of y, which gives value and slope, is zero: Newton's steps, bisection where one leaves the bracket or hardly shortens, as `bracketed_step` takes them.
function root(at, y, low, high, widest) {
  let move = high - low;
  for (let step = 0; step < 100; step++) {
    const [off, slope] = at(y);
    if (off < 0) low = y; else high = y;
    const shown = 1e-13 * Math.max(widest, Math.abs(y)), next = y - off / Math.max(slope, 1e-300);
    const good = next >= low && next <= high && Math.abs(next - y) <= Math.max(0.5 * move, shown), chosen = good ? next : 0.5 * (low + high);
    move = Math.abs(chosen - y);
    y = chosen;
    if (!(move > shown)) break;
  }
  return y;
}
function unwarped(z, terms) {
  const reach = terms.reduce((sum, [a]) => sum + a, 0);
  return root((t) => { const [value, slope] = warped(t, terms); return [value - z, slope]; }, z, z - reach, z + reach, 1);
}
// Mean and standard deviation of z, weight, scale and warping of every component of target o that has weight.
function components(means, variances, o) {
  const { owner, weights, factors, scales } = mixture, own = weights.map((w, s) => (owner[s] === o ? w.reduce((a, b) => a + b) : 0));
  const times = mixture.exponents ? following(Array.from(variances), o, own) : null, found = [];
  for (let s = 0; s < own.length; s++) if (own[s] > 0) for (let k = 0; k < factors.length; k++)
    if (weights[s][k] > 0) found.push([means[s], Math.sqrt(factors[k] * variances[s]), weights[s][k] * (times ? times[s] : 1), scales ? scales[s] : 1, termsOf(s)]);
  return found;
}
// y with P(Y <= y) = P(Z <= z), as `Mixture.quantile` finds it.
function quantile(parts, origin, z) {
  const q = below(z), each = parts.map(([m, s, , c, terms]) => c * unwarped(m + s * z, terms)), widest = Math.max(...parts.map(([, s, , c]) => c * s));
  return origin + root((y) => {
    let off = -q, density = 0;
    for (const [m, s, w, c, terms] of parts) {
      const [value, slope] = warped(y / c, terms), u = (value - m) / s;
      off += w * below(u);
      density += (w * slope * Math.exp(-0.5 * u * u)) / (c * s);
    }
    return [off, density / Math.sqrt(2 * Math.PI)];
  }, parts.reduce((sum, [, , w], i) => sum + w * each[i], 0), Math.min(...each), Math.max(...each), widest);
}
"""


class JavaScript:
    """How JavaScript begins loops and declares variables."""

    def loop(self, variable: str, first: str, end: str, step: int) -> str:
        return f"for (let {variable} = {first}; {variable} < {end}; {variable} += {step}) {{"

    def declare(self, name: str, value: str, fixed: bool, whole: bool) -> str:
        return f"{'const' if fixed else 'let'} {name} = {value};"

    def number(self, value: float) -> str:
        return f"({float(value)!r})" if value < 0 else repr(float(value))


def javascript(program: Program, inputs: int, targets: int, mixture: Mapping[str, Any] | None) -> str:
    """An expression: a function that takes one row x (D,) and returns {mean, std}, each (O,), and quantile.

    mixture: what is told of the members of the targets. quantile(o, z) is the y of target o that is as likely not to be passed as a standard normal's z; null where nothing is told.
    """
    constants, sizes = Constants(), {"mean": targets, "std": targets}
    if mixture is not None:
        sizes |= dict.fromkeys(COMPONENTS, len(mixture["owner"]))
    body = values_body(program, {name: name for name in sizes}, inputs, JavaScript(), constants)
    used = {name: values for name, values in constants.arrays.items() if any(f"{name}[" in line for line in body.lines)}
    lines = ["(() => {", _NUMBERS, *(f"const m_{name} = Math.{name};" for name in _FUNCTIONS), "const m_exp_negative = Math.exp;"]
    lines += [f'const {name} = numbers("{_base64(values)}");' for name, values in used.items()]
    lines += [f"const {WORK} = new Float64Array({max(1, body.workspace)});"]
    lines += [] if mixture is None else [f"const mixture = {json.dumps(mixture)};", _QUANTILE]
    lines += ["return (x) => {", *(f"const {name} = new Float64Array({size});" for name, size in sizes.items()), *body.lines]
    of_target = "(o, z) => quantile(components(component_means, component_variances, o), mixture.origins[o], z)"
    return "\n".join([*lines, f"return {{ mean, std, quantile: {'null' if mixture is None else of_target} }};", "};", "})()"])


def _base64(values: np.ndarray) -> str:
    return b64encode(values.astype("<f8").tobytes()).decode("ascii")
