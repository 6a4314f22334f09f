"""A pendulum seen by a camera: its angle from pixels, then its dynamics in the features that were learned for that. Draws the pictures of docs/guide/pixels.md.

    python examples/pixels.py [--out docs/images] [--quick]

First a few hundred photographs with known angles: a small convolutional encoder is trained with the GP on the evidence, beside PCA and a GP. Then videos without angles, under
known torques: a GP learns from one step to the next in feature space, and is rolled out on its own predictions (after Wahlström, Schön and Deisenroth 2015, "From pixels to torques").
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import Tensor, nn

from manifoldgp import PCA, GPRegressor, ManifoldGPRegressor, Single
from manifoldgp.dynamics import DynamicsModel, Trajectories
from manifoldgp.errors import FitWarning
from manifoldgp.inspection.palette import BLUE, GREEN, VERMILLION
from manifoldgp.plots import Style, new_figure, plot_band, plot_feature_plane, styled

Array = NDArray[np.float64]

SIDE = 20
"""Pixels of an image, across and down."""
DT = 0.1
"""Seconds between two frames."""


# ---- the camera


def render(angle: Array, rng: np.random.Generator) -> Array:
    """Images (n, SIDE²) of pendulums at these angles (n,), zero hanging down: the camera shakes, the light changes, and a ball rolls about that has nothing to do with it."""
    n, length = len(angle), 7.0
    down, across = np.mgrid[:SIDE, :SIDE].astype(float)
    pixels = np.stack([across, down], -1).reshape(1, -1, 2)
    pivot = 0.5 * (SIDE - 1) + rng.uniform(-1, 1, (n, 1, 2))
    rod = np.stack([np.sin(angle), np.cos(angle)], -1)[:, None]
    seen = pixels - pivot
    along = (seen * rod).sum(-1, keepdims=True).clip(0, length)
    pendulum = np.maximum(_ink(seen - along * rod, 0.7), _ink(seen - length * rod, 2.0))
    ball = 0.6 * _ink(pixels - rng.uniform(2, SIDE - 2, (n, 1, 2)), 2.0)
    light = rng.uniform(0.6, 1.0, (n, 1))
    return light * np.maximum(pendulum, ball) + 0.05 * rng.normal(size=(n, SIDE * SIDE))


def _ink(away: Array, radius: float) -> Array:
    """1 within the radius, 0 beyond, and between them for the pixels on the edge; away (..., 2)."""
    return np.clip(radius + 0.5 - np.linalg.norm(away, axis=-1), 0.0, 1.0)


def swing(steps: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Angles (steps,) of a pendulum that is pushed by random torques (steps, 1)."""
    angle, rate = rng.uniform(-np.pi, np.pi), rng.uniform(-3, 3)
    torque = rng.uniform(-4, 4, (steps, 1))
    angles = []
    for push in torque[:, 0]:
        angles.append(angle)
        for _ in range(10):
            rate += 0.1 * DT * (-9.81 * np.sin(angle) - 0.2 * rate + push)
            angle += 0.1 * DT * rate
    return np.array(angles), torque


def directions(angle: Array) -> Array:
    """sin and cos (n, 2): an angle without its jump from -180° to 180°."""
    return np.stack([np.sin(angle), np.cos(angle)], -1)


def degrees(predicted: Array, angle: Array) -> Array:
    """By how many degrees predicted directions (..., 2) are off."""
    found = np.arctan2(predicted[..., 0], predicted[..., 1])
    return np.degrees(np.angle(np.exp(1j * (found - angle))))


# ---- the features


class WhereBright(nn.Module):
    """From maps (n, C, s, s) to the place of each one's bright spot (n, 2C): the mean of its pixels' places, weighted by a softmax (Levine et al. 2016)."""

    def forward(self, maps: Tensor) -> Tensor:
        weight = maps.flatten(-2).softmax(-1).unflatten(-1, maps.shape[-2:])
        place = torch.linspace(-1, 1, maps.shape[-1], dtype=maps.dtype, device=maps.device)
        return torch.cat([(weight.sum(-2) * place).sum(-1), (weight.sum(-1) * place).sum(-1)], -1)


def encoder(features: int = 2) -> nn.Module:
    """Four filters of 7 × 7 pixels, the place where each one answers most, and a linear map of these places: 214 weights."""
    return nn.Sequential(nn.Unflatten(1, (1, SIDE, SIDE)), nn.Conv2d(1, 4, 7, bias=False), WhereBright(), nn.Linear(8, features))


def dense_encoder(features: int = 2) -> nn.Module:
    """The usual convolutional encoder, with a dense layer at its end: 752 weights."""
    return nn.Sequential(
        nn.Unflatten(1, (1, SIDE, SIDE)), nn.Conv2d(1, 6, 5, stride=2), nn.Tanh(),
        nn.Conv2d(6, 8, 3, stride=2), nn.Tanh(), nn.Flatten(), nn.Linear(8 * 9, features),
    )  # fmt: skip


