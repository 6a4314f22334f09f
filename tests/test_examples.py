"""The examples run, in their quick setting."""

from __future__ import annotations

import importlib.util
import math
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def load(name: str):
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their own module up
    spec.loader.exec_module(module)
    return module


def test_bayesian_optimisation_compares_both_models(capsys):
    pytest.importorskip("botorch", reason="needs the extra [botorch]")
    example = load("bayesian_optimisation")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # BoTorch's remarks on short optimisations
        regret = example.main(["--quick", "--restarts", "2"])
    printed = capsys.readouterr().out
    assert "SingleTaskGP" in printed
    assert "sign test" in printed
    assert len(regret) == 2
    for (value,) in regret.values():
        assert 0.0 <= value < 3.0


def test_the_optimum_is_not_exceeded():
    pytest.importorskip("botorch", reason="needs the extra [botorch]")
    import torch

    example = load("bayesian_optimisation")
    grid = torch.cartesian_prod(*[torch.linspace(0, 1, 401, dtype=torch.float64)] * 2)
    for function in example.FUNCTIONS.values():
        best = float(function(grid).max())
        assert best <= example.optimum()
        assert math.isclose(best, example.optimum(), abs_tol=0.02)


def test_structure_is_found_said_and_drawn(tmp_path, capsys):
    pytest.importorskip("matplotlib", reason="needs the extra [plots]")
    example = load("structure")
    short = ["--depth", "1", "--most", "60", "--budget", "20", "--out", str(tmp_path)]
    models = example.main(short)
    assert set(models) == {"passengers", "co2", "sunspots"}
    printed = capsys.readouterr().out
    assert "passengers (generated), 36 of 60 rows" in printed
    assert "co2 is " in printed
    assert len(list(tmp_path.glob("structure-*.png"))) == 6


def test_suggestions_in_rounds_find_better_experiments(capsys):
    pytest.importorskip("botorch", reason="needs the extra [botorch]")
    example = load("suggestion_loop")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # BoTorch's remarks
        found, _ = example.main(["--quick"])
    printed = capsys.readouterr().out
    before = float(printed.split("best strength ")[1].split()[0])
    assert round(found, 3) >= before  # which is printed with three digits
    assert "round 2, 14 experiments" in printed


def test_a_pendulum_is_seen_and_rolled_out(tmp_path, capsys):
    pytest.importorskip("matplotlib", reason="needs the extra [plots]")
    example = load("pixels")
    seen = example.main(["--quick", "--out", str(tmp_path)])
    assert capsys.readouterr().out.count("GP") == len(seen) == 4
    assert {path.name for path in tmp_path.iterdir()} == {"pixels-film.png", "pixels-found.png"}
    for way in seen.values():
        assert way.errors.shape == (60,)
        assert np.isfinite(way.rolled).all()
    assert seen["mGP, encoder of places"].rolled.shape[0] == 7  # where it starts, and six steps


def test_the_first_weights_of_the_encoders_are_seeded(monkeypatch):
    example, seen = load("pixels"), []
    monkeypatch.setattr(example, "regressor", lambda features, given: seen.append(features) or 1 / 0)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            example.study("", example.encoder, (None, None), (None, None), (None, None), None)
    first, again = ([weights.tolist() for weights in features.parameters()] for features in seen)
    assert first == again


def test_images_show_the_angle_that_they_were_drawn_with():
    """The middle of the light moves round with the pendulum, whatever else is in the picture."""
    example = load("pixels")
    angle = np.repeat([0.0, np.pi / 2, np.pi, -np.pi / 2], 50)
    images = example.render(angle, np.random.default_rng(0)).clip(0.3, None) - 0.3  # without the noise
    down, across = np.mgrid[: example.SIDE, : example.SIDE].reshape(2, -1) - 0.5 * (example.SIDE - 1)
    light = (images / images.sum(1, keepdims=True)).reshape(4, 50, -1).mean(1)
    middle = np.stack([light @ across, light @ down], 1)
    assert np.abs(example.degrees(middle, angle[::50])).max() < 20
    assert example.degrees(example.directions(np.array([3.1])), np.array([-3.1])) == pytest.approx(np.degrees(6.2) - 360)


def test_free_rows_are_features_of_a_model(tmp_path, capsys):
    pytest.importorskip("matplotlib", reason="needs the extra [plots]")
    agree = load("gplvm").main(["--quick", "--out", str(tmp_path)])
    assert "all pixels" in capsys.readouterr().out
    assert list(agree) == ["PCA", "GP-LVM", "back-constrained"]
    assert (tmp_path / "gplvm-digits.png").is_file()
