"""Names of inputs and targets, and the choice of one of them by name or number."""

from __future__ import annotations

import operator
from contextlib import suppress
from typing import Any

from sklearn.utils.validation import check_is_fitted

from manifoldgp.errors import InputError


def require_fitted(model: Any) -> None:
    """Refuse what is not a fitted estimator of this package."""
    check_is_fitted(model)
    if not hasattr(model, "ensembles_"):
        raise InputError(
            f"Expected a fitted ManifoldGPRegressor or GPRegressor; got a {type(model).__name__}. Of a pipeline give the last step, "
            "pipeline[-1], and transformed inputs, X=pipeline[:-1].transform(X)."
        )


def input_names(model: Any) -> list[str]:
    """The columns that the model was fitted on, by name; x0, x1, ... where it saw no names, x for a single one."""
    require_fitted(model)
    named = getattr(model, "feature_names_in_", None)
    if named is not None:
        return [str(name) for name in named]
    D = model.n_features_in_
    return ["x"] if D == 1 else [f"x{d}" for d in range(D)]


def target_name(model: Any, output: int) -> str:
    """y, or y0, y1, ... of several targets."""
    return "y" if model.n_outputs_ == 1 else f"y{output}"


def input_index(model: Any, column: str | int) -> int:
    """The number of an input that is given by its name or its number."""
    names = input_names(model)
    if isinstance(column, str):
        if column in names:
            return names.index(column)
    else:
        with suppress(TypeError):
            if -len(names) <= operator.index(column) < len(names):
                return operator.index(column) % len(names)
    raise InputError(f"There is no input {column!r}. Choose a number below {len(names)}, or a name: {', '.join(names)}.")


def output_index(model: Any, output: int) -> int:
    """The number of a target, checked."""
    require_fitted(model)
    with suppress(TypeError):
        if 0 <= operator.index(output) < model.n_outputs_:
            return operator.index(output)
    raise InputError(f"output must be the number of a target, 0 to {model.n_outputs_ - 1}; got {output!r}.")
