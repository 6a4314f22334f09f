"""Charts of the paper's report: every function draws on the Axes that it gets and returns it; methods can be told apart."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from manifoldgp.inspection import palette
from manifoldgp.plots import new_figure
from paper import charts


@pytest.fixture
def ax():
    return new_figure()[1][0]


def test_a_spectrum_marks_its_bandwidth(ax):
    frequency = np.linspace(0, 1, 11)
    assert charts.plot_spectrum(ax, frequency, np.exp(-frequency), bandwidth=0.4) is ax
    assert ax.texts[0].get_text() == "95 % below 0.40"
    assert ax.lines[-1].get_xdata()[0] == 0.4
    assert ax.get_ylim()[0] == 0.0


def test_scores_show_seeds_median_and_paper_and_keep_outliers_at_the_edge(ax):
    rows = [
        charts.Scores("good", [-3.0, -3.1, -3.2], -3.17, charts.style_of("stack")),
        charts.Scores("bad", [-3.0, 500.0, 700.0], None, charts.style_of("mgp-sigmoid")),
        charts.Scores("nothing", [], None, charts.style_of("gp-se")),
    ]
    assert charts.plot_scores(ax, rows) is ax
    assert [t.get_text() for t in ax.get_yticklabels()] == ["good", "bad", "nothing"]
    assert ax.texts[0].get_text() == "to 700 →"
    drawn = np.concatenate([np.atleast_1d(np.asarray(line.get_xdata(), dtype=float)) for line in ax.lines])
    assert drawn.max() < 10
    assert ax.get_ylim()[0] > ax.get_ylim()[1]  # the first method on top


def test_positive_scores_on_a_logarithmic_axis(ax):
    charts.plot_scores(ax, [charts.Scores("a", [1e-5, 1e-2], None, charts.style_of("gp-se"))], logarithmic=True)
    assert ax.get_xscale() == "log"
    assert not ax.texts


def _seen_without_red(color: str) -> np.ndarray:
    """sRGB colour as a deuteranope sees it (Machado et al. 2009, severity 1), in linear light."""
    rgb = np.array([int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]) @ linear


def test_methods_are_told_apart_without_seeing_red_and_green():
    styles = charts.METHOD_STYLES
    assert len({s.marker for s in styles.values()}) == len(styles)
    for (a, one), (b, other) in itertools.combinations(styles.items(), 2):
        distance = np.linalg.norm(np.cbrt(_seen_without_red(one.color)) - np.cbrt(_seen_without_red(other.color)))
        assert distance > 0.12 or one.dash != other.dash, (a, b)
    # The three that share the paper's pictures differ in both.
    for a, b in itertools.combinations(("gp-se", "gp-nn", "mgp-sigmoid"), 2):
        assert np.linalg.norm(np.cbrt(_seen_without_red(styles[a].color)) - np.cbrt(_seen_without_red(styles[b].color))) > 0.12
        assert styles[a].dash != styles[b].dash


def test_unknown_methods_are_drawn_in_ink():
    assert charts.style_of("something else").color == palette.INK