def regressor(features: PCA | nn.Module, given: argparse.Namespace) -> ManifoldGPRegressor:
    """Sine and cosine on shared features. Pixels are not standardised: that would make the noise in dark corners as bright as the pendulum."""
    averaging = Single(restarts=given.restarts, max_iter=given.iterations, shared_features=True)
    return ManifoldGPRegressor(features, averaging=averaging, standardize="y", random_state=0)


# ---- the two experiments


@dataclass(frozen=True)
class Videos:
    """Frames (R, T, SIDE²) of R videos, the torques (R, T, 1) that were applied, and the angles (R, T) that only the test looks at."""

    frames: Array
    torques: Array
    angles: Array

    @classmethod
    def filmed(cls, runs: int, steps: int, rng: np.random.Generator) -> Videos:
        swings = [swing(steps, rng) for _ in range(runs)]
        return cls(
            np.stack([render(a, rng) for a, _ in swings]), np.stack([u for _, u in swings]), np.stack([a for a, _ in swings])
        )


@dataclass(frozen=True)
class Seen:
    """A way to see: the fitted angle from pixels, its errors on test images in degrees, and those of rollouts (H + 1, n) in feature space."""

    model: ManifoldGPRegressor
    errors: Array
    seconds: float
    rolled: Array
    example: tuple[Array, Array, Array]


def recordings(model: ManifoldGPRegressor, videos: Videos) -> Trajectories:
    """The videos as runs of features and their rates: of the first frame there is no rate, so that a run begins with the second."""
    H = np.stack([model.transform(frames) for frames in videos.frames])
    states = np.concatenate([H[:, 1:], np.diff(H, axis=1) / DT], -1)
    Q = H.shape[-1]
    names = [f"{kind}{q}" for kind in ("h", "rate") for q in range(Q)]
    return Trajectories.from_arrays(list(states), list(videos.torques[:, 1:]), dt=DT, state_names=names, action_names=["torque"])


def dynamics(model: ManifoldGPRegressor, videos: Videos, given: argparse.Namespace) -> DynamicsModel:
    """One step in feature space: changes of the rates are learned, features follow from them."""
    runs = recordings(model, videos)
    Q = len(runs.state_names) // 2
    follows = {f"h{q}": f"rate{q}" for q in range(Q)}
    plain = GPRegressor(restarts=2, max_iter=given.iterations, random_state=0)
    return DynamicsModel(plain, rates=follows).fit(runs)  # pyright: ignore[reportArgumentType]


def study(
    name: str,
    features: Callable[[], PCA | nn.Module],
    photographs: tuple[Array, Array],
    tests: tuple[Array, Array],
    videos: tuple[Videos, Videos],
    given,
) -> Seen:
    """Angle from pixels, then dynamics in its features, which are made here; prints both errors."""
    begin = time.process_time()
    torch.manual_seed(0)  # for the encoder's first start, the weights it comes with
    images, angles = photographs
    model = regressor(features(), given).fit(images, directions(angles))
    errors = degrees(model.predict(tests[0]), tests[1])
    density = model.log_predictive_density(tests[0], directions(tests[1])).mean()
    reader = GPRegressor(restarts=2, max_iter=given.iterations).fit(model.transform(images), directions(angles))
    moving = dynamics(model, videos[0], given)
    rolled, example = roll(model, reader, moving, videos[1], given.horizon)
    seconds = time.process_time() - begin
    after = " ".join(f"{np.sqrt(np.mean(rolled[h] ** 2)):6.1f}" for h in (1, 5, given.horizon))
    print(
        f"{name:28} {np.sqrt(np.mean(errors**2)):6.1f} {np.median(np.abs(errors)):6.1f} {density:8.2f}   {after} {seconds:6.0f}",
        flush=True,
    )
    return Seen(model, errors, seconds, rolled, example)


def roll(
    model: ManifoldGPRegressor, reader: GPRegressor, moving: DynamicsModel, videos: Videos, horizon: int
) -> tuple[Array, tuple[Array, Array, Array]]:
    """Errors in degrees (H + 1, n) of rollouts from many frames of the test videos, and one rollout as drawn angles (P, H' + 1) beside the truth and time."""
    runs = recordings(model, videos)
    T = len(runs.runs[0])
    at = range(0, T - horizon, 3)
    states = np.concatenate([run.states[list(at)] for run in runs.runs])
    actions = np.concatenate([[run.actions[t : t + horizon] for t in at] for run in runs.runs])
    truth = np.concatenate([[a[1 + t : 2 + t + horizon] for t in at] for a in videos.angles])
    Q = states.shape[1] // 2
    H = moving.rollout(states, actions, method="mean").mean[..., :Q]
    errors = degrees(reader.predict(H.reshape(-1, Q)).reshape(*H.shape[:2], 2), truth)
    first = moving.rollout(runs.runs[0].states[0], runs.runs[0].actions[: T - 1], method="particles", particles=60)
    assert first.particles is not None
    drawn = reader.predict(first.particles[..., :Q].reshape(-1, Q)).reshape(*first.particles.shape[:2], 2)
    return errors.T, (drawn, videos.angles[0, 1:], first.time)


