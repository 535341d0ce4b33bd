"""What a report may show: names that cannot do harm, and counts that cannot point at anyone.

Reports get mailed. Names come from files and may hold anything; counts of people below a least size are
hidden, and so are the counts from which those could be worked out.
"""

from __future__ import annotations

import os
import re
from typing import Any

import numpy as np
import pandas as pd

from viewloom.clinical import Hidden, Known, Shown, shown_counts
from viewloom.runtime.visible import visible

Array = np.ndarray
ABOUT = "about "
LONGEST = 80  # letters of a name that are shown


def plain(name: Any, most: int = LONGEST) -> str:
    r"""A name from a file as one line of harmless text.

    Characters that cannot be seen, among them those that turn the direction of writing, are given by their
    code; long names are cut.

    >>> plain("left\u202ethgir"), plain(" a\n b "), plain("x" * 10_000, 8)
    ('left\\u202ethgir', 'a b', 'xxxxxxx…')
    """
    shown = visible(" ".join(str(name)[: 4 * most].split()))
    return (shown if len(shown) <= most else f"{shown[: most - 1]}…") or "(unnamed)"


def shown_sizes(sizes: Array, min_cell: int) -> list[Shown]:
    """Sizes of the parts of a known total.

    >>> [str(size) for size in shown_sizes(np.array([50, 20, 3]), 11)]
    ['50', '≥11', '<11']
    """
    return list(shown_counts(pd.DataFrame([sizes]), min_cell).iloc[0])


def rough_counts(counts: Array, total: int, rough: bool) -> list[Shown]:
    """Counts out of a known total; where `rough`, to the nearest ten, so that no parts can be worked out.

    Who knows all totals of views could solve for the small numbers of people who have just some of them.

    >>> [str(count) for count in rough_counts(np.array([314, 345]), 345, True)]
    ['about 310', '345']
    """
    return [
        Known(n) if n == total or not rough else Hidden(ABOUT, 10 * round(n / 10)) for n in counts.tolist()
    ]


def without_folders(text: str) -> str:
    """A path without the folders above it, which may hold names of people; other text as it is.

    >>> without_folders("/home/anna/adni/vbm.csv"), without_folders("data/vbm.csv"), without_folders("bl")
    ('vbm.csv', 'data/vbm.csv', 'bl')
    """
    absolute = os.path.isabs(text) or re.match(r"[A-Za-z]:[\\/]|\\\\|~", text)
    return re.split(r"[\\/]", text.rstrip("\\/"))[-1] if absolute else text
