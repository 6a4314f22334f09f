"""What estimators have in common, whatever model they predict with: how they tell their predictive distribution, and what scikit-learn asks of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from sklearn.utils.validation import check_is_fitted

from manifoldgp._system.real_numbers import as_meant
from manifoldgp.estimators import predictions
from manifoldgp.estimators.conformal import intervals

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from manifoldgp.data.inputs import RandomState, Table
    from manifoldgp.estimators.units import Predicting


class PredictiveMethods:
    """Quantiles, intervals, densities, scores and draws of y: for estimators that hold an `Ensemble`, or another mixture, for each target."""

    missing: str
    time_budget: float | None
    starts_: np.ndarray

    @property
    def n_iter_(self) -> int:
        """Iterations of the start that took the most."""
        check_is_fitted(self)
        return int(self.starts_["iterations"].max())

    def _seconds_left(self) -> float | None:
        """Of the time budget, when training begins."""
        return self.time_budget

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.target_tags.multi_output = True
        tags.input_tags.allow_nan = self.missing != "error"
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "ensembles_")

    def score(self, X: Table, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """R² of the means, as scikit-learn defines it; targets that mean no numbers (dates, masked entries) are refused."""
        return super().score(X, as_meant(y, "y"), sample_weight)  # type: ignore[misc]

    def predict_quantiles(
        self: Predicting,
        X: Table,
        q: Sequence[float] = (0.05, 0.5, 0.95),
        *,
        latent: bool = False,
        noise_std: ArrayLike | None = None,
    ) -> np.ndarray:
        """Quantiles of y at X: (n, len(q)), or (n, len(q), O)."""
        return predictions.quantiles(self, X, q, latent, noise_std)

    def predict_interval(
        self: Predicting,
        X: Table,
        level: float = 0.95,
        *,
        conformal: str | None = None,
        calibration: tuple[Table, ArrayLike] | None = None,
    ) -> np.ndarray:
        """Intervals that should hold a share ``level`` of new observations: (n, 2), or (n, 2, O).

        Parameters
        ----------
        level
            The share, such as 0.95.
        conformal
            None: central intervals of the predictive distribution, right if the model is. "split": predictive standard deviations, stretched to fit the calibration rows.
            If these and the new rows are exchangeable (drawn alike, in no order), the interval of a new row holds with probability level or more, whatever the model.
            "jackknife+": errors of the training rows, each left out, in closed form. With parameters that have not seen the rows it holds with probability
            1 - 2 (1 - level) or more, and about level as a rule; trained parameters have seen them, so that here it is a rule and no guarantee.
        calibration
            For "split": (X, y) of rows that the model was not fitted on; level / (1 - level) of them at least.
        """
        return intervals(self, X, level, conformal, calibration)

    def log_predictive_density(self: Predicting, X: Table, y: ArrayLike, *, noise_std: ArrayLike | None = None) -> np.ndarray:
        """log p(y_i | x_i) (n,), in the units of y; several targets are independent, so their densities add up."""
        return predictions.log_density(self, X, y, noise_std)

    def predict_cdf(self: Predicting, X: Table, y: ArrayLike, *, noise_std: ArrayLike | None = None) -> np.ndarray:
        """P(Y_i <= y_i | x_i), shaped like y: the probability integral transform, uniform for a calibrated model."""
        return predictions.cdf(self, X, y, noise_std)

    def predict_crps(self: Predicting, X: Table, y: ArrayLike, *, noise_std: ArrayLike | None = None) -> np.ndarray:
        """Continuous ranked probability score of each row, shaped like y and in its units; lower is better, and an exact point prediction has 0.

        In closed form; for a warped target from a hundred quantiles. Of a prediction without spread it is the absolute error.
        """
        return predictions.crps(self, X, y, noise_std)

    def sample_y(
        self: Predicting, X: Table, n_samples: int = 1, random_state: RandomState = 0, *, latent: bool = False
    ) -> np.ndarray:
        """Joint draws of y (or f) at X: (n, n_samples), or (n, O, n_samples). Of the noise, the learned part is added."""
        return predictions.joint_draws(self, X, n_samples, random_state, latent)
