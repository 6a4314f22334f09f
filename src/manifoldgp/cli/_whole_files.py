"""Output files that are there whole or not at all."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from manifoldgp.errors import InputError


@contextmanager
def written_whole(out: Path) -> Iterator[Path]:
    """A path to write to; what is there at the end, when nothing went wrong, moves to ``out``."""
    if out.exists() and not out.is_file():
        raise InputError(f"{out} is not a file. Name a file to write to.")
    if not out.parent.is_dir():
        raise InputError(f"The folder {out.parent} does not exist. Create it first.")
    with tempfile.TemporaryDirectory(prefix=".mgp-", dir=out.parent) as folder:
        yield Path(folder) / out.name
        for made in sorted(Path(folder).iterdir()):
            made.replace(out.parent / made.name)
