"""What numbers in texts look like, with thousands separators, a currency, a percent sign or a unit; and whether their decimal sign is a point or a comma."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

_CURRENCY = "$€£¥"
_UNIT = r"(?!(?:[aApP][mM]|[eE])$|[⁰¹²³⁴-⁹])(?:[^\W\d_]|[°%‰µΩ/²³·$€£¥]){0,10}"
"""What may stand behind a number: a word or signs. Not half a time of day, nor its power."""

SPACES = "'’ \u00a0\u202f"
"""What stands between groups of three digits in either case."""


def other_sign(decimal: str) -> str:
    return "," if decimal == "." else "."


def _form(decimal: str) -> re.Pattern[str]:
    """What a number looks like if that is its decimal sign: thousands are groups of three after a first group that does not begin with 0."""
    thousands = f"[{other_sign(decimal)}{SPACES}]"
    whole = rf"[1-9]\d{{0,2}}(?:{thousands}\d{{3}})+|\d+"
    number = rf"(?:(?:{whole})(?:{re.escape(decimal)}\d*)?|{re.escape(decimal)}\d+)(?:[eE][-+]?\d+)?"
    return re.compile(rf"(?P<sign>[-+−]?)\s*(?P<before>[{_CURRENCY}]?)\s*(?P<number>{number})\s*(?P<unit>{_UNIT})")


FORMS = {decimal: _form(decimal) for decimal in ".,"}
_SMALL = re.compile(r"(?!99+$)\d{1,3}")
"""Numbers that thousands separators leave alone; nines stand for "no value" as a rule."""

_SEVERAL = 3
"""Cells with a point in front of three digits from which on 999 and less beside them say what it means."""


class DecimalSign(NamedTuple):
    """A point or a comma, and where no cell said which: places of columns, and a cell of each that could mean either, as 1,250 could.

    looked_for: whether cells had to tell it; where commas separate these, and in Excel files, numbers have points.
    """

    sign: str
    unclear: Mapping[int, str] = MappingProxyType({})
    looked_for: bool = True


class KnownSigns(NamedTuple):
    """The decimal signs of a table that was read before, "" where nothing told one: that of its plain numbers, and those of columns of texts."""

    plain: str = ""
    columns: tuple[tuple[str, str], ...] = ()

    def of(self, name: str) -> str:
        """That of a column."""
        return dict(self.columns).get(name, self.plain)

    def of_all(self, names: Container[str]) -> KnownSigns:
        """Without columns of other names."""
        return KnownSigns(self.plain, tuple((name, sign) for name, sign in self.columns if name in names))

    def to_plain(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {"plain": self.plain, "columns": dict(self.columns)}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> KnownSigns:
        """What `to_plain` wrote."""
        found = cls(plain["plain"], tuple((str(name), sign) for name, sign in plain["columns"].items()))
        if not {found.plain, *(sign for _, sign in found.columns)} <= {"", ".", ","}:
            raise ValueError(f"a decimal sign is a point or a comma; got {str(plain)[:80]}")
        return found

    @classmethod
    def joined(cls, parts: Sequence[KnownSigns]) -> KnownSigns:
        """Those of tables one below the other: what no two of them say otherwise.

        >>> KnownSigns.joined([KnownSigns(","), KnownSigns("", (("a", ","), ("b", "."))), KnownSigns("", (("b", ","),))])
        KnownSigns(plain=',', columns=(('a', ','),))
        """
        plain = {part.plain for part in parts if part.plain}
        signs = {pair for part in parts for pair in part.columns}
        told = tuple(sorted((name, sign) for name, sign in signs if (name, other_sign(sign)) not in signs))
        return cls(plain.pop() if len(plain) == 1 else "", told)


NO_SIGNS = KnownSigns()


def decimal_sign(rows: Iterable[Sequence[str]], usual: str = ",", known: Mapping[int, str] = MappingProxyType({})) -> DecimalSign:
    """The decimal sign of rows of cells that no comma separates: the one that more of them can only have, as 0,5 or 1.250,0 a comma.

    Where 1,250 says neither: the usual one; but where there are 999 and less in its column too, written without a comma, it separates thousands, and
    the point is the decimal sign of all columns, as it is where there is 1,250,000. So it is with several cells like 1.250 and the comma; without 999 and less, the point is a decimal point there.
    known: what such columns had in another table of the kind, by their places; it decides where no cell can have one sign only.

    >>> decimal_sign([["0,5", "1,250"]]).sign, decimal_sign([["1.5", "1,250"]]).sign, decimal_sign([["1,250"], ["120"]]).sign
    (',', '.', '.')
    >>> decimal_sign([["1.250 €"], ["1.300 €"], ["2.100 €"], ["957 €"]]).sign, decimal_sign([["1.250"], ["1.300"], ["0.100"], ["957"]]).sign
    (',', '.')
    >>> decimal_sign([["1,250"], ["1,300"]]), decimal_sign([["A", "1.250"], ["B", "1.300"]])
    (DecimalSign(sign=',', unclear={0: '1,250'}, looked_for=True), DecimalSign(sign='.', unclear={1: '1.250'}, looked_for=True))
    >>> decimal_sign([["1.250"], ["957"]], known={0: ","}).sign, decimal_sign([["1.250"], ["0.5"]], known={0: ","}).sign
    (',', '.')
    """
    only, points, grouped = Counter[str](), Counter[int](), set[str]()
    commas: dict[int, str] = {}
    pointed: dict[int, str] = {}
    small, above_zero, large = set[int](), set[int](), set[int]()
    for row in rows:
        for place, cell in enumerate(map(str.strip, row)):
            found = {sign: match for sign in ".," if (match := FORMS[sign].fullmatch(cell))}
            number = next((match["number"] for match in found.values()), "")
            if len(found) == 1 and set(found) & set(cell):
                only.update(found.keys())
            elif "e" in number.casefold() and (signs := set(number) & {".", ","}):
                only.update(signs)
            elif len(found) == 1 and {".", ","} & set(number):  # 1.250.000
                grouped |= set(found)
            elif "," in number:
                commas.setdefault(place, cell)
            elif "." in number:
                pointed.setdefault(place, cell)
                points[place] += 1
            elif _SMALL.fullmatch(number):
                small.add(place)
                if not number.startswith("0"):
                    above_zero.add(place)
            elif number.isdigit() and len(number) > 3:
                large.add(place)
    if only:
        return DecimalSign("," if only[","] >= only["."] else ".")
    either = Counter(known[place] for place in commas | pointed if known.get(place))
    if either and not grouped:
        return DecimalSign(either.most_common(1)[0][0], commas | pointed)
    if small & set(commas) or "." in grouped:
        return DecimalSign(".")
    if "," in grouped or any(count >= _SEVERAL and place in above_zero - large for place, count in points.items()):
        return DecimalSign(",")
    return DecimalSign(usual if commas else ".", commas | pointed)


def is_number(text: str) -> bool:
    """Whether a text is a number by one decimal sign or the other, perhaps with a sign or word beside it."""
    return any(form.fullmatch(text.strip()) for form in FORMS.values())


def means_either(text: str) -> bool:
    """Whether a number is another one by the other decimal sign.

    >>> [means_either(text) for text in ("1.250 €", "1,250", "1.25", "1,250.5", "957", "0.125")]
    [True, True, False, False, False, False]
    """
    found = [form.fullmatch(text.strip()) for form in FORMS.values()]
    return all(found) and bool({".", ","} & set(text))


def looks_like_number(text: str) -> bool:
    """Whether a text is a number by one decimal sign or the other, perhaps with a currency or a percent sign; 12A is a name rather.

    >>> [looks_like_number(text) for text in ("1.234,5", "$12", "5 %", "12A", "n. b.", "12:30")]
    [True, True, True, False, False, False]
    """
    found = next((match for form in FORMS.values() if (match := form.fullmatch(text.strip()))), None)
    return found is not None and not any(map(str.isalpha, found["unit"]))
