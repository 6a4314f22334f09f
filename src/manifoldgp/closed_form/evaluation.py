"""Values and gradients of the training objective in closed form, for the models that have one."""

from __future__ import annotations

import threading

import numpy as np

from manifoldgp.closed_form.evidence import Evidence
from manifoldgp.closed_form.features import Forward, forward_of
from manifoldgp.closed_form.flat import LogPrior, Values
from manifoldgp.closed_form.kernel import Pairs, profile_of
from manifoldgp.closed_form.workspace import Workspace
from manifoldgp.kernels._profiles import Profile
from manifoldgp.means import Constant, Zero
from manifoldgp.model import Data, Model
from manifoldgp.noise import GaussianNoise
from manifoldgp.parameters import Layout, Tree
from manifoldgp.warping import NoWarping

_FEATURE_ENTRIES = 2**16


def closed_form(model: Model, layout: Layout, constants: Tree, data: Data) -> Evaluation | None:
    """The evaluation of this model's training objective in closed form, or None if it has none here.

    It has one with Identity, Linear, MLP (full rank) or Nested features, a squared exponential or Matern 3/2 or 5/2 kernel on all of them, a zero or
    constant mean, Gaussian noise, one output without warping, on the CPU.
    """
    forward, profile = forward_of(model.features, layout), profile_of(model.kernel)
    usual = (
        type(model.mean) in (Zero, Constant)
        and type(model.noise) is GaussianNoise
        and type(model.warping) is NoWarping
        and model.outputs == 0
        and not constants
        and layout.size > 0
        and data.X.device.type == "cpu"
    )
    return Evaluation(model, layout, data, forward, profile) if usual and forward is not None and profile is not None else None


