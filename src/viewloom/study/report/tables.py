"""Tables of a report, as plain data: captions, columns, and cells with their text and their sort key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from viewloom.clinical import Shown, shown_counts
from viewloom.clinical.suppression import rough_count
from viewloom.evaluation.comparison import DISTANCES, SCORES
from viewloom.study.notes import shown_count
from viewloom.study.report.comparison import solutions_table
from viewloom.study.report.evidence import cluster_words
from viewloom.study.report.findings import MOST_FEATURES, Findings
from viewloom.study.report.followup import followup_tables
from viewloom.study.report.levels import levels_table
from viewloom.study.report.presence import patterns_of, shown_patterns, view_sizes
from viewloom.study.report.privacy import plain, shown_sizes
from viewloom.study.report.regions import region_names
from viewloom.study.report.sentences import joined
from viewloom.study.report.sites import sites_table
from viewloom.study.report.standing_out import nothing_stands_out
from viewloom.study.report.table_cells import Cell, Table, interval, number, p_value, shown, table_of, text

if TYPE_CHECKING:
    from viewloom.study.results import Results

EFFECTS = {"numeric": "epsilon squared", "categorical": "Cramer's V"}
PAIR_EFFECTS = {"Mann-Whitney": "Cliff's delta"}  # of all other tests Cramer's V


def tables(results: Results, found: Findings) -> list[Table]:
    """The tables that may be shared, in order."""
    made = [table for make in TABLES for table in make(results, found)]
    return [table for table in made if table["rows"]]


def subject_table(results: Results) -> Table:
    """Every subject: cluster, memberships and stability. Not to be shared."""
    model, present = results.model, results.views.present
    ids = results.views.ids if results.views.ids is not None else range(len(present))
    stable = results.stability.subjects.to_numpy(dtype=float)
    rows = [
        [
            text(plain(ids[i])),
            text(results.cluster_names[model.labels_[i]]),
            *(number(u) for u in model.memberships_[i]),
            number(stable[i]),
            text(", ".join(plain(name) for name, has in zip(results.views.names, row, strict=True) if has)),
        ]
        for i, row in enumerate(present)
    ]
    numbers = [f"membership {name}" for name in results.cluster_names]
    columns = [
        ("subject", 0),
        ("cluster", 0),
        *((name, 1) for name in numbers),
        ("stability", 1),
        ("views", 0),
    ]
    return table_of("subjects", "Subjects", SUBJECTS, columns, rows)


def _clusters_table(results: Results, found: Findings) -> list[Table]:
    stable = results.cluster_stability
    rows = [
        [
            text(results.cluster_names[j]),
            shown(found.shown_sizes[j]),
            number(np.nan if found.secret[j] else stable[j]),
            text(cluster_words(results, j)),
            *_certainty(results, found, j),
            *(number(moved) for moved in found.moved.to_numpy()[j]),
        ]
        for j in range(len(found.sizes))
    ]
    views = [(f"without {plain(name, 30)}", 1) for name in found.moved.columns]
    certain = [("certainty", 1), ("95% interval", 0)] if results.uncertainty is not None else []
    columns = [("cluster", 0), ("subjects", 1), ("stability", 1), ("verdict", 0), *certain, *views]
    return [table_of("clusters", "Clusters", CLUSTERS + CERTAIN * bool(certain), columns, rows)]


def _certainty(results: Results, found: Findings, j: int) -> list[Cell]:
    """The mean largest membership in a cluster and its interval, where refits were made."""
    if results.uncertainty is None:
        return []
    value, low, high = results.uncertainty.certainty[["value", "low", "high"]].to_numpy(dtype=float)[j]
    return (
        [number(np.nan), interval(np.nan, np.nan)]
        if found.secret[j]
        else [number(value), interval(low, high)]
    )


def _views_table(results: Results, found: Findings) -> list[Table]:
    weights = dict(zip(results.model.view_names_, results.model.view_weights_, strict=True))
    rows = [
        [
            text(plain(name)),
            number(weights[name]),
            *map(number, found.agreement.loc[[name]].to_numpy(dtype=float)[0]),
            shown(size),
            number(features, 0),
        ]
        for name, size, features in zip(
            results.views.names, view_sizes(results), results.views.n_features, strict=True
        )
    ]
    agreement = [("agreement", 1), ("from", 1), ("to", 1)]
    columns = [("view", 0), ("weight", 1), *agreement, ("subjects", 1), ("features", 1)]
    return [table_of("views", "Views", VIEWS, columns, rows)]


def _patterns_table(results: Results, found: Findings) -> list[Table]:
    counts = patterns_of(results)
    rows = [
        [text(_pattern(results, pattern)), shown(count)]
        for pattern, count in zip(counts.index, shown_patterns(results), strict=True)
    ]
    return [table_of("patterns", "Missing views", PATTERNS, [("missing views", 0), ("subjects", 1)], rows)]


def _sites_table(results: Results, found: Findings) -> list[Table]:
    return sites_table(results)


def _pattern(results: Results, pattern: tuple[bool, ...]) -> str:
    lacking = [plain(name, 30) for name, has in zip(results.views.names, pattern, strict=True) if not has]
    return ", ".join(lacking) or "none"


def _associations_table(results: Results, found: Findings) -> list[Table]:
    rows = [
        [
            text(plain(row["variable"])),
            text(row["test"]),
            text(EFFECTS[row["kind"]]),
            number(row["effect"], found.effect_decimals(row["variable"])),
            interval(row["low"], row["high"]),
            p_value(row["p"]),
            p_value(row["q"]),
            text(row["note"] or ("yes" if row["significant"] else "no")),
            shown(_missing(results, found, row)),
        ]
        for row in found.associations.to_dict("records")
    ]
    columns = [
        ("variable", 0), ("test", 0), ("effect measure", 0), ("effect", 1), ("95% interval", 0), ("p", 1),
        ("q", 1), ("significant", 0), ("missing values", 1),
    ]  # fmt: skip
    return [
        table_of("associations", "Clinical variables compared between clusters", ASSOCIATIONS, columns, rows)
    ]


def _missing(results: Results, found: Findings, row: dict[Any, Any]) -> Shown:
    """Subjects without a value; roughly where the numbers of clusters are hidden, as in the profile."""
    known = found.precision.get(row["variable"])
    if row["kind"] == "numeric" and known is not None and not known.counted:
        return rough_count(row["missing"], results.min_cell)
    return shown_count(row["missing"], len(results.views), results.min_cell)


def _pairs_table(results: Results, found: Findings) -> list[Table]:
    rows = [
        [
            text(plain(row["variable"])),
            text(" and ".join(results.cluster_names[row[name]] for name in ("cluster", "other"))),
            text(row["test"]),
            text(PAIR_EFFECTS.get(row["test"], "Cramer's V")),
            number(row["effect"], row["decimals"]),
            interval(row["low"], row["high"], row["decimals"]),
            p_value(row["p"]),
            p_value(row["p_holm"]),
        ]
        for row in found.pairs.to_dict("records")
    ]
    columns = [
        ("variable", 0), ("clusters", 0), ("test", 0), ("effect measure", 0), ("effect", 1),
        ("95% interval", 0), ("p", 1), ("p (Holm)", 1),
    ]  # fmt: skip
    return [table_of("pairs", "Pairwise comparisons of clusters", PAIRS, columns, rows)]


def _profile_table(results: Results, found: Findings) -> list[Table]:
    rows = [
        [text(plain(name)), text(plain(value, 40)), *(shown(cell) for cell in cells)]
        for (name, value), cells in zip(found.profile.index, found.profile.to_numpy(), strict=True)
    ]
    clusters = _profile_columns(results, found)
    return [
        table_of(
            "profile",
            "Characteristics of the clusters",
            PROFILE,
            [("variable", 0), ("value", 0), *clusters],
            rows,
        )
    ]


def _profile_columns(results: Results, found: Findings) -> list[tuple[str, int]]:
    """The columns of the profile: clusters with subjects, and all subjects."""
    present = [name for j, name in enumerate(results.cluster_names) if found.sizes[j]]
    return [*((f"cluster {name}", 1) for name in present), ("all", 1)]


def _diagnosis_table(results: Results, found: Findings) -> list[Table]:
    """Diagnoses in clusters, with totals: the cells of the profile, so that nothing can be subtracted."""
    column = results.roles.diagnosis
    if column is None or column not in found.profile.index.get_level_values("variable"):
        return []
    cells = found.profile.xs(column, level="variable")
    rows = [
        [text(plain(value, 40)), *map(shown, row)]
        for value, row in zip(cells.index, cells.to_numpy(), strict=True)
    ]
    sizes = found.profile.xs("subjects", level="variable").to_numpy()[0]
    rows.append([text("all"), *map(shown, sizes)])
    about = f"{DIAGNOSIS} {_agreement(found.scores)}"
    columns = [(plain(column), 0), *_profile_columns(results, found)]
    return [table_of("diagnosis", f"Clusters and {plain(column)}", about, columns, rows)]


def _agreement(scores: dict[str, float] | None) -> str:
    """The agreement of clusters and diagnosis in a sentence."""
    if scores is None:
        return NO_AGREEMENT
    named = [f"{label} {scores[name]:.2g}" for name, label in AGREEMENT.items() if name in scores]
    return f"Agreement of clusters and diagnosis, which was not used to form the clusters: {joined(named)}."


def _conversion_table(results: Results, found: Findings) -> list[Table]:
    if found.conversion is None:
        return []
    summary = found.conversion.summary
    parts = pd.DataFrame({"yes": summary["events"], "no": summary["n"] - summary["events"]})
    converted = shown_counts(parts, results.min_cell)["yes"]
    followed = shown_sizes(summary["n"].to_numpy(), results.min_cell)
    medians = summary["median"]
    rows = [
        [
            text(results.cluster_names[cluster]),
            shown(followed[i]),
            shown(converted[cluster]),
            number(medians[cluster]),
        ]
        for i, cluster in enumerate(summary.index)
    ]
    columns = [("cluster", 0), ("followed up", 1), ("events", 1), ("median time", 1)]
    return [table_of("conversion", "Time to the event", CONVERSION, columns, rows)]


def _comparison_table(results: Results, found: Findings) -> list[Table]:
    if found.comparison is None:
        return []
    columns = [("method", 0), *((score, 1) for score in SCORES), ("one cluster", 0)]
    collapsed = found.comparison.collapsed
    rows = [
        [
            text(plain(method)),
            *(number(row[score], found.score_decimals[str(method)]) for score in SCORES),
            text("yes" if method in collapsed else "no"),
        ]
        for method, row in found.comparison.table.iterrows()
    ]
    return [table_of("comparison", "Agreement of methods with the diagnosis", COMPARISON, columns, rows)]


def _solutions_table(results: Results, found: Findings) -> list[Table]:
    return solutions_table(results)


def _numbers_table(results: Results, found: Findings) -> list[Table]:
    if results.numbers is None:
        return []
    scores = {
        "stability": "stability", "twin_stability": "by chance", "pac": "ambiguous pairs",
        "prediction_strength": "prediction strength", "gap": "gap",
    }  # fmt: skip
    rows = [
        [number(row["k"], 0), *(number(row[name]) for name in scores), text("yes" if row["clear"] else "no")]
        for row in results.numbers.table.to_dict("records")
    ]
    columns = [("clusters", 1), *((label, 1) for label in scores.values()), ("clear", 0)]
    return [table_of("numbers", "Number of clusters", NUMBERS, columns, rows)]


def _feature_tables(results: Results, found: Findings) -> list[Table]:
    tables = list[Table]()
    for a, name in enumerate(results.model.view_names_):
        tables.append(_features(results, found, a, name))
        if len(found.levels[name]):
            tables.append(levels_table(results, a, name, found.levels[name]))
    return tables


def _features(results: Results, found: Findings, a: int, view: str) -> Table:
    ranked, means = found.importance[view], found.profiles[view].to_numpy()
    names = [str(name) for name in ranked["feature"][: len(means)]]
    regions = region_names(names)
    known = any(regions)
    rows = [
        [
            text(plain(name)),
            *([text(regions[i] or "")] * known),
            number(i + 1, 0),
            number(value, 3),
            *(number(z) for z in means[i]),
        ]
        for i, (name, value) in enumerate(zip(names, ranked["importance"], strict=False))
    ]
    clusters = [(f"cluster {name} (SD)", 1) for name in results.cluster_names]
    about = FEATURES + NONE_STANDS_OUT * nothing_stands_out(results, view)
    about += DASHES * bool(np.isnan(means).any())
    if len(ranked) > MOST_FEATURES:
        about += f" The first {MOST_FEATURES} of {len(ranked)} are shown; all are in the run folder."
    columns = [("feature", 0), *[("region", 0)] * known, ("rank", 1), ("importance", 1), *clusters]
    return table_of(f"features-{a}", f"Features of {plain(view)}", about, columns, rows)


SUBJECTS = (
    "Stability: how often the subject stays in its cluster when the analysis is repeated on subsamples."
)
CLUSTERS = (
    "Stability is the overlap (Jaccard index) with the best matching cluster in random subsamples: 0.75 or "
    "more is considered stable, and clusters below 0.6 should not be interpreted. The columns on the right "
    "give the share of the cluster's membership that shifts to other clusters when a view is left out."
)
CERTAIN = " Certainty is the mean of the largest memberships in the cluster."
VIEWS = (
    "Weights are estimated from the data and sum to 1: views that share nothing with the others have little "
    "weight, all others similar weights. To compare views, use the agreement: how much of the cluster "
    "structure of a view the other views confirm (0 is chance, 1 is complete), with a 95% interval. Numbers "
    "of subjects are rounded where small counts could be derived from exact ones."
)
PATTERNS = "Subjects who lack a view are included, and assigned by the views they have."
ASSOCIATIONS = (
    "Effects range from 0 (none) to 1. q is p corrected for the number of variables (Benjamini-Hochberg); a "
    "difference is significant where q is below 0.05. Where a table of a variable has hidden numbers, its "
    "effect is rounded to one decimal or not shown, without its 95% interval, and of p and q only the range "
    "is given, since the hidden numbers could be derived from exact ones."
)
PAIRS = (
    "Variables that differ significantly between clusters. Cliff's delta ranges from \N{MINUS SIGN}1 to 1 "
    "and is positive where the first cluster has higher values; Cramer's V ranges from 0 to 1. p (Holm) is p "
    "corrected for the number of pairs. A dash: not shown, since a small number could be derived from it."
)
PROFILE = (
    "Mean (standard deviation), median, or number (share of the cluster). A mean has no standard deviation "
    "where small numbers could be derived from it."
)
CONVERSION = (
    "Subjects with a known time and event. The median is the first of a few round times by which half had "
    "the event; none where fewer had it, too few subjects remain at that time to show, or the cluster has no "
    "curve, since small numbers could be derived from it."
)
DIAGNOSIS = "Number of subjects (share of the cluster)."
AGREEMENT = {
    "ARI": "adjusted Rand index (0 is chance, 1 is perfect)",
    "NMI": "normalised mutual information",
    "Acc": "accuracy, if each cluster stands for one diagnosis,",
}
NO_AGREEMENT = (
    "The agreement of clusters and diagnosis is not shown: there is one diagnosis, or hidden counts could be "
    "derived from it."
)
COMPARISON = (
    "Agreement of the clusters of each method with the diagnosis, which no method uses unless marked oracle: "
    "accuracy (Acc), normalised mutual information (NMI), adjusted Rand index (ARI), Rand index (RI), "
    "Mirkin distance (MI = 1 \N{MINUS SIGN} RI). "
    f"Higher is better; of {joined(DISTANCES)} lower is better. One cluster: the method puts nearly all "
    "subjects into one cluster, whatever its scores. A dash, or a single decimal, where more would give "
    "hidden counts of the diagnosis away."
)
NUMBERS = (
    "Stability: agreement of clusterings of random subsamples (1 is perfect agreement). By chance: the "
    "stability for a single group of subjects with the same correlations. A number of clusters is clear "
    "where it is more stable than that."
)
FEATURES = (
    "Importance: the influence of the feature on the clusters. The columns of clusters give its mean in each "
    "cluster, in standard deviations from the mean of all subjects."
)
DASHES = (
    " A dash: not shown, since there are too few subjects, or the values of a small cluster could be derived "
    "from it."
)
NONE_STANDS_OUT = " No feature of this view stands out: the order may be that of noise."
TABLES = (
    _clusters_table, _diagnosis_table, _views_table, _associations_table, _pairs_table, _profile_table,
    _conversion_table, followup_tables, _comparison_table, _solutions_table, _numbers_table, _sites_table,
    _patterns_table,
    _feature_tables,
)  # fmt: skip
