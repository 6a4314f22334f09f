"""A self-contained, interactive HTML page: sections of text, and charts that a script draws from data in the page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources

from manifoldgp.inspection import palette


def html_page(
    title: str, head: str, sections: Sequence[tuple[str, str, str]], data: Mapping[str, object], *, scripts: Sequence[str] = ()
) -> str:
    """The whole page as one text, which needs nothing from a network.

    Parameters
    ----------
    title
        The title of the window.
    head
        HTML above the sections.
    sections
        Each is (anchor, name, HTML).
    data
        What the scripts draw; "charts" are specs for places with the id "chart-...".
    scripts
        JavaScript for charts of your own; it finds the page's ``data``, ``panel()`` and ``chart()``, and what it appends to ``drawn`` is redrawn when the
        window's width changes.
    """
    links = "".join(f'<a href="#{anchor}">{escape(name)}</a>' for anchor, name, _ in sections)
    body = "".join(f'<section id="{anchor}">{content}</section>' for anchor, _, content in sections)
    embedded = _embedded({"ramp": palette.VIRIDIS, **data})
    parts = [_asset("drawing.js"), _asset("chart.js"), _asset("panel.js"), *scripts, _asset("page.js")]
    script = '(() => {\n"use strict";\n' + "\n".join(parts) + "})();"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<title>{escape(title)}</title><link rel="icon" href="data:,"><style>{_colours()}{_asset("page.css")}</style></head><body>'
        f'<header class="top">{head}</header><nav aria-label="sections"><div>{links}</div></nav><main>{body}</main>'
        f'<script type="application/json" id="page-data">{embedded}</script><script>{script}</script></body></html>\n'
    )


def _embedded(data: Mapping[str, object]) -> str:
    """JSON for the inside of a script element, where neither "</script" nor "<!--" may stand, wherever they come from."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _asset(name: str) -> str:
    return (resources.files("manifoldgp.inspection") / name).read_text(encoding="utf-8")


def _colours() -> str:
    """The palette as variables of the style sheet, lighter where the page is dark."""
    light, dark = ("".join(f"--{name}:{value};" for name, value in shades.items()) for shades in (palette.NAMED, palette.ON_DARK))
    return f":root{{{light}}}@media(prefers-color-scheme:dark){{:root{{{dark}}}}}"
