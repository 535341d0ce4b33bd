"""Tests of clinical variables, including the site, between clusters."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from viewloom.clinical.findings import COMPARED, COMPARED_PAIRS, holm, p_text
from viewloom.clinical.used import NEAR, USED, used_for_clustering, used_names
from viewloom.clinical.variables import Variable, clusters_of, variable_of, variables_of
from viewloom.data.matching import row_index
from viewloom.runtime.errors import InputError

Array = np.ndarray
COLUMNS = [
    "variable", "kind", "test", "statistic", "p", "q", "effect", "low", "high", "n", "missing", "significant",
    "note",
]  # fmt: skip
STRONG_SITE = 0.2  # Cramer's V above which `site_warning` warns


def associations(
    labels: Any,
    participants: pd.DataFrame,
    *,
    categorical: Iterable[str] = (),
    alpha: float = 0.05,
    views: Any = None,
    bound: float = NEAR,
) -> pd.DataFrame:
    """Test which clinical variables differ between clusters.

    Numeric variables are compared by the Kruskal-Wallis test; categorical variables, and numbers with two
    values, by the chi-square test, or by Fisher's exact test if expected counts are small (with 9999 random
    tables of the same margins for tables larger than 2 x 2).

    A p-value is the probability of a difference at least this large if the variable were independent of the
    features that formed the clusters. Pass `views` to mark variables for which this cannot be asked, since
    they were features or correlate with one: see `used_for_clustering`. They have no p-value; what can be
    tested instead is shown by `view_left_out` and `split_tests`.

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
    views : Views, optional
        The views that were clustered.
    bound : float, default=0.8
        Correlation with a feature from which a variable counts as used for clustering.

    Returns
    -------
    DataFrame
        One row per variable, in the order of the columns: ``variable``, ``kind``, ``test``, ``statistic`` (H,
        chi-square, or the odds ratio of a 2 x 2 table), ``p``, ``q`` (Benjamini-Hochberg, over the variables
        that have a p), ``effect`` (epsilon squared for numbers, bias-corrected Cramer's V for categories; 0
        to 1) with its 95 % interval ``low`` to ``high``, ``n``, ``missing``, ``significant`` and ``note``
        ("used for clustering: p not valid", or empty). ``attrs["skipped"]`` maps columns that were left out
        to the reason, and ``attrs["tested"]`` is the number of variables that q is corrected for.

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
    names = [row["variable"] for row in rows]
    used = [] if views is None else _used(participants, names, views, categorical, bound)
    table = _corrected(pd.DataFrame(rows, columns=pd.Index(COLUMNS)), used, alpha)
    table.attrs["skipped"] = skipped
    return table


def _used(
    participants: pd.DataFrame, names: list[str], views: Any, categorical: Iterable[str], bound: float
) -> list[str]:
    """Variables that were used for clustering."""
    people = participants.set_axis([str(name) for name in participants.columns], axis=1)[names]
    return list(used_names(used_for_clustering(people, views, categorical=categorical, bound=bound)))


def _corrected(table: pd.DataFrame, used: Collection[str], alpha: float) -> pd.DataFrame:
    """The table with q and marks; variables that were used for clustering have no p."""
    invalid = table["variable"].isin(used)
    p = table["p"].astype(float).mask(invalid)
    q, known = np.full(len(table), np.nan), p.notna().to_numpy()
    q[known] = stats.false_discovery_control(p[known]) if known.any() else []
    marked = table.assign(p=p, q=q, significant=q < alpha, note=np.where(invalid, USED, ""))
    marked["statistic"] = marked["statistic"].astype(float).mask(invalid)
    marked.attrs["tested"] = int(known.sum())
    return marked


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
        (Cliff's delta, positive if the first is larger; Cramer's V for categories) with its 95 % interval
        ``low`` to ``high``, ``n``, ``n_other``.

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
    columns = [
        "cluster",
        "other",
        "test",
        "statistic",
        "p",
        "p_holm",
        "effect",
        "low",
        "high",
        "n",
        "n_other",
    ]
    table = pd.DataFrame(rows, columns=pd.Index(columns))
    table["p_holm"] = holm(table["p"].to_numpy(dtype=float))
    return table


def site_warning(
    table: pd.DataFrame, site_columns: Iterable[str], shown: pd.DataFrame | None = None
) -> str | None:
    """A warning if clusters are associated with the site or scanner, else None.

    Parameters
    ----------
    table : DataFrame of `associations`
    site_columns : iterable of str
        Columns that were passed as `categorical` to `associations`. Columns that are not in the table are
        ignored.
    shown : DataFrame, optional
        The same table with the numbers that may be shown (`published_associations`); by default `table`.

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
    told = table if shown is None else shown
    found = told[told["variable"].isin(strong["variable"])]
    named = [
        f"{name}{_numbers(effect, q)}"
        for name, effect, q in zip(found["variable"], found["effect"], found["q"], strict=True)
    ]
    return (
        f"Clusters follow {' and '.join(named)}: they may reflect where or how subjects were measured "
        "rather than disease. Harmonise the sites, or check that the clusters hold within each."
    )


def _numbers(effect: float, q: float) -> str:
    """Effect and q-value in brackets, as far as they are shown."""
    parts = [f"Cramer's V {effect:.2g}"] * (effect == effect) + [p_text(q, "q")] * (q == q)
    return f" ({', '.join(parts)})" if parts else ""


def _groups(codes: Array, variable: Variable, k: int) -> list[Array]:
    """Known values of each cluster, without empty clusters."""
    groups = [variable.data[(codes == i) & variable.known] for i in range(k)]
    return [group for group in groups if len(group)]
