"""Ids: one canonical form for each subject, so that tables can be joined.

ADNI writes the same subject as ``011_S_0002`` (PTID), ``2`` (RID), ``sub-ADNI011S0002`` (BIDS) and, where
PLINK joined family and individual, ``011_S_0002_011_S_0002``. The last number of a PTID is the RID, which is
therefore the form that all of them share. Elsewhere ``sub-007``, ``sub-007_ses-01``, ``007`` and ``7`` are
spellings of one subject (BIDS, and spreadsheets that take ids for numbers).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import pandas as pd

VISIT = "visit"  # the group of a pattern that has the visit
MOST_PATTERN = 300  # characters
MATCHED_LEAST = 0.5  # share of ids that a pattern must match
DOUBLED = re.compile(r"(.+)_\1")  # FID_IID of a file whose families are individuals
SESSION = re.compile(r"_ses-[0-9a-z]+$", re.IGNORECASE | re.ASCII)
SUBJECT = re.compile(r"^sub-", re.IGNORECASE)
PTID = re.compile(r"(?:sub-)?(?:ADNI)?\d{3}_?S_?(\d{4,5})", re.IGNORECASE | re.ASCII)
RID = re.compile(r"(?:sub-)?(\d{1,5})(?:\.0+)?", re.IGNORECASE | re.ASCII)  # spreadsheets make 2.0 of 2


def canonical_ids(ids: Iterable[object], style: str = "exact") -> pd.Index:
    """Canonical ids: one form for all spellings of a subject.

    Parameters
    ----------
    ids : iterable
    style : {"exact", "adni", "bids"}
        "exact" keeps ids unchanged. "adni" maps PTID, RID and BIDS names to the RID, and keeps other ids (see
        `count_unknown`). "bids" removes ``sub-``, the session at the end, and leading zeros.

    Returns
    -------
    Index of str
        Named "id".

    Examples
    --------
    >>> canonical_ids(["011_S_0002", "2", "sub-ADNI011S0002", "phantom"], "adni").tolist()
    ['2', '2', '2', 'phantom']
    >>> canonical_ids(["sub-007_ses-01", "sub-A7", "007"], "bids").tolist()
    ['7', 'A7', '7']
    """
    known = STYLES[style]
    return pd.Index([known(text) or text for text in map(str, ids)], dtype=str, name="id")


def count_unknown(ids: Iterable[object], style: str = "exact") -> int:
    """Number of ids that are not of the style.

    >>> count_unknown(["011_S_0002", "phantom"], "adni")
    1
    """
    return sum(STYLES[style](text) is None for text in map(str, ids))


def best_style(a: Iterable[object], b: Iterable[object]) -> tuple[str, int]:
    """The style in which most ids of two tables match, and their number; ties go to the simplest style.

    >>> best_style(["sub-01", "sub-02"], ["1", "2"])
    ('bids', 2)
    """
    one, other = list(a), list(b)
    shared = {
        style: len({*canonical_ids(one, style)} & {*canonical_ids(other, style)})
        for style in styles_of([*one, *other])
    }
    style = max(shared, key=lambda style: shared[style])
    return style, shared[style]


def styles_of(ids: Iterable[object]) -> list[str]:
    """All styles, the most likely first for these ids: "adni" before "bids" where there are PTIDs."""
    adni = any(PTID.search(str(id)) for id in ids)
    return sorted(STYLES, key=["exact", "adni" if adni else "bids"].__contains__, reverse=True)


def pattern_problem(pattern: str) -> str | None:
    r"""Why a text is not a pattern of ids: a regular expression with one group, and perhaps one of visits.

    >>> pattern_problem(r"sub-(OAS\d+)"), pattern_problem("sub")
    (None, 'needs one group in parentheses, which is the id')
    """
    if len(pattern) > MOST_PATTERN:
        return f"has more than {MOST_PATTERN} characters"
    try:
        compiled = re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        return "is not a valid regular expression"
    if compiled.groups - len(set(compiled.groupindex) & {VISIT}) != 1:
        return "needs one group in parentheses, which is the id"
    return None


def extracted(ids: pd.Series, pattern: str) -> pd.DataFrame:
    r"""The parts of ids that a pattern names: columns id and, where it has that group, visit.

    >>> extracted(pd.Series(["OAS1_MR_d0129", "phantom"]), r"(OAS\d+)_MR_(?P<visit>d\d+)").values.tolist()
    [['OAS1', 'd0129'], [nan, nan]]
    """
    found = ids.str.extract(pattern)
    names = [VISIT if name == VISIT else "id" for name in found.columns]
    return found.set_axis(names, axis=1)


def _exact(text: str) -> str:
    return text


def _adni(text: str) -> str | None:
    """The RID of an ADNI subject, or None."""
    text = SESSION.sub("", text.strip())
    doubled = DOUBLED.fullmatch(text)
    single = doubled.group(1) if doubled else text
    found = PTID.fullmatch(single) or RID.fullmatch(single)
    return str(int(found.group(1))) if found else None


def _bids(text: str) -> str:
    """The label of a BIDS subject; a number without leading zeros."""
    label = SUBJECT.sub("", SESSION.sub("", text.strip()))
    return label.lstrip("0") or "0" if label.isdecimal() else label


STYLES: dict[str, Callable[[str], str | None]] = {"exact": _exact, "adni": _adni, "bids": _bids}
