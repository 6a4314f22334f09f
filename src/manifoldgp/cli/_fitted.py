"""A model that a command has fitted: where it goes, what is written beside it, and how one that was interrupted ends."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from manifoldgp._system.plain_text import visible
from manifoldgp.cli._interruption import Interruption
from manifoldgp.cli._messages import Messages
from manifoldgp.cli._options import refuse_overwriting

if TYPE_CHECKING:
    from manifoldgp.cli._fit_progress import FitProgress
    from manifoldgp.training.plan import Plan


@dataclass(frozen=True)
class Fitted:
    """A model, the seconds its training took, and whether somebody stopped it."""

    model: Any
    seconds: float
    interrupted: bool


def checked_places(out: Path, replace_if_interrupted: bool, files: list[str], more: Path | None = None) -> Path:
    """Where an unfinished model goes if ``out`` exists. Refuses places that cannot be written to, and those of the tables and of the model that goes on."""
    from manifoldgp._system.files import refuse_unwritable
    from manifoldgp.data.table_files import table_names

    tables = [*table_names(files), *([] if more is None else [str(more)])]
    refuse_overwriting([out], tables)
    refuse_unwritable(out)
    unfinished = out if replace_if_interrupted else out.with_name(f"{out.stem}.unfinished{out.suffix}")
    refuse_overwriting([unfinished], tables)
    refuse_unwritable(unfinished)
    return unfinished


def save_fitted(fitted: Fitted, place: Path, messages: Messages, interruption: Interruption) -> list[str]:
    """Write the model, with a summary for ``mgp inspect`` and a program for ``mgp predict``; returns the remarks of its diagnosis.

    What was interrupted is written first and once more when it has been looked at: whoever sent the signal may not wait, and need not if they send another one.
    A signal that comes now ends what makes the file handier, and the finished model is written.
    """
    interruption.listening, interruption.answer = True, ""  # how it ended is said when the file is there
    if not fitted.interrupted:
        return _looked_at_and_saved(fitted, place, messages, interruption)
    fitted.model.save(place)
    try:
        return _looked_at_and_saved(fitted, place, messages, interruption)
    except KeyboardInterrupt:
        return []


def _looked_at_and_saved(fitted: Fitted, place: Path, messages: Messages, interruption: Interruption) -> list[str]:
    from manifoldgp._system.threads import threads_for
    from manifoldgp.cli._summary import summary_of
    from manifoldgp.estimators import model_file

    with threads_for(fitted.model.ensembles_[0].blocks[0].rows):
        try:
            diagnosis = fitted.model.diagnose()
            summary = summary_of(fitted.model, diagnosis)
        except Exception:
            fitted.model.save(place)  # a model that cannot be diagnosed is a model all the same
            raise
        model_file.save(fitted.model, place, summary, _small_predictor(fitted, messages, interruption))
    return diagnosis.remarks


def _small_predictor(fitted: Fitted, messages: Messages, interruption: Interruption) -> Any:
    """The model as a program that ``mgp predict`` and ``mgp score`` run without PyTorch, where one can be written and is small.

    Where the whole program is not, one that is distilled takes its place, which says what it loses; not after an interruption, for that takes some seconds.
    """
    from manifoldgp.errors import InputError
    from manifoldgp.estimators.program_targets import SEARCH_SECONDS, small_predictor

    def searching() -> None:
        messages.note(f"looking for few points that predict what all rows do, up to {SEARCH_SECONDS:g} s of processor time")

    try:
        lost = None if interruption.wanted else MOST_LOST
        return small_predictor(fitted.model, SMALL_PROGRAM, lost, searching, lambda: interruption.wanted)
    except InputError:  # parts that only code can express
        return None


def few_points_afterwards(plan: Plan, outputs: int) -> str:
    """What is to be said before a fit of the search for few points that may follow: where half of the members that may be kept are a large program."""
    from manifoldgp.estimators.program_groups import member_bytes
    from manifoldgp.estimators.program_targets import SEARCH_SECONDS

    members = outputs * max(1, sum(plan.kept) // 2)
    if members * member_bytes(plan.points) <= SMALL_PROGRAM:
        return ""
    return f"; then up to {SEARCH_SECONDS:g} s of processor time to look for few points, if the model is large"


SMALL_PROGRAM = 32_000_000
"""Bytes up to which a program is put into the model file: with more, the file would grow by more than the seconds that it saves are worth."""

MOST_LOST = 1e-3
"""Nats a row that a program may lose by being small: means and standard deviations are then off by some hundredths of a standard deviation."""


def refuse_unfinished(progress: FitProgress, outputs: int, exit_code: int) -> None:
    """Targets whose training had not begun when somebody stopped it have no model worth keeping."""
    if progress.stop and progress.output + 1 < outputs:
        typer.echo(f"mgp: Interrupted at target {progress.output + 1} of {outputs}: no model was written.", err=True)
        raise typer.Exit(exit_code)


def end_interrupted_after_fit(place: Path, interruption: Interruption) -> NoReturn:
    """Say that the model is as good as it would have been, and end as shells expect it."""
    typer.echo(
        visible(f"mgp: Interrupted after the fit: {place} is the finished model, without few points for faster predictions."),
        err=True,
    )
    raise typer.Exit(interruption.exit_code)


def end_interrupted(place: Path, out: Path, interruption: Interruption) -> NoReturn:
    """Say where the unfinished model is, and end as shells expect it."""
    kept = "the same command fits it to the end" if place == out else f"{out} is as it was"
    typer.echo(visible(f"mgp: Interrupted. The best model so far is in {place}; {kept}."), err=True)
    raise typer.Exit(interruption.exit_code)
