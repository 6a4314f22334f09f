"""Freed memory stays with the process while a model trains, and is given back afterwards."""

from __future__ import annotations

import resource

import numpy as np
import pytest

from manifoldgp import allocation
from manifoldgp.allocation import kept_pages

pytestmark = pytest.mark.skipif(allocation._LIBC is None, reason="only glibc's allocator is told to keep pages")

SIDE = 1500  # 18 MB, 4,395 pages


def new_pages(rounds: int = 20) -> int:
    """Pages that the operating system had to supply while matrices were made and dropped."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(rounds):
        np.empty((SIDE, SIDE)).fill(1.0)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def test_inside_matrices_are_made_of_memory_that_is_already_there():
    one = SIDE * SIDE * 8 // resource.getpagesize()
    with kept_pages():
        inside = new_pages()
    assert inside < 3 * one
    assert new_pages() > 3 * one  # the setting ends with the block, also for blocks inside blocks
    with kept_pages():
        with kept_pages():
            pass
        assert new_pages() < 3 * one


def test_memory_is_given_back_after_an_error():
    with pytest.raises(ValueError, match="stop"), kept_pages():
        raise ValueError("stop")
    assert allocation._inside == 0
