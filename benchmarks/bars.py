"""What was to be reached, and whether it was."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Bar:
    """what: the quantity in words. value: as measured, None where it was not. limit: the most it may be. unit: "x", "ms" or "s"."""

    what: str
    value: float | None
    limit: float
    unit: str

    @property
    def reached(self) -> bool:
        return self.value is not None and self.value <= self.limit

    @property
    def verdict(self) -> str:
        if self.value is None:
            return "not measured"
        ratio = self.value / self.limit
        return f"reached, {1 - ratio:.0%} below" if self.reached else f"**not reached**, {ratio - 1:.0%} above"


def bar_table(bars: list[Bar]) -> str:
    """Markdown table of all bars."""
    rows = [
        [
            bar.what,
            "–" if bar.value is None else f"{number(bar.value)} {bar.unit}",
            f"{number(bar.limit)} {bar.unit}",
            bar.verdict,
        ]
        for bar in bars
    ]
    return table(["bar", "measured", "at most", "verdict"], rows)


def table(header: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(cells) + " |" for cells in [header, *rows]]
    return "\n".join([lines[0], "|" + "---|" * len(header), *lines[1:]]) + "\n"


def number(value: float | None, digits: int = 3) -> str:
    """Three significant digits, never in powers of ten below a million; a dash where there is none.

    >>> number(0.012345), number(1234.5), number(None)
    ('0.0123', '1234', '–')
    """
    if value is None or value != value:
        return "–"
    if abs(value) >= 10 ** (digits - 1):
        return f"{value:.0f}"
    return f"{value:#.{digits}g}".rstrip(".")
