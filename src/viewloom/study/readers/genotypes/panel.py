"""Variants: their names, places and alleles, and the panel that is stored with a model."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from viewloom.runtime.errors import InputError
from viewloom.study.errors import StudyError
from viewloom.study.wording import counted

Array = np.ndarray
COLUMNS = ("chromosome", "position", "variant", "counted", "other")
TEXTS = ("chromosome", "variant", "counted", "other")
COUNTED = re.compile(r"(?P<variant>.+)_(?P<counted>[^_(]+)(?:\(/(?P<other>.*)\))?")  # rs1_A, rs1_A(/G)
SEX_CHROMOSOMES = {"23": "X", "24": "Y", "25": "XY", "26": "MT", "M": "MT"}
UNKNOWN = -1  # position of a variant that is known by its name only


@dataclass(frozen=True, eq=False)
class Panel(Collection[str]):
    """The variants of a view that a model was fitted on; as a collection, the names of its features.

    Attributes
    ----------
    features : list of str
        Names of the columns, such as ``rs429358_C``.
    rows : DataFrame
        One row per feature: chromosome, position, variant, counted and other allele ("" where unknown),
        frequency of the counted allele among training subjects (NaN where unknown).

    Examples
    --------
    >>> panel = Panel.of_names(["rs429358_C", "rs7412_T(/C)"])
    >>> "rs429358_C" in panel, panel.rows[["variant", "counted", "other"]].to_numpy().tolist()
    (True, [['rs429358', 'C', ''], ['rs7412', 'T', 'C']])
    """

    features: list[str]
    rows: pd.DataFrame

    def __contains__(self, name: object) -> bool:
        return name in self._known

    def __iter__(self) -> Iterator[str]:
        return iter(self.features)

    def __len__(self) -> int:
        return len(self.features)

    def __deepcopy__(self, memo: object) -> Panel:
        """It is never changed; pandas copies what is attached to frames."""
        return self

    @cached_property
    def _known(self) -> pd.Index:
        return pd.Index(self.features)

    @classmethod
    def of_names(cls, names: Iterable[str]) -> Panel:
        """What the names of features say about variants."""
        names = list(names)
        rows = parsed_names(names)
        return cls(names, rows.assign(chromosome="", position=UNKNOWN, frequency=np.nan))

    def of(self, features: Iterable[str]) -> Panel:
        """The panel of some features, in this order; of others only the name is known."""
        wanted = list(features)
        found = self._known.get_indexer(pd.Index(wanted))
        rows = Panel.of_names(wanted).rows
        here = found >= 0
        for name in (*COLUMNS, "frequency"):
            column = np.array(rows[name])
            column[here] = self.rows[name].to_numpy()[found[here]]
            rows[name] = column
        return Panel(wanted, rows)

    def state(self) -> dict[str, Any]:
        """Its content for JSON, without the names of features."""
        frequency = [None if np.isnan(f) else round(float(f), 6) for f in self.rows["frequency"]]
        return {**{name: self.rows[name].tolist() for name in COLUMNS}, "frequency": frequency}

    @classmethod
    def from_state(cls, features: Iterable[str], state: Mapping[str, Any]) -> Panel:
        """The panel of some features that has this `state`."""
        names = list(features)
        rows = pd.DataFrame({name: [str(cell) for cell in state[name]] for name in TEXTS}, dtype=object)
        rows["position"] = np.array(state["position"], dtype=np.int64)
        rows["frequency"] = np.array(state["frequency"], dtype=float)
        if len(rows) != len(names):
            raise InputError("The variants of a view are invalid.")
        return cls(names, rows)


def parsed_names(names: Iterable[str]) -> pd.DataFrame:
    """Variant, counted and other allele from names such as ``rs1_A`` and ``rs1_A(/G)``."""
    rows = [
        match.groupdict("") if match else {"variant": name, "counted": "", "other": ""}
        for name in names
        for match in [COUNTED.fullmatch(name)]
    ]
    return pd.DataFrame(rows, columns=["variant", "counted", "other"], dtype=object)


def feature_names(rows: pd.DataFrame, path: Path) -> list[str]:
    """Variant and counted allele; also the other allele where names are not unique."""
    cells = list(zip(rows["variant"], rows["counted"], rows["other"], strict=True))
    names = [f"{variant}_{counted}" if counted else variant for variant, counted, _ in cells]
    if len(set(names)) == len(names):
        return names
    name = pd.Index(names)
    whole = pd.Index([f"{short}(/{other})" for short, (_, _, other) in zip(name, cells, strict=True)])
    name = name.where(~name.duplicated(keep=False), whole)
    repeated = int(name.duplicated().sum())
    if repeated:
        who = counted(repeated, "variant has", "variants have")
        raise StudyError(f"{path.name}: {who} the id and alleles of another; remove duplicates.")
    return name.tolist()


def panel_rows(columns: Mapping[str, Any] | pd.DataFrame, path: Path) -> pd.DataFrame:
    """Rows of a panel from text: positions as numbers, and names of variants without an id."""
    rows = columns if isinstance(columns, pd.DataFrame) else pd.DataFrame(columns, dtype=object)
    position = pd.to_numeric(rows["position"], errors="coerce")
    bad = int((position.isna() | (position < 0) | (position > 2**40) | (position % 1 != 0)).sum())
    if bad:
        what = counted(bad, "variant has", "variants have")
        raise StudyError(f"{path.name}: {what} no valid position; write the file again.")
    unnamed = rows["variant"].isin([".", ""])
    if unnamed.any():
        place = rows["chromosome"].astype(str) + ":" + rows["position"].astype(str)
        rows["variant"] = rows["variant"].mask(unnamed, place)
    rows["position"] = position.astype(np.int64)
    return rows


def rows_at(rows: pd.DataFrame, at: Array) -> pd.DataFrame:
    """Some rows of a panel; texts as objects of Python, which are read one by one."""
    return rows.iloc[at].astype(dict.fromkeys(TEXTS, object))


def chromosomes(names: Iterable[object]) -> list[str]:
    """Chromosomes in one spelling.

    >>> chromosomes(["chr1", "01", "23", "chrM", "X"])
    ['1', '1', 'X', 'MT', 'X']
    """
    known: dict[object, str] = {}
    found = []
    for name in names:
        if name not in known:
            bare = re.sub(r"(?i)^chr", "", str(name)).upper()
            bare = bare.lstrip("0") or bare
            known[name] = SEX_CHROMOSOMES.get(bare, bare)
        found.append(known[name])
    return found
