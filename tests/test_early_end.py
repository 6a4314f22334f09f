"""A fit that ended before its time says so: in the diagnosis, in the file and on the page."""

from __future__ import annotations

import numpy as np
import pytest

from manifoldgp import GPRegressor, ManifoldGPRegressor, Restarts, Single, load
from manifoldgp.inspection.page import write_model_report

RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, size=(60, 2))
Y = np.sin(2 * X) + 0.1 * RNG.normal(size=X.shape)


def after(rounds: int):
    """A callback that stops training after so many rounds."""
    left = iter(range(rounds))
    return lambda iterations, values: next(left, None) is None


@pytest.mark.parametrize(
    "model",
    [
        GPRegressor(callback=after(3)),
        GPRegressor(method="sparse", callback=after(3)),
        ManifoldGPRegressor(averaging="stack", callback=after(150)),
        ManifoldGPRegressor(averaging=Single(restarts=2, shared_features=True), callback=after(3)),
    ],
    ids=["exact", "sparse", "stack", "shared features"],
)
def test_an_interrupted_fit_says_so_wherever_its_model_goes(model, tmp_path):
    model.fit(X, Y if "shared" in repr(model) else Y[:, 0])
    assert model.interrupted_
    model.save(tmp_path / "model.mgp")
    again = load(tmp_path / "model.mgp")
    assert again.interrupted_
    assert again.diagnose().remarks[0].startswith("Training was interrupted: this is the best model")
    page = write_model_report(again, tmp_path / "model.html").read_text()
    assert '<p class="caution">Training was interrupted' in page


def test_a_fit_to_the_end_says_nothing(tmp_path):
    model = GPRegressor(callback=lambda iterations, values: False).fit(X, Y[:, 0])
    model.save(tmp_path / "model.mgp")
    assert not load(tmp_path / "model.mgp").interrupted_
    assert "interrupted" not in " ".join(model.diagnose().remarks)
    assert "Training was interrupted" not in write_model_report(model, tmp_path / "model.html").read_text()


def test_a_time_budget_that_ended_training_is_told_on_the_page(tmp_path):
    model = ManifoldGPRegressor(averaging=Single(restarts=50, max_iter=100_000), time_budget=0.3).fit(X, Y[:, 0])
    assert not model.interrupted_
    assert "its time was up" in write_model_report(model, tmp_path / "model.html").read_text()


def test_members_that_joined_later_finish_it():
    model = ManifoldGPRegressor(averaging=Restarts(restarts=2, max_iter=20), callback=after(3)).fit(X, Y[:, 0])
    assert model.interrupted_
    model.set_params(callback=None).fit_more(X, Y[:, 0])
    assert not model.interrupted_
