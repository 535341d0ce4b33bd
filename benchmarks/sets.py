"""What is clustered: files of real views with known classes or survival, and simulated cohorts.

A file is an `.npz` of `view0`, `view1`, ..., with `y` (classes, -1 where unknown) or `time` and `event`.
"""

from __future__ import annotations

import os
import re
import tomllib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import viewloom as vl

Array = np.ndarray
HERE = Path(__file__).resolve().parent
DEFAULT_FOLDER = HERE.parents[1] / "shared" / "data"
COHORTS = "cohorts"  # the folder of patient cohorts, inside that of the sets
VIEW = re.compile(r"view\d+")
GROUPS = ("sets", "cohorts", "simulated")
HALVES = ("development", "confirmation", "all")
UNKNOWN = -1

# Clusters of cohorts without classes: uveal melanoma has four molecular ones (Robertson et al. 2017).
N_CLUSTERS = {"uvm80": 4}

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
class Truth:
    """What labels are scored against; nothing of it reaches a method but the number of classes."""

    y: Array  # codes of classes, -1 where unknown
    time: Array | None = None  # survival, NaN where unknown
    event: Array | None = None
    stage: Array | None = None  # of simulated patients

    @property
    def n_classes(self) -> int:
        """How many classes are known, 0 where there are none."""
        return int(self.y.max(initial=UNKNOWN)) + 1


@dataclass(frozen=True)
class File:
    """Views in a file. Those of patient cohorts may have missing values, which become medians."""

    path: Path
    patients: bool = False

    signal_view = None  # nobody knows

    def views(self) -> list[Array]:
        """The views, in float64."""
        with np.load(self.path) as content:
            views = [content[name].astype(np.float64) for name in _view_names(content)]
        return [filled(X) for X in views] if self.patients else views

    def truth(self) -> Truth:
        """Classes and survival, as far as they are there."""
        with np.load(self.path) as content:
            n = len(content[_view_names(content)[0]])
            y = _codes(content["y"]) if "y" in content.files else np.full(n, UNKNOWN)
            survival = [content[name].astype(float) for name in ("time", "event") if "time" in content.files]
        return Truth(y, *survival)

    @property
    def is_kernel(self) -> bool:
        """Whether the views are Gram matrices, which the name says."""
        return self.path.stem.startswith("kernel_")


@dataclass(frozen=True)
class Simulated:
    """A simulated cohort: everybody, or the patients only, whose atrophy subtypes are then the classes."""

    seed: int
    patients_only: bool
    adjusted: bool  # age and sex regressed out of the imaging views, by what controls show

    is_kernel = False
    signal_view = 2  # FDG; SNPs, the widest, are close to noise

    def views(self) -> list[Array]:
        """The views of those who take part."""
        cohort = _cohort(self.seed)
        blocks = {name: np.asarray(cohort.views[name]) for name in cohort.views.names}
        if self.adjusted:
            healthy = cohort.truth.y == 0
            covariates = _covariates(cohort.participants)
            blocks = {
                name: X if name == "snp" else regressed(X, covariates, healthy) for name, X in blocks.items()
            }
        return [X[self._rows()] for X in blocks.values()]

    def truth(self) -> Truth:
        """Diagnoses and stage of everybody, or subtypes of patients."""
        truth, rows = _cohort(self.seed).truth, self._rows()
        if self.patients_only:
            return Truth(_codes(truth.subtype[rows]))
        return Truth(truth.y, stage=truth.stage)

    def _rows(self) -> Array:
        course = _cohort(self.seed).truth.course
        return np.isin(course, ["prodromal", "dementia"]) | (not self.patients_only)


Source = File | Simulated


@dataclass(frozen=True)
class BenchSet:
    """A data set by name, and what may be known of it without its classes but their number."""

    group: str
    name: str
    block: str  # sets of one kind within a group, whose scores are averaged
    source: Source
    n_samples: int
    n_views: int
    n_clusters: int

    @property
    def is_kernel(self) -> bool:
        """Whether the views are Gram matrices."""
        return self.source.is_kernel

    @property
    def unit(self) -> str:
        """Sets that share their samples are one unit: those of one simulated cohort."""
        return f"seed {self.source.seed}" if isinstance(self.source, Simulated) else self.name


@lru_cache(maxsize=2)
def read_views(source: Source) -> list[Array]:
    """The views of a set. The classes stay where they are."""
    return source.views()


@lru_cache(maxsize=64)
def read_truth(source: Source) -> Truth:
    """What the set is scored against."""
    return source.truth()


