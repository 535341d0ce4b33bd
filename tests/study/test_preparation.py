"""Preparation: what is learned from training subjects, stored, and applied to others."""

import json
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from noted import texts
from sklearn.impute import KNNImputer
from sklearn.metrics import adjusted_rand_score

from viewloom import KernelMultiviewNMF, Views
from viewloom.data import simulated as simulate
from viewloom.study.errors import StudyError
from viewloom.study.preparation.fitted import Plan, Preparation

PEOPLE = {"residualise": ["age", "sex", "icv"], "diagnosis": "dx", "controls": "CN"}
SITES = {"harmonise": "combat", "site": "site"}


def cohort(n=120, seed=0, holes=0.05):
    """Two views with holes and absent rows that depend on age, sex, head size and site; a genotype view."""
    rng = np.random.default_rng(seed)
    ids = pd.Index([f"s{i:03d}" for i in range(n)], name="id")
    people = pd.DataFrame(
        {
            "age": rng.normal(72, 7, n),
            "sex": rng.choice(["F", "M"], n),
            "icv": rng.normal(1.5e6, 1.2e5, n),
            "dx": rng.choice(["CN", "MCI", "AD"], n),
            "site": rng.choice([11.0, 22.0, 35.0], n),
        },
        index=ids,
    )
    effect = 0.1 * (people["age"] - 72) + (people["sex"] == "M") + (people["icv"] - 1.5e6) / 1e5
    base = effect.to_numpy()[:, None] + 0.05 * people["site"].to_numpy()[:, None]
    mri, pet = base + rng.standard_normal((n, 6)), 5 - base + rng.standard_normal((n, 4))
    snp = rng.integers(0, 3, (n, 5)).astype(float)
    for X in (mri, pet, snp):
        X[rng.random(X.shape) < holes] = np.nan
    mri[: n // 10], pet[-n // 10 :] = np.nan, np.nan
    frames = {
        "mri": pd.DataFrame(mri, index=ids).add_prefix("roi"),
        "pet": pd.DataFrame(pet, index=ids).add_prefix("suvr"),
        "snp": pd.DataFrame(snp, index=ids).add_prefix("rs"),
    }
    return Views(frames, ids=ids, allow_nan=True), people


def one_view(values, **columns):
    frame = pd.DataFrame(values)
    return Views({"mri": frame.add_prefix("f")}, allow_nan=True), pd.DataFrame(columns)


def same(left, right):
    assert left.names == right.names
    assert {k: list(v) for k, v in left.feature_names.items()} == {
        k: list(v) for k, v in right.feature_names.items()
    }
    np.testing.assert_array_equal(left.present, right.present)
    for X, Y in zip(left.blocks, right.blocks, strict=True):
        np.testing.assert_array_equal(X, Y)


PLANS = {
    "median": Plan(),
    "knn": Plan(impute="knn", n_neighbors=3),
    "residuals": Plan(**PEOPLE, genotypes=["snp"]),
    "all": Plan(impute="knn", **PEOPLE, **SITES, genotypes=["snp"], standardise=True),
}


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
class TestEveryPlan:
    def test_no_nan_in_observed_rows_and_absent_views_stay_absent(self, plan):
        views, people = cohort()
        prepared = Preparation.fit(views, people, plan).transform(views, people)
        np.testing.assert_array_equal(prepared.present, views.present)
        for a, X in enumerate(prepared.blocks):
            assert np.isfinite(X[views.rows(a)]).all()
            assert np.isnan(np.delete(X, views.rows(a), axis=0)).all()
        assert prepared.names == views.names
        assert prepared.ids.equals(views.ids)
        assert list(prepared.feature_names["pet"]) == list(views.feature_names["pet"])

    def test_nothing_leaks_from_other_subjects(self, plan):
        """Training subjects come out the same whoever else is there, and whatever they look like."""
        views, people = cohort()
        train = np.arange(80)
        fitted = Preparation.fit(views[train], people.iloc[train], plan)
        wild = np.where(np.arange(120) < 80, 1.0, 1e3)[:, None]
        frames = {
            name: pd.DataFrame(X * wild, columns=views.feature_names[name]) for name, X in views.items()
        }
        wild = Views(frames, ids=views.ids, allow_nan=True)
        alone = fitted.transform(views[train], people.iloc[train])
        beside = fitted.transform(wild, people)[train]
        for X, Y in zip(alone.blocks, beside.blocks, strict=True):
            np.testing.assert_allclose(X, Y, rtol=1e-12, atol=1e-12)

    def test_round_trip_is_exact(self, plan, tmp_path):
        safetensors = pytest.importorskip("safetensors.numpy")
        views, people = cohort()
        fitted = Preparation.fit(views, people, plan)
        safetensors.save_file(fitted.to_arrays(), tmp_path / "p.safetensors")
        settings = json.loads(json.dumps(fitted.settings()))
        restored = Preparation.from_arrays(settings, safetensors.load_file(tmp_path / "p.safetensors"))
        same(fitted.transform(views, people), restored.transform(views, people))
        assert restored.settings() == {**fitted.settings(), "notes": []}
        assert all(X.dtype.kind in "bif" for X in fitted.to_arrays().values())

    def test_says_whether_training_rows_are_held(self, plan):
        """And where it says no, nothing stored has a row per subject."""
        views, people = cohort()
        fitted = Preparation.fit(views, people, plan)
        held = any(X.shape[:1] >= (100,) for X in fitted.to_arrays().values())
        assert fitted.settings()["holds_training_rows"] == held == (plan.impute == "knn")

    def test_notes_hold_counts_never_ids(self, plan):
        views, people = cohort()
        people.loc[people.index[:7], "age"] = np.nan
        fitted = Preparation.fit(views, people, plan)
        text = " ".join(texts(fitted.notes + fitted.remarks(views, people)))
        assert not any(name in text for name in views.ids)
        assert ("7 subjects without a covariate" in text) == bool(plan.residualise)


class TestImputation:
    def test_median_of_observed_rows(self):
        views, _ = one_view([[1.0, 5.0], [2.0, np.nan], [9.0, 6.0], [np.nan, 8.0]])
        X = Preparation.fit(views).transform(views)["mri"]
        np.testing.assert_array_equal(X, [[1, 5], [2, 6], [9, 6], [2, 8]])

    def test_knn_is_scikit_learns_on_standardised_features(self):
        views, people = cohort()
        X = views["mri"][views.rows(0)]
        centre, spread = np.nanmean(X, axis=0), np.nanstd(X, axis=0)
        expected = KNNImputer(n_neighbors=3).fit_transform((X - centre) / spread) * spread + centre
        found = Preparation.fit(views, people, PLANS["knn"]).transform(views)["mri"][views.rows(0)]
        np.testing.assert_allclose(found, expected, rtol=1e-12)
        known = ~np.isnan(X)
        np.testing.assert_array_equal(found[known], X[known])

    def test_missing_calls_get_the_mean_dosage(self):
        views, _ = one_view([[0.0, 2.0], [1.0, np.nan], [2.0, 1.0], [2.0, 0.0]])
        X = Preparation.fit(views, None, Plan(genotypes=["mri"])).transform(views)["mri"]
        assert X[1, 1] == 1.0
        new = Views({"mri": pd.DataFrame({"f0": [np.nan], "f1": [2.0]})}, allow_nan=True)
        assert Preparation.fit(views, None, Plan(genotypes=["mri"])).transform(new)["mri"][0, 0] == 1.25

    def test_codes_of_missing_calls_are_not_genotypes(self):
        views, _ = one_view([[0.0, 2.0], [1.0, -9.0], [2.0, 1.0]])
        with pytest.raises(StudyError, match=r"View 'mri': 1 value outside 0 to 2"):
            Preparation.fit(views, None, Plan(genotypes=["mri"]))

    def test_genotypes_are_neither_harmonised_nor_residualised(self):
        views, people = cohort(holes=0.0)
        prepared = Preparation.fit(views, people, Plan(**PEOPLE, **SITES, genotypes=["snp"]))
        np.testing.assert_array_equal(prepared.transform(views, people)["snp"], views["snp"])

    def test_float32_stays(self):
        views = Views({"mri": np.array([[1, 2], [np.nan, 3], [2, 5]], dtype=np.float32)}, allow_nan=True)
        assert Preparation.fit(views).transform(views)["mri"].dtype == np.float32


class TestColumns:
    def test_constant_and_empty_columns_go_with_their_names(self):
        views, _ = one_view([[1.0, 5.0, np.nan], [2.0, 5.0, np.nan], [3.0, np.nan, np.nan]])
        fitted = Preparation.fit(views)
        assert list(fitted.transform(views).feature_names["mri"]) == ["f0"]
        assert texts(fitted.notes) == [
            "View 'mri': 1 column without any value left out: 'f2'",
            "View 'mri': 1 column with a single value left out: 'f1'",
        ]

    def test_a_column_that_is_a_covariate_goes(self):
        views, people = cohort(holes=0.0)
        frames = {"fs": pd.DataFrame(views["pet"], index=views.ids).add_prefix("f")}
        frames["fs"]["eTIV"] = people["icv"] / 1e6
        views = Views(frames, ids=people.index, allow_nan=True)[np.arange(100)]
        fitted = Preparation.fit(views, people.iloc[:100], Plan(**PEOPLE, standardise=True))
        assert "eTIV" not in fitted.transform(views, people.iloc[:100]).feature_names["fs"]
        assert "View 'fs': 1 column fully explained by the covariates: 'eTIV'" in texts(fitted.notes)
        assert "View 'fs': 1 column with a single value left out: 'eTIV'" in texts(fitted.notes)

    def test_who_has_only_dropped_columns_lacks_the_view(self):
        frames = {"a": [[1.0, 7.0], [2.0, 7.0], [np.nan, 7.0]], "b": [[1.0], [2.0], [3.0]]}
        views = Views(frames, allow_nan=True)
        fitted = Preparation.fit(views)
        assert fitted.transform(views).present[:, 0].tolist() == [True, True, False]
        assert texts(fitted.remarks(views)) == [
            "View 'a': 1 subject without a value in the columns that are kept"
        ]
        with pytest.raises(StudyError, match="1 subject without a value in any column that is kept"):
            fitted.transform(Views({"a": [[np.nan, 7.0]]}, allow_nan=True))

    def test_a_view_without_a_varying_column(self):
        views = Views({"a": np.ones((3, 2)), "b": np.eye(3)})
        with pytest.raises(
            StudyError, match=r"View 'a': all of its 2 columns are constant among the 3 subjects"
        ):
            Preparation.fit(views)


class TestResiduals:
    @pytest.mark.parametrize("who", ["controls", "all"])
    def test_uncorrelated_with_the_covariates_where_they_were_fitted(self, who):
        views, people = cohort()
        plan = Plan(residualise=["age", "sex", "icv"], residualise_on=who, diagnosis="dx", controls="CN")
        X = Preparation.fit(views, people, plan).transform(views, people)["mri"]
        rows = views.present[:, 0] & ((people["dx"] == "CN").to_numpy() | (who == "all"))
        for c in (people["age"], people["sex"] == "M", people["icv"]):
            c = c.to_numpy(dtype=float)[rows]
            assert (
                np.abs((c - c.mean()) @ (X[rows] - X[rows].mean(axis=0))).max() < 1e-8 * rows.sum() * c.std()
            )

    def test_equals_least_squares_written_out(self):
        """Three categories, a subject without sex, one without age: mode and mean."""
        rng = np.random.default_rng(0)
        age, sex = rng.normal(70, 5, 40), np.array(["F", "F", "M", "X"] * 10, dtype=object)
        Y = rng.standard_normal((40, 2))
        given = pd.DataFrame({"age": age, "sex": sex})
        given.loc[3, "sex"], given.loc[5, "age"] = None, np.nan
        views = Views({"mri": Y}, allow_nan=True)
        fitted = Preparation.fit(views, given, Plan(residualise=["age", "sex"], residualise_on="all"))
        age[5], sex[3] = given["age"].mean(), "F"
        D = np.column_stack([age, sex == "M", sex == "X"]).astype(float)
        D -= D.mean(axis=0)
        expected = Y - D @ np.linalg.lstsq(D, Y - Y.mean(axis=0), rcond=None)[0]
        np.testing.assert_allclose(fitted.transform(views, given)["mri"], expected, atol=1e-10)
        assert texts(fitted.notes) == [
            "2 subjects without a covariate, replaced by its mean or most frequent value"
        ]

    def test_a_category_not_seen_in_training_is_counted(self):
        views, people = cohort()
        fitted = Preparation.fit(views, people, Plan(**PEOPLE))
        people = people.copy()
        people.loc[people.index[:4], "sex"] = "unknown"
        assert texts(fitted.remarks(views, people)) == [
            "4 subjects without a covariate, replaced by its mean or most frequent value",
            "4 subjects have a level of 'sex' that is not in the training data",
        ]

    def test_other_spellings_of_a_level_are_refused(self):
        views, people = cohort()
        fitted = Preparation.fit(views, people, Plan(**PEOPLE))
        for new, said in ({"F": " f"}, "levels 'f'"), ({"F": "1", "M": "2"}, "none of the training levels"):
            with pytest.raises(StudyError, match=said):
                fitted.remarks(views, people.assign(sex=people["sex"].replace(new)))

    def test_text_where_training_had_numbers_is_refused(self):
        views, people = cohort()
        fitted = Preparation.fit(views, people, Plan(**PEOPLE))
        people = people.assign(age=["90+", *people["age"][1:]])
        with pytest.raises(StudyError, match="'age' is numeric in training but not for 1 subject;"):
            fitted.remarks(views, people)

    def test_covariates_of_very_different_size(self):
        """Head size in cubic millimetres beside sex: least squares stays well conditioned."""
        views, people = cohort(400)
        X = Preparation.fit(views, people, Plan(**PEOPLE)).transform(views, people)["mri"]
        rows = views.present[:, 0]
        assert abs(np.corrcoef(people["icv"][rows], X[rows, 0])[0, 1]) < 0.1
        assert abs(np.corrcoef(people["icv"][rows], np.nan_to_num(views["mri"][rows, 0]))[0, 1]) > 0.5

    def test_codes_of_controls_are_text_or_numbers(self):
        views, people = cohort()
        people["code"] = people["dx"].map({"CN": 0.0, "MCI": 1.0, "AD": np.nan})
        settings = {"residualise": ["age"], "diagnosis": "code"}
        by_code = Preparation.fit(views, people, Plan(**settings, controls="0"))
        by_name = Preparation.fit(views, people, Plan(residualise=["age"], diagnosis="dx", controls=["CN"]))
        same(by_code.transform(views, people), by_name.transform(views, people))

    @pytest.mark.parametrize(
        ("plan", "message"),
        [
            (
                {"controls": "Normal"},
                r"View 'mri': 0 controls have it.*20 are needed.*residualise_on = 'all'",
            ),
            ({"residualise": ["agee"]}, r"has 0 columns 'agee' among 'age'"),
            ({"residualise": ["empty"]}, r"Covariate 'empty' has no value among 120 subjects"),
            ({"residualise": ["date"]}, r"Covariate 'date' is text with 120 distinct values"),
            ({"diagnosis": "DX"}, r"has 0 columns 'DX'"),
        ],
    )
    def test_mistakes(self, plan, message):
        views, people = cohort()
        people["empty"], people["date"] = np.nan, [f"2010-{i}" for i in range(120)]
        with pytest.raises(StudyError, match=message):
            Preparation.fit(views, people, Plan(**{**PEOPLE, **plan}))

    def test_two_columns_of_one_name(self):
        views, people = cohort()
        twice = pd.concat([people, people[["age"]]], axis=1)
        with pytest.raises(StudyError, match="has 2 columns 'age'"):
            Preparation.fit(views, twice, Plan(**PEOPLE))


def planted(n=120, seed=0):
    """Two kinds of patients who differ in features that no control varies in, beside noise; and people."""
    rng = np.random.default_rng(seed)
    kind = np.repeat([0, 1, 2], n // 3)
    people = pd.DataFrame(
        {
            "age": rng.normal(72, 7, n).round(1),
            "sex": rng.choice(["F", "M"], n),
            "dx": np.array(["CN", "AD", "AD"])[kind],
            "site": rng.choice(["a", "b"], n),
        }
    )
    cdr = np.where(kind[:, None] == 0, 0.1, kind[:, None] + 0.5 * rng.random((n, 4)))
    cdr[:, 2:] *= np.where(kind[:, None] == 1, -1.0, 1.0)
    noise = 0.1 * (people["age"].to_numpy() - 72)[:, None] + rng.standard_normal((n, 2))
    return pd.DataFrame(np.hstack([cdr, noise]), columns=["c0", "c1", "c2", "c3", "n0", "n1"]), people, kind


class TestConstantAmongControls:
    """Features that do not vary among controls are those that tell most of a disease."""

    SETTINGS: ClassVar = {"residualise": ["age", "sex"], "diagnosis": "dx", "controls": "CN"}

    @pytest.mark.parametrize(
        "more", [{}, {"standardise": True}, {"impute": "knn"}, {**SITES}, {**SITES, "standardise": True}]
    )
    @pytest.mark.parametrize("spoil", ["exact", "rounding", "holes", "unknown"])
    def test_they_stay_and_tell_the_clusters(self, more, spoil):
        frame, people, kind = planted()
        rng = np.random.default_rng(1)
        if spoil == "rounding":
            frame.iloc[:40, :4] += 1e-15 * rng.standard_normal((40, 4))
        if spoil == "holes":
            frame = frame.mask(rng.random(frame.shape) < 0.1)
        if spoil == "unknown":
            frame.loc[:39, "c0"] = np.nan
        views = Views({"clinic": frame}, allow_nan=True)
        fitted = Preparation.fit(views, people, Plan(**{**self.SETTINGS, **more}))
        prepared = fitted.transform(views, people)
        assert list(prepared.feature_names["clinic"]) == list(frame.columns)
        assert not any("left out" in note or "fully explained" in note for note in texts(fitted.notes))
        labels = KernelMultiviewNMF(3, kernel="linear", random_state=0).fit(prepared).labels_
        assert adjusted_rand_score(kind, labels) > 0.85

    def test_their_values_stay_as_they_are_and_it_is_said(self):
        frame, people, _ = planted()
        views = Views({"clinic": frame})
        fitted = Preparation.fit(views, people, Plan(**self.SETTINGS))
        X = fitted.transform(views, people)["clinic"]
        np.testing.assert_array_equal(X[:, :4], frame.to_numpy()[:, :4])
        assert abs(np.corrcoef(X[:40, 4], people["age"][:40])[0, 1]) < 1e-9
        assert texts(fitted.notes) == [
            "View 'clinic': 4 columns constant among the controls, from which no effect of "
            "covariates is removed: 'c0', 'c1', 'c2', 'c3'"
        ]

    def test_a_feature_that_too_few_controls_have_is_not_corrected_by_what_was_filled_in(self):
        frame, people, _ = planted()
        frame.loc[5:39, "n0"] = np.nan
        views = Views({"clinic": frame}, allow_nan=True)
        fitted = Preparation.fit(views, people, Plan(**self.SETTINGS))
        np.testing.assert_array_equal(fitted.transform(views, people)["clinic"][40:, 4], frame["n0"][40:])
        assert any("1 column known for fewer than 20 controls" in note for note in texts(fitted.notes))

    def test_what_covariates_explain_among_controls_alone_stays(self):
        frame, people, _ = planted()
        frame["c0"] = people["age"] + np.where(people["dx"] == "CN", 0.0, frame["c0"])
        views = Views({"clinic": frame})
        X = Preparation.fit(views, people, Plan(**self.SETTINGS)).transform(views, people)
        assert list(X.feature_names["clinic"]) == list(frame.columns)
        np.testing.assert_allclose(X["clinic"][:40, 0], people["age"][:40].mean())

    def test_a_copy_of_a_covariate_goes_although_patients_lack_cells_and_covariates(self):
        frame, people, _ = planted()
        frame["copy"] = 2.0 * people["age"] - 3.0
        frame.loc[[45, 50], "copy"] = np.nan
        people.loc[[55, 60], "age"] = np.nan
        views = Views({"clinic": frame}, allow_nan=True)
        fitted = Preparation.fit(views, people, Plan(**self.SETTINGS))
        assert "copy" not in fitted.transform(views, people).feature_names["clinic"]
        assert "View 'clinic': 1 column fully explained by the covariates: 'copy'" in texts(fitted.notes)

    def test_a_covariate_that_no_subject_varies_in_is_told(self):
        frame, people, _ = planted()
        people["sex"] = "F"
        fitted = Preparation.fit(Views({"clinic": frame}), people, Plan(**self.SETTINGS))
        assert str(fitted.notes[0]) == (
            "1 covariate with a single value among the controls, whose effect is not removed: 'sex'"
        )


class TestSites:
    def test_what_differs_between_sites_only_goes_and_spoils_nothing_else(self):
        """A code of the site, constant within each; another feature is constant at one site."""
        views, people = cohort(holes=0.0)
        rows = views.rows(0)
        mri = pd.DataFrame(views["mri"], columns=views.feature_names["mri"]).iloc[rows]
        who = people.iloc[rows].reset_index(drop=True)
        mri = mri.reset_index(drop=True)
        mri["roi5"] = mri["roi5"].mask(who["site"] == 11.0, 2.0)
        expected = Preparation.fit(Views({"mri": mri}), who, Plan(**SITES)).transform(
            Views({"mri": mri}), who
        )
        both = Views({"mri": mri.assign(code=1000.0 * who["site"])})
        fitted = Preparation.fit(both, who, Plan(**SITES))
        same(fitted.transform(both, who), expected)
        assert texts(fitted.notes) == ["View 'mri': 1 column with a single value left out: 'code'"]
        assert np.isfinite(expected["mri"]).all()

    def test_site_differences_go(self):
        views, people = cohort(600, holes=0.0)
        X = Preparation.fit(views, people, Plan(**SITES)).transform(views, people)["mri"]
        rows = views.rows(0)
        before, after = (
            np.ptp(pd.DataFrame(Y[rows]).groupby(people["site"].to_numpy()[rows]).mean(), axis=0).min()
            for Y in (views["mri"], X)
        )
        assert after < 0.1 * before

    def test_new_sites_are_an_error_or_left_alone(self):
        views, people = cohort(holes=0.0)
        new = people.assign(site=np.where(np.arange(120) < 100, people["site"], 99))
        with pytest.raises(
            StudyError, match=r"20 subjects from 1 site \('site'\) that are not in the training"
        ):
            Preparation.fit(views, people, Plan(**SITES)).transform(views, new)
        fitted = Preparation.fit(views, people, Plan(**SITES, new_sites="average"))
        X = fitted.transform(views, new)
        np.testing.assert_array_equal(X["mri"][100:], views["mri"][100:])
        assert texts(fitted.remarks(views, new)) == [
            "20 subjects of sites that are not in the training data, not harmonised"
        ]

    def test_small_and_missing_sites_are_left_alone_and_counted(self):
        views, people = cohort(holes=0.0)
        people = people.astype({"site": object})
        people.iloc[60:63, 4], people.iloc[63:65, 4] = "tiny", None
        fitted = Preparation.fit(views, people, Plan(**SITES))
        X = fitted.transform(views, people)
        np.testing.assert_array_equal(X["mri"][60:65], views["mri"][60:65])
        assert (X["mri"][65:] != views["mri"][65:]).all()
        assert str(fitted.notes[0]) == "2 subjects without a site, not harmonised"
        assert "View 'mri': 3 subjects of 1 site with fewer than 5, not harmonised" in texts(fitted.notes)

    def test_a_view_of_one_site_is_left_alone(self):
        """Others are harmonised; sites that the view never saw do no harm later."""
        views, people = cohort(holes=0.0)
        present = views.present.copy()
        present[people["site"] != 11.0, 1] = False
        fitted = Preparation.fit(Views(views, present=present, allow_nan=True), people, Plan(**SITES))
        assert "View 'pet': not harmonised: 1 site with 5 subjects or more" in texts(fitted.notes)
        X = fitted.transform(views, people)
        np.testing.assert_array_equal(X["pet"], views["pet"])
        assert (X["mri"][20:100] != views["mri"][20:100]).all()

    def test_whole_numbers_and_floats_name_one_site(self):
        views, people = cohort(holes=0.0)
        fitted = Preparation.fit(views, people, Plan(**SITES))
        same(
            fitted.transform(views, people),
            fitted.transform(views, people.assign(site=people["site"].astype(int))),
        )
        assert fitted.sites == ["11", "22", "35"]


class TestViews:
    def test_sparse_views_pass_through_untouched(self):
        views, people = cohort()
        counts = sp.csr_array(np.random.default_rng(0).binomial(2, 0.2, (120, 8)).astype(float))
        both = Views({"mri": views["mri"], "rna": counts}, allow_nan=True)
        fitted = Preparation.fit(both, people, Plan(**PEOPLE, **SITES))
        prepared = fitted.transform(both, people)
        assert (prepared["rna"] != counts).nnz == 0
        assert prepared.present[:, 1].all()
        assert fitted.settings()["views"][1]["steps"] == []

    @pytest.mark.parametrize("plan", ["median", "all"])
    def test_new_subjects_may_lack_whole_views_and_order_does_not_matter(self, plan):
        views, people = cohort()
        fitted = Preparation.fit(views, people, PLANS[plan])
        whole = fitted.transform(views, people)
        rows = np.arange(40, 60)
        frame = pd.DataFrame(views["mri"][rows], columns=views.feature_names["mri"]).iloc[:, ::-1]
        part = fitted.transform(Views({"mri": frame}, ids=views.ids[rows], allow_nan=True), people.iloc[rows])
        np.testing.assert_array_equal(part["mri"], whole["mri"][rows])
        assert part.present.tolist() == [[True, False, False]] * 20
        assert part.names == ["mri", "pet", "snp"]

    def test_a_model_takes_what_comes_out(self):
        cohort = simulate.adni_like(random_state=0)
        plan = Plan(
            residualise=["age", "sex", "education", "icv"],
            diagnosis="diagnosis",
            controls="HC",
            genotypes=["snp"],
            **SITES,
        )
        rows = np.arange(0, len(cohort.views), 2)
        train, people = cohort.views[rows], cohort.participants.iloc[rows]
        fitted = Preparation.fit(train, people, plan)
        model = KernelMultiviewNMF(3, random_state=0, tol=1e-2)
        model.fit(fitted.transform(train, people))
        few = train.rows(2)[:5]
        new = Views({"fdg": pd.DataFrame(train["fdg"][few], columns=train.feature_names["fdg"])})
        assert set(model.predict(fitted.transform(new, people.iloc[few]))) <= {0, 1, 2}

    def test_columns_not_seen_in_training_are_left_out(self):
        views, people = cohort()
        fitted = Preparation.fit(views, people)
        mri = pd.DataFrame(views["mri"], views.ids, views.feature_names["mri"])
        more = Views({"mri": mri.assign(roi9=1.0)}, ids=views.ids, allow_nan=True)[np.arange(20, 40)]
        same(
            fitted.transform(more), fitted.transform(Views({"mri": mri[20:40]}, ids=more.ids, allow_nan=True))
        )
        assert texts(fitted.remarks(more)) == ["View 'mri': 1 column not in the training data left out"]
        with pytest.raises(StudyError, match="View 'mri' lacks 1 features seen in fit: 'roi0'"):
            fitted.transform(Views({"mri": mri.rename(columns={"roi0": "roi9"})[20:40]}, allow_nan=True))

    @pytest.mark.parametrize("impute", ["median", "knn"])
    def test_a_view_of_one_column(self, impute):
        """A row without its only value lacks the view, so there is nothing to fill."""
        views, people = cohort()
        one = Views({"mri": views["mri"][:, :1], "pet": views["pet"], "snp": views["snp"]}, allow_nan=True)
        plan = Plan(impute=impute, **PEOPLE, **SITES, standardise=True)
        X = Preparation.fit(one, people, plan).transform(one, people)
        np.testing.assert_array_equal(np.isnan(X["mri"]), np.isnan(one["mri"]))
        assert np.nanstd(X["mri"]) == pytest.approx(1.0)

    def test_two_subjects(self):
        views = Views({"mri": [[1.0, 2.0], [3.0, np.nan]]}, allow_nan=True)
        fitted = Preparation.fit(views)
        assert fitted.transform(views)["mri"].tolist() == [[1.0], [3.0]]
        people = pd.DataFrame({"age": [70.0, 80.0]})
        with pytest.raises(StudyError, match="2 subjects have it, too few"):
            Preparation.fit(views, people, Plan(residualise=["age"], residualise_on="all"))

    @pytest.mark.parametrize(
        ("data", "message"),
        [
            ({"mrt": np.ones((2, 6))}, r"Views \['mrt'\] were not seen in fit"),
            ({"mri": np.ones((2, 3))}, "View 'mri' has 3 features, but fit saw 6"),
        ],
    )
    def test_other_views_than_in_training(self, data, message):
        views, _ = cohort()
        with pytest.raises(StudyError, match=message):
            Preparation.fit(views).transform(Views(data))

    def test_participants_must_match(self):
        views, people = cohort()
        plan = Plan(**PEOPLE)
        for wrong, message in (
            (None, "'dx' is needed, but there is no table of participants"),
            (people.iloc[:5], "has 5 rows for 120 subjects"),
            (people.iloc[::-1], "not in the order of the views"),
        ):
            with pytest.raises(StudyError, match=message) as caught:
                Preparation.fit(views, wrong, plan)
            assert "s00" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"impute": "mean"}, "impute must be one of 'median', 'knn', got 'mean'"),
        ({"harmonise": "combat"}, "'combat' needs site of"),
        ({"residualise": "age"}, "needs diagnosis"),
        ({"n_neighbors": 0}, "n_neighbors must be at least 1"),
        ({"min_site": 1}, "min_site must be at least 2"),
        ({"new_sites": "drop"}, "new_sites must be one of"),
    ],
)
def test_plans_that_make_no_sense(settings, message):
    with pytest.raises(StudyError, match=message):
        Plan(**settings)


def test_genotypes_must_be_views():
    views, _ = cohort()
    with pytest.raises(StudyError, match="genotypes names unknown views 'SNP'; the views are 'mri'"):
        Preparation.fit(views, None, Plan(genotypes=["SNP"]))
