"""One HTML file that needs nothing else: style, script, data and pictures are inside."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from importlib import resources
from typing import Any

from manifoldgp import palette

_SCRIPTS = ("drawing.js", "chart.js", "panel.js", "experiments.js", "page.js")


def page(title: str, head: str, sections: Sequence[tuple[str, str, str]], data: dict[str, Any]) -> str:
    """The whole page. head: HTML above the sections. sections: (anchor, name, HTML) each. data: what the script draws."""
    links = "".join(f'<a href="#{anchor}">{escape(name)}</a>' for anchor, name, _ in sections)
    body = "".join(f'<section id="{anchor}">{content}</section>' for anchor, _, content in sections)
    # "</" inside a script element could end it, wherever it stands in the data.
    embedded = json.dumps({"ramp": palette.VIRIDIS, **data}, separators=(",", ":"), allow_nan=False).replace("</", "<\\/")
    script = '(() => {\n"use strict";\n' + "\n".join(_asset(name) for name in _SCRIPTS) + "})();"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<title>{escape(title)}</title><link rel="icon" href="data:,"><style>{_colours()}{_asset("page.css")}</style></head><body>'
        f'<header class="top">{head}</header><nav aria-label="sections"><div>{links}</div></nav><main>{body}</main>'
        f'<script type="application/json" id="page-data">{embedded}</script><script>{script}</script></body></html>\n'
    )


def _asset(name: str) -> str:
    return (resources.files("manifoldgp.report") / name).read_text(encoding="utf-8")


def _colours() -> str:
    """The palette as variables of the style sheet, lighter where the page is dark."""
    light, dark = ("".join(f"--{name}:{value};" for name, value in shades.items()) for shades in (palette.NAMED, palette.ON_DARK))
    return f":root{{{light}}}@media(prefers-color-scheme:dark){{:root{{{dark}}}}}"
