"""One self-contained, interactive HTML page about a fitted model."""

from __future__ import annotations

import os
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from manifoldgp import inspection
from manifoldgp._system.files import refuse_unwritable, write_whole
from manifoldgp._system.plain_text import counted, visible
from manifoldgp._system.threads import threads_for
from manifoldgp.errors import InputError
from manifoldgp.inspection import page_charts, page_errors, page_relevance, page_trust
from manifoldgp.inspection import page_words as words
from manifoldgp.inspection.html_page import html_page
from manifoldgp.inspection.page_live import live_section
from manifoldgp.inspection.page_tables import data_table, numbers_table, renamed, score_table, settings_table, starts_table
from manifoldgp.inspection.page_view import MOST_TARGETS, ModelView, Spec, view_of

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from manifoldgp.data.inputs import Table
    from manifoldgp.estimators.manifold_gp import ManifoldGPRegressor


def write_model_report(
    model: ManifoldGPRegressor,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    columns: Sequence[str] | None = None,
    X: Table | None = None,
    y: ArrayLike | None = None,
    row_numbers: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    model_file: str | os.PathLike[str] = "model.mgp",
) -> Path:
    """Write one HTML file about a fitted model, which opens without a network; returns its path.

    Parameters
    ----------
    title
        The heading.
    columns
        Names of the inputs, or of the inputs and then the targets; by default those that the model was fitted on.
    X, y
        Test rows that the model has not seen; without them the model is judged by rows held out or left out of the training rows.
    row_numbers
        How the test rows are counted where they came from, if they are only some of its rows; from 1 by default.
    groups
        Labels of the test rows: what those of one label (a run, a patient) say of the intervals is less than what as many others would.
    model_file
        Where the model is saved, for the snippets of how to use it, which have the name without folders.
    """
    inspection.require_fitted(model)
    if (X is None) != (y is None):
        raise InputError("Test rows need both X and y: give both, or neither.")
    numbers = None if row_numbers is None else np.asarray(row_numbers)
    if numbers is not None and (y is None or numbers.shape != np.shape(y)[:1]):
        raise InputError(f"row_numbers must be as many as the test rows; got shape {numbers.shape}.")
    refuse_unwritable(path)
    with threads_for(model.ensembles_[0].blocks[0].rows):
        write_whole(path, _page(view_of(model, columns, X, y, numbers, groups), title, Path(model_file).name))
    return Path(path)


def _page(view: ModelView, title: str | None, model_file: str) -> str:
    charts: list[Spec] = []
    live, live_data, live_scripts = live_section(view)
    sections = [
        ("try", "Try it", live),
        ("predictions", "Predictions", _predictions(view, charts)),
        ("trust", "Trust", _trust(view, charts)),
        ("errors", "Errors", _errors(view, charts)),
        ("summary", "In words", _summary(view)),
        ("learned", "Features", _learned(view, charts)),
        ("training", "Training", _training(view, charts)),
        ("data", "Data", _data(view)),
        ("use", "Use it", words.usage(view, model_file)),
    ]
    heading = visible(title or words.title(view))
    head = f"<h1>{escape(heading)}</h1>{words.headline(view)}<p>{words.lead(view)}</p>{_facts(view)}"
    return html_page(heading, head, sections, {"charts": charts, **live_data}, scripts=live_scripts)


def _facts(view: ModelView) -> str:
    cards = "".join(f"<div><dt>{escape(name)}</dt><dd>{value}</dd></div>" for name, value in words.facts(view).items())
    return f'<dl class="facts">{cards}</dl>'


def _summary(view: ModelView) -> str:
    diagnosis = view.model.diagnose()
    remarks = "".join(f"<li>{escape(renamed(remark, view))}</li>" for remark in diagnosis.remarks)
    return (
        "<h2>In the words of Gaussian processes</h2>"
        f'<details><summary>What the fit looks like</summary><ul class="words">{remarks}</ul><p class="soft">{words.glossary(view)}</p></details>'
        f"<details><summary>All numbers of the diagnosis</summary>{numbers_table(diagnosis, view)}</details>"
    )


def _predictions(view: ModelView, charts: list[Spec]) -> str:
    html = f'<h2>What it predicts</h2><p class="soft">{words.READING}</p>{_chart(page_charts.prediction_chart(view), words.prediction(view), charts)}'
    html += _chart(page_charts.map_chart(view), words.MAP, charts)
    html += _chart(page_relevance.relevance_chart(view), words.RELEVANCE, charts, "<h3>Which inputs matter</h3>")
    return html + _chart(page_relevance.sobol_chart(view), words.SOBOL, charts)


def _trust(view: ModelView, charts: list[Spec]) -> str:
    return (
        f'<h2>How far it can be trusted</h2>{score_table(view)}<p class="soft">{words.SCORES}</p>'
        + _chart(page_trust.observed_chart(view), words.observed(view), charts)
        + f'<div class="pair">{_chart(page_trust.coverage_chart(view), words.coverage(view), charts)}{_chart(page_trust.pit_chart(view), words.pit(view), charts)}</div>'
    )


def _errors(view: ModelView, charts: list[Spec]) -> str:
    chart = _chart(page_errors.residuals_chart(view), words.residuals(view), charts)
    return f"<h2>Where it errs</h2>{chart}{page_errors.worst_rows(view)}<p class='soft'>{words.worst(view)}</p>"


def _learned(view: ModelView, charts: list[Spec]) -> str:
    found = page_charts.features_chart(view)
    return f"<h2>What it has learned</h2><p>{words.features(view, found is not None)}</p>" + _chart(
        found, words.feature_caption(view), charts
    )


def _training(view: ModelView, charts: list[Spec]) -> str:
    html = "<h2>How it was trained</h2>" + f"<p>{words.averaging(view)}</p>"
    html += _chart(page_trust.weights_chart(view), words.weights(view), charts)
    html += _chart(page_trust.starts_chart(view), words.starts(view), charts)
    html += f"<details><summary>Every start as a table</summary>{starts_table(view)}</details>"
    return html + f"<details><summary>Settings of the estimator</summary>{settings_table(view.model)}</details>"


def _data(view: ModelView) -> str:
    hidden = view.model.n_outputs_ - len(view.targets)
    note = f" The page shows the first {MOST_TARGETS} of {counted(view.model.n_outputs_, 'target')}." if hidden else ""
    return f"<h2>The data</h2><p>{words.data(view)}{note}</p>{data_table(view)}"


def _chart(found: Spec | None, caption: str, charts: list[Spec], above: str = "") -> str:
    """The place of a chart with its caption; notes the chart for the script."""
    if found is None:
        return ""
    charts.append(found)
    return f'{above}<div class="chart"><div id="chart-{found["id"]}"></div><p class="caption">{caption}</p></div>'
