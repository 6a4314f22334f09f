"""Sobol indices of a fitted model: which share of the variance of f each input causes alone, and with all its interactions.

For independent inputs, V = var f(x) and E over everything else,

    first_d = var E[f | x_d] / V,        total_d = 1 − var E[f | all but x_d] / V

An orthogonal additive kernel has both in closed form under the standard normal law that it is made for. Every other model is sampled: f at two samples A and B
of inputs, and at A with one column taken from B (Saltelli 2010 for the first, Jansen 1999 for the total index). A column of a table that becomes several numbers,
as a category does, is one input, whose numbers vary together: no row has two categories in one place, or none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy.special import ndtri
from scipy.stats import qmc
from torch import Tensor

from manifoldgp._system.plain_text import counted
from manifoldgp.data.inputs import whole_number
from manifoldgp.errors import InputError
from manifoldgp.estimators.arguments import generator_of
from manifoldgp.estimators.units import on_device
from manifoldgp.features import Identity
from manifoldgp.inference.ensemble import Ensemble, prediction_threads
from manifoldgp.inference.posterior import Conditioned
from manifoldgp.kernels import OrthogonalAdditive
from manifoldgp.means import Constant, Zero
from manifoldgp.warping import NoWarping

if TYPE_CHECKING:
    from manifoldgp.data.inputs import RandomState
    from manifoldgp.estimators.manifold_gp import ManifoldGPRegressor

LAWS = {
    "uniform": "inputs independent and uniform over the range of the training rows (columns with two values: either, equally often)",
    "rows": "inputs independent, each distributed as in the training rows",
    "normal": "inputs independent and normal, with mean and spread of the training rows",
}
"""Laws of the inputs, in words."""

_TOGETHER = {
    True: "each value of one that is several numbers, such as a category, equally often",
    False: "those that are several numbers, such as categories, as in the training rows",
}

REPLICATES = 8
"""Independent samples whose scatter says how exact the sampled indices are."""

_ROUNDING, _LOST = 1e-15, 1e-3
"""Rounding of the terms of a closed form, relative to their sizes, and how much of the result it may be."""

JOINT_POINTS, DRAWS = 700, 40
"""Points of f drawn together, and how often, to see what the posterior leaves open."""


@dataclass(frozen=True)
class Sensitivity:
    """Sobol indices (I,) of one target with their standard errors; ``print`` shows a table.

    Attributes
    ----------
    names
        The inputs: columns of the table that the model was fitted on.
    first, total
        Shares of the variance: of the input alone, and with all interactions that it takes part in.
    first_error, total_error
        Standard errors: of the sampling, and of what the posterior leaves open about f.
    law
        The law of the inputs, in words.
    analytic
        Whether the indices of the mean come from a formula instead of a sample.
    """

    names: tuple[str, ...]
    first: np.ndarray
    total: np.ndarray
    first_error: np.ndarray
    total_error: np.ndarray
    law: str
    analytic: bool

    def __str__(self) -> str:
        width = max(5, *map(len, self.names))
        lines = [f"{'input':<{width}}  first order     total"]
        for d in np.argsort(-self.total, kind="stable"):
            first, total = (
                f"{round(float(v[d]), 3) + 0.0:5.3f} ± {e[d]:.3f}"
                for v, e in ((self.first, self.first_error), (self.total, self.total_error))
            )
            lines.append(f"{self.names[d]:<{width}}  {first}  {total}")
        return "\n".join([*lines, f"Law: {self.law}."])


def sensitivity(
    estimator: ManifoldGPRegressor, law: str | None, samples: int, random_state: RandomState, output: int
) -> Sensitivity:
    """The indices of one target's f. law None: normal where the kernel has a closed form, uniform elsewhere."""
    if not 0 <= output < len(estimator.ensembles_):
        raise InputError(f"The model has {counted(len(estimator.ensembles_), 'target')}, counted from 0; got output={output!r}.")
    whole_number(samples, "samples", least=64)
    ensemble = estimator.ensembles_[output]
    closed = _closed_form_of(ensemble)
    law = ("uniform" if closed is None else "normal") if law is None else law
    if law not in LAWS:
        raise InputError(f"law must be one of {', '.join(map(repr, LAWS))}, or None; got {law!r}.")
    X = ensemble.blocks[0].data.X.cpu().numpy()
    seed = int(generator_of(random_state).initial_seed())
    names, inputs = _inputs(estimator)
    several = any(len(places) > 1 for places in inputs)
    exact = _analytic(closed) if closed is not None and law == "normal" and not several else None
    each = (_LAWS[law] if closed is None else _standard_normal)(X) if law == "normal" else _LAWS[law](X)
    seen = [places for places in inputs if places]
    draw = _together(each, X, seen, law == "uniform")

    def f(U: np.ndarray) -> np.ndarray:
        points = on_device(estimator, U)
        with prediction_threads([ensemble], len(points), variance=False):
            return ensemble.mean(points).cpu().numpy()

    if exact is not None:
        order = [places[0] for places in seen]
        (first, total), scatter = (part[order] for part in exact), np.zeros((2, len(seen)))
    else:
        first, total, scatter = _sampled(f, draw, len(seen), samples, seed)
    left_open = _left_open(estimator, ensemble, draw, len(seen), seed)
    errors = np.sqrt(scatter**2 + left_open**2)
    words = "inputs independent and standard normal after standardisation, the law of the kernel"
    words = words if closed is not None and law == "normal" else LAWS[law]
    words = f"{words}; {_TOGETHER[law == 'uniform']}" if several else words
    told = np.zeros((4, len(inputs)))
    told[:, [i for i, places in enumerate(inputs) if places]] = first, total, *errors
    return Sensitivity(names, *told, law=words, analytic=exact is not None)


