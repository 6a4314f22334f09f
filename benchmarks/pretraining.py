"""Are rows without targets worth anything? The angles of turned digits, as Salakhutdinov and Hinton (2007) found the orientation of faces.

    python benchmarks/pretraining.py [--labels 100 300 1000] [--unlabelled 10000] [--seeds 1 2] [--steps 1500] [--columns pixels code tuned few free]

Every image is one of scikit-learn's handwritten digits, turned by an angle between -90 and 90 degrees. A few images have their angle beside them, the others do not.
RMSE of the angle, and NLPP in brackets, on 1,000 images of digits that no other image shows. All models have the squared exponential with one length-scale:

pixels: a plain GP on them.
code: a plain GP on 200 bounded units on top of 200 others, of a denoising auto-encoder of all images, with angle or without.
tuned: the same encoder, then tuned on the evidence of the images that have an angle, with kernel and noise as they were on the code.
few: a plain GP on the ten linear units of an auto-encoder without noise.
free: as tuned, without the prior around the encoder, and everything trained together.

Units, noise, iterations and the prior's width were chosen on draw 0, which the table leaves out.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from scipy.ndimage import rotate
from sklearn.datasets import load_digits

from manifoldgp import MLP, AutoEncoder, GPRegressor, ManifoldGPRegressor, Single, SquaredExponential

TRAINING_DIGITS, TEST = 1200, 1000
UNITS, NOISE, SPREAD, ITERATIONS = (200, 200), 1.0, 0.3, 60
KERNEL = SquaredExponential(ard=False)
COLUMNS = {
    "pixels": "GP on pixels", "code": "auto-encoder + GP", "tuned": "pre-trained", "few": "ten units + GP", "free": "pre-trained, free"
}  # fmt: skip


def turned_digits(digits: np.ndarray, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Images (count, 144) of the digits (n, 8, 8), drawn with replacement, and their angles in degrees (count,)."""
    chosen, angle = rng.integers(len(digits), size=count), rng.uniform(-90.0, 90.0, count)
    images = [
        rotate(np.pad(digits[d], 4), a, reshape=False, order=1)[2:14, 2:14].ravel() for d, a in zip(chosen, angle, strict=True)
    ]
    return np.array(images) / 16.0, angle


def model_of(column: str, seed: int, steps: int) -> ManifoldGPRegressor:
    """The estimator of a column of the table."""
    if column == "pixels":
        return GPRegressor(KERNEL, restarts=2, random_state=seed)
    network, settings = MLP(UNITS, "tanh"), {"seed": seed, "steps": steps, "noise": NOISE}
    features = {
        "code": AutoEncoder(UNITS, activation=network.activations, **settings),
        "tuned": network.pretrained(spread=SPREAD, **settings),
        "few": AutoEncoder((60, 10), seed=seed, steps=steps),
        "free": network.pretrained(spread=None, **settings),
    }
    return ManifoldGPRegressor(features[column], KERNEL, averaging=Single(restarts=1, max_iter=ITERATIONS), random_state=seed)


def scores(columns: list[str], labels: int, unlabelled: int, seed: int, steps: int) -> dict[str, tuple[float, float]]:
    """RMSE in degrees and NLPP of each of these columns."""
    rng, digits = np.random.default_rng(seed), load_digits().images
    known, unknown = digits[:TRAINING_DIGITS], digits[TRAINING_DIGITS:]
    (X_test, angle), (X, y) = turned_digits(unknown, TEST, rng), turned_digits(known, labels, rng)
    X_more, _ = turned_digits(known, unlabelled, rng)
    found = {}
    for column in columns:
        begun = time.process_time()
        more = {} if column == "pixels" else {"unlabelled": X_more}
        model = model_of(column, seed, steps).fit(X, y, **more)
        rmse = float(np.sqrt(np.mean((model.predict(X_test) - angle) ** 2)))
        found[column] = rmse, -float(model.log_predictive_density(X_test, angle).mean())
        seconds = time.process_time() - begun
        print(
            f"  {labels} labels, seed {seed}, {COLUMNS[column]}: {rmse:.2f} ({found[column][1]:.2f}), {seconds:.0f} s", flush=True
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--labels", type=int, nargs="+", default=[100, 300, 1000])
    parser.add_argument("--unlabelled", type=int, default=10_000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2], help="draws of the images; the table is of their means")
    parser.add_argument("--steps", type=int, default=1500, help="of the auto-encoder, at most")
    parser.add_argument("--columns", nargs="+", choices=list(COLUMNS), default=["pixels", "code", "tuned"])
    arguments = parser.parse_args()
    columns = arguments.columns
    lines = [f"| labels | {' | '.join(COLUMNS[column] for column in columns)} |", "|---" * (len(columns) + 1) + "|"]
    for labels in arguments.labels:
        found = [scores(columns, labels, arguments.unlabelled, seed, arguments.steps) for seed in arguments.seeds]
        means = [np.mean([f[column] for f in found], 0) for column in columns]
        lines.append(f"| {labels:,} | " + " | ".join(f"{rmse:.1f} ({nlpp:.2f})" for rmse, nlpp in means) + " |")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
