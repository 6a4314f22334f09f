"""A limit on the tensors that are made while a file is read: a few bytes of description may ask for gigabytes of parameters."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from manifoldgp.errors import FileFormatError

FREE_ELEMENTS = 2**22
"""Elements that a tensor may have whatever the file's size: 32 MiB."""

TIMES_THE_FILE = 64
"""Beyond, how many times as many elements as all tensors of the file have together: features of all rows may be wider than inputs."""

_WHOLE = {"zeros", "ones", "empty", "rand", "randn", "new_zeros", "new_ones", "new_empty", "repeat", "tile"}
_FIRST = {"full", "new_full", "arange", "randperm"}
_SQUARE = {"eye", "tril_indices", "triu_indices"}


class SizeLimit(TorchFunctionMode):
    """While it is entered, a tensor with more elements than the file can account for is a FileFormatError, before it is made where PyTorch is told its size.

    elements: how many elements the tensors of the file have together.
    """

    def __init__(self, elements: int) -> None:
        super().__init__()
        self.most = FREE_ELEMENTS + TIMES_THE_FILE * elements

    def __torch_function__(
        self, func: Callable[..., Any], types: object, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        named = dict(kwargs or {})
        self._refuse(_asked(getattr(func, "__name__", ""), args, named))
        made = func(*args, **named)
        for tensor in made if isinstance(made, (tuple, list)) else (made,):
            if isinstance(tensor, torch.Tensor):
                self._refuse(tensor.numel())
        return made

    def _refuse(self, elements: int) -> None:
        if elements > self.most:
            raise FileFormatError(
                f"The file describes a tensor of {elements} elements, far more than its own tensors account for (at most {self.most}). It is damaged or forged."
            )


def _asked(name: str, args: tuple[Any, ...], named: Mapping[str, Any]) -> int:
    """How many elements a call that makes a tensor of a given size asks for; zero for other calls."""
    if name in _WHOLE or name in _FIRST:
        given = [*args, *(named[key] for key in ("size", "end") if key in named)]
        sizes = [size for size in given if not isinstance(size, torch.Tensor)]
        factor = args[0].numel() if name in ("repeat", "tile") and args and isinstance(args[0], torch.Tensor) else 1
        return factor * math.prod(_flat(sizes[:1] if name in _FIRST else sizes))
    return math.prod(_flat(args[:1])) ** 2 if name in _SQUARE else 0


def _flat(sizes: Iterable[Any]) -> list[int]:
    numbers: list[int] = []
    for size in sizes:
        if isinstance(size, (tuple, list)):
            numbers += _flat(size)
        elif isinstance(size, int) and not isinstance(size, bool):
            numbers.append(size)
    return numbers
