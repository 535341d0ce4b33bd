"""Lines that the messages of a check suggest: written to the study, the problem is gone."""

import numpy as np
import pandas as pd
import pytest
from small import write_small

from viewloom.study import check, read_study
from viewloom.study.advice import advice
from viewloom.study.config.editing import edited


def applied(folder, message, number=0):
    """The study with the line that a message suggests."""
    path = folder / "study.toml"
    lines = advice(message, read_study(path))
    path.write_text(edited(path.read_text(), lines[number].changes))
    return check(read_study(path))


def with_codes(folder, name, column):
    frame = pd.read_csv(folder / name)
    frame[column] = np.where(np.arange(len(frame)) < 3, -999.0, frame[column])
    frame.to_csv(folder / name, index=False)


@pytest.mark.parametrize(("name", "column"), [("vbm.csv", "LHippocampus"), ("participants.csv", "age")])
def test_missing_codes(tmp_path, name, column):
    write_small(tmp_path)
    with_codes(tmp_path, name, column)
    [problem] = check(read_study(tmp_path / "study.toml")).problems
    found = advice(problem, read_study(tmp_path / "study.toml"))
    assert found[0].text == "missing_codes = [-999]"
    assert [one.condition for one in found] == ["", "if it is a value"]
    assert applied(tmp_path, problem).ok


def test_ids_of_another_spelling(tmp_path):
    write_small(tmp_path)
    frame = pd.read_csv(tmp_path / "vbm.csv")
    frame["participant_id"] = frame["participant_id"].str.removeprefix("sub-")
    frame.to_csv(tmp_path / "vbm.csv", index=False)
    problems = check(read_study(tmp_path / "study.toml")).problems
    message = next(line for line in problems if "under [ids]" in line)
    assert applied(tmp_path, message).ok


@pytest.mark.parametrize(
    "message",
    ["view 'vbm': nothing to do.", "view 'other': x; set missing_codes = [-4].",
     "participants: set nothing = 1.", "view 'vbm': set missing_codes = [-4", "a.csv: set decimal = ','."],
)  # fmt: skip
def test_no_line_without_a_place(tmp_path, message):
    write_small(tmp_path)
    assert advice(message, read_study(tmp_path / "study.toml")) == []
