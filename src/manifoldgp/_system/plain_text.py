"""Names from data on their way out: what a terminal, a shell, a spreadsheet and a picture would take for an order is made plain text."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence

_ORDERS = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\ud800-\udfff]")
"""Control characters, marks that turn the direction of text or cannot be seen, ends of lines, and halves of characters."""

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""How a cell begins that a spreadsheet computes instead of showing it."""


def visible(text: str) -> str:
    """The text with control characters written out, so that it moves no cursor, changes no colour and ends no line.

    >>> print(visible("speed\\x1b[31m\\n"))
    speed\\x1b[31m\\n
    """
    return _ORDERS.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def in_json(text: str) -> str:
    """JSON text in which the control characters that JSON itself lets through are escaped too."""
    return _ORDERS.sub(lambda found: found[0] if found[0] == "\n" else f"\\u{ord(found[0]):04x}", text)


def one_line(text: str) -> str:
    """The words of a text on one line, every control character among them written out."""
    return visible(" ".join(re.split(r"[ \t\r\n]+", text.strip())))


def digits(value: float, count: int = 4) -> str:
    """A number with so many significant digits; of thousands to millions without a power of ten.

    >>> digits(25312.4, 3), digits(0.0312), digits(-1234567.8), digits(2e9), digits(3.0)
    ('25300', '0.0312', '-1235000', '2e+09', '3')
    """
    rounded = float(f"{value:.{count}g}")
    return f"{rounded:.0f}" if 10**count <= abs(rounded) < 1e7 else f"{rounded:.{count}g}"


def verb(count: int, one: str, several: str) -> str:
    """The form of a verb or pronoun that goes with so many things.

    >>> f"1 of 9 rows {verb(1, 'has', 'have')} no target", f"2 of 9 rows {verb(2, 'has', 'have')} no target"
    ('1 of 9 rows has no target', '2 of 9 rows have no target')
    """
    return one if count == 1 else several


def counted(count: int, what: str) -> str:
    """So many things of a kind.

    >>> counted(1, "row"), counted(1200, "row")
    ('1 row', '1,200 rows')
    """
    return f"{count:,} {what}{verb(count, '', 's')}"


def percent(share: float) -> str:
    """A share in percent, without decimals unless it would then seem to be all or nothing.

    >>> percent(0.953), percent(0.998), percent(1.0), percent(0.9999)
    ('95 %', '99.8 %', '100 %', '> 99.9 %')
    """
    rounded = f"{100 * share:.0f}"
    if share in (0.0, 1.0) or rounded not in ("0", "100"):
        return f"{rounded} %"
    return "> 99.9 %" if share > 0.9995 else "< 0.1 %" if share < 0.0005 else f"{100 * share:.1f} %"


def explained_share(value: float, places: int = 2) -> str:
    """R² with so many digits after the point, or as many as it takes to tell it from 1. Tables have four.

    >>> explained_share(0.934), explained_share(0.9962), explained_share(1.0), explained_share(-0.001)
    ('0.93', '0.996', '1.00', '0.00')
    >>> explained_share(0.934, 4), explained_share(0.999998, 4), explained_share(0.99999998, 4)
    ('0.9340', '0.999998', '0.99999998')
    """
    texts = [f"{round(value, count) + 0.0:.{count}f}" for count in range(places, 13)]
    return next((text for text in texts if float(text) < 1.0), texts[0])


def named_number(name: str, value: float) -> str:
    """A number of a fit with four significant digits; R² with as many as it takes to tell it from 1.

    >>> named_number("held-out R²", 0.999996), named_number("held-out R²", 0.93), named_number("held-out MAE", 0.999996)
    ('0.999996', '0.93', '1')
    """
    shown = digits(value)
    return explained_share(value, 4) if name.endswith("R²") and shown == "1" and value < 1.0 else shown


def argument(value: object) -> str:
    """A name as a shell takes it, on a command line that begins no option with it.

    >>> argument("my model.mgp"), argument("-x.csv")
    ("'my model.mgp'", './-x.csv')
    """
    quoted = shlex.quote(str(value))
    return f"./{quoted}" if quoted.startswith("-") else quoted


