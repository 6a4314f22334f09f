"""What a fitted model looks like, as arrays in original units: the numbers behind pictures and report pages."""

from manifoldgp.inspection import palette
from manifoldgp.inspection.chosen_rows import (
    Rows,
    chosen_inputs,
    chosen_rows,
    held_out,
    input_index,
    input_labels,
    input_names,
    output_index,
    require_fitted,
    row_levels,
    target_label,
    target_name,
    target_unit,
    thinned,
    training_rows,
)
from manifoldgp.inspection.components import Component, components
from manifoldgp.inspection.curves import Band, Surface, predicted_band, slice_band, span, surface
from manifoldgp.inspection.effects import effect_band
from manifoldgp.inspection.html_page import html_page
from manifoldgp.inspection.learned import LearnedFeatures, learned_features, sensitivities, widest_directions
from manifoldgp.inspection.predicted_rows import (
    Calibration,
    Predictions,
    calibration,
    coverage_band,
    fit_rows,
    histogram_band,
    predictions,
    rows_of_the_fit,
)
from manifoldgp.inspection.starts import Trace, Weights, mixture_weights, traces
from manifoldgp.inspection.table_columns import TableColumn, column_strengths, table_columns

__all__ = [
    "Band",
    "Calibration",
    "Component",
    "LearnedFeatures",
    "Predictions",
    "Rows",
    "Surface",
    "TableColumn",
    "Trace",
    "Weights",
    "calibration",
    "chosen_inputs",
    "chosen_rows",
    "column_strengths",
    "components",
    "coverage_band",
    "effect_band",
    "fit_rows",
    "held_out",
    "histogram_band",
    "html_page",
    "input_index",
    "input_labels",
    "input_names",
    "learned_features",
    "mixture_weights",
    "output_index",
    "palette",
    "predicted_band",
    "predictions",
    "require_fitted",
    "row_levels",
    "rows_of_the_fit",
    "sensitivities",
    "slice_band",
    "span",
    "surface",
    "table_columns",
    "target_label",
    "target_name",
    "target_unit",
    "thinned",
    "traces",
    "training_rows",
    "widest_directions",
]
