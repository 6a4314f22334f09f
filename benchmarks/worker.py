"""The process that holds one library. It reads one task a line (JSON), does it, and answers one line; the coordinator is processes.py.

python worker.py ADAPTER PACKAGE
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import re
import resource
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from floor import floor_of, seconds


class Tasks:
    """What a worker can be told to do; X and y arrive as lists."""

    def __init__(self, adapter: Any, package: str) -> None:
        self.adapter, self.package = adapter, package
        self.evaluate: Callable[[], float] = float
        self.floor: Callable[[], None] = lambda: None

    def about(self) -> dict:
        names = importlib.metadata.packages_distributions().get(self.package, [self.package])
        return {"version": importlib.metadata.version(names[0]), "peak_mb": peak_mb()}

    def prepare(self, X: list, y: list, **options: Any) -> dict:
        """Make the evaluation and its floor ready; warm both up."""
        inputs = np.array(X)
        self.evaluate = self.adapter.evaluation(inputs, np.array(y), **options)
        nlml = self.evaluate()
        self.floor = floor_of(inputs)
        for _ in range(2):
            self.floor()
            self.evaluate()
        return {"nlml": nlml, "seconds": seconds(self.evaluate)}

    def evaluation_alone(self, X: list, y: list, values: dict) -> dict:
        return {"nlml": self.adapter.evaluation(np.array(X), np.array(y), values)()}

    def evaluations(self, count: int) -> dict:
        """Seconds of ``count`` evaluations, each beside one of the floor."""
        pairs = [(seconds(self.floor), seconds(self.evaluate)) for _ in range(count)]
        return {"floor": [p[0] for p in pairs], "seconds": [p[1] for p in pairs]}

    def fit(self, X: list, y: list, starts: list, max_iter: int) -> dict:
        answer: list = []
        taken = seconds(lambda: answer.extend(self.adapter.fit(np.array(X), np.array(y), starts, max_iter)))
        return {"seconds": taken, "values": answer[0], "trace": answer[1], "peak_mb": peak_mb()}

    def averaged(self, X: list, y: list, averaging: str) -> dict:
        return {"seconds": seconds(lambda: self.adapter.averaged_fit(np.array(X), np.array(y), averaging))}

    def levelled(self, X: list, y: list, **options: Any) -> dict:
        answer: list = []
        taken = seconds(lambda: answer.extend(self.adapter.levelled_fit(np.array(X), np.array(y), **options)))
        return {"seconds": taken, "nlml": answer[0], "trace": answer[1], "peak_mb": peak_mb()}


def peak_mb() -> float:
    """The most resident memory this program ever had, in MB. On Linux getrusage also counts the process it was started from."""
    status = Path("/proc/self/status")
    if status.exists():
        return int(re.search(r"VmHWM:\s+(\d+) kB", status.read_text())[1]) * 1024 / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e6


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints must not come between the answers
    warnings.simplefilter("ignore")
    try:
        tasks = Tasks(importlib.import_module(f"libraries.{sys.argv[1]}"), sys.argv[2])
    except Exception as error:
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}), file=answers, flush=True)
        return
    print(json.dumps(tasks.about()), file=answers, flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        try:
            answer = getattr(tasks, order.pop("task"))(**order)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
