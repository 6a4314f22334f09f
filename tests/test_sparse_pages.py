"""Pictures, pages and diagnoses of models whose training was cut short or saw more rows than it kept."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest

from manifoldgp import GPRegressor, ManifoldGPRegressor, inspection
from manifoldgp.features import Identity
from manifoldgp.plots import plot_starts
from manifoldgp.report import write_model_report


def _rows(count=60):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(count, 2))
    return X, np.sin(2 * X[:, 0]) + 0.3 * (X[:, 1] > 0) + 0.1 * rng.normal(size=count)


def _sparse(**arguments):
    return ManifoldGPRegressor(**{"method": "sparse", "inducing": 12, "restarts": 2, "max_iter": 15, **arguments})


def _cut_short(kind):
    """A model some of whose starts were never begun: a budget that is over before the second one."""
    if kind == "sparse":
        return _sparse(averaging="none", restarts=6, time_budget=1e-3)
    return GPRegressor(optimizer=kind, restarts=4, time_budget=1e-4)


@pytest.mark.filterwarnings("ignore::manifoldgp.errors.FitWarning")
@pytest.mark.parametrize("kind", ["sparse", "l-bfgs-b", "newton-cg"])
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


def test_starts_that_were_only_screened_are_not_drawn_beside_those_that_saw_all_rows():
    model = _sparse(averaging="none").fit(*_rows())
    assert "screened out" in model.starts_["status"]
    assert [trace.start for trace in inspection.traces(model)] == list(model.starts_["start"][model.starts_["chosen"]])


@pytest.fixture(scope="module")
def many():
    """A sparse model of 1,300 rows, of which it keeps 1,000; its third input varies in one row only, which is not among those."""
    X, y = _rows(1300)
    kept = _sparse(averaging="none").fit(X, y).ensembles_[0].blocks[0].data.y.numpy()
    model = _sparse(averaging="none")
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
    assert "A sample of 1,000 training rows, but each is predicted from all the others" in page
    assert "a sample of the training rows, left out" in page


def test_a_sparse_diagnosis_says_that_it_looked_at_a_sample(many):
    (remark,) = [remark for remark in many.diagnose().remarks if "onstant" in remark]
    assert remark == "Constant in a sample of 1,000 rows, so nearly without information: input 2."


def test_features_of_a_sparse_model_are_judged_by_a_sample():
    X, y = _rows(1300)
    doubled = np.column_stack([X, X[:, 0]])
    model = _sparse(averaging="none", features=Identity()).fit(doubled, y)
    assert "The 3 features span only 2 dimensions in a sample of 1,000 rows: fewer features would do." in model.diagnose().remarks
    few = _sparse(averaging="none", features=Identity()).fit(doubled[:60], y[:60])
    assert "The 3 features span only 2 dimensions: fewer features would do." in few.diagnose().remarks
