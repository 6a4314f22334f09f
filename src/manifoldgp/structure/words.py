"""A product of base kernels in words: a yearly period whose amplitude grows with year, a smooth function of x, an interaction of x and z."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from manifoldgp._system.plain_text import unit_of
from manifoldgp.kernels import (
    Constant,
    Kernel,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    NeuralNetwork,
    Periodic,
    RationalQuadratic,
    SquaredExponential,
    Switch,
)
from manifoldgp.structure.expressions import Valued
from manifoldgp.structure.normal_form import factors_of

_ROUGH = (Matern12, Matern32)
_VARYING = (SquaredExponential, RationalQuadratic, Matern12, Matern32, Matern52, NeuralNetwork)

_CALENDAR = (("year", 1.0, "yearly"), ("month", 12.0, "yearly"), ("week", 52.18, "yearly"), ("day", 365.25, "yearly"), ("day", 7.0, "weekly"),
             ("hour", 24.0, "daily"), ("hour", 168.0, "weekly"), ("date", 1.0, "yearly"))  # fmt: skip
"""What a period is called, by a word in the name of its input and its length there."""

_SAME_PERIOD = 0.03


@dataclass(frozen=True)
class InputWords:
    """An input as its user knows it: its name, its range, and how to come back from the model's units.

    unit: what stands behind its lengths. column: of a date, the name in the table, without a unit; date: what such a number says.
    """

    name: str
    low: float
    high: float
    offset: float
    scale: float
    unit: str = ""
    column: str | None = None
    date: Callable[[float], str] | None = None

    @property
    def called(self) -> str:
        """What it is called in a sentence."""
        return self.column or self.name

    def place(self, value: float) -> float:
        """A place in the user's units."""
        return self.offset + self.scale * value

    def length(self, value: float) -> str:
        """A length in the user's units, with the unit.

        >>> InputWords("time [s]", 0.0, 1.0, 0.0, 1.0, " s").length(0.25)
        '0.25 s'
        """
        return f"{number(value)}{self.unit}"

    def at(self, place: float) -> str:
        """A place, given in the user's units: a date as one.

        >>> InputWords("time [s]", 0.0, 1.0, 0.0, 1.0, " s").at(0.25), InputWords("x", 0.0, 1.0, 0.0, 1.0, " s").at(0.25)
        ('time [s] = 0.25', 'x = 0.25 s')
        """
        if self.date is not None:
            return self.date(round(place))
        return f"{self.called} = {number(place)}{'' if unit_of(self.name) else self.unit}"

    @property
    def range(self) -> float:
        return self.high - self.low


def words_of(part: Valued, inputs: Sequence[InputWords]) -> str:
    """A product of base kernels in words."""
    factors = factors_of(part)
    switches = [f for f in factors if isinstance(f.kernel, Switch)]
    others = [f for f in factors if not isinstance(f.kernel, (Switch, Constant))]
    seen = sorted({d for f in others for d in (f.kernel.dims or range(len(inputs)))})
    if not others:
        words = "a constant level" if switches else "a constant"
    elif len(seen) == 1:
        words = _of_one_input(others, inputs[seen[0]])
    elif len(others) == 1:
        words = f"a smooth function of {listed([inputs[d].called for d in seen])} together"
    else:
        words = _interaction(others, inputs, seen)
    return words + "".join(_switched(switch, inputs) for switch in switches)


