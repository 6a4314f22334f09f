"""The function that training minimises: −log p(y | theta) − log p(theta) of a batch of starts, and what features add to it, with its gradient."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from manifoldgp._system.threads import ROWS_WORTH_THREADS, Workers
from manifoldgp.errors import DisconnectedParameterError
from manifoldgp.model import Data, Model
from manifoldgp.parameter_arrays import LogPrior
from manifoldgp.parameters import Layout, Tree, leaves, nest
from manifoldgp.training.closed_form import closed_form

_ROWS_WORTH_A_WORKER = 200
_BYTES_AT_ONCE = 2**28


class TrainingObjective:
    """Values (A,) and gradients (A, P) of the NLML plus the negative log prior, for flat theta (A, P) in NumPy.

    data may hold one data set a start (data.batched); ``rows`` says which starts a call is about.
    parts: data sets of every start, one after another. Their NLMLs are added up, as if their rows had nothing to do with each other.
    """

    def __init__(
        self, model: Model, layout: Layout, constants: Tree, data: Data, workers: Workers | None = None, parts: int = 1
    ) -> None:
        self.model, self.layout, self.constants, self.data = model, layout, constants, data
        self.workers, self.parts = workers, parts
        self._prior = LogPrior(layout) if parts > 1 and layout.has_priors else None
        self.evaluations = 0
        self._closed_form = closed_form(model, layout, constants, data)

    def value(self, theta: Tensor, data: Data) -> Tensor:
        """The objective (A,) as a differentiable function of theta (A, P)."""
        values = self.layout.unflatten(theta, self.constants)
        value, penalty = self.model.nlml(values, data), self.model.penalty(values, data)
        value = value if penalty is None else value + penalty
        value = value if value.ndim else value.expand(len(theta))
        return value + self.layout.negative_log_prior(theta) if self.layout.has_priors else value

    def __call__(self, theta: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        self.evaluations += len(rows)
        if self.parts == 1:
            return self._each(theta, rows)
        several = (rows[:, None] * self.parts + np.arange(self.parts)).ravel()
        value, gradient = self._each(theta.repeat(self.parts, 0), several)
        value, gradient = value.reshape(len(rows), -1).sum(1), gradient.reshape(len(rows), self.parts, -1).sum(1)
        if self._prior is None:
            return value, gradient
        prior, slope = self._prior(theta)  # every part counted it
        return value - (self.parts - 1) * prior, gradient - (self.parts - 1) * slope

    def _each(self, theta: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of single data sets, over the workers."""
        N = self.data.y.shape[-1]
        if self.workers is None:
            return self._evaluate((theta, rows))
        parallel = self.workers.count if N >= _ROWS_WORTH_A_WORKER else 1
        if self._closed_form is None:  # which works on a few matrices at a time by itself
            parallel = max(parallel, -(-len(rows) * 3 * 8 * N * N // _BYTES_AT_ONCE))
        parallel = min(len(rows), parallel)
        pieces = zip(np.array_split(theta, parallel), np.array_split(rows, parallel), strict=True)
        parts = self.workers.map(self._evaluate, list(pieces), large=N >= ROWS_WORTH_THREADS)
        return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])

    def _evaluate(self, piece: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        if self._closed_form is None:
            return self.differentiate(*piece)
        value, gradient, far = self._closed_form(*piece)
        for i in () if far is None else np.flatnonzero(far):
            one = slice(i, i + 1)
            value[one], gradient[one] = self.differentiate(piece[0][one], piece[1][one])
        return value, gradient

    def differentiate(self, theta: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same values and gradients, always by automatic differentiation."""
        with torch.enable_grad():  # whatever the caller's own setting is
            return self._evaluate_with_gradient(*self._place(theta, rows))

    def _evaluate_with_gradient(self, theta: Tensor, data: Data) -> tuple[np.ndarray, np.ndarray]:
        theta.requires_grad_()
        value = self.value(theta, data)
        if not value.requires_grad:  # nothing to train
            return value.cpu().numpy(), np.zeros(theta.shape)
        (gradient,) = torch.autograd.grad(value.sum(), theta)
        return value.detach().cpu().numpy(), gradient.cpu().numpy()

    def nlml(self, theta: np.ndarray) -> np.ndarray:
        """NLML (R,) alone, without priors, one start after another: memory for one is enough."""
        found = np.empty(len(theta))
        with torch.no_grad():
            for r in range(len(theta)):
                point, data = self._place(theta[r : r + 1], np.array([r]))
                found[r] = float(self.model.nlml(self.layout.unflatten(point, self.constants), data).squeeze())
        return found

    def refuse_disconnected(self, theta: np.ndarray) -> None:
        """Raise, by name, if a trainable parameter has no path to the NLML: a network that silently does not train."""
        point, data = self._place(theta[:1], np.array([0]))
        values = self.layout.unflatten(point, self.constants)
        trainable = {n: v.detach().requires_grad_() for n, v in leaves(values) if self.layout.parameters[n].trainable}
        fixed = {n: v for n, v in leaves(values) if n not in trainable}
        tree = nest({**fixed, **trainable})
        value, penalty = self.model.nlml(tree, data).sum(), self.model.penalty(tree, data)
        value = value if penalty is None else value + penalty.sum()
        if not value.requires_grad:
            dead = list(trainable)
        else:
            gradients = torch.autograd.grad(value, list(trainable.values()), allow_unused=True)
            dead = [name for name, gradient in zip(trainable, gradients, strict=True) if gradient is None]
        if dead:
            raise DisconnectedParameterError(
                f"These parameters receive no gradient, so training would silently leave them as they are: {', '.join(dead)}. "
                "Use them in the forward pass, detach nothing on the way, or freeze them (requires_grad=False)."
            )

    def _place(self, theta: np.ndarray, rows: np.ndarray) -> tuple[Tensor, Data]:
        """theta as a tensor on the data's device, and the data of these starts."""
        device = self.data.X.device
        return torch.tensor(theta, dtype=torch.float64, device=device), self.data.rows(torch.from_numpy(rows).to(device))
