"""Tests of clinical variables, including the site, between clusters."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from viewloom.clinical.findings import COMPARED, COMPARED_PAIRS, holm, p_text
from viewloom.clinical.variables import Variable, clusters_of, variable_of, variables_of
from viewloom.data.matching import row_index
from viewloom.runtime.errors import InputError

Array = np.ndarray
STRONG_SITE = 0.2  # Cramer's V above which `site_warning` warns


def associations(
    labels: Any, participants: pd.DataFrame, *, categorical: Iterable[str] = (), alpha: float = 0.05
) -> pd.DataFrame:
    """Test which clinical variables differ between clusters.

    Numeric variables are compared by the Kruskal-Wallis test; categorical variables, and numbers with two
    values, by the chi-square test, or by Fisher's exact test if expected counts are small (with 9999 random
    tables of the same margins for tables larger than 2 x 2).

    Parameters
    ----------
    labels : (n,) array
        Cluster of each subject.
    participants : DataFrame
        One row per subject, in the same order.
    categorical : iterable of str
        Columns that contain codes rather than numbers, such as the site.
    alpha : float, default=0.05
        Threshold on ``q`` for ``significant``.

    Returns
    -------
    DataFrame
        One row per variable, in the order of the columns: ``variable``, ``kind``, ``test``, ``statistic`` (H,
        chi-square, or the odds ratio of a 2 x 2 table), ``p``, ``q`` (Benjamini-Hochberg), ``effect``
        (epsilon squared for numbers, bias-corrected Cramer's V for categories; 0 to 1), ``n``, ``missing``,
        ``significant``. ``attrs["skipped"]`` maps columns that were left out to the reason.

    Examples
    --------
    >>> people = pd.DataFrame({"mmse": [29, 30, 28, 21, 22, 20], "sex": list("FMFMFM"), "id": list("abcdef")})
    >>> table = associations([0, 0, 0, 1, 1, 1], people)
    >>> table[["variable", "test", "p"]].round(3).to_numpy().tolist()
    [['mmse', 'Kruskal-Wallis', 0.05], ['sex', 'Fisher exact', 1.0]]
    >>> table.attrs["skipped"]
    {'id': 'all values differ'}
    """
    clusters, codes = clusters_of(labels, len(participants), participants.index)
    rows, skipped = [], {}
    for variable, reason in variables_of(participants, categorical):
        groups = _groups(codes, variable, len(clusters))
        if reason is None and len(groups) < 2:
            reason = "values in one cluster only"
        if reason is not None:
            skipped[variable.name] = reason
            continue
        counts = {"n": int(variable.known.sum()), "missing": int((~variable.known).sum())}
        found = vars(COMPARED[variable.kind](groups))
        rows.append({"variable": variable.name, "kind": variable.kind, **found, **counts})
    columns = ["variable", "kind", "test", "statistic", "p", "q", "effect", "n", "missing", "significant"]
    table = pd.DataFrame(rows, columns=pd.Index(columns))
    table["q"] = stats.false_discovery_control(table["p"].astype(float)) if rows else table["p"]
    table["significant"] = table["q"] < alpha
    table.attrs["skipped"] = skipped
    return table


def pairwise(labels: Any, values: Any, *, categorical: bool = False) -> pd.DataFrame:
    """Test which pairs of clusters differ in a variable.

    Parameters
    ----------
    labels : (n,) array
    values : (n,) array or Series
    categorical : bool, default=False
        Whether numbers are codes.

    Returns
    -------
    DataFrame
        One row per pair: ``cluster``, ``other``, ``test``, ``statistic``, ``p``, ``p_holm``, ``effect``
        (Cliff's delta, positive if the first is larger; Cramer's V for categories), ``n``, ``n_other``.

    Examples
    --------
    >>> table = pairwise([0, 0, 0, 1, 1, 1, 2, 2, 2], [1, 2, 3, 11, 12, 13, 4, 5, 6])
    >>> table[["cluster", "other", "p", "p_holm", "effect"]].round(2).to_numpy().tolist()
    [[0.0, 1.0, 0.1, 0.3, -1.0], [0.0, 2.0, 0.1, 0.3, -1.0], [1.0, 2.0, 0.1, 0.3, 1.0]]
    """
    column = pd.Series(values).reset_index(drop=True)
    clusters, codes = clusters_of(labels, len(column), row_index(values))
    variable = variable_of("values", column, categorical)
    rows = []
    for i, j in combinations(range(len(clusters)), 2):
        first, second = (variable.data[(codes == code) & variable.known] for code in (i, j))
        if len(first) and len(second):
            found = vars(COMPARED_PAIRS[variable.kind]([first, second]))
            counts = {"n": len(first), "n_other": len(second)}
            rows.append({"cluster": clusters[i], "other": clusters[j], **found, **counts})
    columns = ["cluster", "other", "test", "statistic", "p", "p_holm", "effect", "n", "n_other"]
    table = pd.DataFrame(rows, columns=pd.Index(columns))
    table["p_holm"] = holm(table["p"].to_numpy(dtype=float))
    return table


def site_warning(table: pd.DataFrame, site_columns: Iterable[str]) -> str | None:
    """A warning if clusters are associated with the site or scanner, else None.

    Parameters
    ----------
    table : DataFrame of `associations`
    site_columns : iterable of str
        Columns that were passed as `categorical` to `associations`. Columns that are not in the table are
        ignored.

    Returns
    -------
    str or None
    """
    rows = table[table["variable"].isin(list(site_columns))]
    numeric = rows.loc[rows["kind"] == "numeric", "variable"]
    if len(numeric):
        raise InputError(
            f"{numeric.iloc[0]!r} was treated as numeric; pass it as categorical to associations."
        )
    strong = rows[(rows["q"] < 0.05) & (rows["effect"] > STRONG_SITE)]
    if strong.empty:
        return None
    found = zip(strong["variable"], strong["effect"], strong["q"], strict=True)
    named = [f"{name} (Cramer's V {effect:.2f}, {p_text(q, 'q')})" for name, effect, q in found]
    return (
        f"Clusters follow {' and '.join(named)}: they may reflect where or how subjects were measured "
        "rather than disease. Harmonise the sites, or check that the clusters hold within each."
    )


def _groups(codes: Array, variable: Variable, k: int) -> list[Array]:
    """Known values of each cluster, without empty clusters."""
    groups = [variable.data[(codes == i) & variable.known] for i in range(k)]
    return [group for group in groups if len(group)]
