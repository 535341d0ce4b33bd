"""Ids: one spelling for each subject, so that tables can be joined.

ADNI writes the same subject as ``011_S_0002`` (PTID), ``2`` (RID), ``sub-ADNI011S0002`` (BIDS) and, where
PLINK joined family and individual, ``011_S_0002_011_S_0002``. The last number of a PTID is the RID, which is
therefore the form that all of them share.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import pandas as pd

DOUBLED = re.compile(r"(.+)_\1")  # FID_IID of a file whose families are individuals
SESSION = re.compile(r"_ses-[0-9a-z]+$", re.IGNORECASE | re.ASCII)
PTID = re.compile(r"(?:sub-)?(?:ADNI)?\d{3}_?S_?(\d{4,5})", re.IGNORECASE | re.ASCII)
RID = re.compile(r"(?:sub-)?(\d{1,5})(?:\.0+)?", re.IGNORECASE | re.ASCII)  # spreadsheets make 2.0 of 2


def canonical_ids(ids: Iterable[object], style: str = "exact") -> pd.Index:
    """Ids in the one form that a style gives to all spellings of a subject.

    Parameters
    ----------
    ids : iterable
    style : {"exact", "adni"}
        "exact" leaves ids as they are. "adni" turns PTID, RID and BIDS names into the RID; what is none of
        these stays as it is (see `count_unknown`).

    Returns
    -------
    Index of str
        Called "id".

    Examples
    --------
    >>> canonical_ids(["011_S_0002", "2", "sub-ADNI011S0002", "phantom"], "adni").tolist()
    ['2', '2', '2', 'phantom']
    """
    known = STYLES[style]
    return pd.Index([known(text) or text for text in map(str, ids)], dtype=str, name="id")


def count_unknown(ids: Iterable[object], style: str = "exact") -> int:
    """How many ids are not of the style.

    >>> count_unknown(["011_S_0002", "phantom"], "adni")
    1
    """
    return sum(STYLES[style](text) is None for text in map(str, ids))


def _exact(text: str) -> str:
    return text


def _adni(text: str) -> str | None:
    """The RID of an ADNI subject, or None."""
    text = SESSION.sub("", text.strip())
    doubled = DOUBLED.fullmatch(text)
    single = doubled.group(1) if doubled else text
    found = PTID.fullmatch(single) or RID.fullmatch(single)
    return str(int(found.group(1))) if found else None


STYLES: dict[str, Callable[[str], str | None]] = {"exact": _exact, "adni": _adni}
