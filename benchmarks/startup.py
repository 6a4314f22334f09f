"""How long it takes until one can begin: imports and the command line, each in fresh interpreters that take turns."""

from __future__ import annotations

import subprocess
import sys

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


def measure(quick: bool = False) -> dict:
    """{"seconds": {command: median}, "over_torch": {command: median of ratios to `import torch`}}"""
    turns = [[_run(arguments) for arguments in COMMANDS.values()] for _ in range(2 if quick else 8)]
    taken = np.array(turns[1:])  # the first turn fills the disk cache
    torch = taken[:, list(COMMANDS).index("import torch")]
    return {
        "seconds": dict(zip(COMMANDS, np.median(taken, 0).tolist(), strict=True)),
        "over_torch": dict(zip(COMMANDS, np.median(taken / torch[:, None], 0).tolist(), strict=True)),
    }


def _run(arguments: list[str]) -> float:
    command = [sys.executable, *arguments]
    return seconds(lambda: subprocess.run(command, env=environment(None), check=True, capture_output=True))


def bars(result: dict) -> list[Bar]:
    imports = [command for command in result["over_torch"] if "import manifoldgp" in command or "manifoldgp import" in command]
    return [
        *(Bar(f"`{command}` against `import torch`", result["over_torch"][command], IMPORT_LIMIT, "x") for command in imports),
        Bar("mgp --help", result["seconds"]["mgp --help"], HELP_LIMIT, "s"),
    ]


def markdown(result: dict) -> str:
    rows = [[f"`{c}`", f"{number(s)} s", f"{number(result['over_torch'][c])}x"] for c, s in result["seconds"].items()]
    return table(["command", "seconds", "against `import torch`"], rows)
