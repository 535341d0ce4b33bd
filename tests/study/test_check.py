"""What is told of a study before anything runs, and its picture."""

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot
from noted import texts

from viewloom.study.check import check
from viewloom.study.cohort import load
from viewloom.study.config.toml import read_study
from viewloom.study.overlaps import MOST, overlaps
from viewloom.study.preparation.fitted import Plan, Preparation

N = 20
IDS = [f"S{j:02d}" for j in range(N)]
STUDY = """
[study]
name = "small"
[participants]
path = "people.csv"
id = "id"
diagnosis = "dx"
site = "site"
[views.mri]
path = "mri.csv"
id = "id"
[views.pet]
path = "pet.csv"
id = "id"
[views.snp]
path = "snp.csv"
id = "id"
[preparation]
harmonise = "combat"
"""


@pytest.fixture
def files(tmp_path):
    """mri: everyone, 3 cells missing, one constant column; pet: the first 12; snp: 10 to 19."""
    rng = np.random.default_rng(0)
    mri = pd.DataFrame(rng.normal(size=(N, 3)), columns=["a", "b", "fixed"])
    mri["fixed"] = 4.0
    mri.loc[[0, 1], "a"] = mri.loc[5, "fixed"] = np.nan
    pet, snp = (pd.DataFrame(rng.normal(size=(n, 2)), columns=["x", "y"]) for n in (12, 10))
    people = pd.DataFrame({"dx": ["CN"] * 9 + ["AD"] * 10, "site": [1] * 10 + [2] * 6 + [3] * 3})
    tables = {"mri": (mri, IDS), "pet": (pet, IDS[:12]), "snp": (snp, IDS[10:]), "people": (people, IDS[:19])}
    for name, (frame, ids) in tables.items():
        frame.set_axis(pd.Index(ids, name="id"), axis=0).to_csv(tmp_path / f"{name}.csv")
    (tmp_path / "study.toml").write_text(STUDY)
    return tmp_path


@pytest.fixture
def found(files):
    return check(read_study(files / "study.toml"))


class TestCheck:
    def test_sizes_and_missing_cells(self, found):
        assert (found.name, found.n_subjects, found.ok) == ("small", 20, True)
        assert found.views["subjects"].to_dict() == {"mri": 20, "pet": 12, "snp": 10}
        assert found.views["features"].to_dict() == {"mri": 3, "pet": 2, "snp": 2}
        assert found.views["missing"].to_dict() == {"mri": 3, "pet": 0, "snp": 0}
        assert found.views.loc["mri", "missing_share"] == 3 / 60
        assert found.constant == {"mri": ["fixed"]}

    def test_overlaps_count_everyone_once(self, found):
        assert found.overlaps.index.names == ["mri", "pet", "snp"]
        assert found.overlaps.to_dict() == {
            (True, True, False): 10,
            (True, False, True): 8,
            (True, True, True): 2,
        }
        assert found.overlaps.to_list() == [10, 8, 2]

    def test_sites_and_diagnoses(self, found):
        assert found.diagnoses == {"AD": 10, "CN": 9, "not given": 1}
        assert found.sites["subjects"].to_dict() == {"1": 10, "2": 6, "3": 3, "not given": 1}
        assert found.sites["snp"].to_dict() == {"1": 0, "2": 6, "3": 3, "not given": 1}

    def test_what_fit_leaves_out_is_told(self, found, files):
        study = read_study(files / "study.toml")
        data = load(study)
        assert texts(found.notes) == [
            "1 subject of the views is not among participants",
            *texts(Preparation.fit(data.views, data.participants, Plan(**study.plan)).notes),
        ]
        assert "View 'mri': 1 column with a single value left out: 'fixed'" in texts(found.notes)
        assert "View 'mri': 3 subjects of 1 site with fewer than 5, not harmonised" in texts(found.notes)

    def test_columns_without_any_value_are_told(self, files):
        lines = (files / "pet.csv").read_text().splitlines()
        (files / "pet.csv").write_text("\n".join([lines[0] + ",z", *(line + "," for line in lines[1:])]))
        found = check(read_study(files / "study.toml"))
        assert found.ok
        assert str(found.notes[0]) == "view 'pet': 1 column without any value left out: 'z'"
        assert found.views.loc["pet", "features"] == 2

    def test_problems_do_not_hide_the_rest(self, files):
        lines = (files / "pet.csv").read_text().splitlines()
        (files / "pet.csv").write_text("\n".join([*lines, lines[1], lines[2]]))
        found = check(read_study(files / "study.toml"))
        (problem,) = found.problems
        assert not found.ok
        assert "2 rows with a duplicate id" in problem
        assert found.views.index.tolist() == ["mri", "snp"]
        assert list(found.overlaps.items()) == [((True, True), 10), ((True, False), 10)]

    def test_a_study_without_participants_and_one_view(self, files):
        (files / "study.toml").write_text("[views.mri]\npath = 'mri.csv'\nid = 'id'")
        found = check(read_study(files / "study.toml"))
        assert found.overlaps.to_dict() == {(True,): 20}
        assert found.sites.empty
        assert found.diagnoses == {}

    def test_nothing_can_be_read(self, files):
        for name in ("mri", "pet", "snp", "people"):
            (files / f"{name}.csv").write_text("id,a\n")
        found = check(read_study(files / "study.toml"))
        assert (len(found.problems), found.n_subjects, len(found.views), len(found.overlaps)) == (4, 0, 0, 0)
        assert overlaps(found).get_title(loc="left") == "No view could be read"


class TestPicture:
    @pytest.fixture(autouse=True)
    def close(self):
        yield
        pyplot.close("all")

    def test_bars_numbers_and_names(self, found):
        ax = overlaps(found)
        heights = np.array([bar.get_height() for bar in ax.patches if bar.get_width() < 1.0])
        np.testing.assert_allclose(heights / heights.max(), [1.0, 0.8, 0.2])
        assert [text.get_text() for text in ax.texts] == ["10", "8", "2"]
        assert [label.get_text() for label in ax.get_yticklabels()] == [
            "mri (n=20)",
            "pet (n=12)",
            "snp (n=10)",
        ]
        assert ax.get_title(loc="left") == "2 of 20 subjects (10%) have every view"

    def test_axes_of_the_caller_and_many_patterns(self, found):
        index = pd.MultiIndex.from_product([[True, False]] * 5, names=list("abcde"))[:-1]
        many = pd.Series(np.arange(len(index), 0, -1), index, name="subjects")
        views = pd.DataFrame({"subjects": [5] * 5}, index=list("abcde"))
        own = pyplot.subplots()[1]
        ax = overlaps(
            type(found)(**{**vars(found), "overlaps": many, "views": views, "n_subjects": 496}), own
        )
        assert ax is own
        assert len(ax.texts) == MOST
        assert ax.get_xlabel() == "11 more combinations with 66 subjects are not drawn"
