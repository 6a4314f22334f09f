"""What a fitted model found, part by part, in words and in the units of the user."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from manifoldgp._system.plain_text import feature_name, one_line, unit_of
from manifoldgp.data.inputs import target_names
from manifoldgp.features import Identity
from manifoldgp.structure.decomposition import Decomposition
from manifoldgp.structure.expressions import inputs_of, text_of
from manifoldgp.structure.words import InputWords, listed, number, words_of

if TYPE_CHECKING:
    from manifoldgp.data.encoding import TableEncoding
    from manifoldgp.estimators.manifold_gp import ManifoldGPRegressor

_WORTH_A_LINE = 0.001
"""Parts with a smaller share of the variance are counted, not told."""


@dataclass(frozen=True)
class StructurePart:
    """An additive part of what was found.

    Attributes
    ----------
    words
        What it is.
    share
        cov(part, y) / var(y) over the training rows; the shares of all parts and of the noise add up to one.
    expression
        Its kernel, as it is written.
    inputs
        The names of the inputs that it depends on.
    """

    words: str
    share: float
    expression: str
    inputs: tuple[str, ...]


@dataclass(frozen=True)
class Structure:
    """What was found for a target; ``print(structure)`` says it in words.

    Attributes
    ----------
    target
        Its name.
    parts
        The largest share first.
    noise_share, noise_std
        What is left: its share of the variance, and the standard deviation of the noise in the units of y.
    expression
        The whole kernel, as the search found it, before it was multiplied out.
    unused
        Names of inputs that no part depends on.
    """

    target: str
    parts: tuple[StructurePart, ...]
    noise_share: float
    noise_std: float
    expression: str
    unused: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        """The same, sentence by sentence."""
        told = [part for part in self.parts if part.share >= _WORTH_A_LINE] or list(self.parts[:1])
        lines = [f"{self.target} is {'the sum of ' if len(told) > 1 else ''}{'; '.join(_with_share(part) for part in told)}."]
        if len(self.parts) > len(told):
            count = len(self.parts) - len(told)
            lines.append(
                f"{count} further {'part is' if count == 1 else 'parts are'} below {100 * _WORTH_A_LINE:g} % of the variance."
            )
        lines.append(f"Noise: {_percent(self.noise_share)} of the variance, a standard deviation of {number(self.noise_std)}.")
        together = {part.inputs for part in told if len(part.inputs) > 1}
        if together:
            lines.append(f"Inputs that interact: {'; '.join(listed(names) for names in sorted(together))}.")
        if self.unused:
            lines.append(f"No part depends on {listed(self.unused)}.")
        return [*lines, f"As a kernel: {self.expression}."]


def structure_of(estimator: ManifoldGPRegressor, output: int) -> Structure:
    """The parts of the kernel of one target, the largest share of the variance first."""
    ensemble = estimator.ensembles_[output]
    block, member = ensemble.heaviest()
    found = Decomposition.of(block, member)
    inputs = input_words(estimator, found)
    names = [x.name for x in inputs]
    told = [
        StructurePart(words_of(part, inputs), share, text_of(part.kernel, names), _seen(part.kernel, names))
        for part, share in zip(found.parts, found.shares(), strict=True)
    ]
    used = {name for part in told for name in part.inputs}
    noise_std = float(found.posterior.noise_variance()[0]) ** 0.5 * ensemble.scale
    return Structure(
        _target(estimator, output),
        tuple(sorted(told, key=lambda part: -part.share)),
        found.noise_share(),
        noise_std,
        text_of(found.posterior.model.kernel, names),
        tuple(name for name in names if name not in used),
    )


def input_words(estimator: ManifoldGPRegressor, found: Decomposition) -> list[InputWords]:
    """What the kernel sees, by name, with its range over the training rows: the inputs, or features, which have no units."""
    if not isinstance(found.posterior.model.features, Identity):
        H = found.posterior.H[0]
        ends = zip(H.amin(0).tolist(), H.amax(0).tolist(), strict=True)
        return [InputWords(feature_name(q), low, high, 0.0, 1.0) for q, (low, high) in enumerate(ends)]
    D = estimator.n_features_in_
    names = getattr(estimator, "feature_names_in_", ["x"] if D == 1 else [f"x{d}" for d in range(D)])
    scaler = estimator.x_scaler_
    X = scaler.as_given(found.posterior.data.X.cpu().numpy())
    low, high = np.min(X, 0), np.max(X, 0)
    told = zip(scaler.columns.tolist(), scaler.offsets.tolist(), scaler.scales.tolist(), strict=True)
    return [
        InputWords(one_line(str(names[d])), float(low[d]), float(high[d]), offset, scale, **_of_table(estimator, str(names[d])))
        for d, offset, scale in told
    ]


def _of_table(estimator: ManifoldGPRegressor, name: str) -> dict[str, Any]:
    """What the table knows of an input: its unit, and what its numbers say as dates."""
    encoding: TableEncoding | None = getattr(estimator, "table_encoding_", None)
    if encoding is None:
        return {"unit": unit_of(name)}
    date = encoding.date_column(name)
    dated = {} if date is None or date.time is None else {"column": one_line(date.name), "date": date.time.date_in_words}
    return {"unit": encoding.unit(name), **dated}


def _seen(kernel, names: list[str]) -> tuple[str, ...]:
    dims = inputs_of(kernel)
    return tuple(names) if dims is None else tuple(names[d] for d in dims)


def _target(estimator: ManifoldGPRegressor, output: int) -> str:
    return target_names(estimator)[output]


def _with_share(part: StructurePart) -> str:
    return f"{part.words} ({_percent(part.share)} of the variance)"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
