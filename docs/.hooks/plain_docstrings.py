"""Most docstrings of this project are plain text; this turns them into Markdown before mkdocstrings renders them.

Lines that begin with the names of arguments become a list, doctests become code, and characters that Markdown would take for emphasis
(shapes such as (*B, N, Q)) stay as they are. Docstrings with numpydoc sections are left to mkdocstrings (docstring_style: numpy), but for roles of reST.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

_SECTION = re.compile(r"^(Parameters|Attributes|Examples)\n-{3,}$", re.M)
_ROLE = re.compile(r":\w+:`([^`]*)`")
_ARGUMENT = re.compile(r"^(?P<names>\w+(?:, \w+)*)(?P<shape> \([^)]*\))?: (?P<text>.*)$")


class PlainDocstrings(griffe.Extension):
    """Rewrites the docstring of every function and class that griffe collects."""

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        _rewrite(func, {parameter.name for parameter in func.parameters})

    def on_class_members(self, *, cls: griffe.Class, **_: Any) -> None:
        init = cls.members.get("__init__")
        names = {parameter.name for parameter in init.parameters} if isinstance(init, griffe.Function) else set()
        _rewrite(cls, names | {name for name, member in cls.members.items() if isinstance(member, griffe.Attribute)})

    def on_attribute(self, *, attr: griffe.Attribute, **_: Any) -> None:
        _rewrite(attr, set())


def _rewrite(thing: griffe.Object, arguments: set[str]) -> None:
    if thing.docstring is not None and _SECTION.search(thing.docstring.value):
        thing.docstring.value = _ROLE.sub(r"`\1`", thing.docstring.value)
    elif thing.docstring is not None:
        thing.docstring.value = "\n\n".join(_paragraph(p, arguments) for p in re.split(r"\n\s*\n", thing.docstring.value))


def _paragraph(text: str, arguments: set[str]) -> str:
    if text.lstrip().startswith(">>>"):
        return f"```pycon\n{text}\n```"
    if text.startswith("    "):
        return text
    lines: list[str] = []
    for line in _one_argument_a_line(text, arguments).splitlines():
        found = _ARGUMENT.match(line)
        if found and set(found["names"].split(", ")) <= arguments:
            start = "" if not lines or lines[-1].lstrip("\n").startswith(("- ", "  ")) else "\n"
            names = ", ".join(f"`{name}`" for name in found["names"].split(", "))
            lines.append(f"{start}- {names}{_escaped(found['shape'] or '')}: {_escaped(found['text'])}")
        else:
            inside = bool(lines) and lines[-1].lstrip("\n").startswith(("- ", "  "))
            lines.append(("  " if inside else "") + _escaped(line.strip()))
    return "\n".join(lines)


def _one_argument_a_line(text: str, arguments: set[str]) -> str:
    """The text with a new line wherever a sentence begins with the name of an argument and a colon."""

    def broken(found: re.Match[str]) -> str:
        return f".\n{found['head']}" if set(found["names"].split(", ")) <= arguments else found[0]

    return re.sub(r"\. (?P<head>(?P<names>\w+(?:, \w+)*)(?: \([^)]*\))?: )", broken, text)


def _escaped(text: str) -> str:
    """Text whose asterisks, underscores and brackets are no Markdown, except in code; roles of reST become code."""
    text = _ROLE.sub(r"`\1`", text.replace("``", "`"))
    pieces = re.split(r"(`[^`]*`)", text)
    return "".join(piece if piece.startswith("`") else re.sub(r"([*_\[\]<])", r"\\\1", piece) for piece in pieces)
