"""The parts that files may name: features, kernels, means, noise, warpings, priors; ours and those of whoever uses the package.

    @register("mylab.Cauchy", shorthand="cauchy")
    @dataclass(frozen=True)
    class Cauchy(Kernel):
        ...

A model file holds this name and the fields of the dataclass, never code. Loading builds registered classes by their constructors, and nothing else.
"""

from __future__ import annotations

import dataclasses
from abc import ABC
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

from manifoldgp.errors import InputError

Part = TypeVar("Part", bound=type)


class _Entry(NamedTuple):
    part: type
    shorthand: str | None


NOT_IN_FILES = {"in_files": False}
"""Metadata of a field that a file leaves out: what a description learnt and a model keeps among its values."""

_ENTRIES: dict[str, _Entry] = {}
_RESERVED = ("model.", "averaging.", "method.")


def register(name: str, *, shorthand: str | None = None) -> Callable[[Part], Part]:
    """A class decorator: model files know the class by ``name``, and estimators by ``shorthand``, if it has one.

    The class is a frozen dataclass, so write this above ``@dataclass(frozen=True)``.

    Parameters
    ----------
    name
        The same wherever the class is used; put your project's name in front ("mylab.Cauchy").
    shorthand
        Estimators take it in place of an instance with all defaults, as in ``kernel="cauchy"``.
    """
    if not (isinstance(name, str) and name.strip()):
        raise InputError(f"register expects a name for files, such as @register('mylab.Cauchy'); got {name!r}.")
    if shorthand is not None and not (isinstance(shorthand, str) and shorthand.strip()):
        raise InputError(f"A shorthand is a word, such as shorthand='cauchy'; got {shorthand!r}.")
    if name.startswith(_RESERVED):
        raise InputError(
            f"Names that begin with {', '.join(_RESERVED)} are taken by files themselves. Put your project's name in front; got {name!r}."
        )

    def keep(part: Part) -> Part:
        _refuse_what_no_file_can_hold(part)
        taken = _ENTRIES.get(name)
        if taken is not None and not _same_definition(taken.part, part):
            raise InputError(f"The name {name!r} belongs to {_place(taken.part)} already. Give {_place(part)} another one.")
        other = shorthands(_family(part)).get(shorthand or "")
        if other is not None and not _same_definition(other, part):
            raise InputError(f"The shorthand {shorthand!r} belongs to {_place(other)} already. Give {_place(part)} another one.")
        _ENTRIES[name] = _Entry(part, shorthand)
        return part

    return keep


def name_of(part: type) -> str | None:
    """The name by which files know a class; None for one that is not registered."""
    return next((name for name, entry in _ENTRIES.items() if entry.part is part), None)


def defined_again(part: type) -> bool:
    """Whether a class was registered and another one of the same definition has taken its place since, as when a notebook's cell runs twice."""
    return name_of(part) is None and any(_same_definition(entry.part, part) for entry in _ENTRIES.values())


def part_named(name: str) -> type | None:
    """The class that files know by this name; None if nobody registered one."""
    return _ENTRIES[name].part if name in _ENTRIES else None


def registered(family: type = object) -> dict[str, type]:
    """All registered classes of a family (``Kernel``, ``Features``, ``Mean``) by name."""
    return {name: entry.part for name, entry in _ENTRIES.items() if issubclass(entry.part, family)}


def shorthands(family: type) -> dict[str, type]:
    """The registered classes of a family by their shorthands."""
    return {e.shorthand: e.part for e in _ENTRIES.values() if e.shorthand is not None and issubclass(e.part, family)}


def overridden(part: type, method: str, free: Iterable[str] = ()) -> str | None:
    """What a class overrides of the class from which it inherits ``method``; None if it overrides nothing there.

    A program, or a closed form, is written for the numbers of one class. A subclass that computes something else inherits it, and it would be
    wrong in silence. free: names that the method does not depend on. What is abstract there is meant to be overridden.
    """
    owner = next((c for c in part.__mro__ if method in vars(c)), object)
    for cls in part.__mro__[: part.__mro__.index(owner)]:
        for name in vars(cls):
            meant = {
                *_OF_EVERY_CLASS,
                *free,
                *getattr(cls, "__dataclass_fields__", ()),
                *getattr(owner, "__abstractmethods__", ()),
            }
            if name not in meant and hasattr(owner, name):
                return name
    return None


_OF_EVERY_CLASS = {
    "__module__", "__qualname__", "__doc__", "__init__", "__post_init__", "__repr__", "__eq__", "__hash__", "__setattr__", "__delattr__",
    "__annotations__", "__dataclass_params__", "__dataclass_fields__", "__match_args__", "__abstractmethods__", "_abc_impl", "__replace__",
    "__firstlineno__", "__static_attributes__", "__parameters__", "__orig_bases__", "__annotate__", "__annotate_func__", "__annotations_cache__",
}  # fmt: skip


def _refuse_what_no_file_can_hold(part: Any) -> None:
    if not isinstance(part, type) or "__dataclass_params__" not in vars(part):
        raise InputError(
            f"register is for dataclasses, and {getattr(part, '__name__', part)!r} is none of its own. Write @register(...) above "
            "@dataclass(frozen=True), and that above the class."
        )
    if not vars(part)["__dataclass_params__"].frozen:
        raise InputError(
            f"{part.__name__} must be a frozen dataclass: descriptions do not change. Write @dataclass(frozen=True)."
        )
    if hidden := [field.name for field in dataclasses.fields(part) if not field.init]:
        raise InputError(f"{part.__name__} cannot be rebuilt from a file: {', '.join(hidden)} has init=False.")


def _same_definition(one: type, other: type) -> bool:
    """Whether it is the same class again, as when a notebook's cell runs twice."""
    return (one.__module__, one.__qualname__) == (other.__module__, other.__qualname__)


def _family(part: type) -> type:
    """Kernel for a kernel, Features for features: the first class of its line."""
    return [cls for cls in part.__mro__ if cls not in (ABC, object)][-1]


def _place(part: type) -> str:
    return f"{part.__module__}.{part.__qualname__}"
