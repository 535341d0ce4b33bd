"""Clinical variables of clusters as they may leave: stored with a run, and compared with a second cohort."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from viewloom.clinical import described
from viewloom.clinical.published import NOTHING, precisions, shown_effect, shown_p
from viewloom.clinical.release import PClass, rounded
from viewloom.clinical.statistics import Precision
from viewloom.study.clinical_numbers import clinical_variables
from viewloom.study.results import Roles

P_VALUES = ("p", "q", "p_holm")


def clinical_precisions(
    labels: Any, participants: pd.DataFrame | None, roles: Roles, min_cell: int
) -> dict[str, Precision]:
    """How precisely statistics of the clinical variables of a cohort may be shown."""
    people, codes, few = clinical_variables(participants, roles, len(labels))
    profile = described(labels, people[few], categorical=codes, min_cell=min_cell)
    return precisions(labels, people, profile, min_cell, categorical=codes)


def published_numbers(numbers: Mapping[str, Any], known: Mapping[str, Precision]) -> dict[str, Any]:
    """`clinical_numbers` for a file: effects and p-values that may be shown, deviations with two decimals.

    >>> row = {"variable": "sex", "effect": 0.12345, "p": 0.0312, "q": 0.0312}
    >>> numbers = {"associations": [row], "deviations": {"sex": {"F": [0.12345, None]}}}
    >>> found = published_numbers(numbers, {"sex": Precision(1, exact=False)})
    >>> found["associations"][0]["q"], found["deviations"]["sex"]["F"]
    ('<0.05', [0.12, None])
    """
    rows = [_published(row, known.get(row["variable"], NOTHING)) for row in numbers["associations"]]
    deviations = {
        variable: {value: [_rounded(shift) for shift in shifts] for value, shifts in values.items()}
        for variable, values in numbers["deviations"].items()
    }
    return {**numbers, "associations": rows, "deviations": deviations}


def _published(row: Mapping[str, Any], known: Precision) -> dict[str, Any]:
    """A test; of a class of p-values its text."""
    shown = {name: shown_p(row[name], known) for name in P_VALUES if name in row}
    texts = {name: str(p) if isinstance(p, PClass) else p for name, p in shown.items()}
    return {**row, "effect": shown_effect(row["effect"], known), **texts}


def _rounded(value: float | None) -> float | None:
    return None if value is None else rounded(value)


def read_numbers(stored: Mapping[str, Any]) -> dict[str, Any]:
    """What `published_numbers` wrote, with numbers for the text of classes; NaN where nothing is shown.

    >>> row = read_numbers({"associations": [{"effect": None, "q": "<0.05"}]})["associations"][0]
    >>> row["effect"], row["q"] < 0.05
    (nan, True)
    """
    return {**stored, "associations": [_read(row) for row in stored["associations"]]}


def _read(row: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(row)
    for name in ("effect", *P_VALUES):
        value = found.get(name)
        if name in found and not isinstance(value, (int, float)):
            found[name] = PClass(value) if isinstance(value, str) else np.nan
    return found


def published_confirmed(table: pd.DataFrame, known: Mapping[str, Precision]) -> pd.DataFrame:
    """`clinical_numbers.confirmed` with the digits that may be shown of the second cohort."""
    each = [known.get(name, NOTHING) for name in table["variable"]]
    shown = table.assign(
        effect=[shown_effect(value, one) for value, one in zip(table["effect"], each, strict=True)]
    )
    for name in ("p", "p_holm"):
        values: Any = [shown_p(p, one) for p, one in zip(table[name], each, strict=True)]
        shown = shown.assign(**{name: values})
    return shown
