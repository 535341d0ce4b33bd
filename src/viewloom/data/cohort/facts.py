"""Published facts for the simulated cohort, stored with source or confidence in ``facts.json``."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

import pandas as pd

IMAGING_VIEWS = ("vbm", "freesurfer", "fdg")


@cache
def facts() -> dict[str, Any]:
    """Content of ``facts.json``; treat it as read-only."""
    text = files("viewloom.data.cohort").joinpath("facts.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


@cache
def region_table(view: str) -> pd.DataFrame:
    """Imaging features with lobe, published effects, level and correlations with covariates.

    Returns
    -------
    DataFrame indexed by feature, left hemisphere first
        ``base``, ``lobe``, ``d_mci``, ``d_ad``, ``mean``, ``sd`` (healthy controls), ``age_r``, ``icv_r``
        and ``lr_r``, the correlation with the homologue on the other side.

    Examples
    --------
    >>> print(region_table("freesurfer").loc[["RHippVol"], ["lobe", "d_mci", "d_ad", "mean"]])
               lobe  d_mci  d_ad    mean
    feature
    RHippVol  limbic   0.85   1.6  3630.0
    """
    rows = [_region(view, side, base) for side in "LR" for base in facts()["views"][view]["effects"]]
    return pd.DataFrame(rows).set_index("feature")


def _region(view: str, side: str, base: str) -> dict[str, Any]:
    covariates = facts()["covariates"]
    d_mci, d_ad = facts()["views"][view]["effects"][base]
    mean, sd = _level(view, base)
    tissue = _tissue(view, base)
    shrinks = base in ("HippVol", "AmygVol", "Hippocampus", "Amygdala")
    return {
        "feature": side + base,
        "base": base,
        "lobe": facts()["regions"][base][1],
        "d_mci": d_mci,
        "d_ad": d_ad,
        "mean": mean,
        "sd": sd,
        # own choice: the hippocampal figure for the amygdala, that of thickness for all other regions
        "age_r": covariates["age_hippocampus_r_cross_sectional" if shrinks else "age_thickness_r"],
        # thickness 0 by the facts; VBM densities and SUVR are normalised for head size, so 0 too
        "icv_r": covariates["ICV_hippocampus_r"] if view == "freesurfer" and shrinks else 0.0,
        "lr_r": covariates["LR_homologue_r"][tissue],
    }


def _tissue(view: str, base: str) -> str:
    """The key of the left-right correlation in the facts."""
    if view == "fdg":
        return "fdg"
    return "thickness" if view == "freesurfer" and not base.endswith("Vol") else "volume"


def _level(view: str, base: str) -> tuple[float, float]:
    """Mean and standard deviation in healthy controls: density, mm^3, mm or SUVR."""
    levels = facts()["levels"]
    if view == "vbm":
        mean, sd = levels["VBM_GM_density"]
    elif view == "fdg":
        mean, sd = levels["FDG_SUVR_metaROI"]["HC"]
    else:
        special = {"HippVol": "HippVol_mm3_per_side_HC", "AmygVol": "AmygVol_mm3_per_side_HC"}
        special["EntCtx"] = "EntCtx_mm_HC"
        mean, sd = levels[special.get(base, "cortical_thickness_mm_HC_typical")]
    return mean, sd


def feature_notes() -> dict[str, str]:
    """Notes from the literature on the features of the simulated cohort, by feature name.

    For annotating tables of feature importance: regions with their published effect sizes, SNPs with gene,
    odds ratio and source. Synthetic SNPs have no note. A name shared by several views has one note.

    Returns
    -------
    dict of str to str

    Examples
    --------
    >>> notes = feature_notes()
    >>> print(notes["LHippVol"])
    hippocampus, left: lower in AD; d (MCI, AD vs HC) freesurfer 0.85, 1.60; rounded, see sources
    >>> print(notes["rs3818361"])
    CR1 (chr 1): OR 1.14 per A; Jun 2010 PMC3048805: OR 1.14 (1.07-1.22); confidence high OR, medium MAF;
    named by Liu & Cao
    """
    notes = {f"{side}{base}": _region_note(side, base) for base in facts()["regions"] for side in "LR"}
    for gene, snps in facts()["genes"].items():
        notes.update({snp: f"{gene}: AlzGene candidate gene, no effect size in the facts" for snp in snps})
    notes.update({snp: _snp_note(fact) for snp, fact in facts()["snps"].items()})
    for snp, locus in facts()["named_in_paper"].items():
        known = snp in facts()["snps"]
        notes[snp] = f"{notes[snp] if known else locus}; named by Liu & Cao"
    return notes


def _region_note(side: str, base: str) -> str:
    effects = {view: facts()["views"][view]["effects"].get(base) for view in IMAGING_VIEWS}
    sizes = [f"{view} {d[0]:.2f}, {d[1]:.2f}" for view, d in effects.items() if d is not None]
    hemisphere = "left" if side == "L" else "right"
    return (
        f"{facts()['regions'][base][0]}, {hemisphere}: lower in AD; d (MCI, AD vs HC) {'; '.join(sizes)}; "
        "rounded, see sources"
    )


def _snp_note(fact: dict[str, Any]) -> str:
    return (
        f"{fact['gene']} (chr {fact['chr']}): OR {fact['odds_ratio']} per {fact['allele']}; "
        f"{fact['source']}; confidence {fact['confidence']}"
    )
