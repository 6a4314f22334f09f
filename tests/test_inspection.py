"""The numbers behind pictures: in original units, and those that slow, obvious computations give."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import norm

from fitted_models import AVERAGINGS, fitted, full_bayes, plain_gp, table
from manifoldgp import GPRegressor, ManifoldGPRegressor, Single, inspection
from manifoldgp.errors import InputError
from manifoldgp.inference.exact_posterior import condition
from manifoldgp.model import Data


def test_training_rows_come_back_in_original_units():
    X, y = table(40, 2)
    rows = inspection.training_rows(fitted("single", 2))
    np.testing.assert_allclose(rows.X, X, atol=1e-12)
    np.testing.assert_allclose(rows.y, y, atol=1e-12)
    few = inspection.training_rows(fitted("single", 2), most=7)
    assert few.total == 40
    np.testing.assert_allclose(few.y, y[few.place], atol=1e-12)


def test_rows_need_both_inputs_and_targets():
    with pytest.raises(InputError, match="X and y belong together"):
        inspection.chosen_rows(fitted(), [[1.0]], None)


@pytest.mark.parametrize("column", [1, -1, "joint 1 <rad>"])
def test_inputs_by_name_or_number(column):
    assert inspection.input_index(fitted("single", 2, named=True), column) == 1


@pytest.mark.parametrize("column", [2, "joint", None, 0.5])
def test_unknown_inputs_are_refused(column):
    with pytest.raises(InputError, match="There is no input .* a number below 2, or a name: x0, x1"):
        inspection.input_index(fitted("single", 2), column)


@pytest.mark.parametrize("output", [-1, 2, "y"])
def test_unknown_targets_are_refused(output):
    with pytest.raises(InputError, match="output must be the number of a target, 0 to 1"):
        inspection.output_index(fitted("single", 2, 2), output)


def test_a_slice_varies_one_input_and_holds_the_others_at_their_medians():
    model, (X, _) = fitted("fast", 5), table(40, 5)
    band = inspection.slice_band(model, 2, points=9)
    at = np.tile(np.median(X, 0), (9, 1))
    at[:, 2] = band.x
    np.testing.assert_allclose(band.mean, model.predict(at), rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(
        np.stack([band.lower, band.upper], 1), model.predict_quantiles(at, (0.025, 0.975)), rtol=1e-8, atol=1e-9
    )
    assert band.x[0] < X[:, 2].min() < X[:, 2].max() < band.x[-1]


def test_a_surface_has_its_first_input_along_its_first_axis():
    model, (X, _) = fitted("single", 5), table(40, 5)
    found = inspection.surface(model, (4, 0), points=4)
    point = np.median(X, 0)
    point[4], point[0] = found.x1[3], found.x2[1]
    mean, std = model.predict(point[None], return_std=True)
    assert found.mean[3, 1] == pytest.approx(mean[0])
    assert found.std[3, 1] == pytest.approx(std[0])


@pytest.mark.parametrize("columns", [(0, 0), (0, -2), (0, 1, 1)])
def test_a_surface_needs_two_different_inputs(columns):
    with pytest.raises(InputError, match="A map needs two"):
        inspection.surface(fitted("single", 2), columns)


def test_sensitivities_are_slopes_times_spreads():
    """For a linear function a x they are |a| sd(x), whatever the units of x."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3)) * [1.0, 100.0, 0.01]
    y = 2.0 * X[:, 0] - 0.05 * X[:, 1]
    model = GPRegressor(kernel="linear", restarts=2).fit(X, y)
    np.testing.assert_allclose(
        inspection.sensitivities(model), [2.0 * X[:, 0].std(), 0.05 * X[:, 1].std(), 0.0], rtol=1e-3, atol=1e-3
    )


