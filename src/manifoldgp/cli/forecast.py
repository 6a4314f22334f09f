"""``mgp forecast``: from a table with a series to its next values."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from manifoldgp._system.plain_text import counted, option, verb
from manifoldgp.cli._interruption import Interruption
from manifoldgp.cli._messages import Messages, print_json
from manifoldgp.cli._options import TABLE_HELP, Json, Quiet, pictures_of, refuse_overwriting
from manifoldgp.cli._training_table import warn_of_nines

if TYPE_CHECKING:
    from manifoldgp import Forecaster
    from manifoldgp.estimators.forecasting import Forecast


def forecast(
    file: Annotated[str, typer.Argument(help=f"Table with the series, rows in order of time. {TABLE_HELP}", metavar="TABLE")],
    target: Annotated[list[str], typer.Option("--target", "-t", help="Column to forecast; can be repeated.", metavar="COLUMN")],
    horizon: Annotated[int, typer.Option("--horizon", "-n", help="How many steps ahead.", min=1, metavar="N")],
    column: Annotated[
        str | None,
        typer.Option("--time", help="Column of dates or numbers at even steps; by default rows are counted.", metavar="COLUMN"),
    ] = None,
    every: Annotated[
        str | None,
        typer.Option(help="Take means over such steps of the dates first: 10s, 15min, h, D, W, MS (months).", metavar="STEP"),
    ] = None,
    lags: Annotated[
        int | None,
        typer.Option(
            help="How many of the last values the model sees; by default one period and one more, or 12.", min=1, metavar="N"
        ),
    ] = None,
    period: Annotated[
        str | None, typer.Option(help="Steps after which things repeat, 12 for the year in months; or learned.", metavar="STEPS")
    ] = None,
    level: Annotated[
        float, typer.Option(help="Share of values that the intervals should hold.", min=0.01, max=0.999, metavar="SHARE")
    ] = 0.95,
    out: Annotated[
        str,
        typer.Option("--out", "-o", help="Table to write, format by its ending; - is CSV on standard output.", metavar="FILE"),
    ] = "-",
    picture: Annotated[
        Path | None, typer.Option(help="Picture of the forecast: .png, .svg or .pdf. Needs the extra plots.", metavar="FILE")
    ] = None,
    seed: Annotated[int, typer.Option(help="Another seed draws other futures.", min=0, max=2**32 - 1, metavar="N")] = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Forecast a series: mean, standard deviation and intervals of its next values.

    A Gaussian process learns the next change from the last values, and goes on from what it predicted.

    Columns: the time, mean, std, lower, upper; with several targets their names in front.
    """
    from manifoldgp.data.table_files import check_writable, read_table, with_whole_numbers, write_table
    from manifoldgp.errors import InputError

    messages = Messages(quiet)
    if json and out == "-":
        raise typer.BadParameter("--json prints a summary on standard output, where the table goes too. Add --out forecast.csv.")
    pictures = pictures_of(picture, len(target))
    refuse_overwriting([out, *pictures], [file], standard_output=True)
    check_writable(out)
    begin = time.perf_counter()
    with messages.warnings_as_messages():
        read = read_table(file, wanted=[*target, *([] if column is None else [column])])
        series = _series(read, target, column, messages)
        warn_of_nines(read[target].select_dtypes("number"), messages)  # others are refused where they are learned from
        if every is not None:
            series = _even(series, every, _period(period), messages)
        model = _learnt(series, {"lags": lags, "period": _period(period), "random_state": seed}, len(target), messages)
        found = _drawn(model, horizon, messages)
        if column is None and (times := _times_in(read, target)):
            messages.note(_counted_rows(read[times[0]], times[0]))
    table = found.to_frame(level)
    if column in table.columns:
        raise InputError(f"The time is a column named like a part of the forecast: {column}. Rename it in the table.")
    table.index.name = column or "step"
    write_table(_dated(with_whole_numbers(table.reset_index()), read, column), out)
    with messages.warnings_as_messages():
        _draw(model, found, level, column or "step", pictures)
    summary = {
        "values": len(series), "targets": target, "horizon": horizon, "lags": list(model.lags_), "period": model.period_, "out": out,
        "seconds": round(time.perf_counter() - begin, 3),
    }  # fmt: skip
    if json:
        print_json(summary)
    elif out != "-":
        messages.note(
            f"Wrote {counted(horizon, 'step')} to {out}, learned from {counted(len(series), 'value')} in {summary['seconds']:.1f} s"
        )


