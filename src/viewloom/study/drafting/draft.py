"""Draft a study.toml from the files of a folder.

The draft has names of files and columns, visit codes and counts; ambiguous choices are comments. `check` has
accepted it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from viewloom.study.drafting.candidates import find
from viewloom.study.drafting.plan import make_plan
from viewloom.study.drafting.text import comment, passed_lines, study_text, used_lines
from viewloom.study.drafting.trial import tried
from viewloom.study.errors import StudyError

NOTHING = "no study can be drafted from these files; the documentation lists the formats."


@dataclass(frozen=True)
class Draft:
    """A drafted study.

    Attributes
    ----------
    text : str
        Text of study.toml.
    used, passed : list of str
        One line per file or group of files: how it is used, or why it is not.
    """

    text: str
    used: list[str]
    passed: list[str]


def draft(folder: str | Path) -> Draft:
    """Draft a study.toml for the files of a folder, which `check` accepts.

    Parameters
    ----------
    folder : str or Path
        Its files and those of its subfolders are read.

    Returns
    -------
    Draft

    Raises
    ------
    StudyError
        If no study can be drafted, with one line per file that gives the reason.
    """
    given, folder = folder, Path(folder).resolve()
    if not folder.is_dir():
        raise StudyError(f"{given}: no such folder.")
    plan = tried(make_plan(find(folder)))
    passed = [comment(line) for line in passed_lines(plan)]
    if not plan.active:
        raise StudyError("\n".join([f"{comment(str(given))}: {NOTHING}", *passed]))
    return Draft(study_text(plan), [comment(line) for line in used_lines(plan)], passed)
