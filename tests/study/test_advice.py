"""What the messages of a check suggest, as data: written to the study, the problem is gone."""

import pickle

import numpy as np
import pandas as pd
import pytest
from small import STUDY, write_small

from viewloom.study import StudyError, check, read_study
from viewloom.study.advice import advice
from viewloom.study.config.editing import edited
from viewloom.study.errors import Message, Suggestion


def checked(folder):
    return check(read_study(folder / "study.toml"))


def suggested(found):
    """Messages of a check with what they suggest."""
    return advice([*found.problems, *found.notes])


def applied(folder, message, number=0):
    """The study with what a message suggests."""
    path = folder / "study.toml"
    chosen = suggested(checked(folder))[message][number]
    path.write_text(edited(path.read_text(), chosen.changes))
    return checked(folder)


def with_codes(folder, name, column):
    frame = pd.read_csv(folder / name)
    frame[column] = np.where(np.arange(len(frame)) < 3, -999.0, frame[column])
    frame.to_csv(folder / name, index=False)


CODES = [
    ("vbm.csv", "LHippocampus", "", ["views", "vbm"], {"missing_codes": [-999]}),
    ("participants.csv", "age", "", ["participants"], {"missing_codes": [-999]}),
    ("vbm.csv", "LHippocampus", "missing_codes = { 'R*' = [-4] }", ["views", "vbm"],
     {"missing_codes": {"R*": [-4], "LHippocampus": [-999]}}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "column", "given", "block", "settings"), CODES)
@pytest.mark.parametrize("number", [0, 1])
def test_missing_codes(tmp_path, name, column, given, block, settings, number):
    write_small(tmp_path, STUDY.replace("[views.fdg]", f"{given}\n[views.fdg]"))
    with_codes(tmp_path, name, column)
    [(problem, found)] = suggested(checked(tmp_path)).items()
    assert [one.block for one in found] == [block, block]
    assert found[0].settings == settings
    assert [one.condition for one in found] == ["", "if it is a value"]
    assert applied(tmp_path, problem, number).ok


def test_ids_of_another_spelling(tmp_path):
    write_small(tmp_path)
    frame = pd.read_csv(tmp_path / "vbm.csv")
    frame["participant_id"] = frame["participant_id"].str.removeprefix("sub-")
    frame.to_csv(tmp_path / "vbm.csv", index=False)
    found = suggested(checked(tmp_path))
    assert [one.block for lines in found.values() for one in lines] == [["ids"]] * 2  # problem and note
    for message in found:
        assert applied(tmp_path, message).ok
        write = tmp_path / "study.toml"
        write.write_text(STUDY)


@pytest.mark.parametrize(
    ("cells", "settings"),
    [("1,5", {"decimal": ","}), ("1.234,5", {"decimal": ",", "thousands": "."})],
)
def test_notation(tmp_path, cells, settings):
    write_small(tmp_path)
    frame = pd.read_csv(tmp_path / "vbm.csv", dtype=str)
    frame["LHippocampus"] = [cells.replace("5", str(i % 7)) for i in range(len(frame))]
    frame.to_csv(tmp_path / "vbm.csv", index=False, sep=";")
    path = tmp_path / "study.toml"
    path.write_text(path.read_text().replace('"vbm.csv"\n', '"vbm.csv"\ndecimal = "."\n'))
    found = suggested(checked(tmp_path))
    assert settings in [one.settings for lines in found.values() for one in lines]


def test_wording_is_not_read():
    """A message that merely quotes a line suggests nothing."""
    assert advice(["view 'vbm': a.csv: -4; set missing_codes = [-4]."]) == {}
    nowhere = Message("a.csv: -4", Suggestion({"missing_codes": [-4]}))
    assert advice([nowhere]) == {}  # no block is known


def test_lines_of_errors():
    """Suggestions stay with their lines, also in errors of other processes."""
    one = Message("first; set match", Suggestion({"match": "adni"}, block=("ids",)))
    error = pickle.loads(pickle.dumps(StudyError(one, "second\nthird")))
    assert str(error) == "first; set match\nsecond\nthird"
    assert error.lines == ["first; set match", "second", "third"]
    assert [len(line.suggestions) for line in error.lines] == [1, 0, 0]
    assert one.within("views", "mri").suggestions == one.suggestions
