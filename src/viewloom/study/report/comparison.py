"""Agreement between methods and between settings, as figures and tables of a report."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from viewloom.evaluation.comparison import Comparison
from viewloom.evaluation.solutions import SAME, Solutions
from viewloom.study.report.drawable import fixed_text
from viewloom.study.report.privacy import plain
from viewloom.study.report.sentences import joined
from viewloom.study.report.table_cells import Table, number, table_of, text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from viewloom.study.results import Results

DIGITS = 2  # of agreement


def collapsed_sentence(found: Comparison) -> str:
    """Which methods put nearly everybody into one cluster; empty if none does."""
    names = [plain(name) for name in found.collapsed]
    if not names:
        return ""
    return f" Nearly all subjects are in one cluster, so that no clusters were found, by: {'; '.join(names)}."


def agreement_alternative(found: Comparison) -> str:
    """The most similar method of each, in words."""
    table = found.agreement
    values = table.to_numpy(copy=True)
    np.fill_diagonal(values, -1.0)
    nearest = zip(table.index, values.argmax(axis=1), values.max(axis=1), strict=True)
    texts = [f"{plain(name)}: {plain(table.index[j])} {value:.2f}" for name, j, value in nearest]
    return f"Most similar other method, with adjusted Rand index: {'; '.join(texts)}."


def agreement_data(found: Comparison) -> dict[str, Any]:
    """The matrix as plain data."""
    table = found.agreement
    return {"methods": [plain(name) for name in table.index], "values": _rounded(table)}


def draw_agreement(data: dict[str, Any], names: Sequence[str]) -> Axes:
    """Draw the agreement between methods."""
    from viewloom.plotting.agreement import method_agreement

    methods = data["methods"]
    ax = method_agreement(pd.DataFrame(data["values"], index=methods, columns=methods, dtype=float))
    fixed_text(ax)
    return ax


def solutions_alternative(found: Solutions) -> str:
    """How far the clusters of each setting agree with those of the chosen one."""
    others = found.settings[found.settings["choice"] != ""]
    texts = [f"{plain(name)} {value:.2f}" for name, value in others["agreement"].items()]
    return f"Adjusted Rand index with the chosen setting: {joined(texts)}."


def solutions_data(found: Solutions) -> dict[str, Any]:
    """The map as plain data."""
    return {
        "settings": [plain(name) for name in found.settings.index],
        "groups": [int(group) for group in found.settings["group"]],
        "values": _rounded(found.agreement),
    }


def draw_solutions(data: dict[str, Any], names: Sequence[str]) -> Axes:
    """Draw the map of solutions."""
    from viewloom.plotting.agreement import solutions

    settings = pd.DataFrame({"group": data["groups"]}, index=pd.Index(data["settings"]))
    values = pd.DataFrame(data["values"], dtype=float)
    ax = solutions(SimpleNamespace(settings=settings, agreement=values))
    fixed_text(ax)
    return ax


def solutions_table(results: Results) -> list[Table]:
    """How much each choice matters."""
    if results.solutions is None:
        return []
    rows = [
        [
            text(plain(choice)),
            text(plain(row["values"])),
            number(row["lowest"], DIGITS),
            number(row["mean"], DIGITS),
            text("yes" if row["same"] else "no"),
        ]
        for choice, row in results.solutions.choices.iterrows()
    ]
    columns = [("choice", 0), ("tried instead", 0), ("lowest agreement", 1), ("mean agreement", 1),
               ("same clusters", 0)]  # fmt: skip
    return [table_of("solutions", "Dependence of the clusters on settings", SOLUTIONS, columns, rows)]


def _rounded(table: pd.DataFrame) -> list[list[float]]:
    return [[round(float(value), DIGITS) + 0.0 for value in row] for row in table.to_numpy()]  # no -0.0


AGREEMENT = (
    "Agreement of the clusters of each pair of methods, on the same subjects (adjusted Rand index: 1 is the "
    "same clusters, 0 is chance), mean over seeds; the diagonal compares seeds of one method. High agreement "
    "of different methods says that the clusters do not depend on the method."
)
MAP = (
    "Agreement of the clusters when one setting is changed at a time (adjusted Rand index: 1 is the same "
    "clusters, 0 is chance). White lines separate settings that give other clusters. If a choice that could "
    "as well have been made otherwise changes the clusters, they depend on it."
)
SOLUTIONS = (
    "Each row changes one setting of the model, and gives the agreement with the clusters of the chosen "
    f"setting (adjusted Rand index). From {SAME:g} on, clusters are called the same."
)
