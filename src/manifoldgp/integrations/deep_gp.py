"""DeepGPRegressor: a deep Gaussian process with the face of our estimators, on GPyTorch's layers (extra `[gpytorch]`)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from manifoldgp._system.tensor_file import take
from manifoldgp._system.threads import training_threads
from manifoldgp.data import inputs
from manifoldgp.data.encoding import TableEncoding
from manifoldgp.data.scaling import Standardizer
from manifoldgp.errors import FileFormatError, InputError
from manifoldgp.estimators import model_file, predictions, tables
from manifoldgp.estimators.arguments import RunSettings, as_it_was_if_this_fails, standardized
from manifoldgp.estimators.diagnosis import Diagnosis
from manifoldgp.estimators.fitting import refuse_unsupported
from manifoldgp.estimators.input_std import input_names
from manifoldgp.estimators.predictive_methods import PredictiveMethods
from manifoldgp.training.optimizer import CONVERGED, STOPPED
from manifoldgp.training.plan import Phase, Plan, sparse_cost
from manifoldgp.training.progress import shown, watching
from manifoldgp.training.trained import START_FIELDS

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from manifoldgp.data.inputs import RandomState, Table
    from manifoldgp.integrations._deep_gp_layers import DeepPosterior, Layers
    from manifoldgp.integrations._deep_gp_training import DeepTrained

GROUP = "deep GP"
"""What is trained, in tables and to those who watch."""

MOST_LAYERS, MOST_SAMPLES = 10, 10_000

_TRIED = 8
"""Draws that a loaded model is tried out with."""

_STRAIGHT = 0.05
"""An inner layer that bends its inputs by less is as good as linear."""


@dataclass(frozen=True)
class DeepSettings:
    """How deep, how wide (None: as the inputs, 30 at most), how many inducing points in each layer, rows in a minibatch, and steps at most."""

    layers: int
    width: int | None
    inducing: int
    batch: int
    max_iter: int


class DeepGPRegressor(PredictiveMethods, RegressorMixin, BaseEstimator):
    """A deep Gaussian process: GPs one after another, trained by doubly stochastic variational inference (Salimbeni and Deisenroth 2017).

    It stands beside `ManifoldGPRegressor`: there the features are a deterministic function that is learned, here they are uncertain, and a prediction is a mixture over draws through
    the inner layers. Inner layers begin as the identity (or the principal directions of the inputs), so that depth never begins with less than a single GP has.

    Parameters
    ----------
    layers
        How many GPs stand one after another; 1 is a sparse variational GP.
    width
        GPs side by side in each inner layer. None: as many as there are inputs, 30 at most.
    inducing
        Inducing points of each layer, at first the centres of clusters of the rows.
    batch
        Rows of a minibatch.
    max_iter
        Steps, at most. Training ends earlier when the bound rises no more.
    samples
        Draws through the inner layers that a prediction is a mixture of; the same ones at every row.
    time_budget, standardize, missing, cyclic, random_state, device, verbose
        As in `ManifoldGPRegressor`.
    callback
        Called as callback(steps, negative bounds) after every step; true stops training.

    Attributes
    ----------
    ensembles_ : list of DeepPosterior
        What it predicts with, one for each target.
    starts_, histories_ : ndarray, list of ndarray
        How training went: for each target a row with its negative bound, steps, and why it ended; and the negative bound step by step, each of one minibatch.
    nlml_ : float
        The negative bound, which the negative log marginal likelihood lies below, added up over the targets: the mean of the last steps.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(-1, 1, 40)[:, None]
    >>> model = DeepGPRegressor(inducing=10, max_iter=30).fit(x, np.sign(x[:, 0]))
    >>> model.predict_quantiles(x).shape
    (40, 3)
    """

    ensembles_: list[DeepPosterior]
    x_scaler_: Standardizer
    y_scaler_: Standardizer
    method_: str
    n_features_in_: int
    feature_names_in_: np.ndarray  # only where X had names
    table_encoding_: TableEncoding  # only where a table was encoded
    target_names_: np.ndarray  # only where y had names
    n_outputs_: int
    starts_: np.ndarray
    histories_: list[np.ndarray]
    held_out_: list[None]
    sampling_: list[None]
    nlml_: float
    _flat: bool  # whether y was (N,)

    def __init__(
        self,
        layers: int = 2,
        *,
        width: int | None = None,
        inducing: int = 100,
        batch: int = 256,
        max_iter: int = 3000,
        samples: int = 100,
        time_budget: float | None = None,
        standardize: bool | str = True,
        missing: str = "error",
        cyclic: Sequence[str] = (),
        random_state: RandomState = 0,
        device: str = "cpu",
        verbose: bool = False,
        callback: Callable[[np.ndarray, np.ndarray], object] | None = None,
    ) -> None:
        self.layers = layers
        self.width = width
        self.inducing = inducing
        self.batch = batch
        self.max_iter = max_iter
        self.samples = samples
        self.time_budget = time_budget
        self.standardize = standardize
        self.missing = missing
        self.cyclic = cyclic
        self.random_state = random_state
        self.device = device
        self.verbose = verbose
        self.callback = callback

    def fit(self, X: Table, y: ArrayLike | None = None, **unsupported: object) -> DeepGPRegressor:
        """Train on rows X (N, D) with targets y (N,) or (N, O), each target with layers of its own.

        X is an array, or a frame of pandas, polars or Arrow, as in `ManifoldGPRegressor.fit`. Rows whose target is missing (NaN) are left out, with a warning. A fit that fails
        leaves the estimator as it was.
        """
        refuse_unsupported(unsupported)
        with as_it_was_if_this_fails(self):
            for name in ("table_encoding_", "target_names_"):
                vars(self).pop(name, None)
            self._fit(X, y)
        return self

    def _fit(self, X: Table, y: ArrayLike | None) -> None:
        settings, run = self._settings(), RunSettings.of(self)
        of_X, of_y = standardized(self.standardize)
        rows = tables.training_rows(self, X, y, None, None)
        table = inputs.training_table(self, rows.X, rows.y)
        self.x_scaler_, self.y_scaler_ = Standardizer.fit(table.X, of_X), Standardizer.fit(table.Y, of_y)
        self.method_, self.n_outputs_, self._flat = "sparse", table.Y.shape[1], table.flat
        U, T = (torch.as_tensor(A, device=run.device) for A in (self.x_scaler_.apply(table.X), self.y_scaler_.apply(table.Y)))
        self._keep(self._trained(U, T, settings, run), len(U))

    def _settings(self) -> DeepSettings:
        """The arguments about the model and its training, checked."""
        width = None if self.width is None else inputs.whole_number(self.width, "width")
        named = {name: inputs.whole_number(getattr(self, name), name) for name in ("layers", "inducing", "batch", "max_iter")}
        for name, most in (("layers", MOST_LAYERS), ("samples", MOST_SAMPLES)):
            if inputs.whole_number(getattr(self, name), name) > most:
                raise InputError(f"{name} must be at most {most:,}; got {getattr(self, name)!r}.")
        most = torch.quasirandom.SobolEngine.MAXDIM  # of the draws through the inner layers
        if (width or 0) * (named["layers"] - 1) > most:
            raise InputError(
                f"width must be at most {most // (named['layers'] - 1):,} with {named['layers']} layers; got {width:,}."
            )
        return DeepSettings(named["layers"], width, named["inducing"], named["batch"], named["max_iter"])

    def _trained(self, U: torch.Tensor, T: torch.Tensor, settings: DeepSettings, run: RunSettings) -> list[DeepTrained]:
        """One deep GP a target; each has an equal part of the time that is left."""
        from manifoldgp.integrations._deep_gp_training import train

        outputs, generator, found = T.shape[1], run.draws.generator(), []
        end = math.inf if run.time_budget is None else time.perf_counter() + run.time_budget
        work = settings.max_iter * settings.layers * sparse_cost(min(settings.batch, len(U)), settings.inducing)
        phase = Phase(GROUP, settings.max_iter, work, settings.max_iter)
        plan = Plan((phase,), title=f"{len(U):,} rows, a deep GP of {settings.layers} layers")
        with shown(run.verbose, outputs, run.time_budget) as progress:
            for o in range(outputs):
                now = time.perf_counter()
                deadline = now + (end - now) / (outputs - o)
                watch = watching(run.callback, progress, o, plan, len(U))
                with training_threads():
                    found.append(train(U, T[:, o].contiguous(), settings, generator, deadline, watch))
        return found

    def _keep(self, found: list[DeepTrained], rows: int) -> None:
        from manifoldgp.integrations._deep_gp_layers import DeepPosterior

        offsets, scales = self.y_scaler_.offset.tolist(), self.y_scaler_.scale.tolist()
        in_units = [rows * math.log(scale) for scale in scales]  # of densities, from the model's units to those of y
        self.ensembles_ = [DeepPosterior(t.layers, self.samples, offsets[o], scales[o]) for o, t in enumerate(found)]
        values = [t.value + unit for t, unit in zip(found, in_units, strict=True)]
        self.starts_ = np.array(
            [
                (o, 0, values[o], values[o], t.status, len(t.history), len(t.history), True, GROUP, 1.0)
                for o, t in enumerate(found)
            ],
            dtype=START_FIELDS,
        )
        self.histories_ = [t.history + unit for t, unit in zip(found, in_units, strict=True)]
        self.held_out_, self.sampling_, self.nlml_ = [None] * len(found), [None] * len(found), float(sum(values))
        self.interrupted_ = any(t.status == STOPPED for t in found)

    def predict(
        self,
        X: Table,
        return_std: bool = False,
        *,
        interval: float | None = None,
        latent: bool = False,
        noise_std: ArrayLike | None = None,
    ) -> Any:
        """Mean of y at X, with its standard deviation or an interval on request.

        Parameters
        ----------
        X : (n, D)
            Where to predict.
        return_std
            Whether the standard deviations of y are returned too.
        interval
            The probability of an interval that is returned too, 0.9 for that between the quantiles 0.05 and 0.95; any number between 0 and 1.
        latent
            Whether all of it is about f, without noise.
        noise_std
            Known noise of these points, added to the learned one.

        Returns
        -------
        mean, or (mean, std), or (mean, interval)
            Shapes (n,) for one target and (n, O) for several; of the interval (n, 2) or (n, 2, O).
        """
        if interval is None:
            return predictions.moments(self, X, return_std, latent, noise_std)
        if return_std:
            raise InputError("Ask for interval or for return_std, one at a time.")
        return predictions.with_interval(self, X, interval, latent, noise_std)

    def diagnose(self) -> Diagnosis:
        """What the fit looks like, in words (print it) and numbers."""
        check_is_fitted(self)
        return Diagnosis.of_targets([self._diagnosis(o) for o in range(self.n_outputs_)])

    def _diagnosis(self, output: int) -> Diagnosis:
        start, layers = self.starts_[output], self.ensembles_[output].layers
        noise = math.sqrt(float(layers.likelihood.noise.detach())) * self.ensembles_[output].scale
        numbers: dict[str, Any] = {
            "layers": len(layers.layers),
            "negative bound": float(start["nlml"]),
            "steps": int(start["iterations"]),
            "training ended": str(start["status"]),
            "noise std": noise,
        }
        remarks = [f"Training ended after {start['iterations']} steps: {start['status']}."]
        if start["status"] != CONVERGED:
            remarks.append("The bound was still rising. More steps (max_iter) or time (time_budget) may give a better model.")
        for number, share in enumerate(_curvature(layers), 1):
            numbers[f"layer {number}: spread around its linear map"] = share
            remarks.append(
                f"Inner layer {number} bends its inputs by {share:.2g} of their spread"
                + (": it hands them on as they are, and a model with one layer fewer would do." if share < _STRAIGHT else ".")
            )
        first = layers.layers[0].kernel.base_kernel.lengthscale.detach().reshape(-1).cpu().numpy()
        for name, scale in zip(np.asarray(input_names(self))[self.x_scaler_.columns], first, strict=True):
            numbers[f"layer 1: length-scale of {name} (standardised)"] = float(scale)
        return Diagnosis(numbers, remarks)

    def save(self, path: str | Path) -> None:
        """Write the fitted model to one file that manifoldgp.load reads; no pickle."""
        check_is_fitted(self)
        model_file.save(self, path)  # pyright: ignore[reportArgumentType]: it keeps all that a file holds, under the same names


@torch.no_grad()
def _curvature(layers: Layers) -> list[float]:
    """For each inner layer: how far its mean lies from its linear map at its inducing points, by the spread of that map."""
    found = []
    for layer in layers.layers[:-1]:
        Z = layer.variational_strategy.inducing_points
        mean, straight = layer(Z[None], are_samples=True).mean[0], (Z @ layer.mean.weights[..., 0].T)
        found.append(float((mean - straight).square().mean().sqrt() / straight.std().clamp_min(1e-12)))
    return found


def _pack(posterior: DeepPosterior, name: str, tensors: dict[str, torch.Tensor]) -> dict[str, Any]:
    """For a model file: the numbers of a deep GP, and its tensors into ``tensors``."""
    tensors |= {f"{name}.{parameter}": value for parameter, value in posterior.layers.named_parameters()}
    return {
        "layers": len(posterior.layers.layers),
        "samples": posterior.samples,
        "offset": posterior.offset,
        "scale": posterior.scale,
    }


def _unpack(plain: Any, name: str, tensors: Mapping[str, torch.Tensor], modules: object, inputs: int) -> DeepPosterior:
    """The deep GP of a model file, every tensor checked. inputs: D."""
    from manifoldgp.integrations._deep_gp_layers import DeepPosterior, Layers

    depth, samples, offset, scale = int(plain["layers"]), int(plain["samples"]), float(plain["offset"]), float(plain["scale"])
    if not (1 <= depth <= MOST_LAYERS and 1 <= samples <= MOST_SAMPLES and math.isfinite(offset) and 0 < scale < math.inf):
        raise FileFormatError(f"The file's deep GP is described by numbers that none has: {plain!r}. It is damaged or forged.")
    inducing, weights = [], []
    for number in range(depth):
        inducing.append(take(tensors, f"{name}.layers.{number}.variational_strategy.inducing_points", (-1, inputs)))
        if number < depth - 1:
            weights.append(take(tensors, f"{name}.layers.{number}.mean.weights", (-1, inputs, 1))[..., 0].T)
            inputs = weights[-1].shape[1]
    layers = Layers(inducing, weights).to(inducing[0].device)
    with torch.no_grad():
        for parameter, value in layers.named_parameters():
            value.copy_(take(tensors, f"{name}.{parameter}", tuple(value.shape)))
    posterior = DeepPosterior(layers.eval(), samples, offset, scale)
    mean, variance = replace(posterior, samples=min(samples, _TRIED)).predict(inducing[0][:2]).moments()
    if not bool((torch.isfinite(mean) & torch.isfinite(variance) & (variance > 0)).all()):
        raise FileFormatError("The file's deep GP does not predict finite numbers where it was trained. It is damaged or forged.")
    return posterior


model_file.storable(DeepGPRegressor, _pack, _unpack)
