"""Values and gradients of the training objective in closed form, for the models that have one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from manifoldgp.features import Pullback
from manifoldgp.kernels import Kernel
from manifoldgp.means import Constant, Zero
from manifoldgp.model import Data, Model
from manifoldgp.noise import GaussianNoise
from manifoldgp.parameter_arrays import LogPrior, Values
from manifoldgp.parameters import Layout, Tree
from manifoldgp.training.closed_form_additive import AdditivePairs
from manifoldgp.training.closed_form_evidence import Evidence
from manifoldgp.training.closed_form_kernel import Pairs, RadialPairs, Workspace
from manifoldgp.warping import NoWarping


@dataclass(frozen=True)
class Problem:
    """What stays the same over all evaluations.

    X: [Xᵀ; 1] (D + 1, N). y: (N,). present: ones and zeros (N,), or None if all rows take part. known_noise: (N,) or None.
    With batched=True each has a leading dimension: one data set a start.
    """

    layout: Layout
    mapping: Callable[[Values, np.ndarray], Pullback]
    pairs: Callable[[Workspace, Values, int, int], Pairs]
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
        self._noise, self._constant = self.values.find("noise.scale"), self.values.find("mean.constant")
        self._pairs = problem.pairs(workspace, self.values, R, self._mapping.H.shape[-2])
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
        far = pairs.prepare(self._mapping.H, None if present is None else present == 0)
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
        """The diagonal of A (R, N): prior variances and noise, one for rows that do not take part. Returns the noise variances (R, 1) or (R, N)."""
        noise = self._noise_variance
        if self._noise is not None:
            np.square(self._noise[0][:, None], out=noise)
            noise += self._problem.noise_floor**2
        noise = noise if known is None else noise + known
        np.add(noise, self._pairs.diagonal(), out=self._top)
        if present is not None:
            self._top[np.broadcast_to(present == 0, self._top.shape)] = 1.0
        return noise

    def _all_pairs(self) -> None:
        """The N x N part, a lot of members at a time: covariances, factors, inverses and what gradients need of them."""
        workspace, pairs = self._workspace, self._pairs
        wanted = pairs.trained or self._mapping.trained
        self._evidence.begin()
        for number, lot in enumerate(pairs.lots()):
            count = lot.stop - lot.start
            diagonal = workspace.diagonal[:count]
            pairs.fill(number)
            diagonal[...] = self._top[lot]
            self._evidence.differentiate(workspace.A[:count], workspace.squares, diagonal, lot.start)
            if wanted:
                pairs.pull(number)

    def _chain_rule(
        self, present: np.ndarray | None, known: np.ndarray | None, noise: np.ndarray, count: np.ndarray | float
    ) -> None:
        """Every parameter's gradient from alpha, the diagonal of 2W, and what the kernel has pulled."""
        evidence = self._evidence
        slopes = evidence.slopes if present is None else evidence.slopes * present
        trace = slopes.sum(-1)
        if self._noise is not None:
            np.multiply(self._noise[0], trace, out=self._noise[1])
        if self._constant is not None:
            np.negative(evidence.alpha.sum(-1), out=self._constant[1])
        # Σ dNLML/dK ∘ K, from Σ dNLML/dK ∘ A = ½ (N − rᵀ alpha).
        diagonal = trace * noise[:, 0] if known is None else np.vecdot(slopes, noise)
        dH = self._pairs.write_gradients(0.5 * (count - evidence.fit - diagonal), self._mapping.trained)
        if dH is not None and self._mapping.trained:
            self._mapping.backward(dH)


_ROWS_AT_ONCE = 2**16
"""Rows of features, summed over members, that are held at a time."""

_KEPT = 4
"""Batch sizes whose buffers are kept: a batch shrinks when starts have converged, and does not grow again."""


