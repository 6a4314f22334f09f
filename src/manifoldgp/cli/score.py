"""``mgp score``: how good the predictions for rows with known targets are."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from manifoldgp._system.plain_text import counted, digits, explained_share, listed_names, visible
from manifoldgp.cli._messages import Messages, output, print_json
from manifoldgp.cli._options import TABLE_HELP, AllowUnknown, Exact, Json, ModelFile, Quiet

if TYPE_CHECKING:
    import numpy as np

    from manifoldgp.cli._answers import Answers

_LEVELS = (0.5, 0.9, 0.95)


def score(
    model_file: ModelFile,
    table_file: Annotated[str, typer.Argument(help=f"Table with inputs and targets. {TABLE_HELP}", metavar="TABLE")],
    target: Annotated[
        list[str] | None,
        typer.Option(
            "--target", "-t", help="Target column of a model saved from Python; else the model knows it.", metavar="COLUMN"
        ),
    ] = None,
    allow_unknown: AllowUnknown = False,
    exact: Exact = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compare predictions with known targets.

    RMSE, MAE, CRPS (continuous ranked probability score: errors and error bars together) and NLPP (negative log predictive density), all lower is better,
    in the units of the target and in those of its standard deviation at the fit; R².

    Coverage: the share of targets inside 50, 90 and 95 % intervals, which should be 50, 90 and 95 %, and in words whether they hold: as far as these rows, and the groups that they
    are of, can tell.
    """
    import numpy as np

    from manifoldgp.chance.interval_checks import IntervalCheck
    from manifoldgp.cli._answers import in_pieces, open_answers
    from manifoldgp.cli._models import (
        labels_of_rows,
        prepare,
        tell_rows_left_out,
        tell_rows_of_the_fit,
        tell_rows_without_target,
        tell_what_is_lost,
    )
    from manifoldgp.data.table_files import read_table
    from manifoldgp.errors import InputError

    messages = Messages(quiet)
    answers = open_answers(model_file, exact, rows=True)
    inputs, known = answers.known_columns
    with messages.warnings_as_messages():
        table = read_table(table_file, wanted=[*inputs, *(target or known)], like=answers.reading)
    encoding = answers.encoding(table, target or ())
    if target and tuple(target) != encoding.targets:
        raise InputError(f"This model predicts {', '.join(encoding.targets)}; --target says {', '.join(target)}. Leave it out.")
    unknown = [] if known or target else [name for name in encoding.targets if name not in table.columns]
    if unknown:
        raise InputError(
            f"The model was fitted in Python on targets without names, and the table has no column {', '.join(map(repr, unknown))}. "
            f"Say which column holds the target: --target COLUMN. The table has: {listed_names(list(table.columns), 20)}."
        )
    if not len(table):
        raise InputError(f"{table_file} has no rows: there is nothing to compare with.")
    Y = encoding.target_values(table).reshape(len(table), -1)
    missing = np.isnan(Y).any(1)
    if missing.all():
        raise InputError(f"No row has a value in {', '.join(encoding.targets)}: there is nothing to compare with.")
    tell_rows_without_target(int(missing.sum()), len(table), messages)
    table = table[~missing]
    query = prepare(encoding, table, allow_unknown, messages)
    tell_what_is_lost(answers.lost, messages)
    tell_rows_left_out(query, messages)
    labels, predicted = labels_of_rows(encoding, table, messages), query.reasons == ""
    Y, groups = Y[table.index][predicted], None if labels is None else labels[predicted]
    rows = len(Y)
    held_out = " mgp inspect tells those on held-out rows." if answers.held_rows_out else ""
    seen = tell_rows_of_the_fit(answers.fit_rows(), query.X.to_numpy(), Y, groups, messages, held_out)
    with messages.warnings_as_messages():
        found = in_pieces(
            answers,
            rows,
            lambda part: _judged(answers, query.X.iloc[part], None if query.noise is None else query.noise[part], Y[part]),
        )
        judged = np.concatenate(found, axis=-1)
        scores = {
            name: _scores(judged[o], Y[:, o], scale)
            for o, (name, scale) in enumerate(zip(encoding.targets, answers.scales, strict=True))
        }
    checks = [IntervalCheck.of(one[3], one[0], groups) for one in judged]
    said = {name: str(check.in_words(encoding.group, seen > 0)) for name, check in zip(encoding.targets, checks, strict=True)}
    if json:
        counts = {"rows": rows, "rows_without_target": int(missing.sum()), "groups": checks[0].groups}
        print_json(counts | {"scores": scores, "intervals": said})
    else:
        _show({encoding.label(name): found for name, found in scores.items()}, rows)
        _say_whether_intervals_hold({encoding.label(name): words for name, words in said.items()})


def _judged(answers: Answers, X: Any, noise: Any, Y: np.ndarray) -> np.ndarray:
    """Mean, log density, CRPS and cumulative probability of each target at n rows (targets, 4, n)."""
    import numpy as np

    found = zip(answers.targets(X, noise), Y.T, strict=True)
    return np.stack([[one.moments()[0], one.log_density(y), one.crps(y), one.cdf(y)] for one, y in found])


def _scores(judged: np.ndarray, y: np.ndarray, scale: float) -> dict[str, float]:
    """Scores of a target from what _judged says of it (4, n), in the units of y and (…_standardised) in units of the training targets' standard deviation."""
    from manifoldgp.metrics import coverage_table, mae, nlpp, r2, rmse

    mean, densities, each_crps, place = judged
    density, crps = nlpp(densities), float(each_crps.mean())
    scores = {
        "rmse": rmse(y, mean),
        "mae": mae(y, mean),
        "r2": r2(y, mean) if y.var() > 0 else math.nan,
        "nlpp": density,
        "crps": crps,
        "rmse_standardised": rmse(y, mean) / scale,
        "mae_standardised": mae(y, mean) / scale,
        "nlpp_standardised": density - math.log(scale),
        "crps_standardised": crps / scale,
    }
    inside = coverage_table(place, _LEVELS)
    return scores | {f"coverage_{100 * row.expected:g}": row.observed for row in inside}


def _show(scores: dict[str, dict[str, float]], rows: int) -> None:
    from rich.table import Table

    if len(scores) > 2:  # side by side they would be cut
        for name, found in scores.items():
            _show({name: found}, rows)
        return
    table = Table(box=None, pad_edge=False, header_style="bold", title=counted(rows, "row"), title_justify="left")
    table.add_column("")
    for name in scores:
        table.add_column(visible(name), justify="right")
        table.add_column("standardised", justify="right", style="dim")
    for key, label in (("rmse", "RMSE"), ("mae", "MAE"), ("crps", "CRPS"), ("nlpp", "NLPP, nats a row")):
        table.add_row(label, *(digits(s[name]) for s in scores.values() for name in (key, f"{key}_standardised")))
    table.add_row("R²", *(text for s in scores.values() for text in (_explained(s["r2"]), "")))
    for level in _LEVELS:
        inside = [f"{100 * s[f'coverage_{100 * level:g}']:.1f} %" for s in scores.values()]
        table.add_row(f"in the {100 * level:g} % interval", *(text for share in inside for text in (share, "")))
    output().print(table)


def _say_whether_intervals_hold(words: dict[str, str]) -> None:
    """A sentence for each target, which has its name where there are several."""
    for name, said in words.items():
        text = f"{name}: {said}" if len(words) > 1 else said[0].upper() + said[1:]
        output().print(f"{text}.", soft_wrap=True)


def _explained(value: float) -> str:
    return explained_share(value, 4) if math.isfinite(value) else "-"
