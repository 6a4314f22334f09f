"""A diagnosis: numbers for machines and sentences for people, printed or as HTML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np

from manifoldgp._system.plain_text import named_number, visible


@dataclass(frozen=True)
class Diagnosis:
    """What a fitted model looks like; ``print(diagnosis)`` shows all of it.

    Attributes
    ----------
    numbers
        Plain values by name, for machines.
    remarks
        Sentences, for people.
    whose
        Of an average: which of the numbers are those of one member, in a sentence; else empty.
    """

    numbers: dict[str, Any] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    whose: str = ""

    @staticmethod
    def of_targets(parts: Sequence[Diagnosis]) -> Diagnosis:
        """One of all targets: that of the only one as it is, else every line with its target's number."""
        if len(parts) == 1:
            return parts[0]
        numbers = {f"output {o}: {name}": value for o, part in enumerate(parts) for name, value in part.numbers.items()}
        remarks = [f"output {o}: {remark}" for o, part in enumerate(parts) for remark in part.remarks]
        return Diagnosis(numbers, remarks, next((part.whose for part in parts if part.whose), ""))

    def __add__(self, other: Diagnosis) -> Diagnosis:
        """This one, and what another says besides."""
        return Diagnosis(self.numbers | other.numbers, self.remarks + other.remarks, self.whose or other.whose)

    def __str__(self) -> str:
        width = max((len(name) for name in self.numbers), default=0)
        lines = [f"{name:<{width}}  {show_value(value, name)}" for name, value in self.numbers.items()]
        whose = ["", self.whose] if self.whose else []
        return "\n".join([*lines, *whose, "", *(f"- {remark}" for remark in self.remarks)]).strip()

    def _repr_html_(self) -> str:
        """For notebooks: the remarks, and the numbers under a fold."""
        remarks = "".join(f"<li>{escape(visible(remark))}</li>" for remark in self.remarks)
        rows = "".join(
            f'<tr><th style="text-align:left">{escape(visible(name))}</th><td style="text-align:left">{escape(visible(show_value(value, name)))}</td></tr>'
            for name, value in self.numbers.items()
        )
        whose = f"<p>{escape(self.whose)}</p>" if self.whose else ""
        return f"<ul>{remarks}</ul><details><summary>All numbers of the diagnosis</summary>{whose}<table>{rows}</table></details>"


def show_value(value: object, name: str = "") -> str:
    """A number, of this name, or an array as a person reads it."""
    if isinstance(value, np.ndarray):
        return "[" + ", ".join(f"{v:.3g}" for v in value.ravel()[:12]) + (", ..." if value.size > 12 else "") + "]"
    return named_number(name, value) if isinstance(value, float) else str(value)