# ---- pictures


def draw_film(videos: Videos) -> Figure:
    """Every fourth frame of the first test video, with its time."""
    with styled():
        figure, axes = new_figure(1, 8, size=(8.8, 1.35))
        for k, ax in enumerate(axes):
            ax.imshow(videos.frames[0, 4 * k % len(videos.frames[0])].reshape(SIDE, SIDE), cmap="gray", vmin=0, vmax=1)
            ax.set(xticks=[], yticks=[])
            ax.grid(visible=False)
            ax.set_title(f"{4 * k * DT:.1f} s", fontweight="normal", fontsize=8.5)
    return figure


def draw_found(seen: dict[str, Seen], linear: str, learned: str, tests: tuple[Array, Array]) -> Figure:
    """Both feature planes coloured by the angle, errors against the horizon, and a rollout."""
    with styled():
        figure, axes = new_figure(2, 2, size=(8.4, 6.6))
        for ax, name in zip(axes, ("PCA(2) + GP", learned), strict=False):
            turn = (tests[1] / (2 * np.pi)) % 1.0
            plot_feature_plane(ax, seen[name].model.transform(tests[0]), turn, label="angle, in turns", cyclic=True)
            ax.set(title=f"features: {name}", xlabel="feature 1", ylabel="feature 2")
        for name, style in ((linear, Style(VERMILLION, "--")), (learned, Style(BLUE))):
            error = np.sqrt(np.mean(seen[name].rolled ** 2, axis=1))
            axes[2].plot(np.arange(len(error)) * DT, error, color=style.color, linestyle=style.dash, label=name)
        axes[2].set(title="error of the rolled-out angle", xlabel="seconds ahead", ylabel="RMSE, degrees", ylim=(0, None))
        axes[2].legend()
        _draw_rollout(axes[3], *seen[learned].example)
    return figure


def _draw_rollout(ax: Axes, drawn: Array, angle: Array, seconds: Array) -> None:
    """sin of the angle, which has no jumps: drawn trajectories' middle 90 %, and the truth."""
    low, middle, high = np.quantile(drawn[..., 0], (0.05, 0.5, 0.95), axis=0)
    plot_band(ax, seconds, middle, low, high, style=Style(BLUE), label="rolled out from two frames, 90 %")
    ax.plot(seconds, np.sin(angle), color=GREEN, linestyle="--", label="truth")
    ax.set(title="a video that was not learned from", xlabel="seconds", ylabel="sin of the angle", ylim=(-1.3, 1.75))
    ax.legend(loc="upper right", ncols=2, fontsize=7.5)


def main(arguments: list[str] | None = None) -> dict[str, Seen]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("docs/images"))
    parser.add_argument("--quick", action="store_true", help="few images, frames and iterations, to see that it runs")
    given = parser.parse_args(arguments)
    given.restarts, given.iterations, given.horizon = (1, 5, 6) if given.quick else (4, 300, 15)
    rows, runs, steps, count = (30, 2, 10, 60) if given.quick else (300, 6, 40, 500)
    rng = np.random.default_rng(0)
    angles = rng.uniform(-np.pi, np.pi, rows + count)
    images = render(angles, rng)
    videos = Videos.filmed(runs, steps, rng), Videos.filmed(2 if given.quick else 6, steps, rng)
    print(
        f"{rows} photographs, {runs} videos of {steps} frames; errors in degrees on {count} others, and after so many steps of a rollout"
    )
    print(f"{'':28} {'RMSE':>6} {'median':>6} {'log dens.':>8}   {1:6} {5:6} {given.horizon:6} {'CPU s':>6}")
    ways = {
        "PCA(2) + GP": lambda: PCA(2), "PCA(10) + GP": lambda: PCA(10),
        "mGP, dense encoder": dense_encoder, "mGP, encoder of places": encoder,
    }  # fmt: skip
    tests = images[rows:], angles[rows:]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)  # fits that end at their limit of iterations
        seen = {
            name: study(name, features, (images[:rows], angles[:rows]), tests, videos, given) for name, features in ways.items()
        }
    given.out.mkdir(parents=True, exist_ok=True)
    draw_film(videos[1]).savefig(given.out / "pixels-film.png", dpi=110)
    draw_found(seen, "PCA(10) + GP", "mGP, encoder of places", tests).savefig(given.out / "pixels-found.png", dpi=110)
    return seen


if __name__ == "__main__":
    main()
