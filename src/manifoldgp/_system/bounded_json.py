"""JSON from files that anybody may have written: its depth and the number of its values are checked before Python objects are made of it."""

from __future__ import annotations

import json
from typing import Any

DEEPEST = 200
"""Levels of lists and tables inside each other. A description takes three for each part inside a part."""

MOST_VALUES = 4_000_000
"""Numbers, texts, lists and tables. Each takes up to 100 bytes of memory, some of them 2 bytes in the file."""


def dump(plain: Any) -> str:
    """Plain data as JSON that :func:`parse` takes; ValueError if it is too deep or too large."""
    text = json.dumps(plain)
    _refuse_too_many(text)
    _refuse_too_deep(plain)
    return text


def parse(text: str | bytes) -> Any:
    """The plain data in a text; ValueError if it is no JSON, too deep or too large.

    >>> parse('{"a": [1, 2]}')
    {'a': [1, 2]}
    """
    if isinstance(text, bytes):
        text = text.decode()
    _refuse_too_many(text)
    try:
        plain = json.loads(text)
    except RecursionError:
        raise ValueError("lists inside lists beyond all depth") from None
    _refuse_too_deep(plain)
    return plain


def parse_table(text: str | bytes) -> dict[str, Any]:
    """The same for data that must be a table with names."""
    plain = parse(text)
    if not isinstance(plain, dict):
        raise ValueError("a table with names was expected")
    return plain


def _refuse_too_many(text: str) -> None:
    """Every value but the first of a list or table has a comma before it; commas in texts count too, which does no harm."""
    count = text.count(",") + text.count("[") + text.count("{")
    if count > MOST_VALUES:
        raise ValueError(f"{count} values, and at most {MOST_VALUES} are read")


def _refuse_too_deep(plain: Any) -> None:
    level = [plain]
    for _ in range(DEEPEST):
        level = [item for thing in level if isinstance(thing, (dict, list, tuple)) for item in _items(thing)]
        if not level:
            return
    raise ValueError(f"more than {DEEPEST} lists or tables inside each other")


def _items(thing: Any) -> Any:
    return thing.values() if isinstance(thing, dict) else thing
