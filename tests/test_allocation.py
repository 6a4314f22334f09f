"""Freed memory stays with the process while a model trains, and is given back afterwards."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from manifoldgp._system import threads as allocation
from manifoldgp._system.threads import kept_pages

pytestmark = pytest.mark.skipif(allocation._LIBC is None, reason="only glibc's allocator is told to keep pages")

COUNT = """
import json, resource
import numpy as np
from manifoldgp._system.threads import kept_pages

SIDE = 1500  # 18 MB


def new_pages():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        np.empty((SIDE, SIDE)).fill(1.0)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / (SIDE * SIDE * 8 / resource.getpagesize())


found = {}
with kept_pages():
    found["inside"] = new_pages()
found["outside"] = new_pages()
with kept_pages():
    with kept_pages():
        pass
    found["after an inner block"] = new_pages()
print(json.dumps(found))
"""


def test_inside_matrices_are_made_of_memory_that_is_already_there():
    """Pages that the operating system had to supply for 20 matrices made and dropped, in matrices; a fresh process has no other free memory."""
    done = subprocess.run([sys.executable, "-c", COUNT], capture_output=True, text=True, check=True)
    pages = json.loads(done.stdout)
    assert 5 * pages["inside"] < pages["outside"]  # pages may be huge ones: only the ratio is sure
    assert 5 * pages["after an inner block"] < pages["outside"]


def test_memory_is_given_back_after_an_error():
    with pytest.raises(ValueError, match="stop"), kept_pages():
        raise ValueError("stop")
    assert allocation._inside == 0
