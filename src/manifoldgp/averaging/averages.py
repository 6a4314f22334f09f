"""What every average offers: settings that a user writes, a plan, and trained, weighted members."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from manifoldgp.averaging.stacking import HeldOutReport
from manifoldgp.chance.differences import units_of
from manifoldgp.errors import InputError
from manifoldgp.inference.neighbourhoods import Nearness
from manifoldgp.model import Data, Model
from manifoldgp.training.model_rows import ModelRows
from manifoldgp.training.plan import Plan, slower_by_inputs
from manifoldgp.training.settings import Method, Options, Sparse
from manifoldgp.training.sparse_trainer import SparseTrainer
from manifoldgp.training.trained import Trained
from manifoldgp.training.trainer import Trainer

if TYPE_CHECKING:
    from arviz import InferenceData


@dataclass(frozen=True)
class FoldChoice:
    """How held-out folds are made: whole groups (labels (N,)), contiguous stretches, or (neither) random rows."""

    groups: np.ndarray | None = None
    ordered: bool = False

    def together(self, rows: np.ndarray) -> np.ndarray | None:
        """Numbers (n,) of the groups, or of short stretches of time, that these rows (n,) belong to; None where rows know nothing of each other."""
        if self.groups is None and not self.ordered:
            return None
        return units_of(len(rows), None if self.groups is None else np.asarray(self.groups)[rows], self.ordered)


RANDOM_ROWS = FoldChoice()
"""Rows that know nothing of each other."""


@dataclass(frozen=True)
class SamplingReport:
    """How well NUTS chains mixed: worst R-hat and smallest bulk ESS over all parameters, share of divergent draws; the draws themselves."""

    worst_rhat: float
    smallest_ess: float
    divergent: float
    draws: InferenceData


@dataclass(frozen=True)
class Following:
    """By which exponent of variances weights follow how sure members are, in which share of the mixture, and for each architecture the log variances (R,) at which members count as
    their weights say."""

    exponent: float
    share: float
    usual: list[np.ndarray]


@dataclass(frozen=True)
class Averaged:
    """Trained architectures, the weights (F, R) of the starts of each under each variance factor, and what held-out rows or chains said (if asked).

    nearness: how members are conditioned on many rows; None: exactly. following: how weights follow variances; None: not at all.
    """

    trained: list[Trained]
    weights: list[np.ndarray]
    variance_factors: tuple[float, ...] = (1.0,)
    report: HeldOutReport | None = None
    sampling: SamplingReport | None = None
    nearness: Nearness | None = None
    following: Following | None = None


@dataclass(frozen=True)
class Fitted:
    """What a fit of one target left: its rows of the table of starts, and what held-out rows said."""

    starts: np.ndarray
    report: HeldOutReport | None


SEARCH_EXPECTED = "search must be None, or say how a stack searches for kernels, such as Search(depth=3, beam=1); got {!r}."


class Averaging(Options, ABC):
    """A way from a model to weighted members: one file, with its settings as fields, and a line in :data:`manifoldgp.averaging.AVERAGINGS`."""

    in_words: str = ""
    """What the prediction is, in a sentence for the page of a model."""

    exact_up_to: ClassVar[int] = 5_000
    """Rows up to which method="auto" is exact. Beyond, one evaluation of the evidence of all rows takes seconds, and many are needed."""

    local_up_to: ClassVar[int] = 0
    """Rows up to which method="auto" is local beyond that; zero where an average cannot be."""

    exact_factors: ClassVar[float] = 15.0
    """Factors of all rows that a time budget has to hold for method="auto" to be exact."""

    sparse_obeys: tuple[str, ...] | None = None
    """The settings that the sparse method obeys; None where it cannot be used at all."""

    sparse_words: str = "its sparse members obey no other settings."
    """Why a setting needs the exact method, for whoever reads that it does."""

    def check_as_search(self) -> None:
        """Refuse to search kernels for a stack."""
        raise InputError(SEARCH_EXPECTED.format(self))

    def why_not_local(self) -> str | None:
        """Why members cannot predict from the rows near a point, in words; None where they can, or where nobody asks them to."""
        return None

    def models(self, template: Model, inputs: int, method: Method) -> dict[str, Model]:
        """What the members of its groups are made of, by the names of the groups; the user's own model unless an average has others."""
        return {"own": template}

    @abstractmethod
    def plan(self, N: int) -> Plan:
        """What training one target on N rows goes through."""

    def slower(self, N: int, inputs: int) -> float:
        """How many times longer than :meth:`plan` says training takes with so many inputs, about."""
        return slower_by_inputs(N, inputs)

    @abstractmethod
    def fit(self, model: Model, data: Data, trainer: Trainer, folds: FoldChoice) -> Averaged:
        """Members and weights of one target."""

    def share_of_earlier(self, earlier: Fitted, later: Fitted) -> float:
        """The weight of the members of an earlier fit where those of a later one, to the same rows, join them."""
        raise InputError(f"averaging={self.shorthand()!r} has no members that others could join. Fit it anew, for longer.")

    def plan_sparse(self, N: int, method: Sparse) -> Plan:
        """What training one target on N rows with inducing points goes through."""
        raise NotImplementedError(f"{self.shorthand()} has no sparse members.")

    def fit_sparse(self, model: Model, rows: ModelRows, trainer: SparseTrainer, folds: FoldChoice) -> Averaged:
        """Sparse members and weights of one target."""
        raise NotImplementedError(f"{self.shorthand()} has no sparse members.")


def number_of(value: Any) -> float:
    """The value as a number, NaN where it is none."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return float("nan")