def _learnt(series: Any, settings: dict[str, Any], outputs: int, messages: Messages) -> Forecaster:
    """The model of a series, trained with a progress bar."""
    from manifoldgp import Forecaster  # PyTorch takes seconds: not before the table is known to be right
    from manifoldgp.cli._fit_progress import FitProgress

    with Interruption() as interruption:
        progress = FitProgress(outputs, messages, interruption, title=f"Training on {counted(len(series), 'value')}")
        try:
            with progress, progress.interruptible():
                model = Forecaster(**settings, callback=progress).fit(series)
        except KeyboardInterrupt:
            interrupted = True
        else:
            interrupted = progress.stop
        if interrupted:
            typer.echo("mgp: Interrupted: no forecast was written.", err=True)
            raise typer.Exit(interruption.exit_code)
    return model


_DRAWS, _TRIED = 300, 20
"""Futures of a forecast, and those that tell how long it takes: the time grows with them, and a little less with the steps."""


def _drawn(model: Forecaster, horizon: int, messages: Messages) -> Forecast:
    """The forecast. Its functions take as long as the training, or longer: a few of them say beforehand how long."""
    from manifoldgp.training.progress import about

    begin = time.perf_counter()
    model.forecast(horizon, draws=_TRIED)
    seconds = (time.perf_counter() - begin) * _DRAWS / _TRIED
    with messages.working(f"Drawing {_DRAWS} futures of {counted(horizon, 'step')}: {about(seconds)}"):
        return model.forecast(horizon, draws=_DRAWS)


def _dated(forecast: Any, table: Any, column: str | None) -> Any:
    """The forecast with its dates as the table writes them, where it does so in texts."""
    from pandas.api.types import is_datetime64_any_dtype, is_string_dtype

    from manifoldgp.data.dates import has_zone, written_like
    from manifoldgp.data.series import series_day_order

    if column is None or not (is_datetime64_any_dtype(forecast[column].dtype) and is_string_dtype(table[column].dtype)):
        return forecast
    midnight = (forecast[column] == forecast[column].dt.normalize()).all()
    zoned = has_zone(table[column])
    written = forecast[column].dt.strftime("%Y-%m-%d" if midnight and not zoned else "%Y-%m-%d %H:%M:%S" + "+00:00" * zoned)
    return forecast.assign(**{column: written_like(written, table[column], series_day_order(table[column].dropna()))})


def _period(given: str | None) -> float | str | None:
    if given is None or given == "learned":
        return given
    try:
        return float(given)
    except ValueError:
        raise typer.BadParameter(f"--period must be a number of steps, or learned; got {given!r}.") from None


def _series(table: Any, target: list[str], column: str | None, messages: Messages) -> Any:
    """The chosen columns with the times as index: a Series of one target, a DataFrame of several."""
    from manifoldgp.data.dates import has_zone
    from manifoldgp.data.series import holds_series_times, series_times
    from manifoldgp.errors import InputError

    for name in (*target, *([] if column is None else [column])):
        if name not in table.columns:
            raise InputError(f"The table has no column {name!r}; it has {', '.join(map(repr, table.columns))}.")
    chosen = table[target]
    if column is not None:
        times, told = series_times(column, table[column])
        if told:
            messages.note(told)
        if holds_series_times(table[column].dropna()) and has_zone(table[column]):
            messages.note(f"{column} has a time zone: its dates are taken and written in UTC.")
        chosen = chosen.set_axis(times)
    return chosen[target[0]] if len(target) == 1 else chosen


