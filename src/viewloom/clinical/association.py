"""Which clinical variables, the site among them, differ between clusters."""

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
STRONG_SITE = 0.2  # Cramer's V from which a site is said to explain clusters


def associations(
    labels: Any, participants: pd.DataFrame, *, categorical: Iterable[str] = (), alpha: float = 0.05
) -> pd.DataFrame:
    """Which clinical variables differ between clusters.

    Numbers are compared by Kruskal-Wallis; categories, and numbers of two values, by chi-square, or by
    Fisher's exact test where expected counts are small (beyond 2 x 2 with 9999 random tables of the same
    margins).

    Parameters
    ----------
    labels : (n,) array
        Cluster of each subject.
    participants : DataFrame
        One row per subject, in the same order.
    categorical : iterable of str
        Columns that hold codes, not numbers, such as the site.
    alpha : float, default=0.05
        Bound on q for `significant`.

    Returns
    -------
    DataFrame
        A row per variable, in the order of the columns: ``variable``, ``kind``, ``test``, ``statistic`` (H,
        chi-square, or the odds ratio of a 2 x 2 table), ``p``, ``q`` (Benjamini-Hochberg), ``effect``
        (epsilon squared of numbers, bias-corrected Cramer's V of categories; 0 to 1), ``n``, ``missing``,
        ``significant``. Its ``attrs["skipped"]`` says which columns were left out, and why.

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
    """Which pairs of clusters differ in a variable.

    Parameters
    ----------
    labels : (n,) array
    values : (n,) array or Series
    categorical : bool, default=False
        Whether numbers are codes.

    Returns
    -------
    DataFrame
        A row per pair: ``cluster``, ``other``, ``test``, ``statistic``, ``p``, ``p_holm``, ``effect``
        (Cliff's delta, positive where the first is larger; Cramer's V of categories), ``n``, ``n_other``.

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
    """A sentence of warning where the site or scanner explains the clusters, else None.

    Parameters
    ----------
    table : DataFrame of `associations`
    site_columns : iterable of str
        To be listed as `categorical` there. Columns that the table does not have are passed over.
    """
    rows = table[table["variable"].isin(list(site_columns))]
    numeric = rows.loc[rows["kind"] == "numeric", "variable"]
    if len(numeric):
        raise InputError(
            f"{numeric.iloc[0]!r} was taken for a number; list it as categorical in associations."
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
    """Known values of each cluster that has any."""
    groups = [variable.data[(codes == i) & variable.known] for i in range(k)]
    return [group for group in groups if len(group)]