def default_folder() -> Path:
    """Where the sets lie unless said otherwise: `VIEWLOOM_DATA`, or beside the checkout."""
    return Path(os.environ.get("VIEWLOOM_DATA", DEFAULT_FOLDER))


def halves(path: Path = HERE / "halves.toml") -> dict[str, dict[str, list[Any]]]:
    """Names or seeds of each half of each group."""
    with path.open("rb") as file:
        return tomllib.load(file)


def members(group: str, half: str) -> list[Any]:
    """Names or seeds of one half of a group, or of both."""
    listed = halves()[group]
    return [*listed["development"], *listed["confirmation"]] if half == "all" else listed[half]


def find_sets(
    folder: Path, groups: list[str], half: str = "all", names: list[str] | None = None
) -> tuple[list[BenchSet], list[str]]:
    """Sets of the groups and half asked for, and names of files that have another form.

    Files that no half lists belong to "all" only. Groups whose folder is absent are left out.
    """
    found: list[BenchSet] = []
    others: list[str] = []
    for group in groups:
        if group == "simulated":
            found += [described(group, *task) for seed in members(group, half) for task in _of_seed(seed)]
        else:
            paths = _paths(folder if group == "sets" else folder / COHORTS, group, half)
            others += [path.stem for path in paths if not _has_form(path)]
            found += [
                described(group, path.stem, group, File(path, patients=group == "cohorts"))
                for path in paths
                if _has_form(path)
            ]
    if unknown := sorted(set(names or ()) - {one.name for one in found}):
        raise ValueError(f"No set is called {', '.join(unknown)} in the {half} half of {', '.join(groups)}.")
    return [one for one in found if not names or one.name in names], others


def _paths(folder: Path, group: str, half: str) -> list[Path]:
    paths = sorted(folder.glob("*.npz"))
    return paths if half == "all" else [path for path in paths if path.stem in members(group, half)]


def _of_seed(seed: int) -> list[tuple[str, str, Simulated]]:
    """Diagnosis and subtypes of one simulated cohort, with covariates regressed out and raw."""
    return [
        (f"{kind} {how} {seed}", f"{kind} {how}", Simulated(seed, kind == "subtypes", how == "adjusted"))
        for kind in ("diagnosis", "subtypes")
        for how in ("adjusted", "raw")
    ]


def described(group: str, name: str, block: str, source: Source) -> BenchSet:
    """A set with its size."""
    truth = source.truth()
    if isinstance(source, File):
        with np.load(source.path) as content:
            n_views = len(_view_names(content))
    else:
        n_views = len(_cohort(source.seed).views.names)
    k = truth.n_classes or N_CLUSTERS.get(name, 3)
    return BenchSet(group, name, block, source, len(truth.y), n_views, k)


def filled(X: Array) -> Array:
    """Missing values become medians, constant features go; rows of NaN, which lack the view, stay."""
    X = X.copy()
    seen = ~np.isnan(X).all(axis=1)
    part = pd.DataFrame(X[seen])
    X[seen] = part.fillna(part.median()).fillna(0.0).to_numpy()
    return X[:, X[seen].std(axis=0) > 0.0]


def regressed(X: Array, covariates: Array, healthy: Array) -> Array:
    """Residuals of the views after a linear model of the covariates, fitted to controls (n x p)."""
    design = np.column_stack([np.ones(len(X)), covariates])
    coefficients = np.linalg.lstsq(design[healthy], X[healthy], rcond=None)[0]
    return np.asarray(X - design @ coefficients)


def _covariates(participants: pd.DataFrame) -> Array:
    sex = participants["sex"] == participants["sex"].iloc[0]
    return np.column_stack([participants["age"].to_numpy(float), sex.to_numpy(float)])


@lru_cache(maxsize=4)
def _cohort(seed: int) -> Any:
    return vl.simulate.adni_like(random_state=seed)


def _view_names(content: Any) -> list[str]:
    return sorted(filter(VIEW.fullmatch, content.files), key=lambda name: int(name[4:]))


def _codes(y: Array) -> Array:
    """Classes as 0, 1, ...; -1 and NaN are unknown."""
    known = ~np.isin(np.asarray(y).astype(str), ["-1", "-1.0", "nan"])
    codes = np.full(len(y), UNKNOWN)
    codes[known] = np.unique(np.asarray(y)[known], return_inverse=True)[1]
    return codes


def _has_form(path: Path) -> bool:
    with np.load(path) as content:
        has_truth = "y" in content.files or "time" in content.files
        return has_truth and any(map(VIEW.fullmatch, content.files))
