"""Sets with known classes: `.npz` files of `view0`, `view1`, ... and `y`."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

Array = np.ndarray
DEFAULT_FOLDER = Path(__file__).resolve().parents[2] / "shared" / "data"
VIEW = re.compile(r"view\d+")

# Best published (method, Acc, NMI), most with parameters tuned on the labels.
PUBLISHED: dict[str, tuple[str, float, float]] = {
    "100leaves": ("BIGMC", 0.921, 0.960),
    "3sources": ("BIGMC", 0.797, 0.705),
    "bbc4": ("GBS", 0.693, 0.563),
    "bbcsport": ("MCGC", 0.958, 0.895),
    "handwritten_mfeat6": ("MLAN", 0.973, 0.939),
    "hw2sources": ("GBS", 0.994, 0.985),
    "kernel_texas": ("FMKKM", 0.666, 0.329),
    "msrcv1_5": ("SFMC", 0.810, 0.721),
    "ngs": ("GBS", 0.982, 0.939),
    "reuters1200": ("RMSC", 0.479, 0.283),
    "webkb203": ("BIGMC", 0.795, 0.540),
}


@dataclass(frozen=True)
class BenchSet:
    """A file, and what may be known of it without its classes but their number."""

    path: Path
    n_samples: int
    n_views: int
    n_clusters: int

    @property
    def name(self) -> str:
        """Name of the file."""
        return self.path.stem

    @property
    def is_kernel(self) -> bool:
        """Whether the views are Gram matrices."""
        return is_kernel(self.path)


def default_folder() -> Path:
    """Where the sets lie unless said otherwise: `VIEWLOOM_DATA`, or beside the checkout."""
    return Path(os.environ.get("VIEWLOOM_DATA", DEFAULT_FOLDER))


def is_kernel(path: Path) -> bool:
    """Whether the views of a file are Gram matrices, which its name says."""
    return path.stem.startswith("kernel_")


def find_sets(folder: Path, names: list[str] | None = None) -> tuple[list[BenchSet], list[str]]:
    """Sets of a folder, and the names of files that have another form."""
    paths = sorted(folder.glob("*.npz"))
    if unknown := sorted(set(names or ()) - {path.stem for path in paths}):
        raise ValueError(f"No set is called {', '.join(unknown)} in {folder}.")
    paths = [path for path in paths if not names or path.stem in names]
    of_form = {path: _has_form(path) for path in paths}
    return [_described(path) for path in paths if of_form[path]], [p.stem for p in paths if not of_form[p]]


@lru_cache(maxsize=2)
def read_views(path: Path) -> list[Array]:
    """The views of a set, in float64. The classes stay in the file."""
    with np.load(path) as content:
        names = sorted(filter(VIEW.fullmatch, content.files), key=lambda name: int(name[4:]))
        return [content[name].astype(np.float64) for name in names]


def read_classes(path: Path) -> Array:
    """The classes of a set, for scoring."""
    with np.load(path) as content:
        return np.unique(content["y"], return_inverse=True)[1]


def _has_form(path: Path) -> bool:
    with np.load(path) as content:
        return "y" in content.files and any(map(VIEW.fullmatch, content.files))


def _described(path: Path) -> BenchSet:
    y = read_classes(path)
    with np.load(path) as content:
        n_views = sum(bool(VIEW.fullmatch(name)) for name in content.files)
    return BenchSet(path, len(y), n_views, int(y.max()) + 1)
