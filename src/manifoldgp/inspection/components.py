"""The additive parts of a fitted kernel as curves and maps, each with its band."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from manifoldgp._system.plain_text import counted
from manifoldgp.errors import InputError
from manifoldgp.inspection.chosen_rows import output_index
from manifoldgp.inspection.curves import span

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from torch import Tensor

    from manifoldgp.estimators.manifold_gp import ManifoldGPRegressor
    from manifoldgp.structure.decomposition import Decomposition
    from manifoldgp.structure.expressions import Valued

_DEVIATIONS = 1.959964
"""Standard deviations of a normal distribution on either side of its mean that hold 95 %."""


@dataclass(frozen=True)
class Component:
    """One additive part of a kernel, in the units of y, around its own mean over the training rows.

    Attributes
    ----------
    words
        What it is.
    share
        cov(part, y) / var(y) over the training rows.
    columns
        The inputs it depends on, by number, or the features, where the kernel sees features; the first two of them vary in the arrays below, any others stay at
        their medians.
    names
        Of these inputs or features.
    x1, x2 : (n1,), (n2,) or None
        Values of these inputs. A part of one input has no x2.
    known_to
        The largest of the first input's values among the training rows.
    mean, std : (n1,) or (n1, n2)
        Of the part itself, without noise.
    """

    words: str
    share: float
    columns: tuple[int, ...]
    names: tuple[str, ...]
    x1: np.ndarray
    x2: np.ndarray | None
    known_to: float
    mean: np.ndarray
    std: np.ndarray

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """The interval that holds the part with a probability of 95 %, everywhere by itself."""
        return self.mean - _DEVIATIONS * self.std, self.mean + _DEVIATIONS * self.std


def components(
    model: ManifoldGPRegressor, *, output: int = 0, points: int = 200, upto: ArrayLike | None = None, margin: float = 0.0
) -> list[Component]:
    """The parts of a fitted model's kernel, the largest share of the variance first; constants have nothing to show and are left out.

    Parameters
    ----------
    points
        Values of an input; a map of two inputs has at most 40 of each.
    upto
        How far curves go on beyond the training rows: one value for each input (NaN: not at all).
    margin
        A share of the range by which curves go beyond the training rows at either end.
    """
    from manifoldgp.estimators.structure_words import input_words  # PyTorch, which drawing alone does not need
    from manifoldgp.estimators.units import on_device
    from manifoldgp.features import Identity
    from manifoldgp.structure.decomposition import Decomposition
    from manifoldgp.structure.expressions import inputs_of
    from manifoldgp.structure.words import words_of

    output = output_index(model, output)
    block, member = model.ensembles_[output].heaviest()
    found = Decomposition.of(block, member)
    inputs, on_features = input_words(model, found), not isinstance(found.posterior.model.features, Identity)
    given = found.posterior.H[0] if on_features else found.posterior.data.X
    X = given.cpu().numpy() if on_features else model.x_scaler_.as_given(given.cpu().numpy())
    ends = np.full(X.shape[1], np.nan) if upto is None else np.asarray(upto, dtype=float).reshape(-1)
    if len(ends) != X.shape[1]:
        what = "feature" if on_features else "input"
        raise InputError(f"upto needs one value for each of the {counted(X.shape[1], what)}; got {len(ends)}.")
    drawn = []
    for part, share in zip(found.parts, found.shares(), strict=True):
        places = inputs_of(part.kernel)
        places = list(range(len(inputs)) if places is None else places)
        if not places:
            continue
        columns = tuple(places if on_features else model.x_scaler_.columns[places].tolist())
        at, axes = _grid(X, columns, points, ends, margin)
        H = on_device(model, at)[None] if on_features else found.posterior.transform(on_device(model, model.x_scaler_.apply(at)))
        mean, std = _computed(found, part, H, model.ensembles_[output].scale, [len(axis) for axis in axes])
        names, known_to = tuple(inputs[place].name for place in places), float(X[:, columns[0]].max())
        x2 = axes[1] if len(axes) > 1 else None
        drawn.append(Component(words_of(part, inputs), share, columns, names, axes[0], x2, known_to, mean, std))
    return sorted(drawn, key=lambda component: -component.share)


def _grid(
    X: np.ndarray, columns: tuple[int, ...], points: int, ends: np.ndarray, margin: float
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Rows at which a part is computed, and the values of the inputs that vary: one input, or two."""
    varying = columns[:2]
    count = points if len(varying) == 1 else min(points, 40)
    axes = []
    for d in varying:
        low, high = span(X[:, d], margin)
        axes.append(np.linspace(min(low, np.fmin(low, ends[d])), max(high, np.fmax(high, ends[d])), count))
    mesh = np.meshgrid(*axes, indexing="ij")
    at = np.tile(np.median(X, axis=0), (mesh[0].size, 1))
    for d, values in zip(varying, mesh, strict=True):
        at[:, d] = values.ravel()
    return at, axes


def _computed(found: Decomposition, part: Valued, H: Tensor, scale: float, shape: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of a part at rows with the features H (1, n, Q), in the units of y and the shape of a grid."""
    mean, variance = found.component_at(part, H)
    return scale * mean.cpu().numpy().reshape(shape), scale * variance.sqrt().cpu().numpy().reshape(shape)
