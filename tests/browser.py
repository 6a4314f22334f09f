"""Pages in a real browser: what a page's own script did, and what a script of the test finds on it."""

from __future__ import annotations

import json
import re
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--allow-file-access-from-files",
    "--virtual-time-budget=5000",
    "--enable-logging=stderr",
]


def browse(chromium: str, path: Path, profile: Path, size: str = "1100,900") -> tuple[str, list[str]]:
    """The DOM after the page's script has run, and what it wrote to the console."""
    command = [chromium, *FLAGS, f"--user-data-dir={profile}", f"--window-size={size}", "--dump-dom", path.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def with_script(html: str, code: str, path: Path) -> Path:
    """The page with a script at its end whose outcome, a JSON value, becomes the text of an element with the id "outcome"."""
    script = f"""<pre id="outcome"></pre><script>addEventListener("load", () => {{
      let found; try {{ found = (() => {{ {code} }})(); }} catch (error) {{ found = "failed: " + error; }}
      document.getElementById("outcome").textContent = JSON.stringify(found);
    }});</script>"""
    path.write_text(html.replace("</body>", script + "</body>"), encoding="utf-8")
    return path


def outcome_of(dom: str) -> Any:
    """What the script of :func:`with_script` returned."""
    found = re.search(r'<pre id="outcome">(.*?)</pre>', dom, re.S)
    assert found, "the page has no outcome: its script did not run"
    return json.loads(unescape(found.group(1)))
