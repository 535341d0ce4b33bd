"""What a finished run stores for its publication: content that may be shared, and nothing about subjects."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from viewloom.runtime.visible import visible
from viewloom.study.cluster_names import resolved
from viewloom.study.errors import StudyError, check_kind
from viewloom.study.run.run_folder import damaged, stored
from viewloom.study.run.staging import RUN

OLDER = "written by an earlier version, which did not store what a paper needs; run `viewloom fit` again."


@dataclass(frozen=True)
class Record:
    """The stored content of a run, with names of clusters.

    Attributes
    ----------
    title : str
    summary : dict
        The content of the report, without the table of subjects.
    methods : dict
        What was done; see `report.methods`.
    settings : dict
        Of study.toml, with all defaults.
    versions : dict of str to str
    finished : str
        When the run finished.
    atlases : list of str
        Atlases of its brain pictures.
    """

    title: str
    summary: dict[str, Any]
    methods: dict[str, Any]
    settings: dict[str, Any]
    versions: dict[str, str]
    finished: str
    atlases: list[str]

    def table(self, name: str) -> dict[str, Any] | None:
        """The table of the report with an id, or None."""
        design = self.summary.get("design") or {}
        tables = [*self.summary["tables"], *design.get("tables", [])]
        return next((table for table in tables if table["id"] == name), None)


def read_record(folder: str | os.PathLike[str]) -> Record:
    """Read what a run folder stores.

    Raises
    ------
    StudyError
        If it is no run folder, is damaged, or was written by a version that stored less.
    """
    content, about = stored(folder), _about(folder)
    if "methods" not in content.get("summary", {}):
        raise StudyError(f"{visible(folder)}: {OLDER}")
    with damaged(folder):
        summary = {name: part for name, part in content["summary"].items() if name != "subjects"}
        summary = resolved(summary, summary["cluster_names"])
        drawn = [part for part in content["drawings"].values() if part["kind"] == "brain"]
        return Record(
            title=str(summary["title"]),
            summary=summary,
            methods=summary["methods"],
            settings=about["settings"],
            versions={str(name): str(version) for name, version in about["versions"].items()},
            finished=str(about["finished"])[:10],
            atlases=list(dict.fromkeys(str(part["data"]["atlas"]) for part in drawn)),
        )


def _about(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """The content of ``run.json``."""
    source = Path(folder) / RUN
    check_kind(source)
    if not source.is_file():
        raise StudyError(f"{visible(folder)}: not a run folder, since it has no {RUN}.")
    with damaged(folder):
        about: dict[str, Any] = json.loads(source.read_text(encoding="utf-8"))
        return about
