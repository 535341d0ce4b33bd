"""Site, scanner, age, sex, head size and missing data as explanations of the clusters."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats
from sklearn.metrics import adjusted_mutual_info_score

from viewloom.clinical.association import associations
from viewloom.clinical.findings import p_text
from viewloom.clinical.variables import clusters_of, variable_of
from viewloom.data.views import Views

Array = np.ndarray
THRESHOLDS = {"numeric": 0.06, "categorical": 0.2}  # epsilon squared, Cramer's V: medium effects
EFFECTS = {"numeric": "epsilon squared", "categorical": "Cramer's V"}
ALPHA = 0.05
PARTS = 5  # parts of equal size of a number, for mutual information
COLUMNS = [
    "variable", "what", "kind", "effect", "low", "high", "threshold", "information", "p", "q", "n",
    "explains",
]  # fmt: skip


def explanations(
    labels: Any,
    participants: pd.DataFrame | None = None,
    *,
    columns: Collection[str] = (),
    categorical: Collection[str] = (),
    views: Any = None,
) -> pd.DataFrame:
    """Ask whether other variables than the disease explain the clusters.

    A variable explains clusters in part if its effect is at least a threshold (epsilon squared 0.06 for
    numbers, Cramer's V 0.2 for categories: medium effects), and the 95 % interval of the effect excludes 0.
    Effects that are so large that there is no interval must have q below 0.05.

    Parameters
    ----------
    labels : (n,) array
    participants : DataFrame, optional
        With columns such as the site, the scanner, age, sex and intracranial volume.
    columns : collection of str
        The columns to examine.
    categorical : collection of str
        Columns that contain codes rather than numbers.
    views : Views, optional
        Views, of which it is examined whether subjects who lack one are unevenly distributed.

    Returns
    -------
    DataFrame
        One row per variable: ``variable``, ``what`` ("variable" or "missing view"), ``kind``, ``effect`` with
        its 95 % interval ``low`` to ``high``, ``threshold``, ``information`` (adjusted mutual information
        with the clusters: 0 is none, 1 is that it determines them; numbers are cut in five parts), ``p``,
        ``q`` (Benjamini-Hochberg over the rows), ``n`` and ``explains``.

    Examples
    --------
    >>> labels = np.repeat([0, 1], 30)
    >>> people = pd.DataFrame({"site": ["A"] * 28 + ["B"] * 32, "age": list(range(60, 75)) * 4})
    >>> table = explanations(labels, people, columns=["site", "age"])
    >>> table[["variable", "effect", "information", "explains"]].round(2).to_numpy().tolist()
    [['site', 0.93, 0.82, True], ['age', 0.0, -0.03, False]]
    """
    people = pd.DataFrame(index=range(len(np.asarray(labels)))) if participants is None else participants
    chosen = people[[name for name in dict.fromkeys(columns) if name in people]]
    parts = [_examined(labels, chosen, "variable", categorical)]
    if views is not None:
        lacking = _lacking(Views(views), chosen.index)
        parts.append(_examined(labels, lacking, "missing view", lacking.columns))
    found = [part for part in parts if len(part)]
    table = pd.concat(found, ignore_index=True) if found else parts[0]
    return _judged(table)


def explanation_sentences(table: pd.DataFrame) -> list[str]:
    """One sentence for each row of `explanations` that explains the clusters in part.

    >>> row = {"variable": "site", "what": "variable", "kind": "categorical", "effect": 0.4, "low": 0.2,
    ...        "high": 0.5, "threshold": 0.2, "q": 0.0001, "explains": True}
    >>> explanation_sentences(pd.DataFrame([row]))[0]
    "The clusters follow site (Cramer's V 0.40, 95% interval 0.20 to 0.50, q < 0.001; the threshold is 0.2)."
    """
    return [_sentence(row) for row in table[table["explains"].astype(bool)].to_dict("records")]


def _sentence(row: dict[Any, Any]) -> str:
    subject = row["variable"] if row["what"] == "variable" else f"who lacks {row['variable']}"
    known = row["low"] == row["low"]
    interval = f"95% interval {row['low']:.2f} to {row['high']:.2f}, " if known else ""
    return (
        f"The clusters follow {subject} ({EFFECTS[row['kind']]} {row['effect']:.2f}, {interval}"
        f"{p_text(row['q'], 'q')}; the threshold is {row['threshold']:g})."
    )


def _lacking(views: Views, index: pd.Index) -> pd.DataFrame:
    """Whether subjects lack each view that some of them lack."""
    some = [a for a in range(views.n_views) if not views.present[:, a].all()]
    words = np.where(views.present[:, some], "has", "lacks")
    return pd.DataFrame(words, columns=[views.names[a] for a in some], index=index)


def _examined(labels: Any, people: pd.DataFrame, what: str, categorical: Iterable[str]) -> pd.DataFrame:
    codes = list(categorical)
    table = associations(labels, people, categorical=codes)
    _, clusters = clusters_of(labels, len(people), people.index)
    information = [_information(people[name], name in codes, clusters) for name in table["variable"]]
    return table.assign(what=what, information=np.array(information, dtype=float))


def _information(column: pd.Series, is_code: bool, clusters: Array) -> float:
    """Adjusted mutual information of a variable and the clusters."""
    variable = variable_of(str(column.name), column, is_code)
    known = variable.known
    values: Any = variable.data[known]
    if variable.kind == "numeric":
        values = pd.qcut(pd.Series(values.astype(float)), PARTS, labels=False, duplicates="drop").to_numpy()
    else:
        values = values.astype(str)
    return float(adjusted_mutual_info_score(clusters[known], values))


def _judged(table: pd.DataFrame) -> pd.DataFrame:
    threshold = table["kind"].map(THRESHOLDS).astype(float)
    q = stats.false_discovery_control(table["p"].astype(float)) if len(table) else table["p"]
    low = table["low"].astype(float)
    apart = (low > 0.0) | (low.isna() & (q < ALPHA))  # the largest effects have no interval
    explains = (table["effect"].astype(float) >= threshold) & apart
    return table.assign(threshold=threshold, explains=explains, q=q)[COLUMNS]
