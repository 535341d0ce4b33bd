"""`viewloom init` on exports of databases: REDCap, NDA, PPMI."""

import numpy as np
import pandas as pd
import pytest

from viewloom.study.check import check
from viewloom.study.config.toml import parse_study
from viewloom.study.drafting.draft import draft
from viewloom.study.errors import StudyError
from viewloom.study.readers.tables import read_table

N = 20
MEASURES = [f"vol{n}" for n in range(4)]


def drafted(folder):
    return parse_study(draft(folder).text, folder / "study.toml")


def redcap(events, labels=False):
    """An export with repeated rows of medication, with or without events."""
    rng, rows = np.random.default_rng(0), []
    names = ["record_id", "redcap_event_name", "redcap_repeat_instrument", "redcap_repeat_instance"]
    for record in range(1, N + 1):
        for event in events:
            rows.append([record, event, "", "", *rng.normal(3, 1, 4).round(2), 2])
        rows += [[record, events[0], "medication", n, "", "", "", "", ""] for n in (1, 2)]
    frame = pd.DataFrame(rows, columns=[*names, *MEASURES, "mri_complete"])
    frame = frame if len(events) > 1 else frame.drop(columns="redcap_event_name")
    titles = {name: name.removeprefix("redcap_").replace("_", " ").title() for name in names}
    return frame.rename(columns=titles) if labels else frame


@pytest.mark.parametrize("events", [["baseline_arm_1", "month_12_arm_1"], [""]])
@pytest.mark.parametrize("labels", [True, False])
def test_repeated_instruments_of_redcap_are_no_subjects(tmp_path, events, labels):
    table = redcap(events, labels)
    table.to_csv(tmp_path / "export.csv", index=False)
    study = drafted(tmp_path)
    (view,) = study.views.values()
    assert view.rows
    assert "is missing" in view.rows
    assert not check(study).problems
    options = {"visit": view.visit} if len(events) > 1 else {}
    frame = read_table(tmp_path / "export.csv", id=view.id, rows=view.rows, exclude=view.exclude, **options)
    first = table.groupby(view.id, sort=False).first()
    kept = [name for name in MEASURES if name in frame]
    assert kept == MEASURES
    assert np.array_equal(frame[kept], first[kept].astype(float))
    assert labels or "mri_complete" not in frame


def test_the_message_for_repeated_instruments_names_the_condition(tmp_path):
    redcap([""]).to_csv(tmp_path / "export.csv", index=False)
    with pytest.raises(StudyError, match="set rows = 'redcap_repeat_instrument is missing'"):
        read_table(tmp_path / "export.csv", id="record_id")


def test_event_id_of_ppmi_is_the_visit(tmp_path):
    rng = np.random.default_rng(0)
    rows = [[3000 + n, event, *rng.normal(2, 0.3, 3)] for n in range(N) for event in ("SC", "BL", "V04")]
    names = ["PATNO", "EVENT_ID", "CAUDATE_R", "CAUDATE_L", "PUTAMEN_R"]
    pd.DataFrame(rows, columns=names).to_csv(tmp_path / "DaTScan.csv", index=False)
    (view,) = drafted(tmp_path).views.values()
    assert (view.id, view.visit) == ("PATNO", "BL")


def test_descriptions_of_nda_are_no_subject(tmp_path):
    rng = np.random.default_rng(0)
    names = ["subjectkey", "interview_age", "sex", "eventname", *MEASURES]
    told = ["The GUID of the subject", "Age in months", "Sex of the subject", "The event name"]
    rows = [
        [f"NDAR_INV{n:04d}", 110 + n, "MF"[n % 2], event, *rng.normal(3, 1, 4).round(3)]
        for n in range(N)
        for event in ("baseline_year_1_arm_1", "2_year_follow_up_y_arm_1")
    ]
    table = pd.DataFrame([[*told, *(f"Volume of {name}" for name in MEASURES)], *rows], columns=names)
    table.to_csv(tmp_path / "abcd_smrip10201.txt", sep="\t", index=False, quoting=1)
    found = check(drafted(tmp_path))
    assert not found.problems
    assert any("descriptions" in str(note) for note in found.notes)
