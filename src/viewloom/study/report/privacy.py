"""Disclosure control of reports: names without control characters, and no small counts of subjects.

Reports are shared. Names come from files and may contain anything; small counts are hidden, and so are the
counts from which they could be derived.
"""

from __future__ import annotations

import os
import re
from typing import Any

import numpy as np
import pandas as pd

from viewloom.clinical import Hidden, Known, Shown, shown_counts
from viewloom.runtime.visible import visible
from viewloom.study.cluster_names import PLACEHOLDER

Array = np.ndarray
ABOUT = "about "
LONGEST = 80  # characters of a name


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


def rough_counts(counts: Array, total: int, rough: bool) -> list[Shown]:
    """Counts out of a known total, rounded to the nearest ten where `rough`.

    From the exact totals of all views, a reader could derive the small numbers of subjects with a rare
    combination of views.

    >>> [str(count) for count in rough_counts(np.array([314, 345]), 345, True)]
    ['about 310', '345']
    """
    return [
        Known(n) if n == total or not rough else Hidden(ABOUT, 10 * round(n / 10)) for n in counts.tolist()
    ]


def without_folders(text: str) -> str:
    """The last part of an absolute path, since folders may be named after people; other text is unchanged.

    >>> without_folders("/home/anna/adni/vbm.csv"), without_folders("data/vbm.csv"), without_folders("bl")
    ('vbm.csv', 'data/vbm.csv', 'bl')
    """
    absolute = os.path.isabs(text) or re.match(r"[A-Za-z]:[\\/]|\\\\|~", text)
    return re.split(r"[\\/]", text.rstrip("\\/"))[-1] if absolute else text
