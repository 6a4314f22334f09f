"""Files that are there whole or not at all: interruptions, permissions, links, and what is refused."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from manifoldgp._system.files import refuse_overwriting, refuse_unwritable, write_whole, written_whole
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


_KILLED = """
import os, sys
from manifoldgp._system.files import written_whole
with written_whole(sys.argv[1]) as partial:
    partial.write_text("half")
    os._exit(9)
"""


def _killed_while_writing(target):
    assert subprocess.run([sys.executable, "-c", _KILLED, str(target)], timeout=60).returncode == 9


@posix
def test_what_a_killed_process_left_goes_away_with_the_next_write(tmp_path):
    target, other = tmp_path / "a", tmp_path / "b"
    target.write_text("old")
    _killed_while_writing(target)
    _killed_while_writing(other)
    assert target.read_text() == "old"
    left = [name for name in names(tmp_path) if name.startswith(".partial-")]
    assert len(left) == 2
    with written_whole(target) as partial:
        partial.write_text("new")
    assert names(tmp_path) == [next(name for name in left if name.endswith("-b")), "a"]
    write_whole(other, "new")
    assert names(tmp_path) == ["a", "b"]


@posix
def test_partial_files_of_living_writers_stay(tmp_path):
    """Of this process, of another one, and of another machine, whose processes nobody here can look up, until they are a day old."""
    code = (
        "import sys; from manifoldgp._system.files import written_whole\n"
        "with written_whole(sys.argv[1]) as partial:\n"
        "    print('begun', flush=True); partial.write_text(sys.stdin.read())"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "a")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        elsewhere = tmp_path / ".partial-00000000-1-00000000-a"
        elsewhere.touch()
        with written_whole(tmp_path / "a") as partial:
            partial.write_text("outer")
            write_whole(tmp_path / "a", "inner")
        assert (tmp_path / "a").read_text() == "outer"
        assert elsewhere.exists()
        process.communicate("of the other process", timeout=60)
    assert process.returncode == 0
    assert (tmp_path / "a").read_text() == "of the other process"
    os.utime(elsewhere, times=(time.time() - 2 * 86400,) * 2)
    write_whole(tmp_path / "a", "new")
    assert names(tmp_path) == ["a"]


@posix
def test_a_file_is_on_the_disk_before_it_takes_the_place_and_its_name_afterwards(tmp_path, monkeypatch):
    order = []
    fsync, replace = os.fsync, Path.replace

    def note_fsync(descriptor):
        found = os.fstat(descriptor)
        order.append("folder" if stat.S_ISDIR(found.st_mode) else found.st_size)
        fsync(descriptor)

    def note_replace(self, target):
        order.append("replace")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", note_fsync)
    monkeypatch.setattr(Path, "replace", note_replace)
    write_whole(tmp_path / "a", "seven..")
    assert order == [7, "replace", "folder"]


_FULL_DISK = """
import resource, sys
import numpy as np
from manifoldgp import GPRegressor
from manifoldgp.predictor.onnx import export_onnx
from manifoldgp.inspection.page import write_model_report

X = np.linspace(0, 1, 20)[:, None]
model = GPRegressor(restarts=1, max_iter=2).fit(X, np.sin(5 * X[:, 0]))
writers = {
    "predictor": model.predictor().save,
    "onnx": lambda path: export_onnx(model, path),
    "page": lambda path: write_model_report(model, path),
    "model": model.save,
}
resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))
for name, write in writers.items():
    try:
        write(f"{sys.argv[1]}/{name}")
    except OSError:
        print(name)
"""


@posix
def test_no_writer_harms_the_old_file_when_the_disk_is_full(tmp_path):
    """The limit of a file's size stands for the end of the disk: both end a write in its middle."""
    pytest.importorskip("onnx")
    writers = ["model", "onnx", "page", "predictor"]
    for name in writers:
        (tmp_path / name).write_text("old")
    done = subprocess.run([sys.executable, "-c", _FULL_DISK, str(tmp_path)], capture_output=True, text=True, timeout=100)
    assert sorted(done.stdout.split()) == writers, done.stderr
    assert [(tmp_path / name).read_text() for name in writers] == ["old"] * 4
    assert names(tmp_path) == writers


def _others(tmp_path, name):
    """Other names of a file."""
    there = tmp_path / name
    (tmp_path / "folder").mkdir()
    (tmp_path / "soft").symlink_to(there)
    (tmp_path / "linked").symlink_to(tmp_path)
    os.link(there, tmp_path / "hard")
    return [name, there, tmp_path / "folder" / ".." / name, tmp_path / "soft", tmp_path / "linked" / name, tmp_path / "hard"]


@posix
def test_an_output_that_is_an_input_is_refused_under_every_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("x")
    (tmp_path / "b.csv").write_text("x")
    for name in _others(tmp_path, "a.csv"):
        with pytest.raises(InputError, match=r"would destroy it\. Name another file to write to\."):
            refuse_overwriting([name], ["b.csv", "a.csv"])
        with pytest.raises(InputError, match="are the same file, and both would be written"):
            refuse_overwriting(["a.csv", name], [])
        refuse_overwriting([name], ["b.csv", "none.csv"])
    refuse_overwriting(["-", "new.csv"], ["a.csv", "-"])
    refuse_overwriting([os.devnull], [os.devnull])
    with pytest.raises(InputError, match=r"new\.csv and NEW\.csv are the same file"):
        refuse_overwriting(["new.csv", "NEW.csv"], [])  # neither exists: the file system may or may not tell them apart


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
