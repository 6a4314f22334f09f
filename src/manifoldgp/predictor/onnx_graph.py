"""A graph under construction: nodes and constants of one floating-point type."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from manifoldgp.predictor.backends import Operation
from manifoldgp.predictor.program import Setting

OPSET, IR_VERSION = 17, 8
"""Old enough for the runtimes of the last years."""


class Graph:
    """Collects the nodes and constants of an ONNX graph. Tensors are known by name."""

    def __init__(self, dtype: np.dtype, prefix: str = "") -> None:
        import onnx

        self.onnx = onnx
        self.dtype = dtype
        self.nodes: list[Any] = []
        self.initializers: dict[str, np.ndarray] = {}
        self._known: dict[tuple, str] = {}
        self._prefix = prefix
        self._count = 0

    def node(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """The name of what an ONNX operator makes of its inputs."""
        output = self.new_name(operator.lower())
        # with a name: onnxruntime 1.19 calls what it merges by the names of the parts, and refuses two without one
        self.nodes.append(self.onnx.helper.make_node(operator, list(inputs), [output], name=output, **attributes))
        return output

    def constant(self, value: np.ndarray | float) -> str:
        """The name of a constant; floating-point numbers take the graph's type. Small ones that occur again are stored once."""
        array = np.asarray(value)
        array = np.ascontiguousarray(array, dtype=self.dtype if array.dtype.kind == "f" else array.dtype).reshape(array.shape)
        key = (array.shape, array.dtype.str, array.tobytes()) if array.size <= 1024 else (object(),)
        if key not in self._known:
            self._known[key] = self.new_name("constant")
            self.initializers[self._known[key]] = array
        return self._known[key]

    def constants_of(self, nodes: Sequence[Any]) -> list[Any]:
        """The constants that these nodes use, in ONNX's form; runtimes warn of others."""
        used = set(_names_in(nodes))
        return [self.onnx.numpy_helper.from_array(array, name) for name, array in self.initializers.items() if name in used]

    def axes(self, *axes: int) -> str:
        """A constant list of axes or sizes."""
        return self.constant(np.array(axes, dtype=np.int64))

    def new_name(self, kind: str) -> str:
        self._count += 1
        return f"{self._prefix}{kind}_{self._count}"

    def body(self, name: str) -> Graph:
        """An empty graph for the body of a loop; its names begin with the loop's."""
        return Graph(self.dtype, prefix=f"{name}_")

    @property
    def tensor_type(self) -> int:
        """ONNX's number for the graph's floating-point type."""
        return self.onnx.helper.np_dtype_to_tensor_dtype(self.dtype)

    def do(self, operation: Operation, *inputs: str, **settings: Setting) -> str:
        """The name of what another operation of programs makes of its inputs."""
        return operation.form("onnx")(self, *inputs, **settings)

    def sum_over(self, A: str, *axes: int, keep: bool = False) -> str:
        """Σ a over some axes."""
        return self.node("ReduceSum", A, self.axes(*axes), keepdims=int(keep))

    def square_sum(self, A: str, keep: bool = False) -> str:
        """Σ a² over the last axis."""
        return self.node("ReduceSumSquare", A, axes=[-1], keepdims=int(keep))

    def columns(self, A: str, first: int, last: int, axis: int = -1) -> str:
        """A[..., first:last]."""
        return self.node("Slice", A, self.axes(first), self.axes(last), self.axes(axis))


def _names_in(nodes: Iterable[Any]) -> Iterator[str]:
    """What nodes take in, and those of the graphs inside of them."""
    for node in nodes:
        yield from node.input
        for attribute in node.attribute:
            yield from _names_in(attribute.g.node)
            yield from (output.name for output in attribute.g.output)
