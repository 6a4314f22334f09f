"""What candidates of a search reached, kept in a file: a search that was killed goes on where it stood."""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from manifoldgp._system.files import refuse_unwritable, write_whole
from manifoldgp.errors import InputError
from manifoldgp.model import Data
from manifoldgp.parameters import Tree, leaves, nest

_FORMAT = "manifoldgp kernel search 1"
_SECONDS_BETWEEN = 2.0


@dataclass(frozen=True)
class Reached:
    """Where one candidate stands: its values (of the whole model), NLML and score (lower is better)."""

    values: Tree
    nlml: float
    score: float

    def to_plain(self) -> dict[str, Any]:
        return {
            "values": {name: leaf.tolist() for name, leaf in leaves(self.values)},
            "nlml": self.nlml,
            "score": self.score,
        }

    @staticmethod
    def from_plain(plain: dict[str, Any]) -> Reached:
        values = nest({name: torch.tensor(leaf, dtype=torch.float64) for name, leaf in plain["values"].items()})
        return Reached(values, float(plain["nlml"]), float(plain["score"]))


class Record:
    """Candidates of one search by phase and expression, in memory and, with a path, in a file that may hold other searches too.

    fingerprint: of the rows and of all settings that a candidate's numbers depend on.
    """

    def __init__(self, path: str | Path | None, fingerprint: str) -> None:
        self._path = None if path is None else Path(path)
        self._all: dict[str, dict[str, Any]] = {} if self._path is None else _read(self._path)
        self._mine = self._all.setdefault(fingerprint, {})
        self._written = time.perf_counter()

    def __getitem__(self, candidate: str) -> Reached | None:
        plain = self._mine.get(candidate)
        return None if plain is None else Reached.from_plain(plain)

    def keep(self, candidate: str, reached: Reached) -> None:
        """Remember a candidate; the file follows within seconds."""
        self._mine[candidate] = reached.to_plain()
        if time.perf_counter() - self._written > _SECONDS_BETWEEN:
            self.write()

    def write(self) -> None:
        """Bring the file up to date."""
        if self._path is not None:
            write_whole(self._path, json.dumps({"format": _FORMAT, "searches": self._all}))
        self._written = time.perf_counter()


def fingerprint(data: Data, settings: dict[str, Any]) -> str:
    """A digest of rows and settings."""
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True, default=repr).encode())
    for part in (data.X, data.y, data.known_noise):
        digest.update(b"none" if part is None else part.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()[:32]


def _read(path: Path) -> dict[str, dict[str, Any]]:
    refuse_unwritable(path)
    if not path.exists():
        return {}
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
        if plain["format"] != _FORMAT:
            raise ValueError(plain["format"])
        return plain["searches"]
    except (ValueError, KeyError, TypeError, UnicodeDecodeError) as error:
        raise InputError(
            f"{path} is not the cache of a kernel search, or it is damaged. Name another file, or remove it."
        ) from error
