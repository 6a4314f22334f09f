"""One evaluation of R members, with everything it needs already in place: buffers, views and addresses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from manifoldgp.closed_form.evidence import Evidence
from manifoldgp.closed_form.features import Mapping
from manifoldgp.closed_form.flat import Values
from manifoldgp.closed_form.kernel import Pairs
from manifoldgp.closed_form.workspace import Workspace
from manifoldgp.kernels._profiles import Profile
from manifoldgp.parameters import Layout


@dataclass(frozen=True)
class Problem:
    """What stays the same over all evaluations.

    X: [Xᵀ; 1] (D + 1, N). y: (N,). present: ones and zeros (N,), or None if all rows take part. known_noise: (N,) or None.
    With batched=True each has a leading dimension: one data set a start.
    """

    layout: Layout
    mapping: Callable[[Values, np.ndarray], Mapping]
    profile: Profile
    noise_floor: float
    X: np.ndarray
    y: np.ndarray
    present: np.ndarray | None
    known_noise: np.ndarray | None
    batched: bool


class Members:
    """NLML and gradient of R members at a time."""

    def __init__(self, problem: Problem, workspace: Workspace, R: int) -> None:
        self._problem, self._workspace = problem, workspace
        self.values = Values(problem.layout, R)
        N = problem.y.shape[-1]
        self._X = np.empty((R, *problem.X.shape[-2:])) if problem.batched else problem.X
        self._mapping = problem.mapping(self.values, self._X)
        self._lengthscale, self._variance, self._noise, self._constant = (
            self.values.find(name) for name in ("kernel.lengthscale", "kernel.variance", "noise.scale", "mean.constant")
        )
        self._pairs = Pairs(workspace, R, self._mapping.H.shape[-2], problem.profile)
        self._evidence = Evidence(R, N)
        self._top, self._noise_variance = np.empty((R, N)), np.full((R, 1), problem.noise_floor**2)

    def __call__(self, theta: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """NLML (R,), its gradient (R, P), and which members (R,), if any, lose too many digits here; valid until the next call."""
        problem, values, pairs, evidence = self._problem, self.values, self._pairs, self._evidence
        y, present, known = problem.y, problem.present, problem.known_noise
        if problem.batched:
            np.take(problem.X, rows, 0, out=self._X)
            y, (present, known) = y[rows], (None if a is None else a[rows] for a in (present, known))
        values.load(theta)
        self._mapping.forward()
        if self._lengthscale is None:
            pairs.Z[...] = self._mapping.H
        else:
            np.divide(self._mapping.H, self._lengthscale[0][:, :, None], out=pairs.Z)
        if self._variance is not None:
            np.log(self._variance[0], out=pairs.log_variance)
        far = pairs.prepare(None if present is None else present == 0)
        np.subtract(y, 0.0 if self._constant is None else self._constant[0][:, None], out=evidence.residual)
        if present is not None:
            evidence.residual *= present
        noise = self._set_diagonal(present, known)
        self._all_pairs()
        count = y.shape[-1] if present is None else present.sum(-1)
        value = evidence.nlml(count)
        self._chain_rule(present, known, noise, count)
        gradient = values.theta_gradient()
        if evidence.failed.any():
            gradient[evidence.failed] = 0.0
        return value, gradient, far

    def _set_diagonal(self, present: np.ndarray | None, known: np.ndarray | None) -> np.ndarray:
        """The diagonal of A (R, N): variance and noise, one for rows that do not take part. Returns the noise variances (R, 1) or (R, N)."""
        noise = self._noise_variance
        if self._noise is not None:
            np.square(self._noise[0][:, None], out=noise)
            noise += self._problem.noise_floor**2
        noise = noise if known is None else noise + known
        np.add(noise, 1.0 if self._variance is None else self._variance[0][:, None], out=self._top)
        if present is not None:
            self._top[np.broadcast_to(present == 0, self._top.shape)] = 1.0
        return noise

    def _all_pairs(self) -> None:
        """The N x N part, a lot of members at a time: covariances, factors, inverses and what dZ needs of them."""
        workspace, pairs = self._workspace, self._pairs
        wanted = self._lengthscale is not None or self._mapping.trained
        self._evidence.begin()
        for number, lot in enumerate(pairs.lots()):
            count = lot.stop - lot.start
            diagonal = workspace.diagonal[:count]
            pairs.fill(number)
            diagonal[...] = self._top[lot]
            self._evidence.differentiate(workspace.A[:count], workspace.squares, diagonal, lot.start)
            if wanted:
                pairs.pull(number)
        if wanted:
            pairs.finish()

    def _chain_rule(
        self, present: np.ndarray | None, known: np.ndarray | None, noise: np.ndarray, count: np.ndarray | float
    ) -> None:
        """Every parameter's gradient from alpha, the diagonal of M, and dZ."""
        evidence, pairs = self._evidence, self._pairs
        slopes = evidence.slopes if present is None else evidence.slopes * present
        trace = slopes.sum(-1)
        if self._noise is not None:
            np.multiply(self._noise[0], trace, out=self._noise[1])
        if self._variance is not None:
            # Σ dNLML/dK ∘ K, from Σ dNLML/dK ∘ A = ½ (N − rᵀ alpha).
            diagonal = trace * noise[:, 0] if known is None else np.vecdot(slopes, noise)
            self._variance[1][...] = 0.5 * (count - evidence.fit - diagonal) / self._variance[0]
        if self._constant is not None:
            np.negative(evidence.alpha.sum(-1), out=self._constant[1])
        dZ = pairs.dZ
        if self._lengthscale is not None:
            lengthscale, gradient = self._lengthscale
            per_feature = np.vecdot(dZ, pairs.Z)
            if lengthscale.shape[1] < per_feature.shape[1]:
                per_feature = per_feature.sum(-1, keepdims=True)
            np.divide(per_feature, -lengthscale, out=gradient)
            if self._mapping.trained:
                dZ /= lengthscale[:, :, None]
        if self._mapping.trained:
            self._mapping.backward(dZ)
