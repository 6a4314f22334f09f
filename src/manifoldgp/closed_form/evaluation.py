"""Values and gradients of the training objective in closed form, for the models that have one."""

from __future__ import annotations

import numpy as np

from manifoldgp.closed_form.features import mapping_of
from manifoldgp.closed_form.flat import LogPrior
from manifoldgp.closed_form.kernel import profile_of
from manifoldgp.closed_form.members import Members, Problem
from manifoldgp.closed_form.workspace import Workspace
from manifoldgp.means import Constant, Zero
from manifoldgp.model import Data, Model
from manifoldgp.noise import GaussianNoise
from manifoldgp.parameters import Layout, Tree
from manifoldgp.warping import NoWarping

_ROWS_AT_ONCE = 2**16
"""Rows of features, summed over members, that are held at a time."""

_KEPT = 4
"""Batch sizes whose buffers are kept: a batch shrinks when starts have converged, and does not grow again."""


def closed_form(model: Model, layout: Layout, constants: Tree, data: Data) -> Evaluation | None:
    """The evaluation of this model's training objective in closed form, or None if it has none here.

    It has one with Identity, Linear, MLP (full rank) or Nested features, a squared exponential or Matern 3/2 or 5/2 kernel on all of them, a zero or
    constant mean, Gaussian noise, one output without warping, on the CPU.
    """
    mapping, profile = mapping_of(model.features, layout), profile_of(model.kernel)
    usual = (
        type(model.mean) in (Zero, Constant)
        and type(model.noise) is GaussianNoise
        and type(model.warping) is NoWarping
        and model.outputs == 0
        and not constants
        and layout.size > 0
        and data.X.device.type == "cpu"
    )
    if not usual or mapping is None or profile is None:
        return None
    problem = Problem(layout, mapping, profile, model.noise.floor, *_rows_that_take_part(data), batched=data.batched)
    return Evaluation(problem)


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
