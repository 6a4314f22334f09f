"""What a fitted model learned, parameter by parameter, in the units of the data where these are known."""

from __future__ import annotations

import html
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from manifoldgp.data.dates import pandas
from manifoldgp.features import Identity
from manifoldgp.parameters import leaves
from manifoldgp.warping import NoWarping

if TYPE_CHECKING:
    from manifoldgp.data.scaling import Standardizer
    from manifoldgp.estimators.manifold_gp import ManifoldGPRegressor
    from manifoldgp.estimators.noisy_inputs import InputNoise
    from manifoldgp.inference.posterior import Conditioned

STANDARDISED = "standardised"
"""The unit of what has no meaning outside the model: parameters of features, of sums and products, of warped targets."""


class ParameterRow(NamedTuple):
    """One number: of which target and group of members, the group's weight, its name, the input it belongs to (or ""), and its value and unit."""

    target: str
    group: str
    weight: float
    name: str
    input: str
    value: float
    unit: str


@dataclass(frozen=True)
class ParameterTable:
    """The parameters of the heaviest member of each group, one after the other; prints as a table."""

    rows: tuple[ParameterRow, ...]

    def __iter__(self) -> Iterator[ParameterRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def to_frame(self) -> Any:
        """The table as a pandas DataFrame."""
        return pandas().DataFrame(list(self.rows), columns=list(ParameterRow._fields))

    def __str__(self) -> str:
        cells = [list(ParameterRow._fields), *map(_cells, self.rows)]
        widths = [max(len(row[k]) for row in cells) for k in range(len(cells[0]))]
        return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells)

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{name}</th>" for name in ParameterRow._fields)
        body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in _cells(row)) + "</tr>" for row in self.rows)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def parameter_table(estimator: ManifoldGPRegressor, inputs: list[str], targets: list[str]) -> ParameterTable:
    """The table of a fitted estimator whose columns and targets have these names."""
    rows = []
    for o, ensemble in enumerate(estimator.ensembles_):
        each = zip(ensemble.blocks, ensemble.member_weights(), group_names(estimator, o), strict=True)
        for block, weights, group in each:
            found = _of_member(estimator, block, int(weights.argmax()), o, inputs, targets[o])
            rows += [ParameterRow(targets[o], group, float(weights.sum()), *row) for row in found]
    return ParameterTable(tuple(rows))


def group_names(estimator: ManifoldGPRegressor, output: int) -> list[str]:
    """The group of each block of an ensemble, in order."""
    starts = estimator.starts_[(estimator.starts_["output"] == output) & estimator.starts_["chosen"]]
    return list(dict.fromkeys(str(name) for name in starts["group"]))


def _of_member(
    estimator: ManifoldGPRegressor, block: Conditioned, member: int, output: int, inputs: list[str], target: str
) -> Iterator[tuple[str, str, float, str]]:
    """Name, input, value and unit of the member's parameters; those of a network are only counted."""
    offset, scale = float(estimator.y_scaler_.offset[output]), float(estimator.y_scaler_.scale[output])
    linear = isinstance(block.model.warping, NoWarping)
    noise = float(block.noise_variance().expand(block.members)[member]) ** 0.5
    yield "noise.sd", "", noise * (scale if linear else 1.0), target if linear else STANDARDISED
    input_noise: InputNoise | None = getattr(estimator, "input_noise_", None)
    for column, std in zip(inputs, input_noise.std, strict=True) if input_noise is not None else ():
        yield "noise.input_sd", column, float(std), column
    weights = 0
    for name, leaf in leaves(block.values):
        values = np.atleast_1d(leaf[member].detach().cpu().numpy())
        if name.startswith("features."):
            weights += values.size
        elif name == "kernel.variance" and linear:
            yield "kernel.sd", "", float(values[0]) ** 0.5 * scale, target
        elif name == "mean.constant" and linear:
            yield name, "", offset + scale * float(values[0]), target
        elif name in ("kernel.lengthscale", "kernel.period") and _one_for_each_input(
            block, values, len(estimator.x_scaler_.columns)
        ):
            for column, value, spread in _in_order_of_columns(estimator.x_scaler_, inputs, values):
                yield name, column, float(value * spread), column
        elif name != "noise.scale":
            for k, value in enumerate(values.ravel()):
                yield f"{name}[{k}]" if values.size > 1 else name, "", float(value), STANDARDISED
    if weights:
        yield f"features: numbers in {type(block.model.features).__name__}", "", float(weights), "count"


def _in_order_of_columns(scaler: Standardizer, names: list[str], values: np.ndarray) -> Iterator[tuple[str, float, float]]:
    """Name, value and spread of the inputs that the model sees, as the columns of the user come."""
    for c in np.argsort(scaler.columns).tolist():
        yield names[scaler.columns[c]], float(values[c]), float(scaler.scales[c])


def _one_for_each_input(block: Conditioned, values: np.ndarray, inputs: int) -> bool:
    return isinstance(block.model.features, Identity) and block.model.kernel.dims is None and values.shape == (inputs,)


def _cells(row: ParameterRow) -> list[str]:
    return [row.target, row.group, f"{row.weight:.4g}", row.name, row.input, f"{row.value:.4g}", row.unit]
