"""pandas where it is installed, and a word on how to get it where it is not."""

from __future__ import annotations

from typing import Any

from manifoldgp.errors import MissingExtraError


def pandas() -> Any:
    """The module pandas."""
    try:
        import pandas
    except ImportError as error:
        raise MissingExtraError("Tables need pandas, which is not installed. Run: pip install 'manifoldgp[data]'") from error
    return pandas
