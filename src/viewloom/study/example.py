"""The simulated cohort as files in common formats, with a valid study.toml."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from viewloom.data.cohort.facts import facts, region_table
from viewloom.data.simulated import MOST_MISSING, Cohort, CohortVisit, adni_like, adni_like_visits
from viewloom.runtime.errors import MissingPackageError
from viewloom.runtime.files import all_or_none, writing
from viewloom.study.errors import StudyError

ID = "participant_id"
SECOND, SECOND_SITES = 1_000_003, 7  # difference of seeds, and number of sites, of a second cohort
TABLES = {  # file -> first header cell, beginning of the features' names
    "freesurfer/aseg.volume.tsv": ("Measure:volume", ("Left-", "Right-")),
    "freesurfer/lh.aparc.thickness.tsv": ("lh.aparc.thickness", ("lh_",)),
    "freesurfer/rh.aparc.thickness.tsv": ("rh.aparc.thickness", ("rh_",)),
}
GENOTYPES = "genotypes/snps.bed"
FILES = (
    "study.toml", "participants.csv", "vbm.csv", *TABLES, "fdg.csv",
    *(GENOTYPES.replace(".bed", suffix) for suffix in (".bed", ".bim", ".fam")),
)  # fmt: skip
PARCELS = {"banks of superior temporal sulcus": "bankssts"}  # else the name without its blanks
SNP_BLOCK = """\
# Genotypes; snps.bim and snps.fam are in the same folder.
[views.snp]
path = "genotypes/snps.bed"
format = "plink"
min_maf = 0.01
min_call_rate = 0.95

"""
STUDY = (
    """\
# A study: the participants, one block per view, and the settings of the analysis.
# The cohort is simulated (viewloom.simulate.adni_like); replace the files with your own. Run, in this order:
#     viewloom check study.toml
#     viewloom fit study.toml

[study]
name = "Simulated cohort"

[participants]
path = "participants.csv"
id = "participant_id"
diagnosis = "diagnosis"                # compared with the clusters; not used by the fit
covariates = ["age", "sex", "education", "icv"]
site = "site"
outcomes = ["mmse", "cdrsb", "apoe"]   # also compared between clusters
survival = { time = "conversion_time", event = "conversion_event" }  # years; known for MCI only

# Grey matter density: a table with one row per participant and one column per region.
[views.vbm]
path = "vbm.csv"
format = "table"
id = "participant_id"
# columns = ["LHippocampus", "R*"]     # names or patterns; all columns by default
# missing_codes = [-9]                 # missing codes other than blanks and NA

# Volumes and thickness as asegstats2table and aparcstats2table write them. For a SUBJECTS_DIR with one folder
# per participant, write path = "subjects" and format = "freesurfer".
[views.freesurfer]
paths = [
    "freesurfer/aseg.volume.tsv",
    "freesurfer/lh.aparc.thickness.tsv",
    "freesurfer/rh.aparc.thickness.tsv",
]
format = "freesurfer-table"

# Glucose uptake: one row per participant, visit and region.
[views.fdg]
path = "fdg.csv"
format = "long"
id = "participant_id"
name = "region"
value = "suvr"
visit = "bl"

"""
    + SNP_BLOCK
    + """\
# Fitted on training subjects and stored with the model.
[preparation]
impute = "median"
residualise = ["age", "sex", "education", "icv"]  # their effect is removed from every view,
residualise_on = "controls"                       # as estimated in controls
controls = "HC"

