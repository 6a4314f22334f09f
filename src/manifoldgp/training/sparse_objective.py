"""The collapsed bound and its exact gradient in two passes over chunks of rows, in memory that does not grow with their number."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from manifoldgp._system.memory import available_bytes
from manifoldgp._system.threads import Item, Result, Workers
from manifoldgp.errors import DisconnectedParameterError, NotPositiveDefiniteError
from manifoldgp.inference.sparse_bound import Bound, Statistics, collapsed_bound
from manifoldgp.inference.sparse_sums import (
    Forward,
    Inducing,
    Pull,
    add_chunk_,
    forward,
    inducing_gradient,
    place_inducing,
    pull_back,
)
from manifoldgp.model import Model
from manifoldgp.parameters import Layout, Tree, leaves, nest
from manifoldgp.training.model_rows import ModelRows
from manifoldgp.training.processes import tree_sum
from manifoldgp.training.replay import EVALUATION, Replay

KEPT_WHOLE, KEPT_PART = 2**30, 2**28
"""Bytes. The chunks of the first pass are kept for the second if all of them together need no more than the first of these; otherwise those
that fit into the second, and the others are computed anew."""


class BoundObjective:
    """F plus the negative log prior, for flat theta (A, P) in NumPy: values (A,) and gradients (A, P).

    rows: read slot by slot in every pass. Slots are summed one by one and then in a fixed tree, so that neither the number of processes nor
    that of worker threads changes a bit of the result. sharing: how many objectives are evaluated side by side, and share the memory for chunks that are kept.
    """

    def __init__(
        self,
        model: Model,
        layout: Layout,
        constants: Tree,
        rows: ModelRows,
        device: torch.device | str = "cpu",
        workers: Workers | None = None,
        kept_bytes: int | None = None,
        replay: Replay | None = None,
        sharing: int = 1,
    ) -> None:
        self.replay = replay or Replay()
        self.model, self.layout, self.constants, self.rows = model, layout, constants, rows
        self.device, self.ranks, self.workers, self.kept_bytes, self.sharing = device, rows.ranks, workers, kept_bytes, sharing
        self.rung = 0  # of the jitter ladder; it only ever rises, so that the bound does not jump back and forth
        self.evaluations = 0
        self.best: tuple[float, np.ndarray] | None = None

    def __call__(self, theta: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        pairs = [self.evaluate(row) for row in theta]
        return np.array([value for value, _ in pairs]), np.stack([gradient for _, gradient in pairs])

    def evaluate(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """F and its gradient (P,) at theta (P,); +inf where K_ZZ has no factor or the sums are not finite."""
        self.evaluations += 1
        answer = self.replay.numbers(EVALUATION, lambda: self._computed(theta), point=theta)
        value, self.rung, gradient = float(answer[0]), int(answer[1]), answer[2:]
        if np.isfinite(value) and (self.best is None or value < self.best[0]):
            self.best = value, theta.copy()
        return value, gradient

    def _computed(self, theta: np.ndarray) -> np.ndarray:
        """F, the rung of the jitter ladder, and the gradient: (2 + P,)."""
        point = torch.tensor(theta, dtype=torch.float64, device=self.device)
        inducing = self._place(point)
        sums, kept = self._first_pass(point, inducing, keep=True) if inducing is not None else (None, [])
        bound = None if sums is None else collapsed_bound(sums)
        # Everyone has the same sums, but the first process decides what is finite.
        fine = self.ranks.decide(bound is not None and bool(torch.isfinite(bound.value)))
        if not fine or bound is None or inducing is None:
            return np.concatenate([[np.inf, self.rung], np.zeros(len(theta))])
        gradient = self._second_pass(point, inducing, Pull.of(bound, inducing), kept)
        value = bound.value.clone()
        gradient += self._inducing_part(point, bound, inducing)
        with torch.enable_grad():
            if self.layout.has_priors:
                leaf = point.clone().requires_grad_()
                prior = self.layout.negative_log_prior(leaf)
                gradient += torch.autograd.grad(prior, leaf)[0]
                value += prior.detach()
        self.ranks.follow_first_(value, gradient)
        return np.concatenate([[float(value), self.rung], gradient.cpu().numpy()])

    def value(self, theta: np.ndarray) -> float:
        """F alone at theta (P,), in one pass, without the prior; +inf where it does not exist."""
        point = torch.tensor(theta, dtype=torch.float64, device=self.device)
        inducing = self._place(point)
        bound = None if inducing is None else collapsed_bound(self._first_pass(point, inducing, keep=False)[0])
        value = np.inf if bound is None or not bool(torch.isfinite(bound.value)) else float(bound.value)
        return float(self.ranks.gather(value)[0][0])

    def sums(self, theta: np.ndarray) -> tuple[Tree, Inducing, Statistics, float]:
        """Values, inducing points, the sums over all rows and F at theta (P,): what a posterior is made of."""
        point = torch.tensor(theta, dtype=torch.float64, device=self.device)
        inducing = self._place(point)
        if inducing is None:
            raise NotPositiveDefiniteError(
                "The covariance of the inducing points is not positive definite, even with the largest jitter. "
                "Use fewer inducing points, or give the length-scales a prior."
            )
        sums, _ = self._first_pass(point, inducing, keep=False)
        bound = collapsed_bound(sums)
        return self.layout.unflatten(point, self.constants), inducing, sums, float("inf") if bound is None else float(bound.value)

    def refuse_disconnected(self, theta: np.ndarray) -> None:
        """Raise, by name, if a trainable parameter has no path to the bound: a network that silently does not train."""
        rows = self.rows.sample(50, 0)
        values = self.layout.unflatten(torch.tensor(theta, dtype=torch.float64, device=self.device), self.constants)
        inducing = place_inducing(self.model, values)
        if inducing is None:
            return
        named = {n: v.detach().requires_grad_() for n, v in leaves(values) if self.layout.parameters[n].trainable}
        fixed = {n: v for n, v in leaves(values) if n not in named}
        with torch.enable_grad():
            chunk = forward(self.model, nest({**fixed, **named}), inducing, rows)
            outputs = [t for t in (chunk.K, chunk.k, chunk.r, chunk.w, chunk.log_slope) if t is not None and t.requires_grad]
            total = sum((t.sum() for t in outputs), torch.zeros((), dtype=torch.float64, device=self.device))
            found = torch.autograd.grad(total, list(named.values()), allow_unused=True)
        dead = [name for name, gradient in zip(named, found, strict=True) if gradient is None]
        if dead:
            raise DisconnectedParameterError(
                f"These parameters receive no gradient, so training would silently leave them as they are: {', '.join(dead)}. "
                "Use them in the forward pass, detach nothing on the way, or freeze them (requires_grad=False)."
            )

    def _place(self, point: Tensor) -> Inducing | None:
        inducing = place_inducing(self.model, self.layout.unflatten(point, self.constants), self.rung)
        if inducing is not None:
            self.rung = inducing.rung
        return inducing

    def _first_pass(self, point: Tensor, inducing: Inducing, keep: bool) -> tuple[Statistics, list[list[tuple[Tensor, Forward]]]]:
        """The sums over the rows of all processes, and for each of this process's slots the chunks that are kept."""
        J, slots = len(inducing.Z), self.rows.slots
        room = self._room(J) // max(len(slots), 1) if keep else 0

        def add_slot(slot: int) -> tuple[Statistics, list[tuple[Tensor, Forward]]]:
            sums, kept, left = Statistics.zeros(J, point), [], room
            for rows in self.rows.chunks(slot):
                left -= _chunk_bytes(J, len(rows.y))
                with torch.set_grad_enabled(left > 0):
                    leaf = point.clone().requires_grad_(left > 0)
                    chunk = forward(self.model, self.layout.unflatten(leaf, self.constants), inducing, rows)
                with torch.no_grad():
                    add_chunk_(sums, chunk)
                if left > 0:
                    kept.append((leaf, chunk))
            return sums, kept

        done = self._map(add_slot, slots)
        total = tree_sum([sums for sums, _ in done]) if done else Statistics.zeros(J, point)
        self.ranks.sum_(total.VV, total.a, total.scalars)
        return total, [kept for _, kept in done]

    def _room(self, J: int) -> int:
        """Bytes for the chunks that are kept."""
        if self.kept_bytes is not None:
            return self.kept_bytes
        first, end = self.rows.my_span()
        whole = _chunk_bytes(J, end - first + 2 * len(self.rows.slots))  # slots differ by a row
        return whole if self.sharing * whole <= min(KEPT_WHOLE, available_bytes() // 8) else KEPT_PART // self.sharing

    def _second_pass(self, point: Tensor, inducing: Inducing, pull: Pull, kept: list[list[tuple[Tensor, Forward]]]) -> Tensor:
        """Σ over the rows of all processes of dF/dtheta (P,), K_ZZ and prior left out."""

        def pull_slot(item: tuple[int, list[tuple[Tensor, Forward]]]) -> Tensor:
            slot, remembered = item
            gradient = torch.zeros_like(point)
            for rows in self.rows.chunks(slot):
                if remembered:
                    leaf, chunk = remembered.pop(0)
                else:
                    with torch.enable_grad():
                        leaf = point.clone().requires_grad_()
                        chunk = forward(self.model, self.layout.unflatten(leaf, self.constants), inducing, rows)
                with torch.no_grad():
                    outputs, gradients = pull_back(chunk, pull)
                if outputs:
                    gradient += torch.autograd.grad(outputs, leaf, gradients)[0]
            return gradient

        parts = self._map(pull_slot, list(zip(self.rows.slots, kept, strict=True)))
        total = tree_sum(parts) if parts else torch.zeros_like(point)
        self.ranks.sum_(total)
        return total

    def _inducing_part(self, point: Tensor, bound: Bound, inducing: Inducing) -> Tensor:
        """What K_ZZ pulls back to theta (P,)."""
        with torch.enable_grad():
            leaf = point.clone().requires_grad_()
            values = self.layout.unflatten(leaf, self.constants)
            K = self.model.matrix(values, values["inducing"]["Z"])
            return torch.autograd.grad(K, leaf, inducing_gradient(bound, inducing))[0]

    def _map(self, function: Callable[[Item], Result], items: list[Item]) -> list[Result]:
        if self.workers is None:
            return [function(item) for item in items]
        return self.workers.map(function, items, large=False)


def _chunk_bytes(J: int, rows: int) -> int:
    """K and V (J, rows), and about as much again for kernel and features on the way; networks are taken to have some 100 units."""
    return 4 * 8 * (J + 100) * rows
