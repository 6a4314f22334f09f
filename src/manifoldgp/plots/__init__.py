"""Pictures: each function draws on an Axes and returns it. Needs the extra ``plots`` (matplotlib)."""

from manifoldgp.errors import MissingExtraError

try:
    import matplotlib  # noqa: F401
except ImportError as error:
    raise MissingExtraError("Pictures need matplotlib, which is not installed. Run: pip install 'manifoldgp[plots]'.") from error

from manifoldgp.plots.bands import plot_band, plot_observations
from manifoldgp.plots.features import plot_feature_curves, plot_feature_plane
from manifoldgp.plots.maps import plot_map
from manifoldgp.plots.scores import Scores, plot_scores
from manifoldgp.plots.spectra import plot_spectrum
from manifoldgp.plots.style import METHOD_STYLES, Style, new_figure, style_of, styled

__all__ = [
    "METHOD_STYLES",
    "Scores",
    "Style",
    "new_figure",
    "plot_band",
    "plot_feature_curves",
    "plot_feature_plane",
    "plot_map",
    "plot_observations",
    "plot_scores",
    "plot_spectrum",
    "style_of",
    "styled",
]