[model]
n_clusters = 3
"""
)


SEVERAL = {  # what study.toml says of one visit -> what it says of several
    'id = "participant_id"\ndiagnosis': 'id = "participant_id"\nvisit = "bl"\ndate = "exam_date"\ndiagnosis',
    'survival = { time = "conversion_time", event = "conversion_event" }  # years; known for MCI only':
        'survival = { converts_to = "AD", among = "MCI" }  # derived from the visits',
    "# Grey matter density: a table with one row per participant and one column per region.":
        "# Grey matter density: a table with one row per participant and visit, and one column per region.",
    'format = "table"\nid = "participant_id"\n':
        'format = "table"\nid = "participant_id"\nvisit = "bl"\ndate = "scan_date"\n',
    "[model]\n": "# Later visits are placed by the model of the first one.\n[followup]\n"
        'visits = "all"\n\n[model]\n',
}  # fmt: skip


def write_example(
    folder: str | Path,
    *,
    sizes: tuple[int, int, int] = (88, 174, 83),
    random_state: int = 0,
    missing: float = 0.1,
    visits: int = 1,
) -> list[Path]:
    """Write a simulated cohort as the files of a study.

    Parameters
    ----------
    folder : str or Path
        Created if it does not exist; existing files of a study are not overwritten.
    sizes : tuple of int
        Participants with AD, with MCI and without either.
    random_state : int, default=0
    missing : float, default=0.1
        Share of all pairs of participant and view that are missing; see `viewloom.simulate.adni_like`.
    visits : int, default=1
        Number of yearly visits; see `viewloom.simulate.adni_like_visits`. With more than one, participants,
        VBM and FDG have a row per visit, with dates, and ``study.toml`` follows them up. FreeSurfer and SNPs
        are those of the first visit.

    Returns
    -------
    list of Path
        ``study.toml`` first, then participants, VBM (a wide CSV), FreeSurfer (tables of asegstats2table and
        aparcstats2table), FDG (a long table) and SNPs (PLINK). A participant who lacks a view is not in its
        files.

    Raises
    ------
    StudyError
        If one of the files exists.
    ImportError
        Without bed-reader (``pip install viewloom[study]``).

    Examples
    --------
    >>> import tempfile
    >>> from viewloom import study
    >>> folder = tempfile.mkdtemp()
    >>> files = study.write_example(folder)
    >>> [path.name for path in files[:3]]
    ['study.toml', 'participants.csv', 'vbm.csv']
    """
    seen = adni_like_visits(*sizes, visits=visits, missing=missing, random_state=random_state)
    return _write_study(seen[0].cohort, Path(folder), seen=seen)


def write_cohorts(
    folder: str | Path,
    *,
    sizes: tuple[int, int, int] = (88, 174, 83),
    second_sizes: tuple[int, int, int] = (60, 110, 70),
    random_state: int = 0,
    missing: float = 0.1,
) -> tuple[list[Path], list[Path]]:
    """Write two simulated cohorts of the same disease, to try `viewloom replicate` on.

    The second has other participants, fewer and other sites, twice as many missing views, and no genotypes.

    Parameters
    ----------
    folder : str or Path
        The cohorts are written to ``first`` and ``second`` in it.
    sizes, second_sizes : tuple of int
        Participants of both cohorts with AD, with MCI and without either.
    random_state : int, default=0
    missing : float, default=0.1
        See `write_example`.

    Returns
    -------
    tuple of two lists of Path
        The files of each cohort, ``study.toml`` first.

    Examples
    --------
    >>> import tempfile
    >>> first, second = write_cohorts(tempfile.mkdtemp(), sizes=(12, 14, 16), second_sizes=(10, 12, 12))
    >>> len(first), len(second)
    (10, 7)
    """
    folder = Path(folder)
    cohort = adni_like(*sizes, missing=missing, random_state=random_state)
    share = min(2.0 * missing, MOST_MISSING)
    other = adni_like(*second_sizes, missing=share, n_sites=SECOND_SITES, random_state=random_state + SECOND)
    names, lacking = [folder / "first", folder / "second"], ("snp",)
    for place, left_out in zip(names, ((), lacking), strict=True):
        _check_free(place, _files(left_out))
    files = _write_study(cohort, names[0])
    with all_or_none(files):
        return files, _write_study(_elsewhere(other), names[1], "Second simulated cohort", lacking)


def _elsewhere(cohort: Cohort) -> Cohort:
    """The cohort with other ids and other sites than those of the first, and without its genotypes."""
    ids = pd.Index([f"second-{name}" for name in cohort.participants.index], name=ID)
    people = pd.DataFrame(cohort.participants.set_axis(ids))
    people["site"] = people["site"].str.replace("site-", "clinic-")
    kept = [name for name in cohort.views.names if name != "snp"]
    seen = cohort.views.present[:, [cohort.views.index(name) for name in kept]].any(axis=1)
    rows = np.flatnonzero(seen)
    views = cohort.views.replaced(ids=ids)[rows].select(kept)
    return replace(cohort, participants=people.iloc[rows], views=views)


def _write_study(
    cohort: Cohort,
    folder: Path,
    name: str = "Simulated cohort",
    lacking: tuple[str, ...] = (),
    seen: Sequence[CohortVisit] = (),
) -> list[Path]:
    """Write the files of a cohort, all or none; `seen` are its visits if there are several."""
    to_bed = None if "snp" in lacking else _to_bed()
    paths = _check_free(folder, _files(lacking))
    with writing(folder), all_or_none(paths):
        for path in paths:
            path.parent.mkdir(parents=True, exist_ok=True)
        _write_tables(cohort, folder)
        if len(seen) > 1:
            _write_visits(seen, folder)
        if to_bed is not None:
            to_bed(folder / GENOTYPES, *_genotypes(cohort))
        text = _study(len(seen))
        text = text.replace(SNP_BLOCK, "") if "snp" in lacking else text
        (folder / "study.toml").write_text(text.replace("Simulated cohort", name), encoding="utf-8")
    return paths


def _files(lacking: tuple[str, ...]) -> list[str]:
    """Names of the files of a study without some views."""
    return [name for name in FILES if "snp" not in lacking or not name.startswith("genotypes/")]


def _check_free(folder: Path, names: Sequence[str]) -> list[Path]:
    """Paths of files that must not exist."""
    paths = [folder / name for name in names]
    existing = sum(path.exists() for path in paths)
    if existing:
        raise StudyError(f"{folder}: {existing} files of a study already exist; choose another folder.")
    return paths


def _study(visits: int) -> str:
    """The text of study.toml."""
    text = STUDY
    for one, several in SEVERAL.items() if visits > 1 else ():
        text = text.replace(one, several, 1)
    return text


def _write_visits(visits: Sequence[CohortVisit], folder: Path) -> None:
    """Write the tables that have a row per visit."""
    derived = ["conversion_time", "conversion_event"]
    people = [_at(visit.cohort.participants.drop(columns=derived), visit, "exam") for visit in visits]
    scans = [_at(_view(visit.cohort, "vbm"), visit, "scan") for visit in visits]
    uptake = [_long(_view(visit.cohort, "fdg")).assign(visit=visit.name) for visit in visits]
    pd.concat(people).to_csv(folder / "participants.csv", lineterminator="\n")
    pd.concat(scans).to_csv(folder / "vbm.csv", lineterminator="\n")
    pd.concat(uptake).to_csv(folder / "fdg.csv", index=False, lineterminator="\n")


def _at(table: pd.DataFrame, visit: CohortVisit, kind: str) -> pd.DataFrame:
    """A table with the visit and the date of each row."""
    table = table.copy()
    table.insert(0, "visit", visit.name)
    table.insert(1, f"{kind}_date", visit.dates[kind].reindex(table.index))
    return table


def _to_bed() -> Any:
    try:
        return import_module("bed_reader").to_bed
    except ImportError as error:
        raise MissingPackageError(
            "Writing genotypes needs bed-reader: pip install viewloom[study]"
        ) from error


def _write_tables(cohort: Cohort, folder: Path) -> None:
    """Write everything but genotypes and study.toml."""
    cohort.participants.to_csv(folder / "participants.csv", lineterminator="\n")
    _view(cohort, "vbm").to_csv(folder / "vbm.csv", lineterminator="\n")
    _long(_view(cohort, "fdg")).to_csv(folder / "fdg.csv", index=False, lineterminator="\n")
    wide = _view(cohort, "freesurfer").rename(columns=freesurfer_names())
    icv = cohort.participants["icv"].reindex(wide.index)
    for name, (head, prefixes) in TABLES.items():
        total = "EstimatedTotalIntraCranialVol" if head == "Measure:volume" else "eTIV"
        table = wide.loc[:, wide.columns.str.startswith(prefixes)].assign(**{total: icv})
        table.rename_axis(head).to_csv(folder / name, sep="\t", lineterminator="\n")


def _view(cohort: Cohort, view: str) -> pd.DataFrame:
    """The participants who have the view."""
    rows = cohort.views.rows(cohort.views.index(view))
    ids = pd.Index(cohort.participants.index[rows], name=ID)
    return pd.DataFrame(cohort.views[view][rows], index=ids, columns=cohort.views.feature_names[view])


def _long(wide: pd.DataFrame) -> pd.DataFrame:
    """One row per participant and region."""
    values = wide.to_numpy()
    n, d = values.shape
    return pd.DataFrame(
        {
            ID: np.repeat(wide.index.to_numpy(), d),
            "visit": "bl",
            "region": np.tile(wide.columns.to_numpy(), n),
            "suvr": values.ravel(),
        }
    )


def freesurfer_names() -> dict[str, str]:
    """The FreeSurfer names of the features of the simulated view.

    >>> names = freesurfer_names()
    >>> names["LHippVol"], names["REntCtx"], names["LBanksSTS"]
    ('Left-Hippocampus', 'rh_entorhinal_thickness', 'lh_bankssts_thickness')
    """
    return {
        feature: _freesurfer_name(feature[0], feature[1:]) for feature in region_table("freesurfer").index
    }


def _freesurfer_name(side: str, base: str) -> str:
    region = facts()["regions"][base][0]
    if base.endswith("Vol"):
        return f"{'Left' if side == 'L' else 'Right'}-{region.capitalize()}"
    return f"{side.lower()}h_{PARCELS.get(region, region.replace(' ', ''))}_thickness"


def _genotypes(cohort: Cohort) -> tuple[np.ndarray, dict[str, list]]:
    """Counts (n, d) of allele 1, and the content of the ``.fam`` and ``.bim``."""
    calls = _view(cohort, "snp")
    known = [facts()["snps"].get(name, {}) for name in calls.columns]
    sex = cohort.participants["sex"].reindex(calls.index).map({"M": 1, "F": 2})
    properties = {
        "fid": calls.index.tolist(),
        "iid": calls.index.tolist(),
        "sex": sex.tolist(),
        "sid": calls.columns.tolist(),
        "chromosome": [str(fact.get("chr", 0)) for fact in known],  # 0: unknown position
        "allele_1": [fact.get("allele", "1") for fact in known],  # unknown alleles are 1 and 2
        "allele_2": ["N" if fact else "2" for fact in known],
    }
    return np.array(calls, dtype=np.int8), properties
