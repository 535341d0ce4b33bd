"""Scores of fits in a file of JSON lines, so that a run goes on where it stopped and tables need no fit."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

import viewloom

Record = dict[str, Any]
HERE = Path(__file__).resolve().parent
KEY = ("set", "method", "scenario", "seed")
NUMERIC = ("kernels", "solver", "models", "data", "runtime")  # of viewloom: what fits depend on
PREPARATION = ("offers.py", "scenarios.py", "sets.py")


@lru_cache
def code_of(package: str, settings: str) -> str:
    """A hash of what a method's result depends on: its settings and the source code."""
    root = Path(viewloom.__file__).parent
    own = [path for room in NUMERIC for path in sorted((root / room).rglob("*.py"))]
    files = own if package == "viewloom" else [HERE / "fusion.py"]
    content = [path.read_bytes() for path in (*files, *(HERE / name for name in PREPARATION))]
    return hashlib.sha1(b"".join([settings.encode(), *content])).hexdigest()[:12]


def key_of(record: Record) -> tuple[Any, ...]:
    """What tells one fit from another."""
    return tuple(record[name] for name in KEY)


def read(path: Path) -> list[Record]:
    """Records of a file, the last of each fit; none where there is no file. Lines cut short are skipped."""
    if not path.exists():
        return []
    found: dict[tuple[Any, ...], Record] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        found.pop(key_of(record), None)
        found[key_of(record)] = record
    return list(found.values())


class Store:
    """Records that are kept, in memory and in a file if there is one."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._records = {key_of(record): record for record in (read(path) if path else [])}

    def find(self, key: tuple[Any, ...], code: str, time_limit: float) -> Record | None:
        """The record of a fit by the same code; a failure counts for time limits up to its own."""
        record = self._records.get(key)
        if record is None or record["code"] != code:
            return None
        return None if record["error"] and record["time_limit"] < time_limit else record

    def add(self, record: Record) -> None:
        """Keep a record, and append it to the file."""
        self._records[key_of(record)] = record
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")

    def records(self, keys: Iterable[tuple[Any, ...]] | None = None) -> list[Record]:
        """Records of some fits, or of all."""
        return [
            self._records[key] for key in (self._records if keys is None else keys) if key in self._records
        ]
