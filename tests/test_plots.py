"""Pictures: every function draws on the Axes that it gets and returns it."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from manifoldgp import plots
from manifoldgp.inspection.palette import FAINT, INK

pytest.importorskip("matplotlib", reason="needs the extra plots")


@pytest.fixture
def ax():
    return plots.new_figure()[1][0]


def test_a_band_has_a_line_two_edges_and_an_area(ax):
    x = np.linspace(0, 1, 5)
    style = plots.Style("#D55E00", (0, (1.2, 1.2)))
    assert plots.plot_band(ax, x, x, x - 1, x + 1, style=style, label="GP") is ax
    *edges, mean = ax.lines
    np.testing.assert_array_equal(mean.get_ydata(), x)
    np.testing.assert_array_equal([e.get_ydata() for e in edges], [x - 1, x + 1])
    assert mean.get_color() == style.color
    assert ax.get_legend_handles_labels()[1] == ["GP"]
    (area,) = ax.collections
    assert area.get_datalim(ax.transData).y0 == pytest.approx(-1.0)


def test_observations(ax):
    assert plots.plot_observations(ax, [1.0, 2.0], [3.0, 4.0], label="data") is ax
    np.testing.assert_array_equal(ax.collections[0].get_offsets(), [[1, 3], [2, 4]])


def test_feature_curves_differ_in_colour_and_dash(ax):
    x = np.linspace(-1, 1, 7)
    assert plots.plot_feature_curves(ax, x, [x, x**2, x**3]) is ax
    assert [line.get_label() for line in ax.lines] == ["feature 1", "feature 2", "feature 3"]
    assert (
        len({line.get_color() for line in ax.lines})
        == len({str(line.get_linestyle()) + str(line._dash_pattern) for line in ax.lines})
        == 3
    )  # pyright: ignore


@pytest.mark.parametrize("cyclic", [False, True])
def test_feature_plane(ax, cyclic):
    plane = np.random.default_rng(0).standard_normal((20, 2))
    values = np.linspace(0, 0.5, 20)
    assert plots.plot_feature_plane(ax, plane, values, label="phase", cyclic=cyclic, path=True) is ax
    np.testing.assert_allclose(ax.collections[0].get_offsets(), plane)
    assert len(ax.lines) == 1
    low, high = ax.collections[0].get_clim()
    assert (low, high) == ((0.0, 1.0) if cyclic else (0.0, 0.5))
    assert ax.figure.axes[-1].get_ylabel() == "phase"


def test_a_map_has_its_first_index_along_the_horizontal_axis(ax):
    field = np.arange(6.0).reshape(3, 2)
    assert plots.plot_map(ax, field, extent=(0, 3, 0, 2), label="y") is ax
    np.testing.assert_array_equal(np.asarray(ax.images[0].get_array()), field.T)
    assert ax.images[0].origin == "lower"
    assert ax.images[0].get_clim() == (0.0, 5.0)


def test_a_logarithmic_map(ax):
    plots.plot_map(ax, np.array([[1e-9, 1e-3], [1e-2, 10.0]]), limits=(1e-6, 1.0), logarithmic=True, colorbar=False)
    image = ax.images[0]
    assert image.norm(1e-3) == pytest.approx(0.5)
    assert image.norm(1e-9) == 0.0
    assert len(ax.figure.axes) == 1


def test_ink_and_faint_text_are_legible_on_white():
    def luminance(color: str) -> float:
        rgb = np.array([int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)])
        linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    assert 1.05 / (luminance(INK) + 0.05) > 7
    assert 1.05 / (luminance(FAINT) + 0.05) > 3


def test_no_global_state_is_touched():
    """Drawing must not pull in pyplot, which keeps figures alive and may open windows, nor change the user's settings."""
    code = (
        "import sys, matplotlib as m; before = m.rcParams['font.size'], m.rcParams['axes.grid']; from manifoldgp import plots;"
        "figure, axes = plots.new_figure(); plots.plot_observations(axes[0], [1], [2]);"
        "assert before == (m.rcParams['font.size'], m.rcParams['axes.grid']);"
        "assert 'matplotlib.pyplot' not in sys.modules; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
