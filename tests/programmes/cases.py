"""Cases drawn from seeds, area by area: what is run, what counts as a failure, and the line that runs a failed case again."""

from __future__ import annotations

import argparse
import sys
import time
import traceback
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
import torch

from manifoldgp.errors import ManifoldGPError

Case = Callable[[np.random.Generator], str]
"""Runs one case and says in a word how it ended; whatever is forbidden is raised."""

ALLOWED = (ManifoldGPError, ValueError)
"""What may be raised instead of an answer."""


class ForbiddenError(AssertionError):
    """An outcome that must not be."""


@dataclass
class Tally:
    """How often each outcome occurred, and the failures as (case, words)."""

    outcomes: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[int, str]] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def cases(self) -> int:
        return self.outcomes.total() + len(self.failures)


def generator_of(area: str, seed: int, case: int) -> np.random.Generator:
    """The random numbers of one case, whatever ran before it."""
    return np.random.default_rng([seed, zlib.crc32(area.encode()), case])


def one_case(area: str, run: Case, seed: int, case: int, tally: Tally) -> None:
    """Run a case and count how it ended."""
    begin = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tally.outcomes[run(generator_of(area, seed, case))] += 1
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        tally.failures.append(
            (case, f"{type(error).__name__}: {str(error)[:400]} ({where.filename.rsplit('/', 1)[-1]}:{where.lineno})")
        )
    tally.seconds += time.perf_counter() - begin


def command_line(
    description: str, programme: str, areas: Mapping[str, Case], minutes: float, given: Sequence[str] | None = None
) -> None:
    """Run the areas in turn until the time is over or the cases are done; the exit code says whether anything failed."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--minutes", type=float, default=minutes, help=f"how long, over all areas (default: {minutes:g})")
    parser.add_argument("--cases", type=int, default=None, help="at most so many cases of each area")
    parser.add_argument("--seed", type=int, default=0, help="another seed draws other cases")
    parser.add_argument("--area", nargs="*", default=list(areas), choices=list(areas), help="only these areas")
    parser.add_argument("--case", type=int, default=None, help="only this case, with its traceback")
    options = parser.parse_args(given)
    torch.set_num_threads(1)
    if options.case is not None:
        for area in options.area:
            print(area, options.case, areas[area](generator_of(area, options.seed, options.case)))
        return
    print(f"{programme}: seed {options.seed}, areas {', '.join(options.area)}", flush=True)
    tallies = {name: Tally() for name in options.area}
    with suppress(KeyboardInterrupt):  # Ctrl-C ends it early, with its report
        _run({name: areas[name] for name in options.area}, tallies, options, programme)
    _report(tallies)
    sys.exit(any(tally.failures for tally in tallies.values()))


def _run(areas: Mapping[str, Case], tallies: Mapping[str, Tally], options: argparse.Namespace, programme: str) -> None:
    """The area with the least time so far comes next, so that all have equal shares of it."""
    end, said = time.perf_counter() + 60.0 * options.minutes, time.perf_counter()
    while time.perf_counter() < end:
        if time.perf_counter() > said + 300.0:
            said = time.perf_counter()
            print(", ".join(f"{name} {tally.cases}" for name, tally in tallies.items()), flush=True)
        open_areas = [name for name in areas if options.cases is None or tallies[name].cases < options.cases]
        if not open_areas:
            break
        name = min(open_areas, key=lambda area: tallies[area].seconds)
        tally, known = tallies[name], len(tallies[name].failures)
        one_case(name, areas[name], options.seed, tally.cases, tally)
        for case, words in tally.failures[known:]:
            print(
                f"FAILED {name}: {words}\n  again: python -m {programme} --seed {options.seed} --area {name} --case {case}",
                flush=True,
            )


def _report(tallies: Mapping[str, Tally]) -> None:
    for name, tally in tallies.items():
        outcomes = ", ".join(f"{count} {outcome}" for outcome, count in tally.outcomes.most_common())
        print(f"{name}: {tally.cases} cases in {tally.seconds / 60:.1f} minutes, {len(tally.failures)} failed; {outcomes}")
    print(f"{sum(t.cases for t in tallies.values())} cases, {sum(len(t.failures) for t in tallies.values())} failed")


def refused_or(answer: Callable[[], object]) -> str:
    """ "answered", or "refused" where an allowed error was raised with a message that says something."""
    try:
        answer()
    except ALLOWED as error:
        if not str(error).strip():
            raise ForbiddenError(f"a {type(error).__name__} without a word") from error
        return "refused"
    return "answered"


def require_usable(mean: object, std: object) -> None:
    """Predictions are finite numbers, and standard deviations positive."""
    if not np.isfinite(np.asarray(mean)).all():
        raise ForbiddenError("a mean that is not finite")
    if not (np.isfinite(np.asarray(std)) & (np.asarray(std) > 0)).all():
        raise ForbiddenError("a standard deviation that is not finite or not positive")
