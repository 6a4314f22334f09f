"""Linear features found without targets, the baselines of the paper: PCA and random embeddings."""

from __future__ import annotations

import operator
from dataclasses import dataclass

import torch
from torch import Tensor

from manifoldgp.errors import InputError
from manifoldgp.features.feature_map import Features, positive_integer
from manifoldgp.features.layers import affine
from manifoldgp.features.projections import constants
from manifoldgp.parameters import Tree
from manifoldgp.predictor.rows import Rows
from manifoldgp.registry import register


@register("features.PCA")
@dataclass(frozen=True)
class PCA(Features):
    """The first q principal components, H = (X - mean) V, found on the training inputs and not trained.

    The sign of a component is chosen so that its largest loading is positive. Constants: "matrix" (D, q), "offset" (q,).

    Parameters
    ----------
    q
        Number of components, at most min(N, D).
    whiten
        Divide each component by its standard deviation (default), as the initial laws of networks expect of their inputs.
    """

    q: int
    whiten: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "q", positive_integer(self.q, "The number of components q of PCA"))

    def parameters(self, X: Tensor) -> Tree:
        N, D = X.shape
        if self.q > min(N, D):
            raise InputError(
                f"PCA(q={self.q}) needs at least {self.q} rows and columns; the inputs have {N} rows and {D} columns."
            )
        mean = X.mean(0)
        _, s, Vt = torch.linalg.svd(X - mean, full_matrices=False)
        V = Vt[: self.q].T
        largest = V.gather(0, V.abs().argmax(0, keepdim=True))
        V = V * torch.where(largest < 0, -1.0, 1.0)
        if self.whiten:
            rank = int((s > s[0] * max(N, D) * torch.finfo(s.dtype).eps).sum())
            if self.q > rank:
                raise InputError(
                    f"PCA(q={self.q}) cannot whiten: the inputs vary in {rank} directions only. Lower q, or set whiten=False."
                )
            V = V * ((N - 1) ** 0.5 / s[: self.q])
        return constants(matrix=V, offset=-mean @ V)

    def __call__(self, values: Tree, X: Tensor) -> Tensor:
        return affine(X, values["matrix"], values["offset"])

    def _program(self, values: Tree, X: Rows) -> Rows:
        return X.times(values["matrix"]).shifted(values["offset"])


@register("features.RandomEmbedding")
@dataclass(frozen=True)
class RandomEmbedding(Features):
    """H = X A with A_ij ~ N(0, 1), drawn once and not trained: the paper's random embedding.

    Parameters
    ----------
    q
        Number of features.
    seed
        Seed of the draw. All restarts share the embedding; another seed is another embedding.
    """

    q: int
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "q", positive_integer(self.q, "The number of features q of RandomEmbedding"))
        try:
            object.__setattr__(self, "seed", operator.index(self.seed))
        except TypeError:
            raise InputError(f"The seed of RandomEmbedding must be an integer, got {self.seed!r}.") from None

    def parameters(self, X: Tensor) -> Tree:
        generator = torch.Generator().manual_seed(self.seed)
        A = torch.randn((X.shape[-1], self.q), generator=generator, dtype=torch.float64)
        return constants(matrix=A.to(X.device))

    def __call__(self, values: Tree, X: Tensor) -> Tensor:
        return affine(X, values["matrix"])

    def _program(self, values: Tree, X: Rows) -> Rows:
        return X.times(values["matrix"])