def option(flag: str, value: object) -> str:
    """An option of the command line with its value, as a shell takes it.

    >>> option("--drop", "force [N]"), option("--drop", "-x")
    ("--drop 'force [N]'", '--drop=-x')
    """
    quoted = shlex.quote(str(value))
    return f"{flag}={quoted}" if quoted.startswith("-") else f"{flag} {quoted}"


def without_columns(names: Iterable[str]) -> str:
    """How a table is handed over without some columns; the command line says ``--drop`` instead.

    >>> without_columns(["force [N]", "x"])
    "X.drop(columns=['force [N]', 'x'])"
    """
    return f"X.drop(columns={list(names)!r})"


def cell(name: str) -> str:
    """A column's name as a spreadsheet shows it: an apostrophe stands before what it would compute.

    >>> cell("=1+1"), cell("force [N]")
    ("'=1+1", 'force [N]')
    """
    return f"'{name}" if name.startswith(_FORMULA) else name


def name_in(cell: str) -> str:
    """The name in a cell of a header: what `cell` put in front is no part of it.

    >>> name_in("'=1+1"), name_in(" force [N] "), name_in("'quoted'")
    ('=1+1', 'force [N]', "'quoted'")
    """
    name = cell.strip()
    return name[1:].strip() if name.startswith("'") and name[1:].startswith(_FORMULA) else name


def without_formulas(text: str) -> str:
    """A name in a picture's text, where matplotlib would read what stands between two dollar signs as a formula.

    >>> print(without_formulas("cost [$]"))
    cost [\\$]
    """
    return visible(text).replace("$", r"\$")


NO_NAME = re.compile(r"(?:Unnamed: (\d+))?")
"""What a column without a name is called in tables, by its place from 0."""


def shown_name(name: str) -> str:
    """A column's name in a sentence, for one without a name too.

    >>> shown_name("speed"), shown_name("Unnamed: 0"), shown_name("")
    ('speed', 'column 1 (no name)', '(no name)')
    """
    found = NO_NAME.fullmatch(name)
    return name if found is None else f"column {int(found[1]) + 1} (no name)" if found[1] else "(no name)"


def listed_names(names: Sequence[str], most: int | None = None) -> str:
    """Names with commas between them; in quotes those that hold one themselves. most: so many at most.

    >>> listed_names(["plain", "warm, dry", "cold"], 2), listed_names(["Unnamed: 0"])
    ("plain, 'warm, dry', ...", 'column 1 (no name)')
    """
    shown = [repr(name) if "," in name else shown_name(name) for name in names[:most]]
    return ", ".join(shown + ["..."] * (len(shown) < len(names)))


def feature_name(number: int) -> str:
    """What a feature is called where it is shown. number: its place among all of them, from 0.

    >>> feature_name(0)
    'feature 1'
    """
    return f"feature {number + 1}"


_INSIDE = r"((?:[^\[\]()]|\([^\[\]()]*\)|\[[^\[\]()]*\])+)"
_IN_BRACKETS = re.compile(rf"(?:\[{_INSIDE}\]|\({_INSIDE}\))\s*$")
"""Brackets at the end of a text, which may hold others, as in [dB(A)]."""


def unit_of(name: str) -> str:
    """The unit of a quantity, where its name ends in one, to be put behind a number.

    Square brackets hold a unit as a rule, round ones many other words.

    >>> unit_of("force [N]"), unit_of("speed (m/s)"), unit_of("share [%]"), unit_of("mpg"), unit_of("satisfaction (0-10)"), unit_of("L [dB(A)]")
    (' N', ' m/s', ' %', '', '', ' dB(A)')
    >>> unit_of("pass % (math)"), unit_of("income (total)"), unit_of("dose (mg/kg)"), unit_of("time (hours)"), unit_of("cost ($/pupil)"), unit_of("area (km²)")
    ('', '', ' mg/kg', ' hours', ' $/pupil', ' km²')
    >>> unit_of("people [10^6]"), unit_of("mass (10⁶ kg)"), unit_of("count [x1000]"), unit_of("tolerance (1e-3)")
    (' × 10^6', ' × 10⁶ kg', ' × 1000', '')
    >>> unit_of("Price ($1,000)"), unit_of("way (1000 km)"), unit_of("way [100 km]"), unit_of("pay (USD 1,000)"), unit_of("pay (in 1,000 €)"), unit_of("pay [k$]"), unit_of("angle [2θ]")
    (' × $1,000', ' × 1000 km', ' × 100 km', ' × USD 1,000', ' × 1,000 €', ' k$', ' 2θ')
    """
    found = _IN_BRACKETS.search(name)
    if found is None:
        return ""
    unit = (found[1] or found[2]).strip()
    factor = factor_of(unit)
    if factor and (found[1] or not factor.startswith("1e")):
        return f" × {unit[unit.index('1') :]}"
    amount = _AMOUNT.match(unit)
    multiple = unit if amount is None else f"{amount[2]}{unit[amount.end() :].strip()}"
    tells = re.search(r"[^\W\d_]|^[%‰°$€£¥]", multiple) if found[1] else _is_unit(multiple)
    shown = unit.lstrip("/") if amount is None else f"× {unit[amount.end(1) :]}"
    return f" {shown}" if tells else ""


