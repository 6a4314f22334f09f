"""Which frequencies a function on the square has along x1: the spectra of the paper's Figure 3."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

SIDE, POINTS = 10.0, 50
_LENGTH = 512


def horizontal_spectrum(fields: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Frequencies (cycles per unit of x1) and the share of power at each, over all horizontal slices and all fields together.

    fields: (P, 50, 50), P functions on the test grid, index 1 along x1. Slices are taken off their mean and seen through a Hann window.

    >>> x1 = np.linspace(0, SIDE, POINTS)[:, None] + np.zeros(POINTS)
    >>> frequency, power = horizontal_spectrum(np.sin(2 * np.pi * 0.8 * x1)[None])
    >>> bool(abs(frequency[power.argmax()] - 0.8) < 0.05)
    True
    """
    window = np.hanning(POINTS + 2)[1:-1][:, None]
    centred = fields - (window * fields).sum(1, keepdims=True) / window.sum()
    # Longer than the slices: zeros behind them give a finer grid of frequencies.
    power = (np.abs(np.fft.rfft(window * centred, n=_LENGTH, axis=1)) ** 2).sum((0, 2))
    frequency = np.asarray(np.fft.rfftfreq(_LENGTH, SIDE / (POINTS - 1)), dtype=np.float64)
    return frequency, power / power.sum()


def bandwidth(frequency: NDArray[np.float64], power: NDArray[np.float64], share: float = 0.95) -> float:
    """The frequency below which this share of the power lies."""
    return float(np.interp(share, np.cumsum(power), frequency))


def principal_features(scaled: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scaled features (n, Q) turned to their principal axes (n, Q), the widest first: the kernel sees the same distances."""
    centred = scaled - scaled.mean(0)
    _, _, Vt = np.linalg.svd(centred, full_matrices=False)
    turned = centred @ Vt.T
    # A sign for each axis, so that pictures do not depend on the solver's choice: the heavier tail points up.
    return turned * np.where((turned**3).sum(0) < 0, -1.0, 1.0)


def as_fields(columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Columns (2500, P) over the test grid as P fields (P, 50, 50)."""
    return np.ascontiguousarray(columns.T).reshape(-1, POINTS, POINTS)
