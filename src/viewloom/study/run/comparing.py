"""Two runs side by side: settings that differ, and the clusters of the subjects they have in common."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from sklearn.metrics import adjusted_rand_score

from viewloom.runtime.visible import visible
from viewloom.study.errors import StudyError, check_kind
from viewloom.study.run.run_folder import LABELS, damaged
from viewloom.study.run.staging import RUN

LARGEST = 1 << 28  # bytes of a table of labels


@dataclass(frozen=True, eq=False)
class RunComparison:
    """Two runs side by side.

    Attributes
    ----------
    settings : list of (str, object, object)
        Settings that differ: key, and the value in each run; None where it is not set.
    ari : float or None
        Adjusted Rand index of the subjects in common; None if there are fewer than two.
    table : DataFrame
        Number of these subjects by cluster of the first run (rows) and of the second (columns).
    subjects : tuple of int
        Subjects of the first run, of the second, and in common.
    """

    settings: list[tuple[str, Any, Any]]
    ari: float | None
    table: pd.DataFrame
    subjects: tuple[int, int, int]


def compare_runs(first: str | os.PathLike[str], second: str | os.PathLike[str]) -> RunComparison:
    r"""Compare two runs; subjects are matched by id.

    Parameters
    ----------
    first, second : path
        Run folders.

    Examples
    --------
    >>> import tempfile
    >>> import viewloom as vl
    >>> from viewloom import runs, study
    >>> folder = Path(tempfile.mkdtemp())
    >>> views, _ = vl.simulate.blobs_views(60, n_views=2, random_state=0)
    >>> for name, X in views.items():
    ...     pd.DataFrame(X).rename_axis("id").add_prefix("x").to_csv(folder / f"{name}.csv")
    >>> text = "[report]\ntwins = 0\n"
    >>> text += "".join(f'[views.{name}]\npath = "{name}.csv"\nid = "id"\n' for name in views.names)
    >>> for k in (2, 3):
    ...     _ = (folder / "study.toml").write_text(text + f'[model]\nkernel = "linear"\nn_clusters = {k}\n')
    ...     _ = runs.run_study(study.read_study(folder / "study.toml"), folder / f"run{k}")
    >>> found = compare_runs(folder / "run2", folder / "run3")
    >>> found.settings, found.subjects
    ([('model.n_clusters', 2, 3)], (60, 60, 60))
    """
    one, other = (_about(Path(folder)) for folder in (first, second))
    a, b = (_labels(Path(folder)) for folder in (first, second))
    both = pd.concat([a, b], axis=1, join="inner", keys=["first", "second"])
    ari = float(adjusted_rand_score(both["first"], both["second"])) if len(both) > 1 else None
    table = pd.crosstab(both["first"], both["second"]) if len(both) else pd.DataFrame()
    return RunComparison(_differences(one, other), ari, table, (len(a), len(b), len(both)))


def _about(folder: Path) -> dict[str, Any]:
    """The settings of a run, with dotted keys."""
    check_kind(folder / RUN)
    if not (folder / RUN).is_file():
        raise StudyError(f"{visible(folder)}: not a run folder, since it has no {RUN}.")
    with damaged(folder):
        about = json.loads((folder / RUN).read_text(encoding="utf-8"))
        inputs = {f"file {name}": digest[:12] for name, digest in about.get("inputs", {}).items()}
        return {**_flat(about["settings"]), **inputs, "viewloom": about["versions"].get("viewloom")}


def _flat(settings: dict[str, Any], before: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in settings.items():
        found |= _flat(value, f"{before}{key}.") if isinstance(value, dict) else {f"{before}{key}": value}
    return found


def _differences(one: dict[str, Any], other: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    keys = dict.fromkeys([*one, *other])
    return [(key, one.get(key), other.get(key)) for key in keys if one.get(key) != other.get(key)]


def _labels(folder: Path) -> pd.Series:
    """Names of clusters by id."""
    path = folder / LABELS
    check_kind(path)
    if not path.is_file() or path.stat().st_size > LARGEST:
        raise StudyError(f"{visible(folder)}: has no readable {LABELS}.")
    with damaged(folder):
        frame = pd.read_csv(path, usecols=["id", "cluster"], dtype=str, keep_default_na=False)
        return frame.set_index("id")["cluster"]
