"""ManifoldGPRegressor: the estimator's arguments, and what it can be asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, RegressorMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from manifoldgp.averaging import Averaging, as_averaging
from manifoldgp.averaging.averages import SamplingReport
from manifoldgp.averaging.stacking import HeldOutReport
from manifoldgp.data.encoding import TableEncoding
from manifoldgp.data.inputs import target_names
from manifoldgp.data.scaling import Standardizer
from manifoldgp.data.sources import RowSource
from manifoldgp.errors import InputError
from manifoldgp.estimators import fitting, model_file, more_members, predictions, uncertain_inputs
from manifoldgp.estimators.arguments import Draws, as_it_was_if_this_fails
from manifoldgp.estimators.diagnosing import diagnose
from manifoldgp.estimators.diagnosis import Diagnosis
from manifoldgp.estimators.function_draws import RIDGES, SampledFunctions, sample_functions
from manifoldgp.estimators.hyperparameters import ParameterTable, parameter_table
from manifoldgp.estimators.input_std import InputStd, input_names
from manifoldgp.estimators.noisy_inputs import InputNoise
from manifoldgp.estimators.notebook_view import fitted_view
from manifoldgp.estimators.predictive_methods import PredictiveMethods
from manifoldgp.estimators.program_targets import to_predictor
from manifoldgp.estimators.pruning import pruned_estimator
from manifoldgp.estimators.sensitivity import Sensitivity, sensitivity
from manifoldgp.estimators.uncertain_inputs import PredictedMoments
from manifoldgp.features import Features
from manifoldgp.inference.ensemble import Ensemble
from manifoldgp.inference.uncertain_inputs import SAMPLE_POINTS
from manifoldgp.kernels import Kernel
from manifoldgp.means import Mean
from manifoldgp.noise import GaussianNoise
from manifoldgp.parameters import Prior
from manifoldgp.predictor import Predictor
from manifoldgp.training.settings import Method, Options, as_method
from manifoldgp.training.trained import Earlier
from manifoldgp.warping import TargetWarping

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from manifoldgp.data.inputs import RandomState, Table
    from manifoldgp.structure.search import SearchReport


@model_file.storable
class ManifoldGPRegressor(PredictiveMethods, RegressorMixin, TransformerMixin, BaseEstimator):
    """Gaussian-process regression on learned features: y = G(M(x)) + noise, M and G trained jointly on the evidence.

    Parameters
    ----------
    features
        M: a feature map such as ``MLP((6, 2))``, a ``torch.nn.Module``, a scikit-learn transformer, or layer sizes, ``(10, 3)`` for ``MLP((10, 3))``.
        None: ``MLP((6, 2))``, a network with log-sigmoid units and two features.
    kernel
        k on the features: a kernel, or "additive", "oak", "se", "nn", "matern12", "matern32", "matern52", "rq", "periodic", "sm", "linear".
    mean
        "zero", "constant", "linear", a mean or a ``torch.nn.Module``: a function of the inputs x, or of the features with
        ``means.Linear(on="features")`` and ``means.Module(module, on="features")``.
    noise
        "learned"; "known" when fit gets noise_std and nothing else is to be added; or ``GaussianNoise(floor=...)``, learned noise with another smallest
        standard deviation (relative to sd(y)).
    input_noise
        None: the inputs are exact, or fit is told their noise by ``input_std``. "learned": every column of numbers has a noise of its own, which is learned; it is in
        ``input_noise_``.
    target_warping
        None, or "tanh" for a learned monotone warping of y.
    priors
        Patterns of parameter names to priors, ``{"kernel.lengthscale": LogNormal(0, 1)}``; given priors make training MAP.
    averaging
        "stack" (`Stack`: the plain GP and many mGPs, weighted by held-out folds), "fast" (`Fast`: fixed weights, no folds), "restarts"
        (`Restarts`: the starts of one architecture, weighted by their evidence), "nuts" (`NUTS`: full Bayes), "single" (`Single`: the
        paper's single best model); or one of these objects with other settings, such as ``Single(restarts=5)``.
    method
        "exact" (`Exact`), "local" (`Local`: a point is predicted from the rows near it), "sparse" (`Sparse`: inducing points in feature space), one of these objects, such as
        ``Sparse(inducing=256)``, or "auto": exact up to 3,000 rows, local up to 1,000,000, then sparse; other averages are exact up to 5,000
        rows, and sparse beyond them where they can be. A warning says so.
    time_budget
        Seconds that a fit may take: it plans by them and keeps what it has when they are over. With method="auto", 1,500 rows or more and too little time for exact
        members, it is sparse. ``fit_more`` goes on later.
    standardize
        True: the columns of X and y are standardised for training, and predictions are in their units. "X" or "y": only those. False: neither.
    missing
        What happens to missing inputs: "error", they are refused; "drop", rows with one are left out of the fit, and their predictions are NaN; "impute", training
        rows that are alike in the other columns lend their values, a further column says where, and predictions are as wide as the lent values differ.
    cyclic
        For columns of dates: periods out of "day", "week", "month" and "year" whose sine and cosine are inputs too, beside the elapsed time.
    random_state
        Draws starts and folds: an integer, None, or a ``numpy.random.RandomState``.
    device
        Where PyTorch computes: "cpu", or "cuda".
    verbose
        Whether training shows a progress line.
    callback
        Called as callback(iterations, objective values) for all starts; true stops training.

    Attributes
    ----------
    ensembles_ : list of Ensemble
        What it predicts with, one for each target.
    method_ : str
        The method that was taken, "exact" or "sparse".
    starts_ : ndarray
        A row for each start of each target: its group, evidence, iterations, why it ended, and its weight.
    histories_ : list of ndarray
        The objective of each start, iteration by iteration.
    held_out_ : list
        For each target, what the held-out rows of a stack said; None for others.
    sampling_ : list
        For each target, how well the chains of NUTS mixed; None for others.
    table_encoding_ : TableEncoding
        How columns of a table became the inputs ``feature_names_in_``; only where X was a table that is not all numbers, or ``missing`` is not "error".
    target_names_ : ndarray
        What the targets are called; only where y had names: a Series with one, or a frame.
    group_column_ : str
        What the labels of ``groups`` are called; only where they were a Series with a name, and no table was encoded, whose encoding has it else (``table_encoding_.group``).
    input_noise_ : InputNoise
        Only where the inputs were noisy: their standard deviations ``std`` in the units of X, given or learned, how many rounds of training the slopes took to settle, and
        how much of the noise comes from the inputs.
    nlml_ : float
        Negative log marginal likelihood of the heaviest member, added up over the targets.
    interrupted_ : bool
        Whether somebody, by Ctrl-C or a callback, ended training early.

    Examples
    --------
    >>> import numpy as np
    >>> from manifoldgp import Single
    >>> x = np.linspace(-1, 1, 30)[:, None]
    >>> model = ManifoldGPRegressor((3, 1), averaging=Single(restarts=2)).fit(x, np.sign(x[:, 0]))
    >>> mean, std = model.predict(x, return_std=True)
    >>> mean.shape, bool((std > 0).all())
    ((30,), True)

    Settings nest as scikit-learn's do, also below a shorthand:

    >>> ManifoldGPRegressor().set_params(averaging__warm_members=12)
    ManifoldGPRegressor(averaging=Stack(warm_members=12))
    """

    ensembles_: list[Ensemble]
    x_scaler_: Standardizer
    y_scaler_: Standardizer
    method_: str
    n_features_in_: int
    feature_names_in_: np.ndarray  # only where X had names
    table_encoding_: TableEncoding  # only where a table was encoded
    target_names_: np.ndarray  # only where y had names
    group_column_: str  # only where groups had a name, and no table was encoded
    n_outputs_: int
    starts_: np.ndarray
    histories_: list[np.ndarray]
    held_out_: list[HeldOutReport | None]
    sampling_: list[SamplingReport | None]
    nlml_: float
    interrupted_: bool
    input_noise_: InputNoise  # only where the inputs were noisy
    switched_off_: np.ndarray  # columns that pruned() left out; only there
    search_: list[SearchReport]  # only where kernels were searched
    _flat: bool  # whether y was (N,)
    _row_levels: list[
        np.ndarray
    ]  # only where a table has columns with many categories: of each target which of them (n, C) the rows have that it keeps
    _draws: Draws  # where starts and folds came from
    _continues: tuple[Draws, list[Earlier]] | None = None  # only while fit_more trains

    def __init__(
        self,
        features: Features | torch.nn.Module | BaseEstimator | Sequence[int] | None = None,
        kernel: Kernel | str = "se",
        *,
        mean: Mean | torch.nn.Module | str = "zero",
        noise: GaussianNoise | str = "learned",
        input_noise: str | None = None,
        target_warping: TargetWarping | str | None = None,
        priors: Mapping[str, Prior] | None = None,
        averaging: Averaging | str = "stack",
        method: Method | str = "auto",
        time_budget: float | None = None,
        standardize: bool | str = True,
        missing: str = "error",
        cyclic: Sequence[str] = (),
        random_state: RandomState = 0,
        device: str = "cpu",
        verbose: bool = False,
        callback: Callable[[np.ndarray, np.ndarray], object] | None = None,
    ) -> None:
        self.features = features
        self.kernel = kernel
        self.mean = mean
        self.noise = noise
        self.input_noise = input_noise
        self.target_warping = target_warping
        self.priors = priors
        self.averaging = averaging
        self.method = method
        self.time_budget = time_budget
        self.standardize = standardize
        self.missing = missing
        self.cyclic = cyclic
        self.random_state = random_state
        self.device = device
        self.verbose = verbose
        self.callback = callback

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments by name; deep=True: also those inside them, ``averaging__warm_members``, of a shorthand its defaults."""
        params = super().get_params(deep)
        for name in _SHORTHANDS if deep else ():
            if isinstance(params.get(name), str) and (options := _options(name, params[name])) is not None:
                params |= {f"{name}__{inner}": value for inner, value in options.get_params().items()}
        return params

    def set_params(self, **params: object) -> ManifoldGPRegressor:
        """Set arguments by name, also those inside others: ``set_params(averaging__warm_members=12)``; a shorthand becomes the object it stands for."""
        before = {name: getattr(self, name) for name in _SHORTHANDS}
        for name, meant in _SHORTHANDS.items():
            value = params.get(name, before[name])
            if isinstance(value, str) and any(given.startswith(f"{name}__") for given in params):
                options = meant(value)  # refuses a word that stands for nothing
                if options is None:
                    raise InputError(f"{name}={value!r} has no settings of its own. Set {name} first, to Sparse() for example.")
                params[name] = options
        try:
            super().set_params(**params)
        except ValueError:
            vars(self).update(before)
            raise
        return self

    def fit(
        self,
        X: Table | RowSource,
        y: ArrayLike | None = None,
        *,
        noise_std: ArrayLike | None = None,
        input_std: InputStd | None = None,
        groups: ArrayLike | None = None,
        ordered: bool = False,
        unlabelled: Table | None = None,
        **unsupported: object,
    ) -> ManifoldGPRegressor:
        """Train on rows X with targets y.

        With method="sparse", X may be memory-mapped, or a source of rows such as manifoldgp.data.FileRows (y=None): it is read chunk by chunk.

        A fit that fails leaves the estimator as it was: an earlier fit still predicts.

        Parameters
        ----------
        X : (N, D)
            Inputs: an array, anything that NumPy reads as a table of numbers, or a source of rows; or a frame of pandas, polars or Arrow with text, categories, true and
            false, and dates. What became of its columns is in ``table_encoding_``, which is saved with the model, and ``predict`` takes frames with the same columns.
        y : (N,) or (N, O)
            Targets; a Series that has a name, or a frame, tells what they are called. Rows whose target is missing (NaN) are left out, with a warning;
            features that learn from inputs alone learn from them too.
        noise_std : (), (N,) or (N, O)
            Known noise of the rows, a standard deviation in the units of y.
        input_std : (), (D,), (N, D) or by name
            Known noise of the inputs, standard deviations in the units of X: one for all columns, one for each, one for each row too, or numbers and (N,) arrays by the
            names of columns. Rows where the function is steep then count less (NIGP); the model is trained several times, until its slopes settle.
        groups : (N,)
            Rows with one label (a run, a patient) stay together in the held-out folds of averaging="stack"; other averages hold out no rows, and say so. A Series with a name
            tells what they are called on the page of the model and to ``mgp score``, which counts the groups of its table.
        ordered
            Rows are in order of time; folds are contiguous stretches.
        unlabelled : (M, D)
            More inputs without targets, for features that learn from inputs alone: `AutoEncoder` and ``MLP(...).pretrained()``. Refused where nothing learns from them.
        unsupported
            What scikit-learn knows and this does not, ``sample_weight`` above all: refused, with the reason.
        """
        fitting.refuse_unsupported(unsupported)
        with as_it_was_if_this_fails(self):
            for name in (
                "table_encoding_",
                "target_names_",
                "group_column_",
                "_row_levels",
                "input_noise_",
                "switched_off_",
            ):  # of an earlier fit; who encodes a table sets it anew
                vars(self).pop(name, None)
            fitting.fit(self, X, y, noise_std, groups, ordered, input_std, unlabelled)
        return self

    def predict(
        self,
        X: Table,
        return_std: bool = False,
        return_cov: bool = False,
        *,
        interval: float | None = None,
        latent: bool = False,
        noise_std: ArrayLike | None = None,
        input_cov: ArrayLike | None = None,
    ) -> Any:
        """Mean of y at X, with its standard deviation, joint covariance or an interval on request.

        X is taken as exact, also where the model was trained with noisy inputs: of the noise, the learned noise of y is added. What noisy inputs add is
        ``input_cov``, such as ``numpy.diag(model.input_noise_.std**2)``.

        Parameters
        ----------
        X : (n, D)
            Where to predict.
        return_std
            Whether the standard deviations of y are returned too.
        return_cov
            Whether the joint covariance of y at all rows is returned too.
        interval
            The probability of an interval that is returned too, 0.9 for that between the quantiles 0.05 and 0.95; any number between 0 and 1.
        latent
            Whether all of it is about f, without noise.
        noise_std
            Known noise of these points, added to the learned one.
        input_cov : (D, D) or (n, D, D)
            Covariance of the inputs, where X is only their mean; `predict_moments` says how, and gives the covariances of x and y too.

        Returns
        -------
        mean, or (mean, std), or (mean, covariance), or (mean, interval)
            Shapes (n,) for one target and (n, O) for several; of the covariance (n, n) or (n, n, O); of the interval (n, 2) or (n, 2, O).
        """
        if interval is None:
            if input_cov is not None:
                return uncertain_inputs.mean_and_std(self, X, input_cov, return_std, return_cov, latent, noise_std)
            if return_cov:
                return predictions.joint_moments(self, X, return_std, latent, noise_std)
            return predictions.moments(self, X, return_std, latent, noise_std)
        if return_std or return_cov or input_cov is not None:
            raise InputError("Ask for interval, return_std, return_cov or input_cov, one at a time.")
        return predictions.with_interval(self, X, interval, latent, noise_std)

    def predict_moments(
        self,
        X: Table | Tensor,
        input_cov: ArrayLike | Tensor,
        *,
        latent: bool = False,
        method: str = "auto",
        samples: int = SAMPLE_POINTS,
    ) -> PredictedMoments:
        """Mean and variance of y at uncertain inputs x ~ N(X, input_cov), and the covariances of x with y and of the targets.

        Parameters
        ----------
        X : (n, D)
            Means of the inputs. A tensor gives tensors, differentiable in X and input_cov.
        input_cov : (D, D) or (n, D, D)
            Their covariance, one for all rows or one each.
        latent
            Whether it is about f, without noise.
        method
            "closed form": exact, for the squared exponential on features that are linear in the inputs, with such a mean and no target warping. "samples":
            quasi-random points in place of the distribution of x. "auto": the closed form where there is one; the answer says which. "moment matching": of
            periodic kernels, and of a `Circle`, in closed form too, with a Gaussian in place of (cos, sin); exact where what goes round is certain.
        samples
            How many points, where there is no closed form.
        """
        return uncertain_inputs.predict_moments(self, X, input_cov, latent, method, samples)

    def sample_functions(self, n: int = 1, random_state: RandomState = 0, *, ridges: int = RIDGES) -> SampledFunctions:
        """n functions drawn from the posterior of f, in the units of y without noise, to be evaluated anywhere and again (pathwise conditioning).

        Parameters
        ----------
        n
            How many functions.
        random_state
            Draws them.
        ridges
            Random ridges that the prior part of each function consists of; more are nearer to a Gaussian process far from the data.

        Returns
        -------
        SampledFunctions
            functions(X) gives (n, rows), or (n, rows, O), for an array or a tensor X; functions[i] is one of them.
        """
        return sample_functions(self, n, random_state, ridges)

    def predict_gradient(self, X: Table) -> tuple[np.ndarray, np.ndarray]:
        """Derivatives of mean and variance of f with respect to the inputs, in original units: (n, D) each, or (n, D, O)."""
        return predictions.gradients(self, X)

    def transform(self, X: Table) -> np.ndarray:
        """Features H = M(X) (n, Q); several targets with their own features: side by side."""
        return predictions.features(self, X)

    def get_feature_names_out(self, input_features: Sequence[str] | None = None) -> np.ndarray:
        """Names of the columns that transform gives: the class's name and a number."""
        check_is_fitted(self)
        width = sum(e.heaviest()[0].features for e in predictions.featured(self))
        return np.array([f"{type(self).__name__.lower()}{q}" for q in range(width)], dtype=object)

    def update(
        self, X: Table, y: ArrayLike, *, noise_std: ArrayLike | None = None, input_std: InputStd | None = None
    ) -> ManifoldGPRegressor:
        """Condition on n more rows without retraining, in O(N² n), or O(J² n) for a sparse model: an online update.

        Nearly singular covariances (noise-free data, say) are factored anew, in O(N³); diagnose() tells whether this one is. ``input_std`` is as in fit, and adds noise
        where the model is steep before the update; a model with learned input noise takes what it learned.
        """
        fitting.update(self, X, y, noise_std, input_std)
        return self

    def fit_more(
        self,
        X: Table | RowSource,
        y: ArrayLike | None = None,
        *,
        seconds: float | None = None,
        noise_std: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        ordered: bool = False,
        unlabelled: Table | None = None,
    ) -> ManifoldGPRegressor:
        """Train more members on the rows of the fit, from other starts; those that are there stay, and both predict together.

        A stack weighs the new members beside the old by the same held-out rows; "restarts" by their evidence, "fast" by their numbers, and "single" keeps the better model.
        It goes on after a fit that ``time_budget``, a callback or Ctrl-C ended, after another ``fit_more``, and after ``manifoldgp.load``.
        One that fails or is interrupted leaves the estimator as it was.

        Parameters
        ----------
        X, y, noise_std, groups, ordered, unlabelled
            As they were given to fit: others are refused where they show.
        seconds
            How long it may take; None: as long as a fit takes by itself.
        """
        check_is_fitted(self)
        more_members.fit_more(self, X, y, seconds, noise_std, groups, ordered, unlabelled)
        return self

    def diagnose(self) -> Diagnosis:
        """What the fit looks like, in words (print it) and numbers."""
        check_is_fitted(self)
        return diagnose(self)

    def sensitivity(
        self, law: str | None = None, *, samples: int = 16384, random_state: RandomState = 0, output: int = 0
    ) -> Sensitivity:
        """Which inputs f depends on: first-order and total Sobol indices with standard errors. Print it.

        Parameters
        ----------
        law
            Of the inputs, which are independent: "uniform" over the range of the training rows, "rows" (each distributed as there) or "normal". None: "normal"
            for a plain GP with the kernel OrthogonalAdditive, whose indices have a closed form, and "uniform" for every other model.
        samples
            Rows of the samples; the mean is asked for at (D + 2) times as many points.
        random_state
            Draws the samples.
        output
            Which target, counted from 0.
        """
        check_is_fitted(self)
        return sensitivity(self, law, samples, random_state, output)

    def parameters(self) -> ParameterTable:
        """What was learned, as a table by group of members: noise, length-scales and so on of the heaviest member of each, in the units of the data where these are known.

        ``print`` it, or ``parameters().to_frame()`` for pandas.
        """
        check_is_fitted(self)
        return parameter_table(self, input_names(self), target_names(self))

    def save(self, path: str | Path, dtype: str = "float64") -> None:
        """Write the fitted model to one file that manifoldgp.load reads; no pickle.

        An exact model has an N x N factor for each member, 4 N² bytes in the file. dtype="float32" halves them, and a warning says by how much standard
        deviations change, and means where they depend on these, if that is more than 0.1 %. Means of plain GPs stay as they are to the last bit; those of warped targets, and of stacks
        whose weights follow how sure members are, depend on standard deviations.
        """
        check_is_fitted(self)
        model_file.save(self, path, dtype=dtype)

    def pruned(self) -> ManifoldGPRegressor:
        """A copy without the inputs, units and features that sparse networks, ``MLP(sizes, sparsity=...)``, have switched off: a smaller model file and a faster predictor.

        An exact model predicts the same to rounding; a sparse one (``method="sparse"``) has not set them to zero while it was trained, and changes a little.
        Columns that are left out stay columns of X, whatever is in them.
        """
        check_is_fitted(self)
        return pruned_estimator(self)

    def predictor(self, max_members: int | None = None, tolerance: float | None = None) -> Predictor:
        """The fitted model as a function p(X, return_std=False, latent=False) that needs NumPy only, for use on a robot.

        It predicts what ``predict`` does, to rounding. p.save("model.npz") writes it, Predictor.load reads it without PyTorch; p.to_c("model.c") writes plain C.

        Parameters
        ----------
        max_members
            Distil an average into at most so many members a target, weighted anew; ``p.distilled`` says what that loses, in nats a row.
        tolerance
            Distil it into as few members, and these into as few points in place of all rows, as lose at most so many nats a row: 0.001 is a mean that is off by some hundredths of a
            standard deviation. Members that need all their rows for that keep them.
        """
        check_is_fitted(self)
        return to_predictor(self, max_members, tolerance)

    def _repr_html_inner(self) -> str:
        """For notebooks: scikit-learn's view of the arguments, and below it what a fitted model looks like."""
        return super()._repr_html_inner() + self._fitted_html()

    def _repr_mimebundle_(self, **kwargs: object) -> dict[str, str]:
        output = super()._repr_mimebundle_(**kwargs)
        if "text/html" in output:
            output["text/html"] += self._fitted_html()
        return output

    def _fitted_html(self) -> str:
        """What a fitted model looks like, and nothing before the fit."""
        return fitted_view(self) if self.__sklearn_is_fitted__() else ""

    def _kernel_in_use(self) -> Kernel | str:
        """The kernel that a fit trains."""
        if isinstance(self.kernel, str) and self.kernel == "auto":
            raise InputError(
                "kernel='auto' chooses the kernel of a plain GP: GPRegressor(kernel='auto'). Name a kernel for learned features."
            )
        return self.kernel


_SHORTHANDS: dict[str, Callable[[Any], Options | None]] = {"averaging": as_averaging, "method": as_method}
"""Arguments that can be a word instead of an object."""


def _options(name: str, word: str) -> Options | None:
    """The object that a word stands for; None where there is none."""
    try:
        return _SHORTHANDS[name](word)
    except InputError:
        return None  # fit refuses it
