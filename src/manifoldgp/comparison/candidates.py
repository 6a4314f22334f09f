"""The models that a comparison tries, by short names: "mean", "linear", "gp:matern32", "forest", "boosting", "mgp:stack", ...

A name with a colon hands the word behind it to an estimator of this package: ``gp:WORD`` is ``GPRegressor(kernel=WORD)``, so that every registered kernel can be
compared, ``mgp:WORD`` is ``ManifoldGPRegressor(averaging=WORD)``, and ``deepgp:NUMBER`` is ``DeepGPRegressor(layers=NUMBER)``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

from sklearn.base import BaseEstimator

from manifoldgp.comparison import peers
from manifoldgp.errors import InputError


@dataclass(frozen=True)
class Candidate:
    """A model to try.

    Attributes
    ----------
    name, title
        Its short name, and what it is in words.
    build
        Makes an unfitted estimator from a seed.
    seconds
        About how long a fit to so many rows takes, on a usual core: for the time left, and for its share of a budget.
    """

    name: str
    title: str
    build: Callable[[int], BaseEstimator]
    seconds: Callable[[int], float]


def _linear(at_once: float, a_row: float = 0.0) -> Callable[[int], float]:
    """Seconds of a fit that grow with the rows."""
    return lambda rows: at_once + a_row * rows


def _as_plain_gps(count: float, at_once: float = 0.0) -> Callable[[int], float]:
    """Seconds of so many fits of a plain GP with five starts, which beyond some thousand rows is not exact any more."""
    return lambda rows: at_once + count * (0.05 + 6.5 * (min(rows, 3000) / 800) ** 2.4)


def _stack_seconds(rows: int) -> float:
    """Of few rows it learns several times, of many from a sample first."""
    return 3.0 + 5.0 * (min(rows, 5000) / 800) ** 1.5


_DEFAULT_KERNELS = ("se", "matern32", "matern52", "rq", "additive", "auto")
_DEFAULT_AVERAGES = ("fast", "stack")
_KERNEL_TITLES = {
    "se": "squared exponential",
    "matern12": "Matérn 1/2",
    "matern32": "Matérn 3/2",
    "matern52": "Matérn 5/2",
    "rq": "rational quadratic",
    "auto": "best kernel on held-out rows",
}

_SIMPLE = {
    "mean": Candidate("mean", "always the mean", peers.mean, _linear(0.003)),
    "linear": Candidate("linear", "linear model (Bayesian ridge)", peers.linear, _linear(0.005)),
}
_TREES = {
    "forest": Candidate("forest", "random forest", peers.forest, _linear(0.8, 0.003)),
    "boosting": Candidate("boosting", "gradient boosting (scikit-learn)", peers.boosting, _linear(0.3, 0.001)),
}
_INSTALLED = {
    "lightgbm": Candidate("lightgbm", "LightGBM", peers.lightgbm, _linear(0.05, 0.0002)),
    "catboost": Candidate("catboost", "CatBoost", peers.CatBoost, _linear(1.0, 0.001)),
    "ngboost": Candidate("ngboost", "NGBoost", peers.NGBoost, _linear(2.0, 0.003)),
    "tabpfn": Candidate("tabpfn", "TabPFN", peers.tabpfn, _linear(2.0, 0.003)),
}
_USUAL_ROWS = 500
"""Rows for which the default models are put in order."""


def default_names() -> list[str]:
    """The models that are compared unless somebody chooses, the quick ones first: a budget of time ends with the slow ones. Other packages where they are installed.

    Deep GPs, which take minutes on a hundred rows, wait until they are asked for.
    """
    kernels = [f"gp:{word}" for word in _DEFAULT_KERNELS if _known_kernel(word)]
    others = [name for name in _INSTALLED if find_spec(name) is not None]
    names = [*_SIMPLE, *kernels, *_TREES, *others, *(f"mgp:{word}" for word in _DEFAULT_AVERAGES)]
    return sorted(names, key=lambda name: _named(name).seconds(_USUAL_ROWS))


def chosen(models: Sequence[str] | Mapping[str, BaseEstimator] | None) -> list[Candidate]:
    """Candidates from names, from a user's own estimators by name, or the default ones."""
    if isinstance(models, Mapping):
        found = [_users(str(name), estimator) for name, estimator in models.items()]
    elif isinstance(models, str):
        raise InputError(f"models must be a list of names, such as ['linear', 'gp:se'], or estimators by name; got {models!r}.")
    else:
        found = [_named(name) for name in (default_names() if models is None else models)]
    names = [candidate.name for candidate in found]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if not found or repeated:
        raise InputError(f"Name every model once, and at least one; got {', '.join(map(repr, names)) or 'none'}.")
    return found


def _named(name: str) -> Candidate:
    kind, colon, word = str(name).partition(":")
    if colon and kind == "gp" and _known_kernel(word):
        return Candidate(name, f"plain GP, {_KERNEL_TITLES.get(word, word)}", peers.Plain(word), _seconds_of_kernel(word))
    if colon and kind == "mgp" and _known_average(word):
        return Candidate(name, f"manifold GP, {word}", peers.Manifold(word), _seconds_of_average(word))
    if colon and kind == "deepgp" and word.isdecimal() and int(word) > 0:
        return _deep(name, int(word))
    if name in _INSTALLED and find_spec(name) is None:
        raise InputError(f"The model {name!r} needs the package {name}, which is not installed. Run: pip install {name}")
    known = {**_SIMPLE, **_TREES, **_INSTALLED}
    if name in known:
        return known[name]
    raise InputError(
        f"There is no model {name!r}. Known: {', '.join(known)}, gp:KERNEL (gp:se, gp:matern32, ...), mgp:AVERAGING (mgp:stack, mgp:fast, ...), "
        "deepgp:LAYERS (deepgp:2, deepgp:3)."
    )


def _deep(name: str, layers: int) -> Candidate:
    if find_spec("gpytorch") is None:
        raise InputError(f"The model {name!r} needs GPyTorch, which is not installed. Run: pip install 'manifoldgp[gpytorch]'")
    return Candidate(
        name, f"deep GP, {layers} layer{'s' * (layers > 1)}", peers.Deep(layers), _linear(30.0 * layers, 0.3 * layers)
    )


def _users(name: str, estimator: BaseEstimator) -> Candidate:
    if not (hasattr(estimator, "fit") and hasattr(estimator, "predict") and hasattr(estimator, "get_params")):
        raise InputError(
            f"Model {name!r} must be a scikit-learn estimator with fit and predict; got a {type(estimator).__name__}."
        )
    return Candidate(name, name, peers.Given(estimator), _linear(0.1))


def _known_kernel(word: str) -> bool:
    """Whether a plain GP takes this word for its kernel; "auto" tries several on held-out rows."""
    from manifoldgp.kernels import as_kernel

    try:
        return word == "auto" or as_kernel(word) is not None
    except InputError:
        return False


def _known_average(word: str) -> bool:
    from manifoldgp.averaging import AVERAGINGS

    return word in AVERAGINGS


def _seconds_of_kernel(word: str) -> Callable[[int], float]:
    return _as_plain_gps(8.0, at_once=2.0) if word == "auto" else _as_plain_gps({"rq": 1.6, "additive": 4.0}.get(word, 1.0))


def _seconds_of_average(word: str) -> Callable[[int], float]:
    return _stack_seconds if word == "stack" else _as_plain_gps({"fast": 1.1, "single": 4.0, "restarts": 4.0}.get(word, 40.0))
