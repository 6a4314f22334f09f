"""Pictures: each function draws on an Axes and returns it (of several parts, on a Figure of its own). Needs the extra ``plots`` (matplotlib).

Those whose first argument is ``model`` take a fitted estimator and make a figure of their own where ``ax=`` is left out.
"""

from manifoldgp.errors import MissingExtraError

try:
    import matplotlib  # noqa: F401
except ImportError as error:
    raise MissingExtraError("Pictures need matplotlib, which is not installed. Run: pip install 'manifoldgp[plots]'.") from error

from manifoldgp.plots.bands import plot_band, plot_observations, plot_prediction, plot_slice
from manifoldgp.plots.calibration import plot_coverage, plot_pit, plot_predicted_observed
from manifoldgp.plots.components import plot_components
from manifoldgp.plots.feature_space import plot_feature_curves, plot_feature_plane, plot_features, plot_relevance
from manifoldgp.plots.maps import plot_map, plot_mean_map, plot_std_map
from manifoldgp.plots.rollouts import plot_rollout
from manifoldgp.plots.style import Style, new_figure, styled
from manifoldgp.plots.traces import plot_starts, plot_weights

__all__ = [
    "Style",
    "new_figure",
    "plot_band",
    "plot_components",
    "plot_coverage",
    "plot_feature_curves",
    "plot_feature_plane",
    "plot_features",
    "plot_map",
    "plot_mean_map",
    "plot_observations",
    "plot_pit",
    "plot_predicted_observed",
    "plot_prediction",
    "plot_relevance",
    "plot_rollout",
    "plot_slice",
    "plot_starts",
    "plot_std_map",
    "plot_weights",
    "styled",
]
