"""The one decision between the exact and the sparse method, and what a method and an average obey together.

An argument that the combination cannot obey is refused; one that only a part of the fit obeys is warned about.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from manifoldgp._system.plain_text import verb
from manifoldgp.averaging import Averaging, Fast, Stack
from manifoldgp.data.sources import ArrayRows, RowSource, Survey, survey
from manifoldgp.errors import InputError, warn
from manifoldgp.features import Features
from manifoldgp.kernels.stationary import Stationary
from manifoldgp.means import as_mean
from manifoldgp.model import Model
from manifoldgp.structure.search import Search
from manifoldgp.training.plan import seconds_to_factor
from manifoldgp.training.processes import Ranks, slots_of
from manifoldgp.training.settings import Exact, Local, Method, Sparse

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from manifoldgp.data.inputs import Table
    from manifoldgp.estimators.manifold_gp import ManifoldGPRegressor


SHORT_FROM = 1500
"""Rows below which the exact method is never too slow for a time budget."""


def chosen_method(method: Method | None, N: int, averaging: Averaging, outputs: int = 2, seconds: float | None = None) -> Method:
    """The method of a fit to N rows, in so many seconds if there is a limit.

    "auto" (None) is exact up to the average's ``exact_up_to``, local up to its ``local_up_to``, and sparse beyond and where the others would take longer, unless these
    alone can do what is asked for.

    >>> from manifoldgp import Fast, Stack
    >>> [chosen_method(None, N, Stack()) for N in (3000, 3001, 1_000_001)], chosen_method(None, 100_001, Fast())
    ([Exact(), Local(), Sparse()], Exact())
    """
    because = why_exact(averaging, outputs)
    if isinstance(method, Sparse) and because is not None:
        raise InputError(because)
    not_local = averaging.why_not_local()
    if not_local is not None and (isinstance(method, Local) or (method is None and averaging.exact_up_to < N)):
        rest = (
            "Leave it out"
            if method is not None
            else f"Leave it out, fit at most {averaging.exact_up_to:,} rows, or say method='exact'"
        )
        raise InputError(f"{not_local} {rest}.")
    if method is not None:
        return method
    direct = Local() if averaging.exact_up_to < N and averaging.local_up_to else Exact()
    few = max(averaging.exact_up_to, averaging.local_up_to) >= N
    return direct if because is not None or (few and not _too_long(N, direct, averaging, outputs, seconds)) else Sparse()


def _too_long(N: int, method: Method, averaging: Averaging, outputs: int, seconds: float | None) -> bool:
    """Whether so many seconds are too short for exact members of all targets; local ones learn from samples, and are conditioned where they predict."""
    if seconds is None or N < SHORT_FROM or isinstance(method, Local):
        return False
    return outputs * averaging.exact_factors * seconds_to_factor(N) > seconds


def tell_method(
    asked: Method | None, taken: Method, N: int, averaging: Averaging, outputs: int, seconds: float | None = None
) -> None:
    """A warning says where "auto" (None) is sparse because of the number of rows or for want of time, and where it is exact with many rows."""
    most = max(averaging.exact_up_to, averaging.local_up_to)
    if asked is not None or isinstance(taken, Local) or (most >= N and isinstance(taken, Exact)):
        return
    other = "local" if averaging.local_up_to else "exact"
    if most >= N:
        words = (
            f"trains the sparse model: time_budget={seconds:g} is too short for the exact one. Say method='exact' to choose it."
        )
    elif isinstance(taken, Sparse):
        words = (
            f"trains the sparse model with up to {taken.most_inducing} inducing points (the {other} one up to {most:,} rows). "
            f"Say method='sparse' or method={other!r} to choose."
        )
    else:
        words = f"stays exact, which takes long with so many rows: {why_exact(averaging, outputs)}"
    warn(f"{N:,} rows: method='auto' {words}")


def row_source(
    X: Table | RowSource, y: ArrayLike | None, noise_std: ArrayLike | None, method: Method | None, averaging: Averaging
) -> RowSource | None:
    """X itself where it is a source of rows, memory-mapped arrays as one (unless the exact method takes them), else None."""
    if isinstance(X, RowSource):
        if y is not None or noise_std is not None:
            raise InputError("A source of rows brings its own targets and noise: fit(source), without y and noise_std.")
        return X
    if not isinstance(X, np.memmap) or not isinstance(y, np.ndarray):
        return None
    taken = chosen_method(method, len(X), averaging, y.shape[1] if y.ndim == 2 else 1)
    return ArrayRows(X, y, None if noise_std is None else np.asanyarray(noise_std)) if isinstance(taken, Sparse) else None


def surveyed(source: RowSource, ranks: Ranks) -> Survey:
    """The survey of all processes' rows; refuses too few, and says how many have no target."""
    slots, mine = slots_of(source.total, ranks)
    spans = [(source.total * slot // slots, source.total * (slot + 1) // slots) for slot in mine]
    parts = [survey(source, *span) for span in spans]
    sent = ranks.gather(
        [[part.rows, part.left_out] for part in parts], [array for part in parts for array in (part.mean, part.squares)]
    )
    everyone = []
    for counts, arrays in sent:
        for (rows, left_out), mean, squares in zip(counts, arrays[0::2], arrays[1::2], strict=True):
            everyone.append(Survey(rows, left_out, mean, squares))
    total = reduce(Survey.merged, everyone)
    if total.rows < 2:
        raise InputError(f"At least 2 rows with a target are needed; there {'is' if total.rows == 1 else 'are'} {total.rows}.")
    if total.left_out and ranks.first:
        has, is_out = verb(total.left_out, "has", "have"), verb(total.left_out, "is", "are")
        warn(f"{total.left_out:,} of {source.total:,} rows {has} a missing target (NaN) and {is_out} left out of the fit.")
    return total


def why_exact(averaging: Averaging, outputs: int = 2) -> str | None:
    """Why only the exact method can do what is asked for, in words; None where the sparse one can too. outputs: targets of the fit.

    >>> why_exact(Fast())
    "averaging='fast' needs method='exact'; sparse models average with 'stack', or not at all with 'single'."
    >>> why_exact(Stack(polish=16))
    "polish=16 needs method='exact': the members of a sparse stack go on from step to step on the same rows, and are weighed by held-out rows alone."
    >>> from manifoldgp import Single
    >>> why_exact(Single(restarts=3)) is None
    True
    """
    kind = type(averaging)
    if averaging.sparse_obeys is None:
        return f"averaging={kind.shorthand()!r} needs method='exact'; sparse models average with 'stack', or not at all with 'single'."
    one_target = ("shared_features",) if outputs == 1 else ()  # all of one target's features are shared
    unobeyed = {n: value for n, value in averaging.changed().items() if n not in (*averaging.sparse_obeys, *one_target)}
    return f"{_listed(unobeyed)} needs method='exact': {averaging.sparse_words}" if unobeyed else None


def refuse_unobeyed(estimator: ManifoldGPRegressor, averaging: Averaging, method: Method | None) -> None:
    """Refuse arguments that no part of the fit would obey, whatever the data."""
    if isinstance(method, Local) and not averaging.local_up_to:
        raise InputError(
            f"method='local' is for averages whose members learn from some of the rows: averaging='stack'. averaging={averaging.shorthand()!r} needs method='exact' or 'sparse'."
        )
    if isinstance(averaging, Search) and averaging.on_features is None:
        raise InputError(
            f"averaging={averaging!r} says how a stack searches: averaging=Stack(search={averaging!r}). KernelSearch(...) is the estimator that searches and nothing else."
        )
    if isinstance(averaging, (Stack, Fast)) and as_mean(estimator.mean).on == "features":
        raise InputError(
            f"mean={estimator.mean!r} is a function of the features, and averaging={averaging.shorthand()!r} has members with other features than "
            "yours (the plain GP has none). Use a mean on the inputs, such as mean='linear' or Module(module, on='inputs'); or "
            "averaging='single', 'restarts' or 'nuts'."
        )
    if isinstance(averaging, Fast):
        for name, its in (("features", "the plain GP and small networks"), ("priors", "the priors of its own networks")):
            if getattr(estimator, name) is not None:
                raise InputError(
                    f"averaging='fast' has {its} only, and would pass over {name}={getattr(estimator, name)!r}. "
                    f"Leave out {name}, or use averaging='stack', 'restarts' or 'single'."
                )


def has_penalty(model: Model) -> bool:
    """Whether the features add something to the evidence."""
    return type(model.features).penalty is not Features.penalty


def refuse_sparse_penalty(model: Model, method: Method) -> None:
    """Refuse features that add something to the evidence where a sparse bound takes its place."""
    if isinstance(method, Sparse) and has_penalty(model):
        raise InputError(
            f"{model.features!r} needs method='exact': the sparse bound has no place for what these features add to the evidence. "
            "Fit fewer rows, or use the network alone or pretrained()."
        )


def partly_obeyed(model: Model, averaging: Averaging, method: Method, inputs: int) -> list[str]:
    """What only some groups of an average obey, in words; inputs: of the model."""
    kernel, name = model.kernel, type(model.kernel).__name__
    groups = averaging.models(model, inputs, method)
    without_priors = [group for group, its in groups.items() if not model.priors.items() <= its.priors.items()]
    other_kernel = [group for group, its in groups.items() if type(its.kernel) is not type(kernel)]
    other_dims = [group for group, its in groups.items() if its.kernel.dims != kernel.dims]
    words = []
    if without_priors:
        words.append(
            f"priors apply to the members of your own features (group 'own') only, not to the groups {_quoted(without_priors)}. "
            "averaging='single', 'restarts' and 'nuts' use them throughout."
        )
    if other_kernel and not isinstance(kernel, Stationary):  # beside a stationary one there are others because they are tried
        words.append(
            f"kernel={name} has no length-scales that the networks of the groups {_quoted(other_kernel)} could take over: they use SquaredExponential "
            "instead. averaging='single', 'restarts' and 'nuts' use it throughout."
        )
    if other_dims:
        words.append(
            f"dims={kernel.dims!r} of kernel={name} choose among your own features; the groups {_quoted(other_dims)} have others, and use all of theirs."
        )
    return words


def unheeded_folds(estimator: ManifoldGPRegressor, averaging: Averaging, groups: ArrayLike | None, ordered: bool) -> list[str]:
    """A warning, in words, where groups or ordered are given to a fit that holds out no rows; both together are refused.

    A warning and no error: the model is what it would have been, and the same call goes through all averages.
    """
    if groups is not None and ordered:
        raise InputError("groups and ordered are two ways to hold rows out. Choose one.")
    chosen_by_them = hasattr(estimator, "kernel_choice_")
    if isinstance(averaging, Stack) or chosen_by_them or not (ordered or groups is not None):
        return []
    if isinstance(averaging, Search):
        way, instead = f"criterion={averaging.criterion!r}", "criterion='held-out'"
    elif "averaging" in estimator.get_params(deep=False):
        way, instead = f"averaging={averaging.shorthand()!r}", "averaging='stack'"
    else:
        way, instead = "a plain GP", "kernel='auto'"
    if way == instead:
        return []
    given, which = ("ordered", "later rows") if ordered else ("groups", "rows of new groups")
    return [
        f"{given} of fit says which rows are held out together, and {way} holds out none: nothing tells how large errors on {which} are. {instead} does."
    ]


def _quoted(names: Sequence[str]) -> str:
    *others, last = map(repr, names)
    return f"{', '.join(others)} and {last}" if others else last


def _listed(named: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in named.items())
