"""Studies with columns that have levels: types, preparation, runs, new subjects, reports."""

import json

import numpy as np
import pandas as pd
import pytest
from noted import texts
from numpy.testing import assert_allclose, assert_array_equal

from viewloom.data.mixed import MixedBlock
from viewloom.study import StudyError, check, read_study
from viewloom.study.cohort import load
from viewloom.study.preparation import Plan, Preparation
from viewloom.study.report import summarize
from viewloom.study.report.findings import findings
from viewloom.study.run import computations, predict, prepare, run_study

N = 90
TYPES = '[views.clinic.types]\napoe = "ordinal"\ngrade = ["low", "mid", "high"]\n'

REFUSED = {
    "order": ("grade = 'ordinal'", {}, "'grade' is ordinal, and the order of its 3 levels is not known"),
    "not listed": ("grade = ['low', 'high']", {}, "that types does not list; add them"),
    "binary": ("apoe = 'binary'", {}, "has 3 levels, and types says that it is binary"),
    "unknown": ("apo = 'nominal'", {}, "no feature matches 'apo' of types; did you mean 'apoe'"),
    "spelling": ("", {"smoker": ["yes", "Yes", "no"] * (N // 3)}, "several spellings of one level"),
    "ids": ("", {"code": [f"x{i}y" for i in range(N)]}, "'code' is not a number in 90 of 90 rows"),
    "remarks": ("", {"day": ["2020-01-02"] * N}, "'day' is a date"),
    "one": ("apoe = ['0']", {}, "needs at least two different levels"),
    "kind": ("apoe = 'number'", {}, "apoe"),
}


def cohort(seed=0, n=N):
    """Tables of three clusters with numbers, ordinal, binary and nominal columns."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3

    def noisy(share=0.15):
        return np.where(rng.random(n) < share, rng.integers(3, size=n), y)

    ids = pd.Index([f"s{i:03d}" for i in range(n)], name="id")
    clinic = pd.DataFrame(
        {
            "score": 2.0 * y + rng.normal(size=n),
            "weight": rng.normal(70.0, 9.0, size=n),
            "apoe": noisy(),
            "grade": np.array(["low", "mid", "high"])[noisy()],
            "smoker": np.where(rng.random(n) < 0.3 + 0.5 * (y == 1), "yes", "no"),
            "onset": np.array(["gait", "memory", "speech"])[noisy()],
        },
        ids,
    )
    mri = pd.DataFrame(rng.normal(size=(n, 4)) + 1.5 * y[:, None], ids, [f"r{j}" for j in range(4)])
    people = pd.DataFrame(
        {"age": rng.normal(70.0, 6.0, size=n).round(1), "dx": np.array(list("ABC"))[y]}, ids
    )
    return {"clinic": clinic, "mri": mri, "people": people}


def written(folder, tables, types=TYPES, more=""):
    folder.mkdir(exist_ok=True)
    for name, frame in tables.items():
        frame.to_csv(folder / f"{name}.csv")
    views = "".join(f'[views.{name}]\npath = "{name}.csv"\nid = "id"\n' for name in ("mri", "clinic"))
    people = '[participants]\npath = "people.csv"\nid = "id"\ndiagnosis = "dx"\ncovariates = ["age"]\n'
    (folder / "study.toml").write_text(people + views + types + more)
    return read_study(folder / "study.toml")


@pytest.fixture
def study(tmp_path):
    """Write a study of some tables; columns of the clinic can be changed."""

    def make(types=TYPES, more="", **columns):
        tables = cohort()
        tables["clinic"] = tables["clinic"].assign(**columns)
        return written(tmp_path / "study", tables, types, more)

    return make


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of the study, and its folder."""
    folder = tmp_path_factory.mktemp("mixed")
    patch = pytest.MonkeyPatch()
    patch.setattr(computations, "REFITS", 3)
    made = written(folder / "first", cohort(), more="[report]\ntwins = 3\nsplits = 1\n")
    results = run_study(made, folder / "run")
    patch.undo()
    return results, folder / "run"


class TestTypes:
    def test_check_shows_type_levels_and_source(self, study):
        found = check(study()).types.set_index("column")
        assert found["type"].to_dict() == {
            "apoe": "ordinal", "grade": "ordinal", "smoker": "binary", "onset": "nominal",
        }  # fmt: skip
        assert found["source"].to_dict() == {
            "apoe": "study.toml", "grade": "study.toml", "smoker": "text", "onset": "text",
        }  # fmt: skip
        counts = cohort()["clinic"]["grade"].value_counts()
        assert (
            found.loc["grade", "levels"]
            == f"low ({counts['low']}), mid ({counts['mid']}), high ({counts['high']})"
        )

    def test_the_block_of_the_model(self, study):
        views = load(study()).views
        block, raw = views["clinic"], cohort()["clinic"]
        assert isinstance(block, MixedBlock)
        assert [levels and levels.ordered for levels in block.levels] == [
            None,
            None,
            True,
            True,
            False,
            False,
        ]
        assert_array_equal(block.cells[:, 2], raw["apoe"])
        assert_array_equal(block.cells[:, 3], raw["grade"].map({"low": 0, "mid": 1, "high": 2}))

    @pytest.mark.parametrize(
        ("setting", "levels", "ordered"),
        [
            ("'nominal'", ["0", "1", "2"], False),
            ("[2, 1, 0]", ["2", "1", "0"], True),
            ("{ none = [0], some = [1, 2] }", ["none", "some"], False),
        ],
    )
    def test_settings(self, study, setting, levels, ordered):
        block = load(study(f"types = {{ 'ap*' = {setting} }}\n")).views["clinic"]
        assert block.levels[2].names == tuple(levels)
        assert block.levels[2].ordered is ordered
        assert_array_equal(np.isnan(block.cells[:, 2]), False)

    def test_a_declared_type_overrules_the_file(self, study, tmp_path):
        pytest.importorskip("pyarrow")
        made = study("types = { apoe = 'continuous' }\n")
        frame = cohort()["clinic"].astype({"apoe": str}).astype({"apoe": "category"})
        frame.reset_index().to_parquet(tmp_path / "study" / "clinic.parquet")
        path = tmp_path / "study" / "study.toml"
        path.write_text(path.read_text().replace("clinic.csv", "clinic.parquet"))
        assert load(read_study(path)).views["clinic"].levels[2] is None
        path.write_text(path.read_text().replace("apoe = 'continuous'", "grade = ['low', 'mid', 'high']"))
        assert load(read_study(path)).views["clinic"].levels[2].names == ("0", "1", "2")
        assert made.views["clinic"].types == {"apoe": "continuous"}

    @pytest.mark.parametrize(("types", "columns", "message"), REFUSED.values(), ids=REFUSED)
    def test_refused(self, study, types, columns, message):
        with pytest.raises(StudyError) as caught:
            load(study(f"types = {{ {types} }}\n" if types else "", **columns))
        assert message in str(caught.value)

    def test_codes_of_missing_levels(self, study):
        smoker = ["unknown", *cohort()["clinic"]["smoker"][1:]]
        made = study("missing_codes = ['unknown']\n", smoker=smoker)
        block = load(made).views["clinic"]
        assert block.levels[4].names == ("no", "yes")
        assert np.isnan(block.cells[0, 4])

    def test_a_copy_of_the_diagnosis_is_set_aside(self, study):
        made = study(stage=cohort()["people"]["dx"].map({"A": "early", "B": "middle", "C": "late"}).tolist())
        assert "stage" in check(made).aside["clinic"]


class TestPreparation:
    def test_levels_are_filled_by_type(self, study):
        clinic = cohort()["clinic"]
        made = study(
            smoker=clinic["smoker"].where(np.arange(N) > 3),
            grade=clinic["grade"].where(np.arange(N) > 4),
            score=clinic["score"].where(np.arange(N) > 5),
        )
        ready = prepare(made)
        block = ready.views["clinic"]
        assert not np.isnan(block.cells).any()
        known = clinic[5:]
        assert block.cells[0, 4] == (clinic["smoker"][4:].mode()[0] == "yes")
        order = known["grade"].map({"low": 0, "mid": 1, "high": 2}).sort_values().to_numpy()
        assert block.cells[0, 3] == order[len(order) // 2]
        assert block.cells[0, 0] == np.median(clinic["score"][6:])
        notes = texts(ready.check.notes)
        assert (
            "View 'clinic': 4 missing cells (4.4%) of 'smoker' filled with the most frequent level" in notes
        )
        assert "View 'clinic': 5 missing cells (5.6%) of 'grade' filled with the median level" in notes

    def test_covariates_are_removed_from_numbers_only(self, study):
        more = "[preparation]\nresidualise = ['age']\nresidualise_on = 'all'\n"
        ready, raw = prepare(study(more=more)), cohort()
        design = np.column_stack([np.ones(N), raw["people"]["age"]])
        values = raw["clinic"][["score", "weight"]].to_numpy()
        left = values - design @ np.linalg.lstsq(design, values, rcond=None)[0]
        assert_allclose(ready.views["clinic"].cells[:, :2] - values.mean(axis=0), left, atol=1e-8)
        assert_array_equal(ready.views["clinic"].cells[:, 2], raw["clinic"]["apoe"])
        assert any("4 columns with levels not residualised" in note for note in texts(ready.check.notes))

    def test_constant_columns_are_left_out(self, study):
        made = study("types = { apoe = 'ordinal' }\n", same=["a"] * N, flat=1.0)
        assert list(prepare(made).views.feature_names["clinic"]) == list(cohort()["clinic"].columns)

    def test_views_of_levels_only(self, tmp_path):
        tables = cohort()
        tables["clinic"] = tables["clinic"][["grade", "smoker", "onset"]]
        ready = prepare(written(tmp_path / "a", tables, ""))
        assert ready.views["clinic"].numeric == []

    def test_severity_changes_numbers_only(self, study):
        ready = prepare(study(more="[cluster]\nremove_severity = 'common'\n"))
        score = np.corrcoef(ready.views["clinic"].cells[:, 0], np.arange(N) % 3)[0, 1]
        assert abs(score) < 0.6
        assert_array_equal(ready.views["clinic"].cells[:, 2], cohort()["clinic"]["apoe"])

    @pytest.mark.parametrize("impute", ["median", "knn"])
    def test_stored_bit_for_bit(self, study, impute):
        data = load(study())
        fitted = Preparation.fit(data.views, data.participants, Plan(impute=impute))
        settings = json.loads(json.dumps(fitted.settings()))
        again = Preparation.from_arrays(settings, fitted.to_arrays())
        one, other = (made.transform(data.views, data.participants)["clinic"] for made in (fitted, again))
        assert_array_equal(one.cells, other.cells)
        assert one.levels == other.levels

    def test_rare_levels_are_told(self, study):
        onset = [*(["rare"] * 2), *(["odd"] * 2), *cohort()["clinic"]["onset"][4:]]
        notes = texts(prepare(study(onset=onset)).check.notes)
        assert "View 'clinic': 2 rare levels of 'onset' pooled as one" in notes


class TestRuns:
    def test_clusters_and_importance(self, run):
        results, folder = run
        table = pd.read_csv(folder / "labels.csv")
        agreement = pd.crosstab(table["label"], np.arange(N) % 3).max(axis=1).sum() / N
        assert agreement > 0.9
        assert sorted(results.importance["clinic"]["feature"]) == sorted(cohort()["clinic"].columns)
        assert results.importance["clinic"]["feature"].iloc[-1] == "weight"

    def test_features_with_levels_have_q(self, run):
        found = run[0].feature_tests["clinic"].set_index("feature")["q"]
        assert found[["apoe", "grade", "onset", "score"]].max() < 0.05
        assert found["weight"] > 0.05

    def test_new_subjects_in_another_spelling_and_order(self, run, tmp_path):
        tables = cohort(1, 30)
        plain = predict(run[1], written(tmp_path / "a", tables))
        clinic = tables["clinic"].assign(smoker=tables["clinic"]["smoker"].str.upper())
        other = written(tmp_path / "b", {**tables, "clinic": clinic[clinic.columns[::-1]]}, "")
        again = predict(run[1], other)
        assert_allclose(again["membership_0"], plain["membership_0"], atol=1e-9)
        assert any(
            "2 levels of 'smoker' matched with another spelling" in n for n in texts(again.attrs["notes"])
        )

    @pytest.mark.filterwarnings("error")
    def test_unseen_levels_are_counted_and_not_named(self, run, tmp_path):
        tables = cohort(1, 30)
        tables["clinic"]["onset"] = ["secret"] * 2 + tables["clinic"]["onset"].tolist()[2:]
        notes = texts(predict(run[1], written(tmp_path / "a", tables)).attrs["notes"])
        unseen = "2 subjects have a level of 'onset' that is not in the training data, and counts as its mean"
        assert f"View 'clinic': {unseen}" in notes
        assert not any("secret" in note for note in notes)

    def test_levels_in_another_coding_are_refused(self, run, tmp_path):
        tables = cohort(1, 30)
        tables["clinic"]["onset"] = tables["clinic"]["onset"].map({"gait": 1, "memory": 2, "speech": 3})
        spelled = "types = { onset = { gait = [1], memory = [2], speech = [3] } }\n"
        with pytest.raises(StudyError, match="'onset' has none of the levels of the training data, 'gait'"):
            predict(run[1], written(tmp_path / "a", tables, ""))
        plain = predict(run[1], written(tmp_path / "b", cohort(1, 30)))
        again = predict(run[1], written(tmp_path / "c", tables, spelled))
        assert_allclose(again["membership_0"], plain["membership_0"], atol=1e-9)

    def test_a_single_new_subject(self, run, tmp_path):
        tables = {name: frame[:1] for name, frame in cohort(1, 30).items()}
        assert len(predict(run[1], written(tmp_path / "a", tables))) == 1

    def test_text_where_the_model_has_numbers_is_refused(self, run, tmp_path):
        tables = cohort(1, 30)
        tables["clinic"]["score"] = ["low", "high"] * 15
        with pytest.raises(StudyError, match="'score' is not a number"):
            predict(run[1], written(tmp_path / "a", tables, ""))


class TestReport:
    def test_shares_of_levels(self, run):
        results, _ = run
        labels, clinic = results.model.labels_, cohort()["clinic"]
        table = findings(results).levels["clinic"]
        counts = pd.crosstab(clinic["apoe"], labels)
        for level, row in counts.iterrows():
            for j, count in row.items():
                cell = table.loc[("apoe", str(level)), str(j)]
                if count < results.min_cell:
                    assert not hasattr(cell, "value") or cell.share is None
                elif cell.share is not None:
                    assert_allclose(cell.share, count / counts[j].sum())

    def test_small_counts_of_levels_are_hidden_and_not_recoverable(self, run):
        results, _ = run
        table = findings(results).levels["clinic"]
        labels = results.model.labels_
        for feature in table.index.get_level_values("variable").unique():
            counts = pd.crosstab(cohort()["clinic"][feature].astype(str), labels)
            shown = table.loc[feature].drop(columns="all").map(lambda cell: cell.share is not None)
            small = (counts < results.min_cell).reindex(shown.index).to_numpy()
            assert not (shown.to_numpy() & small).any()
            hidden = ~shown.to_numpy()
            assert not (hidden.sum(axis=0) == 1).any()  # a row or column with one hidden cell gives it away
            assert not (hidden.sum(axis=1) == 1).any()

    def test_no_mean_where_a_count_is_hidden(self, run):
        found = findings(run[0])
        means, table = found.profiles["clinic"], found.levels["clinic"]
        assert "smoker = yes" in means.index
        assert means.loc["onset"].isna().all()
        for name, feature in (("smoker = yes", "smoker"), ("apoe", "apoe"), ("grade", "grade")):
            hidden = table.loc[feature].drop(columns="all").map(lambda cell: cell.share is None).any()
            assert means.loc[name][hidden.to_numpy()].isna().all()

    def test_the_summary_has_the_table(self, run):
        summary = summarize(run[0])
        (table,) = [one for one in summary["tables"] if one["caption"] == "Levels of clinic"]
        assert {row[0]["text"] for row in table["rows"]} == {"apoe", "grade", "smoker", "onset"}
