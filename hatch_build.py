"""What a package index is told beyond pyproject.toml: the README with links that lead somewhere from there, and the project's address.

The address is that of the repository that builds the package: what GITHUB_REPOSITORY and GITHUB_REF_NAME say in the release workflow.
Built anywhere else, nobody knows it, and a link to a file of the repository becomes its text.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<place>(?!https?:|#|mailto:)[^)\s]+)\)")


def address(environment: dict[str, str]) -> str | None:
    """Where the repository's files of this version are.

    >>> address({"GITHUB_REPOSITORY": "who/what", "GITHUB_REF_NAME": "v1.2.0"})
    'https://github.com/who/what/blob/v1.2.0'
    """
    repository = environment.get("GITHUB_REPOSITORY")
    return f"https://github.com/{repository}/blob/{environment.get('GITHUB_REF_NAME', 'main')}" if repository else None


def for_an_index(page: str, files: str | None) -> str:
    """The page with absolute links to the repository's files, or without links to them where their address is not known.

    >>> for_an_index("[how](docs/a.md), ![drawn](b.png)", "https://github.com/who/what/blob/v1")
    '[how](https://github.com/who/what/blob/v1/docs/a.md), ![drawn](https://github.com/who/what/raw/v1/b.png)'
    >>> for_an_index("[how](docs/a.md), ![drawn](b.png), [there](https://arxiv.org)", None)
    'how, , [there](https://arxiv.org)'
    """

    def replaced(link: re.Match[str]) -> str:
        if files is None:
            return "" if link["image"] else link["text"]
        base = files.replace("/blob/", "/raw/") if link["image"] else files
        return f"{link['image']}[{link['text']}]({base}/{link['place']})"

    return _LINK.sub(replaced, page)


class IndexMetadata(MetadataHookInterface):
    """Hatchling asks for it when it builds the package or its metadata."""

    def update(self, metadata: dict[str, Any]) -> None:
        files = address(dict(os.environ))
        page = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": for_an_index(page, files)}
        if files is not None:
            home = files.partition("/blob/")[0]
            metadata["urls"] = {"Source": home, "Changes": f"{files}/CHANGELOG.md", "Issues": f"{home}/issues"}
