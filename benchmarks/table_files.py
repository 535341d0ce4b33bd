"""Tables for `speed.py` in files of several kinds, and their reading by the bare libraries."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from viewloom.study.readers.tables import read_table

Work = Callable[[], Any]
TABLE, SHEET, STATISTICS = (8000, 500), (2000, 50), (20_000, 200)  # subjects and columns


def pairs(folder: Path) -> Iterator[tuple[str, Work, Work]]:
    """What is read, our reader, and the bare library; formats whose library is absent are left out."""
    for kind, end, (n, d) in [
        ("CSV / pandas", "csv", TABLE),
        ("Parquet / pandas", "parquet", TABLE),
        ("Excel / calamine", "xlsx", SHEET),
        ("SPSS / pyreadstat", "sav", STATISTICS),
    ]:
        path = folder / f"{n}-{d}.{end}"
        try:
            WRITE[end](table(n, d), path)
            bare = BARE[end](path)
        except ImportError:
            continue
        yield f"{kind}, {n} x {d}", lambda path=path: read_table(path, id="id"), bare


def table(n: int, d: int) -> pd.DataFrame:
    """Numbers with an id."""
    values = np.random.default_rng(0).normal(size=(n, d)).round(6)
    frame = pd.DataFrame(values, columns=[f"x{j}" for j in range(d)])
    frame.insert(0, "id", [f"s{i:06d}" for i in range(n)])
    return frame


def _write_sav(frame: pd.DataFrame, path: Path) -> None:
    import pyreadstat

    pyreadstat.write_sav(frame, str(path))


def _calamine(path: Path) -> Work:
    from python_calamine import CalamineWorkbook

    return lambda: pd.DataFrame(CalamineWorkbook.from_path(path).get_sheet_by_index(0).to_python())


def _pyreadstat(path: Path) -> Work:
    import pyreadstat

    return lambda: pyreadstat.read_sav(str(path))


WRITE: dict[str, Callable[[pd.DataFrame, Path], object]] = {
    "csv": lambda frame, path: frame.to_csv(path, index=False),
    "parquet": lambda frame, path: frame.to_parquet(path),
    "xlsx": lambda frame, path: frame.to_excel(path, index=False),
    "sav": _write_sav,
}
BARE: dict[str, Callable[[Path], Work]] = {
    "csv": lambda path: lambda: pd.read_csv(path),
    "parquet": lambda path: lambda: pd.read_parquet(path),
    "xlsx": _calamine,
    "sav": _pyreadstat,
}
