"""Every picture of a fitted model, one file each: python examples/gallery.py [folder], by default docs/images.

Three models: the paper's step (one input), its rotated bumps (two), and the walking robot (five, the knee from the other joints).
"""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pandas as pd
from PIL import Image

from manifoldgp import ManifoldGPRegressor, Single, Stack, plots
from manifoldgp.data import rotated_bumps, step_function, walker


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    step, bumps, knee = step_function(0), rotated_bumps(0), walker()
    jump = ManifoldGPRegressor(averaging=Stack(own_members=10)).fit(step.X_train, step.y_train)
    plane = pd.DataFrame(bumps.X_train[:200], columns=list(bumps.input_names))
    valleys = ManifoldGPRegressor(features=(10, 3), averaging=Single(restarts=6)).fit(plane, bumps.y_train[:200])
    joints = pd.DataFrame(knee.X_train, columns=list(knee.input_names)), knee.y_train
    robot = ManifoldGPRegressor(averaging=Stack(own_members=10)).fit(joints[0][:300], joints[1][:300], ordered=True)
    test = pd.DataFrame(knee.X_test, columns=list(knee.input_names)), knee.y_test

    pictures = {
        "prediction": plots.plot_prediction(jump),
        "slice": plots.plot_slice(robot, "left_hip"),
        "mean-map": plots.plot_mean_map(valleys),
        "std-map": plots.plot_std_map(valleys),
        "features": plots.plot_features(robot),
        "features-3d": plots.plot_features(valleys, dims=3),
        "relevance": plots.plot_relevance(robot),
        "predicted-observed": plots.plot_predicted_observed(robot, *test),
        "pit": plots.plot_pit(robot),
        "coverage": plots.plot_coverage(robot, *test),
        "starts": plots.plot_starts(valleys),
        "weights": plots.plot_weights(robot),
    }
    for name, ax in pictures.items():
        path, drawn = folder / f"model-{name}.png", io.BytesIO()
        ax.figure.savefig(drawn, dpi=100)
        Image.open(drawn).convert("RGB").quantize(256).save(path, optimize=True)  # a third of the size, and looks the same
        print(f"{path}  {path.stat().st_size / 1024:.0f} kB")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[1] / "docs" / "images")
