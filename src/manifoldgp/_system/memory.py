"""How much memory is left, and what to say where there is next to none. Needs neither NumPy nor PyTorch."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

from manifoldgp.errors import InputError

LEAST_BYTES = 2**24
"""Memory with which nothing can be trained: pandas and PyTorch end without a word where so little is left, at an allocation that fails inside them."""


def available_bytes() -> int:
    """Memory that this process can still get, in bytes: what the machine has free, or what the limits of its container and of the process (ulimit -v) leave."""
    limits = [sys.maxsize]
    if hasattr(os, "sysconf"):
        limits.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    with suppress(OSError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                limits.append(1024 * int(line.split()[1]))
    for limit in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError):  # ValueError: "max", no limit
            limits.append(int(Path(limit).read_text()))
    with suppress(ImportError, OSError):  # neither is on every system
        import resource

        most, _ = resource.getrlimit(resource.RLIMIT_AS)
        if most != resource.RLIM_INFINITY:
            taken = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
            limits.append(max(0, most - taken))
    return min(limits)


def size_in_words(count: float) -> str:
    """Bytes in words.

    >>> size_in_words(3.2e9), size_in_words(24e6)
    ('3.0 GiB', '22.9 MiB')
    """
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.1f} MiB"


def refuse_next_to_no_memory() -> None:
    """Say that memory is short while there is enough of it to say so."""
    left = available_bytes()
    if left < LEAST_BYTES:
        raise InputError(
            f"Not enough memory: {size_in_words(left)} are left to this process, and a fit needs {size_in_words(LEAST_BYTES)} at the very least. "
            "Raise its limit (ulimit -v), or end other programs."
        )
