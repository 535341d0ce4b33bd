"""Label atlases: an image of whole numbers, and the names of its regions."""

from __future__ import annotations

import hashlib
import logging
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from viewloom.runtime.errors import MissingPackageError
from viewloom.study.errors import StudyError, check_readable
from viewloom.study.readers import frames
from viewloom.study.readers.files import kind_of, open_table
from viewloom.study.wording import folded

MOST_VOXELS = 1 << 28
MOST_REGIONS = 10_000
SAME_GRID = 1e-3  # mm
NUMBER = ("index", "roiid", "roivalue", "value", "labelvalue", "label", "id", "number", "roi")
NAME = (
    "roiname",
    "name",
    "labelname",
    "region",
    "regionname",
    "structure",
    "fullname",
    "description",
    "label",
)
LINE = re.compile(
    r"\s*(?P<number>\d+)[\s,;]+\"?(?P<name>[^\s,;\"]+)\"?.*"
)  # FreeSurfer, SPM and nilearn: 17 Left-Hippocampus
LARGEST = 1 << 24  # bytes of a table of labels


@dataclass(frozen=True, eq=False)
class Grid:
    """Shape and affine of an image."""

    shape: tuple[int, ...]
    affine: np.ndarray

    def same(self, other: Grid) -> bool:
        """Whether voxels are in the same places."""
        return self.shape == other.shape and bool(np.allclose(self.affine, other.affine, atol=SAME_GRID))

    @property
    def voxel(self) -> float:
        """Volume of a voxel in mm^3."""
        return float(abs(np.linalg.det(self.affine[:3, :3])))


@dataclass(frozen=True, eq=False)
class Atlas:
    """An atlas.

    Attributes
    ----------
    labels : array of int, shape (x, y, z)
        Places in `names`, counted from 1; 0 is outside.
    grid : Grid
    names : list of str
    digest : str
        Hash of image and names.
    """

    labels: np.ndarray
    grid: Grid
    names: list[str]
    digest: str

    def volumes(self) -> np.ndarray:
        """Volume of each region in mm^3."""
        counts = np.bincount(self.labels.ravel(), minlength=len(self.names) + 1)[1:]
        return np.asarray(counts * self.grid.voxel)

    def on(self, grid: Grid) -> np.ndarray:
        """Labels of the voxels of another grid: those of the nearest voxel, 0 outside of the atlas."""
        if self.grid.same(grid):
            return self.labels
        to = np.linalg.inv(self.grid.affine) @ grid.affine
        found = np.zeros(grid.shape, dtype=self.labels.dtype)
        i, j = np.indices(grid.shape[:2])
        for k in range(grid.shape[2]):  # one slice at a time
            at = np.rint(np.einsum("ab,bij->aij", to, np.stack([i, j, np.full_like(i, k), np.ones_like(i)])))[
                :3
            ]
            inside = np.all([(at[d] >= 0) & (at[d] < self.labels.shape[d]) for d in range(3)], axis=0)
            x, y, z = at[:, inside].astype(np.intp)
            found[:, :, k][inside] = self.labels[x, y, z]
        return found


def atlas_of(image: Path, table: Path | None) -> Atlas:
    """An atlas and the names of its regions, in the order of their numbers."""
    values, grid = load_image(image)
    whole = np.rint(values)
    if not np.allclose(values, whole, atol=1e-4, equal_nan=False) or whole.min() < 0:
        raise StudyError(
            f"{image.name}: is no label atlas: it has values that are no whole numbers from 0 on."
        )
    numbers = np.unique(whole[whole > 0]).astype(np.int64)
    if not 0 < len(numbers) <= MOST_REGIONS:
        raise StudyError(f"{image.name}: is no label atlas: it has {len(numbers)} regions.")
    names = _names(numbers, table)
    kept = [number for number in numbers.tolist() if number in names]
    places = np.zeros(int(numbers[-1]) + 1 if numbers[-1] < 1 << 26 else 0, dtype=np.int32)
    if not len(places):
        raise StudyError(f"{image.name}: is no label atlas: it has a region with a very large number.")
    places[kept] = np.arange(1, len(kept) + 1)
    digest = hashlib.sha256(image.read_bytes() + repr([names[one] for one in kept]).encode()).hexdigest()
    return Atlas(places[whole.astype(np.int64)], grid, [names[one] for one in kept], digest)


