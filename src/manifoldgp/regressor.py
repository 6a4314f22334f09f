"""The scikit-learn estimators: ManifoldGPRegressor, and GPRegressor, the same with Identity features."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, RegressorMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from manifoldgp import inputs
from manifoldgp.averaging.fit import AVERAGINGS
from manifoldgp.averaging.stack import StackSettings
from manifoldgp.diagnosis import Diagnosis, diagnose
from manifoldgp.ensemble import Ensemble
from manifoldgp.errors import InputError
from manifoldgp.estimation import FittedOutput, FoldChoice, Settings, fit_outputs
from manifoldgp.features import MLP, Features, Identity, as_features
from manifoldgp.kernels import Kernel, as_kernel
from manifoldgp.means import Mean, as_mean
from manifoldgp.model import Model
from manifoldgp.noise import DEFAULT_FLOOR, GaussianNoise
from manifoldgp.parameters import LogNormal, Normal, Prior, StudentT
from manifoldgp.predictor import Predictor
from manifoldgp.scaling import Standardizer
from manifoldgp.sources import RowSource
from manifoldgp.streaming.estimation import SparseSettings, refuse_what_is_not_sparse, why_exact_for
from manifoldgp.streaming.fitting import chosen_method, fit_sparse_source, fit_sparse_table, row_source, surveyed
from manifoldgp.streaming.ranks import current_ranks
from manifoldgp.translation import to_predictor
from manifoldgp.warping import NoWarping, TargetWarping, as_warping

_WARPED_NOISE = "noise_std is noise of y, and a warped model adds its noise to g(y). Leave out noise_std or target_warping."
_GROUPS = "Use arrays in memory with method='exact', or leave out groups and hold out whole groups yourself."


class ManifoldGPRegressor(RegressorMixin, TransformerMixin, BaseEstimator):
    """Gaussian-process regression on learned features: y = G(M(x)) + noise, M and G trained jointly on the evidence.

    features: M, such as MLP((6, 2)), any torch.nn.Module or scikit-learn transformer; None means MLP(hidden, activation).
    kernel: k on the features: a kernel, or "se", "nn", "matern12", "matern32", "matern52", "rq", "periodic", "sm", "linear".
    hidden, activation: layer sizes (the last one is the number of features) and transfer function of the default network.
    mean: "zero", "constant", "linear", a mean or a torch.nn.Module. noise: "learned", or "known" when fit gets noise_std and nothing else is to be added.
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

        With method="sparse", X may be memory-mapped, or a source of rows such as manifoldgp.sources.FileRows (y=None): it is read chunk by chunk.

        groups (N,): rows with one label (a run, a patient) stay together in the held-out folds of averaging="stack".
        ordered: rows are in order of time; folds are contiguous stretches.

        A fit that fails leaves the estimator as it was: an earlier fit still predicts.
        """
        before = dict(vars(self))
        vars(self).pop("table_encoding_", None)  # of an earlier fit; whoever encodes a table sets it after this one
        try:
            return self._fit(X, y, noise_std, groups, ordered)
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise

    def _fit(self, X: Any, y: Any, noise_std: Any, groups: Any, ordered: bool) -> ManifoldGPRegressor:
        settings = self._settings()
        outputs = y.shape[1] if isinstance(y, np.ndarray) and y.ndim == 2 else 1
        source = row_source(X, y, noise_std, self.method, why_exact_for(settings, groups is not None, outputs))
        if source is not None:
            if groups is not None:
                raise InputError(
                    "groups are known to the exact method only, not to rows that are read chunk by chunk. " + _GROUPS
                )
            return self._fit_source(source, settings, ordered)
        table = inputs.training_table(self, X, y, noise_std)
        model, because = self._model(noise_std), why_exact_for(settings, groups is not None, table.Y.shape[1])
        self.method_ = chosen_method(self.method, len(table.X), self.inducing, because, calls=3)
        folds = FoldChoice(inputs.group_labels(groups, table), ordered)
        self.x_scaler_ = Standardizer.fit(table.X, self.standardize_X)
        self.y_scaler_ = Standardizer.fit(table.Y, self.standardize_y)
        self.n_outputs_, self._flat = table.Y.shape[1], table.flat
        if self.method_ == "exact":
            inputs.refuse_too_many_rows(len(table.X), settings.matrices_at_once(*table.Y.shape))
            return self._keep(fit_outputs(model, table, self.x_scaler_, self.y_scaler_, settings, folds))
        sparse = SparseSettings(self.inducing, checkpoint=self.checkpoint)
        return self._keep(fit_sparse_table(model, table, self.x_scaler_, self.y_scaler_, settings, sparse, folds))

    def _fit_source(self, source: RowSource, settings: Settings, ordered: bool) -> ManifoldGPRegressor:
        """Train on rows that need not fit into memory, together with the other processes that torchrun started."""
        ranks = current_ranks()
        if self.method != "exact":
            refuse_what_is_not_sparse(settings, False, source.outputs)
        seen = surveyed(source, ranks)
        self.method_ = chosen_method(self.method, seen.rows, self.inducing, None, calls=4)
        if self.method_ == "exact":
            raise InputError("A source of rows is read by the sparse method only. Say method='sparse', or fit arrays in memory.")
        self.n_features_in_, self.n_outputs_, self._flat = source.inputs, source.outputs, source.flat
        if source.names is not None:
            self.feature_names_in_ = np.array(source.names, dtype=object)
        self.x_scaler_, self.y_scaler_ = seen.standardizers(source.inputs, self.standardize_X, self.standardize_y)
        sparse = SparseSettings(self.inducing, ranks, self.checkpoint)
        model = self._model(True if source.has_noise else None)
        return self._keep(
            fit_sparse_source(
                model, source, seen.rows, self.x_scaler_, self.y_scaler_, settings, sparse, FoldChoice(None, ordered)
            )
        )

    def _keep(self, fitted: list[FittedOutput]) -> ManifoldGPRegressor:
        self.ensembles_: list[Ensemble] = [f.ensemble for f in fitted]
        self.starts_ = np.concatenate([f.starts for f in fitted])
        self.histories_ = [h for f in fitted for h in f.histories]
        self.held_out_ = [f.report for f in fitted]
        self.sampling_ = [f.sampling for f in fitted]
        self.nlml_ = float(sum(f.nlml for f in fitted))
        return self

    def predict(
        self, X: Any, return_std: bool = False, return_cov: bool = False, *, latent: bool = False, noise_std: Any = None
    ) -> Any:
        """Mean of y at X (n, D), with its standard deviation or joint covariance on request; latent=True: of f, without noise.

        noise_std: known noise of these points, added to the learned one. Shapes: (n,) for one target, (n, O) for several; covariance (n, n) or (n, n, O).
        """
        if return_std and return_cov:
            raise InputError("Ask for return_std or for return_cov, not for both.")
        U = self._query(X)
        if not (return_std or return_cov or latent or noise_std is not None):
            return self._columns([e.mean(U) for e in self.ensembles_])  # variances are not needed
        moments = [p.moments() for p in self._predictives(U, latent, noise_std)]
        mean = self._columns([m for m, _ in moments])
        if return_cov:
            inputs.refuse_too_many_rows(len(U), 3)
            covariances = [e.covariance(U, latent)[1] for e in self.ensembles_]
            for C, (_, variance) in zip(covariances, moments, strict=True):
                C.diagonal().copy_(variance)  # with the known noise of these points
            return mean, self._columns(covariances)
        return (mean, self._columns([v.sqrt() for _, v in moments])) if return_std else mean

    def predict_quantiles(
        self, X: Any, q: Sequence[float] = (0.05, 0.5, 0.95), *, latent: bool = False, noise_std: Any = None
    ) -> np.ndarray:
        """Quantiles of y at X: (n, len(q)), or (n, len(q), O)."""
        levels = inputs.quantile_levels(q)
        U = self._query(X)
        return self._columns(
            [torch.stack([p.quantile(float(level)) for level in levels], -1) for p in self._predictives(U, latent, noise_std)]
        )

    def log_predictive_density(self, X: Any, y: Any, *, noise_std: Any = None) -> np.ndarray:
        """log p(y_i | x_i) (n,), in the units of y; several targets are independent, so their densities add up."""
        U = self._query(X)
        Y = self._tensor(inputs.target_table(self, y, len(U)))
        predictives = self._predictives(U, False, noise_std)
        return torch.stack([p.log_density(Y[:, o]) for o, p in enumerate(predictives)]).sum(0).cpu().numpy()

    def predict_cdf(self, X: Any, y: Any, *, noise_std: Any = None) -> np.ndarray:
        """P(Y_i <= y_i | x_i), shaped like y: the probability integral transform, uniform for a calibrated model."""
        U = self._query(X)
        Y = self._tensor(inputs.target_table(self, y, len(U)))
        return self._columns([p.cdf(Y[:, o]) for o, p in enumerate(self._predictives(U, False, noise_std))])

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0, *, latent: bool = False) -> np.ndarray:
        """Joint draws of y (or f) at X: (n, n_samples), or (n, O, n_samples). Of the noise, the learned part is added."""
        U = self._query(X)
        n_samples = inputs.whole_number(n_samples, "n_samples")
        inputs.refuse_too_many_rows(len(U), 3)
        generator = Settings.generator(random_state)
        draws = [e.sample(U, n_samples, generator, latent).T.cpu().numpy() for e in self.ensembles_]
        return draws[0] if self._flat else np.stack(draws, 1)

    def predict_gradient(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Derivatives of mean and variance of f with respect to the inputs, in original units: (n, D) each, or (n, D, O)."""
        U = self._query(X)
        slopes = self._tensor(self.x_scaler_.scale)
        pairs = [e.gradients(U) for e in self.ensembles_]
        return self._columns([m / slopes for m, _ in pairs]), self._columns([v / slopes for _, v in pairs])

    def transform(self, X: Any) -> np.ndarray:
        """Features H = M(X) (n, Q); several targets with their own features: side by side."""
        U = self._query(X)
        with torch.no_grad():
            ensembles = self.ensembles_[:1] if self.shared_features else self.ensembles_
            return torch.cat([e.transform(U) for e in ensembles], -1).cpu().numpy()

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the columns that transform gives: the class's name and a number."""
        check_is_fitted(self)
        ensembles = self.ensembles_[:1] if self.shared_features else self.ensembles_
        width = sum(e.heaviest()[0].points.shape[-1] for e in ensembles)
        return np.array([f"{type(self).__name__.lower()}{q}" for q in range(width)], dtype=object)

    def update(self, X: Any, y: Any, *, noise_std: Any = None) -> ManifoldGPRegressor:
        """Condition on n more rows without retraining, in O(N² n), or O(M² n) for a sparse model: an online update."""
        U = self._query(X)
        T = self._tensor(self.y_scaler_.apply(inputs.target_table(self, y, len(U))))
        if noise_std is None and not self.ensembles_[0].blocks[0].model.noise.learned:
            raise InputError("This model has noise='known': give the noise of the new rows too, update(X, y, noise_std=...).")
        noise = self._noise(noise_std, len(U))
        if self.method_ == "exact":
            inputs.refuse_too_many_rows(self.ensembles_[0].blocks[0].rows + len(U), 3)
        self.ensembles_ = [e.condition(U, T[:, o], None if noise is None else noise[:, o]) for o, e in enumerate(self.ensembles_)]
        return self

    def diagnose(self) -> Diagnosis:
        """What the fit looks like, in words (print it) and numbers."""
        check_is_fitted(self)
        return diagnose(self)

    def save(self, path: str | Path) -> None:
        """Write the fitted model to one file that manifoldgp.load reads; no pickle."""
        from manifoldgp.persistence import save

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

    def _features(self) -> Features:
        if self.features is None:
            if self.activation is None:
                raise InputError("activation must be a name such as 'sigmoid', or one for each layer; got None.")
            return MLP(self.hidden, self.activation)  # pyright: ignore[reportArgumentType] - any sequences will do
        return as_features(self.features)

    def _model(self, noise_std: Any) -> Model:
        if self.noise not in ("learned", "known"):
            raise InputError(f"noise must be 'learned' or 'known' (given to fit as noise_std); got {self.noise!r}.")
        if self.noise == "known" and noise_std is None:
            raise InputError(
                "noise='known' needs the noise of the rows: fit(X, y, noise_std=...). Use noise='learned' to estimate it."
            )
        warping = as_warping(self.target_warping)
        if not hasattr(warping, "inverse"):
            raise InputError(
                f"target_warping must be None, 'tanh' or a warping such as TanhWarping(3); got {self.target_warping!r}."
            )
        if noise_std is not None and not isinstance(warping, NoWarping):
            raise InputError(_WARPED_NOISE)
        return Model(
            features=self._features(),
            kernel=as_kernel(self.kernel),
            mean=as_mean(self.mean),
            noise=GaussianNoise(
                self.noise == "learned", inputs.positive_number(self.noise_floor, "noise_floor (relative to sd(y))")
            ),
            warping=warping,
            priors=self._priors(),
        )

    def _priors(self) -> dict[str, Prior]:
        """The priors by pattern, checked: a prior of another kind would be passed over in silence."""
        priors = {} if self.priors is None else self.priors
        if not isinstance(priors, Mapping) or not all(isinstance(p, (LogNormal, Normal, StudentT)) for p in priors.values()):
            raise InputError(
                "priors must map patterns of parameter names to LogNormal, Normal or StudentT, such as "
                f"{{'kernel.lengthscale': LogNormal(0, 1)}}; got {priors!r}."
            )
        for prior in priors.values():
            inputs.positive_number(prior.scale if isinstance(prior, StudentT) else prior.sd, f"The width of the prior {prior!r}")
        return dict(priors)

    def _settings(self) -> Settings:
        if not isinstance(self.averaging, StackSettings) and self.averaging not in AVERAGINGS:
            names = ", ".join(map(repr, AVERAGINGS))
            raise InputError(f"Unknown averaging {self.averaging!r}; choose one of {names}, or give a StackSettings.")
        if self.shared_features and self.averaging != "none":
            raise InputError("shared_features=True learns one map for all targets and needs averaging='none'.")
        if self.warm_start_from is not None and self.averaging != "none":
            raise InputError("warm_start_from replaces the first start of a single model and needs averaging='none'.")
        return Settings(
            restarts=self.restarts,
            optimizer=self.optimizer,
            max_iter=self.max_iter,
            time_budget=self.time_budget,
            shared_features=self.shared_features,
            warm_start_from=self.warm_start_from,
            random_state=self.random_state,
            device=self.device,
            verbose=self.verbose,
            averaging=self.averaging,
            callback=self.callback,
            levels=self.levels,
        )

    def _query(self, X: Any) -> Tensor:
        check_is_fitted(self)
        return self._tensor(self.x_scaler_.apply(inputs.query_table(self, X)))

    def _noise(self, noise_std: Any, rows: int) -> Tensor | None:
        variances = inputs.query_noise(noise_std, rows, self.n_outputs_)
        if variances is not None and not isinstance(self.ensembles_[0].blocks[0].model.warping, NoWarping):
            raise InputError(_WARPED_NOISE)
        return None if variances is None else self._tensor(variances / self.y_scaler_.scale**2)

    def _predictives(self, U: Tensor, latent: bool, noise_std: Any):
        noise = self._noise(noise_std, len(U))
        return [e.predict(U, latent, None if noise is None else noise[:, o]) for o, e in enumerate(self.ensembles_)]

    def _tensor(self, A: np.ndarray) -> Tensor:
        device = self.ensembles_[0].blocks[0].alpha.device
        # pandas hands out arrays that must not be written to, and PyTorch has no such tensors
        return torch.as_tensor(np.require(A, np.float64, ("C", "W")), device=device)

    def _columns(self, outputs: Sequence[Tensor]) -> np.ndarray:
        """One target: as it is; several: stacked along a last axis."""
        return outputs[0].cpu().numpy() if self._flat else torch.stack(list(outputs), -1).cpu().numpy()


