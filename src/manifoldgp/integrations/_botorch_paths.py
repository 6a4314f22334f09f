"""Thompson sampling: functions drawn from a model, as BoTorch's pathwise acquisition functions ask for them."""

from __future__ import annotations

import math

import torch
from botorch.sampling.pathwise.paths import SamplePath
from botorch.sampling.pathwise.posterior_samplers import DrawMatheronPaths
from torch import Tensor

from manifoldgp.errors import InputError
from manifoldgp.inference.function_draws import EnsembleDraws, draw_functions
from manifoldgp.integrations._botorch_model import ManifoldGPModel

_RIDGES = 1024


class FunctionPaths(SamplePath):
    """Draws of f, in the units of X and y, at X `(*batch, n, d)`: `(*sample_shape, *batch, n)`.

    Where the batch ends with the shape of the sample, as BoTorch's Thompson sampling has it, each draw sees its own entry: `(*batch, n)`.
    """

    def __init__(self, model: ManifoldGPModel, draws: EnsembleDraws, sample_shape: torch.Size) -> None:
        super().__init__()
        self.model, self.draws, self.sample_shape = model, draws, sample_shape

    def set_ensemble_as_batch(self, ensemble_as_batch: bool) -> None:
        """A draw has one member of the average: there is no ensemble dimension."""

    def forward(self, X: Tensor) -> Tensor:
        U, batch, S = self.model._scaled(X), X.shape[:-2], self.sample_shape
        own = len(S) > 0 and batch[len(batch) - len(S) :] == S
        if not own:
            values = self.draws(U.reshape(-1, U.shape[-1]))
            return values.reshape(*S, *X.shape[:-1])
        outer = batch[: len(batch) - len(S)]
        rows = U.reshape(math.prod(outer), self.draws.count, *U.shape[-2:]).movedim(0, 1).flatten(1, 2)
        values = self.draws(rows).unflatten(1, (math.prod(outer), U.shape[-2])).movedim(1, 0)
        return values.reshape(X.shape[:-1])


@DrawMatheronPaths.register(ManifoldGPModel)
def _draw_paths(model: ManifoldGPModel, *, sample_shape: torch.Size, **_: object) -> FunctionPaths:
    """Draws of the model's ensemble; random numbers come from PyTorch's own generator, as in the rest of BoTorch."""
    if model.ensemble is None:
        raise InputError(
            "Functions are drawn from one model, and this is a batch of them (fantasies). Draw from the model before that."
        )
    seed = int(torch.randint(2**31, ()))
    draws = draw_functions(model.ensemble, math.prod(sample_shape), _RIDGES, torch.Generator().manual_seed(seed))
    return FunctionPaths(model, draws, sample_shape)