def _inputs(estimator: ManifoldGPRegressor) -> tuple[tuple[str, ...], list[list[int]]]:
    """The names of the inputs, and which of the numbers that the model sees each is: none of a constant one, or of one that repeats another."""
    D = estimator.n_features_in_
    given = getattr(estimator, "feature_names_in_", None)
    numbers = [f"x{d}" for d in range(D)] if given is None else list(map(str, given))
    encoding, seen = getattr(estimator, "table_encoding_", None), estimator.x_scaler_.columns.tolist()
    names, inputs, first = [], [], 0
    for name, width in [("", 1)] * D if encoding is None else [(c.name, len(c.names)) for c in encoding.columns]:
        names.append(name if width > 1 else numbers[first])
        inputs.append([seen.index(d) for d in range(first, first + width) if d in seen])
        first += width
    return tuple(names), inputs


# ------------------------------------------------------------------------------------------------------------------ laws


Draw = Callable[[np.ndarray], np.ndarray]
"""From uniform numbers (n, D) to inputs in the model's units."""


def _uniform(X: np.ndarray) -> Draw:
    low, high = X.min(0), X.max(0)
    two = np.array([len(np.unique(column)) <= 2 for column in X.T])
    return lambda u: low + (high - low) * np.where(two, np.round(u), u)


def _rows(X: np.ndarray) -> Draw:
    ordered = np.sort(X, 0)
    return lambda u: np.take_along_axis(ordered, np.minimum((u * len(X)).astype(int), len(X) - 1), 0)


def _normal(X: np.ndarray) -> Draw:
    return lambda u: X.mean(0) + X.std(0) * _standard_normal(X)(u)


def _standard_normal(X: np.ndarray) -> Draw:
    return lambda u: ndtri(np.clip(u, 1e-12, 1 - 1e-12))


