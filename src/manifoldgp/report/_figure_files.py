"""A matplotlib figure as a file, and inside a page."""

from __future__ import annotations

import base64
import io
from html import escape
from typing import Any

from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from manifoldgp import plots


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


def _without_tags(text: str) -> str:
    kept, inside = [], False
    for letter in text:
        inside = letter == "<" or (inside and letter != ">")
        if not inside and letter != ">":
            kept.append(letter)
    return "".join(kept)
