"""Files that are there whole or not at all, and that replace no input: whoever writes one goes through here.

Writing goes to a partial file beside the target, which takes the target's place in one step when everything has gone well and is on the
disk. Otherwise the partial file is removed, and an older target stays as it was. A process that is killed cannot remove its partial file;
whoever writes the same target next does it.

To others it looks as if the target had been written in place: a link is followed, a new file has the permissions that the umask gives,
a file that is replaced keeps its own, and one that may not be written to is refused.
"""

from __future__ import annotations

import os
import re
import stat
import time
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import combinations
from pathlib import Path

from manifoldgp.errors import InputError

_ABANDONED = 24 * 3600.0
"""Seconds after which a partial file of another machine, whose processes cannot be looked up, has no writer any more."""

_being_written: set[Path] = set()
"""Partial files of this process."""


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
    _remove_abandoned(target)
    partial = target.with_name(f".partial-{_machine()}-{os.getpid()}-{os.urandom(4).hex()}-{_ending(target)}")
    _being_written.add(partial)
    try:
        try:
            partial.open("xb").close()
        except OSError as error:
            raise InputError(
                f"No file can be written in the folder {target.parent} ({error.strerror}). Choose another one, or see to its permissions and space."
            ) from error
        mode = stat.S_IMODE((target if target.exists() else partial).stat().st_mode)
        yield partial
        with partial.open("ab") as written:
            partial.chmod(mode)  # writers such as safetensors make a file of their own, which only the owner may read
            os.fsync(written.fileno())  # or a power cut could leave the new name with nothing behind it
        partial.replace(target)
        _sync_folder(target.parent)
    finally:
        partial.unlink(missing_ok=True)
        _being_written.discard(partial)


def write_whole(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Write a file that is there whole or not at all; text is UTF-8, its lines end as they do in ``content``."""
    with written_whole(path) as partial:
        partial.write_bytes(content.encode() if isinstance(content, str) else content)


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


def refuse_overwriting(outputs: Iterable[str | os.PathLike[str]], inputs: Iterable[str | os.PathLike[str]]) -> None:
    """Refuse an output that is one of the inputs, or another output, under whatever name; "-" is standard input or output."""
    written, read = [os.fspath(path) for path in outputs if os.fspath(path) != "-"], [os.fspath(path) for path in inputs]
    for output in written:
        for name in read:
            if _is_same(output, name):
                called = "the one on standard input" if name == "-" else f"the input {name}"
                same = "is one of the inputs" if name == output else f"is the same file as {called}"
                raise InputError(f"{output} {same}: writing there would destroy it. Name another file to write to.")
    for one, other in combinations(written, 2):
        if _is_same(one, other):
            raise InputError(f"{one} and {other} are the same file, and both would be written. Name two different files.")


def _is_same(output: str, name: str) -> bool:
    """Whether two names are one file. Devices and pipes are none: nothing in them can be destroyed.

    The file system answers for names that exist: it knows links, and whether capitals count. Names that do not exist yet and differ in
    capitals only are taken for one.
    """
    if name == "-":
        with suppress(OSError):
            return os.path.isfile(output) and os.path.samestat(os.stat(output), os.fstat(0))
        return False
    there = os.path.exists(output), os.path.exists(name)
    if all(there):
        return os.path.isfile(output) and os.path.samefile(output, name)
    return not any(there) and os.path.realpath(output).casefold() == os.path.realpath(name).casefold()


def _ending(target: Path) -> str:
    """The end of the target's name, by which some writers go; names may have 255 bytes."""
    return target.name[-40:]


def _machine() -> str:
    """Where the numbers of processes are counted: the host and, on Linux, the container, as eight digits."""
    place = os.uname().nodename if hasattr(os, "uname") else ""
    with suppress(OSError):
        place += f" {os.stat('/proc/self/ns/pid').st_ino}"
    return f"{zlib.crc32(place.encode()):08x}"


def _remove_abandoned(target: Path) -> None:
    """Remove partial files of this target whose process was killed."""
    name = re.compile(rf"\.partial-([0-9a-f]{{8}})-(\d+)-[0-9a-f]{{8}}-{re.escape(_ending(target))}")
    with suppress(OSError):  # a folder that may be written to but not listed: what is left there stays
        for path in target.parent.iterdir():
            if (found := name.fullmatch(path.name)) and _abandoned(path, found[1], int(found[2])):
                with suppress(OSError):  # another process removed it, or may only
                    path.unlink()


def _abandoned(partial: Path, machine: str, process: int) -> bool:
    if machine != _machine() or os.name != "posix":  # elsewhere than on POSIX, signal 0 is no question but ends the process
        with suppress(OSError):
            return time.time() - partial.stat().st_mtime > _ABANDONED
        return False
    if process == os.getpid():  # numbers are given again, in a container that starts anew as a rule
        return partial not in _being_written
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):  # it belongs to another user
        return False
    return False


def _sync_folder(folder: Path) -> None:
    """Have the new name of a file on the disk too. Where the system cannot do that for folders, the file is there all the same."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
