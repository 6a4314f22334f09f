"""Files that are there whole or not at all: whoever writes one goes through here.

Writing goes to a partial file beside the target, which takes the target's place in one step when everything has gone well. Otherwise
the partial file is removed, and an older target stays as it was.

To others it looks as if the target had been written in place: a link is followed, a new file has the permissions that the umask gives,
a file that is replaced keeps its own, and one that may not be written to is refused.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from manifoldgp.errors import InputError


@contextmanager
def written_whole(path: str | os.PathLike[str]) -> Iterator[Path]:
    """The partial file to write to, empty and with the target's ending; at the end, when nothing went wrong, it becomes ``path``.

    The partial file may be opened, replaced or truncated by whoever writes it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with written_whole(folder + "/a.txt") as partial:
    ...         _ = partial.write_text("all of it")
    ...     (Path(folder) / "a.txt").read_text()
    'all of it'
    """
    refuse_unwritable(path)
    target = Path(os.path.realpath(path))
    partial = target.with_name(f".partial-{secrets.token_hex(4)}-{target.name[-40:]}")  # names may have 255 bytes
    try:
        partial.open("xb").close()
    except OSError as error:
        raise InputError(
            f"No file can be written in the folder {target.parent} ({error.strerror}). Choose another one, or see to its permissions and space."
        ) from error
    try:
        mode = stat.S_IMODE((target if target.exists() else partial).stat().st_mode)
        yield partial
        partial.chmod(mode)  # writers such as safetensors make a file of their own, which only the owner may read
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def refuse_unwritable(path: str | os.PathLike[str]) -> None:
    """Refuse a path at which no whole file can be written, best before any work is done for it."""
    target = os.path.realpath(path)
    if os.path.isdir(target):
        raise InputError(f"{path} is a folder. Name a file in it.")
    if not os.path.isdir(os.path.dirname(target)):
        raise InputError(f"The folder {Path(path).parent} does not exist. Create it first.")
    if not os.path.exists(target):
        return
    if not os.path.isfile(target):
        raise InputError(f"{path} is neither a file nor a folder, and cannot be replaced by a file. Name a file to write to.")
    if not os.access(target, os.W_OK):
        raise InputError(f"The file {path} may not be written to. Name another one, or change its permissions.")
