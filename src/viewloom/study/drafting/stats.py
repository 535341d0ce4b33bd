"""FreeSurfer output: folders of subjects with stats files, anywhere in a tree."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from viewloom.study.readers.freesurfer import ASEG, LONG, NOT_SUBJECTS

ATLAS = re.compile(r"(?:.*[._])?[lr]h\.(?P<atlas>.+)\.stats")
NO_PARCELS = (
    "curv",
    "w-g.pct",
    "BA",
    "entorhinal",
    "aparc.pial",
)  # prefixes of other parcellations
OUTPUT = ("mri", "surf", "label", "scripts", "touch", "tmp", "stats", "trash")  # folders of a subject
PEEKED = 300  # stats folders whose files are read


@dataclass
class Streams:
    """A folder of subjects.

    Attributes
    ----------
    root : Path
        Path for the reader.
    files : list of Path
        Every file below the subjects.
    subjects : list of str
    settings : dict
        Keys for study.toml.
    lacking : int
        Subjects without files of the atlas.
    """

    root: Path
    files: list[Path]
    subjects: list[str]
    settings: dict[str, Any] = field(default_factory=dict)
    lacking: int = 0
    atlas: str = "aparc"

    def is_read(self, path: Path) -> bool:
        """Whether the reader uses a file."""
        if any(part.startswith(NOT_SUBJECTS) for part in path.relative_to(self.root).parts):
            return False
        ends = [*ASEG, f"lh.{self.atlas}.stats", f"rh.{self.atlas}.stats"]
        return any(path.name == end or path.name.endswith((f".{end}", f"_{end}")) for end in ends)

    def passed(self, folder: Path) -> list[tuple[str, str, int]]:
        """Other output of FreeSurfer, by its path in the folders of subjects."""
        other = [path for path in self.files if not self.is_read(path)]
        stats = [path for path in other if path.suffix == ".stats"]
        names = sorted({re.sub(r"^[lr]h\.", "?h.", path.name) for path in stats})
        where = self.root.relative_to(folder).as_posix()
        label = "*" if where == "." else f"{where}/*"
        read = f"only aseg.stats and ?h.{self.atlas}.stats are read; see atlas"
        entries = [
            (
                f"{label}/stats",
                f"FreeSurfer statistics that are not read ({', '.join(names)}); {read}",
                len(stats),
            )
        ]
        rest = (f"{label}", "other output of FreeSurfer (images, surfaces, logs)", len(other) - len(stats))
        return [entry for entry in (*entries, rest) if entry[2]]


def find_streams(files: Sequence[Path], folder: Path) -> list[Streams]:
    """Folders of FreeSurfer subjects."""
    places: dict[Path, list[Path]] = defaultdict(list)
    for path in files:
        if path.suffix == ".stats":
            places[path.parent].append(path)
    real = [place for number, place in enumerate(places) if number >= PEEKED or _is_stats(places[place][0])]
    roots = _roots(real, folder)
    return [_stream(root, mine, places, files) for root, mine in roots.items()]


def _is_stats(path: Path) -> bool:
    """Whether it is a file of one subject; tables of many subjects may also be named .stats."""
    try:
        with path.open("rb") as file:
            return file.read(64).lstrip().startswith(b"#")
    except OSError:
        return False


def _roots(places: Sequence[Path], folder: Path) -> dict[Path, list[Path]]:
    """Stats files by the folder of subjects that they belong to."""
    roots: dict[Path, list[Path]] = defaultdict(list)
    for place in places:
        subject = place.parent if place.name == "stats" else place
        inside = subject != folder and folder in subject.parents
        flat = any(re.match(r".+\.(?:aseg|[lr]h\.)", path.name) for path in place.glob("*.stats"))
        roots[place if flat else subject.parent if inside else folder].append(place)
    for root in sorted(roots, key=lambda root: -len(root.parts)):
        _lift(root, roots)
    return dict(roots)


def _lift(root: Path, roots: dict[Path, list[Path]]) -> None:
    """Assign stats files beside the subjects of another root to that root, whose reader reads them."""
    outer = roots.get(root.parent, [])
    mine = [place for place in outer if place.parent == root and place.name == "stats"]
    if mine:
        roots[root] += mine
        roots[root.parent] = [place for place in outer if place not in mine]
        if not roots[root.parent]:
            del roots[root.parent]


def _stream(
    root: Path, mine: Sequence[Path], places: dict[Path, list[Path]], files: Sequence[Path]
) -> Streams:
    stats = [path for place in mine for path in places[place]]
    atlas = _atlas(stats)
    below = {place.parent if place.name == "stats" else place for place in mine}
    flat = root in below and root in mine
    owned = stats if flat else _owned(files, below, root, stats)
    stream = Streams(root, owned, [], {}, 0, atlas)
    read = [path for path in stats if stream.is_read(path)]
    names = {_subject(path) for path in stats if not path.parent.parent.name.startswith(NOT_SUBJECTS)}
    with_atlas = {_subject(path) for path in read if ATLAS.fullmatch(path.name)}
    stream.subjects = sorted(names)
    stream.lacking = len(names - with_atlas)
    if atlas != "aparc":
        stream.settings["atlas"] = atlas
    if names and all(LONG in name or any(other.endswith(LONG + name) for other in names) for name in names):
        stream.settings["longitudinal"] = True
    return stream


def _owned(files: Sequence[Path], below: set[Path], root: Path, stats: Sequence[Path]) -> list[Path]:
    """Stats files, and the other output of FreeSurfer in the folders of subjects."""
    owned = set(stats)
    subjects = {place for place in below if place != root}
    for path in files:
        for up, part in zip(
            path.parents, [path.name, *(parent.name for parent in path.parents)], strict=False
        ):
            if up in subjects and part in OUTPUT and path.parent != up:
                owned.add(path)
    return sorted(owned)


def _subject(path: Path) -> str:
    """The subject of a file, as for the reader."""
    own = re.sub(
        r"(?:^|[._])(?:aseg(?:\+DKT)?(?:\.VINN)?|samseg\.fs|[lr]h\..+|wmparc|brainvol)\.stats$", "", path.name
    )
    folder = path.parent.parent if path.parent.name == "stats" else path.parent
    return folder.name if own in ("", path.name) else own


def _atlas(stats: Sequence[Path]) -> str:
    """The parcellation: aparc if there is any, else the most frequent."""
    found = [match["atlas"] for path in stats if (match := ATLAS.fullmatch(path.name))]
    counts = Counter(atlas for atlas in found if not atlas.startswith(NO_PARCELS))
    if not counts or "aparc" in counts:
        return "aparc"
    return max(sorted(counts), key=lambda atlas: counts[atlas])
