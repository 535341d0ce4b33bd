"""Names of features for readers: full names of brain regions, other names as in the data."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from viewloom.data.regions import region_names
from viewloom.study.report.privacy import plain

__all__ = ["feature_names", "region_names"]


def feature_names(columns: Iterable[Any], most: int) -> list[str]:
    """Names of features for readers: full names of regions, other names as in the data.

    >>> feature_names(["Left-Hippocampus", "rs429358"], 60)
    ['left hippocampus', 'rs429358']
    """
    names = [str(column) for column in columns]
    return [region or plain(name, most) for name, region in zip(names, region_names(names), strict=True)]
