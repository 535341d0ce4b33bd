"""Clinical variables of clusters as aggregates that may be shared, and their comparison between cohorts.

They are stored with a run, so that a second cohort can be compared without the data of the first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from viewloom.clinical import Known, associations, described
from viewloom.clinical.findings import holm
from viewloom.data.views import Views
from viewloom.study.results import Roles

Array = np.ndarray
MEAN = "mean (SD)"  # row of a numeric variable in `described`
MOST_LEVELS = 30  # categories of a variable that is described
SAME = 0.5  # correlation of deviations from which two cohorts have the same direction
ALPHA = 0.05


def clinical_numbers(
    labels: Array,
    participants: pd.DataFrame | None,
    roles: Roles,
    min_cell: int,
    n_clusters: int,
    views: Views | None = None,
) -> dict[str, Any]:
    """Associations of clinical variables with clusters, and how far clusters deviate from all subjects.

    Parameters
    ----------
    labels : (n,) array of int
    participants : DataFrame or None
    roles : Roles
    min_cell, n_clusters : int
    views : Views, optional
        The views that were clustered, to mark variables that were used for clustering.

    Returns
    -------
    dict
        ``associations``: one dict per variable with ``variable``, ``kind``, ``test``, ``effect``, ``p``,
        ``q`` and ``note``; p and q are NaN for variables that were used for clustering. ``deviations``: by
        variable and value, one number per cluster, None where it is unknown or small counts hide it: the
        difference of means in standard deviations, or the difference of shares.
    """
    people, codes, few = clinical_variables(participants, roles, len(labels))
    compared = associations(labels, people, categorical=codes, views=views)
    columns = ["variable", "kind", "test", "effect", "p", "q", "note"]
    table = described(labels, people[few], categorical=codes, min_cell=min_cell)
    return {
        "associations": compared[columns].to_dict("records"),
        "deviations": deviations(table, n_clusters),
    }


def clinical_variables(
    participants: pd.DataFrame | None, roles: Roles, n: int
) -> tuple[pd.DataFrame, list[str], list[str]]:
    """Clinical variables without the site, those of them that are codes, and those that are described."""
    names = dict.fromkeys([roles.diagnosis, *roles.outcomes, *roles.covariates])
    if participants is None:
        return pd.DataFrame(index=range(n)), [], []
    chosen = [name for name in names if name is not None and name in participants]
    codes = [name for name in chosen if name == roles.diagnosis]
    few = [name for name in chosen if not _has_many_levels(participants[name], name in codes)]
    return participants[chosen], codes, few


def _has_many_levels(column: pd.Series, is_code: bool) -> bool:
    is_text = is_code or not pd.api.types.is_numeric_dtype(column)
    return is_text and column.nunique() > MOST_LEVELS


def deviations(table: pd.DataFrame, n_clusters: int) -> dict[str, dict[str, list[float | None]]]:
    """Deviations of clusters from all subjects, from a table of `described`."""
    found: dict[str, dict[str, list[float | None]]] = {}
    for variable, value in table.index:
        row = table.loc[(variable, value)]
        if variable == "subjects" or value in ("median", "known", "(missing)"):
            continue
        cells = [row.get(str(j)) for j in range(n_clusters)]
        shifts = [_deviation(cell, row["all"], value == MEAN) for cell in cells]
        found.setdefault(str(variable), {})[str(value)] = shifts
    return found


def _deviation(cell: Any, everyone: Any, is_mean: bool) -> float | None:
    """The deviation of a cluster; that of means is computed from what is shown of them."""
    if not (isinstance(cell, Known) and isinstance(everyone, Known)):
        return None
    if is_mean:
        spread = 0.0 if everyone.spread is None else round(float(everyone.spread), everyone.decimals)
        return (cell.order - everyone.order) / spread if spread > 0.0 else None
    if cell.share is None or everyone.share is None:
        return None
    return cell.share - everyone.share


def confirmed(first: Mapping[str, Any] | None, second: Mapping[str, Any]) -> pd.DataFrame:
    """Clinical associations of both cohorts side by side, tested in the second one only.

    The variables that differ in the first cohort (q < 0.05) are tested in the second, with p-values
    corrected for their number by Holm's method; all variables if the first cohort is not known.

    Returns
    -------
    DataFrame
        One row per variable of the second cohort: ``variable``, ``kind``, ``first_effect``, ``first_q``,
        ``effect``, ``p``, ``p_holm`` (NaN where it is not tested), ``direction`` ("same", "opposite",
        "mixed" or "unknown") and ``confirmed`` ("yes", "no" or "not tested").
    """
    earlier = {row["variable"]: row for row in (first or {}).get("associations", [])}
    table = pd.DataFrame(second["associations"], columns=["variable", "kind", "effect", "p"])
    known = [earlier.get(name, {}) for name in table["variable"]]
    table["first_effect"] = [row.get("effect", np.nan) for row in known]
    table["first_q"] = [row.get("q", np.nan) for row in known]
    p = table["p"].to_numpy(dtype=float)
    tested = np.isfinite(p) & np.array(
        [first is None or (q is not None and q < ALPHA) for q in table["first_q"]], dtype=bool
    )
    adjusted = np.full(len(table), np.nan)
    adjusted[tested] = holm(p[tested])
    table["p_holm"] = adjusted
    before = (first or {}).get("deviations", {})
    table["direction"] = [
        direction(before.get(name, {}), second["deviations"].get(name, {})) for name in table["variable"]
    ]
    table["confirmed"] = [_confirmation(row, first is not None) for row in table.to_dict("records")]
    return table


def _confirmation(row: Mapping[Any, Any], both_known: bool) -> str:
    if np.isnan(row["p_holm"]):
        return "not tested"
    agrees = row["direction"] == "same" or not both_known
    return "yes" if row["p_holm"] < ALPHA and agrees else "no"


def direction(first: Mapping[str, list[Any]], second: Mapping[str, list[Any]]) -> str:
    """Whether clusters deviate in the same direction in both cohorts, by the uncentred correlation.

    >>> direction({"mean (SD)": [1.0, -1.0, None]}, {"mean (SD)": [0.5, -0.2, 0.1]})
    'same'
    >>> direction({"F": [0.1, -0.1]}, {"F": [-0.1, 0.1]}), direction({}, {})
    ('opposite', 'unknown')
    """
    pairs = [
        (one, other)
        for value in first
        for one, other in zip(first[value], second.get(value, []), strict=False)
        if one is not None and other is not None
    ]
    if not pairs:
        return "unknown"
    one, other = np.array(pairs, dtype=float).T
    scale = float(np.linalg.norm(one) * np.linalg.norm(other))
    r = float(one @ other) / scale if scale > 0.0 else 0.0
    return "same" if r >= SAME else "opposite" if r <= -SAME else "mixed"
