"""What is known of a file format: its reader, and how to tell its files from others."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property
from inspect import Parameter, signature
from pathlib import Path
from typing import Any, get_type_hints

import pandas as pd

from viewloom.study.errors import StudyError
from viewloom.study.readers.text import NAMED, find_dialect

PARQUET = (".parquet", ".pq")
INTERNAL = ("numeric", "aside", "reference")  # parameters of readers that are no keys of study.toml


def is_parquet(path: Path) -> bool:
    """Whether the file calls itself Parquet."""
    return path.suffix.lower() in PARQUET


class Sample:
    """A file or folder of unknown format."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    @cached_property
    def header(self) -> list[str]:
        """Names of the columns of a delimited text; empty for anything else."""
        if not self.path.is_file() or is_parquet(self.path):
            return []
        try:
            return find_dialect(self.path, candidates=NAMED.values()).header
        except StudyError:
            return []

    @property
    def columns(self) -> set[str]:
        """The same without their order."""
        return set(self.header)


def by_suffix(sample: Sample) -> bool:
    """The end of the name says enough."""
    return sample.path.is_file()


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
    """

    read: Callable[..., pd.DataFrame]
    recognises: Callable[[Sample], bool] = by_suffix
    suffixes: tuple[str, ...] = ()
    companions: tuple[str, ...] = ()
    contents: str = "*"
    several: bool = False
    genotypes: bool = False
    ids: str | None = None

    def __call__(self, path: str | Path | list[Path], **options: object) -> pd.DataFrame:
        """Read a file."""
        return self.read(path, **options)

    @property
    def options(self) -> dict[str, Parameter]:
        """Parameters of the reader, the path among them."""
        return dict(signature(self.read).parameters)

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
