"""The paper's figures from the results of a run: one function a figure, each returns a matplotlib Figure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from manifoldgp import plots
from paper import charts
from paper.experiment import Experiment, Result
from paper.functions import STEP_GRID, as_fields, bandwidth, horizontal_spectrum, principal_features
from paper.outcome import Outcome
from paper.plan import experiment_of
from paper.walking import stride_phase

_PAPER_THREE = ("gp-se", "gp-nn", "mgp-sigmoid")


@plots.styled()
def step_models(outcome: Outcome, seed: int) -> Figure:
    """Figure 2 (a, b): three models on the step, and the features that the network learned, as functions of x."""
    results = _by_method(outcome, "step", seed)
    data = _data(results, "step")
    figure, (left, right) = plots.new_figure(1, 2, size=(7.6, 3.1), width_ratios=(1.35, 1.0))
    for key in _PAPER_THREE:
        if key in results:
            _band(left, STEP_GRID, results[key])
    plots.plot_observations(left, data.X_train[:, 0], data.y_train, label="training data")
    left.set(title="(a) Predictive mean and 95 % bounds", xlabel="x", ylabel="y", xlim=(-5, 5), ylim=(-1.15, 2.15))
    left.legend(loc="upper left", ncols=2, columnspacing=1.2)
    if "mgp-sigmoid" in results:
        plots.plot_feature_curves(right, STEP_GRID, results["mgp-sigmoid"].picture["features"])
        right.legend(loc="center right")
    right.set(title="(b) Learned features of the mGP", xlabel="x", ylabel="M(x)", xlim=(-5, 5), ylim=(-0.05, 1.05))
    return figure


@plots.styled()
def step_gap(outcome: Outcome, seed: int) -> Figure:
    """Ours: the gap around the discontinuity, where one trained model decides and averages do not."""
    results = _by_method(outcome, "step", seed)
    data = _data(results, "step")
    keys = [key for key in ("mgp-sigmoid", "mgp-restarts", "stack") if key in results]
    figure, axes = plots.new_figure(1, len(keys), size=(7.6, 2.9), sharey=True)
    edges = _gap(data.X_train[:, 0])
    span = float(np.clip(2.5 * max(-edges[0], edges[1]), 0.12, 0.4))
    for ax, key in zip(axes, keys, strict=True):
        ax.axvspan(*edges, color="#eceef1", linewidth=0, zorder=0)
        _band(ax, STEP_GRID, results[key])
        plots.plot_observations(ax, data.X_test[:, 0], data.y_test, size=16, marker="x", linewidths=0.9, label="test data")
        plots.plot_observations(ax, data.X_train[:, 0], data.y_train, label="training data")
        nlpp = results[key].scores["nlpp"]
        ax.set(title=f"{_label('step', key)}\ntest NLPP {nlpp:.2f}", xlabel="x", xlim=(-span, span), ylim=(-0.75, 1.75))
    axes[0].set_ylabel("y")
    axes[0].legend(*_points_only(axes[0]), loc="upper left", handletextpad=0.2)
    return figure


def worst_in_gap(outcome: Outcome) -> int:
    """The seed of the step whose mGP misses a test point inside the gap by most, in half-widths of its own bounds."""
    misses = []
    for result in outcome.of("step", "mgp-sigmoid"):
        data = experiment_of("step").dataset(result.config)
        left, right = _gap(data.X_train[:, 0])
        x = data.X_test[:, 0]
        inside = (x > left) & (x < right)
        mean, lower, upper = (np.interp(x[inside], STEP_GRID, result.picture[name]) for name in ("mean", "lower", "upper"))
        miss = np.abs(data.y_test[inside] - mean) / (0.5 * (upper - lower))
        misses.append((float(miss.max(initial=0.0)), result.config.seed))
    return max(misses)[1]


@plots.styled()
def bumps_maps(outcome: Outcome, seed: int) -> Figure:
    """Figure 3: the rotated function and the widest learned features, their spectra along x1, and the function over the features."""
    results = _by_method(outcome, "bumps", seed)
    data = _data(results, "bumps")
    fields = {"function": as_fields(data.y_test[:, None])}
    planes = {}
    for key in ("mgp-identity", "mgp-sigmoid"):
        if key in results:
            planes[key] = principal_features(np.array(results[key].picture["scaled_features"]))
            fields[key] = as_fields(planes[key])
    titles = {"function": "the function", "mgp-identity": "mGP (identity)", "mgp-sigmoid": "mGP (log-sigmoid)"}
    figure, axes = plots.new_figure(3, len(fields), size=(2.65 * len(fields), 7.2), height_ratios=(1.2, 0.75, 1.0))
    for column, (key, field) in enumerate(fields.items()):
        top, middle, bottom = axes[column], axes[len(fields) + column], axes[2 * len(fields) + column]
        plots.plot_map(top, field[0])
        what = "Intensity of" if key == "function" else "Widest feature of"
        top.set(title=f"{what}\n{titles[key]}", xlabel="x₁", ylabel="x₂" if column == 0 else "")
        frequency, power = horizontal_spectrum(field)
        style = charts.style_of(key)
        charts.plot_spectrum(middle, frequency, power, bandwidth=bandwidth(frequency, power), style=style)
        middle.set(title="Spectrum along x₁", xlabel="cycles per unit of x₁", xlim=(0, 1.0))
        if key == "function":
            middle.set_ylabel("share of power")
            across = (data.X_test[:, 1] - data.X_test[:, 0]) / np.sqrt(2)
            along = (data.X_test[:, 1] + data.X_test[:, 0]) / np.sqrt(2)
            plots.plot_feature_plane(bottom, np.stack([across, along], 1), data.y_test, label="y", size=5, colorbar=False)
            bottom.set(title="y, turned back by 45°", xlabel="across the valleys", ylabel="along the valleys")
        else:
            last = column == len(fields) - 1
            plots.plot_feature_plane(bottom, planes[key][:, :2], data.y_test, label="y", size=5, colorbar=last)
            bottom.set(title="y over the features", xlabel="feature direction 1", ylabel="feature direction 2")
    return figure


@plots.styled()
def bumps_errors(outcome: Outcome, seed: int) -> Figure:
    """Ours: the absolute error of the mean on the test grid, method by method."""
    results = _by_method(outcome, "bumps", seed)
    keys = [key for key in ("gp-se", "mgp-identity", "mgp-sigmoid", "stack") if key in results]
    figure, axes = plots.new_figure(1, len(keys), size=(1.9 * len(keys) + 0.5, 2.35), sharey=True)
    for ax, key in zip(axes, keys, strict=True):
        error = np.maximum(np.abs(as_fields(np.array(results[key].picture["error"])[:, None])[0]), 1e-9)
        plots.plot_map(ax, error, limits=(1e-7, 1e-1), logarithmic=True, colorbar=ax is axes[-1], label="|error|")
        ax.set(title=_label("bumps", key), xlabel="x₁")
    axes[0].set_ylabel("x₂")
    return figure


@plots.styled()
def walk_predictions(outcome: Outcome, key: str, seed: int) -> Figure:
    """Figure 5: predictions with 95 % bounds on the test walk, the paper's three models and ours."""
    results = _by_method(outcome, key, seed)
    data = _data(results, key)
    keys = [k for k in (*_PAPER_THREE, "stack") if k in results]
    rate = sample_rate(key)
    shown = min(len(data.y_test), int(2.6 * rate))
    time = np.arange(shown) / rate
    figure, axes = plots.new_figure(len(keys), 1, size=(7.6, 1.55 * len(keys) + 0.3), sharex=True, sharey=True)
    y = data.y_test[:shown]
    margin = 0.3 * (y.max() - y.min())
    for ax, k in zip(axes, keys, strict=True):
        curves = {name: np.array(results[k].picture[name])[:shown] for name in ("mean", "lower", "upper")}
        plots.plot_band(ax, time, curves["mean"], curves["lower"], curves["upper"], style=charts.style_of(k))
        plots.plot_observations(ax, time, y, size=5)
        if key == "walker":
            ax.axhline(185.0, color="#9aa1a9", linewidth=0.8, linestyle=(0, (4, 3)))
        scores = results[k].scores
        ax.set(
            title=f"{_label(key, k)}: test NLPP {scores['nlpp']:.2f}, {100 * (scores['coverage'] or 0):.0f} % of targets inside the bounds"
        )
    axes[0].set_ylim(y.min() - margin, y.max() + margin)
    axes[-1].set(xlabel="time in s", xlim=(0, time[-1]))
    figure.supylabel(f"left knee in {'rad' if key == 'icub' else 'degrees'}", fontsize=9)
    return figure


