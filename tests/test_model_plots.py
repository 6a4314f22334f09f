"""Pictures of fitted models: every averaging, one to five inputs, several targets."""

from __future__ import annotations

import numpy as np
import pytest

from fitted_models import AVERAGINGS, fitted, full_bayes, plain_gp, table

pytest.importorskip("matplotlib", reason="needs the extra plots")

from manifoldgp import Single, inspection, plots
from manifoldgp.errors import InputError

ALWAYS = (plots.plot_relevance, plots.plot_predicted_observed, plots.plot_pit, plots.plot_coverage, plots.plot_starts)


def drawn(ax) -> None:
    """Drawing the picture must go through, and leave something on the paper."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(ax.figure)
    canvas.draw()
    assert len(np.unique(np.asarray(canvas.buffer_rgba()).reshape(-1, 4), axis=0)) > 5


def described(ax) -> None:
    """A picture has something on it, and its axes say what they show."""
    assert ax.has_data()
    assert ax.get_xlabel()
    assert ax.get_ylabel() or [t.get_text() for t in ax.get_yticklabels()]


@pytest.mark.parametrize("inputs", [1, 2, 5])
@pytest.mark.parametrize("averaging", AVERAGINGS)
def test_every_picture_of_every_averaging(averaging, inputs):
    model = fitted(averaging, inputs)
    for plot in ALWAYS:
        described(plot(model))
    if averaging != "single":
        described(plots.plot_weights(model))
    if inputs == 1:
        described(plots.plot_prediction(model))
    else:
        described(plots.plot_slice(model, inputs - 1))
        described(plots.plot_mean_map(model, points=8))
        described(plots.plot_std_map(model, (1, 0), points=8))
    if averaging != "stack":  # which may give all weight to the plain GP
        described(plots.plot_features(model))


def test_pictures_of_full_bayes():
    model = full_bayes()
    for plot in (
        plots.plot_prediction,
        plots.plot_predicted_observed,
        plots.plot_pit,
        plots.plot_coverage,
        plots.plot_weights,
        plots.plot_features,
    ):
        described(plot(model))
    with pytest.raises(InputError, match=r"model.sampling_\[0\].draws is an ArviZ InferenceData"):
        plots.plot_starts(model)


@pytest.mark.parametrize("output", [0, 1])
def test_every_picture_of_each_of_two_targets(output):
    model = fitted("fast", 2, 2)
    for plot in (*ALWAYS, plots.plot_slice, plots.plot_mean_map, plots.plot_std_map, plots.plot_features, plots.plot_weights):
        described(plot(model, output=output))
    assert plots.plot_slice(model, output=output).get_ylabel() == f"y{output}"


def test_test_data_can_be_given():
    model, (X, y) = fitted("single", 2), table(30, 2, seed=5)
    for plot in (plots.plot_predicted_observed, plots.plot_pit, plots.plot_coverage, plots.plot_features):
        described(plot(model, X, y))
    assert "test rows" in plots.plot_predicted_observed(model, X, y).get_ylabel()
    assert "from all other rows" in plots.plot_predicted_observed(model).get_ylabel()


def test_a_given_axes_is_used_and_returned():
    _, axes = plots.new_figure(2, 4, size=(12, 6))
    model = fitted("fast", 2)
    functions = (*ALWAYS, plots.plot_slice, plots.plot_features, plots.plot_weights)
    for function, ax in zip(functions, axes, strict=True):
        assert function(model, ax=ax) is ax
    drawn(axes[0])
    one = plots.new_figure()[1][0]
    assert plots.plot_prediction(fitted("single"), ax=one) is one


def test_a_prediction_shows_mean_interval_and_rows():
    model, (X, y) = fitted("single"), table(40, 1)
    ax = plots.plot_prediction(model, level=0.5)
    band = inspection.slice_band(model, 0, level=0.5, points=400, margin=0.08)
    *edges, mean = ax.lines
    np.testing.assert_allclose(mean.get_ydata(), band.mean)
    np.testing.assert_allclose([e.get_ydata() for e in edges], [band.lower, band.upper])
    np.testing.assert_allclose(ax.collections[-1].get_offsets(), np.stack([X[:, 0], y], 1), atol=1e-12)
    assert {t.get_text() for t in ax.get_legend().get_texts()} == {"mean", "50 % interval", "training rows"}


def test_predicted_against_observed_has_asymmetric_bars():
    model = fitted("stack", 2)
    found = inspection.predictions(model)
    ax = plots.plot_predicted_observed(model)
    segments = ax.collections[0].get_segments()
    np.testing.assert_allclose([s[:, 1] for s in segments], np.stack([found.lower, found.upper], 1), rtol=1e-9)


def test_names_of_columns_are_used():
    model = fitted("single", 2, named=True)
    assert plots.plot_slice(model, "joint 1 <rad>").get_xlabel() == "joint 1 <rad>"
    ax = plots.plot_mean_map(model, ("joint 1 <rad>", 0), points=5)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("joint 1 <rad>", "joint 0 <rad>")
    assert plots.plot_relevance(model).get_yticklabels()[0].get_text() == "joint 0 <rad>"  # the strongest on top


def test_features_in_one_two_and_three_dimensions():
    from manifoldgp import ManifoldGPRegressor

    model = ManifoldGPRegressor(features=(4, 3), averaging=Single(restarts=2, max_iter=5)).fit(*table(30, 2))
    assert plots.plot_features(model).get_xlabel().startswith("direction 1 (")
    space = plots.plot_features(model, dims=3)
    assert space.name == "3d"
    drawn(space)
    line = plots.plot_features(model, dims=1)
    assert line.get_ylabel() == "y"
    with pytest.raises(InputError, match="dims must be 1, 2 or 3, and at most the number of features, 3"):
        plots.plot_features(model, dims=4)
    with pytest.raises(InputError, match="Axes with three dimensions"):
        plots.plot_features(model, dims=3, ax=line)


def test_what_cannot_be_shown_says_what_to_do():
    with pytest.raises(InputError, match="one input; this one has 2. Use plot_slice"):
        plots.plot_prediction(fitted("single", 2))
    with pytest.raises(InputError, match="level must be between 0 and 1"):
        plots.plot_slice(fitted("single", 2), level=95)
    with pytest.raises(InputError, match="plot_relevance or plot_slice instead"):
        plots.plot_features(plain_gp())
    with pytest.raises(InputError, match="averaging='stack' or 'restarts' has some"):
        plots.plot_weights(plain_gp())
    with pytest.raises(InputError, match="There is no input 1"):
        plots.plot_mean_map(fitted("single"))


def test_a_calibrated_and_an_overconfident_model_look_different():
    """Test rows with more noise than the model knows lie outside its intervals."""
    model, (X, y) = fitted("single"), table(400, 1, seed=9)
    honest = plots.plot_coverage(model, X, y).lines[-1].get_ydata()
    noisy = plots.plot_coverage(model, X, y + np.random.default_rng(0).normal(size=400)).lines[-1].get_ydata()
    assert noisy[-10] < 0.6 < honest[-10]
    ends = [bar.get_height() for bar in plots.plot_pit(model, X, y + np.random.default_rng(0).normal(size=400)).patches[:10]]
    assert min(ends[0], ends[-1]) > 2 * np.mean(ends[2:8])


def test_unfitted_estimators_are_refused():
    from sklearn.exceptions import NotFittedError

    from manifoldgp import ManifoldGPRegressor

    for plot in (*ALWAYS, plots.plot_prediction, plots.plot_slice, plots.plot_features, plots.plot_weights):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            plot(ManifoldGPRegressor())


def test_a_notebook_shows_a_picture_without_pyplot():
    figure, _ = plots.new_figure(size=(1, 1))
    assert figure._repr_png_().startswith(b"\x89PNG")