class Evaluation:
    """The objective (A,) and its gradient (A, P) at theta (A, P) of the starts ``rows`` (A,).

    Rows that a mask leaves out are left out of all matrices; where starts keep different numbers of rows, the shorter ones are filled up
    with rows that take no part. Threads may evaluate at the same time: each has a workspace of its own.
    """

    def __init__(self, model: Model, layout: Layout, data: Data, forward: Forward, profile: Profile) -> None:
        self._model, self._layout, self._forward, self._profile = model, layout, forward, profile
        self._prior = LogPrior(layout) if layout.has_priors else None
        self._batched = data.batched
        self._take(data)
        self._local = threading.local()

    def _take(self, data: Data) -> None:
        X, y = data.X.numpy().swapaxes(-1, -2), data.y.numpy()
        known = None if data.known_noise is None else data.known_noise.numpy()
        self._present = None
        if data.mask is not None:
            mask = data.mask.numpy()
            kept = np.argsort(-mask, axis=-1, kind="stable")[..., : int(mask.sum(-1).max())]
            mask, y, X = (np.take_along_axis(a, k, -1) for a, k in ((mask, kept), (y, kept), (X, kept[..., None, :])))
            known = None if known is None else np.take_along_axis(known, kept, -1)
            self._present = None if mask.all() else mask
        self._X = np.concatenate([X, np.ones_like(X[..., :1, :])], -2)
        self._y, self._known = np.ascontiguousarray(y), known
        self.size = self._y.shape[-1]

    def __call__(self, theta: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Values, gradients, and which starts (A,) lose too many digits here: their values mean nothing.

        A start whose covariance has no factor has the value +inf and a zero gradient.
        """
        value, gradient = np.empty(len(theta)), np.empty(theta.shape)
        far = np.zeros(len(theta), dtype=bool)
        step = max(1, _FEATURE_ENTRIES // self.size)
        with np.errstate(all="ignore"):
            for i in range(0, len(theta), step):
                part = slice(i, i + step)
                value[part], gradient[part], far[part] = self._evaluate(theta[part], rows[part])
        return value, gradient, far

    def _evaluate(self, theta: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray | bool]:
        values = Values(self._layout, theta)
        X, y, present, known = (self._of(rows, a) for a in (self._X, self._y, self._present, self._known))
        assert X is not None
        assert y is not None
        R, N = len(theta), self.size

        H, features_backward = self._forward(values, X)
        lengthscale = values["kernel.lengthscale"][:, :, None] if "kernel.lengthscale" in values else None
        Z = H if lengthscale is None else H / lengthscale
        variance = values["kernel.variance"] if "kernel.variance" in values else None
        noise = values["noise.scale"][:, None] ** 2 if "noise.scale" in values else np.zeros((R, 1))
        noise += self._model.noise.floor**2
        noise = noise if known is None else noise + known
        residual = np.empty((R, N))
        np.subtract(y, values["mean.constant"][:, None] if "mean.constant" in values else 0.0, out=residual)
        top = noise + (1.0 if variance is None else variance[:, None])
        if present is not None:
            residual *= present
            top = np.where(present > 0, top, 1.0)

        absent = None if present is None else present == 0
        pairs = Pairs(np.broadcast_to(Z, (R, *Z.shape[-2:])), None if variance is None else np.log(variance), absent, self._profile)
        dZ = np.empty(pairs.Z.shape) if lengthscale is not None or features_backward is not None else None
        evidence = Evidence(residual)
        self._all_pairs(pairs, evidence, np.broadcast_to(top, (R, N)), dZ)

        slopes = evidence.slopes if present is None else evidence.slopes * present
        count = N if present is None else present.sum(-1)
        d_noise = 0.5 * slopes.sum(-1)
        if "noise.scale" in values:
            values.of("noise.scale")[...] = 2.0 * values["noise.scale"] * d_noise
        if variance is not None:
            # The sum of dNLML/dK o K, from that of dNLML/dK o A = ½ (N − rᵀ alpha).
            whole = 0.5 * (count - np.einsum("rn,rn->r", residual, evidence.alpha))
            on_diagonal = d_noise * noise[:, 0] if known is None else 0.5 * (slopes * noise).sum(-1)
            values.of("kernel.variance")[...] = (whole - on_diagonal) / variance
        if "mean.constant" in values:
            values.of("mean.constant")[...] = -evidence.alpha.sum(-1)
        if dZ is not None:
            if lengthscale is not None:
                per_feature = -np.einsum("rqn,rqn->rq", dZ, pairs.Z)
                if lengthscale.shape[1] == 1:
                    per_feature = per_feature.sum(-1, keepdims=True)
                values.of("kernel.lengthscale")[...] = per_feature / lengthscale[:, :, 0]
            if features_backward is not None:
                features_backward(dZ if lengthscale is None else np.divide(dZ, lengthscale, out=dZ))
        value, gradient = evidence.nlml(count), values.theta_gradient()
        if self._prior is not None:
            prior, slope = self._prior(theta)
            value += prior
            gradient += slope
        if evidence.failed.any():
            gradient[evidence.failed] = 0.0
        return value, gradient, False if pairs.far is None else pairs.far

    def _all_pairs(self, pairs: Pairs, evidence: Evidence, top: np.ndarray, dZ: np.ndarray | None) -> None:
        """The N x N part: covariances with the diagonals ``top``, factors, inverses and dZ, a lot of members at a time."""
        workspace = self._workspace()
        for first in range(0, len(top), workspace.lot):
            lot = slice(first, min(first + workspace.lot, len(top)))
            count = lot.stop - first
            pairs.fill(workspace, lot)
            diagonal = workspace.diagonal[:count]
            diagonal[...] = top[lot]
            evidence.differentiate(workspace.A[:count], diagonal, first)
            if dZ is not None:
                pairs.pull(workspace, lot, dZ[lot])

    def _workspace(self) -> Workspace:
        if not hasattr(self._local, "workspace"):
            self._local.workspace = Workspace(self.size)
        return self._local.workspace

    def _of(self, rows: np.ndarray, array: np.ndarray | None) -> np.ndarray | None:
        return array[rows] if self._batched and array is not None else array
