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
    cost
        About how long it takes, in units of a plain GP's fit: for the time left, before it is known.
    """

    name: str
    title: str
    build: Callable[[int], BaseEstimator]
    cost: float = 1.0


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
    "mean": Candidate("mean", "always the mean", peers.mean, 0.01),
    "linear": Candidate("linear", "linear model (Bayesian ridge)", peers.linear, 0.02),
}
_TREES = {
    "forest": Candidate("forest", "random forest", peers.forest, 10.0),
    "boosting": Candidate("boosting", "gradient boosting (scikit-learn)", peers.boosting, 3.0),
}
_INSTALLED = {
    "lightgbm": Candidate("lightgbm", "LightGBM", peers.lightgbm, 0.5),
    "catboost": Candidate("catboost", "CatBoost", peers.CatBoost, 6.0),
    "ngboost": Candidate("ngboost", "NGBoost", peers.NGBoost, 30.0),
    "tabpfn": Candidate("tabpfn", "TabPFN", peers.tabpfn, 10.0),
}


def default_names() -> list[str]:
    """The models that are compared unless somebody chooses, the quick ones first: a budget of time ends with the slow ones. Other packages where they are installed.

    Deep GPs, which take minutes on a hundred rows, wait until they are asked for.
    """
    kernels = [f"gp:{word}" for word in _DEFAULT_KERNELS if _known_kernel(word)]
    others = [name for name in _INSTALLED if find_spec(name) is not None]
    names = [*_SIMPLE, *kernels, *_TREES, *others, *(f"mgp:{word}" for word in _DEFAULT_AVERAGES)]
    return sorted(names, key=lambda name: _named(name).cost)


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
        return Candidate(name, f"plain GP, {_KERNEL_TITLES.get(word, word)}", peers.Plain(word), 40.0 if word == "auto" else 1.0)
    if colon and kind == "mgp" and _known_average(word):
        return Candidate(name, f"manifold GP, {word}", peers.Manifold(word), _cost_of(word))
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
    return Candidate(name, f"deep GP, {layers} layer{'s' * (layers > 1)}", peers.Deep(layers), 30.0 * layers)


def _users(name: str, estimator: BaseEstimator) -> Candidate:
    if not (hasattr(estimator, "fit") and hasattr(estimator, "predict") and hasattr(estimator, "get_params")):
        raise InputError(
            f"Model {name!r} must be a scikit-learn estimator with fit and predict; got a {type(estimator).__name__}."
        )
    return Candidate(name, name, peers.Given(estimator), 4.0)


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


def _cost_of(average: str) -> float:
    return {"fast": 2.0, "stack": 12.0, "single": 4.0, "restarts": 4.0}.get(average, 40.0)
