"""What an average and a method obey together: an argument that a combination cannot obey is refused, or, where a part of the fit obeys it, warned about."""

from __future__ import annotations

from typing import Any

from manifoldgp.averaging import Averaging, Fast, Single, Stack
from manifoldgp.errors import InputError
from manifoldgp.kernels.stationary import Stationary
from manifoldgp.means import as_mean
from manifoldgp.model import Model
from manifoldgp.training.settings import Exact, Sparse

_OF_SPARSE = {
    Single: "a sparse single model obeys restarts, max_iter and warm_start_from alone.",
    Stack: "the members of a sparse stack have sizes of their own; they obey restarts and max_iter of Sparse.",
}


def why_exact(averaging: Averaging, outputs: int = 2) -> str | None:
    """Why only the exact method can do what is asked for, in words; None where the sparse one can too. outputs: targets of the fit.

    >>> why_exact(Fast())
    "averaging='fast' needs method='exact'; sparse models average with 'stack', or not at all with 'single'."
    >>> why_exact(Stack(hidden=16))
    "hidden=16 needs method='exact': the members of a sparse stack have sizes of their own; they obey restarts and max_iter of Sparse."
    >>> why_exact(Single(restarts=3)) is None
    True
    """
    kind = type(averaging)
    if averaging.sparse_obeys is None:
        return f"averaging={kind.shorthand()!r} needs method='exact'; sparse models average with 'stack', or not at all with 'single'."
    one_target = ("shared_features",) if outputs == 1 else ()  # all of one target's features are shared
    unobeyed = {n: value for n, value in averaging.changed().items() if n not in (*averaging.sparse_obeys, *one_target)}
    return f"{_listed(unobeyed)} needs method='exact': {_OF_SPARSE[kind]}" if unobeyed else None


def refuse_unobeyed(estimator: Any, averaging: Averaging, method: Exact | Sparse | None) -> None:
    """Refuse arguments that no part of the fit would obey, whatever the data."""
    if isinstance(method, Sparse) and isinstance(averaging, Single):
        unobeyed = {name: value for name, value in method.changed().items() if name in ("restarts", "max_iter")}
        if unobeyed:
            raise InputError(
                f"{_listed(unobeyed)} of Sparse is for the members of a stack, and this is a single model: give it to Single "
                "(averaging=Single(...)) or to GPRegressor itself."
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


def partly_obeyed(model: Model, averaging: Averaging, method: Exact | Sparse) -> list[str]:
    """What only some members of an average obey, in words."""
    words = []
    others = "'plain GP', 'warm' and 'cold'" if isinstance(method, Exact) else "'plain GP' and 'nested'"
    if model.priors and isinstance(averaging, Stack):
        words.append(
            f"priors apply to the members of your own features (group 'own') only, not to the groups {others}. "
            "averaging='single', 'restarts' and 'nuts' use them throughout."
        )
    if isinstance(averaging, (Stack, Fast)) and isinstance(method, Exact):
        kernel = model.kernel
        name = type(kernel).__name__
        if not isinstance(kernel, Stationary):
            words.append(
                f"kernel={name} is not stationary: the groups 'warm' and 'cold' use SquaredExponential instead. "
                "averaging='single', 'restarts' and 'nuts' use it throughout."
            )
        elif kernel.dims is not None:
            words.append(f"dims={kernel.dims!r} of kernel={name} choose features, of which the groups 'warm' and 'cold' use all.")
    return words


def unheeded_folds(averaging: Averaging, groups: Any, ordered: bool) -> list[str]:
    """Says that groups and ordered choose held-out rows, where there are none."""
    given = [name for name, is_given in (("groups", groups is not None), ("ordered", ordered)) if is_given]
    if isinstance(averaging, Stack) or not given:
        return []
    return [f"{' and '.join(given)} of fit say which rows a stack holds out; averaging={averaging.shorthand()!r} holds out none."]


def _listed(named: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in named.items())
