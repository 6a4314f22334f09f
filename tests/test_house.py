"""benchmarks/house.py counts what it says it counts."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import house

ROOT = Path(__file__).parents[1]


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package of four modules in two folders: ``small`` has one importer, ``twin.py`` occurs twice."""
    root = tmp_path / "rooms"
    (root / "inner").mkdir(parents=True)
    files = {
        "__init__.py": "",
        "twin.py": "from rooms.inner import small\nfrom typing import Any\n\ndef outer(x: int, y: Any) -> int:\n    return small.inner(x) + 1\n",
        "inner/__init__.py": "",
        "inner/small.py": "from rooms.inner.twin import last\n\ndef inner(x: int) -> int:\n    return last(x)\n",
        "inner/twin.py": "def last(x: list[int] | int, *rest: object):\n    return x\n",
        "inner/unused.py": "import rooms.inner.twin\n",
    }
    for name, text in files.items():
        (root / name).write_text(text, encoding="utf-8")
    return root


def test_sizes(package):
    found = house.sizes(package)
    assert (found["modules"], found["packages"], found["lines"]) == (4, 2, 12)
    assert found["file names that occur more than once"] == ["twin.py"]
    assert found["modules with one importer"] == 1
    assert found["of these, fewer than 60 lines"] == ["rooms.inner.small"]
    assert found["share of annotated parameters that are Any"] == pytest.approx(1 / 5)


@pytest.mark.parametrize("in_a_thread", [False, True])
def test_hops_are_calls_between_files_in_every_thread(package, monkeypatch, in_a_thread):
    monkeypatch.syspath_prepend(str(package.parent))
    for name in [name for name in sys.modules if name.split(".")[0] == "rooms"]:
        monkeypatch.delitem(sys.modules, name)
    from rooms.twin import outer  # pyright: ignore[reportMissingImports]

    with house.Hops(package) as hops:
        if in_a_thread:
            with ThreadPoolExecutor(1) as pool:
                assert pool.submit(outer, 1, 2).result() == 2
        else:
            assert outer(1, 2) == 2
    assert hops.counts() == {"files": 3, "hops": 2, "deepest chain": 2}
    assert sys.getprofile() is None


def test_a_new_part_touches_two_source_files():
    """The parts of benchmarks/new_parts work in a copy of this tree, each with one new file and an edit of its room's __init__.py."""
    assert set(house.new_parts(ROOT).values()) == {2}


@pytest.mark.slow
def test_parts_that_do_not_work_are_not_counted(monkeypatch):
    monkeypatch.setattr(house, "NEW_PARTS", {"kernel": house.NEW_PARTS["kernel"]})  # the check asks for all three
    assert house.new_parts(ROOT) == {"source files that a new kernel touches": None}


def test_any_stays_rare():
    assert house.sizes(ROOT / "src" / "manifoldgp")["share of annotated parameters that are Any"] <= 0.04
