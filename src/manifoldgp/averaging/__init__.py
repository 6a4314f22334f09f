"""Many mappings instead of one: mixtures of members, weighted by what they predict on held-out rows."""

from __future__ import annotations

from manifoldgp.averaging.averages import Averaging
from manifoldgp.averaging.fast import Fast
from manifoldgp.averaging.nuts import NUTS
from manifoldgp.averaging.restarts import Restarts
from manifoldgp.averaging.single import Single
from manifoldgp.averaging.stack import Stack
from manifoldgp.errors import InputError

AVERAGINGS: dict[str, type[Averaging]] = {cls.shorthand(): cls for cls in (Stack, Fast, Restarts, NUTS, Single)}
"""The averages by their shorthands."""

__all__ = ["AVERAGINGS", "NUTS", "Averaging", "Fast", "Restarts", "Single", "Stack", "as_averaging"]


def as_averaging(given: object) -> Averaging:
    """An average from its object or its shorthand.

    >>> as_averaging("stack"), as_averaging(Fast(hidden=4))
    (Stack(), Fast(hidden=4))
    """
    if isinstance(given, Averaging):
        return given
    if isinstance(given, str) and given in AVERAGINGS:
        return AVERAGINGS[given]()
    names = ", ".join(map(repr, AVERAGINGS))
    raise InputError(f"Unknown averaging {given!r}; choose one of {names}, or give an object such as Stack(warm_members=12).")
