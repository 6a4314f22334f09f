"""The numbers that quick commands print in README.md, docs/command-line.md, docs/compare.md and docs/suggest.md: run the commands, and write what they print now.

    python benchmarks/results.py           # or make results: writes the pages, and with Chromium the pictures of what the commands made (docs/images)
    python benchmarks/results.py --check   # says which lines differ by more than another processor explains

A line of a console block that ends in "..." stands for more: what stands before is written anew. Numbers of long runs stand beside the command that prints them.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from html import escape
from itertools import islice
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", "docs/command-line.md", "docs/compare.md", "docs/suggest.md")
ENVIRONMENT = os.environ | {"COLUMNS": "100", "NO_COLOR": "1", "PYTHONPATH": str(ROOT / "src")}

TERMINAL = "terminal.html"
PICTURES = {
    "README.md": ("report.html", "model-page-top.png", (1000, 740)),
    "docs/command-line.md": ("report.html", "model-page.png", (1000, 1500)),
    "docs/compare.md": ("compare.html", "compare.png", (1000, 1480)),
    "docs/suggest.md": (TERMINAL, "suggest.png", (1000, 308)),
}
"""What is photographed after the commands of a page: a file that they made, or what they printed; the picture in docs/images, and its size."""

_BLOCK = re.compile(r"(?<=```console\n).*?(?=```)", re.S)
_NUMBER = re.compile(r"[-+]?\d[\d.]*(?:e[-+]?\d+)?")
_TOLERANCE, _POINTS = 0.35, 12.0
"""Outcomes of a fit that is not convex may differ so much from one kind of processor to another: relative, and in points of a percentage."""


class Step(NamedTuple):
    """A command of a page, and the lines that it is said to print, each with its place in the page's text."""

    command: str
    expected: list[tuple[int, str]]


def steps(page: str) -> list[Step]:
    """Commands (after "$ ") in the console blocks of a page's text, in order."""
    found: list[Step] = []
    for block in _BLOCK.finditer(page):
        at = block.start()
        for line in block.group().splitlines(keepends=True):
            text = line.rstrip("\n")
            if text.startswith("$ "):
                found.append(Step(text[2:], []))
            elif text.strip() and text.strip() != "...":
                found[-1].expected.append((at, text))
            at += len(line)
    return found


def said(command: str, folder: Path, environment: dict[str, str] = ENVIRONMENT) -> str:
    """What a command prints on both streams, in a shell that knows mgp."""
    shell = f'mgp() {{ {shlex.quote(sys.executable)} -m manifoldgp "$@"; }}; {command}'
    ran = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, cwd=folder, env=environment, timeout=900)
    if ran.returncode:
        raise SystemExit(f"{command!r} failed: {ran.stderr}")
    return ran.stderr + ran.stdout


def shape(line: str) -> str:
    """A line without its numbers and its spacing; "..." at its end stands for more."""
    return " ".join(_NUMBER.sub("#", line).split()).removesuffix("...").strip()


def _alike(line: str, printed: str) -> bool:
    begun, actual = shape(line), shape(printed)
    return actual.startswith(begun) if line.endswith("...") else actual == begun


def stale(expected: str, printed: str) -> bool:
    """Whether a line of a page has a number that the printed line has not, by more than another processor explains. Whole numbers must be equal.

    >>> stale("RMSE  0.02516", "RMSE  0.08432"), stale("RMSE  0.086", "RMSE  0.08432"), stale("120 rows", "121 rows")
    (True, False, True)
    """
    pairs = zip(_NUMBER.finditer(expected.removesuffix("...")), _NUMBER.findall(printed), strict=False)
    return any(_differ(old.group(), new, expected[old.end() :].startswith(" %")) for old, new in pairs)


def _differ(old: str, new: str, percent: bool) -> bool:
    if not ("." in old or "e" in old):
        return old != new and "." not in new
    a, b = float(old.rstrip(".")), float(new.rstrip("."))
    return abs(a - b) > (_POINTS if percent else _TOLERANCE * max(abs(a), abs(b)))


