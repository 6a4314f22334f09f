"""Section page of benchmarks/robots.py: one point of a model in JavaScript, as a model's page computes it, in a real browser."""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import prediction
from bars import Bar, bar_table

POINTS = 500

_PAGE = """<html><body><pre id="outcome"></pre><script>
const model = {model};
for (let i = 0; i < {points}; i++) model([0.001 * i, 0.2]);
const begin = performance.now();
for (let i = 0; i < {points}; i++) model([0.001 * i, 0.3]);
document.getElementById("outcome").textContent = (performance.now() - begin) / {points};
</script></body></html>"""


def show(given: argparse.Namespace) -> None:
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        print("Not measured: there is no Chromium.\n")
        return
    X, y = prediction.make_data(given.rows)
    p = prediction.fit(X, y).predictor()
    milliseconds = in_browser(p.to_javascript(), chromium)
    print(f"The default stack at N = {len(X)}, {p.nbytes / 1e6:.1f} MB, mean and standard deviation in JavaScript\n")
    print(bar_table([Bar("one point in the page", milliseconds, 5.0, "ms")]))


def in_browser(model: str, chromium: str) -> float:
    """Milliseconds a point."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "page.html")
        page.write_text(_PAGE.format(model=model, points=POINTS), encoding="utf-8")
        flags = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            f"--user-data-dir={folder}/profile",
            "--dump-dom",
        ]
        dom = subprocess.run([chromium, *flags, page.as_uri()], capture_output=True, text=True, check=True).stdout
    found = re.search(r'<pre id="outcome">([\d.]+)</pre>', dom)
    assert found, "the page did not compute"
    return float(found.group(1))
