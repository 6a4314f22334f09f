"""Forecaster: a model of the next value of a series, iterated on its own predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from manifoldgp._system.plain_text import counted
from manifoldgp._system.real_numbers import as_numbers
from manifoldgp.averaging import Single
from manifoldgp.data import inputs
from manifoldgp.data.series import EvenSeries, even_series
from manifoldgp.errors import FileFormatError, InputError
from manifoldgp.estimators import model_file
from manifoldgp.estimators.forecasting import Forecast, Windows, by_draws, by_moments, model_that_goes_on
from manifoldgp.estimators.manifold_gp import ManifoldGPRegressor
from manifoldgp.estimators.plain_gp import GPRegressor
from manifoldgp.features import Circle
from manifoldgp.kernels import Kernel, SquaredExponential
from manifoldgp.structure.base_kernels import periods_in, without_trend

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from pandas import DataFrame, Series

    from manifoldgp.data.inputs import RandomState
    from manifoldgp.training.progress import Callback

_WINDOW = 12
"""Values that a window has where nothing else is known."""

_STARTS, _ITERATIONS = 3, 200
"""How the default model is trained."""

_DRAWS = 300
"""Futures that a forecast draws."""

_LEAST_ROWS = 8
"""Windows with a next value that a model is fitted to, at least."""


class Forecaster(BaseEstimator):
    """Long-term forecasts: a Gaussian process predicts the next change of a series from a window of its last values, and goes on from what it predicted.

    Parameters
    ----------
    regressor
        The model of the next change: `ManifoldGPRegressor`, `GPRegressor` or `KernelSearch`. None: a plain GP with the squared exponential kernel, times a periodic one where there is a period.
    lags
        How many of the last values the model sees, or which: ``(1, 2, 12)``. None: one period and one more, twelve where there is no period.
    period
        Steps after which things repeat (12 for the year in months): the model sees where in the period a step is, on a circle, by the periodic kernel in MacKay's form.
        "learned": the period is a parameter of the model, which starts at the strongest peak of the periodogram; not with a regressor of your own. None: no period.
    difference
        What the window holds: True, changes from one value to the next, so that a trend goes on beyond all values seen so far; False, the values themselves, which hold
        a series that has a level to it.
    random_state
        Draws the starts of the default model, and futures.
    callback
        Watches the training of the default model, as in `ManifoldGPRegressor`; a regressor of your own has one itself.

    Attributes
    ----------
    regressor_ : ManifoldGPRegressor
        The fitted model.
    lags_, period_
        What was taken; the period in steps, None without one.
    series_ : EvenSeries
        The values so far, with their times.

    Examples
    --------
    >>> t = np.arange(80)
    >>> model = Forecaster(lags=4).fit(0.1 * t + np.sin(t / 3))
    >>> forecast = model.forecast(10)
    >>> forecast.mean.shape, forecast.interval(0.9).shape
    ((10,), (10, 2))
    """

    regressor_: ManifoldGPRegressor
    lags_: tuple[int, ...]
    period_: float | None
    series_: EvenSeries
    _windows: Windows
    _inputs: np.ndarray | None

    def __init__(
        self,
        regressor: ManifoldGPRegressor | None = None,
        *,
        lags: int | Sequence[int] | None = None,
        period: float | str | None = None,
        difference: bool = True,
        random_state: RandomState = 0,
        callback: Callback | None = None,
    ) -> None:
        self.regressor = regressor
        self.lags = lags
        self.period = period
        self.difference = difference
        self.random_state = random_state
        self.callback = callback

    def fit(self, y: ArrayLike | Series | DataFrame, X: ArrayLike | None = None) -> Forecaster:
        """Learn from a series.

        Parameters
        ----------
        y : (N,) or (N, O)
            Values at even steps, in order of time: an array; or a Series or DataFrame of pandas whose index holds dates, periods or numbers, or which has one column of dates.
            Windows with a missing value (NaN) are left out. Several series see each other's windows and are forecast together.
        X : (N, D)
            Further inputs of each step that are known beforehand; `forecast` then needs those of the steps to come.
        """
        series = even_series(y)
        further = _further(X, len(series), "fit")
        guess = self._period(series)
        lags = self._lags(guess)
        learned = isinstance(self.period, str)
        windows = Windows(lags, self._difference(), None if learned else guess, learned)
        rows, changes = windows.rows(series.values, further)
        if len(rows) < _LEAST_ROWS:
            raise InputError(
                f"{counted(len(series), 'value')} hold {counted(len(rows), 'window')} of {windows.length} without gaps and with a next value; {_LEAST_ROWS} are needed. "
                "Give more values, or fewer lags."
            )
        model = self._model(windows, series.values.shape[1], rows, guess)
        self.regressor_ = model.fit(rows, _targets(changes))
        self._windows, self.series_, self._inputs, self.lags_ = windows, series, further, lags
        self.period_ = self._learned_period() if windows.clock else guess
        return self

    def forecast(
        self,
        horizon: int,
        X: ArrayLike | None = None,
        *,
        method: str = "draws",
        draws: int | None = None,
        random_state: RandomState = None,
    ) -> Forecast:
        """The next ``horizon`` values.

        Parameters
        ----------
        horizon
            How many.
        X : (horizon, D)
            The further inputs of these steps, where fit was given some.
        method
            "draws": whole futures, each one function of the posterior that is iterated on its own values with their noise; right for every model, whatever shape the
            distribution takes. "moments": a Gaussian is handed on from step to step, its moments exact at each (in closed form where the model has one); quick and smooth, but
            it takes what the model does not know for new at each step, where a draw is wrong in the same way all along.
        draws
            How many futures, 300 where it is not given; moments draw none.
        random_state
            Draws them; None for the forecaster's own.
        """
        check_is_fitted(self)
        horizon = inputs.whole_number(horizon, "horizon")
        series, windows = self.series_, self._windows
        past = series.values[::-1][: windows.length]
        if not np.isfinite(past).all():
            raise InputError(
                f"One of the last {counted(windows.length, 'value')} is missing, and a forecast goes on from them. Fill it in, by y.interpolate() for example."
            )
        further = _further(X, horizon, "forecast")
        if (further is None) != (self._inputs is None) or (
            further is not None and self._inputs is not None and further.shape[1] != self._inputs.shape[1]
        ):
            expected = "no X" if self._inputs is None else f"X ({horizon}, {self._inputs.shape[1]})"
            raise InputError(f"forecast takes {expected}, as fit did; got {'none' if further is None else further.shape}.")
        known = windows.known(len(series) + np.arange(horizon), further)
        times = series.following(horizon)
        shape = (horizon,) if series.flat else (horizon, past.shape[1])
        if method == "draws":
            count = _DRAWS if draws is None else inputs.whole_number(draws, "draws", 2)
            futures = by_draws(
                self.regressor_, windows, past, known, count, self.random_state if random_state is None else random_state
            )
            futures = futures.reshape(count, *shape)
            return _usable(Forecast(futures.mean(0), futures.std(0), times, method, draws=futures, names=series.names))
        if method != "moments":
            raise InputError(f"method must be 'draws' or 'moments'; got {method!r}.")
        if draws is not None:
            raise InputError(f"method='moments' draws no futures. Leave out draws={draws}, or use method='draws'.")
        mean, C = by_moments(self.regressor_, windows, past, known)
        std = np.sqrt(np.diag(C))
        return _usable(Forecast(mean.reshape(shape), std.reshape(shape), times, method, covariance=C, names=series.names))

    def update(self, y: ArrayLike | Series | DataFrame, X: ArrayLike | None = None) -> Forecaster:
        """Condition on the values that came next, without training again; further inputs X (n, D) where fit was given some."""
        check_is_fitted(self)
        more = even_series(y, self.series_.step)
        before, further = len(self.series_), _further(X, len(more), "update")
        if (further is None) != (self._inputs is None):
            raise InputError(f"update takes {'no X' if self._inputs is None else 'X'}, as fit did.")
        series = self.series_.extended(more)
        joined = further if further is None or self._inputs is None else np.concatenate([self._inputs, further])
        rows, changes = self._windows.rows(series.values, joined, first=before)
        if len(rows):
            self.regressor_.update(rows, _targets(changes))
        self.series_, self._inputs = series, joined
        return self

    def save(self, path: str | Path) -> None:
        """Write the fitted forecaster, with its series, to one file that `Forecaster.load` reads; no pickle. ``manifoldgp.load`` gives its regression alone."""
        check_is_fitted(self)
        plain = self._given() | {
            "windows": asdict(self._windows),
            "series": self.series_.to_plain(),
            "inputs": None if self._inputs is None else self._inputs.tolist(),
            "period_": self.period_,
        }
        model_file.save_with_part(self.regressor_, path, "forecast", plain)

    def _given(self) -> dict[str, Any]:
        """The arguments as plain data: of NumPy's numbers and of ranges JSON knows nothing."""
        return {
            "lags": _plain_lags(self.lags),
            "period": _plain_period(self.period),
            "difference": self._difference(),
            "default": self.regressor is None,
            "random_state": int(self.random_state) if isinstance(self.random_state, (int, np.integer)) else None,
        }

    @classmethod
    def load(cls, path: str | Path, device: str = "cpu") -> Forecaster:
        """The fitted forecaster in a file; device: where it is to predict."""
        regressor, plain = model_file.load_with_part(path, "forecast", "forecaster", device)
        try:
            return cls._from_plain(plain, regressor)
        except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
            raise FileFormatError(f"{path} is incomplete or inconsistent ({error}).") from error

    @classmethod
    def _from_plain(cls, plain: dict[str, Any], regressor: ManifoldGPRegressor) -> Forecaster:
        if not isinstance(regressor, ManifoldGPRegressor):
            raise ValueError(f"its regression is a {type(regressor).__name__}, which draws no functions")
        copied: Any = None if plain["default"] else clone(regressor)
        model = cls(
            copied, lags=_plain_lags(plain["lags"]), period=_plain_period(plain["period"]), difference=plain["difference"],
            random_state=_seed_of_file(plain["random_state"]),
        )  # fmt: skip
        model._difference()
        series, windows = EvenSeries.from_plain(plain["series"]), _windows_of_file(plain["windows"])
        model.regressor_, model.series_, model._windows, model.lags_ = regressor, series, windows, windows.lags
        model._inputs = _further(plain["inputs"], len(series), "fit")
        model.period_ = None if plain["period_"] is None else inputs.positive_number(plain["period_"], "period")
        if windows.length >= len(series):  # before anything of that size is made
            raise ValueError(f"its windows have {counted(windows.length, 'value')}, and its series {len(series)}")
        known, width = windows.known(np.arange(0), None if model._inputs is None else model._inputs[:0]), series.values.shape[1]
        if (len(windows.lags) * width + known.shape[1], width) != (regressor.n_features_in_, regressor.n_outputs_):
            raise ValueError("its regression has other columns than its windows")
        return model

    def _period(self, series: EvenSeries) -> float | None:
        """The period in steps: given, or guessed from the first series where it is to be learned."""
        if self.period is None:
            return None
        if self.period != "learned":
            if isinstance(self.period, str):
                raise InputError(f"period must be a number of steps, 'learned' or None; got {self.period!r}.")
            return inputs.positive_number(self.period, "period")
        if self.regressor is not None:
            raise InputError(
                "period='learned' is a part of the default model. Give a number, or a regressor whose features have a Circle."
            )
        whole = np.isfinite(series.values[:, 0])
        t, values = np.arange(len(series))[whole].astype(float), series.values[whole, 0]
        found = periods_in(t, [without_trend(t, values)]) if len(t) > 3 else ()
        if not found:
            raise InputError("The series is too short for a period to be seen. Give a number, or period=None.")
        return found[0]

    def _lags(self, period: float | None) -> tuple[int, ...]:
        if self.lags is None:
            return tuple(range(1, (_WINDOW if period is None else round(period) + 1) + 1))
        if isinstance(self.lags, (int, np.integer)):
            return tuple(range(1, inputs.whole_number(self.lags, "lags") + 1))
        return _distinct(self.lags)

    def _difference(self) -> bool:
        if not isinstance(self.difference, (bool, np.bool_)):
            raise InputError(f"difference must be True or False; got {self.difference!r}.")
        return bool(self.difference)

    def _model(self, windows: Windows, width: int, rows: np.ndarray, period: float | None) -> ManifoldGPRegressor:
        """The model, not yet fitted."""
        if self.regressor is not None:
            if self.callback is not None:
                raise InputError("callback watches the default model. Give it to the regressor instead.")
            return model_that_goes_on(self.regressor, "A forecast")
        seen = len(windows.lags) * width
        if (
            windows.clock
        ):  # the features are [window, further inputs, cos, sin], and the model sees time in units of its standard deviation
            assert period is not None
            circle, kernel = (
                Circle((seen,), (period / float(rows[:, seen].std()),)),
                _with_season(rows.shape[1] + 1, rows.shape[1] - 1),
            )
            averaging = Single(_STARTS, max_iter=_ITERATIONS)
            return ManifoldGPRegressor(
                circle, kernel, averaging=averaging, random_state=self.random_state, callback=self.callback
            )
        kernel = SquaredExponential() if period is None else _with_season(rows.shape[1], seen)
        return GPRegressor(kernel, restarts=_STARTS, max_iter=_ITERATIONS, random_state=self.random_state, callback=self.callback)

    def _learned_period(self) -> float:
        ensemble, column = self.regressor_.ensembles_[0], len(self.lags_) * self.series_.values.shape[1]
        period: Any = ensemble.blocks[0].values["features"]["period"]
        return float(period[0, 0]) * float(self.regressor_.x_scaler_.scale[column])

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "regressor_")


