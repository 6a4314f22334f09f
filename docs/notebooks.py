"""Pages of the documentation as notebooks: read, run, and written as Markdown with what they print and draw.

A guide (Markdown with ```python blocks) and a tutorial (a script with `# %%` cells) become the same thing, a notebook, and take the same way from there. What a run gave is kept in
build/executed until the page's code or the package changes.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import tempfile
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from traitlets.config import Config

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "build" / "executed"
BLOCK = re.compile(r"^```python\n(.*?)^```\n", re.S | re.M)
LINK = re.compile(r"\[([^\]]+)\]\((?!https?:)[^)]+\)")
_ANSI = re.compile(r"\x1b\[[0-9;]*m")


def guide(text: str) -> NotebookNode:
    """The notebook of a Markdown page: its Python blocks are the code.

    >>> [cell.cell_type for cell in guide("# A\\n\\n```python\\nprint(1)\\n```\\n\\nB\\n").cells]
    ['markdown', 'code', 'markdown']
    """
    parts = BLOCK.split(text)
    cells = [new_code_cell(part.rstrip("\n")) if i % 2 else new_markdown_cell(part.strip("\n")) for i, part in enumerate(parts)]
    return new_notebook(cells=[cell for cell in cells if cell.source])


def tutorial(text: str) -> NotebookNode:
    """The notebook of a script in jupytext's percent format."""
    return jupytext.reads(text, fmt="py:percent")


def executed(notebook: NotebookNode) -> NotebookNode:
    """The notebook with its outputs, run in an empty folder; an error in a cell ends the build."""
    kept = KEPT / f"{_digest(notebook)}.ipynb"
    if kept.is_file():
        return _with_outputs(notebook, nbformat.read(kept, as_version=4))
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as sockets:
        client = NotebookClient(notebook, kernel_name="python3", resources={"metadata": {"path": folder}}, coalesce_streams=True)
        if os.name == "posix":  # TCP, the way elsewhere, is open to whoever is on the machine, and warned about
            client.config = Config(KernelManager={"transport": "ipc", "ip": f"{sockets}/kernel"})
        client.timeout, client.startup_timeout = 600, 300  # seconds; other work may keep the cores busy
        client.execute()
    kept.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, kept)
    return notebook


def _with_outputs(notebook: NotebookNode, ran: NotebookNode) -> NotebookNode:
    """The notebook with what an earlier run of the same code gave."""
    code, earlier = ([cell for cell in each.cells if cell.cell_type == "code"] for each in (notebook, ran))
    for cell, before in zip(code, earlier, strict=True):
        cell.outputs, cell.execution_count = before.outputs, before.execution_count
    return notebook


def _digest(notebook: NotebookNode) -> str:
    """Of all that the outputs depend on: the code of the page and of the package. Text may change without a run."""
    code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    package = [path.read_bytes() for path in sorted((ROOT / "src").rglob("*.py"))]
    return hashlib.sha256(b"\0".join([json.dumps(code).encode(), *package])).hexdigest()[:32]


def markdown(notebook: NotebookNode, images: Path) -> str:
    """The page of a notebook. Its pictures are written beside it, as images-1.png and so on."""
    drawn: list[Path] = []
    parts: list[str] = []
    for cell in notebook.cells:
        parts.append(cell.source if cell.cell_type == "markdown" else f"```python\n{cell.source}\n```")
        for output in cell.get("outputs", ()):
            parts.append(_output(output, _alt(cell), images, drawn))
    return "\n\n".join(part for part in parts if part) + "\n"


def _alt(cell: NotebookNode) -> str:
    """What a cell's picture shows, in words: its own (`# %% alt="..."`), or the comment at its end."""
    comment = re.search(r"  # ([^\n]+)\Z", cell.source)
    return cell.metadata.get("alt") or (comment[1] if comment else "What the code above draws")


def _output(output: NotebookNode, alt: str, images: Path, drawn: list[Path]) -> str:
    """One output of a cell as Markdown. What goes to standard error, remarks on fits that are short on purpose, is left out."""
    if output.output_type == "stream":
        return _text(output.text) if output.name == "stdout" else ""
    data = output.get("data", {})
    if "image/png" in data:
        drawn.append(images.with_name(f"{images.name}-{len(drawn) + 1}.png"))
        drawn[-1].parent.mkdir(parents=True, exist_ok=True)
        drawn[-1].write_bytes(base64.b64decode(data["image/png"]))
        return f"![{alt}]({drawn[-1].parent.name}/{drawn[-1].name})"
    if "text/html" in data:
        lines = [line.strip() for line in data["text/html"].splitlines() if line.strip()]
        return '<div class="output html">\n' + "\n".join(lines) + "\n</div>"
    return _text(data.get("text/plain", ""))


def _text(text: str) -> str:
    text = _ANSI.sub("", text).rstrip()
    return f"``` {{ .text .output }}\n{text}\n```" if text else ""


def without_links(notebook: NotebookNode) -> NotebookNode:
    """The notebook to download: links to other pages of the site lead nowhere there, and are left as words."""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = LINK.sub(r"\1", cell.source)
    return notebook
