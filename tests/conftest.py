"""What all tests share: capped threads, reproducible hypothesis runs, and fixtures that skip with a reason."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
import torch
from threadpoolctl import ThreadpoolController

collect_ignore = ["own_parts.py"]
"""A user's module, which is imported once: parts are registered under one name."""

hypothesis.settings.register_profile("tests", deadline=None, derandomize=True, max_examples=30, database=None)
hypothesis.settings.load_profile("tests")


def pytest_configure() -> None:
    """At most two threads for torch, in tests and doctests, so that timings and rounding vary little between machines; one where tests run side by side on all cores.

    Threads that wait for each other's cores spin: the sampler's test took five times its processor time. Tests of threads ask for two themselves.

    Ctrl-C and a closed terminal have their usual meaning: jobs that a shell starts in the background ignore the one, jobs under nohup the other, as do their
    children, and tests of interrupts would wait in vain.
    """
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    threads = max(1, min(2, torch.get_num_threads() // workers))
    torch.set_num_threads(threads)
    ThreadpoolController().limit(limits=threads, user_api="blas")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """One thread for torch: with more, the order of its sums may change, and a nearly singular matrix turns that into other predictions."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of recorded data sets, ``../shared/data`` beside the repository."""
    folder = Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("needs the recorded data sets in ../shared/data beside the repository, and that folder is missing")
    return folder


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of a Chromium or Chrome that can run headless."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    for name in names:
        if path := shutil.which(name):
            return path
    pytest.skip(f"needs a browser on PATH, one of {', '.join(names)}; none was found")