@pytest.mark.parametrize("averaging", AVERAGINGS)
def test_leave_one_out_is_what_a_model_without_the_row_predicts(averaging):
    """Every member conditioned anew without row 3, its parameters and weights unchanged."""
    model, row = fitted(averaging, 2), 3
    found = inspection.predictions(model)
    ensemble = model.ensembles_[0]
    kept = torch.arange(40) != row
    means, variances, weights = [], [], []
    for block, log_weights in zip(ensemble.blocks, ensemble.log_weights, strict=True):
        without = condition(block.model, block.values, Data(block.data.X[kept], block.data.y[kept]))
        mean, variance = without.mean_and_variance(block.data.X[row : row + 1])
        for factor, w in zip(ensemble.variance_factors, log_weights.exp(), strict=True):
            means.append(mean[:, 0])
            variances.append(factor * (variance[:, 0] + block.noise_variance()))
            weights.append(w)
    m, v, w = (torch.cat(part).numpy() for part in (means, variances, weights))
    y = (found.observed[row] - ensemble.offset) / ensemble.scale
    assert found.left_out
    assert found.mean[row] == pytest.approx(ensemble.offset + ensemble.scale * (w @ m), rel=1e-5)
    assert found.pit[row] == pytest.approx(w @ norm.cdf(y, m, np.sqrt(v)), rel=1e-4)
    assert found.log_density[row] == pytest.approx(np.log(w @ norm.pdf(y, m, np.sqrt(v))) - np.log(ensemble.scale), rel=1e-4)
    assert (found.lower < found.mean).all()
    assert (found.mean < found.upper).all()


def test_predictions_of_given_rows_are_those_of_the_model():
    model, (X, y) = fitted("single", 2), table(15, 2, seed=1)
    found = inspection.predictions(model, X, y)
    np.testing.assert_allclose(found.mean, model.predict(X))
    np.testing.assert_allclose(found.pit, model.predict_cdf(X, y))
    np.testing.assert_allclose(found.log_density, model.log_predictive_density(X, y))
    assert (found.left_out, found.total) == (False, 15)
    wide = inspection.predictions(model, X, y, noise_std=5.0)
    assert (wide.upper - wide.lower > found.upper - found.lower).all()
    few = inspection.predictions(model, X, y, noise_std=np.arange(1.0, 16.0), most=4)
    np.testing.assert_allclose(few.pit, model.predict_cdf(X, y, noise_std=np.arange(1.0, 16.0))[few.place])


def test_predictions_of_one_of_several_targets():
    model, (X, _) = fitted("single", 2, 2), table(15, 2, seed=1)
    Y = np.random.default_rng(2).normal(size=(15, 2))
    found = [inspection.predictions(model, X, Y, output=o) for o in (0, 1)]
    np.testing.assert_allclose(np.stack([f.mean for f in found], 1), model.predict(X))
    np.testing.assert_allclose(np.stack([f.pit for f in found], 1), model.predict_cdf(X, Y))
    np.testing.assert_allclose(sum(f.log_density for f in found), model.log_predictive_density(X, Y))


def test_noise_of_training_rows_is_not_asked_for():
    with pytest.raises(InputError, match="noise_std is the noise of given rows"):
        inspection.predictions(fitted(), noise_std=0.1)


@pytest.mark.parametrize(
    ("averaging", "source"), [("stack", "held-out rows"), ("fast", "leave-one-out"), ("single", "leave-one-out")]
)
def test_calibration_prefers_rows_that_no_member_saw(averaging, source):
    model = fitted(averaging)
    found = inspection.calibration(model)
    assert found.source == source
    if averaging == "stack":
        np.testing.assert_array_equal(found.pit, model.held_out_[0].pit)
    given = inspection.calibration(model, *table(10, 1, seed=3))
    assert given.source == "test rows"
    assert given.pit.shape == (10,)


def test_features_are_those_of_the_heaviest_member_that_learned_some():
    model, (X, _) = fitted("single", 2), table(40, 2)
    found = inspection.learned_features(model)
    np.testing.assert_allclose(found.H, model.transform(X), atol=1e-12)
    assert (found.group, found.weight) == ("own", 1.0)
    np.testing.assert_array_equal(found.lengthscales, model.ensembles_[0].blocks[0].values["kernel"]["lengthscale"][0])
    without = ManifoldGPRegressor((3, 2), "linear", averaging=Single(restarts=1)).fit(*table(40, 2))
    assert inspection.learned_features(without).lengthscales is None
    assert inspection.learned_features(fitted("fast", 2)).group == "nested"
    with pytest.raises(InputError, match="This model is a plain GP: it has no learned features"):
        inspection.learned_features(plain_gp())