class Found(NamedTuple):
    """A line of a page beside the line that was printed for it; None: no line of that shape was."""

    command: str
    at: int
    expected: str
    printed: str | None


def compared(page: str, run: Callable[[str], str]) -> Iterator[Found]:
    """Every line of the page's console blocks that is said to be printed, in order. run: what a command prints."""
    for command, expected in steps(page):
        printed = iter(run(command).splitlines())
        for at, line in expected:
            yield Found(command, at, line, next((actual for actual in printed if _alike(line, actual)), None))


def rewritten(page: str, run: Callable[[str], str]) -> str:
    """The page's text with the lines that are printed now."""
    for found in reversed(list(compared(page, run))):
        if found.printed is not None:
            page = page[: found.at] + _as_long(found.printed.rstrip(), found.expected) + page[found.at + len(found.expected) :]
    return page


def _as_long(printed: str, expected: str) -> str:
    """The printed line, cut where a page's line ends in "...".

    >>> _as_long("gp  0.12   0.5  9 %", "gp  0.2 ...")
    'gp  0.12 ...'
    """
    if not expected.endswith("..."):
        return printed
    words = len(expected.removesuffix("...").split())
    begun = "".join(match.group() for match in islice(re.finditer(r"\s*\S+", printed), words))
    return f"{begun} ..." if expected.endswith(" ...") else f"{begun}..."


def terminal(printed: dict[str, str]) -> str:
    """A page that shows commands and what they printed."""
    lines = (f"<b><i>$</i> {escape(command)}</b>\n{escape(text.rstrip())}\n" for command, text in printed.items() if text.strip())
    style = (
        "body{margin:0;padding:18px;background:#f6f7f9}pre{margin:0;padding:18px 22px;background:#fff;border:1px solid #d8dbe0;border-radius:8px;"
        "font:15px/1.55 'DejaVu Sans Mono',monospace;white-space:pre-wrap}i{color:#0b6aa8;font-style:normal}"
    )
    return f'<!doctype html><meta charset="utf-8"><style>{style}</style><pre>{"".join(lines)}</pre>'


def photograph(page: Path, picture: Path, size: tuple[int, int], chromium: str) -> None:
    """What a browser shows of a page, in 256 colours."""
    from PIL import Image

    shot = page.with_name("shot.png")
    flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--disable-background-networking",
        "--hide-scrollbars",
    ]
    flags += [f"--user-data-dir={page.parent}/profile", "--virtual-time-budget=5000", "--window-size={},{}".format(*size)]
    subprocess.run([chromium, *flags, f"--screenshot={shot}", page.as_uri()], capture_output=True, timeout=120, check=True)
    Image.open(shot).convert("RGB").quantize(256).save(picture, optimize=True)


def _draw(name: str, folder: Path, printed: dict[str, str]) -> None:
    file, picture, size = PICTURES[name]
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        print(f"docs/images/{picture} is as it was: there is no Chromium to draw it.")
        return
    if file == TERMINAL:
        suggested = {command: text for command, text in printed.items() if command.startswith("mgp suggest")}
        (folder / TERMINAL).write_text(terminal(suggested), encoding="utf-8")
    photograph(folder / file, ROOT / "docs" / "images" / picture, size, chromium)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; leave with 1 if a line is stale")
    check, wrong = parser.parse_args().check, False
    for name in PAGES:
        with tempfile.TemporaryDirectory() as folder:
            text = (ROOT / name).read_text(encoding="utf-8")
            printed: dict[str, str] = {}

            def run(command: str, folder: str = folder, printed: dict[str, str] = printed) -> str:
                printed[command] = said(command, Path(folder))
                return printed[command]

            if not check:
                (ROOT / name).write_text(rewritten(text, run), encoding="utf-8")
                _draw(name, Path(folder), printed)
                continue
            for found in compared(text, run):
                if found.printed is None or stale(found.expected, found.printed):
                    wrong = True
                    print(f"{name}: {found.command!r} prints {found.printed!r}, the page says {found.expected!r}")
    raise SystemExit(int(wrong))


if __name__ == "__main__":
    main()