def _distinct(lags: Sequence[int]) -> tuple[int, ...]:
    chosen = tuple(sorted(inputs.whole_number(lag, "lags") for lag in lags))
    if not chosen or len(set(chosen)) < len(chosen):
        raise InputError(f"lags must be a number of values, or different ones, 1 for the last; got {lags!r}.")
    return chosen


def _plain_lags(lags: Any) -> int | tuple[int, ...] | None:
    """The argument for a file or from one, which may be forged; a number is not counted out, it may be of any size."""
    if lags is None:
        return None
    return inputs.whole_number(lags, "lags") if isinstance(lags, (int, np.integer)) else _distinct(lags)


def _plain_period(plain: Any) -> float | str | None:
    return plain if plain is None or (isinstance(plain, str) and plain == "learned") else inputs.positive_number(plain, "period")


def _seed_of_file(plain: Any) -> int | None:
    if plain is not None and not (isinstance(plain, int) and 0 <= plain < 2**32):
        raise ValueError(f"random_state {plain!r}")
    return plain


def _windows_of_file(plain: dict[str, Any]) -> Windows:
    windows = Windows(**{**plain, "lags": _distinct(plain["lags"])})
    if not (isinstance(windows.differences, bool) and isinstance(windows.clock, bool)):
        raise ValueError("its windows say neither yes nor no")
    if windows.period is not None:
        inputs.positive_number(windows.period, "period")
    return windows


