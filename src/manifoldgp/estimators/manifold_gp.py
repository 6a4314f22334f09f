"""ManifoldGPRegressor: the estimator's arguments, and what it can be asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, RegressorMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from manifoldgp.averaging.settings import StackSettings
from manifoldgp.averaging.stack import SamplingReport
from manifoldgp.averaging.stacking import HeldOutReport
from manifoldgp.data.scaling import Standardizer
from manifoldgp.estimators import fitting, predictions
from manifoldgp.estimators.diagnosis import Diagnosis, diagnose
from manifoldgp.estimators.program import to_predictor
from manifoldgp.inference.ensemble import Ensemble
from manifoldgp.kernels import Kernel
from manifoldgp.means import Mean
from manifoldgp.noise import DEFAULT_FLOOR
from manifoldgp.parameters import Prior
from manifoldgp.predictor import Predictor
from manifoldgp.warping import TargetWarping


class ManifoldGPRegressor(RegressorMixin, TransformerMixin, BaseEstimator):
    """Gaussian-process regression on learned features: y = G(M(x)) + noise, M and G trained jointly on the evidence.

    features: M, such as MLP((6, 2)), any torch.nn.Module or scikit-learn transformer; None means MLP(hidden, activation).
    kernel: k on the features: a kernel, or "se", "nn", "matern12", "matern32", "matern52", "rq", "periodic", "sm", "linear".
    hidden, activation: layer sizes (the last one is the number of features) and transfer function of the default network.
    mean: "zero", "constant", "linear", a mean or a torch.nn.Module; a function of the inputs x, or of the features with means.Linear(on="features") and
        means.Module(module, on="features"). noise: "learned", or "known" when fit gets noise_std and nothing else is to be added.
    noise_floor: smallest noise standard deviation, relative to sd(y). target_warping: None or "tanh" for a learned monotone warping of y.
    priors: parameter-name patterns to priors, {"kernel.lengthscale": LogNormal(0, 1)}; given priors make training MAP.
    restarts: independent starts; each redraws network and kernel. max_iter, time_budget (seconds): limits of the optimiser.
    optimizer: "l-bfgs" (all starts in one batch), "l-bfgs-b" (SciPy's, one after another) or "newton-cg".
    levels: an exact single model of 2,000 rows or more trains its starts on few rows first, and only the best one on all of them: the same optimum, several times
        sooner. max_iter limits each level; starts_ says how far each start came. False: every start on all rows.
    averaging: "stack" (the plain GP and many mGPs, weighted by held-out folds), "fast" (fixed weights, no folds), "restarts" (the starts of
        one architecture, weighted by their evidence), "nuts" (full Bayes, extra [bayes]), or "none" (the paper's single best model);
        a manifoldgp.averaging.StackSettings is a stack of other sizes.
    method: "exact", "sparse" (inducing points in feature space, any number of rows) or "auto": exact up to 5,000 rows, and beyond them sparse
        where it can do what is asked for, with a warning that says which. inducing: how many inducing points.
    checkpoint: a file in which a sparse fit keeps where it stands; one that finds it goes on from there, with a warning, and refuses one of another fit.
    shared_features: with several targets, learn one M for all of them; otherwise each target has its own model.
    warm_start_from: a fitted estimator whose parameters replace the first start.
    verbose: a progress line. callback: called as callback(iterations, objective values) for all starts; true stops training.

    >>> import numpy as np
    >>> x = np.linspace(-1, 1, 30)[:, None]
    >>> model = ManifoldGPRegressor(hidden=(3, 1), restarts=2).fit(x, np.sign(x[:, 0]))
    >>> mean, std = model.predict(x, return_std=True)
    >>> mean.shape, bool((std > 0).all())
    ((30,), True)
    """

    ensembles_: list[Ensemble]  # what it predicts with, one for each target
    x_scaler_: Standardizer
    y_scaler_: Standardizer
    method_: str
    n_outputs_: int
    starts_: np.ndarray
    histories_: list[np.ndarray]
    held_out_: list[HeldOutReport | None]
    sampling_: list[SamplingReport | None]
    nlml_: float
    _flat: bool  # whether y was (N,)

    def __init__(
        self,
        features: Any = None,
        kernel: Kernel | str = "se",
        *,
        hidden: Sequence[int] = (6, 2),
        activation: str | Sequence[str] = "sigmoid",
        mean: Mean | torch.nn.Module | str = "zero",
        noise: str = "learned",
        noise_floor: float = DEFAULT_FLOOR,
        target_warping: TargetWarping | str | None = None,
        priors: Mapping[str, Prior] | None = None,
        restarts: int = 20,
        optimizer: str = "l-bfgs",
        max_iter: int = 500,
        time_budget: float | None = None,
        levels: bool = True,
        averaging: str | StackSettings = "stack",
        method: str = "auto",
        inducing: int = 512,
        checkpoint: str | None = None,
        standardize_X: bool = True,
        standardize_y: bool = True,
        shared_features: bool = False,
        warm_start_from: Any = None,
        random_state: Any = 0,
        device: str = "cpu",
        verbose: bool = False,
        callback: Callable[[np.ndarray, np.ndarray], object] | None = None,
    ) -> None:
        self.features = features
        self.kernel = kernel
        self.hidden = hidden
        self.activation = activation
        self.mean = mean
        self.noise = noise
        self.noise_floor = noise_floor
        self.target_warping = target_warping
        self.priors = priors
        self.restarts = restarts
        self.optimizer = optimizer
        self.max_iter = max_iter
        self.time_budget = time_budget
        self.levels = levels
        self.averaging = averaging
        self.method = method
        self.inducing = inducing
        self.checkpoint = checkpoint
        self.standardize_X = standardize_X
        self.standardize_y = standardize_y
        self.shared_features = shared_features
        self.warm_start_from = warm_start_from
        self.random_state = random_state
        self.device = device
        self.verbose = verbose
        self.callback = callback

    def fit(
        self, X: Any, y: Any = None, *, noise_std: Any = None, groups: Any = None, ordered: bool = False
    ) -> ManifoldGPRegressor:
        """Train on X (N, D) and y (N,) or (N, O). noise_std: known noise of the rows, in the units of y.

        With method="sparse", X may be memory-mapped, or a source of rows such as manifoldgp.data.FileRows (y=None): it is read chunk by chunk.

        groups (N,): rows with one label (a run, a patient) stay together in the held-out folds of averaging="stack".
        ordered: rows are in order of time; folds are contiguous stretches.

        A fit that fails leaves the estimator as it was: an earlier fit still predicts.
        """
        before = dict(vars(self))
        vars(self).pop("table_encoding_", None)  # of an earlier fit; whoever encodes a table sets it after this one
        try:
            fitting.fit(self, X, y, noise_std, groups, ordered)
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise
        return self

    def predict(
        self, X: Any, return_std: bool = False, return_cov: bool = False, *, latent: bool = False, noise_std: Any = None
    ) -> Any:
        """Mean of y at X (n, D), with its standard deviation or joint covariance on request; latent=True: of f, without noise.

        noise_std: known noise of these points, added to the learned one. Shapes: (n,) for one target, (n, O) for several; covariance (n, n) or (n, n, O).
        """
        return predictions.moments(self, X, return_std, return_cov, latent, noise_std)

    def predict_quantiles(
        self, X: Any, q: Sequence[float] = (0.05, 0.5, 0.95), *, latent: bool = False, noise_std: Any = None
    ) -> np.ndarray:
        """Quantiles of y at X: (n, len(q)), or (n, len(q), O)."""
        return predictions.quantiles(self, X, q, latent, noise_std)

    def log_predictive_density(self, X: Any, y: Any, *, noise_std: Any = None) -> np.ndarray:
        """log p(y_i | x_i) (n,), in the units of y; several targets are independent, so their densities add up."""
        return predictions.log_density(self, X, y, noise_std)

    def predict_cdf(self, X: Any, y: Any, *, noise_std: Any = None) -> np.ndarray:
        """P(Y_i <= y_i | x_i), shaped like y: the probability integral transform, uniform for a calibrated model."""
        return predictions.cdf(self, X, y, noise_std)

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0, *, latent: bool = False) -> np.ndarray:
        """Joint draws of y (or f) at X: (n, n_samples), or (n, O, n_samples). Of the noise, the learned part is added."""
        return predictions.joint_draws(self, X, n_samples, random_state, latent)

    def predict_gradient(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Derivatives of mean and variance of f with respect to the inputs, in original units: (n, D) each, or (n, D, O)."""
        return predictions.gradients(self, X)

    def transform(self, X: Any) -> np.ndarray:
        """Features H = M(X) (n, Q); several targets with their own features: side by side."""
        return predictions.features(self, X)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the columns that transform gives: the class's name and a number."""
        check_is_fitted(self)
        width = sum(e.heaviest()[0].points.shape[-1] for e in predictions.featured(self))
        return np.array([f"{type(self).__name__.lower()}{q}" for q in range(width)], dtype=object)

    def update(self, X: Any, y: Any, *, noise_std: Any = None) -> ManifoldGPRegressor:
        """Condition on n more rows without retraining, in O(N² n), or O(M² n) for a sparse model: an online update.

        Nearly singular covariances (noise-free data, say) are factored anew, in O(N³); diagnose() tells whether this one is.
        """
        fitting.update(self, X, y, noise_std)
        return self

    def diagnose(self) -> Diagnosis:
        """What the fit looks like, in words (print it) and numbers."""
        check_is_fitted(self)
        return diagnose(self)

    def save(self, path: str | Path) -> None:
        """Write the fitted model to one file that manifoldgp.load reads; no pickle."""
        from manifoldgp.estimators.model_file import save

        check_is_fitted(self)
        save(self, path)

    def predictor(self) -> Predictor:
        """The fitted model as a function p(X, return_std=False, latent=False) that needs NumPy only, for use on a robot.

        It predicts what ``predict`` does, to rounding. p.save("model.npz") writes it, Predictor.load reads it without PyTorch.
        """
        check_is_fitted(self)
        return to_predictor(self)

    @property
    def n_iter_(self) -> int:
        """Iterations of the start that took the most."""
        check_is_fitted(self)
        return int(self.starts_["iterations"].max())

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "ensembles_")

    def __sklearn_clone__(self) -> ManifoldGPRegressor:
        copy: Any = super().__sklearn_clone__()
        copy.warm_start_from = self.warm_start_from  # a clone of it would have lost what it learnt
        return copy
