"""Conditions on experiments, "x1 + 2 * x2 <= 10": read by Python's own parser, and computed by the few rules below. Nothing is ever executed."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from manifoldgp.errors import InputError

_TWO: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}
_COMPARED: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_TRUTH = {"true": 1.0, "false": 0.0}
"""Numbers of flags, by how tables and people write these."""
_SAME = 1e-9
"""Numbers this close are equal, as a share of the largest one in a comparison: 0.1 + 0.2 + 0.7 is 1."""
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": np.abs,
    "sqrt": np.sqrt,
    "exp": np.exp,
    "log": np.log,
    "min": lambda *parts: np.minimum.reduce(np.broadcast_arrays(*parts)),
    "max": lambda *parts: np.maximum.reduce(np.broadcast_arrays(*parts)),
}
_QUOTED = re.compile(r"`([^`]+)`")
_LONGEST = 1000
_HELP = (
    "A condition compares sums, products and powers of columns: 'x1 + 2 * x2 <= 10', '0 < speed / load < 3', 'surface == \"ice\"'; a column whose name is no word stands "
    f"in backticks, '`force [N]` < 5'; functions: {', '.join(_FUNCTIONS)}."
)


@dataclass(frozen=True)
class Constraint:
    """A condition on the columns of a table.

    >>> both = Constraint.parse("a + `b [m]` <= 3", ["a", "b [m]"])
    >>> both.holds({"a": np.array([1.0, 2.0]), "b [m]": np.array([1.0, 2.0])}).tolist()
    [True, False]
    """

    text: str
    tree: ast.Compare
    names: Mapping[str, str]
    """Columns by the words that stand for them in the tree."""

    @classmethod
    def parse(cls, text: str, columns: Sequence[str]) -> Constraint:
        """Read a condition on these columns; what is none is refused."""
        names = {column: column for column in columns if column.isidentifier()}

        def word(match: re.Match[str]) -> str:
            names[placeholder := f"_column_{len(names)}"] = match[1]
            return placeholder

        if len(text) > _LONGEST:
            raise InputError(f"A condition has at most {_LONGEST} signs; got {len(text)}.")
        try:
            tree = ast.parse(_QUOTED.sub(word, text).strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise InputError(f"The condition {text!r} cannot be read. {_HELP}") from None
        if not isinstance(tree, ast.Compare):
            raise InputError(f"The condition {text!r} compares nothing. {_HELP}")
        found = cls(text, tree, names)
        found._check(tree, columns)
        return found

    def holds(self, columns: Mapping[str, np.ndarray]) -> np.ndarray:
        """For which of n rows (n,) it holds; columns by name, each (n,)."""
        n = len(next(iter(columns.values())))
        sides = [self._value(side, columns) for side in (self.tree.left, *self.tree.comparators)]
        holds = np.ones(n, dtype=bool)
        for left, compare, right in zip(sides, self.tree.ops, sides[1:], strict=False):
            holds &= np.broadcast_to(np.asarray(self._compared(compare, left, right, columns), dtype=bool), n)
        return holds

    def named(self) -> list[str]:
        """The columns that it is about, each once."""
        words = [node.id for node in ast.walk(self.tree) if isinstance(node, ast.Name)]
        return list(dict.fromkeys(self.names[word] for word in words if word in self.names))

    def excess(self, columns: Mapping[str, np.ndarray]) -> np.ndarray | None:
        """Of an equation between numbers, its left side minus its right (n,); None of any other condition."""
        if len(self.tree.ops) != 1 or not isinstance(self.tree.ops[0], ast.Eq):
            return None
        left, right = (np.asarray(self._value(side, columns)) for side in (self.tree.left, self.tree.comparators[0]))
        return left - right if left.dtype.kind in "fi" and right.dtype.kind in "fi" else None

    def _compared(self, compare: ast.cmpop, left: Any, right: Any, columns: Mapping[str, np.ndarray]) -> Any:
        """The comparison of two sides; numbers are the same up to rounding."""
        sides = _as_numbers(np.asarray(left), np.asarray(right)), _as_numbers(np.asarray(right), np.asarray(left))
        if any(side.dtype.kind not in "fi" for side in sides):
            return _COMPARED[type(compare)](left, right)
        used = [*sides, *(np.asarray(columns[name]) for name in self.named())]
        with np.errstate(all="ignore"):
            largest = np.maximum.reduce(np.broadcast_arrays(*(np.abs(a) for a in used if a.dtype.kind in "fi")))
            apart = np.abs(sides[0] - sides[1])
            same = np.isfinite(apart) & (apart <= _SAME * largest)
            by_equality = isinstance(compare, (ast.LtE, ast.GtE, ast.Eq))
            return np.where(same, by_equality, _COMPARED[type(compare)](*sides))

    def _value(self, node: ast.expr, columns: Mapping[str, np.ndarray]) -> Any:
        """The value of a part of the tree; `_check` has seen that there are no other kinds of parts."""
        with np.errstate(all="ignore"):  # what is not a number satisfies no condition
            match node:
                case ast.Constant():
                    return np.float64(node.value) if type(node.value) in (int, float) else node.value  # pyright: ignore[reportArgumentType]
                case ast.Name():
                    return columns[self.names[node.id]] if node.id in self.names else node.id == "true"
                case ast.UnaryOp():
                    value = _counted(self._value(node.operand, columns))
                    return -value if isinstance(node.op, ast.USub) else value
                case ast.BinOp():
                    left, right = (_counted(self._value(part, columns)) for part in (node.left, node.right))
                    return _TWO[type(node.op)](left, right)
                case ast.Call(func=ast.Name(id=name)):
                    return _FUNCTIONS[name](*(self._value(part, columns) for part in node.args))
        raise InputError(f"The condition {self.text!r} cannot be computed. {_HELP}")

    def _asks_whether(self, node: ast.Constant | ast.Name) -> bool:
        """Whether a part of the tree means true or false: in an equation, where no column is called so."""
        named = isinstance(node, ast.Name) and node.id in self.names
        return not named and all(isinstance(op, (ast.Eq, ast.NotEq)) for op in self.tree.ops)

    def _check(self, node: ast.expr, columns: Sequence[str]) -> None:
        """Refuse everything but numbers, texts, columns, arithmetic, comparisons and the functions above."""
        match node:
            case ast.Compare() if node is self.tree and all(type(op) in _COMPARED for op in node.ops):
                parts = [node.left, *node.comparators]
            case ast.Constant() if type(node.value) in (int, float, str):
                parts = []
            case ast.Constant(value=bool()) | ast.Name(id="true" | "false") if self._asks_whether(node):
                parts = []
            case ast.Name():
                if self.names.get(node.id) not in columns:
                    raise InputError(
                        f"The condition {self.text!r} names {self.names.get(node.id, node.id)!r}, which is no input. Inputs: {', '.join(columns)}."
                    )
                parts = []
            case ast.UnaryOp(op=ast.USub() | ast.UAdd()):
                parts = [node.operand]
            case ast.BinOp() if type(node.op) in _TWO:
                parts = [node.left, node.right]
            case ast.Call(func=ast.Name(id=name), keywords=[]) if name in _FUNCTIONS and node.args:
                parts = node.args
            case _:
                raise InputError(f"The condition {self.text!r} has a part that is not understood. {_HELP}")
        for part in parts:
            self._check(part, columns)


def _counted(value: Any) -> Any:
    """True and false as 1 and 0 in sums and products: NumPy's own sum of two flags that are true is true."""
    return np.asarray(value, dtype=float) if np.asarray(value).dtype.kind == "b" else value


def _as_numbers(side: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Flags as the numbers that they are, and so the texts that are compared with a flag or a number: "True" is 1, "5" is 5, and another word no number."""
    if side.dtype.kind in "UO" and other.dtype.kind in "bfi":
        return np.array([_number(str(text)) for text in side.ravel()]).reshape(side.shape)
    return side.astype(float) if side.dtype.kind == "b" else side


def _number(text: str) -> float:
    try:
        return _TRUTH[text.casefold()] if text.casefold() in _TRUTH else float(text)
    except ValueError:
        return np.nan
