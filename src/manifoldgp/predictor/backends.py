"""An operation of programs, and its forms for the backends: NumPy, which runs it here, and the languages that programs are exported to.

    @operation
    def sigmoid(A: np.ndarray) -> np.ndarray:      # NumPy
        ...

    @sigmoid.backend("onnx")
    def _(g: Graph, A: str) -> str:                # adds nodes to a graph, returns the name of the result
        return g.node("Sigmoid", A)

The forms of further backends are registered in files of their own (``loops_*.py``); nothing here needs to know them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from manifoldgp.errors import InputError
from manifoldgp.predictor.program import Setting

Form = TypeVar("Form", bound=Callable[..., Any])


class Operation:
    """A function of arrays, known by its name. Calling it runs it on NumPy.

    numpy: the function that runs it here. forms: how other backends write it, by the backend's name.
    """

    def __init__(self, name: str, numpy: Callable[..., Any]) -> None:
        self.name, self.numpy = name, numpy
        self.forms: dict[str, Callable[..., Any]] = {}
        self.__doc__ = numpy.__doc__

    def __call__(self, *arrays: np.ndarray, **settings: Setting) -> np.ndarray:
        return self.numpy(*arrays, **settings)

    def backend(self, language: str) -> Callable[[Form], Form]:
        """A decorator: the function writes this operation in another language."""

        def keep(form: Form) -> Form:
            self.forms[language] = form
            return form

        return keep

    def form(self, language: str) -> Callable[..., Any]:
        """How a backend writes this operation."""
        if language not in self.forms:
            raise InputError(f"The operation {self.name!r} has no form for {language!r}; add one below its NumPy form.")
        return self.forms[language]

    def __repr__(self) -> str:
        return f"Operation({self.name!r}, also in {', '.join(self.forms)})"


OPERATIONS: dict[str, Operation] = {}
"""All operations by name. ``manifoldgp.predictor.operations`` has it with everything in it."""


def operation(numpy: Callable[..., Any]) -> Operation:
    """A decorator: the NumPy function becomes the operation of its name."""
    return named_operation(numpy.__name__, numpy)


def named_operation(name: str, numpy: Callable[..., Any], onnx: str = "") -> Operation:
    """An operation of this name; onnx: the operator of ONNX that is the same."""
    if name in OPERATIONS:
        raise ValueError(f"There are two operations {name!r}.")
    made = OPERATIONS[name] = Operation(name, numpy)
    if onnx:
        made.backend("onnx")(lambda g, *inputs: g.node(onnx, *inputs))
    return made
