"""``mgp score``: how good the predictions for rows with known targets are."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from manifoldgp._system.plain_text import counted, digits, explained_share, listed_names, visible
from manifoldgp.cli._messages import Messages, output, print_json
from manifoldgp.cli._options import TABLE_HELP, AllowUnknown, Exact, Json, ModelFile, Quiet

if TYPE_CHECKING:
    import numpy as np

    from manifoldgp.cli._answers import Answers

_LEVELS = (0.5, 0.9, 0.95)

_FEW_VALUES = 20
"""Targets with so few distinct values, 0 and 1 or marks, have the same standard deviation in other rows too."""


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

    Coverage: the share of targets inside 50, 90 and 95 % intervals, which should be 50, 90 and 95 %.
    """
    import numpy as np

    from manifoldgp.cli._answers import in_pieces, open_answers
    from manifoldgp.cli._models import prepare, tell_rows_left_out, tell_rows_without_target, tell_what_is_lost
    from manifoldgp.data.table_files import read_table
    from manifoldgp.errors import InputError

    messages = Messages(quiet)
    answers = open_answers(model_file, exact)
    inputs, known = answers.known_columns
    with messages.warnings_as_messages():
        table = read_table(table_file, wanted=[*inputs, *(target or known)])
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
    Y = Y[table.index][query.reasons == ""]
    rows = len(Y)
    same = np.allclose(Y.std(0), answers.scales, rtol=1e-9, atol=0.0)  # as no other targets have, to the last digits
    if same and all(len(np.unique(y)) > _FEW_VALUES for y in Y.T):
        told = " mgp inspect tells those on held-out rows." if _held_rows_out(model_file) else ""
        messages.warn(f"The model was fitted to these rows: errors on new ones are larger.{told}")
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
    if json:
        print_json({"rows": rows, "rows_without_target": int(missing.sum()), "scores": scores})
    else:
        _show({encoding.label(name): found for name, found in scores.items()}, rows)


def _held_rows_out(model_file: Path) -> bool:
    """Whether the fit left errors on held-out rows in the file."""
    from manifoldgp._system.model_header import read_header

    numbers = (read_header(model_file).get("summary") or {}).get("numbers", {})
    return any(name.endswith("held-out RMSE") for name in numbers)


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


def _explained(value: float) -> str:
    return explained_share(value, 4) if math.isfinite(value) else "-"
