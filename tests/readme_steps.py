"""The steps of a README, as somebody does them who has installed the package and nothing else: its commands in order, then its Python blocks.

    python -I tests/readme_steps.py README.md      # in an empty folder; python tests/versions.py wheel runs it in an empty environment

Uses the standard library alone. The package must come from the environment's own packages, not from a source tree.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path


def commands(page: str) -> list[str]:
    """What stands after "$ " in the page's console blocks.

    >>> commands("```console\\n$ mgp example data.csv\\n120 rows\\n```")
    ['mgp example data.csv']
    """
    return [
        line[2:] for block in re.findall(r"```console\n(.*?)```", page, re.S) for line in block.splitlines() if line[:2] == "$ "
    ]


def python_blocks(page: str) -> list[str]:
    """The page's Python, block by block."""
    return re.findall(r"```python\n(.*?)```", page, re.S)


def run(page: str) -> None:
    """Run all; the first step that fails ends it with an error."""
    where = os.environ | {"PATH": os.pathsep.join((sysconfig.get_path("scripts"), os.environ["PATH"])), "COLUMNS": "100"}
    for command in commands(page):
        print(f"$ {command}", flush=True)
        subprocess.run(command, shell=True, check=True, env=where)
    import manifoldgp

    if Path(sysconfig.get_path("purelib")) not in Path(manifoldgp.__file__).parents:
        raise SystemExit(f"manifoldgp is imported from {manifoldgp.__file__}, not from the environment's packages.")
    names: dict[str, object] = {"__name__": "README"}
    for block in python_blocks(page):
        exec(compile(block, "README.md", "exec"), names)


if __name__ == "__main__":
    run(Path(sys.argv[1]).read_text(encoding="utf-8"))
