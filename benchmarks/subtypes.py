"""Subtypes of patients against controls, with and without severity: ours and the peers on the same inputs.

Simulated cohorts (`viewloom.simulate.adni_like`) have planted atrophy subtypes and a stage of disease. Their
controls are reference: covariates are regressed out on them, or not ("raw"), and they are not clustered.
Every method gets the same prepared views and the true number of subtypes, never the labels. Scores: ARI and
NMI with the subtypes, among patients who have one; eta squared of the stage. The last table has the diagnosis
of all subjects, without any removal.

    python benchmarks/subtypes.py [--seeds 8] [--first 100] [--methods NAMES] [--json FILE]

The removal of what is common among controls was chosen on cohorts 0 to 7; the default is to measure others.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from offers import Offer, prepare
from registry import method_named
from scores import eta_squared
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

import viewloom as vl
from viewloom.study.preparation import Plan, Preparation

Array = np.ndarray
COVARIATES = ("age", "sex", "education", "icv")
INPUTS: dict[str, dict[str, Any]] = {
    "adjusted": {"residualise": COVARIATES},
    "raw": {},
    "w-scores": {"w_scores": COVARIATES},
}
REMOVALS = ("none", "mmse", "common", "common:2")
PEERS = ("spectral (mean graph)", "EEIMVC", "SNF", "NEMO")
OURS = {"viewloom": {}, "viewloom, linear": {"kernel": "linear"}}
N_SUBTYPES, N_DIAGNOSES = 4, 3


def plan_of(inputs: str, removal: str = "none") -> Plan:
    """The preparation of a cohort, with controls as reference."""
    return Plan(
        **INPUTS[inputs],
        diagnosis="diagnosis",
        controls="HC",
        genotypes=["snp"],
        remove_severity=None if removal == "none" else removal,
    )


def prepared(cohort: vl.simulate.Cohort, plan: Plan) -> vl.Views:
    """The views of patients."""
    patients = cohort.truth.y > 0
    fitted = Preparation.fit(cohort.views, cohort.participants, plan, patients)
    return fitted.transform(cohort.views, cohort.participants)[patients]


def labelings(
    views: vl.Views, plan: Plan, k: int, seed: int, methods: list[str]
) -> Iterator[tuple[str, Array]]:
    """The clusters of each method; nobody standardises w-scores again, as in a study."""
    kept = [name for name in views.names if plan.w_scores and name not in plan.genotypes]
    scale = {name: "centre" if name in kept else "auto" for name in views.names}
    for name in filter(methods.__contains__, OURS):
        model = vl.KernelMultiviewNMF(k, scale=scale, random_state=seed, **OURS[name])
        yield name, model.fit(views).labels_
    for name in filter(methods.__contains__, PEERS):
        method = method_named(name)
        forms = ["raw" if view in kept else method.form for view in views.names]
        offers = [
            prepare([np.asarray(X)], form, False, not method.incomplete)
            for X, form in zip(views.blocks, forms, strict=True)
        ]
        yield name, method.fit(Offer([X for one in offers for X in one.views], False), k, seed).labelings[0]


def subtype_rows(seed: int, methods: list[str]) -> Iterator[dict[str, object]]:
    """Scores of all methods on the patients of one cohort."""
    cohort = vl.simulate.adni_like(random_state=seed)
    patients = cohort.truth.y > 0
    subtype, stage = cohort.truth.subtype[patients], cohort.truth.stage[patients]
    known = subtype != "none"
    for inputs in INPUTS:
        for removal in REMOVALS:
            plan = plan_of(inputs, removal)
            for method, labels in labelings(prepared(cohort, plan), plan, N_SUBTYPES, seed, methods):
                yield {
                    "inputs": inputs,
                    "removed": removal,
                    "method": method,
                    "seed": seed,
                    "ARI": adjusted_rand_score(subtype[known], labels[known]),
                    "NMI": normalized_mutual_info_score(subtype[known], labels[known]),
                    "stage": eta_squared(labels, stage),
                }


def diagnosis_rows(seed: int, methods: list[str]) -> Iterator[dict[str, object]]:
    """Agreement with the diagnosis of everyone, without removal."""
    cohort = vl.simulate.adni_like(random_state=seed)
    for inputs in INPUTS:
        plan = plan_of(inputs)
        fitted = Preparation.fit(cohort.views, cohort.participants, plan)
        views = fitted.transform(cohort.views, cohort.participants)
        for method, labels in labelings(views, plan, N_DIAGNOSES, seed, methods):
            nmi = normalized_mutual_info_score(cohort.truth.y, labels)
            ari = adjusted_rand_score(cohort.truth.y, labels)
            yield {"inputs": inputs, "method": method, "seed": seed, "ARI": ari, "NMI": nmi}


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", type=int, default=8, help="number of simulated cohorts")
    parser.add_argument("--first", type=int, default=100, help="seed of the first cohort")
    parser.add_argument("--methods", help="names separated by commas; all by default")
    parser.add_argument("--json", type=Path, help="write all scores to this file")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    methods = [*OURS, *PEERS] if given.methods is None else given.methods.split(",")
    seeds = range(given.first, given.first + given.seeds)
    subtypes = pd.DataFrame([row for seed in seeds for row in subtype_rows(seed, methods)])
    diagnosis = pd.DataFrame([row for seed in seeds for row in diagnosis_rows(seed, methods)])
    pd.set_option("display.max_rows", None)
    for inputs, part in subtypes.groupby("inputs", sort=False):
        print(f"\nPlanted subtypes among patients, {inputs} features")
        for score in ("ARI", "NMI", "stage"):
            wide = part.pivot_table(score, "method", "removed", sort=False)
            print(wide.round(3).rename_axis(index=score, columns=None).to_string())
    print("\nDiagnosis of all subjects, nothing removed")
    print(diagnosis.groupby(["inputs", "method"], sort=False)[["ARI", "NMI"]].mean().round(3).to_string())
    if given.json is not None:
        content = {"subtypes": subtypes.to_dict("records"), "diagnosis": diagnosis.to_dict("records")}
        given.json.write_text(json.dumps(content, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
