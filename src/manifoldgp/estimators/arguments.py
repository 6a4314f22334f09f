"""From an estimator's arguments, checked, to the model and to how it is trained."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch
from sklearn.utils import check_random_state

from manifoldgp.data import inputs
from manifoldgp.errors import InputError
from manifoldgp.estimators.units import WARPED_NOISE
from manifoldgp.features import Features, as_features
from manifoldgp.kernels import as_kernel
from manifoldgp.means import as_mean
from manifoldgp.model import Model
from manifoldgp.noise import GaussianNoise
from manifoldgp.parameters import GroupSparse, LogNormal, Normal, Prior, StudentT
from manifoldgp.training.processes import Ranks
from manifoldgp.training.progress import Callback
from manifoldgp.training.trained import Earlier
from manifoldgp.warping import NoWarping, as_warping

if TYPE_CHECKING:
    from manifoldgp.data.inputs import RandomState
    from manifoldgp.estimators.manifold_gp import ManifoldGPRegressor

DEFAULT_FEATURES = (6, 2)
"""Layer sizes of the network that features=None stands for: the paper's."""


@contextmanager
def as_it_was_if_this_fails(estimator: object) -> Iterator[None]:
    """What is done to an estimator, undone where it fails: an earlier fit still predicts."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise


def model_of(estimator: ManifoldGPRegressor, known_noise: bool) -> Model:
    """The model that the arguments describe. known_noise: whether fit was given the noise of the rows."""
    noise = _noise(estimator.noise)
    if not noise.learned and not known_noise:
        raise InputError(
            "noise='known' needs the noise of the rows: fit(X, y, noise_std=...). Use noise='learned' to estimate it."
        )
    warping = as_warping(estimator.target_warping)
    if not hasattr(warping, "inverse"):
        raise InputError(
            f"target_warping must be None, 'tanh' or a warping such as TanhWarping(3); got {estimator.target_warping!r}."
        )
    if known_noise and not isinstance(warping, NoWarping):
        raise InputError(WARPED_NOISE)
    return Model(
        features=estimator_features(estimator),
        kernel=as_kernel(estimator._kernel_in_use()),
        mean=as_mean(estimator.mean),
        noise=noise,
        warping=warping,
        priors=_priors(estimator),
    )


class Trainable(Protocol):
    """What every estimator is told about the circumstances of its fit."""

    @property
    def time_budget(self) -> float | None:
        """Seconds after which training stops and keeps what it has."""
        ...

    random_state: RandomState
    device: str
    verbose: bool
    callback: Callback | None

    def _seconds_left(self) -> float | None: ...


def estimator_features(estimator: ManifoldGPRegressor) -> Features:
    """The features that the arguments describe."""
    return as_features(DEFAULT_FEATURES if estimator.features is None else estimator.features)


@dataclass(frozen=True)
class Draws:
    """Where a fit's random numbers come from. seed: of its folds. earlier: fits to the same rows and folds before it, whose starts were others."""

    seed: int
    earlier: int = 0

    def generator(self) -> torch.Generator:
        """The generator that draws starts; its initial seed draws the folds."""
        generator = torch.Generator().manual_seed(self.seed)
        if self.earlier:
            torch.rand(2**16 * self.earlier + 1, generator=generator)
        return generator

    def seeds(self, targets: int) -> list[int]:
        """One for each target, whatever was drawn before."""
        generator = torch.Generator().manual_seed(self.seed)
        return torch.randint(2**31 - 1, (targets,), generator=generator).tolist()


@dataclass(frozen=True)
class RunSettings:
    """Under which circumstances a fit runs, whatever the average and the method. part: of what it is a part, in words, where there are several trainings."""

    time_budget: float | None
    draws: Draws
    device: str
    verbose: bool
    callback: Callback | None
    earlier: Sequence[Earlier] = ()
    part: str = ""

    @staticmethod
    def of(estimator: Trainable) -> RunSettings:
        """Those of an estimator's arguments, checked."""
        if estimator.time_budget is not None:
            inputs.positive_number(estimator.time_budget, "time_budget (seconds)")
        if estimator.callback is not None and not callable(estimator.callback):
            raise InputError(
                f"callback must be a function of (iterations, objective values), or None; got {estimator.callback!r}."
            )
        require_device(estimator.device)
        continued: tuple[Draws, Sequence[Earlier]] | None = getattr(estimator, "_continues", None)
        draws, earlier = continued or (Draws(seed_of(estimator.random_state)), ())
        return RunSettings(estimator._seconds_left(), draws, estimator.device, estimator.verbose, estimator.callback, earlier)

    def earlier_of(self, output: int) -> Earlier | None:
        """What earlier fits to the same rows left of a target."""
        return self.earlier[output] if output < len(self.earlier) else None

    def shared_by(self, ranks: Ranks) -> RunSettings:
        """With the first process's seed: all of them draw the same."""
        return replace(self, draws=replace(self.draws, seed=int(ranks.agreed(self.draws.seed))))

    def after(self, seconds: float) -> RunSettings:
        """With what is left of the time budget after so many seconds."""
        return self if self.time_budget is None else replace(self, time_budget=max(self.time_budget - seconds, 1e-9))


def seed_of(random_state: RandomState) -> int:
    """A seed from whatever scikit-learn accepts as random_state."""
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


def generator_of(random_state: RandomState) -> torch.Generator:
    """An explicit generator from whatever scikit-learn accepts as random_state."""
    return torch.Generator().manual_seed(seed_of(random_state))


def require_device(device: str) -> None:
    """Refuse a device that does not exist here, or cannot compute in float64."""
    try:
        torch.zeros(1, dtype=torch.float64, device=device).cpu()
    except (RuntimeError, AssertionError, TypeError) as error:  # RuntimeError: unknown; AssertionError: built without CUDA
        reason = str(error).splitlines()[0]
        raise InputError(
            f"The device {device!r} cannot be used ({reason}). Use 'cpu', or 'cuda' where PyTorch sees a GPU."
        ) from error


def standardized(given: object) -> tuple[bool, bool]:
    """Whether the columns of X, and those of y, are standardised, by the argument ``standardize``."""
    if isinstance(given, (bool, np.bool_)):
        return bool(given), bool(given)
    if isinstance(given, str) and given in ("X", "y"):
        return given == "X", given == "y"
    raise InputError(f"standardize must be True (X and y), False, 'X' or 'y'; got {given!r}.")


def _noise(given: object) -> GaussianNoise:
    if isinstance(given, GaussianNoise):
        return given
    if isinstance(given, str) and given in ("learned", "known"):
        return GaussianNoise(given == "learned")
    raise InputError(f"noise must be 'learned', 'known' (given to fit as noise_std) or GaussianNoise(floor=...); got {given!r}.")


def _priors(estimator: ManifoldGPRegressor) -> dict[str, Prior]:
    """The priors by pattern, checked: a prior of another kind would be passed over in silence."""
    priors = {} if estimator.priors is None else estimator.priors
    if not isinstance(priors, Mapping) or not all(
        isinstance(p, (GroupSparse, LogNormal, Normal, StudentT)) for p in priors.values()
    ):
        raise InputError(
            "priors must map patterns of parameter names to LogNormal, Normal, StudentT or GroupSparse, such as "
            f"{{'kernel.lengthscale': LogNormal(0, 1)}}; got {priors!r}."
        )
    for prior in priors.values():
        inputs.positive_number(_width(prior), f"The width of the prior {prior!r}")
    return dict(priors)


def _width(prior: Prior) -> float:
    match prior:
        case StudentT():
            return prior.scale
        case GroupSparse():
            return prior.width
        case _:
            return prior.sd
