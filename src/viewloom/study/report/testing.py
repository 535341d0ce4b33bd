"""The section "Tests and other explanations" of a report."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import pandas as pd

from viewloom.clinical import (
    explanation_sentences,
    explanations,
    used_for_clustering,
)
from viewloom.clinical.published import published_explanations, small_groups
from viewloom.clinical.variables import variable_of
from viewloom.study.held_out import ALPHA, HeldOutTests
from viewloom.study.report.adjusted import Part, adjusted_part, hazards_part
from viewloom.study.report.findings import Findings
from viewloom.study.report.privacy import plain
from viewloom.study.report.regions import feature_names
from viewloom.study.report.sentences import joined
from viewloom.study.report.table_cells import interval, number, p_value, table_of, text

if TYPE_CHECKING:
    from viewloom.study.results import Results

EFFECTS = {"numeric": "epsilon squared", "categorical": "Cramer's V"}
# columns that may explain clusters, whatever their role
TECHNICAL = re.compile(
    r"site|scann|manufact|field.?strength|center|centre|batch|(^|_)(age|sex|gender|icv|tiv|etiv)(_|$)|intracran|educ",
    re.IGNORECASE,
)
NAMED = 3  # features that are named


@dataclass(frozen=True, eq=False)
class Explained:
    """Other variables that may explain the clusters.

    Attributes
    ----------
    table : DataFrame
        Of `clinical.explanations`: the site, covariates, technical columns and missing views. Without
        intervals that must not be shown.
    hidden : set of str
        Variables of which a cluster has few values, or few subjects with some category.
    lacking : list of str
        Views that some but few subjects of a cluster lack, or have.
    """

    table: pd.DataFrame
    hidden: set[str]
    lacking: list[str]


_EXPLAINED: WeakKeyDictionary[Findings, Explained] = WeakKeyDictionary()  # computed once


def testing_section(results: Results, found: Findings) -> dict[str, Any]:
    """Sentences and tables on tests and explanations."""
    others = explained(results, found)
    hidden, lacking = others.hidden, others.lacking
    parts = [
        _tested(found),
        _explained(others),
        adjusted_part(results, hidden, found.precision),
        hazards_part(results, found.precision),
        _used(results, hidden),
        *(_left_out(results, results.tests) if results.tests is not None else ()),
    ]
    sentences = [sentence for said, _ in parts for sentence in said]
    if hidden or lacking:
        names = joined([*sorted(map(plain, hidden)), *(f"who lacks {plain(name)}" for name in lacking)])
        sentences.append(
            f"Not shown in these tables, since a group has fewer than {results.min_cell} subjects: {names}. "
            "Cautions name those that explain the clusters."
        )
    return {
        "sentences": sentences,
        "tables": [table for _, tables in parts for table in tables if table["rows"]],
    }


def hidden_variables(results: Results) -> set[str]:
    """Variables of which a cluster has few values, or few subjects with some category."""
    people, roles = results.participants, results.roles
    if people is None:
        return set()
    codes = {roles.diagnosis, roles.site}
    names = [name for name in people.columns if name in roles.clinical or TECHNICAL.search(str(name))]
    return {str(name) for name in names if _has_small(results, people[name], name in codes)}


def hidden_views(results: Results) -> list[str]:
    """Views that some but few subjects of a cluster lack, or have."""
    present = results.views.present
    return [
        name
        for a, name in enumerate(results.views.names)
        if not present[:, a].all() and _has_small(results, pd.Series(present[:, a].astype(str)), True)
    ]


def _has_small(results: Results, column: pd.Series, is_code: bool) -> bool:
    variable = variable_of(str(column.name), column, is_code)
    return small_groups(variable, results.model.labels_, results.model.n_clusters, results.min_cell)


def _tested(found: Findings) -> Part:
    """Over how many variables q is corrected, and which have no p-value."""
    table = found.associations
    if table.empty:
        return [], []
    used = [plain(name) for name in table.loc[table["note"] != "", "variable"]]
    n = len(table) - len(used)
    said = [_count(n)]
    if used:
        verb = "was" if len(used) == 1 else "were"
        said.append(
            f"{joined(used)} {verb} used for clustering, as a feature or a close correlate of one (0.8 or "
            "more). Clusters differ in what formed them whatever the data: p is not valid, and not shown."
        )
    return said, []


def _count(n: int) -> str:
    """How many variables were tested."""
    if n < 2:
        return f"{'One' if n else 'No'} clinical variable was tested between the clusters."
    return f"{n} clinical variables were tested between the clusters; q is corrected for these {n}."


def explained(results: Results, found: Findings) -> Explained:
    """Other variables that may explain the clusters, and which of them must not be shown."""
    if found not in _EXPLAINED:
        table = published_explanations(_explanations(results), len(results.views))
        _EXPLAINED[found] = Explained(table, hidden_variables(results), hidden_views(results))
    return _EXPLAINED[found]


def _explanations(results: Results) -> pd.DataFrame:
    people, roles = results.participants, results.roles
    listed = [roles.site, *roles.covariates]
    others = [] if people is None else [str(name) for name in people if TECHNICAL.search(str(name))]
    columns = [name for name in dict.fromkeys([*listed, *others]) if name is not None]
    codes = [name for name in (roles.site, roles.diagnosis) if name is not None]
    return explanations(
        results.model.labels_, people, columns=columns, categorical=codes, views=results.views
    )


def explanation_caution(results: Results, found: Findings) -> str | None:
    """A caution on variables that explain the clusters, beyond those that other cautions name."""
    rows, hidden = explaining(results, found), explained(results, found).hidden
    rows = rows[~rows["variable"].isin([results.roles.site, *results.roles.covariates])]
    secret = rows["variable"].isin(hidden)
    shown = rows[~secret]
    sentences = explanation_sentences(shown.assign(variable=shown["variable"].map(plain)))
    sentences += [f"The clusters follow {plain(name)}." for name in rows.loc[secret, "variable"]]
    return " ".join([*sentences, "They may reflect this rather than disease."]) if sentences else None


def explaining(results: Results, found: Findings) -> pd.DataFrame:
    """Rows of variables that explain the clusters in part, also of those whose numbers are hidden."""
    table = explained(results, found).table
    return table[(table["what"] == "variable") & table["explains"].astype(bool)]


def _explained(others: Explained) -> Part:
    rows = []
    for row in others.table.to_dict("records"):
        missing = row["what"] != "variable"
        if row["variable"] in (others.lacking if missing else others.hidden):
            continue
        name = plain(row["variable"])
        rows.append(
            [
                text(f"lacks {name}" if missing else name), text(EFFECTS[row["kind"]]), number(row["effect"]),
                interval(row["low"], row["high"]), number(row["threshold"]), number(row["information"]),
                text("in part" if row["explains"] else "no"),
            ]
        )  # fmt: skip
    columns = [
        ("variable", 0), ("effect measure", 0), ("effect", 1), ("95% interval", 0), ("threshold", 1),
        ("information", 1), ("explains the clusters", 0),
    ]  # fmt: skip
    return [], [
        table_of("explanations", "Do other variables explain the clusters?", EXPLANATIONS, columns, rows)
    ]


def _used(results: Results, hidden: set[str]) -> Part:
    """Variables that were used for clustering, and what is valid for them."""
    people, roles = results.participants, results.roles
    if people is None or not roles.clinical:
        return [], []
    codes = [name for name in (roles.diagnosis, roles.site) if name is not None]
    table = used_for_clustering(people[roles.clinical], results.views, categorical=codes)
    tests = results.tests if results.tests is not None else HeldOutTests()
    halves = {} if tests.splits is None else dict(
        tests.splits.loc[tests.splits["view"] == "", ["name", "p"]].to_numpy().tolist()
    )  # fmt: skip
    rows = [
        [
            text(plain(row["variable"])), text(plain(row["view"])), text(plain(row["feature"])),
            text(row["measure"]), number(row["strength"]),
            p_value(tests.variables.get(row["variable"], np.nan)),
            p_value(halves.get(row["variable"], np.nan)),
        ]
        for row in table[table["used"].astype(bool)].to_dict("records")
        if row["variable"] not in hidden
    ]  # fmt: skip
    columns = [
        ("variable", 0), ("view", 0), ("closest feature", 0), ("measure", 0), ("strength", 1),
        ("p, views left out", 1), ("p, other halves", 1),
    ]  # fmt: skip
    return [], [table_of("used", "Variables that were used for clustering", USED, columns, rows)]


def _left_out(results: Results, tests: HeldOutTests) -> Iterator[Part]:
    """Features between clusters that were assigned without their view.

    Without splits, the section on features that stand out has such tests already.
    """
    if tests.reason:
        yield [f"Features were not tested: {tests.reason}."], []
        return
    if tests.splits is None and results.feature_tests:
        return
    q, rows = tests.q, []
    halves = None if tests.splits is None else {name: part for name, part in tests.splits.groupby("view")}
    for view, found in tests.views.items():
        if found.subjects < results.min_cell:
            continue
        differ = q[view] < ALPHA
        again = [] if halves is None else [number(int((halves[view]["q"] < ALPHA).sum()), 0)]
        rows.append(
            [
                text(plain(view)), number(int(np.isfinite(found.p).sum()), 0), number(int(differ.sum()), 0),
                *again, number(found.agreement), text(_strongest(results, view, found.effect, differ)),
            ]
        )  # fmt: skip
    columns = [
        ("view", 0), ("features", 1), ("differ (q < 0.05)", 1),
        *([("differ in other halves", 1)] if halves is not None else []),
        ("agreement", 1), ("largest effects", 0),
    ]  # fmt: skip
    about = LEFT_OUT + (f" {HALVES.format(n=tests.n_splits)}" if halves is not None else "")
    yield (
        _features_sentence(q),
        [table_of("left-out", "Features tested without their own view", about, columns, rows)],
    )


def _features_sentence(q: dict[str, Any]) -> list[str]:
    tested = sum(int(np.isfinite(values).sum()) for values in q.values())
    differ = sum(int((values < ALPHA).sum()) for values in q.values())
    if not tested:
        return []
    return [
        f"{differ} of {tested} features differ between clusters of the other views (q < 0.05, corrected for "
        "the number of features of each view): they follow clusters that they did not form."
    ]


def _strongest(results: Results, view: str, effect: Any, differ: Any) -> str:
    """The features with the largest effects among those that differ."""
    order = [j for j in np.argsort(-np.nan_to_num(effect), kind="stable") if differ[j]][:NAMED]
    names = feature_names([str(results.views.feature_names[view][j]) for j in order], 40)
    return (
        joined(f"{name} ({effect[j]:.2f})" for name, j in zip(names, order, strict=True)) if order else "none"
    )


EXPLANATIONS = (
    "A variable explains the clusters in part if its effect is at least the threshold (0.06 for epsilon "
    "squared, 0.20 for Cramer's V: medium effects) and its 95% interval excludes 0. Information is the "
    "adjusted mutual information with the clusters: 0 is none, 1 means that the variable determines them; "
    "numbers are cut in five parts."
)
USED = (
    "These variables are features, or correlate with a feature at 0.8 or more (r, rank r, eta, Cramer's V),"
    " or features of a view together give them (multiple R of 0.95 or more). They are tested between "
    "clusters that were found without the views in question; the null hypothesis is that the variable is "
    "independent of the other views. A dash means that no other view is left, or that the test was not "
    "asked for."
)
LEFT_OUT = (
    "Subjects are clustered by the other views, and features of this one are compared between these "
    "clusters. The null hypothesis is that a feature is independent of the other views. It is also rejected"
    " where views share a continuum such as severity or age, so it is no proof of distinct groups. "
    "Agreement is the adjusted Rand index of these clusters with those of all views."
)
HALVES = (
    "Other halves: clusters of all views in one random half; subjects of the other half are placed without "
    "this view, and tested; {n} splits, combined by the Cauchy combination test."
)
