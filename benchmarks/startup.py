"""How long it takes until one can begin: imports and the command line, each in fresh interpreters that take turns.

python benchmarks/startup.py      # the tables alone; make bench has them on its page
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from bars import Bar, number, table
from floor import seconds
from processes import environment

COMMANDS = {
    "python -c pass": ["-c", "pass"],
    "import torch": ["-c", "import torch"],
    "import manifoldgp": ["-c", "import manifoldgp"],
    "from manifoldgp import ManifoldGPRegressor": ["-c", "from manifoldgp import ManifoldGPRegressor"],
    "mgp --help": ["-c", "import sys; sys.argv = ['mgp', '--help']; from manifoldgp.cli import main; main()"],
}
HELP_LIMIT, IMPORT_LIMIT = 0.5, 1.5
"""Seconds; and times the import of PyTorch, which `import manifoldgp` leaves to the first use and the second form does not."""
SMALL = {
    "mgp predict": ["predict", "model.mgp", "new.csv", "--out", "predictions.csv"],
    "mgp inspect": ["inspect", "model.mgp"],
    "mgp score": ["score", "model.mgp", "new.csv"],
}
SMALL_LIMIT = 1.2
"""Processor seconds of a command with the model of 120 rows of `mgp example`, and 300 new rows."""


def measure(quick: bool = False) -> dict:
    """{"seconds": {command: median}, "over_torch": {command: median of ratios to `import torch`}, "processor": {command with a small model: median}}"""
    turns = [[_run(arguments) for arguments in COMMANDS.values()] for _ in range(2 if quick else 8)]
    taken = np.array(turns[1:])  # the first turn fills the disk cache
    torch = taken[:, list(COMMANDS).index("import torch")]
    return {
        "seconds": dict(zip(COMMANDS, np.median(taken, 0).tolist(), strict=True)),
        "over_torch": dict(zip(COMMANDS, np.median(taken / torch[:, None], 0).tolist(), strict=True)),
        "processor": _small_model(2 if quick else 8),
    }


def _small_model(turns: int) -> dict[str, float]:
    """Processor seconds of the commands that a small model is used by."""
    with tempfile.TemporaryDirectory() as folder:
        for command in (
            ["example", "data.csv"],
            ["example", "new.csv", "--rows", "300", "--seed", "1"],
            ["fit", "data.csv", "--target", "y", "--group", "run", "--averaging", "fast", "--out", "model.mgp"],
        ):
            _mgp(command, Path(folder))
        taken = np.array([[_mgp(command, Path(folder)) for command in SMALL.values()] for _ in range(turns)])
    return dict(zip(SMALL, np.median(taken[1:], 0).tolist(), strict=True))


def _mgp(arguments: list[str], folder: Path) -> float:
    """Processor seconds of a command, in a process of its own."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "manifoldgp", *arguments]
    subprocess.run(command, cwd=folder, env=environment(1), check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _run(arguments: list[str]) -> float:
    command = [sys.executable, *arguments]
    return seconds(lambda: subprocess.run(command, env=environment(None), check=True, capture_output=True))


def bars(result: dict) -> list[Bar]:
    imports = [command for command in result["over_torch"] if "import manifoldgp" in command or "manifoldgp import" in command]
    return [
        *(Bar(f"`{command}` against `import torch`", result["over_torch"][command], IMPORT_LIMIT, "x") for command in imports),
        Bar("mgp --help", result["seconds"]["mgp --help"], HELP_LIMIT, "s"),
        *(Bar(f"{command}, processor time", taken, SMALL_LIMIT, "s") for command, taken in result["processor"].items()),
    ]


def markdown(result: dict) -> str:
    rows = [[f"`{c}`", f"{number(s)} s", f"{number(result['over_torch'][c])}x"] for c, s in result["seconds"].items()]
    small = [[f"`{command}`", f"{number(taken)} s"] for command, taken in result["processor"].items()]
    return (
        table(["command", "seconds", "against `import torch`"], rows)
        + "\n\nWith the model of 120 rows of `mgp example` and 300 new rows:\n\n"
        + table(["command", "processor seconds"], small)
    )


if __name__ == "__main__":
    print(markdown(measure()))
