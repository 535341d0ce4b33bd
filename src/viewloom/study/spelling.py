"""Names of columns as another study spells them, so that a second cohort fits the model of the first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from viewloom.data.naming import listed
from viewloom.models import persistence
from viewloom.study import readers
from viewloom.study.errors import StudyError
from viewloom.study.notes import Note, count_note
from viewloom.study.wording import folded

MODEL = "model.safetensors"
HOW = "columns_from names a run folder, its model, or a study file"


def names_from(path: Path, view: str | None) -> list[str]:
    """Names of the columns of a view of a run, a model or a study file.

    Raises
    ------
    StudyError
        If it is none of these, or has no view of that name.
    """
    found = (
        _of_study(path)
        if path.suffix.lower() == ".toml"
        else _of_model(path / MODEL if path.is_dir() else path)
    )
    if view not in found:
        raise StudyError(
            f"{path.name}, named under columns_from, has no view {view!r}; it has {listed(list(found))}."
        )
    return found[view]


def _of_model(path: Path) -> dict[str, list[str]]:
    """Names of the features of each view that a model was fitted on."""
    try:
        _, extra, _ = persistence.load_with(path)
        views = extra["preparation"]["views"]
        return {str(one["name"]): [str(name) for name in one["features"]] for one in views}
    except (OSError, KeyError, TypeError, ValueError):
        raise StudyError(f"{path.name}: no model of a run; {HOW}.") from None


def _of_study(path: Path) -> dict[str, list[str]]:
    """Names of the columns in the files of each view of a study."""
    from viewloom.study.config.toml import read_study  # the configuration does not depend on this module

    views = read_study(path).views
    return {
        name: list(dict.fromkeys(n for file in view.inputs for n in readers.Sample(file, view.part).header))
        for name, view in views.items()
    }


def spelled_as(frame: pd.DataFrame, names: Sequence[str], file: str) -> pd.DataFrame:
    """The table with the given names for columns that differ from them in case and punctuation only.

    Parameters
    ----------
    frame : DataFrame
    names : sequence of str
        Names of the other study.
    file : str
        For messages.

    Raises
    ------
    StudyError
        If a name fits several columns, or a column several names.

    Examples
    --------
    >>> table = pd.DataFrame({"lh.thickness": [2.5], "Age": [70]})
    >>> spelled_as(table, ["LH_Thickness", "age", "sex"], "t.csv").columns.tolist()
    ['LH_Thickness', 'age']
    """
    here = [str(name) for name in frame.columns]
    open_, wanted = _by_fold(set(here) - set(names)), _by_fold(set(names) - set(here))
    unclear = [fold for fold in wanted if len(wanted[fold]) > 1 or len(open_[fold]) > 1]
    unclear = [fold for fold in unclear if open_[fold]]
    if unclear:
        several = [*open_[unclear[0]], *wanted[unclear[0]]]
        raise StudyError(
            f"{file}: {len(unclear)} names of columns fit several columns if case and punctuation are "
            f"ignored, such as {listed(several)}; name them under rename."
        )
    new = {open_[fold][0]: wanted[fold][0] for fold in wanted if open_[fold]}
    absent = sorted(set(names) - set(here) - set(new.values()), key=list(names).index)
    renamed = frame.rename(columns=new)
    notes = [*frame.attrs.get("notes", []), *_notes(len(new), absent)]
    renamed.attrs = {**frame.attrs, "notes": notes}
    return renamed


def _notes(renamed: int, absent: list[str]) -> list[Note]:
    text = "renamed to the spelling of columns_from"
    lacking = f"of columns_from not found: {listed(absent)}"
    return [
        *count_note(renamed, "column", text=text, public=True),
        *count_note(len(absent), "column", text=lacking, public=True),
    ]


def _by_fold(names: set[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for name in sorted(names):
        found[folded(name)].append(name)
    return found