def _with_season(width: int, circle: int) -> Kernel:
    """The squared exponential of all features but the circle's two, which begin at number ``circle``, times the periodic kernel."""
    around = (circle, circle + 1)
    others = tuple(d for d in range(width) if d not in around)
    return SquaredExponential(dims=others) * SquaredExponential(dims=around, ard=False, amplitude=False)


def _targets(changes: np.ndarray) -> np.ndarray:
    """As estimators take them: (N,) for one series."""
    return changes[:, 0] if changes.shape[1] == 1 else changes


def _usable(forecast: Forecast) -> Forecast:
    """The forecast, unless numbers became too large on the way."""
    if not (np.isfinite(forecast.mean).all() and np.isfinite(forecast.std).all()):
        raise InputError(
            "The forecast grows beyond all numbers. Look whether the last values of the series are right, or forecast fewer steps."
        )
    return forecast


def _further(X: ArrayLike | None, rows: int, where: str) -> np.ndarray | None:
    if X is None:
        return None
    A = as_numbers(X, f"X of {where}")
    A = A[:, None] if A.ndim == 1 else A
    if A.ndim != 2 or len(A) != rows or not np.isfinite(A).all():
        raise InputError(f"X of {where} must be finite numbers, one row a step ({rows}); got shape {A.shape}.")
    return A
