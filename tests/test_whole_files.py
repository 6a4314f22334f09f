"""Files that are there whole or not at all: interruptions, permissions, links, and what is refused."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from manifoldgp._system.files import refuse_unwritable, written_whole
from manifoldgp.errors import InputError

posix = pytest.mark.skipif(os.name != "posix", reason="permissions and signals of POSIX")


@pytest.fixture
def umask():
    """A function that sets the umask; the old one is back at the end."""
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)


def mode(path):
    return path.stat().st_mode & 0o777


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_nothing_is_at_the_target_until_all_is_written(tmp_path):
    target = tmp_path / "a.csv.gz"
    with written_whole(target) as partial:
        assert partial.parent == tmp_path
        assert partial.name.endswith("a.csv.gz")  # some writers go by the ending
        partial.write_text("half")
        assert not target.exists()
        partial.write_text("whole")
    assert target.read_text() == "whole"
    assert names(tmp_path) == ["a.csv.gz"]


@pytest.mark.parametrize("failure", [ValueError("no"), KeyboardInterrupt("no"), SystemExit("no")])
def test_a_failure_leaves_the_old_file_and_no_partial_one(tmp_path, failure):
    target = tmp_path / "a"
    target.write_text("old")

    def fail_halfway():
        with written_whole(target) as partial:
            partial.write_text("half of the new")
            raise failure

    with pytest.raises(type(failure), match="no"):
        fail_halfway()
    assert target.read_text() == "old"
    assert names(tmp_path) == ["a"]


@posix
def test_an_interrupted_process_leaves_the_old_file_and_no_partial_one(tmp_path):
    target = tmp_path / "a"
    target.write_text("old")
    code = (
        "import sys, time; from manifoldgp._system.files import written_whole\n"
        "with written_whole(sys.argv[1]) as partial:\n"
        "    partial.write_text('half'); print('begun', flush=True); time.sleep(60)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(target)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    assert len(names(tmp_path)) == 2
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert target.read_text() == "old"
    assert names(tmp_path) == ["a"]


@posix
@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_a_new_file_has_the_permissions_that_the_umask_gives(tmp_path, umask, mask):
    umask(mask)
    with written_whole(tmp_path / "a") as partial:
        partial.unlink()  # as writers do that make a file of their own
        partial.touch(mode=0o600)
    assert mode(tmp_path / "a") == 0o666 & ~mask


@posix
def test_a_file_that_is_replaced_keeps_its_permissions(tmp_path, umask):
    target = tmp_path / "private"
    target.write_text("old")
    target.chmod(0o600)
    with written_whole(target) as partial:
        partial.write_text("new")
    assert target.read_text() == "new"
    assert mode(target) == 0o600


@posix
def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "folder").mkdir()
    link, target = tmp_path / "latest", tmp_path / "folder" / "file"
    link.symlink_to(target)  # to a file that is not there yet
    for text in ("first", "second"):
        with written_whole(link) as partial:
            partial.write_text(text)
        assert link.is_symlink()
        assert target.read_text() == text
    assert names(tmp_path / "folder") == ["file"]


def test_two_writers_of_one_file_do_not_mix(tmp_path):
    texts = [letter * 200_000 for letter in "abcdefgh"]

    def write(text):
        with written_whole(tmp_path / "a") as partial, partial.open("w") as file:
            for start in range(0, len(text), 1000):
                file.write(text[start : start + 1000])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, texts))
    assert (tmp_path / "a").read_text() in texts
    assert names(tmp_path) == ["a"]


def test_names_as_long_as_the_file_system_takes(tmp_path):
    target = tmp_path / ("n" * 251 + ".csv")
    with written_whole(str(target)) as partial:
        partial.write_text("x")
    assert target.read_text() == "x"


@pytest.mark.parametrize(("name", "message"), [
    ("none/a", r"The folder .*none does not exist\. Create it first\."),
    ("folder", r"folder is a folder\. Name a file in it\."),
])  # fmt: skip
def test_refusals_before_anything_is_written(tmp_path, name, message):
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match=message):
        refuse_unwritable(tmp_path / name)
    with pytest.raises(InputError, match=message), written_whole(tmp_path / name):
        pytest.fail("nothing may be written")
    assert names(tmp_path) == ["folder"]


@posix
def test_a_pipe_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="pipe is neither a file nor a folder"), written_whole(tmp_path / "pipe"):
        pytest.fail("nothing may be written")


_OTHER_USER = """
import os, sys
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
try:
    with written_whole(sys.argv[1]):
        print("written")
except InputError as error:
    print(error)
"""


@pytest.fixture
def public_folder():
    """A folder that every user may enter; those of pytest are private."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(os.path.realpath(folder))


@posix
def test_what_the_user_may_not_do_is_said(public_folder):
    """In a process of a user without rights: for root everything is allowed."""
    closed, kept = public_folder / "closed", public_folder / "open" / "kept"
    closed.mkdir()
    kept.parent.mkdir()
    kept.touch()
    kept.parent.chmod(0o777)
    kept.chmod(0o444)
    closed.chmod(0o555)
    code = "from manifoldgp.errors import InputError; from manifoldgp._system.files import written_whole\n" + _OTHER_USER

    def said(path):
        done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    assert said(closed / "a").startswith(f"No file can be written in the folder {closed} (Permission denied).")
    assert said(kept) == f"The file {kept} may not be written to. Name another one, or change its permissions."
    assert names(closed) == []
    assert names(kept.parent) == ["kept"]
