"""Read every file of a folder that viewloom knows, and compare it with an independent reading.

    python benchmarks/realfiles.py DIR [--files] [--json FILE]

Tables are compared cell by cell, before any option of a study is applied: each sheet of a workbook, and each
object of an R file, is one table. Genotypes are compared count by count. Files of other formats (BIDS, UK
Biobank, ADNI, ...) are read once more in their format: as a table of participants where they can be one, or
else as a view.

equal, differ
    Whether all cells are equal to those of the other library; see `independent.py`.
read
    Read by viewloom; there is no other library, it is not installed, or it refuses the file.
refused
    With an error of one line, which is printed below the table.
crashed
    Any other exception. This must be 0, or the exit code is 1.

Cells, ids and names of files are not printed; `--files` prints the names of files that differ, are refused
or crash.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

import independent
import numpy as np
import pandas as pd
from independent import Grid, plain

from viewloom.runtime.errors import ViewloomError
from viewloom.study.readers import FORMATS, owner, sniff, takes
from viewloom.study.readers.files import KINDS, TEXT_SUFFIXES, open_table, parts_of
from viewloom.study.readers.sheets import sheet_names

EQUAL, DIFFER, READ, REFUSED, CRASHED = OUTCOMES = ("equal", "differ", "read", "refused", "crashed")
TOP = 60  # rows among which the header is searched
PLAIN = ("table", "long", "codes")  # formats without a meaning of their own


@dataclass(frozen=True)
class Result:
    """What came of one table."""

    path: str
    kind: str
    outcome: str
    message: str = ""


def results(folder: Path) -> Iterator[Result]:
    """All tables of all files below a folder."""
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = path.relative_to(folder).as_posix()
        for kind, read, other in readings(path):
            outcome, message = compared(read, other)
            yield Result(name, kind, outcome, message.replace(f"{path.name}: ", ""))


Reading = tuple[str, Callable[[], Any], Callable[[Any], int | None] | None]


def readings(path: Path) -> Iterator[Reading]:
    """How to read each table of a file, and how to count the cells that differ in another reading."""
    known = owner(path)
    if known is not None:
        other = _suffixed(independent.GENOTYPES, path)
        for options in _modalities(path) if FORMATS[known].required else [{}]:
            read = partial(FORMATS[known], path, **options)
            yield known, read, other and (lambda ours: counts_apart(ours, other(path)))
        return
    kind = _kind(path)
    if kind is not None:
        for part in _parts(path):
            yield f"{kind} {path.suffix.lower()}", *_of_table(path, part)
        named = _format(path)
        if named is not None:
            options = {"numeric": False} if takes(named, "numeric") else {}
            yield named, lambda: FORMATS[named](path, **options), None


def _modalities(path: Path) -> list[dict[str, str]]:
    """Options that choose each modality of an h5mu file; one that is not there if it cannot be opened."""
    try:
        with import_module("h5py").File(path) as file:
            return [{"modality": name} for name in file["mod"]]
    except (ImportError, OSError, KeyError):
        return [{"modality": ""}]


def _of_table(path: Path, part: dict[str, str]) -> tuple[Callable[[], Any], Callable[[Any], int] | None]:
    other = _suffixed(independent.TABLES, path)
    count = other and (lambda ours: cells_apart(ours, other(path, _sheet(path, part))))
    return lambda: open_table(path, **part).load(None), count


def _suffixed(readers: dict[str, Any], path: Path) -> Any:
    return next((read for end, read in readers.items() if path.name.lower().endswith(end)), None)


def _kind(path: Path) -> str | None:
    """The kind of file by its name."""
    name = path.name.lower()
    kinds = {"text": TEXT_SUFFIXES, **{key: one.suffixes for key, one in KINDS.items()}}
    return next((key for key, ends in kinds.items() if name.endswith(ends)), None)


def _parts(path: Path) -> list[dict[str, str]]:
    """Options that choose each table of a file."""
    try:
        key, names = parts_of(path) or ("", [])
    except Exception:  # is met again when the file is read
        return [{}]
    return [{key: name} for name in names] or [{}]


def _sheet(path: Path, part: dict[str, str]) -> str | None:
    if path.suffix.lower() not in KINDS["excel"].suffixes:
        return None
    return part["sheet"] if part else sheet_names(path)[0]


def _format(path: Path) -> str | None:
    """The format of a table that means more than its cells, unless it needs settings."""
    try:
        found = sniff(path)
    except Exception:
        return None
    return found if found and found not in PLAIN and not FORMATS[found].required else None


def compared(read: Callable[[], Any], count: Callable[[Any], int | None] | None) -> tuple[str, str]:
    """The outcome of a reading, and its message."""
    try:
        ours = read()
    except ImportError as error:
        return REFUSED, str(error)
    except ViewloomError as error:
        return REFUSED, str(error.args[0])  # the first of several
    except Exception as error:
        return CRASHED, type(error).__name__
    try:
        apart = None if count is None else count(ours)
    except Exception:  # the other library is not there, or cannot read it
        apart = None
    if apart is None:
        return READ, ""
    return (DIFFER, f"{apart} cells") if apart else (EQUAL, "")


def cells_apart(frame: pd.DataFrame, grid: Grid) -> int:
    """Cells of a table that differ from those below its header in a grid.

    >>> cells_apart(pd.DataFrame({"id": ["a", "b"], "x": [1.0, 3.0]}), [["id", "x"], ["a", 1], ["b", 2]])
    1
    """
    ours = [[plain(cell) for cell in row] for row in frame.astype(object).to_numpy().tolist()]
    ours = [row for row in ours if _filled(row)]
    width = max(map(len, grid), default=0)
    rows = [[plain(cell) for cell in [*row, *[None] * (width - len(row))]] for row in grid]
    found = (_apart(list(frame.columns), ours, rows[at], rows[at + 1 :]) for at in range(min(TOP, len(rows))))
    return min((count for count in found if count is not None), default=frame.size or 1)


def _apart(names: list[str], ours: Grid, header: list[Any], below: Grid) -> int | None:
    """The same for one row of the grid as the header; None if it has other names."""
    used = [
        j for j, name in enumerate(header) if name is not None or any(row[j] is not None for row in below)
    ]
    if len(used) != len(names) or not all(map(_same_name, names, (header[j] for j in used))):
        return None
    theirs = [row for row in ([row[j] for j in used] for row in below) if _filled(row)]
    lost = sum(_filled(row) > 1 for row in theirs[len(ours) :]) * len(names)
    pairs = zip(ours, islice(theirs, len(ours)), strict=False)
    return lost + sum(not _same(a, b) for pair in pairs for a, b in zip(*pair, strict=True))


def _filled(row: list[Any]) -> int:
    return sum(cell is not None for cell in row)


def _same_name(name: str, cell: Any) -> bool:
    """Whether a column has the name of a cell; names may be made unique, or have a heading before them."""
    if cell is None:
        return name.startswith(("column ", "row.names", "Unnamed"))
    return plain(name) == cell or name.endswith(f" {cell}") or name.startswith(f"{cell}.")


def _same(a: float | str | None, b: float | str | None) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return bool(np.isclose(a, b, rtol=1e-12, atol=0.0))
    return a == b


def counts_apart(ours: pd.DataFrame, other: pd.DataFrame) -> int | None:
    """Counts of genotypes that differ; None where names are not unique, so that columns cannot be matched.

    Variants without any call are left out of views.
    """
    other = other.dropna(axis=1, how="all")
    if other.columns.has_duplicates or len(ours) != len(other):
        return None
    missing = other.columns.difference(ours.columns).size + ours.columns.difference(other.columns).size
    common = ours.columns.intersection(other.columns)
    close = np.isclose(
        ours.loc[other.index, common].to_numpy(dtype=float),
        other[common].to_numpy(),
        atol=1e-4,
        equal_nan=True,
    )
    return missing * len(ours) + int((~close).sum())


def table(found: list[Result]) -> pd.DataFrame:
    """Numbers of tables by format and outcome."""
    counts = Counter((result.kind, result.outcome) for result in found)
    kinds = sorted({result.kind for result in found})
    return pd.DataFrame({one: [counts[kind, one] for kind in kinds] for one in OUTCOMES}, kinds)


def messages(found: list[Result]) -> Iterator[str]:
    """Messages of tables that were refused or crashed, the most frequent first."""
    told = Counter((one.kind, one.outcome, one.message) for one in found if one.outcome in (REFUSED, CRASHED))
    for (kind, outcome, message), count in told.most_common():
        yield f"{count:5}  {kind}, {outcome}: {message}"


def main(argv: list[str] | None = None) -> int:
    """Print the table; 1 where something crashed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--files", action="store_true", help="also print names of files")
    parser.add_argument("--json", type=Path, help="write all results to this file")
    options = parser.parse_args(argv)
    found = list(results(options.folder))
    print(table(found).to_string() if found else "no files of a known format")
    for line in messages(found):
        print(line)
    if options.files:
        doubtful = [one for one in found if one.outcome in (DIFFER, REFUSED, CRASHED)]
        print(*(f"{one.outcome}: {one.path} ({one.message})" for one in doubtful), sep="\n")
    if options.json:
        options.json.write_text(json.dumps([asdict(one) for one in found], indent=1))
    return int(any(one.outcome == CRASHED for one in found))


if __name__ == "__main__":
    sys.exit(main())
