"""Views as the readers of single formats find them in files and folders."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any

from viewloom.study import readers
from viewloom.study.drafting.found import Candidate, Found
from viewloom.study.drafting.tables import LARGE, SAMPLE
from viewloom.study.errors import StudyError
from viewloom.study.readers.files import kind_of
from viewloom.study.readers.packed import open_bytes, unpacked_name
from viewloom.study.wording import counted

MOST_VIEWS = 20  # of one file or folder
NO_PART: Mapping[str, str] = MappingProxyType({})


def views_of_file(path: Path, format: str, part: Mapping[str, str]) -> list[Candidate] | str:
    """The views of a file, or of a sheet or object, by its reader; or why there are none."""
    with _beginning(path) as start:
        found = _views(start, [start], format, path, part)
    return found


def folder_files(paths: Sequence[Path], found: Found) -> set[Path]:
    """Views of the folders that single formats know; their files are returned."""
    taken: set[Path] = set()
    for format, known in reversed(readers.FORMATS.items()):
        if known.folders is None:
            continue
        left = [path for path in paths if path not in taken]
        for root, files in known.folders(left, found.folder).items():
            views = _views(root, files, format, root)
            if isinstance(views, str):
                where = root.relative_to(found.folder).as_posix()
                found.passed.append((f"{where}/", f"format {format!r}: {views}", len(files)))
            else:
                found.views += views
            taken.update(files)
    return taken


def _views(
    path: Path,
    files: Sequence[Path],
    format: str,
    source: Path,
    part: Mapping[str, str] = NO_PART,
) -> list[Candidate] | str:
    """Views of a file, or of a folder and its files, by the reader of a format; or why it refuses them."""
    known = readers.FORMATS[format]
    try:
        part = {key: name for key, name in part.items() if readers.takes(format, key)}
        drafts = [part | settings for settings in known.drafts(path, files, **part)[:MOST_VIEWS]]
        needed = [name for name in known.required if any(name not in settings for settings in drafts)]
        if needed:
            return f"format {format!r}, which needs {' and '.join(needed)}; write its block by hand"
        frames = [known(path, **settings) for settings in drafts]
    except (StudyError, ImportError) as error:
        return str(error).split("\n")[0].removeprefix(f"{path.name}: ").rstrip(".")
    views = []
    for settings, name, frame in zip(drafts, _names(source, drafts, part), frames, strict=True):
        ids, features = [[str(one) for one in axis] for axis in (frame.index, frame.columns)]
        counts = f"{counted(len(ids), 'subject')}, {counted(len(features), 'column')} of numbers"
        said = f"{counts}, format {format!r}{'' if path == source else ', of the first lines'}"
        views.append(Candidate(name, [source], format, dict(settings), ids, features, [said]))
    return views


def _names(path: Path, drafts: Sequence[Mapping[str, Any]], part: Mapping[str, str]) -> list[str]:
    """Names of views: that of the file or folder, and what tells its views apart."""
    stem = path.name if path.is_dir() else Path(unpacked_name(path)).stem
    stem = "_".join([stem, *(name.removeprefix(f"{stem}$") for name in part.values())])
    if len(drafts) == 1:
        return [stem]
    texts = [_texts(settings) for settings in drafts]
    shared = set.intersection(*map(set, texts))
    return ["_".join([stem, *(text for text in found if text not in shared)]) for found in texts]


def _texts(settings: Mapping[str, Any]) -> list[str]:
    return [
        text
        for value in settings.values()
        for text in (value.values() if isinstance(value, Mapping) else [value])
        if isinstance(text, str)
    ]


@contextmanager
def _beginning(path: Path) -> Iterator[Path]:
    """A file, or the first lines of a large text."""
    if kind_of(path) is not None or path.stat().st_size <= LARGE:
        yield path
        return
    with tempfile.TemporaryDirectory() as folder, open_bytes(path) as file:
        start = Path(folder, unpacked_name(path))
        start.write_bytes(b"".join(islice(iter(lambda: file.readline(LARGE), b""), SAMPLE)))
        yield start
