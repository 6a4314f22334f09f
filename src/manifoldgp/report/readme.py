"""The headline rows and the step figure in a README, between two marks."""

from __future__ import annotations

from pathlib import Path

from manifoldgp._system.files import write_whole
from manifoldgp.errors import InputError
from manifoldgp.experiments import Outcome
from manifoldgp.report._headline import headline

BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"
_FIGURES = Path("docs") / "images"


def update_readme(path: Path, outcome: Outcome | None, report: Path) -> None:
    """Replace what stands between the marks in ``path`` by the step figure of ``report`` and the headline rows.

    The figure is copied to docs/images beside the file. outcome None: only check that the marks are there.
    """
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise InputError(f"{path} needs the lines {BEGIN} and {END}, once each and in this order: the results go between them.")
    if outcome is None:
        return
    parts = [BEGIN]
    figure = report / "figures" / "step-gap.png"
    if figure.is_file():
        target = path.parent / _FIGURES / figure.name
        target.parent.mkdir(parents=True, exist_ok=True)
        write_whole(target, figure.read_bytes())
        parts += [
            f"![A step with a gap in the training data: one model decides, averages do not]({(_FIGURES / figure.name).as_posix()})",
            "",
        ]
    parts += [headline(outcome), END]
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    write_whole(path, before + "\n".join(parts) + after)
