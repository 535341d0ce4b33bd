"""What a folder holds: possible views, tables of participants, and files that are not used."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from viewloom.study.drafting.tables import Table


@dataclass
class Candidate:
    """A possible view.

    Attributes
    ----------
    name : str
        Name of the source, from which that of the view is derived.
    paths : list of Path
    format : str
    settings : dict
        Keys for study.toml in addition to path and format.
    ids, features : list of str
        Those that are known without reading the whole file.
    remarks : list of str
        Remarks on the decisions, and the reasons.
    table : Table or None
    beside : list of Path
        Other files that belong to it.
    """

    name: str
    paths: list[Path]
    format: str
    settings: dict[str, Any] = field(default_factory=dict)
    ids: list[str] = field(default_factory=list)
    features: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    table: Table | None = None
    beside: list[Path] = field(default_factory=list)


@dataclass
class Found:
    """The content of a folder: sources, tables of participants, and the reasons why files are skipped."""

    folder: Path
    views: list[Candidate] = field(default_factory=list)
    people: list[Table] = field(default_factory=list)
    passed: list[tuple[str, str, int]] = field(default_factory=list)

    def pass_over(self, path: Path, why: str) -> None:
        """Record why a file is not used."""
        self.passed.append((path.relative_to(self.folder).as_posix(), why, 1))
