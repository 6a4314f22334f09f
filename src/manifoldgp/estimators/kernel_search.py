"""KernelSearch: a plain Gaussian process that finds its own kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from manifoldgp.estimators.diagnosis import Diagnosis
from manifoldgp.estimators.manifold_gp import ManifoldGPRegressor
from manifoldgp.estimators.model_file import storable
from manifoldgp.estimators.structure_words import Structure, structure_of
from manifoldgp.features import Features, Identity
from manifoldgp.kernels import Kernel
from manifoldgp.means import Mean
from manifoldgp.noise import GaussianNoise
from manifoldgp.structure.search import Search

if TYPE_CHECKING:
    from manifoldgp.data.inputs import RandomState


INPUTS = Identity()
"""The inputs as they are, in place of features."""


@storable
class KernelSearch(ManifoldGPRegressor):
    """A Gaussian process whose kernel is searched for: sums and products of base kernels on single inputs, or on single features.

    From a base kernel on, every step tries to add a base kernel to a part of the best expressions, to multiply a part by one, to exchange one, and to let the
    whole change at a place. What was found is an ordinary kernel, and `describe` says it in words.

    Parameters
    ----------
    depth
        Steps, at most; an expression of depth 4 has four base kernels, or eight with a change-point. The search ends earlier when no step makes it better.
    beam
        How many of the best expressions each step grows from.
    budget
        Seconds after which the search stops and keeps the best so far. None: no limit.
    criterion
        "bic": the evidence with half a log N for each parameter; "held-out": the density of a quarter of the rows, which are held out (groups and ordered
        of fit say which: whole groups, the last rows).
    kernels
        Base kernels by name, out of "se", "matern12", "matern32", "matern52", "rq", "periodic", "linear", "nn", "constant", "changepoint". None: all
        but the Matern kernels 1/2 and 5/2.
    rows
        Candidates are compared on at most so many rows, drawn at random; the winner is trained on all of them.
    max_iter
        Iterations of a candidate that is trained to the end, at most.
    cache
        A file that keeps what candidates reached. A search that finds its own results there goes on where it stood, as after it was killed.
    features
        What kernels see in place of the inputs: ``PCA(2)``, or a network such as ``MLP((10, 2))``, and whatever `ManifoldGPRegressor` takes. Features with parameters are
        learnt first, with a squared exponential kernel; kernels are searched for on them as they are; in the end the winner and the features are trained together.
    mean, noise, standardize, random_state, device, verbose, callback
        As in `ManifoldGPRegressor`; with features the mean is zero or constant.

    Attributes
    ----------
    kernels_ : list of Kernel
        What was found, one for each target.
    search_ : list of SearchReport
        For each target what was tried, best first, and why the search ended.

    Examples
    --------
    >>> import numpy as np
    >>> t = np.linspace(0, 6, 60)[:, None]
    >>> model = KernelSearch(depth=1, kernels=("linear", "periodic")).fit(t, np.sin(2 * np.pi * t[:, 0] / 1.5))
    >>> print(model.describe().parts[0].words)
    a period of 1.5 in x
    """

    kernel: Kernel | str = "se"
    input_noise = None
    target_warping = None
    priors = None
    method = "exact"

    def __init__(
        self,
        depth: int = 4,
        *,
        beam: int = 2,
        budget: float | None = None,
        criterion: str = "bic",
        kernels: Sequence[str] | None = None,
        rows: int = 500,
        max_iter: int = 100,
        cache: str | Path | None = None,
        features: Features | torch.nn.Module | BaseEstimator | Sequence[int] = INPUTS,
        mean: Mean | torch.nn.Module | str = "zero",
        noise: GaussianNoise | str = "learned",
        standardize: bool | str = True,
        missing: str = "error",
        cyclic: Sequence[str] = (),
        random_state: RandomState = 0,
        device: str = "cpu",
        verbose: bool = False,
        callback: Callable[[np.ndarray, np.ndarray], object] | None = None,
    ) -> None:
        self.depth = depth
        self.beam = beam
        self.budget = budget
        self.criterion = criterion
        self.kernels = kernels
        self.rows = rows
        self.max_iter = max_iter
        self.cache = cache
        self.features = features
        self.mean = mean
        self.noise = noise
        self.standardize = standardize
        self.missing = missing
        self.cyclic = cyclic
        self.random_state = random_state
        self.device = device
        self.verbose = verbose
        self.callback = callback

    @property
    def averaging(self) -> Search:  # pyright: ignore[reportIncompatibleVariableOverride]
        """How it is trained: its own arguments, as those of a search."""
        settings = (self.depth, self.beam, self.criterion, self.kernels, self.rows, self.max_iter, self.cache)
        return Search(*settings, on_features=not isinstance(self.features, Identity))

    @property
    def time_budget(self) -> float | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The budget, under the name that other estimators have for it."""
        return self.budget

    @property
    def kernels_(self) -> list[Kernel]:
        """The kernels that were found, one for each target."""
        check_is_fitted(self)
        return [ensemble.blocks[0].model.kernel for ensemble in self.ensembles_]

    def describe(self, output: int = 0) -> Structure:
        """What was found for a target: its parts, in words (print it), each with its share of the variance."""
        check_is_fitted(self)
        return structure_of(self, output)

    def diagnose(self) -> Diagnosis:
        """What the fit looks like, in words (print it) and numbers; what was found comes first."""
        found = super().diagnose()
        several = self.n_outputs_ > 1
        words = [f"output {o}: {line}" if several else line for o in range(self.n_outputs_) for line in self.describe(o).lines()]
        tried = {"expressions tried": sum(len(report.candidates) for report in self.search_)}
        return Diagnosis({**found.numbers, **tried}, [*words, *found.remarks], found.whose)
