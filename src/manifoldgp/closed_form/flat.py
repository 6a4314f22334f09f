"""Flat theta to natural values and back: the transforms of the parameters and their priors, with derivatives."""

from __future__ import annotations

import numpy as np

from manifoldgp.parameters import LARGEST_LOG, Layout


class Values:
    """Natural values of flat theta (R, P), and the place where their gradient is collected; both by name, as views.

    The unconstrained parameters come first in theta; the others are exp(theta), clamped as in :meth:`Layout.unflatten`.
    """

    def __init__(self, layout: Layout, theta: np.ndarray) -> None:
        self._layout, self._theta = layout, theta
        self._logs = layout.free_size
        self.natural = np.array(theta, dtype=float)
        logs = self.natural[:, self._logs :]
        np.exp(logs.clip(-LARGEST_LOG, LARGEST_LOG), out=logs)
        self.gradient = np.zeros_like(self.natural)

    def __contains__(self, name: str) -> bool:
        return name in self._layout.slices

    def __getitem__(self, name: str) -> np.ndarray:
        """The value (R, *shape)."""
        return self._view(self.natural, self._layout.slices[name], self._layout.parameters[name].shape)

    def of(self, name: str) -> np.ndarray:
        """Its gradient (R, *shape), to be written to."""
        return self._view(self.gradient, self._layout.slices[name], self._layout.parameters[name].shape)

    def joined(self, weight: str, bias: str) -> tuple[np.ndarray, np.ndarray]:
        """[W; b] (R, fan_in + 1, fan_out) of a layer whose bias follows its weights in theta, and its gradient."""
        first, last = self._layout.slices[weight], self._layout.slices[bias]
        where, shape = slice(first.start, last.stop), (-1, self._layout.parameters[weight].shape[1])
        return self._view(self.natural, where, shape), self._view(self.gradient, where, shape)

    def theta_gradient(self) -> np.ndarray:
        """The collected gradient with respect to theta (R, P): d/dlog v = v d/dv, and zero where the logarithm is clamped."""
        logs = self._theta[:, self._logs :]
        self.gradient[:, self._logs :] *= np.where(np.abs(logs) <= LARGEST_LOG, self.natural[:, self._logs :], 0.0)
        return self.gradient

    def _view(self, flat: np.ndarray, where: slice, shape: tuple[int, ...]) -> np.ndarray:
        return flat[:, where].reshape(len(flat), *shape)


class LogPrior:
    """−log p(theta) and its gradient: :meth:`Layout.negative_log_prior` in NumPy."""

    def __init__(self, layout: Layout) -> None:
        assert layout.prior_terms is not None
        terms = {name: term.cpu().numpy() for name, term in layout.prior_terms.items()}
        self._t, self._constant = terms, float(terms["constant"])
        self._natural, self._student = np.flatnonzero(terms["natural"]), bool(terms["student"].any())

    def __call__(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Values (R,) and gradients (R, P) at theta (R, P)."""
        t, coordinate = self._t, theta
        if len(self._natural):
            coordinate = theta.copy()
            coordinate[:, self._natural] = np.exp(theta[:, self._natural])
        z = (coordinate - t["centre"]) * t["inverse_scale"]
        terms, slope = t["normal"] * z * z, 2.0 * t["normal"] * z
        if self._student:
            u = z * t["inverse_df"]
            terms += t["student"] * np.log1p(u * z)
            slope += 2.0 * t["student"] * u / (1.0 + u * z)
        slope *= t["inverse_scale"]
        if len(self._natural):
            slope[:, self._natural] *= coordinate[:, self._natural]
        return terms.sum(-1) + self._constant, slope
