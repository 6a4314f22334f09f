"""Pictures, pages and diagnoses of models whose training was cut short or saw more rows than it kept."""

from __future__ import annotations

import re

import matplotlib.pyplot as plt
import numpy as np
import pytest

from manifoldgp import GPRegressor, ManifoldGPRegressor, Sparse, Stack, inspection
from manifoldgp.features import Identity
from manifoldgp.inspection.page import write_model_report
from manifoldgp.plots import plot_starts
from short_fits import SHORT_STACK, manifold


def _rows(count=60):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(count, 2))
    return X, np.sin(2 * X[:, 0]) + 0.3 * (X[:, 1] > 0) + 0.1 * rng.normal(size=count)


def _sparse(**arguments):
    return manifold(**{"method": "sparse", "inducing": 12, "restarts": 2, "max_iter": 15, **arguments})


def _cut_short(kind):
    """A model some of whose starts were never begun: a budget that is over before the second one."""
    if kind == "sparse":
        return _sparse(averaging="single", restarts=6, time_budget=1e-3)
    return GPRegressor(optimizer=kind, restarts=4, time_budget=1e-4)


@pytest.mark.filterwarnings("ignore::manifoldgp.errors.FitWarning")
@pytest.mark.parametrize("kind", ["sparse", "l-bfgs-b"])
def test_starts_that_were_never_begun_have_no_way_to_draw(kind, tmp_path):
    model = _cut_short(kind).fit(*_rows())
    begun = sum(len(history) > 0 for history in model.histories_)
    assert begun < len(model.histories_)
    found = inspection.traces(model)
    assert len(found) == begun
    lines = plot_starts(model).get_lines()
    plt.close("all")
    assert len(lines) == begun
    page = write_model_report(model, tmp_path / "model.html").read_text(encoding="utf-8")
    assert "chart-starts" in page
    if kind == "sparse":
        assert any("5 of 6 starts were never begun" in remark for remark in model.diagnose().remarks)


def test_starts_that_were_only_screened_are_not_drawn_beside_those_that_saw_all_rows():
    model = _sparse(averaging="single").fit(*_rows())
    assert "screened out" in model.starts_["status"]
    assert [trace.start for trace in inspection.traces(model)] == list(model.starts_["start"][model.starts_["chosen"]])


@pytest.fixture(scope="module")
def many():
    """A sparse model of 1,300 rows, of which it keeps 1,000; its third input varies in one row only, which is not among those."""
    X, y = _rows(1300)
    kept = _sparse(averaging="single").fit(X, y).ensembles_[0].blocks[0].data.y.numpy()
    model = _sparse(averaging="single")
    scaled = (y - y.mean()) / y.std()
    outside = int(np.argmax([np.abs(kept - value).min() for value in scaled]))
    rare = np.zeros(len(X))
    rare[outside] = 1.0
    return model.fit(np.column_stack([X, rare]), y)


def test_the_page_of_a_sparse_model_counts_all_rows_and_names_the_sample(many, tmp_path):
    page = write_model_report(many, tmp_path / "model.html").read_text(encoding="utf-8")
    assert "It was trained on 1,300 rows" in page
    assert "<dt>training rows</dt><dd>1,300</dd>" in page
    assert "What the model was trained on: 1,300 rows" in page
    assert "of a sample of 1,000 rows" in page
    assert (
        "A sample of 1,000 training rows (leave-one-out, not the fit to known values): each predicted from all the others."
        in page
    )
    assert "a sample of the training rows, left out" in page


def test_a_sparse_diagnosis_says_that_it_looked_at_a_sample(many):
    (remark,) = [remark for remark in many.diagnose().remarks if "onstant" in remark]
    assert remark == "Constant in a sample of 1,000 rows, so nearly without information: input 2."


def test_features_of_a_sparse_model_are_judged_by_a_sample():
    X, y = _rows(1300)
    doubled = np.column_stack([X, X[:, 0]])
    model = _sparse(averaging="single", features=Identity()).fit(doubled, y)
    assert (
        "The 3 inputs span only 2 dimensions in a sample of 1,000 rows: some follow from the others." in model.diagnose().remarks
    )
    few = _sparse(averaging="single", features=Identity()).fit(doubled[:60], y[:60])
    assert "The 3 inputs span only 2 dimensions: some follow from the others." in few.diagnose().remarks


def _text(page):
    return re.sub(r"<[^>]+>", "", page.read_text(encoding="utf-8"))


def test_the_page_explains_the_groups_that_a_sparse_stack_has(tmp_path):
    model = ManifoldGPRegressor(averaging=SHORT_STACK, method=Sparse(12)).fit(*_rows())
    text = _text(write_model_report(model, tmp_path / "model.html"))
    assert "weighted average of several models" in text
    assert "warm: models with learned features that began as the plain GP" in text
    assert "rough GP: the same with a rougher kernel (Matérn 3/2)" in text
    assert "deep: models on the inputs and on a network of several layers" in text
    assert "Warm, Cold, Large, Rough, Own, Deep: groups of mGPs" in text
    assert "nested: models" not in text


def test_the_page_of_an_exact_stack_of_other_sizes_explains_its_groups(tmp_path):
    sizes = Stack(
        deals=1,
        gp_starts=1,
        warm_members=1,
        cold_members=1,
        own_members=1,
        fold_members=1,
        variance_factors=(1.0, 4.0, 9.0, 16.0),
    )
    model = ManifoldGPRegressor(averaging=sizes).fit(*_rows(30))
    text = _text(write_model_report(model, tmp_path / "model.html"))
    assert "weighted average of several models" in text
    assert "warm: models with learned features that began as the plain GP" in text
    assert "variance multiplied by 4, 9 or 16 get weight" in text
    assert "nested: models" not in text


def test_endings_of_starts_are_told_in_words(tmp_path):
    model = _sparse(averaging="single", restarts=4).fit(*_rows())
    screened = np.flatnonzero(model.starts_["status"] == "screened out")
    model.starts_["status"][screened[1:]] = "not reached", "clearly lost"
    page = write_model_report(model, tmp_path / "model.html").read_text(encoding="utf-8")
    rows = {why: row for row in re.findall(r"<tr>.*?</tr>", page) for why in re.findall(r">([^<>]*: [^<>]*)<", row)}
    tried = rows["only tried on few rows: others did better"]
    assert tried.count('<td data-value="">–</td>') == 2  # values on few rows stand beside no others
    assert "never begun: time was up" in rows
    assert "stopped early: the best was out of reach" in rows
    assert "1 start was only tried on few rows and not drawn" in page
    assert "1 start was never begun, because time was up." in page