def _together(each: Draw, X: np.ndarray, inputs: list[list[int]], equally: bool) -> Draw:
    """From one uniform number for each input (n, I): those that are several numbers have values of rows X (N, D), all equally often or as often as there."""
    values = {i: np.unique(X[:, places], axis=0, return_counts=True) for i, places in enumerate(inputs) if len(places) > 1}

    def draw(u: np.ndarray) -> np.ndarray:
        wide = np.zeros((len(u), X.shape[1]))
        for i, places in enumerate(inputs):
            wide[:, places] = u[:, [i]]
        U = each(wide)
        for i, (found, counts) in values.items():
            shares = np.cumsum(np.ones(len(found)) if equally else counts)
            U[:, inputs[i]] = found[np.searchsorted(shares[:-1] / shares[-1], u[:, i], side="right")]
        return U

    return draw


_LAWS: dict[str, Callable[[np.ndarray], Draw]] = {"uniform": _uniform, "rows": _rows, "normal": _normal}


# -------------------------------------------------------------------------------------------------------------- sampling


def _design(draw: Draw, inputs: int, n: int, seed: int) -> np.ndarray:
    """A, B, and A with one input of B after another: (I + 2, n, D), from a scrambled Sobol sequence."""
    u = qmc.Sobol(2 * inputs, rng=np.random.default_rng(seed)).random(n)
    A, B = u[:, :inputs], u[:, inputs:]
    mixed = np.repeat(A[None], inputs, 0)
    mixed[np.arange(inputs), :, np.arange(inputs)] = B.T
    points = draw(np.concatenate([A[None], B[None], mixed]).reshape(-1, inputs))
    return points.reshape(inputs + 2, n, -1)


def _indices(values: np.ndarray) -> np.ndarray:
    """First and total indices (2, ..., I) from f (I + 2, n, ...) at the points of a design."""
    f_A, f_B, mixed = values[0], values[1], values[2:]
    both = np.concatenate([f_A, f_B])
    centre, V = both.mean(0), np.maximum(both.var(0), 1e-300)
    first = ((f_B - centre) * (mixed - f_A)).mean(1) / V
    total = 0.5 * ((f_A - mixed) ** 2).mean(1) / V
    return np.stack([np.moveaxis(first, 0, -1), np.moveaxis(total, 0, -1)])


