"""Are rows without targets worth anything? Angles of rendered shapes, as Salakhutdinov and Hinton (2007) found the orientation of faces.

    python benchmarks/pretraining.py [--labels 100 300 1000] [--unlabelled 10000] [--seeds 3]

Every image shows a tapered bar at an angle between -90 and 90 degrees, somewhere near the middle, longer or shorter, thicker or thinner, lighter or darker, under noise
in every pixel. A few images have their angle beside them, the others do not. RMSE of the angle on 1,000 further images:

plain GP: on the pixels, with one length-scale for all of them.
auto-encoder + GP: a plain GP on the code of an auto-encoder of all images, with angle or without.
pre-trained: the same encoder, then trained on the evidence of the images that have an angle.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from manifoldgp import MLP, AutoEncoder, GPRegressor, ManifoldGPRegressor, Single, SquaredExponential

SIDE, NOISE, TEST = 12, 0.2, 1000
LAYERS = (60, 10)
METHODS = ("plain GP", "network", "auto-encoder + GP", "pre-trained")


def shapes(count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Images (count, SIDE²) and their angles in degrees (count,)."""
    grid = np.linspace(-1.0, 1.0, SIDE)
    angle = rng.uniform(-90.0, 90.0, count)
    right, up = rng.uniform(-0.2, 0.2, (2, count, 1, 1))
    length, width, contrast = (rng.uniform(*span, (count, 1, 1)) for span in ((0.5, 0.8), (0.15, 0.25), (0.7, 1.3)))
    turn = np.deg2rad(angle)[:, None, None]
    x, y = grid[None, None, :] - right, grid[None, :, None] - up
    along, across = np.cos(turn) * x + np.sin(turn) * y, -np.sin(turn) * x + np.cos(turn) * y
    taper = width * (1.0 + 0.8 * along / length)  # thick at one end, thin at the other
    inside = np.exp(-((along / length) ** 4)) * np.exp(-0.5 * (across / np.maximum(taper, 0.05)) ** 2)
    images = contrast * inside + NOISE * rng.standard_normal(inside.shape)
    return images.reshape(count, -1), angle


def model_of(method: str, seed: int) -> ManifoldGPRegressor:
    """The estimator of a row of the table."""
    network = MLP(LAYERS, ("tanh", "identity"))
    features = {
        "network": network,
        "auto-encoder + GP": AutoEncoder(LAYERS, seed=seed),
        "pre-trained": network.pretrained(seed=seed),
    }
    if method == "plain GP":
        return GPRegressor(SquaredExponential(ard=False), restarts=2, random_state=seed)
    return ManifoldGPRegressor(features[method], averaging=Single(restarts=1, max_iter=200), random_state=seed)


def errors(labels: int, unlabelled: int, seed: int) -> dict[str, float]:
    """RMSE in degrees of every method."""
    rng = np.random.default_rng(seed)
    (X_test, angle), (X, y), (X_more, _) = shapes(TEST, rng), shapes(labels, rng), shapes(unlabelled, rng)
    found = {}
    for method in METHODS:
        begun = time.process_time()
        more = {"unlabelled": X_more} if method in ("auto-encoder + GP", "pre-trained") else {}
        model = model_of(method, seed).fit(X, y, **more)
        found[method] = float(np.sqrt(np.mean((model.predict(X_test) - angle) ** 2)))
        print(
            f"  {labels} labels, seed {seed}, {method}: {found[method]:.2f} ({time.process_time() - begun:.0f} s of processor time)",
            flush=True,
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--labels", type=int, nargs="+", default=[100, 300, 1000])
    parser.add_argument("--unlabelled", type=int, default=10_000)
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    lines = [f"| labels | {' | '.join(METHODS)} |", "|---" * (len(METHODS) + 1) + "|"]
    for labels in arguments.labels:
        found = [errors(labels, arguments.unlabelled, seed) for seed in range(arguments.seeds)]
        lines.append(f"| {labels:,} | " + " | ".join(f"{np.median([f[method] for f in found]):.1f}" for method in METHODS) + " |")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
