"""A fitted estimator as a BoTorch model: posterior, conditioning, fantasies."""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np
import torch
from botorch.acquisition.objective import PosteriorTransform, ScalarizedPosteriorTransform
from botorch.models.model import FantasizeMixin, Model
from botorch.posteriors.gpytorch import GPyTorchPosterior
from botorch.posteriors.posterior import Posterior
from botorch.posteriors.transformed import TransformedPosterior
from botorch.sampling.base import MCSampler
from gpytorch.distributions import MultivariateNormal
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from manifoldgp._system.plain_text import counted
from manifoldgp.errors import InputError
from manifoldgp.estimators.manifold_gp import ManifoldGPRegressor
from manifoldgp.estimators.units import scaled_tensor
from manifoldgp.inference.ensemble import Ensemble
from manifoldgp.inference.mixtures import Warp
from manifoldgp.integrations._botorch_members import Members, jitter
from manifoldgp.integrations._botorch_mixture import MixturePosterior
from manifoldgp.warping import NoWarping

_POSTERIORS = ("mixture", "gaussian")


class ManifoldGPModel(Model, FantasizeMixin):
    """One target of a fitted estimator as a BoTorch model with one outcome, in the original units of X and y; BoTorch maximises.

    Conditioning and fantasies keep parameters and weights, as ``estimator.update`` does.

    Parameters
    ----------
    estimator
        A fitted ManifoldGPRegressor or GPRegressor. It is not changed, and later changes of it do not reach this model.
    output
        Which of its targets. Several: ``botorch.models.ModelList(*(ManifoldGPModel(e, output=o) for o in range(m)))``.
    posterior
        "mixture" gives acquisition functions the weighted members as they are; "gaussian" one Gaussian with the mixture's mean and joint covariance, for
        acquisition functions that need a MultivariateNormal. A single model without target warping is Gaussian anyway.

    Examples
    --------
    >>> from manifoldgp import Single
    >>> X = torch.linspace(0, 1, 12, dtype=torch.float64)[:, None]
    >>> model = ManifoldGPModel.fit(X, (6 * X).sin(), features=(2,), averaging=Single(restarts=2, max_iter=30))
    >>> model.posterior(X[:3]).mean.shape
    torch.Size([3, 1])
    """

    def __init__(self, estimator: ManifoldGPRegressor, *, output: int = 0, posterior: str = "mixture") -> None:
        super().__init__()
        if not isinstance(estimator, ManifoldGPRegressor):
            raise InputError(f"ManifoldGPModel needs a fitted estimator of this package; got a {type(estimator).__name__}.")
        check_is_fitted(estimator)
        if posterior not in _POSTERIORS:
            raise InputError(f"posterior must be one of {', '.join(map(repr, _POSTERIORS))}; got {posterior!r}.")
        if not 0 <= output < len(estimator.ensembles_):
            raise InputError(
                f"output must name one of the {counted(len(estimator.ensembles_), 'target')}, counted from 0; got {output!r}."
            )
        ensemble = estimator.ensembles_[output]
        self.kind = posterior
        self.ensemble: Ensemble | None = ensemble  # what functions are drawn from; None of batches of models
        self._members = [Members.of(block) for block in ensemble.blocks]
        self._offset, self._scale = ensemble.offset, ensemble.scale
        self._log_weights = torch.cat([w.reshape(-1) for w in ensemble.log_weights])
        self._certainty, self._of_blocks = ensemble.followed, ensemble.log_weights
        factors = torch.tensor(ensemble.variance_factors, dtype=torch.float64, device=self._log_weights.device)
        self._factor = torch.cat([factors.repeat_interleave(block.members) for block in ensemble.blocks])
        self._member = torch.cat(_component_members([block.members for block in ensemble.blocks], len(factors))).to(
            factors.device
        )
        self._warp = Warp.of([block.warping for block in ensemble.blocks for _ in factors])
        self._x_scaler, data = estimator.x_scaler_, ensemble.blocks[0].data
        self.train_inputs = (torch.as_tensor(self._x_scaler.undo(data.X.cpu().numpy()), device=factors.device),)
        self.train_targets = self._offset + self._scale * data.y
        self._known_noise = None if data.known_noise is None else data.known_noise.mean()
        self._row_noise_needed = not ensemble.blocks[0].model.noise.learned
        self.eval()

    @classmethod
    def fit(
        cls, train_X: Tensor, train_Y: Tensor, train_Yvar: Tensor | None = None, *, posterior: str = "mixture", **settings: Any
    ) -> Self:
        """A model of train_X (n, d) and train_Y (n, 1), fitted by ManifoldGPRegressor(**settings).

        train_Yvar: known noise variances (n, 1); unless settings say ``noise="learned"``, nothing is added to them.
        """
        if train_X.ndim != 2 or train_Y.ndim != 2 or train_Y.shape[-1] != 1:
            raise InputError(
                f"train_X must be (n, d) and train_Y (n, 1); got {tuple(train_X.shape)} and {tuple(train_Y.shape)}. "
                "Fit an estimator on several targets, and wrap each of them: ManifoldGPModel(estimator, output=0)."
            )
        if train_Yvar is not None:
            settings = {"noise": "known", **settings}
        noise_std = None if train_Yvar is None else train_Yvar.detach().cpu().double().sqrt().numpy()[:, 0]
        X, y = train_X.detach().cpu().double().numpy(), train_Y.detach().cpu().double().numpy()[:, 0]
        return cls(ManifoldGPRegressor(**settings).fit(X, y, noise_std=noise_std), posterior=posterior)

    @property
    def num_outputs(self) -> int:
        return 1

    @property
    def batch_shape(self) -> torch.Size:
        """() as fitted; the batches of fantasies after conditioning."""
        return self._members[0].batch_shape

    def posterior(
        self,
        X: Tensor,
        output_indices: list[int] | None = None,
        observation_noise: bool | Tensor = False,
        posterior_transform: PosteriorTransform | None = None,
    ) -> Posterior:
        """The joint posterior of f, or with observation_noise of y, at X `(*T, q, d)`.

        Parameters
        ----------
        observation_noise
            True adds the learned noise and the average of the known one; a tensor `(*T, q or 1, 1)` of variances stands in for the known noise.
        """
        if output_indices not in (None, [0]):
            raise InputError(f"This model has one outcome; output_indices must be None or [0], got {output_indices!r}.")
        U = self._scaled(X)
        moments = [block.moments(U) for block in self._members]
        means, covariances, prior = (torch.cat(parts) for parts in zip(*moments, strict=True))
        noise = self._noise(observation_noise, means.ndim - 1).expand(means.shape)
        log_weights = self._weights_at(covariances.diagonal(dim1=-2, dim2=-1) + noise)
        if observation_noise is not False:
            covariances = covariances + torch.diag_embed(noise)
        mixture = MixturePosterior(
            means, covariances, prior, self._member, self._factor, log_weights, self._warp, self._offset, self._scale
        )
        gaussian = self._warp.trivial and (self.kind == "gaussian" or len(self._member) == 1)
        if self.kind == "gaussian" and not gaussian:
            raise InputError(
                "posterior='gaussian' needs the joint covariance, which a warped target does not have; use 'mixture'."
            )
        result = _as_gaussian(mixture) if gaussian else mixture
        if posterior_transform is None:
            return result
        if isinstance(posterior_transform, ScalarizedPosteriorTransform) and not gaussian:
            return _scalarized(mixture, posterior_transform)
        return posterior_transform(result)

    def condition_on_observations(self, X: Tensor, Y: Tensor, noise: Tensor | None = None, **kwargs: object) -> Self:
        """The model with n more rows: X `(*T, n, d)` and Y `(*T', n, 1)`, T' broadcasting with T; parameters and weights unchanged.

        Parameters
        ----------
        noise
            Known noise variances of these rows, shaped like Y.
        """
        if noise is None and self._row_noise_needed:
            raise InputError("This model has noise='known': give the noise variances of the new rows too, noise=...")
        self._refuse_warped_noise(noise)
        new = copy.copy(self)
        new._modules, new._buffers, new._parameters = dict(self._modules), dict(self._buffers), dict(self._parameters)
        y = ((Y - self._offset) / self._scale)[..., 0].to(self._log_weights)
        known = None if noise is None else (noise[..., 0] / self._scale**2).to(y)
        new.ensemble = None
        if self.ensemble is not None and X.ndim == 2 and Y.ndim == 2:
            new.ensemble = self.ensemble.condition(self._scaled(X).detach(), y.detach(), known)
        new._members = [block.condition(self._scaled(X), y, known) for block in self._members]
        new.train_inputs, new.train_targets = self._joined_rows(X, Y)
        return new

    def fantasize(self, X: Tensor, sampler: MCSampler, observation_noise: Tensor | None = None, **kwargs: object) -> Self:
        """The model conditioned on draws of y at X `(*T, n, d)`: a batch `(*sample_shape, *T)` of models."""
        noise = observation_noise
        if noise is None and self._row_noise_needed and self._known_noise is not None:
            noise = (self._known_noise * self._scale**2).reshape(1, 1)
        drawn = self.posterior(X, observation_noise=True if noise is None else noise)
        Y = sampler(drawn)
        return self.condition_on_observations(
            X, Y, noise=None if noise is None else noise.expand(Y.shape[len(sampler.sample_shape) :])
        )

    def subset_output(self, idcs: list[int]) -> Model:
        if list(idcs) != [0]:
            raise InputError(f"This model has one outcome; it cannot be reduced to {idcs!r}.")
        return self

    def _scaled(self, X: Tensor) -> Tensor:
        D = len(self._x_scaler.place)
        if X.ndim < 2 or X.shape[-1] != D:
            raise InputError(f"X must be (..., q, {D}); got {tuple(X.shape)}.")
        return scaled_tensor(self._x_scaler, X, self._log_weights)

    def _noise(self, observation_noise: bool | Tensor, size: int) -> Tensor:
        """Noise variances (R, ...) in model units, to broadcast over (R, *T, q), where `(*T, q)` are ``size`` dimensions."""
        learned = torch.cat([block.noise_variance() for block in self._members]).reshape(-1, *[1] * size)
        if isinstance(observation_noise, Tensor):
            self._refuse_warped_noise(observation_noise)
            return learned + (observation_noise[..., 0] / self._scale**2).to(learned)
        return learned if self._known_noise is None or observation_noise is False else learned + self._known_noise

    def _weights_at(self, variances: Tensor) -> Tensor:
        """Log weights of the components (S,), or (S, *T, q) where they follow the members' variances (R, *T, q) of y."""
        if self._certainty is None:
            return self._log_weights
        of_blocks = variances.flatten(1).split([block.count for block in self._members])
        return self._certainty.log_weights(self._of_blocks, of_blocks).unflatten(-1, variances.shape[1:])

    def _refuse_warped_noise(self, noise: Tensor | None) -> None:
        if noise is not None and not isinstance(self._members[0].model.warping, NoWarping):
            raise InputError("Known noise is noise of y, and a warped model adds its noise to g(y). Leave it out.")

    def _joined_rows(self, X: Tensor, Y: Tensor) -> tuple[tuple[Tensor], Tensor]:
        """All inputs (*B, N, d) and targets (*B', N) after conditioning."""
        old_X, old_y, y = self.train_inputs[0], self.train_targets, Y[..., 0].to(self.train_targets)
        rows = np.broadcast_shapes(old_X.shape[:-2], X.shape[:-2])
        batch = np.broadcast_shapes(rows, old_y.shape[:-1], y.shape[:-1])
        joined = torch.cat([A.expand(*rows, *A.shape[-2:]) for A in (old_X, X.to(old_X))], -2)
        return (joined,), torch.cat([a.expand(*batch, a.shape[-1]) for a in (old_y, y)], -1)


def _component_members(sizes: list[int], factors: int) -> list[Tensor]:
    """The member, numbered over all blocks, of each component: block by block, factor by factor, member by member."""
    first = [sum(sizes[:b]) for b in range(len(sizes))]
    return [torch.arange(start, start + size).repeat(factors) for start, size in zip(first, sizes, strict=True)]


def _as_gaussian(mixture: MixturePosterior) -> GPyTorchPosterior:
    """The Gaussian with the mixture's mean and joint covariance, with the jitter that its factor needs."""
    C, scale = mixture.covariance_matrix, mixture.scale**2
    C = C + jitter(C, scale * mixture.prior_variance.amax(0))
    return GPyTorchPosterior(MultivariateNormal(mixture.mean[..., 0], C))


def _scalarized(mixture: MixturePosterior, transform: ScalarizedPosteriorTransform) -> TransformedPosterior:
    """offset + weight · f: BoTorch's own code for this needs a Gaussian."""
    weight, offset = torch.as_tensor(transform.weights)[0], transform.offset
    return TransformedPosterior(
        mixture,
        sample_transform=lambda samples: offset + weight * samples,
        mean_transform=lambda mean, variance: offset + weight * mean,
        variance_transform=lambda mean, variance: weight**2 * variance,
    )