def listed(names: Sequence[str]) -> str:
    """Names with commas and an "and".

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def number(value: float) -> str:
    """Three digits, or whole numbers where there are more before the point.

    >>> number(1958.24), number(0.02347), number(12.0)
    ('1958', '0.0235', '12')
    """
    return f"{value:.0f}" if 100 <= abs(value) < 1e6 else f"{value:.3g}"


def _of_one_input(factors: list[Valued], x: InputWords) -> str:
    lines = [f for f in factors if isinstance(f.kernel, Linear)]
    periods = [f for f in factors if isinstance(f.kernel, Periodic)]
    varying = [f for f in factors if isinstance(f.kernel, _VARYING)]
    if not periods and not varying:
        degree = {1: "a linear trend in", 2: "a parabola in"}.get(len(lines), f"a polynomial of degree {len(lines)} in")
        return f"{degree} {x.called}"
    head, clauses = (_period(periods[0], x), []) if periods else _smooth(varying[0], x)
    further = [f"times {_period(p, x)}" for p in periods[1:]]
    turn = min((_turn(p, x) for p in periods), default=0.0)
    clauses += [_change(f, x, turn) for f in (varying if periods else varying[1:]) if not _unchanging(f, x)]
    clauses += [f"whose amplitude {_amplitude(lines, x)}"] if lines else []
    return " ".join([head, *further, *([_joined(clauses)] if clauses else [])])


def _joined(clauses: Sequence[str]) -> str:
    """Clauses of a sentence, with a comma before the last one where there are others.

    >>> _joined(["that grows"]), _joined(["that varies", "whose amplitude grows"]), _joined(["that varies, over 3", "whose amplitude grows"])
    ('that grows', 'that varies and whose amplitude grows', 'that varies, over 3, and whose amplitude grows')
    """
    if len(clauses) == 1:
        return clauses[0]
    comma = "," if len(clauses) > 2 or any("," in clause for clause in clauses) else ""
    return f"{', '.join(clauses[:-1])}{comma} and {clauses[-1]}"


def _turn(factor: Valued, x: InputWords) -> float:
    return float(factor.values["period"][0]) * x.scale


def _period(factor: Valued, x: InputWords) -> str:
    length = _turn(factor, x)
    for word, usual, called in _CALENDAR:
        if word in x.name.lower() and abs(length / usual - 1) < _SAME_PERIOD:
            return f"a {called} period"
    return f"a period of {x.length(length)} in {x.called}"


def _smooth(factor: Valued, x: InputWords) -> tuple[str, list[str]]:
    """What a factor is, and a clause that says more."""
    kind = factor.kernel
    if isinstance(kind, NeuralNetwork):
        return f"a function of {x.called}", ["that is steeper in some places than in others"]
    length = _length(factor, x)
    rough = "rough" if isinstance(kind, _ROUGH) else "smooth"
    several = ", on several scales at once" if isinstance(kind, RationalQuadratic) else ""
    if length > 0.5 * x.range:
        return f"a slow, {rough} trend over {x.called}{several}{',' if several else ''}", []
    quick = "quick, " if length < 0.05 * x.range else ""
    return f"a {quick}{rough} function of {x.called}", [f"that varies over about {x.length(length)}{several}"]


def _length(factor: Valued, x: InputWords) -> float:
    return float(factor.values["lengthscale"][0]) * x.scale


def _unchanging(factor: Valued, x: InputWords) -> bool:
    """Whether a factor is a constant over all rows but for its name."""
    return "lengthscale" in factor.values and _length(factor, x) > 10 * x.range


def _change(factor: Valued, x: InputWords, turn: float) -> str:
    """What a factor does to the shape of a part. turn: the shortest of its periods, 0 without one; what changes within it hardly repeats."""
    if isinstance(factor.kernel, NeuralNetwork):
        return f"whose shape changes around one place of {x.called}"
    length = _length(factor, x)
    slowly = " slowly," if length > 0.05 * x.range and length >= turn else ""
    sooner = ", sooner than it comes round" if length < turn else ""
    return f"whose shape changes{slowly} over about {x.length(length)}{sooner}"


def _amplitude(lines: Sequence[Valued], x: InputWords) -> str:
    """What factors that are lines do to the size of the others, which they let vanish at their origins."""
    origins = [x.place(float(line.values["origin"][0])) if "origin" in line.values else x.offset for line in lines]
    low, high = x.low + 0.2 * x.range, x.high - 0.2 * x.range
    inside = sorted(origin for origin in origins if low < origin < high)
    rises = sum(origin <= low for origin in origins) - sum(origin >= high for origin in origins)
    if inside:
        later = ("late" if rises > 0 else "early") + " dates" if x.date else f"{'large' if rises > 0 else 'small'} {x.called}"
        most = f", most towards {later}" if rises else ""
        return f"is smallest near {listed([x.at(origin) for origin in inside])} and grows to both sides{most}"
    return f"{'grows' if rises > 0 else 'shrinks'} with {x.called}" if rises else f"is largest in the middle of {x.called}"


def _interaction(factors: list[Valued], inputs: Sequence[InputWords], seen: Sequence[int]) -> str:
    ways = [_way(factor, inputs) for factor in factors]
    return f"an interaction of {listed([inputs[d].called for d in seen])}: {listed(ways)}"


def _way(factor: Valued, inputs: Sequence[InputWords]) -> str:
    kind, x = factor.kernel, inputs[(factor.kernel.dims or (0,))[0]]
    if kind.dims is None or len(kind.dims) > 1:
        return "smooth in all together"
    if isinstance(kind, Periodic):
        return f"periodic in {x.called} (period {x.length(_turn(factor, x))})"
    return f"{_adjective(kind)} in {x.called}"


def _adjective(kind: Kernel) -> str:
    if isinstance(kind, Linear):
        return "linear"
    if isinstance(kind, NeuralNetwork):
        return "levelling off"
    return (
        "rough" if isinstance(kind, _ROUGH) else "smooth on several scales" if isinstance(kind, RationalQuadratic) else "smooth"
    )


def _switched(switch: Valued, inputs: Sequence[InputWords]) -> str:
    assert isinstance(switch.kernel, Switch)
    x = inputs[(switch.kernel.dims or (switch.kernel.on,))[0]]
    place = x.at(x.place(float(switch.values["location"][0])))
    return f", from about {place} on" if switch.kernel.rising else f", until about {place}"
