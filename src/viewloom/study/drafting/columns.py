"""Roles of columns, from their names and their content."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from viewloom.study.readers.frames import as_numbers, as_text
from viewloom.study.readers.text import PADDED, ROW_NAMES
from viewloom.study.wording import folded

# names of columns in lower case, without spaces and punctuation, the most likely first
IDS = (
    "participantid subjectid srcsubjectid rid ptid bblid subject participant subjid subid subj sub "
    "idsubject idsubj idparticipant subjectcode subjectidentifier subjectnumber subjectkey subjectno "
    "subjectlabel patientid patient patid patno patientnumber pid eid iid individualid individual id "
    "recordid caseid guid sampleid sample samplename barcode submitterid donor donorid mrid personid "
    "person bidsid names name code mriid scanid imageid fid"
)
UNNAMED = f"{folded(ROW_NAMES)} unnamed0 column1 x index"
DIAGNOSIS = (
    "dx dxbl diagnosis dxgroup diagnosisbl diag group researchgroup diagnosticgroup clinicalgroup "
    "patientgroup studygroup dxchange casecontrol condition disease status clinicalstatus phenotype "
    "subjecttype participanttype diseasestatus patientstatus diagnosissc cohortdefinition"
)
COVARIATES = (
    "age sex gender ptgender mf ageatscan ageatentry agebl agemri ageyears ageatmri agescan agebaseline "
    "ageatvisit entryage ageatbaseline scanage enrollage ageatenrollment pteducat education educ educyrs "
    "educationyears yearsofeducation edu "
    "icv etiv tiv estimatedtotalintracranialvol estimatedtotalintracranialvolume"
)
OTHERS = (  # describe the subject, but are neither measures nor usual covariates
    "hand handedness handednesscategory race ethnicity ethnic ptethcat ptraccat ptmarry height weight "
    "bmi dob dateofbirth birthdate birthyear yearofbirth ses agedeath cohort phase protocol colprot "
    "origprot examdate scandate date time"
)
SITE = (
    "site siteid studysite scanner scannerid scannermodel scannerserialnumber center centre centerid "
    "institution hospital manufacturer manufacturersmodelname fieldstrength"
)
OUTCOMES = (
    "mmse mmsescore cdr cdrsb cdrglobal adas11 adas13 adasq4 moca faq apoe apoe4 gds npi updrs updrs3 "
    "fiq viq piq iq wasi panss hamd madrs bdi bdiii phq9 gad7 ados srs edss gaf ybocs"
)
CLINICAL = f"{DIAGNOSIS} {COVARIATES} {SITE} {OUTCOMES} {OTHERS}"
MOST_DIAGNOSES = 12
MOST_LEVELS = 20
MOSTLY = 0.8  # share of cells
SESSIONS = re.compile(r"(?i)_ses-[0-9a-z]+$")


def named(header: Iterable[str], names: str) -> list[str]:
    """Columns with one of these names, the most likely first; case, spaces and punctuation are ignored.

    >>> named(["AGE", "iD", "Subject ID"], "subjectid id")
    ['Subject ID', 'iD']
    """
    known = names.split()
    found = [name for name in header if folded(name) in known]
    return sorted(found, key=lambda name: known.index(folded(name)))


def form_status(header: Sequence[str]) -> list[str]:
    """Columns of REDCap that say whether a form is complete, and which row of an instrument this is.

    >>> form_status(["record_id", "redcap_event_name", "mri_complete", "redcap_repeat_instance"])
    ['mri_complete', 'redcap_repeat_instance']
    """
    if not any(name.startswith("redcap_") or name == "record_id" for name in header):
        return []
    return [name for name in header if name.endswith("_complete") or name == "redcap_repeat_instance"]


def may_be_ids(cells: pd.Series) -> bool:
    """Whether all cells have text or integers."""
    text = as_text(cells)
    return bool(text.notna().all()) and not _decimals(text).any()


def counts_rows(cells: pd.Series) -> bool:
    """Whether a column numbers the rows: 0, 1, 2, ... or 1, 2, 3, ..., but not 001, 002, 003, ..."""
    if as_text(cells).str.match(PADDED).any():
        return False
    numbers = as_numbers(cells).to_numpy(dtype=float, na_value=np.nan)
    return len(numbers) > 1 and bool((np.diff(numbers) == 1).all()) and numbers[0] in (0.0, 1.0)


def _decimals(text: pd.Series) -> pd.Series:
    """Cells such as 0.25; 2.0 is an integer in the format of spreadsheets."""
    return text.str.fullmatch(r"[-+]?\d*[.,]\d+(?:e[-+]?\d+)?", case=False) & ~text.str.fullmatch(r"\d+\.0")


def is_diagnosis(cells: pd.Series) -> bool:
    """Whether there are a few groups of several subjects."""
    levels = as_text(cells).nunique()
    return 2 <= levels <= MOST_DIAGNOSES and levels <= len(cells) / 2


def is_site(cells: pd.Series) -> bool:
    """Whether subjects come in groups."""
    levels = as_text(cells).nunique()
    return 2 <= levels <= max(len(cells) / 2, 2)


def is_covariate(cells: pd.Series) -> bool:
    """Whether a column has numbers, or a few categories."""
    text = as_text(cells)
    return bool(text.notna().any()) and (
        as_numbers(cells).notna().sum() == text.notna().sum() or is_few(text)
    )


def is_few(text: pd.Series) -> bool:
    """Whether a column of text has the levels of a category."""
    return text.nunique() <= min(MOST_LEVELS, max(len(text) / 2, 2))


def is_graded(cells: pd.Series) -> bool:
    """Whether all cells are 3 to 7 different whole numbers below 10, as grades are.

    >>> is_graded(pd.Series([0, 1, 2, 1])), is_graded(pd.Series([0, 1])), is_graded(pd.Series([1.5, 2, 3]))
    (True, False, False)
    """
    distinct = as_numbers(cells).dropna().unique()
    return 3 <= len(distinct) <= 7 and set(distinct.tolist()) <= set(range(10))


def mostly_numbers(raw: pd.DataFrame, names: Sequence[str]) -> list[str]:
    """Columns with text in a few cells only."""
    filled = {name: int(raw[name].notna().sum()) for name in names}
    return [
        name for name in names if filled[name] and as_numbers(raw[name]).notna().sum() > MOSTLY * filled[name]
    ]
