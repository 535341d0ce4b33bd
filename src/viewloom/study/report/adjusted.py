"""Effects of clusters adjusted for covariates, in a report: regression and hazards."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from viewloom.clinical import adjusted_effects, hazards, p_text
from viewloom.clinical.published import published_adjusted, published_hazards
from viewloom.clinical.statistics import Precision
from viewloom.clinical.variables import as_numbers
from viewloom.study.held_out import ALPHA
from viewloom.study.report.privacy import plain
from viewloom.study.report.sentences import joined
from viewloom.study.report.table_cells import Table, interval, number, p_value, table_of, text

if TYPE_CHECKING:
    from viewloom.study.results import Results

Part = tuple[list[str], list[Table]]  # sentences and tables


def adjusted_part(results: Results, hidden: set[str], known: Mapping[str, Precision]) -> Part:
    """Effects adjusted for covariates."""
    people, roles = results.participants, results.roles
    outcomes = [] if people is None else [
        str(name) for name in (roles.diagnosis, *roles.outcomes)
        if name in people and name not in hidden and name not in roles.covariates
    ]  # fmt: skip
    covariates = [] if people is None else [name for name in roles.covariates if name in people]
    if people is None or not outcomes:
        return [], []
    if find_spec("statsmodels") is None:
        return ["Effects adjusted for covariates need statsmodels (pip install viewloom[stats])."], []
    codes = [name for name in (roles.diagnosis, roles.site) if name is not None]
    found = adjusted_effects(
        results.model.labels_, people, outcomes, covariates, categorical=codes, views=results.views,
        least=max(results.min_cell, 10),
    )  # fmt: skip
    q = dict(zip(found.overall["variable"], found.overall["q"], strict=True))
    rows = [
        [
            text(plain(row["variable"])), text(row["model"]), text(results.cluster_names[row["cluster"]]),
            text(row["measure"]), number(row["effect"], row["decimals"]),
            interval(row["low"], row["high"], row["decimals"]),
            p_value(row["p"]), p_value(row["p_holm"]), p_value(q[row["variable"]]), text(row["note"]),
        ]
        for row in published_adjusted(found.effects, known, covariates).to_dict("records")
    ]  # fmt: skip
    columns = [
        ("variable", 0), ("model", 0), ("cluster against the rest", 0), ("effect measure", 0), ("effect", 1),
        ("95% interval", 0), ("p", 1), ("p (Holm)", 1), ("q of the variable", 1), ("note", 0),
    ]  # fmt: skip
    given = (
        f"Adjusted for {joined(plain(name) for name in covariates)}" if covariates else "Without covariates"
    )
    about = f"{given}. {ADJUSTED}"
    return _adjusted_sentence(given, found.overall), [
        table_of(
            "adjusted", "Effects adjusted for covariates" if covariates else SINGLE, about, columns, rows
        )
    ]


def _adjusted_sentence(given: str, overall: pd.DataFrame) -> list[str]:
    tested = overall[overall["p"].notna()]
    if tested.empty:
        return []
    differ = [plain(name) for name in tested.loc[tested["q"] < ALPHA, "variable"]]
    found = (
        f"the clusters differ in {joined(differ)}" if differ else "no variable differs between the clusters"
    )
    return [f"{given}, {found} (q < 0.05, corrected for {len(tested)} tested)."]


def hazards_part(results: Results, precision: Mapping[str, Precision]) -> Part:
    """Cox regression beside the Kaplan-Meier curves."""
    people, roles = results.participants, results.roles
    if people is None or roles.survival is None or find_spec("statsmodels") is None:
        return [], []
    time, event = (people[name] for name in roles.survival)
    known = np.isfinite(as_numbers(time)) & np.isfinite(as_numbers(event))
    if not known.any():
        return [], []
    covariates = [name for name in roles.covariates if name in people and name not in roles.survival]
    found = hazards(results.model.labels_, time, event, people, covariates)
    counted = all(precision[name].counted for name in covariates if name in precision)
    shown = published_hazards(found.table, results.min_cell, counted)
    rows = [
        [
            text(results.cluster_names[row["cluster"]]), number(row["effect"], row["decimals"]),
            interval(row["low"], row["high"], row["decimals"]), p_value(row["p"]), p_value(row["p_holm"]),
            p_value(row["ph_p"]),
        ]
        for row in shown.to_dict("records")
    ]  # fmt: skip
    columns = [
        ("cluster against the rest", 0), ("hazard ratio", 1), ("95% interval", 0), ("p", 1), ("p (Holm)", 1),
        ("proportional hazards, p", 1),
    ]  # fmt: skip
    given = f"Adjusted for {joined(plain(name) for name in covariates)}. " if covariates else ""
    return _changing(found.ph_p if rows else np.nan), [
        table_of("hazards", f"Hazard of {plain(roles.survival[1])}", f"{given}{HAZARDS}", columns, rows)
    ]


def _changing(p: float) -> list[str]:
    """A sentence on hazards whose ratio changes with time."""
    if not p < ALPHA:
        return []
    return [
        "The ratio of hazards of the clusters changes with time (check of proportional hazards, "
        f"{p_text(p)}): hazard ratios are averages over the follow-up, and the Kaplan-Meier curves show more."
    ]


SINGLE = "Effects of single clusters"
ADJUSTED = (
    "Each cluster is compared with all other subjects. Linear: difference of means in standard deviations; "
    "logistic and ordinal: odds ratio of the higher value. Intervals and p are of single clusters, p (Holm)"
    " is corrected for their number, and q is of the test of all clusters, corrected for the number of "
    "variables. Where the number of missing values of a cluster is hidden, effects are rounder, some without "
    "interval, and of p only the range is given: the number could be derived from them."
)
HAZARDS = (
    "Cox regression of each cluster against all other subjects. A small p of the last column means that the"
    " ratio changes with time (Schoenfeld residuals). Clusters with few events are not shown. Where "
    "a number of events is hidden, ratios are rounder and without interval, and of p only the range is given."
)
