"""Codes that look like numbers: postal codes such as 01067, part numbers such as 007. A number would lose their zeros and gain an order that means nothing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

_CODE = re.compile(r"[0-9A-Za-z]+")
_PADDED = re.compile(r"0\d.*")

_FEW, _FEW_OF_THREE = 100, 20
"""So many different ones are codes, however close together they lie; more, only if they are a hundredth of what as many digits can say. Fewer of three digits: percent and angles have them too."""

_TIME = re.compile(r"([01]\d|2[0-3])[0-5]\d")
_DATE = re.compile(r"(0[1-9]|[12]\d|3[01])(0[1-9]|[12]\d|3[01])(19|20)\d\d")


def padded_cell(separator: str) -> re.Pattern[str]:
    """A cell of a line of text that begins with a zero and goes on with digits, or may be a month such as 03.1974; two digits are hours, days and months."""
    return re.compile(rf"(?:^|{separator})\s*\"?0(?:\d{{2,}}|[1-9]\.[12]\d{{3}})\"?\s*(?:{separator}|$)")


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

    Padded measurements stay numbers: they seldom repeat themselves, lie at even steps, or have many values that lie close together. So do times such as 0730 (a dozen of them), dates such
    as 31012024, and two digits, unless there are letters too.

    >>> are_codes(["007", "012", "007", "012"]), are_codes(["07", "08"] * 2), are_codes(["01", "02", "2A"] * 2), are_codes(["0071", "0532", "1204"])
    (True, False, True, False)
    >>> are_codes(["000", "010", "020"] * 2), are_codes(["31012024", "01022024"] * 2), are_codes([f"{hour:02d}30" for hour in range(24)] * 2)
    (False, False, False)
    """
    if not all(isinstance(cell, str) and _CODE.fullmatch(cell) for cell in texts):
        return False
    cells = list(map(str, texts))
    count = Counter(cells)
    several = sum(_PADDED.fullmatch(cell) is not None for cell in cells) > 1
    letters = not all(map(str.isdigit, count))
    again = 2 * sum(times == 1 for times in count.values()) <= len(cells)
    return several and again and _evenly_padded(cells) and (letters or _too_few_for_numbers(sorted(count)))


def _too_few_for_numbers(different: Sequence[str]) -> bool:
    """Whether equally long texts of digits, in order, are so few, and at such places, that they hardly measure anything."""
    width, values = len(different[0]), list(map(int, different))
    steps = {after - before for before, after in pairwise(values)}
    times = len(values) >= 12 and all(map(_TIME.fullmatch, different))
    if width < 3 or times or all(map(_DATE.fullmatch, different)) or (len(values) > 2 and len(steps) == 1):
        return False
    return len(values) <= (_FEW_OF_THREE if width == 3 else max(_FEW, 10**width / 100))


def _evenly_padded(cells: Sequence[object]) -> bool:
    return len({len(str(cell)) for cell in cells}) == 1 and any(_PADDED.fullmatch(str(cell)) for cell in cells)
