"""Tables and numbers of a run, and functions that write them."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from viewloom.clinical import shown_counts
from viewloom.clinical.release import plain_number, released, rounded
from viewloom.data.views import Views
from viewloom.evaluation.comparison import SCORES
from viewloom.study.followup import Followup
from viewloom.study.report.design import role_sizes, shown_severity
from viewloom.study.report.disclosed import Disclosed, disclosed
from viewloom.study.report.presence import view_sizes
from viewloom.study.report.privacy import shown_sizes
from viewloom.study.results import Results

Array = np.ndarray
# characters that start a formula in spreadsheets, and their full-width forms
FORMULA = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
DIGITS = 10  # significant digits of numbers
LONGEST = 150  # bytes of a view's name in the name of a file


def subject_table(views: Views, memberships: Array, names: Sequence[str], **columns: Any) -> pd.DataFrame:
    """One row per subject: id, label, cluster, memberships, confidence, further columns and its views.

    The label counts clusters from 0, as in arrays; the cluster is its name, for people. Confidence is the
    difference of the two largest memberships: 0 is ambiguous, 1 is certain.
    """
    ids = list(range(len(views))) if views.ids is None else views.ids.tolist()
    labels = memberships.argmax(axis=1)
    table = pd.DataFrame({"id": ids, "label": labels, "cluster": [names[j] for j in labels]})
    for cluster in range(memberships.shape[1]):
        table[f"membership_{cluster}"] = memberships[:, cluster]
    ordered = np.sort(memberships, axis=1)
    table["confidence"] = ordered[:, -1] - (ordered[:, -2] if ordered.shape[1] > 1 else 0.0)
    view_names = np.array(views.names, dtype=object)
    seen = ["; ".join(view_names[has]) for has in views.present]
    return table.assign(**columns, views_seen=seen)


def labels_table(results: Results) -> pd.DataFrame:
    """Clusters of the subjects; stability is the share of refits on subsamples that agree with them."""
    stability = results.stability.subjects.to_numpy()
    return subject_table(
        results.views, results.model.memberships_, results.cluster_names, stability=stability
    )


def followup_table(followup: Followup) -> pd.DataFrame:
    """Clusters at all visits, one row per subject and visit at which it was seen."""
    labels = followup.labels.reset_index(names="id").melt("id", var_name="visit", value_name="label")
    return labels.dropna().astype({"label": int})


def weights_table(results: Results) -> pd.DataFrame:
    """Weight, number of subjects and number of features of each view; for the owner of the data."""
    return pd.DataFrame(
        {
            "view": results.views.names,
            "weight": results.model.view_weights_,
            "subjects": results.views.present.sum(axis=0),
            "features": results.views.n_features,
        }
    )


def shared_weights(results: Results) -> pd.DataFrame:
    """`weights_table` as it may be shared: numbers of subjects are rounded where views are rarely missing."""
    sizes = [plain_number(size) for size in view_sizes(results)]
    weights = released(results.model.view_weights_)
    return weights_table(results).assign(weight=weights, subjects=sizes)


def metrics(results: Results) -> dict[str, Any]:
    """Numbers of a run as they may be shared, without times: the same inputs and seed give the same file.

    Small counts, and those from which they could be derived, are text (``"<11"``); other numbers have three
    digits.
    """
    model, stability, found = results.model, results.stability, disclosed(results)
    content = {
        "subjects": len(results.views),
        "clusters": model.n_clusters,
        "cluster_names": results.cluster_names,
        "cluster_sizes": [plain_number(size) for size in found.shown_sizes],
        "cluster_stability": results.cluster_stability.where(~found.secret).tolist(),
        "stability": stability.overall,
        "view_weights": dict(zip(results.views.names, model.view_weights_.tolist(), strict=True)),
        "objective": model.objective_,
        "iterations": model.n_iter_,
        "converged": model.converged_,
        "agreement_with_diagnosis": found.scores,
        "comparison": _scores(found),
        "left_out_sites": _sites(results),
        "recommended_clusters": None if results.numbers is None else results.numbers.recommended,
        "evidence": _evidence(results),
        "design": _design(results, found),
    }
    return dict(released(content))


def _evidence(results: Results) -> dict[str, Any] | None:
    """The verdict on the clusters, and the numbers of the data and of twins; None without a comparison."""
    found = results.evidence
    if found is None:
        return None
    return {
        "verdict": found.verdict,
        "twins": found.n_twins,
        "gap": found.gap,
        **{str(name): row for name, row in found.table.T.to_dict().items()},
    }


def _design(results: Results, told: Disclosed) -> dict[str, Any] | None:
    """Who was clustered, where controls fall, and eta squared of severity."""
    found = results.design
    if found is None:
        return None
    again, min_cell = found.with_controls, results.min_cell
    placed = None if found.controls is None else shown_sizes(found.controls.sizes, min_cell)
    return {
        "groups": None if found.groups is None else _groups(found.groups, min_cell),
        "controls_placed": None if placed is None else [plain_number(size) for size in placed],
        "with_controls_ARI": None if again is None else again.ari,
        "severity": {**shown_severity(found.severity, told.precision), "features": found.severity.features},
    }


def _groups(groups: pd.DataFrame, min_cell: int) -> dict[str, dict[str, Any]]:
    """Subjects by role and diagnosis."""
    return {
        str(role): dict(zip(groups.index, map(plain_number, role_sizes(groups[role], min_cell)), strict=True))
        for role in groups.columns
    }


def _sites(results: Results) -> list[dict[str, Any]] | None:
    """Numbers of each site that is left out; None if none is."""
    found = results.left_out_sites
    if found is None:
        return None
    counts = shown_counts(pd.DataFrame(found.counts), results.min_cell).map(plain_number).to_numpy()
    hides = np.array([[isinstance(count, str) for count in row] for row in counts])
    return [
        {
            "site": site,
            "subjects": int(found.sizes[i]),
            "agreement": float(found.agreement[i]),
            "cluster_sizes": counts[i].tolist(),
            "refit_agreement": float(found.refit[i]),
            "refit_overlap": np.where(hides[i], np.nan, found.overlap[i]).tolist(),
        }
        for i, site in enumerate(found.sites)
    ]


def _scores(found: Disclosed) -> dict[str, dict[str, float]] | None:
    if found.comparison is None:
        return None
    return {
        str(name): {score: rounded(row[score], found.score_decimals[str(name)]) for score in SCORES}
        for name, row in found.comparison.table.iterrows()
    }


def write_csv(table: pd.DataFrame, path: Path) -> None:
    """Write a table; text that a spreadsheet would evaluate is prefixed by an apostrophe."""
    text = [name for name in table if table[name].dtype.kind not in "biuf"]
    inert = table.assign(**{str(name): table[name].map(inert_text) for name in text})
    inert.columns = [inert_text(name) for name in inert.columns]
    inert.to_csv(path, index=False, float_format=f"%.{DIGITS}g", lineterminator="\n", encoding="utf-8")


def inert_text(value: Any) -> Any:
    """Text on one line that spreadsheets do not evaluate as a formula.

    >>> inert_text("=1+1"), inert_text("age")
    ("'=1+1", 'age')
    """
    if not isinstance(value, str):
        return value
    return "'" * value.startswith(FORMULA) + value.replace("\r", " ").replace("\n", " ")


def write_json(content: Any, path: Path) -> None:
    """Write indented JSON."""
    path.write_text(json.dumps(plain(content), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def plain(value: Any) -> Any:
    """Numbers, text, lists and dicts for JSON; numbers that are not finite become null.

    >>> plain({"a": np.float64(1 / 3), 2: (np.nan, np.int64(4))})
    {'a': 0.3333333333, '2': [None, 4]}
    """
    if isinstance(value, dict):
        return {str(name): plain(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(inner) for inner in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    return value


def file_names(names: Sequence[str]) -> list[str]:
    """Names of views as parts of file names: without special characters, and unique on any file system.

    >>> file_names(["mri", "../MRI", "a/b"])
    ['mri', 'MRI_2', 'a_b']
    """
    taken: list[str] = []
    for name in names:
        stem = re.sub(r"[^\w+-]+", "_", unicodedata.normalize("NFC", name)).strip("_")
        stem = stem.encode()[:LONGEST].decode(errors="ignore") or "view"
        unique, number = stem, 1
        while unique.casefold() in (other.casefold() for other in taken):
            number += 1
            unique = f"{stem}_{number}"
        taken.append(unique)
    return taken
