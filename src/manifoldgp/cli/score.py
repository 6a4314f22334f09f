"""``mgp score``: how good the predictions for rows with known targets are."""

from __future__ import annotations

import math
from typing import Annotated, Any

import typer

from manifoldgp.cli._messages import Messages, output, print_json
from manifoldgp.cli._options import TABLE_HELP, AllowUnknown, Json, ModelFile, Quiet

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
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compare predictions with known targets.

    RMSE, MAE, CRPS (continuous ranked probability score: errors and error bars together) and NLPP (negative log predictive density), all lower is better,
    in the units of the target and in those of its standard deviation at the fit; R2.

    Coverage: the share of targets inside 50, 90 and 95 % intervals, which should be 50, 90 and 95 %.
    """
    import numpy as np

    from manifoldgp.cli._models import encoding_of, open_model, prepare
    from manifoldgp.data.table_files import read_table
    from manifoldgp.errors import InputError
    from manifoldgp.inference.ensemble import prediction_threads

    messages = Messages(quiet)
    model = open_model(model_file)
    with messages.warnings_as_messages():
        table = read_table(table_file)
    encoding = encoding_of(model, table, target or ())
    if target and tuple(target) != encoding.targets:
        raise InputError(f"This model predicts {', '.join(encoding.targets)}; --target says {', '.join(target)}. Leave it out.")
    Y = encoding.target_values(table).reshape(len(table), -1)
    missing = np.isnan(Y).any(1)
    if missing.all():
        raise InputError(f"No row has a value in {', '.join(encoding.targets)}: there is nothing to compare with.")
    if missing.any():
        messages.note(f"{int(missing.sum())} of {len(table)} rows have no target and are left out.")
    query = prepare(encoding, table[~missing], allow_unknown, messages)
    rows = int((~missing).sum())
    with prediction_threads(model.ensembles_, rows):
        scores = dict(zip(encoding.targets, _scores(model, query.X, Y[~missing], query.noise), strict=True))
    if json:
        print_json({"rows": rows, "rows_without_target": int(missing.sum()), "scores": scores})
    else:
        _show(scores, rows)


def _scores(model: Any, X: Any, Y: Any, noise: Any) -> list[dict[str, float]]:
    """Scores of every target, in the units of y and (…_standardised) in units of the training targets' standard deviation."""
    import numpy as np
    import torch

    from manifoldgp.metrics import coverage_table, mae, nlpp, r2, rmse

    U = torch.as_tensor(model.x_scaler_.apply(X.to_numpy()))
    found = []
    for o, ensemble in enumerate(model.ensembles_):
        scale = float(model.y_scaler_.scale[o])
        known = None if noise is None else torch.as_tensor((noise / scale) ** 2)
        predictive = ensemble.predict(U, False, known)
        y, target = Y[:, o], torch.as_tensor(np.ascontiguousarray(Y[:, o]))
        mean = predictive.moments()[0].numpy()
        density = nlpp(predictive.log_density(target).numpy())
        crps = float(predictive.crps(target).mean())
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
        inside = coverage_table(predictive.cdf(target).numpy(), _LEVELS)
        found.append(scores | {f"coverage_{100 * row.expected:g}": row.observed for row in inside})
    return found


def _show(scores: dict[str, dict[str, float]], rows: int) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold", title=f"{rows} rows", title_justify="left")
    table.add_column("")
    for name in scores:
        table.add_column(name, justify="right")
        table.add_column("standardised", justify="right", style="dim")
    for key, label in (("rmse", "RMSE"), ("mae", "MAE"), ("crps", "CRPS"), ("nlpp", "NLPP, nats a row")):
        table.add_row(label, *(f"{s[name]:.4g}" for s in scores.values() for name in (key, f"{key}_standardised")))
    table.add_row("R2", *(text for s in scores.values() for text in (_number(s["r2"]), "")))
    for level in _LEVELS:
        inside = [f"{100 * s[f'coverage_{100 * level:g}']:.1f} %" for s in scores.values()]
        table.add_row(f"in the {100 * level:g} % interval", *(text for share in inside for text in (share, "")))
    output().print(table)


def _number(value: float) -> str:
    return f"{round(value, 4) + 0.0:.4g}" if math.isfinite(value) else "-"
