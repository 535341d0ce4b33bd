"""The report of a replication, as one plain dict of sentences and tables that may be shared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from viewloom.clinical import p_text
from viewloom.clinical.release import plain_number, released, rounded, rounded_p
from viewloom.evaluation.replication.verdicts import CUTS, NOT, PARTLY, REPLICATED, RULE
from viewloom.study.clinical_numbers import MEAN
from viewloom.study.replicated import StudyReplication
from viewloom.study.report.privacy import plain, shown_sizes, without_folders
from viewloom.study.report.sentences import joined
from viewloom.study.report.table_cells import Cell, Table, number, p_value, shown, table_of, text

TEMPLATE = "replication.html.j2"
LONGEST = 200  # characters of a note
MEASURES = {
    "concordance": "concordance",
    "jaccard": "Jaccard",
    "in_group": "in-group proportion",
    "profile": "profile correlation",
}


def summarize_replication(results: StudyReplication) -> dict[str, Any]:
    """The content of the report of a replication.

    Parameters
    ----------
    results : StudyReplication

    Returns
    -------
    dict
        Serialisable as JSON; counts below ``min_cell``, and numbers on such clusters, are hidden.
    """
    made = [table for make in TABLES for table in make(results)]
    return {
        "title": f"Clusters of {plain(results.first)} in {plain(results.second)}",
        "min_cell": results.min_cell,
        "verdict": results.found.verdict,
        "clusters": _cards(results),
        "in_short": in_short(results),
        "cautions": [*results.found.cautions, *_cautions(results)],
        "tables": [table for table in made if table["rows"]],
        "methods": [RULE, *METHODS],
        "notes": [plain(note.shared(results.min_cell), LONGEST) for note in results.notes],
        "versions": [[plain(name), plain(version)] for name, version in results.versions.items()],
        "seed": int(results.seed),
        "inputs": [[plain(without_folders(file)), digest] for file, digest in results.inputs.items()],
    }


def secret_clusters(results: StudyReplication) -> np.ndarray:
    """Clusters with too few subjects in a cohort to describe."""
    counts = results.found.clusters[["first", "transferred", "refitted"]].to_numpy()
    return np.asarray((counts < results.min_cell).any(axis=1))


def _sizes(results: StudyReplication) -> pd.DataFrame:
    """Shown sizes of the clusters in both cohorts, each hidden as in the report of its own cohort."""
    clusters = results.found.clusters
    shown = {
        name: shown_sizes(clusters[name].to_numpy(), results.min_cell)
        for name in ("first", "transferred", "refitted")
    }
    return pd.DataFrame(shown, index=clusters.index)


def _measure(name: str, value: float) -> float:
    """A statistic of a cluster as it is shown; shares of subjects with more digits would be counts."""
    return rounded_p(value) if name.endswith("_p") else rounded(value)


def in_short(results: StudyReplication) -> list[str]:
    """The findings in a few sentences."""
    overall = results.found.overall
    confirmed = results.clinical.loc[results.clinical["confirmed"] == "yes", "variable"]
    tested = results.clinical["confirmed"] != "not tested"
    sentences = [
        _verdicts(results),
        "In the second cohort, the clusters that the model of the first assigns and those of a model of its "
        f"own agree with an adjusted Rand index of {overall['ari']:.2f} (95% interval {overall['lower']:.2f} "
        f"to {overall['upper']:.2f}, {p_text(overall['p'])}; 0 is chance, 1 is complete).",
    ]
    if tested.any():
        sentences.append(
            f"Clinical variables whose difference between the clusters is confirmed in the second cohort, of "
            f"{int(tested.sum())} tested there: "
            f"{joined(plain(name) for name in confirmed)}."
        )
    return sentences


def _verdicts(results: StudyReplication) -> str:
    """The clusters by their verdict, in sentences."""
    verdicts = _shown_verdicts(results)
    groups = {
        verdict: [plain(results.cluster_names[j], 30) for j, one in enumerate(verdicts) if one == verdict]
        for verdict in (REPLICATED, PARTLY, NOT, TOO_FEW)
    }
    return " ".join(
        f"{verdict.capitalize()}: {'cluster' if len(group) == 1 else 'clusters'} {joined(group)}."
        for verdict, group in groups.items()
        if group
    )


def _shown_verdicts(results: StudyReplication) -> list[str]:
    """The verdict on each cluster; none on those that are too small to describe."""
    pairs = zip(results.found.clusters["verdict"], secret_clusters(results), strict=True)
    return [TOO_FEW if secret else str(verdict) for verdict, secret in pairs]


def _cards(results: StudyReplication) -> list[dict[str, str]]:
    """The verdict on each cluster, and the numbers behind it."""
    secret, verdicts = secret_clusters(results), _shown_verdicts(results)
    return [
        {
            "cluster": plain(results.cluster_names[j], 40),
            "verdict": verdicts[j],
            "text": FEW if secret[j] else _numbers(row),
        }
        for j, row in enumerate(results.found.clusters.to_dict("records"))
    ]


def _numbers(row: Mapping[Any, Any]) -> str:
    known = [(label, row[name]) for name, label in MEASURES.items() if np.isfinite(row[name])]
    listed = joined(f"{label} {number(value)['text']}" for label, value in known)
    return f"{listed[:1].upper()}{listed[1:]}."


def _cautions(results: StudyReplication) -> list[str]:
    """Cautions that concern studies rather than clusters."""
    found = [] if any(CUTS in text for text in results.found.cautions) else [CUTS]
    if not results.knows_first:
        found.append(
            "The run has no clinical associations of the first cohort; they are tested in the second cohort "
            "without a comparison. Run `viewloom fit` again to store them."
        )
    return found


def _clusters_table(results: StudyReplication) -> list[Table]:
    clusters, secret = results.found.clusters, secret_clusters(results)
    counts = _sizes(results)
    rows, verdicts = [], _shown_verdicts(results)
    for j, row in enumerate(clusters.to_dict("records")):
        cells = [text(plain(results.cluster_names[j], 40)), text(verdicts[j])]
        cells += [shown(count) for count in counts.iloc[j]]
        rows.append([*cells, *(number(np.nan if secret[j] else row[name]) for name in MEASURES)])
    columns = [("cluster", 0), ("verdict", 0), ("first", 1), ("transferred", 1), ("refitted", 1)]
    columns += [(label, 1) for label in ("concordance", "Jaccard", "in-group", "profile")]
    return [table_of("clusters", "Clusters", CLUSTERS, columns, rows)]


def _measures_table(results: StudyReplication) -> list[Table]:
    """The statistics of the clusters with intervals and p-values, a row for each."""
    secret = secret_clusters(results)
    rows = [
        [text(plain(results.cluster_names[j], 40)), text(label), *_measured(row, name, bool(secret[j]))]
        for j, row in enumerate(results.found.clusters.to_dict("records"))
        for name, label in MEASURES.items()
    ]
    columns = [("cluster", 0), ("measure", 0), ("value", 1), ("from", 1), ("to", 1), ("p", 1)]
    return [table_of("measures", "Uncertainty of the measures", MEASURED, columns, rows)]


def _measured(row: Mapping[Any, Any], name: str, secret: bool) -> list[Cell]:
    """A statistic with its interval and p-value; dashes for clusters that are too small to describe."""
    if secret:
        return [number(np.nan)] * 4
    values = [number(row[key]) for key in (name, f"{name}_lower", f"{name}_upper")]
    return [*values, p_value(row[f"{name}_p"])]


def _profiles_table(results: StudyReplication) -> list[Table]:
    secret = secret_clusters(results)
    rows = [
        [
            text(plain(row["view"])),
            text(plain(results.cluster_names[row["cluster"]], 40)),
            *(number(row[name]) for name in ("correlation", "lower", "upper")),
            p_value(row["p"]),
        ]
        for row in results.found.profiles.to_dict("records")
        if not secret[row["cluster"]]
    ]
    columns = [("view", 0), ("cluster", 0), ("correlation", 1), ("from", 1), ("to", 1), ("p", 1)]
    return [table_of("profiles", "Profile correlations by view", PROFILES, columns, rows)]


def _weights_table(results: StudyReplication) -> list[Table]:
    rows = [
        [
            text(plain(name)),
            *(number(row[key]) for key in ("first", "second", "lower", "upper")),
            p_value(row["p"]),
        ]
        for name, row in results.found.weights.iterrows()
    ]
    columns = [("view", 0), ("first cohort", 1), ("second cohort", 1), ("from", 1), ("to", 1), ("p", 1)]
    return [table_of("weights", "View weights", WEIGHTS, columns, rows)]


def _clinical_table(results: StudyReplication) -> list[Table]:
    rows = [
        [
            text(plain(row["variable"])),
            number(row["first_effect"]),
            p_value(row["first_q"]),
            number(row["effect"]),
            p_value(row["p"]),
            p_value(row["p_holm"]),
            text(row["direction"]),
            text(row["confirmed"]),
        ]
        for row in results.clinical.to_dict("records")
    ]
    columns = [
        ("variable", 0), ("effect, first", 1), ("q, first", 1), ("effect, second", 1),
        ("p, second", 1), ("p (Holm)", 1), ("direction", 0), ("confirmed", 0),
    ]  # fmt: skip
    return [table_of("clinical", "Clinical associations in both cohorts", CLINICAL, columns, rows)]


def _deviations_table(results: StudyReplication) -> list[Table]:
    first, second = results.deviations
    rows = []
    for variable, values in second.items():
        for value, shifts in values.items():
            before = first.get(variable, {}).get(value, [None] * len(shifts))
            cells = [
                number(np.nan if x is None else x) for pair in zip(before, shifts, strict=False) for x in pair
            ]
            unit = "mean, SD" if value == MEAN else plain(value, 40)
            rows.append([text(plain(variable)), text(unit), *cells])
    columns = [("variable", 0), ("value", 0)]
    for name in results.cluster_names:
        columns += [(f"cluster {plain(name, 30)}, {cohort}", 1) for cohort in ("first", "second")]
    return [table_of("deviations", "Clusters compared with all subjects", DEVIATIONS, columns, rows)]


def content(results: StudyReplication) -> dict[str, Any]:
    """The numbers of the report for JSON, with the same suppression and three digits."""
    return dict(released(_content(results)))


def _content(results: StudyReplication) -> dict[str, Any]:
    found, secret = results.found, secret_clusters(results)
    counts = _sizes(results)
    hidden = found.clusters.drop(columns=list(counts.columns)).astype(object)
    measured = [name for name in hidden if name != "verdict"]
    for name in measured:
        hidden[name] = [_measure(str(name), value) for value in hidden[name]]
    hidden.loc[secret, measured] = None
    hidden["verdict"] = _shown_verdicts(results)
    clusters = pd.concat([counts.map(plain_number), hidden], axis=1)
    clusters.insert(0, "cluster", results.cluster_names)
    profiles = found.profiles[~secret[found.profiles["cluster"].to_numpy()]]
    return {
        "verdict": found.verdict,
        "overall": found.overall.to_dict(),
        "clusters": clusters.to_dict("records"),
        "profiles": profiles.assign(cluster=[results.cluster_names[j] for j in profiles["cluster"]]).to_dict(
            "records"
        ),
        "weights": found.weights.reset_index().to_dict("records"),
        "clinical": results.clinical.to_dict("records"),
        "cautions": found.cautions,
        "rule": RULE,
        "notes": [note.shared(results.min_cell) for note in results.notes],
    }


CLUSTERS = (
    "First: subjects of the first study. Transferred: subjects of the second study that the first "
    "model assigns. Refitted: subjects in the matching cluster of a model of the second study alone. "
    "Concordance: mean correlation between pairs of views of the memberships by each view alone. Jaccard: "
    "overlap of transferred and refitted subjects. In-group: share of the transferred subjects "
    "whose nearest neighbour is in the same cluster. Profile: correlation of the mean features of the "
    "refitted cluster with those of the first cohort."
)
MEASURED = (
    "The measures of the table above. From and to: 95% interval from bootstrap resamples. Resampling makes "
    "cohorts less alike, so that a value can lie above its interval. p: corrected for the number of clusters."
)
TOO_FEW = "too few subjects"
FEW = "Too few subjects to show the numbers."
PROFILES = (
    "Correlation of the mean standardised features of a refitted cluster with those of the cluster in the "
    "first cohort; 1 means the same pattern. A cluster close to the mean of its cohort has hardly a "
    "pattern. From and to: 95% interval from bootstrap resamples, above which a value can lie."
)
WEIGHTS = (
    "Weights of the common views in both fits. The interval is from refits on random halves of the second "
    "cohort; p is the share of cohorts with unrelated views in which the view has as much weight."
)
CLINICAL = (
    "Transferred clusters compared on the clinical variables of the second cohort. Only variables that "
    "differ in the first cohort (q below 0.05) are tested, if those are known; p (Holm) is "
    "corrected for their number. Confirmed: p (Holm) below 0.05, and the same direction. Effects are "
    "epsilon squared for numbers and Cramer's V for categories. First and second: the cohorts."
)
DEVIATIONS = (
    "Difference of each cluster from all subjects of its cohort: of means, in standard deviations (SD), or "
    "of shares. First and second: the cohorts. Dashes: not known, or hidden since counts are small."
)
METHODS = (
    "Transfer: the second cohort is prepared and assigned with the stored preparation and model of the "
    "first. Refit: the second cohort is prepared by its own study file and clustered with the settings of "
    "the first model.",
    "Null cohorts for overlap and in-group proportion: the second cohort with the rows of every view "
    "permuted independently, transferred and refitted again (a Gaussian cohort if there is only one view).",
    "Null of profile correlations: random directions with the covariance within clusters, matched as well as "
    "possible.",
    "Intervals are from bootstrap resamples of the subjects of the second cohort.",
)
TABLES = (
    _clusters_table,
    _measures_table,
    _clinical_table,
    _deviations_table,
    _profiles_table,
    _weights_table,
)
