"""Codes that look like numbers: postal codes such as 01067, part numbers such as 007. A number would lose their zeros and gain an order that means nothing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

_CODE = re.compile(r"[0-9A-Za-z]+")
_PADDED = re.compile(r"0\d.*")

_FEW = 100
"""So many different ones are codes, however close together they lie; more, only if they are a hundredth of what as many digits can say."""


def padded_cell(separator: str) -> re.Pattern[str]:
    """A cell of a line of text that begins with a zero and goes on with digits; two digits are hours, days and months."""
    return re.compile(rf"(?:^|{separator})\s*\"?0\d{{2,}}\"?\s*(?:{separator}|$)")


def padded(texts: Iterable[object]) -> bool:
    """Whether all of these are digits, three or more and equally many, and one begins with a zero: whoever reads them as numbers cannot write them again.

    >>> padded(["01067", "45127"]), padded(["07", "12"]), padded(["007", "12"]), padded([])
    (True, False, False, False)
    """
    cells = list(texts)
    digits = all(isinstance(cell, str) and cell.isascii() and cell.isdigit() for cell in cells)
    return digits and _evenly_padded(cells) and len(str(cells[0])) > 2


def are_codes(texts: Sequence[object]) -> bool:
    """Whether texts are codes rather than numbers: equally long, several with leading zeros, and at most half of them there once only.

    Padded measurements stay numbers: they seldom repeat themselves, or have many values that lie close together. So do two digits, unless there are letters too.

    >>> are_codes(["007", "012", "007", "012"]), are_codes(["07", "08"] * 2), are_codes(["01", "02", "2A"] * 2), are_codes(["0071", "0532", "1204"])
    (True, False, True, False)
    """
    if not all(isinstance(cell, str) and _CODE.fullmatch(cell) for cell in texts):
        return False
    cells = list(map(str, texts))
    count = Counter(cells)
    several = sum(_PADDED.fullmatch(cell) is not None for cell in cells) > 1
    letters = not all(map(str.isdigit, count))
    again = 2 * sum(times == 1 for times in count.values()) <= len(cells)
    apart = len(count) <= max(_FEW, 10 ** len(cells[0]) / 100)
    return several and again and _evenly_padded(cells) and (letters or (apart and len(cells[0]) > 2))


def _evenly_padded(cells: Sequence[object]) -> bool:
    return len({len(str(cell)) for cell in cells}) == 1 and any(_PADDED.fullmatch(str(cell)) for cell in cells)
