"""Flat parameter vectors as named NumPy arrays, with room for their gradients; and the prior of a flat vector.

What closed forms work with: they write gradients in place, where autograd would make new tensors.
"""

from __future__ import annotations

import numpy as np

from manifoldgp.parameters import LARGEST_LOG, GroupTerm, Layout


class Values:
    """Natural values of flat theta for R members, and the place where their gradient is collected; both by name, as views.

    The unconstrained parameters come first in theta; the others are exp(theta), clamped as in :meth:`Layout.unflatten`.
    """

    def __init__(self, layout: Layout, R: int) -> None:
        self._layout = layout
        self.natural, self.gradient = np.empty((R, layout.size)), np.zeros((R, layout.size))
        self._logs, self._d_logs = self.natural[:, layout.free_size :], self.gradient[:, layout.free_size :]
        self._clamped: np.ndarray | None = None

    def load(self, theta: np.ndarray) -> None:
        """Take the natural values of theta (R, P)."""
        self.natural[...] = theta
        logs = self._logs
        if logs.size:
            self._clamped = None
            if np.abs(logs).max() > LARGEST_LOG:
                self._clamped = np.abs(logs) > LARGEST_LOG
                np.clip(logs, -LARGEST_LOG, LARGEST_LOG, out=logs)
            np.exp(logs, out=logs)

    def theta_gradient(self) -> np.ndarray:
        """The collected gradient with respect to theta (R, P): d/dlog v = v d/dv, and zero where the logarithm is clamped."""
        self._d_logs *= self._logs
        if self._clamped is not None:
            self._d_logs[self._clamped] = 0.0
        return self.gradient

    def find(self, name: str) -> tuple[np.ndarray, np.ndarray] | None:
        """The value (R, *shape) and its gradient, to be written to; None for a name that is not trained."""
        if name not in self._layout.slices:
            return None
        return self._views(self._layout.slices[name], self._layout.parameters[name].shape)

    def __getitem__(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        return self._views(self._layout.slices[name], self._layout.parameters[name].shape)

    def joined(self, weight: str, bias: str) -> tuple[np.ndarray, np.ndarray]:
        """[W; b] (R, fan_in + 1, fan_out) of a layer whose bias follows its weights in theta, and its gradient."""
        first, last = self._layout.slices[weight], self._layout.slices[bias]
        return self._views(slice(first.start, last.stop), (-1, self._layout.parameters[weight].shape[1]))

    def _views(self, where: slice, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
        R = len(self.natural)
        return self.natural[:, where].reshape(R, *shape), self.gradient[:, where].reshape(R, *shape)


class LogPrior:
    """−log p(theta) and its gradient: :meth:`Layout.negative_log_prior` in NumPy."""

    def __init__(self, layout: Layout) -> None:
        assert layout.prior_terms is not None
        terms = {name: term.cpu().numpy() for name, term in layout.prior_terms.items()}
        self._t, self._constant = terms, float(terms["constant"])
        self._natural, self._student = np.flatnonzero(terms["natural"]), bool(terms["student"].any())
        self._groups = layout.group_terms

    def __call__(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Values (R,) and gradients (R, P) at theta (R, P)."""
        t, coordinate = self._t, theta
        if len(self._natural):
            coordinate = theta.copy()
            coordinate[:, self._natural] = np.exp(theta[:, self._natural])
        z = (coordinate - t["centre"]) * t["inverse_scale"]
        half_slope = t["normal"] * z
        terms = half_slope * z
        if self._student:
            u = z * t["inverse_df"]
            tail = u * z
            terms += t["student"] * np.log1p(tail)
            tail += 1.0
            half_slope += t["student"] * u / tail
        slope = np.multiply(half_slope, 2.0 * t["inverse_scale"], out=half_slope)
        if len(self._natural):
            slope[:, self._natural] *= coordinate[:, self._natural]
        value = terms.sum(-1) + self._constant
        for term in self._groups:
            value += _add_groups(term, theta, slope)
        return value, slope


def _add_groups(term: GroupTerm, theta: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """−log p (R,) of groups in theta (R, P), as :class:`GroupTerm` has it; its gradient is added to ``slope``."""
    w, rounding, width = theta[:, term.index], term.prior.rounding, term.prior.width
    root = np.sqrt(np.vecdot(w, w) + rounding**2)
    size = root - rounding
    slope[:, term.index] += (term.power / ((width + size) * root))[..., None] * w
    return term.power * np.log1p(size / width).sum(-1) + term.constant
