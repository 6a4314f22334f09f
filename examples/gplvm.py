"""A GP-LVM of handwritten digits: the mGP with free latent rows for features. Draws the picture of docs/guide/gplvm.md.

    python examples/gplvm.py [--out docs/images] [--rows 150] [--quick]

No labels are used to learn. Afterwards they say how well two dimensions keep the digits apart: the share of images whose nearest neighbour in the plane is the same digit.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import LeaveOneOut, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from torch import Tensor, nn

from manifoldgp import MLP, ManifoldGPRegressor, Normal, Single
from manifoldgp.errors import FitWarning
from manifoldgp.features import Module
from manifoldgp.plots import new_figure, styled

Array = NDArray[np.float64]

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8c5a2b", "#56b4e9", "#e69f00", "#6a5acd", "#4a5159", "#b8a400")
"""Of the digits 0 to 9; the picture writes the digits themselves, so that colours only help."""


class FreeRows(nn.Module):
    """H_i = latent_i, a free point of the plane for each row: the one input is the row's number."""

    def __init__(self, start: Array) -> None:
        super().__init__()
        self.latent = nn.Parameter(torch.tensor(start))

    def forward(self, X: Tensor) -> Tensor:
        return self.latent[X[:, 0].long()]


def images(rows: int, least_spread: float = 1.0) -> tuple[Array, NDArray[np.int64]]:
    """Pixels (rows, O) of the digits that vary at all, and which digits they are."""
    pixels, digit = load_digits(return_X_y=True)
    chosen = np.random.default_rng(0).permutation(len(pixels))[:rows]
    Y = pixels[chosen]
    return Y[:, Y.std(0) > least_spread], digit[chosen]


def single(given: argparse.Namespace) -> Single:
    """One start, from PCA, and one M for all pixels."""
    return Single(restarts=1, max_iter=given.iterations, shared_features=True)


def gplvm(Y: Array, start: Array, given: argparse.Namespace) -> ManifoldGPRegressor:
    """Lawrence (2005): a latent point a row, N(0, 1) a priori, found with the kernels by MAP; every pixel a GP on the plane."""
    model = ManifoldGPRegressor(
        Module(FreeRows(start)), averaging=single(given), priors={"features.*": Normal(0, 1)}, standardize="y", random_state=0
    )
    return model.fit(np.arange(len(Y), dtype=float)[:, None], Y)


def constrained(Y: Array, given: argparse.Namespace) -> ManifoldGPRegressor:
    """Lawrence and Quiñonero-Candela (2006), back constraints: the latent points are a network of the image, so that new images have one too. This is the mGP from Y to Y."""
    return ManifoldGPRegressor(MLP((10, 2)), averaging=single(given), random_state=0).fit(Y, Y)


def neighbours_agree(H: Array, digit: NDArray[np.int64]) -> float:
    """The share of rows whose nearest neighbour is the same digit, rows in units of their spread."""
    return float(np.mean(cross_val_score(KNeighborsClassifier(1), H / H.std(0), digit, cv=LeaveOneOut())))


def draw(planes: dict[str, tuple[Array, float]], digit: NDArray[np.int64]) -> Figure:
    """The planes side by side, each image written as its digit."""
    with styled():
        figure, axes = new_figure(1, len(planes), size=(3.6 * len(planes), 3.7))
        for ax, (name, (H, agree)) in zip(axes, planes.items(), strict=True):
            for d in range(10):
                for x, y in H[digit == d]:
                    ax.text(x, y, str(d), color=COLORS[d], fontsize=7.5, ha="center", va="center")
            low, high = H.min(0), H.max(0)
            margin = 0.05 * (high - low)
            ax.set(title=f"{name}: {100 * agree:.0f} %", xlim=(low[0] - margin[0], high[0] + margin[0]), xticks=[], yticks=[])
            ax.set_ylim(low[1] - margin[1], high[1] + margin[1])
    return figure


def main(arguments: list[str] | None = None) -> dict[str, float]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("docs/images"))
    parser.add_argument("--rows", type=int, default=150)
    parser.add_argument("--iterations", type=int, default=150)
    parser.add_argument("--quick", action="store_true", help="30 rows and few iterations, to see that it runs")
    given = parser.parse_args(arguments)
    if given.quick:
        given.rows, given.iterations = 30, 3
    Y, digit = images(given.rows)
    start = PCA(2, whiten=True).fit_transform(Y)
    begin = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)  # fits that end at their limit of iterations
        free = gplvm(Y, start, given)
        back = constrained(Y, given)
    found = {
        "PCA": start,
        "GP-LVM": free.transform(np.arange(len(Y), dtype=float)[:, None]),
        "back-constrained": back.transform(Y),
    }
    planes = {name: (H, neighbours_agree(H, digit)) for name, H in found.items()}
    print(f"{len(Y)} images, {Y.shape[1]} pixels; nearest neighbour in the plane is the same digit:")
    for name, (_, agree) in planes.items():
        print(f"  {name:18} {100 * agree:5.1f} %")
    print(f"  {'all pixels':18} {100 * neighbours_agree(Y, digit):5.1f} %")
    print(f"{time.process_time() - begin:.0f} s of processor time")
    given.out.mkdir(parents=True, exist_ok=True)
    draw(planes, digit).savefig(given.out / "gplvm-digits.png", dpi=110)
    return {name: agree for name, (_, agree) in planes.items()}


if __name__ == "__main__":
    main()