@plots.styled()
def walk_features(outcome: Outcome, key: str, seed: int) -> Figure:
    """Figure 6: two dimensions of the learned feature space of the walk, coloured by the phase of the stride."""
    results = _by_method(outcome, key, seed)
    data = _data(results, key)
    plane = principal_features(np.array(results["mgp-sigmoid"].picture["scaled_features"]))
    phase = stride_phase(data)
    train = len(data.y_train)
    figure, (left, right) = plots.new_figure(1, 2, size=(7.6, 3.3), width_ratios=(1.0, 1.16), sharex=True, sharey=True)
    plots.plot_feature_plane(left, plane[:train, :2], phase[:train], label="", cyclic=True, path=True, colorbar=False)
    plots.plot_feature_plane(right, plane[train:, :2], phase[train:], label="phase of the stride", cyclic=True, path=True)
    left.set(title="Training rows", xlabel="feature direction 1", ylabel="feature direction 2")
    right.set(title="Test rows", xlabel="feature direction 1")
    return figure


@plots.styled()
def score_strips(outcome: Outcome, key: str) -> Figure:
    """Test NLPP and RMSE of every method and seed, with the paper's values."""
    table = outcome.table(key)
    figure, axes = plots.new_figure(1, 2, size=(7.6, 0.34 * len(table.rows) + 1.2), sharey=True)
    for ax, metric, name in zip(axes, ("nlpp", "test_rmse"), ("test NLPP", "test RMSE"), strict=True):
        rows = [
            charts.Scores(
                row.label,
                [r.scores[metric] for r in outcome.of(key, row.method)],  # pyright: ignore[reportArgumentType]
                row.cells[metric].paper,
                charts.style_of(row.method),
            )
            for row in table.rows
        ]
        charts.plot_scores(ax, rows, logarithmic=metric == "test_rmse")
        ax.set(xlabel=f"{name}, lower is better")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper right", ncols=3)
    return figure


