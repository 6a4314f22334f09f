"""How rows are used, as arguments of the estimators: all at once, in neighbourhoods, or through inducing points.

:class:`Options` is what these and the averages (:mod:`manifoldgp.averaging`) have in common.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from manifoldgp.data.inputs import whole_number
from manifoldgp.errors import InputError
from manifoldgp.inference.neighbourhoods import MOST_NEAR, Nearness


class Options(BaseEstimator):
    """A way of fitting with exactly the arguments that it obeys. scikit-learn's contract: the constructor stores them, and fit checks them."""

    def check(self) -> None:
        """Refuse values that mean nothing."""

    def changed(self) -> dict[str, Any]:
        """The arguments that are not at their defaults.

        >>> Sparse(inducing=100).changed()
        {'inducing': 100}
        """
        defaults: dict[str, Any] = {field.name: field.default for field in fields(self)}  # type: ignore[arg-type]
        given = {name: getattr(self, name) for name in defaults}
        return {name: value for name, value in given.items() if not np.array_equal(value, defaults[name])}

    @classmethod
    def shorthand(cls) -> str:
        """The word that stands for this way with its defaults.

        >>> Sparse.shorthand()
        'sparse'
        """
        return cls.__name__.lower()


@dataclass(repr=False)
class Exact(Options):
    """The exact evidence: O(N³) for each evaluation, O(N²) memory. It has no arguments.

    Examples
    --------
    >>> from manifoldgp import GPRegressor
    >>> GPRegressor(method=Exact())
    GPRegressor(method=Exact())
    """


@dataclass(repr=False)
class Local(Options):
    """Neighbourhoods: a stack's members learn from some thousand rows, and predict a point from the rows near it in feature space, exactly. Any number of rows.

    Parameters
    ----------
    cell
        Rows of a cell; all points in it are predicted from the same rows.
    near
        How many these are: those of the cell, and the nearest others. More of them take more time, and tell less and less.

    Examples
    --------
    >>> from manifoldgp import ManifoldGPRegressor
    >>> ManifoldGPRegressor(method=Local(near=1500))
    ManifoldGPRegressor(method=Local(near=1500))
    """

    cell: int = Nearness.cell
    near: int = Nearness.near

    def check(self) -> None:
        whole_number(self.cell, "cell", least=2)
        if whole_number(self.near, "near", least=self.cell) > MOST_NEAR:
            raise InputError(
                f"near must be at most {MOST_NEAR:,} rows, whose factor fits into memory; got {self.near}. Use method='exact'."
            )

    @property
    def nearness(self) -> Nearness:
        """The same for posteriors, of any number of rows above ``near``."""
        return Nearness(self.near, self.cell, self.near)


@dataclass(repr=False)
class Sparse(Options):
    """A bound on the evidence through inducing points in feature space: O(N J²) for each evaluation, any number of rows.

    Parameters
    ----------
    inducing
        Inducing points J, at most. None: 512 for a single model; a stack begins with 200, and takes up to 512 where held-out rows want them.
    checkpoint
        A file in which training keeps where it stands. A fit that finds it goes on from there, with a warning, and refuses one of another fit;
        the file goes away when training ends.

    Examples
    --------
    >>> from manifoldgp import ManifoldGPRegressor
    >>> ManifoldGPRegressor(method=Sparse(inducing=256))
    ManifoldGPRegressor(method=Sparse(inducing=256))
    """

    inducing: int | None = None
    checkpoint: str | Path | None = None

    def check(self) -> None:
        if self.inducing is not None:
            whole_number(self.inducing, "inducing")
        if self.checkpoint is not None and not isinstance(self.checkpoint, (str, Path)):
            raise InputError(f"checkpoint must be the name of a file, or None; got {self.checkpoint!r}.")

    @property
    def most_inducing(self) -> int:
        """Inducing points of a model, at most."""
        return MOST_INDUCING if self.inducing is None else self.inducing


MOST_INDUCING = 512
"""Inducing points where nobody asked for a number of them: of a single model, and at most of a member of a stack."""

Method = Exact | Local | Sparse

METHODS: dict[str, type[Method]] = {cls.shorthand(): cls for cls in (Exact, Local, Sparse)}
"""The methods by their shorthands; beside them there is "auto"."""


def as_method(given: object) -> Method | None:
    """A method from its object or its shorthand; None for "auto": the rows decide.

    >>> as_method("sparse"), as_method(Sparse(inducing=100)), as_method("auto")
    (Sparse(), Sparse(inducing=100), None)
    """
    if isinstance(given, Method):
        return given
    if isinstance(given, str) and given in METHODS:
        return METHODS[given]()
    if isinstance(given, str) and given == "auto":
        return None
    raise InputError(
        f"method must be one of 'auto', {', '.join(map(repr, METHODS))}, or an object such as Sparse(inducing=256); got {given!r}."
    )