class GPRegressor(ManifoldGPRegressor):
    """A plain Gaussian process: ManifoldGPRegressor with Identity features.

    >>> import numpy as np
    >>> x = np.linspace(0, 6, 20)[:, None]
    >>> model = GPRegressor(restarts=2).fit(x, np.sin(x[:, 0]))
    >>> bool(abs(model.predict([[1.0]])[0] - np.sin(1.0)) < 1e-3)
    True
    """

    def __init__(
        self,
        kernel: Kernel | str = "se",
        *,
        mean: Mean | torch.nn.Module | str = "zero",
        noise: str = "learned",
        noise_floor: float = DEFAULT_FLOOR,
        target_warping: TargetWarping | str | None = None,
        priors: Mapping[str, Prior] | None = None,
        restarts: int = 5,
        optimizer: str = "l-bfgs",
        max_iter: int = 500,
        time_budget: float | None = None,
        levels: bool = True,
        method: str = "auto",
        inducing: int = 512,
        checkpoint: str | None = None,
        standardize_X: bool = True,
        standardize_y: bool = True,
        warm_start_from: Any = None,
        random_state: Any = 0,
        device: str = "cpu",
        verbose: bool = False,
        callback: Callable[[np.ndarray, np.ndarray], object] | None = None,
    ) -> None:
        self.kernel = kernel
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
        self.method = method
        self.inducing = inducing
        self.checkpoint = checkpoint
        self.standardize_X = standardize_X
        self.standardize_y = standardize_y
        self.warm_start_from = warm_start_from
        self.random_state = random_state
        self.device = device
        self.verbose = verbose
        self.callback = callback

    averaging = "none"
    shared_features = False

    def _features(self) -> Features:
        return Identity()
