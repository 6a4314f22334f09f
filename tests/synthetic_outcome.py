"""An Outcome as ``python -m paper reproduce`` finds it, made up in a moment instead of fitted: right shapes, known scores."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from paper.experiment import Config, Experiment, Result, plain
from paper.functions import STEP_GRID
from paper.outcome import Outcome, gather
from paper.plan import Plan, experiment_of

KEYS = ("step", "bumps", "walker", "smooth")
_RANK = (
    "mgp-sigmoid", "mgp-restarts", "stack", "mgp-identity", "gp-nn", "gp-se", "pca", "random-embedding", "kernel-search", "mgp-pretrained", "autoencoder", "deep-gp",
    "mgp-guided", "linear", "warped-inputs", "warped-outputs", "spectral-mixture", "noisy-inputs", "periodic", "ica", "isomap", "lle",
)  # fmt: skip


def made_up_result(config: Config) -> Result:
    """Scores of a method get worse with its place in _RANK and with the seed: nlpp = -20 + 2 rank + seed / 10."""
    rank = _RANK.index(config.method)
    experiment = experiment_of(config.experiment)
    score = -20.0 + 2.0 * rank + config.seed / 10
    scores = {
        "nlml": None if experiment.method(config.method).average else score,
        "train_rmse": 1e-5 * (rank + 1),
        "nlpp": score,
        "test_rmse": 1e-5 * (rank + 1),
        "coverage": 0.95,
        "width": 0.1,
    }
    return Result(config, scores, 1.5, "Estimator(made_up=True)", plain(_picture(experiment, config), 5))


def _picture(experiment: Experiment, config: Config) -> dict:
    rng = np.random.default_rng(config.seed)
    data = experiment.dataset(config)
    if experiment.key == "bumps":
        linear = data.X_test @ rng.standard_normal((2, 3))
        bent = np.tanh(linear / 5) if config.method == "mgp-sigmoid" else linear
        picture = {"error": 1e-4 * rng.standard_normal(len(data.y_test))}
        return picture | ({"scaled_features": bent} if config.method in ("mgp-sigmoid", "mgp-identity", "mgp-restarts") else {})
    if experiment.key == "step":
        mean = (STEP_GRID > 0).astype(float)
        features = {"features": np.stack([mean, 1 - mean])}
    elif experiment.key == "smooth":
        mean, features = np.zeros(161), {}
    else:
        mean = data.y_test
        features = {"scaled_features": rng.standard_normal((len(data.y_train) + len(mean), 3))}
    band = {"mean": mean, "lower": mean - 0.1, "upper": mean + 0.1}
    return band | (features if config.method == "mgp-sigmoid" else {})


def made_up_outcome(seeds: int = 3, keys: tuple[str, ...] = KEYS) -> Outcome:
    """All methods of the experiments, this many seeds each."""
    configs = tuple(
        Config(key, method.key, seed, 2)
        for key in keys
        for seed in range(1 if key == "walker" else seeds)
        for method in experiment_of(key).methods
    )
    return gather(Plan(True, configs, ("A remark.",)), [made_up_result(c) for c in configs], [], 12.0)


def icub_file(folder: Path) -> Path:
    """A recording with the columns of the iCub's."""
    names = "q_r_hip_pitch,q_l_hip_pitch,q_r_knee,rf_contact_20N,lf_contact_20N,q_l_knee"
    t = np.arange(660) / 15
    columns = [np.sin(t), np.cos(t), np.sin(t + 1), np.sin(t) > 0, np.sin(t) < 0, np.cos(t + 1)]
    path = folder / "icub_walking_only_100Hz.csv"
    np.savetxt(path, np.stack([np.asarray(c, float) for c in columns], 1), delimiter=",", header=names, comments="", fmt="%.6g")
    return path
