"""Disclosure control of reports: names without control characters, and no small counts of subjects.

Reports are shared. Names come from files and may contain anything; small counts are hidden, and so are the
counts from which they could be derived.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pandas as pd

from viewloom.clinical import MIN_CELL, Hidden, Known, Shown, shown_counts
from viewloom.clinical.release import released_frame
from viewloom.clinical.shown import ABOUT
from viewloom.runtime.visible import visible
from viewloom.study.cluster_names import PLACEHOLDER
from viewloom.study.config.rules import EXCLUDE, INCLUDE
from viewloom.study.wording import folded

Array = np.ndarray
LONGEST = 80  # characters of a name
HIDDEN = "(hidden)"


def plain(name: Any, most: int = LONGEST) -> str:
    r"""A name from a file as one line of printable text.

    Invisible characters, such as those that change the direction of text, are shown as escapes; long names
    are shortened. Placeholders for names of clusters are kept.

    >>> plain("left\u202ethgir"), plain(" a\n b "), plain("x" * 10_000, 8)
    ('left\\u202ethgir', 'a b', 'xxxxxxx…')
    """
    parts = PLACEHOLDER.split(" ".join(str(name)[: 4 * most].split()))
    shown = "".join(part if PLACEHOLDER.fullmatch(part) else visible(part) for part in parts)
    return (shown if len(shown) <= most else f"{shown[: most - 1]}…") or "(unnamed)"


def shown_sizes(sizes: Array, min_cell: int) -> list[Shown]:
    """Sizes of groups whose total is known.

    >>> [str(size) for size in shown_sizes(np.array([50, 20, 3]), 11)]
    ['50', '≥11', '<11']
    """
    return list(shown_counts(pd.DataFrame([sizes]), min_cell).iloc[0])


def in_words(count: Shown) -> str:
    """A count at the beginning of a sentence.

    >>> in_words(Known(12)), in_words(Hidden("<", 11))
    ('12', 'Fewer than 11')
    """
    return f"{count.words[0].upper()}{count.words[1:]}" if isinstance(count, Hidden) else str(count)


def rough_counts(counts: Array, total: int, rough: bool, min_cell: int = MIN_CELL) -> list[Shown]:
    """Counts out of a known total, rounded to the nearest ten where `rough`; a bound where few are lacking.

    From the exact totals of all views, a reader could derive the small numbers of subjects with a rare
    combination of views.

    >>> [str(count) for count in rough_counts(np.array([314, 340, 345]), 345, True)]
    ['about 310', '>334', '345']
    """
    return [_rough(n, total, min_cell) if rough and n < total else Known(n) for n in counts.tolist()]


def _rough(n: int, total: int, min_cell: int) -> Hidden:
    if total - n < min_cell:
        return Hidden(">", total - min_cell)
    return Hidden(ABOUT, 10 * round(n / 10))


def released_importance(frame: pd.DataFrame, hidden: Array) -> pd.DataFrame:
    """Importance of features with three digits, without means that must not be shown (features x clusters).

    The importance by centroids (``F = X^T P``) is the mean of a feature in a cluster, and that of all
    clusters together would give a hidden one back. The order of the features is kept.

    >>> table = pd.DataFrame({"feature": ["a"], "importance": 0.54321, "cluster_0": 0.5, "cluster_1": 0.2})
    >>> table.attrs["method"] = "F = X^T P"
    >>> released_importance(table, np.array([[False, False]])).to_numpy().tolist()
    [['a', 0.543, 0.5, 0.2]]
    >>> released_importance(table, np.array([[False, True]])).to_numpy().tolist()
    [['a', nan, 0.5, nan]]
    """
    shown = released_frame(frame)
    if str(frame.attrs.get("method", "")).startswith("F"):
        shown["importance"] = shown["importance"].mask(np.asarray(hidden.any(axis=1)))
        for j in range(hidden.shape[1]):
            shown[f"cluster_{j}"] = shown[f"cluster_{j}"].mask(hidden[:, j])
    shown.attrs = dict(frame.attrs)
    return shown


def without_folders(text: str) -> str:
    """The last part of an absolute path, since folders may be named after people; other text is unchanged.

    >>> without_folders("/home/anna/adni/vbm.csv"), without_folders("data/vbm.csv"), without_folders("bl")
    ('vbm.csv', 'data/vbm.csv', 'bl')
    """
    absolute = os.path.isabs(text) or re.match(r"[A-Za-z]:[\\/]|\\\\|~", text)
    return re.split(r"[\\/]", text.rstrip("\\/"))[-1] if absolute else text


def without_subjects(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings that may be shared: rules of [cluster] on a column of ids have no values.

    Lists keep their length.

    >>> rules = {"exclude": {"id": ["S1", "S2"], "sex": ["F"]}}
    >>> without_subjects({"participants": {"id": "id"}, "cluster": rules})["cluster"]
    {'exclude': {'id': ['(hidden)', '(hidden)'], 'sex': ['F']}}
    """
    cluster, ids = settings.get("cluster"), id_columns(settings)
    if not isinstance(cluster, Mapping):
        return dict(settings)
    hidden = {
        key: {name: _hidden(value) if names_ids(name, ids) else value for name, value in cluster[key].items()}
        for key in (INCLUDE, EXCLUDE)
        if key in cluster
    }
    return {**settings, "cluster": {**cluster, **hidden}}


def id_columns(settings: Mapping[str, Any]) -> set[str]:
    """Columns of ids that the settings of a study name.

    >>> sorted(id_columns({"participants": {"id": "PTID"}, "views": {"a": {"id": {"column": "scan"}}}}))
    ['ptid', 'scan']
    """
    sources = [settings.get("participants", {}), *settings.get("views", {}).values()]
    given = [source["id"] for source in sources if source.get("id")]
    return {folded(one["column"] if isinstance(one, Mapping) else one) for one in given}


def names_ids(name: str, ids: Collection[str]) -> bool:
    """Whether a rule is on a column of ids, of the participants or of a view.

    >>> names_ids("PTID", {"ptid"}), names_ids("mri.ptid", {"ptid"}), names_ids("sex", {"ptid"})
    (True, True, False)
    """
    return bool({folded(name), folded(name.rpartition(".")[2])} & set(ids))


def _hidden(value: Any) -> Any:
    return dict.fromkeys(value, HIDDEN) if isinstance(value, Mapping) else [HIDDEN] * len(value)
