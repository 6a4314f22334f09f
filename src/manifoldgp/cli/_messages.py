"""What commands say to a person: notes on standard error, results on standard output.

Most texts hold names and values from data. A :class:`PlainConsole` shows them as they are: it knows no markup, and control characters are written out.
"""

from __future__ import annotations

import ast
import json
import math
import re
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.text import Text

from manifoldgp._system.plain_text import in_json, one_line, option, visible


class PlainConsole(Console):
    """A console on which strings, in lines as in cells of tables, are text and nothing else."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **settings)

    def render_str(self, text: str, **settings: Any) -> Text:
        """Every string that rich shows comes by here."""
        return super().render_str("\n".join(map(visible, text.split("\n"))), **settings)


class Messages:
    """Notes and warnings on standard error, so that standard output holds nothing but the result; quiet: neither."""

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet
        self.console = PlainConsole(stderr=True, quiet=quiet)
        self._whole_lines = not self.console.is_terminal
        self._told: set[str] = set()

    def note(self, text: str) -> None:
        """Something to know."""
        self.console.print(Text(visible(text)), soft_wrap=self._whole_lines)

    def warn(self, text: str) -> None:
        """Something to look at."""
        self.console.print(Text.assemble(("warning: ", "bold yellow"), one_line(text)), soft_wrap=self._whole_lines)

    @contextmanager
    def working(self, text: str) -> Iterator[None]:
        """A moving sign beside what takes some seconds; a line where nothing can move."""
        if self._whole_lines:
            self.note(text)
            yield
        else:
            with self.console.status(Text(visible(text))):
                yield

    @contextmanager
    def warnings_as_messages(self) -> Iterator[None]:
        """Python's warnings inside become messages, each once a command, and at once: what is said before a long training is to be read before it."""

        def show(message: Warning | str, category: type[Warning], *where: object, **more: object) -> None:
            text = _FONT if str(message).startswith("Glyph ") else str(message)
            if issubclass(category, UserWarning) and text not in self._told:
                self._told.add(text)
                self.warn(in_options(text))

        with warnings.catch_warnings():
            warnings.simplefilter("default")
            warnings.showwarning = show
            yield


_ARGUMENTS = (
    (
        re.compile(r"\b(averaging|criterion|missing|kernel|method(?==.(?:auto|exact|local|sparse)))=['\"]([\w-]+)['\"]"),
        r"--\1 \2",
    ),
    (re.compile(r"\btarget_warping=['\"](\w+)['\"]"), r"--target-warping \1"),
    (re.compile(r"\bfit\(\.\.\., noise_std=\)"), "--noise-column"),
    (re.compile(r"\b(ordered|group)s?=(True\b)?(?![\w'\"\[(])"), r"--\1"),
    (re.compile(r"\b(ordered|group)s? of fit\b"), r"--\1"),
    (re.compile(r"\ballow_unknown=True\b"), "--allow-unknown"),
    (re.compile(r"\(time_budget\)"), "(--time-budget)"),
    (re.compile(r"\(budget\)"), "(--budget)"),
    (re.compile(r"\btime_budget=(\d[\d.e+]*)"), r"--time-budget \1"),
    (re.compile(r"\braise max_iter\b"), "raise --max-iter"),
    (re.compile(r"\bSparse\(inducing=\.\.\.\)"), "--inducing"),
    (re.compile(r"\bagainst GPRegressor\b"), "against --averaging plain"),
    (
        re.compile(r"\by\.resample\('(\w+)'\)\.mean\(\) leaves NaN where nothing was recorded, which is allowed\."),
        r"--every \1 takes means over even steps of dates (10s, 15min, h, D, W, MS for months).",
    ),
    (re.compile(r"(?<=[ (])((?:noise|levels)=\w+)"), r"in Python \1"),
)
"""What messages of the library call by its argument in Python, and the option that does the same."""


_FONT = "The font of pictures lacks letters of some names, which appear as boxes."


def in_options(text: str) -> str:
    """A remark or warning of the library with options in place of Python's arguments.

    >>> in_options("More rows help, or groups=. Use averaging='stack', or raise max_iter.")
    'More rows help, or --group. Use --averaging stack, or raise --max-iter.'
    >>> in_options("target_warping='tanh' learns a scale; fit(..., noise_std=) takes what is known.")
    '--target-warping tanh learns a scale; --noise-column takes what is known.'
    >>> in_options("time_budget=60 is too short for the exact one.")
    '--time-budget 60 is too short for the exact one.'
    >>> in_options("Fit without: X.drop(columns=['force [N])', 'x'])")
    "Fit without: --drop 'force [N])' --drop x"
    >>> print(in_options(r"X.drop(columns=['a\\x1b[31m'])"))
    --drop 'a\\x1b[31m'
    """
    for argument, instead in _ARGUMENTS:
        text = argument.sub(instead, text)
    return _DROPPED.sub(lambda found: " ".join(visible(option("--drop", name)) for name in ast.literal_eval(found[1])), text)


_STRING = r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
_DROPPED = re.compile(rf"X\.drop\(columns=(\[{_STRING}(?:, {_STRING})*\])\)")
"""What `without_columns` writes: names as Python writes them."""


def print_json(result: Mapping[str, Any]) -> None:
    """One JSON object on standard output. What is not a finite number becomes null."""
    sys.stdout.write(in_json(json.dumps(plain_data(result), indent=2, ensure_ascii=False)) + "\n")
    sys.stdout.flush()


def output() -> Console:
    """The console for results that a person reads."""
    return PlainConsole()


def size_in_words(bytes_: int) -> str:
    """How large a file is.

    >>> size_in_words(812), size_in_words(43_210), size_in_words(4_321_000)
    ('812 bytes', '43 kB', '4.3 MB')
    """
    if bytes_ < 1000:
        return f"{bytes_} bytes"
    return f"{bytes_ / 1e3:.0f} kB" if bytes_ < 999_500 else f"{bytes_ / 1e6:.1f} MB"


def plain_data(value: Any) -> Any:
    """The value as JSON can hold it: arrays as lists, and null for what is not a finite number."""
    if isinstance(value, Mapping):
        return {str(key): plain_data(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_data(entry) for entry in value]
    if hasattr(value, "tolist"):  # numpy's arrays and numbers
        return plain_data(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)