def closed_form(model: Model, layout: Layout, constants: Tree, data: Data) -> Evaluation | None:
    """The evaluation of this model's training objective in closed form, or None if it has none here.

    It has one where the features have one (Identity, Linear, MLP of full rank, Nested), with a kernel that has a radial profile (the squared exponential,
    Matern 3/2 and 5/2, on all features) or an additive form, a zero or constant mean, Gaussian noise, one output without warping, on the CPU.
    """
    mapping, pairs = model.features.closed_form(layout, "features"), _pairs_of(model.kernel)
    usual = (
        type(model.mean) in (Zero, Constant)
        and type(model.noise) is GaussianNoise
        and type(model.warping) is NoWarping
        and model.outputs == 0
        and not constants
        and layout.size > 0
        and data.X.device.type == "cpu"
    )
    if not usual or mapping is None or pairs is None:
        return None
    problem = Problem(layout, mapping, pairs, model.noise.floor, *_rows_that_take_part(data), batched=data.batched)
    return Evaluation(problem)


def _pairs_of(kernel: Kernel) -> Callable[[Workspace, Values, int, int], Pairs] | None:
    """What makes the kernel's pairs, if it has a closed form."""
    profile, form = kernel.radial_profile(), kernel.additive_form()
    if profile is not None:
        return partial(RadialPairs, profile=profile)
    return None if form is None else partial(AdditivePairs, form=form)


class Evaluation:
    """The objective (A,) and its gradient (A, P) at theta (A, P) of the starts ``rows`` (A,).

    Threads may evaluate at the same time: there are as many workspaces as there were evaluations side by side, and they live as long as this object.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._prior = LogPrior(problem.layout) if problem.layout.has_priors else None
        self._step = max(1, _ROWS_AT_ONCE // problem.y.shape[-1])
        self._rooms: list[_Room] = []

    def __call__(self, theta: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Values, gradients, and which starts (A,), if any, lose too many digits here: their values mean nothing.

        A start whose covariance has no factor has the value +inf and a zero gradient.
        """
        value, gradient, far = np.empty(len(theta)), np.empty(theta.shape), None
        room = self._take_room()
        with np.errstate(all="ignore"):
            for i in range(0, len(theta), self._step):
                part = slice(i, i + self._step)
                value[part], gradient[part], among = room.members(len(rows[part]))(theta[part], rows[part])
                if among is not None:
                    far = np.zeros(len(theta), dtype=bool) if far is None else far
                    far[part] = among
            self._rooms.append(room)
            if self._prior is not None:
                finite = np.isfinite(value)
                prior, slope = self._prior(theta)
                value += prior
                gradient += slope if finite.all() else np.where(finite[:, None], slope, 0.0)
        return value, gradient, far

    def _take_room(self) -> _Room:
        # Not threading.local: threads that Python did not start (a sampler's) lose what it holds after every call.
        try:
            return self._rooms.pop()
        except IndexError:
            return _Room(self._problem)


class _Room:
    """Where one evaluation at a time takes place: a workspace, and the buffers of the batch sizes that came last."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._workspace: Workspace | None = None
        self._kept: dict[int, Members] = {}

    def members(self, R: int) -> Members:
        """The buffers for R members."""
        workspace = self._workspace
        if workspace is None or workspace.lot < min(R, workspace.largest_lot):
            workspace = self._workspace = Workspace(self._problem.y.shape[-1], R)
            self._kept.clear()
        if R not in self._kept:
            if len(self._kept) == _KEPT:
                self._kept.clear()
            self._kept[R] = Members(self._problem, workspace, R)
        return self._kept[R]


def _rows_that_take_part(data: Data) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, np.ndarray | None]:
    """X with a row of ones, y, present and known noise without the rows that a mask leaves out.

    Where starts keep different numbers of rows, the shorter ones are filled up with rows that do not take part.
    """
    X, y = data.X.numpy().swapaxes(-1, -2), data.y.numpy()
    known, present = (None if a is None else a.numpy() for a in (data.known_noise, data.mask))
    if present is not None:
        kept = np.argsort(-present, axis=-1, kind="stable")[..., : int(present.sum(-1).max())]
        X, y = np.take_along_axis(X, kept[..., None, :], -1), np.take_along_axis(y, kept, -1)
        known = None if known is None else np.take_along_axis(known, kept, -1)
        present = np.take_along_axis(present, kept, -1)
    X = np.concatenate([X, np.ones_like(X[..., :1, :])], -2)
    return X, np.ascontiguousarray(y), None if present is None or present.all() else present, known
