"""``python -m manifoldgp`` is ``mgp``; ``fit`` under torchrun trains on all its processes."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Hand over to the command line, or, in a process that torchrun started, to the shared fit."""
    # The condition of streaming.ranks.launched(), without waiting for PyTorch; WORLD_SIZE alone is set by other launchers too.
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ and sys.argv[1:2] == ["fit"]:
        from manifoldgp.cli.torchrun import main as fit

        fit(sys.argv[2:])
    else:
        from manifoldgp.cli import main as mgp

        mgp()


if __name__ == "__main__":
    main()