def test_widest_directions():
    rng = np.random.default_rng(0)
    H = rng.normal(size=(500, 3)) * [0.1, 5.0, 1.0] + 7.0
    plane, share = inspection.widest_directions(H, 2)
    assert abs(np.corrcoef(plane[:, 0], H[:, 1])[0, 1]) > 0.99
    np.testing.assert_allclose(plane.std(0), [5.0, 1.0], rtol=0.1)
    assert share[0] == pytest.approx(25 / 26.01, rel=0.02)


@pytest.mark.parametrize("averaging", AVERAGINGS)
def test_every_start_has_its_trace(averaging):
    model = fitted(averaging, 2, 1 if averaging == "stack" else 2)
    for output in range(model.n_outputs_):
        found = inspection.traces(model, output=output)
        table_of_starts = model.starts_[model.starts_["output"] == output]
        assert len(found) == len(table_of_starts)
        np.testing.assert_allclose([t.objective[-1] for t in found], table_of_starts["objective"])
        assert [len(t.objective) - 1 for t in found] == table_of_starts["iterations"].tolist()


def test_weights_by_group_or_by_start():
    stack = inspection.mixture_weights(fitted("stack"))
    assert stack.names == ["plain GP", "rough GP", "warm", "cold", "rough", "own"]  # one input: nothing to add up
    assert stack.weights.shape == (6, 3)
    assert stack.held_out
    fast = inspection.mixture_weights(fitted("fast"))
    assert fast.names == ["plain GP", "nested"]
    np.testing.assert_allclose(fast.weights[:, 0], [1 / 3, 2 / 3])
    starts = inspection.mixture_weights(fitted("restarts", 2))
    assert starts.weights.sum() == pytest.approx(1.0)
    assert (np.diff(starts.weights[:, 0]) <= 0).all()
    with pytest.raises(InputError, match="This model is a single one: there are no weights"):
        inspection.mixture_weights(fitted("single"))


def test_frames_and_names_are_accepted_without_warnings():
    model, (X, y) = fitted("single", 2, named=True), table(10, 2, seed=1)
    frame = pd.DataFrame(X, columns=model.feature_names_in_)
    np.testing.assert_allclose(inspection.predictions(model, frame, y).mean, model.predict(frame))
    assert inspection.sensitivities(model, frame).shape == (2,)


def test_posterior_draws_have_no_iterations():
    with pytest.raises(InputError, match="draws from the posterior; they have no iterations"):
        inspection.traces(full_bayes())
    found = inspection.mixture_weights(full_bayes())
    np.testing.assert_allclose(found.weights, 1 / len(found.names))
    assert inspection.predictions(full_bayes()).pit.shape == (20,)


@pytest.mark.parametrize("warping", [None, "tanh"])
def test_leave_one_out_densities_are_in_the_units_of_y(warping):
    """Their mean is what diagnose() reports, also through a warping of the targets."""
    X, y = table(25, 1)
    model = ManifoldGPRegressor(features=(2, 1), target_warping=warping, averaging=Single(restarts=2, max_iter=15)).fit(X, 50 * y)
    found = inspection.predictions(model)
    reported = model.diagnose().numbers["leave-one-out negative log density per row"]
    assert -found.log_density.mean() == pytest.approx(reported, rel=1e-6)


def test_pipelines_are_told_what_to_do():
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    pipeline = make_pipeline(StandardScaler(), GPRegressor(restarts=1, max_iter=2)).fit(*table(20, 1))
    with pytest.raises(InputError, match=r"got a Pipeline. Of a pipeline give the last step, pipeline\[-1\]"):
        inspection.slice_band(pipeline, 0)
    assert inspection.input_names(pipeline[-1]) == ["x"]
