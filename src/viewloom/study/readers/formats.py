"""What is known of a file format: its reader, and how to tell its files from others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from inspect import Parameter, signature
from pathlib import Path
from typing import Any, get_type_hints

import pandas as pd

from viewloom.study.errors import StudyError
from viewloom.study.readers.files import TextFile, kind_of, misplaced, open_table
from viewloom.study.readers.text import NAMED, first_rows

# parameters of readers that are no keys of study.toml
INTERNAL = ("numeric", "aside", "reference", "pattern", "needed")
FIRST = 50  # rows that tell what a table is, where its header does not


class Sample:
    """A file or folder of unknown format."""

    def __init__(self, path: str | Path, part: dict[str, Any] | None = None) -> None:
        self.path = Path(path)
        elsewhere = misplaced(self.path, part or {})
        self.part = {
            key: one for key, one in (part or {}).items() if one is not None and key not in elsewhere
        }

    @property
    def is_cells(self) -> bool:
        """Whether the name is that of a file with typed cells, such as Parquet or Excel."""
        return kind_of(self.path) is not None

    @cached_property
    def header(self) -> list[str]:
        """Names of the columns of a table; empty for others, and if none of several tables is named."""
        if not self.path.is_file():
            return []
        try:
            return open_table(self.path, candidates=NAMED.values(), **self.part).header
        except (StudyError, ImportError):
            return []

    @property
    def columns(self) -> set[str]:
        """The same without their order."""
        return set(self.header)

    @cached_property
    def first_rows(self) -> pd.DataFrame:
        """The first rows of a table; empty where there is no header."""
        if not self.header:
            return pd.DataFrame()
        file = open_table(self.path, candidates=NAMED.values(), **self.part)
        if isinstance(file, TextFile):
            return first_rows(self.path, file.dialect, FIRST, len(self.header))
        return file.load().head(FIRST)


def by_suffix(sample: Sample) -> bool:
    """The end of the name says enough."""
    return sample.path.is_file()


def _one_view(path: Path, files: Sequence[Path], **part: Any) -> list[dict[str, Any]]:
    """One view without settings."""
    return [{}]


@cache
def _parameters(read: Callable[..., pd.DataFrame]) -> Mapping[str, Parameter]:
    return signature(read).parameters


@dataclass(frozen=True)
class Format:
    """A file format of studies, an entry of `viewloom.study.readers.FORMATS`.

    Parameters
    ----------
    read : callable
        ``read(path, *, ...)`` returns a data frame as described in `viewloom.study.readers`. Its keyword-only
        parameters are the keys of ``[views.<name>]`` that the format takes, and are required there if they
        have no default. A reader with a parameter `numeric` can read the table of participants, too.
    recognises : callable
        Whether a `Sample` is of this format.
    suffixes : tuple of str
        Ends of names, in lower case with the dot, that belong to this format: such a file is of no other.
    companions : tuple of str
        Ends of the names of files that are read with the one that is named.
    contents : str, default="*"
        Pattern of the files that are read, where the source is a folder.
    several : bool, default=False
        Whether the reader takes a list of paths and joins the files itself.
    genotypes : bool, default=False
        Whether values are allele counts (0 to 2).
    ids : str or None
        How ids are matched in studies with this format; see `viewloom.study.ids`.
    extra : str
        The extra of viewloom that its reader needs.
    example : str
        A block of study.toml for the list of formats; by default made from the other settings.
    tabular : bool, default=False
        Whether ids, visits and columns may be any, so that `viewloom init` chooses them.
    drafts : callable, optional
        ``drafts(path, files)`` returns the settings of each view that `viewloom init` drafts from a file, or
        from a folder and its files; by default of one view without settings. Where the reader has the options
        `sheet` and `object`, it is called with the one that chooses the table.
    folders : callable, optional
        ``folders(paths, root)`` returns the folders of this format among the files of a tree, each with the
        files that belong to it.
    glance : callable, optional
        ``glance(raw)`` returns one row per subject of a table as `viewloom init` looks at it, and the name of
        the column of ids.
    """

    read: Callable[..., pd.DataFrame]
    recognises: Callable[[Sample], bool] = by_suffix
    suffixes: tuple[str, ...] = ()
    companions: tuple[str, ...] = ()
    contents: str = "*"
    several: bool = False
    genotypes: bool = False
    ids: str | None = None
    extra: str = ""
    example: str = ""
    tabular: bool = False
    drafts: Callable[..., list[dict[str, Any]]] = _one_view
    folders: Callable[[Sequence[Path], Path], dict[Path, list[Path]]] | None = None
    glance: Callable[[pd.DataFrame], tuple[pd.DataFrame, str]] | None = None

    def __call__(self, path: str | Path | list[Path], **options: object) -> pd.DataFrame:
        """Read a file."""
        return self.read(path, **options)

    @property
    def options(self) -> dict[str, Parameter]:
        """Parameters of the reader, the path among them."""
        return dict(_parameters(self.read))

    def own_options(self, known: Collection[str]) -> dict[str, Any]:
        """Types of the options that are keys of study.toml and not among the known ones."""
        keys = {name for name, option in self.options.items() if option.kind is option.KEYWORD_ONLY}
        own = sorted(keys - {*known, *INTERNAL})
        kinds = get_type_hints(self.read, include_extras=True) if own else {}
        return {name: kinds.get(name, Any) for name in own}

    @property
    def required(self) -> list[str]:
        """Options that the reader cannot do without."""
        empty = Parameter.empty
        return [
            name
            for name, option in self.options.items()
            if option.kind is option.KEYWORD_ONLY and option.default is empty
        ]