def _sampled(
    f: Callable[[np.ndarray], np.ndarray], draw: Draw, inputs: int, n: int, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """First and total indices (I,), and the standard errors (2, I) of their sampling."""
    size, found = 2 ** max(3, round(np.log2(n / REPLICATES))), []
    for r in range(REPLICATES):
        points = _design(draw, inputs, size, seed + r)
        found.append(_indices(f(points.reshape(-1, points.shape[-1])).reshape(inputs + 2, size)))
    first, total = np.mean(found, 0)
    return first, total, np.std(found, 0, ddof=1) / np.sqrt(REPLICATES)


def _left_open(estimator: ManifoldGPRegressor, ensemble: Ensemble, draw: Draw, inputs: int, seed: int) -> np.ndarray:
    """How far the indices (2, I) of functions drawn from the posterior lie from those of its mean, on the same few points."""
    size = 2 ** max(3, int(np.log2(JOINT_POINTS / (inputs + 2))))
    points = _design(draw, inputs, size, seed).reshape((inputs + 2) * size, -1)
    if len(points) > 4 * JOINT_POINTS:  # hundreds of inputs
        return np.zeros((2, inputs))
    U = on_device(estimator, points)
    with prediction_threads([ensemble], len(points), joint=True):
        drawn = ensemble.sample(U, DRAWS, torch.Generator().manual_seed(seed % 2**31), True).cpu().numpy()  # (DRAWS, points)
        mean = ensemble.mean(U).cpu().numpy()
    of_draws = _indices(drawn.T.reshape(inputs + 2, size, DRAWS))
    of_mean = _indices(mean.reshape(inputs + 2, size))
    return np.sqrt(((of_draws - of_mean[:, None, :]) ** 2).mean(1))


# ---------------------------------------------------------------------------------------------------------- closed form


def _closed_form_of(ensemble: Ensemble) -> Conditioned | None:
    """The only member of an ensemble whose f is a sum of orthogonal parts of the inputs, if it is that."""
    if len(ensemble.blocks) > 1 or ensemble.blocks[0].members > 1:
        return None
    block, model = ensemble.blocks[0], ensemble.blocks[0].model
    fits = (
        type(model.kernel) is OrthogonalAdditive
        and model.kernel.dims is None
        and isinstance(model.features, Identity)
        and type(model.mean) in (Zero, Constant)
        and isinstance(model.warping, NoWarping)
    )
    return block if fits else None


def _analytic(block: Conditioned) -> tuple[np.ndarray, np.ndarray] | None:
    """First and total indices (D,) of the posterior mean Σ_i alpha_i k(x, x_i) under the standard normal law; None where rounding would spoil them.

    A part over a set u of inputs has the variance w² Σ_ij alpha_i alpha_j Π_(d in u) M_d,ij with M_d,ij = E k0_d(x, x_i) k0_d(x, x_j); sums over sets are
    elementary symmetric polynomials of the M_d. With next to no noise the alpha_i are large and cancel each other, more than the digits allow.
    """
    kernel, values = block.model.kernel, block.values["kernel"]
    assert isinstance(kernel, OrthogonalAdditive)
    H, alpha = block.points[0], block.alpha[0]
    M = _overlaps(H, values["lengthscale"].reshape(-1))
    w = kernel._weights({"variance": values["variance"].reshape(-1)}, H.shape[-1])
    pair = torch.outer(alpha, alpha)
    single = torch.stack([w[1] ** 2 * (pair * M_d).sum() for M_d in M])
    whole = _variance_of_sets(list(M), w, pair)
    if float(_variance_of_sets(list(M.abs()), w, pair.abs())) * _ROUNDING > _LOST * float(whole):
        return None
    without = torch.stack([_variance_of_sets([M_e for e, M_e in enumerate(M) if e != d], w, pair) for d in range(len(M))])
    return (single / whole).cpu().numpy(), (1 - without / whole).cpu().numpy()


def _variance_of_sets(M: list[Tensor], w: Tensor, pair: Tensor) -> Tensor:
    """Σ_r w_r² Σ_ij alpha_i alpha_j e_r(M)_ij over the orders r ≥ 1."""
    e: list[Tensor] = []
    for M_d in M:
        longer = [M_d * e[-1]] if e and len(e) < len(w) - 1 else [] if e else [M_d]
        e = [*([e[0] + M_d] if e else []), *(e[r] + M_d * e[r - 1] for r in range(1, len(e))), *longer]
    return sum((w[r + 1] ** 2 * (pair * e_r).sum() for r, e_r in enumerate(e)), start=pair.new_zeros(()))


def _overlaps(H: Tensor, lengthscale: Tensor) -> Tensor:
    """M (D, N, N): E k0(x, h_i) k0(x, h_j) for x ~ N(0, 1), all integrals of Gaussians; k0 = k − a a'."""
    h = H.mT.unsqueeze(-1)  # (D, N, 1)
    l2 = (lengthscale**2)[:, None, None]
    b = l2 + 1
    height = (1 - b**-2) ** 0.25
    a = height * torch.exp(-(h**2) / (2 * b))
    t2, m = l2 / 2, (h + h.mT) / 2
    products = (t2 / (t2 + 1)).sqrt() * torch.exp(-((h - h.mT) ** 2) / (4 * l2) - m**2 / (2 * (t2 + 1)))
    s2 = b / (b + 1)
    mixed = height * (s2 * l2 / (l2 + s2)).sqrt() * torch.exp(-(h**2) / (2 * (l2 + s2)))  # E a(x) k(x, h)
    squares = height**2 * (b / (b + 2)).sqrt()
    return products - a * mixed.mT - mixed * a.mT + squares * a * a.mT