def sample_rate(key: str) -> float:
    """Samples a second of a walk: the iCub's 100, and the paper's 80."""
    return 100.0 if key == "icub" else 80.0


def _by_method(outcome: Outcome, experiment: str, seed: int) -> dict[str, Result]:
    return {r.config.method: r for r in outcome.of(experiment) if r.config.seed == seed}


def _data(results: dict[str, Result], experiment: str):
    return experiment_of(experiment).dataset(next(iter(results.values())).config)


def _label(experiment: str, method: str) -> str:
    chosen: Experiment = experiment_of(experiment)
    return chosen.method(method).label


def _band(ax, x, result: Result) -> None:
    p = result.picture
    label = _label(result.config.experiment, result.config.method)
    plots.plot_band(ax, x, p["mean"], p["lower"], p["upper"], style=charts.style_of(result.config.method), label=label)


def _gap(x: np.ndarray) -> tuple[float, float]:
    """The training inputs next to the discontinuity at 0, on either side."""
    return float(x[x <= 0].max()), float(x[x > 0].min())


def _points_only(ax) -> tuple[Sequence, Sequence[str]]:
    handles, labels = ax.get_legend_handles_labels()
    pairs = [(h, t) for h, t in zip(handles, labels, strict=True) if t.endswith("data")]
    return [h for h, _ in pairs], [t for _, t in pairs]