def load_image(path: Path) -> tuple[np.ndarray, Grid]:
    """Values of a three-dimensional image in the nearest canonical orientation (RAS), and its grid.

    Raises
    ------
    StudyError
        For what is no such image, or has no orientation.
    """
    check_readable(path)
    try:
        nibabel: Any = import_module("nibabel")
    except ImportError:
        raise MissingPackageError("Images need nibabel: pip install viewloom[images]") from None
    try:
        with _silent():
            image: Any = nibabel.load(path)
            _check_header(image, path)
            image = nibabel.as_closest_canonical(image)
            values = np.asarray(image.get_fdata(caching="unchanged"), dtype=np.float64)
    except StudyError:
        raise
    except Exception as error:  # damaged files fail in many ways
        kind = type(error).__name__
        raise StudyError(
            f"{path.name}: cannot be read as NIfTI ({kind}); it may be damaged or cut off."
        ) from None
    values = values.reshape(values.shape[:3])
    return values, Grid(values.shape, np.asarray(image.affine, dtype=np.float64))


@contextmanager
def _silent() -> Iterator[None]:
    """Without the remarks of nibabel and numpy on headers, which are checked here."""
    logger = logging.getLogger("nibabel.global")
    before, logger.disabled = logger.disabled, True
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.disabled = before


def _check_header(image: Any, path: Path) -> None:
    shape = tuple(image.shape)
    if len(shape) < 3 or any(extent != 1 for extent in shape[3:]) or 0 in shape:
        raise StudyError(
            f"{path.name}: has shape {' x '.join(map(str, shape))}; one three-dimensional map is needed."
        )
    if np.prod(shape, dtype=float) > MOST_VOXELS:
        raise StudyError(f"{path.name}: has more than {MOST_VOXELS} voxels.")
    header = image.header
    codes = [int(header[key]) for key in ("sform_code", "qform_code") if key in header.keys()]  # noqa: SIM118
    if not any(codes):
        raise StudyError(f"{path.name}: has no orientation (sform and qform are not set); write it with one.")
    affine = np.asarray(image.affine, dtype=float)
    if not np.isfinite(affine).all() or abs(np.linalg.det(affine[:3, :3])) < 1e-9:
        raise StudyError(f"{path.name}: has an affine that cannot be inverted.")


def _names(numbers: np.ndarray, table: Path | None) -> dict[int, str]:
    """Names of regions by number; regions that the table lacks are left out."""
    if table is None:
        return {int(number): f"region_{number}" for number in numbers}
    known = labels_of(table)
    found = {int(number): known[int(number)] for number in numbers if int(number) in known}
    if not found:
        raise StudyError(f"{table.name}: none of its numbers is in the atlas; is it the table of this atlas?")
    twice = {name for name in found.values() if list(found.values()).count(name) > 1}
    return {number: f"{name}_{number}" if name in twice else name for number, name in found.items()}


def labels_of(path: Path) -> dict[int, str]:
    """Names of regions by number, from a table with a header, or from lines of number and name."""
    check_readable(path)
    if path.stat().st_size > LARGEST:
        raise StudyError(f"{path.name}: is too large for a table of labels.")
    found = _from_table(path) or (_from_lines(path) if kind_of(path) is None else {})
    if not found:
        raise StudyError(f"{path.name}: no numbers and names of regions, such as columns index and name.")
    return found


def _from_table(path: Path) -> dict[int, str]:
    try:
        file = open_table(path)
        by_fold = {folded(name): name for name in reversed(file.header)}
        number = next((by_fold[key] for key in NUMBER if key in by_fold), None)
        name = next((by_fold[key] for key in NAME if key in by_fold and by_fold[key] != number), None)
        if number is None or name is None:
            return {}
        raw = file.load(None)
        numbers, names = frames.as_numbers(raw[number]), frames.as_text(raw[name])
    except StudyError:
        return {}
    both = [(one, text) for one, text in zip(numbers, names, strict=True) if one == one and text == text]
    return {int(one): str(text) for one, text in both if one % 1 == 0 and 0 < one < 1 << 31}


def _from_lines(path: Path) -> dict[int, str]:
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    found = [match for line in lines if not line.startswith("#") and (match := LINE.fullmatch(line))]
    return {
        int(match["number"]): match["name"]
        for match in found
        if len(match["number"]) < 10 and int(match["number"])
    }