_AMOUNT = re.compile(r"((?:in\s+)?)([$€£¥]|[A-Z]{3}\b|)\s*1(?:0+|(?:[ ,.'’]000)+)(?![\w.,/-])")
"""How a unit begins that is a multiple of another, $1,000 or 100 km: behind a number it needs a sign between them, or both read as a range."""

_HIGH = "⁰¹²³⁴-⁹"
_FACTOR = re.compile(
    rf"(?:[x×*·]\s*)?(10\s*(?:\^|\*\*)\s*[-+−]?\d{{1,2}}|10[⁻⁺]?[{_HIGH}]{{1,2}}|1e[-+]?\d{{1,2}})(?![\w.])|[x×*·]\s*(1(?:[ ,.'’]?000)+)(?![\w.])",
    re.I,
)


def factor_of(unit: str) -> str:
    """The power of ten that a unit begins with, in small letters; empty: there is none.

    >>> factor_of("10^6 kg"), factor_of("10⁻³"), factor_of("x1000"), factor_of("1E3 m³"), factor_of("10 kg"), factor_of("1/min")
    ('10^6', '10⁻³', '1000', '1e3', '', '')
    """
    found = _FACTOR.match(unit)
    return (found[1] or found[2]).lower() if found else ""


_SYMBOLS = (
    "m g s A K mol cd N Pa J W V Ω ohm Ohm Hz C F H T lm lx Bq Gy Sv L l t eV bar cal Wh Ah VA var dB rad deg U M B b bit at"
)
_PREFIXES = ("", "Y", "Z", "E", "P", "T", "G", "M", "k", "h", "da", "d", "c", "m", "u", "µ", "μ", "n", "p", "f", "a")
_WORDS = (
    "h hr hrs hour hours min mins minute minutes sec secs second seconds d day days wk week weeks month months mo yr yrs year years a ha ar rpm rps bpm Hz ppm ppb ppt psi atm torr Torr "
    "mmHg mph mpg kmh knots kn mi mile miles ft foot feet in inch inches yd yards lb lbs oz gal pt kcal degC degF degK degree degrees degr percent pct points pts USD EUR GBP CHF JPY CAD AUD "
    "dollar dollars euro euros cents units unit cells counts count pcs pieces people persons meter meters metre metres grams gram liters litres px pixel pixels cfu CFU pH au AU x"
)
_UNITS = frozenset(prefix + symbol for prefix in _PREFIXES for symbol in _SYMBOLS.split()) | frozenset(_WORDS.split())


def _is_unit(text: str) -> bool:
    """Whether what stands in round brackets is a unit: it begins with one that is known, and goes on with known ones or below a stroke."""
    if re.match(r"[%‰°$€£¥]", text):
        return True
    words = re.findall(r"[^\W\d_⁰¹²³⁴-⁹]+", text)
    return bool(words) and words[0] in _UNITS and (all(word in _UNITS for word in words) or "/" in text)


def without_brackets(text: str) -> str:
    """A text without the brackets around all of it.

    >>> without_brackets("[m]"), without_brackets("(dB(A))"), without_brackets("(m)/(s)"), without_brackets("dB(A)")
    ('m', 'dB(A)', '(m)/(s)', 'dB(A)')
    """
    found = _IN_BRACKETS.fullmatch(text.strip())
    return (found[1] or found[2]).strip() if found else text.strip()
