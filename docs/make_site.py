"""Build the documentation: run what the pages show, write it beside the code, and make the site. `make docs` calls this.

    python docs/make_site.py                        # site/; a warning is an error
    python docs/make_site.py --without-running      # the same pages without outputs, in seconds
    python docs/make_site.py --publish public       # and put it into public/0.2/, with a switch between the versions there

The pages are put together in a folder of their own (build/pages); docs/ stays as it was written.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
from notebooks import executed, guide, markdown, tutorial, without_links

import manifoldgp

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
GUIDES = ["index.md", "intervals.md", *(f"guide/{path.name}" for path in sorted((DOCS / "guide").glob("*.md")))]
"""Pages whose Python blocks need nothing that a command has made, and whose pictures are not drawn elsewhere."""
TUTORIALS = [path.stem for path in sorted((DOCS / "tutorials").glob("*.py"))]

_CARD = re.compile(r"^- \[(?P<title>[^\]]+)\]\((?P<name>\w+)\.py\) (?P<words>.+)$", re.M)
_TO_TUTORIAL = re.compile(r"\]\(((?:\.\./)*(?:tutorials/)?\w+)\.py\)")


def stage(pages: Path, run: bool, jobs: int) -> None:
    """Put all pages together in a folder; run: with what their code prints and draws."""
    shutil.rmtree(pages, ignore_errors=True)
    shutil.copytree(DOCS, pages, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    os.environ["OMP_NUM_THREADS"] = "1"  # two pages side by side share the cores
    with ThreadPoolExecutor(jobs) as workers:
        list(workers.map(lambda name: _stage_tutorial(pages / "tutorials", name, run), TUTORIALS))
        list(workers.map(lambda name: _stage_guide(pages / name), GUIDES if run else []))
    _rewrite(pages / "tutorials" / "index.md", _CARD, lambda item: _card(pages / "tutorials", item))
    for page in pages.rglob("*.md"):
        _rewrite(page, _TO_TUTORIAL, r"](\1.md)")


def _rewrite(page: Path, pattern: re.Pattern[str], new: str | Callable[[re.Match[str]], str]) -> None:
    page.write_text(pattern.sub(new, page.read_text(encoding="utf-8")), encoding="utf-8")


def _stage_guide(page: Path) -> None:
    notebook = executed(guide(page.read_text(encoding="utf-8")))
    page.write_text(markdown(notebook, page.with_name("executed") / page.stem), encoding="utf-8")


def _stage_tutorial(folder: Path, name: str, run: bool) -> None:
    notebook = tutorial((DOCS / "tutorials" / f"{name}.py").read_text(encoding="utf-8"))
    notebook = executed(notebook) if run else notebook
    text = markdown(notebook, folder / "executed" / name)
    download = f"[Download this notebook]({name}.ipynb){{ .download download }}"
    (folder / f"{name}.md").write_text(re.sub(r"\A(# .+\n)", rf"\1\n{download}\n", text), encoding="utf-8")
    nbformat.write(without_links(notebook), folder / f"{name}.ipynb")


def _card(folder: Path, item: re.Match[str]) -> str:
    """A tutorial in the gallery: its first picture, its title, and what it is about."""
    picture = folder / "executed" / f"{item['name']}-1.png"
    shown = f'<img src="executed/{picture.name}" alt="" loading="lazy">' if picture.is_file() else ""
    return f'<a class="card" href="{item["name"]}.html">{shown}<strong>{item["title"]}</strong><span>{item["words"]}</span></a>'


def build(work: Path, site: Path) -> None:
    """Make the site of the pages in work/docs. Its settings are those of mkdocs.yml, which has to stand beside the pages."""
    settings = (
        (ROOT / "mkdocs.yml").read_text(encoding="utf-8").replace("paths: [src]", f"paths: [{json.dumps(str(ROOT / 'src'))}]")
    )
    (work / "mkdocs.yml").write_text(settings, encoding="utf-8")
    environment = os.environ | {"DOCS_VERSION": f"manifoldgp {manifoldgp.__version__}"}
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
    done = subprocess.run(command, cwd=work, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode or "griffe: " in done.stdout:  # what griffe says about docstrings does not count as a warning there
        raise SystemExit(done.stdout)
    shutil.rmtree(site, ignore_errors=True)
    shutil.move(work / "site", site)


def release() -> str:
    """The version as readers know it: 0.2 of 0.2.1, dev of what lies between two releases."""
    number = manifoldgp.__version__.split("+")[0]
    return "dev" if "dev" in number else ".".join(number.split(".")[:2])


def publish(site: Path, to: Path) -> None:
    """Put the site into its version's folder, and the version into versions.json, which the switch in every page's header reads."""
    version = release()
    shutil.rmtree(to / version, ignore_errors=True)
    shutil.copytree(site, to / version)
    listed = to / "versions.json"
    versions = json.loads(listed.read_text(encoding="utf-8")) if listed.is_file() else []
    names = {entry["version"] for entry in versions} | {version}
    ordered = sorted(names, key=lambda name: [int(part) for part in name.split(".")] if name != "dev" else [-1], reverse=True)
    listed.write_text(
        json.dumps([{"version": name, "title": name, "aliases": []} for name in ordered], indent=1), encoding="utf-8"
    )
    (to / "index.html").write_text(f'<meta http-equiv="refresh" content="0; url={ordered[0]}/index.html">\n', encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--without-running", action="store_true", help="leave out what the pages' code prints and draws")
    parser.add_argument("--publish", type=Path, metavar="DIR", help="also put the site into DIR, in its version's folder")
    parser.add_argument("--jobs", type=int, default=2, help="pages that run side by side")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "pages", help="folder to put the pages together in")
    parser.add_argument("--site", type=Path, default=ROOT / "site", help="folder for the site")
    given = parser.parse_args()
    stage(given.work / "docs", run=not given.without_running, jobs=given.jobs)
    build(given.work, given.site)
    if given.publish:
        publish(given.site, given.publish)


if __name__ == "__main__":
    main()
