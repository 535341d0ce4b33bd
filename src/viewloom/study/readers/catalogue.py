"""The list of formats and of kinds of files, from the registries: for `viewloom formats` and its page."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from viewloom.study.readers import FORMATS
from viewloom.study.readers.files import KINDS, TEXT_OPTIONS, TEXT_SUFFIXES
from viewloom.study.readers.formats import INTERNAL

VALUES = {  # examples of options that a format cannot do without
    "id": '"participant_id"',
    "name": '"region"',
    "value": '"suvr"',
    "code": '"diag_icd10"',
    "modality": '"rna"',
}
NAMES = {"r": ".RData"}  # ends of names in examples
OF_FILES = {  # options that depend on the kind of the file
    "excel": 'sheet = "volumes"  # name, or number from 1',
    "r": 'object = "volumes"  # one of several',
    "spss": "rows = \"QC == 'Pass' and AGE >= 55\"",
}


@dataclass(frozen=True)
class Entry:
    """A format, or a kind of file that holds a table.

    Attributes
    ----------
    name, about : str
        Its name in study.toml, and what it is.
    ends : list of str
        Ends of the names of its files; empty where the content says what it is.
    extra : str
        The extra of viewloom that it needs; empty where it needs none.
    options : list of str
        Keys of study.toml.
    example : str
        A block of study.toml.
    """

    name: str
    about: str
    ends: list[str]
    extra: str
    options: list[str]
    example: str

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def formats() -> list[Entry]:
    """All formats, in the order of the registry."""
    return [_of_format(name) for name in FORMATS]


def files() -> list[Entry]:
    """All kinds of files that hold a table, delimited text first."""
    text = Entry(
        "text",
        "Delimited text, also compressed: .gz, .bz2, .xz, or one table in a .zip",
        list(TEXT_SUFFIXES),
        "",
        list(TEXT_OPTIONS),
        _block("volumes", "volumes.csv.gz", ['id = "participant_id"']),
    )
    return [text, *(_of_kind(name) for name in KINDS)]


def _of_format(name: str) -> Entry:
    format = FORMATS[name]
    about = (inspect.getdoc(format.read) or name).split("\n")[0].rstrip(".").removeprefix("Read ")
    options = [
        key
        for key, option in format.options.items()
        if option.kind is option.KEYWORD_ONLY and key not in INTERNAL
    ]
    required = [f"{key} = {VALUES.get(key, '...')}" for key in format.required]
    path = (
        f"{name}{format.suffixes[0]}"
        if format.suffixes
        else "subjects"
        if format.contents != "*"
        else f"{name}.csv"
    )
    example = format.example or _block(name, path, [f'format = "{name}"', *required])
    return Entry(name, about[:1].upper() + about[1:], list(format.suffixes), format.extra, options, example)


def _of_kind(name: str) -> Entry:
    kind = KINDS[name]
    more = ['id = "participant_id"', *([OF_FILES[name]] if name in OF_FILES else [])]
    example = _block("volumes", f"volumes{NAMES.get(name, kind.suffixes[0])}", more)
    return Entry(name, kind.title, list(kind.suffixes), kind.extra, list(kind.options), example)


def _block(name: str, path: str, lines: list[str]) -> str:
    return "\n".join([f"[views.{name}]", f'path = "{path}"', *lines])


def markdown() -> str:
    """Both lists as Markdown; ``docs/formats.md`` has this text."""
    return "\n".join([*_section("Kinds of files", files()), "", *_section("Formats", formats())])


def _section(title: str, entries: list[Entry]) -> Iterator[str]:
    yield f"### {title}\n"
    yield "| name | what | ends of names | extra | options |"
    yield "|---|---|---|---|---|"
    for entry in entries:
        cells = (f"`{entry.name}`", entry.about, _code(entry.ends), entry.extra, _code(entry.options))
        yield f"| {' | '.join(cells)} |"
    for entry in entries:
        yield f"\n`{entry.name}`:\n\n```toml\n{entry.example}\n```"


def _code(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
