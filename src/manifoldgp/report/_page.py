"""One HTML file that needs nothing else: style, script, data and pictures are inside."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Sequence
from html import escape
from importlib import resources
from typing import Any

from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from manifoldgp import plots


def page(title: str, head: str, sections: Sequence[tuple[str, str, str]], data: dict[str, Any]) -> str:
    """The whole page. head: HTML above the sections. sections: (anchor, name, HTML) each. data: what the script draws."""
    links = "".join(f'<a href="#{anchor}">{escape(name)}</a>' for anchor, name, _ in sections)
    body = "".join(f'<section id="{anchor}">{content}</section>' for anchor, _, content in sections)
    # "</" inside a script element could end it, wherever it stands in the data.
    embedded = json.dumps(data, separators=(",", ":"), allow_nan=False).replace("</", "<\\/")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<title>{escape(title)}</title><link rel="icon" href="data:,"><style>{_asset("page.css")}</style></head><body>'
        f'<header class="top">{head}</header><nav aria-label="sections"><div>{links}</div></nav><main>{body}</main>'
        f'<script type="application/json" id="data">{embedded}</script><script>{_asset("page.js")}</script></body></html>\n'
    )


def figure_html(figure: Figure, name: str, caption: str) -> str:
    """A picture inside the page, as vector graphics. caption: HTML."""
    source = base64.b64encode(figure_bytes(figure, "svg")).decode("ascii")
    alternative = escape(_without_tags(caption), quote=True)
    return (
        f'<figure id="figure-{name}"><div class="frame"><img alt="{alternative}" src="data:image/svg+xml;base64,{source}"></div>'
        f"<figcaption>{caption}</figcaption></figure>"
    )


def figure_bytes(figure: Figure, kind: str) -> bytes:
    """The picture as a file: svg, pdf or png. The same figure gives the same bytes."""
    stream = io.BytesIO()
    dateless: dict[str, Any] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind, {})
    with plots.styled():
        if isinstance(figure.get_layout_engine(), ConstrainedLayoutEngine):  # arrange once, for all kinds of files
            figure.draw_without_rendering()
            figure.set_layout_engine("none")
        figure.savefig(stream, format=kind, dpi=200, metadata=dateless or None)
    return stream.getvalue()


def _asset(name: str) -> str:
    return (resources.files("manifoldgp.report") / name).read_text(encoding="utf-8")


def _without_tags(text: str) -> str:
    kept, inside = [], False
    for letter in text:
        inside = letter == "<" or (inside and letter != ">")
        if not inside and letter != ">":
            kept.append(letter)
    return "".join(kept)
