"""The content of a report as one plain dict: sentences, captions, tables.

Disclosure control is applied here. A report shows nothing but this dict and its figures, which show means,
quantiles and shares.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from viewloom.study.cluster_names import placeholders, resolved
from viewloom.study.report.captions import captions
from viewloom.study.report.cautions import LIMITS, cautions, cautions_sentence
from viewloom.study.report.cluster_cards import cluster_cards
from viewloom.study.report.continuum import continuum_section
from viewloom.study.report.design import design_section
from viewloom.study.report.evidence import evidence_section
from viewloom.study.report.findings import findings
from viewloom.study.report.followup import followup_sentences
from viewloom.study.report.methods import methods
from viewloom.study.report.privacy import plain, without_folders, without_subjects
from viewloom.study.report.sentences import sourced
from viewloom.study.report.standing_out import features_section
from viewloom.study.report.tables import subject_table, tables
from viewloom.study.report.testing import testing_section

if TYPE_CHECKING:
    from viewloom.study.results import Results

LONGEST_VALUE = 200  # characters of a setting or note


def summarize(results: Results, *, subjects: bool = False) -> dict[str, Any]:
    """The content of the report of a run.

    Parameters
    ----------
    results : Results
    subjects : bool, default=False
        Also list every subject by id. Such a report must not be shared.

    Returns
    -------
    dict
        Serialisable as JSON: ``title``, ``min_cell``, ``in_short`` (sentences), ``sources`` (the anchor of
        each in the report), ``evidence`` (verdict, headline, sentences and tables, or None), ``continuum``,
        ``features``, ``design`` and ``testing`` (sentences and tables, or None), ``clusters``, ``cautions``,
        ``limits``, ``cluster_names``, ``figures`` (heading, caption and alternative text of each),
        ``tables``, ``subjects`` (a table, or None), ``methods`` (what was done, for `viewloom paper`),
        ``notes``, ``settings``, ``versions``, ``seed`` and ``inputs``.
    """
    return resolved(unnamed_summary(results, subjects=subjects), results.cluster_names)


def unnamed_summary(results: Results, *, subjects: bool = False) -> dict[str, Any]:
    """`summarize` with a placeholder wherever the name of a cluster belongs; see `cluster_names.resolved`."""
    found, names = findings(results), results.cluster_names
    settings = without_subjects(results.settings)
    unnamed = {**settings.get("cluster", {}), "names": placeholders(results.model.n_clusters)}
    results = replace(results, settings={**settings, "cluster": unnamed})
    testing, warned = testing_section(results, found), cautions(results, found)
    told = [*sourced(results, found), *(("tables", text) for text in followup_sentences(results))]
    told[2:2] = [("cautions", sentence) for sentence in cautions_sentence(warned)]  # after the verdict
    return {
        "cluster_names": names,
        "title": plain(results.name),
        "min_cell": results.min_cell,
        "in_short": [sentence for _, sentence in told],
        "sources": [anchor for anchor, _ in told],
        "evidence": evidence_section(results),
        "continuum": continuum_section(results),
        "features": features_section(results, found),
        "design": design_section(results, found.precision),
        "testing": testing,
        "clusters": cluster_cards(results, found),
        "cautions": warned,
        "limits": list(LIMITS),
        "figures": captions(results, found),
        "tables": tables(results, found),
        "subjects": subject_table(results) if subjects else None,
        "methods": methods(results, found, testing),
        "notes": [*_notes(results), *_left_out(found.left_out)],
        "settings": [[plain(key), _value(value)] for key, value in flat(settings)],
        "versions": [[plain(name), plain(version)] for name, version in results.versions.items()],
        "seed": int(results.seed),
        "inputs": [[plain(without_folders(str(file))), digest] for file, digest in results.inputs.items()],
    }


def flat(settings: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Nested settings as pairs of a dotted key and a value.

    >>> list(flat({"model": {"n_clusters": 3}, "name": "x"}))
    [('model.n_clusters', 3), ('name', 'x')]
    """
    for key, value in settings.items():
        if isinstance(value, Mapping) and value:
            yield from flat(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value


def _value(value: Any) -> str:
    """A setting as text; paths without their folders."""
    if isinstance(value, (list, tuple)):
        return plain(", ".join(_value(part) for part in value) or "none", LONGEST_VALUE)
    words = {None: "not set", True: "yes", False: "no"}
    is_word = value is None or isinstance(value, (bool, np.bool_))
    return words[value] if is_word else plain(without_folders(str(value)), LONGEST_VALUE)


def _notes(results: Results) -> list[str]:
    return [plain(note.shared(results.min_cell), LONGEST_VALUE) for note in results.notes]


def _left_out(reasons: Mapping[str, str]) -> list[str]:
    return [f"variable {plain(name)} is left out of a table: {reason}" for name, reason in reasons.items()]