def _counted_rows(times: Any, name: str) -> str:
    """What is lost where rows are counted, though a column holds the time."""
    from manifoldgp.data.dates import as_times
    from manifoldgp.data.series import has_even_steps, holds_series_times, series_day_order, usual_step

    by_time, present = option("--time", name), times.dropna()
    dates = as_times(present, series_day_order(present))[0] if holds_series_times(present) else None
    if dates is None or has_even_steps(dates):
        return f"Rows are counted from 0. {name} looks like the time: {by_time} goes on by it."
    step = usual_step(dates)
    return (
        f"Rows are counted from 0, and {name} has uneven steps: the model does not see what depends on the date, such as the day of the week, "
        f"and intervals are as wide as that makes them." + (f" {by_time} --every {step} goes by the dates." if step else "")
    )


def _even(series: Any, every: str, period: float | str | None, messages: Messages) -> Any:
    """Means over steps of the dates; weekdays on which nothing was ever recorded are no steps, short gaps are filled, and others stay empty."""
    from pandas import DatetimeIndex, Series
    from pandas.tseries.frequencies import to_offset

    from manifoldgp.data.columns import target_numbers
    from manifoldgp.data.series import short_gaps_filled, without_closed_days

    try:
        step = to_offset(every)
    except ValueError:
        step = None
    if step is None or step.n < 1:
        raise typer.BadParameter(f"--every must be a step such as 10s, 15min, h, D, W or MS; got {every!r}.")
    if not isinstance(series.index, DatetimeIndex):
        raise typer.BadParameter("--every goes by dates. Name their column with --time.")
    columns = series.to_frame() if series.ndim == 1 else series
    numbers = columns.apply(lambda column: Series(target_numbers(str(column.name), column.reset_index(drop=True)), columns.index))
    found: Any
    found, closed = without_closed_days(numbers.sort_index().resample(step).mean())
    if closed:
        messages.note(f"Nothing was recorded on any {' or '.join(closed)}: these days are no steps.")
    lacking = int(found.isna().any(axis=1).sum())
    turn = period if isinstance(period, float) else 7 - len(closed) if found.index.freqstr in ("D", "C") else None
    found = short_gaps_filled(found, None if turn is None else round(turn))
    left = int(found.isna().any(axis=1).sum())
    filled = f" ({lacking - left} filled in from those around them)" if left < lacking else ""
    too_short = f": a longer step than {every} leaves fewer" if 10 * left > len(found) else ""
    gaps = f", {lacking} of them without a value{filled}{too_short}" if lacking else ""
    messages.note(
        f"{counted(len(series), 'row')} {verb(len(series), 'becomes', 'become')} {counted(len(found), 'step')} of {every}{gaps}."
    )
    return found if series.ndim == 2 else found[series.name]


def _times_in(table: Any, target: list[str]) -> list[str]:
    """Columns beside the targets that could be the time: dates, or numbers at even steps."""
    import numpy as np
    from pandas.api.types import is_numeric_dtype

    from manifoldgp.data.codes import padded
    from manifoldgp.data.series import holds_series_times

    def even(values: Any) -> bool:
        steps = np.diff(values.to_numpy(dtype=np.float64, na_value=np.nan))
        return len(steps) > 1 and bool(steps[0] > 0) and bool(np.allclose(steps, steps[0]))

    def could_be(values: Any) -> bool:
        if padded(values.dropna()):
            values = values.astype(float)
        return even(values) if is_numeric_dtype(values.dtype) else holds_series_times(values.dropna())

    return [name for name in table.columns if name not in target and could_be(table[name])]


def _draw(model: Any, found: Any, level: float, time_name: str, pictures: list[Path]) -> None:
    from manifoldgp._system.files import written_whole
    from manifoldgp._system.plain_text import without_formulas
    from manifoldgp.plots import plot_forecast

    for o, place in enumerate(pictures):
        with written_whole(place) as partial:
            axes = plot_forecast(model, found, output=o, level=level)
            axes.set_xlabel(without_formulas(time_name))
            figure: Any = axes.figure
            figure.savefig(partial, format=place.suffix.lstrip(".").lower(), dpi=150)
