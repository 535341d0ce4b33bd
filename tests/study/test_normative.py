"""Deviations from controls: w-scores, splines of covariates, sites by their controls."""

import json

import numpy as np
import pandas as pd
import pytest
from noted import texts
from scipy.interpolate import CubicSpline

from viewloom import Views
from viewloom.study.errors import StudyError
from viewloom.study.preparation import Plan, Preparation
from viewloom.study.preparation.combat import adapt_combat, apply_combat, fit_combat
from viewloom.study.preparation.normative import check_estimable, fit_norm
from viewloom.study.preparation.splines import knots_of, spline_basis

CONTROLS = {"diagnosis": "dx", "controls": "CN"}
W = {"w_scores": ["age", "sex", "icv"], **CONTROLS}
SITES = {"harmonise": "combat", "harmonise_on": "controls", "site": "site", **CONTROLS}


def cohort(n=150, seed=0, curved=0.0, sites=("a", "b", "c"), atrophy=2.0):
    """A view that depends on age (curved or not), sex, head size, site and disease, and its people."""
    rng = np.random.default_rng(seed)
    people = pd.DataFrame(
        {
            "age": rng.uniform(55, 90, n),
            "sex": rng.choice(["F", "M"], n),
            "icv": rng.normal(1.5e6, 1e5, n),
            "dx": np.where(np.arange(n) < 0.4 * n, "CN", "AD"),
            "site": rng.choice(list(sites), n),
        },
        index=pd.Index([f"s{i:03d}" for i in range(n)], name="id"),
    )
    age, patient = people["age"].to_numpy(), (people["dx"] == "AD").to_numpy()
    effect = -0.1 * (age - 72) - curved * (age - 72) ** 2 + 1.0 * (people["sex"] == "M")
    X = effect.to_numpy()[:, None] + (people["icv"].to_numpy()[:, None] - 1.5e6) / 1e5
    X = 10 + X * np.linspace(0.5, 1.5, 5) + rng.standard_normal((n, 5)) * np.linspace(1, 3, 5)
    X[patient] -= atrophy * np.linspace(0, 1, 5)
    return as_views(X, people), people


def as_views(X, people):
    frame = pd.DataFrame(X, index=people.index).add_prefix("roi")
    return Views({"mri": frame}, ids=people.index, allow_nan=True)


def written_out(X, people, rows):
    """W-scores, feature by feature, from the known cells of these rows."""
    D = np.column_stack([np.ones(len(X)), people["age"], people["sex"] == "M", people["icv"] / 1e5])
    D, W = D.astype(float), np.empty_like(X)
    for j in range(X.shape[1]):
        known = rows & ~np.isnan(X[:, j])
        b = np.linalg.lstsq(D[known], X[known, j], rcond=None)[0]
        squares = sum((x - d @ b) ** 2 for x, d in zip(X[known, j], D[known], strict=True))
        W[:, j] = (X[:, j] - D @ b) / np.sqrt(squares / (known.sum() - 3 - 1))
    return W


def controls_of(people):
    return (people["dx"] == "CN").to_numpy()


class TestWScores:
    def test_equal_a_regression_written_out(self):
        views, people = cohort()
        found = Preparation.fit(views, people, Plan(**W)).transform(views, people)["mri"]
        np.testing.assert_allclose(
            found, written_out(views["mri"], people, controls_of(people)), rtol=1e-9, atol=1e-9
        )

    def test_controls_have_mean_zero_and_standard_deviation_one(self):
        """With 60 controls and 3 covariates: 56 degrees of freedom."""
        views, people = cohort()
        found = Preparation.fit(views, people, Plan(**W)).transform(views, people)["mri"][controls_of(people)]
        np.testing.assert_allclose(found.mean(axis=0), 0.0, atol=1e-10)
        np.testing.assert_allclose(np.sqrt((found**2).sum(axis=0) / 56), 1.0)

    def test_patients_deviate_by_what_was_planted(self):
        views, people = cohort(4000)
        found = Preparation.fit(views, people, Plan(**W)).transform(views, people)["mri"]
        planted = -2.0 * np.linspace(0, 1, 5) / np.linspace(1, 3, 5)
        np.testing.assert_allclose(found[~controls_of(people)].mean(axis=0), planted, atol=0.1)

    @pytest.mark.parametrize("more", [{}, {"splines": ["age"]}, SITES])
    def test_no_patient_changes_a_parameter(self, more):
        views, people = cohort()
        rng = np.random.default_rng(1)
        X, others = views["mri"].copy(), people.copy()
        X[~controls_of(people)] = rng.standard_normal((90, 5)) * 50
        others.loc[~controls_of(people), "age"] = rng.uniform(20, 99, 90)
        others.loc[~controls_of(people), "sex"] = "M"
        plan = Plan(**{**W, **more})
        first, second = (
            Preparation.fit(*given, plan).to_arrays()
            for given in ((views, people), (as_views(X, others), others))
        )
        assert first.keys() == second.keys()
        fitted = [name for name in first if name.split("/")[1] != "1"]  # medians of all subjects are not used
        for name in fitted:
            np.testing.assert_array_equal(first[name], second[name], err_msg=name)

    @pytest.mark.parametrize("more", [{}, {"splines": ["age"]}, {"standardise": True}, SITES])
    def test_new_subjects_get_the_same_also_one_by_one_and_after_loading(self, more):
        views, people = cohort()
        fitted = Preparation.fit(views, people, Plan(**{**W, **more}))
        whole = fitted.transform(views, people)["mri"]
        stored = Preparation.from_arrays(json.loads(json.dumps(fitted.settings())), fitted.to_arrays())
        np.testing.assert_array_equal(stored.transform(views, people)["mri"], whole)
        assert stored.settings() == {**fitted.settings(), "notes": []}
        for i in (3, 100):
            alone = stored.transform(views[[i]], people.iloc[[i]])["mri"]
            np.testing.assert_allclose(alone[0], whole[i], rtol=1e-12, atol=1e-12)

    def test_cells_and_covariates_that_controls_lack_are_not_used(self):
        views, people = cohort()
        X = views["mri"].copy()
        X[:9, 0], X[5:12, 3] = np.nan, np.nan
        people.loc[people.index[20:24], "age"] = np.nan
        views = as_views(X, people)
        fitted = Preparation.fit(views, people, Plan(**W))
        found = fitted.transform(views, people)["mri"]
        expected = written_out(X, people.fillna({"age": 0.0}), controls_of(people) & people["age"].notna())
        known = ~np.isnan(X) & people["age"].notna().to_numpy()[:, None]
        np.testing.assert_allclose(found[known], expected[known], rtol=1e-9, atol=1e-9)
        assert "View 'mri': w-scores relative to 56 controls" in texts(fitted.notes)

    def test_a_patient_without_a_covariate_gets_that_of_controls(self):
        views, people = cohort()
        fitted = Preparation.fit(views, people, Plan(**W))
        lacking, mean = people.copy(), people.copy()
        lacking.loc[people.index[100], ["age", "sex"]] = np.nan, None
        own = controls_of(people)
        mean.loc[people.index[100], ["age", "sex"]] = people["age"][own].mean(), people["sex"][own].mode()[0]
        np.testing.assert_allclose(
            *(fitted.transform(views, given)["mri"][100] for given in (lacking, mean)), rtol=1e-12
        )

    def test_features_that_do_not_vary_in_controls_stay(self):
        """Constant, known for few controls, and explained among controls only; then a copy of a covariate."""
        views, people = cohort()
        own, X = controls_of(people), views["mri"].copy()
        X[own, 0] = 0.1
        X[np.flatnonzero(own)[6:], 1] = np.nan
        X[own, 2] = 2.0 * people["age"][own]
        X[:, 3] = 3.0 - people["age"]
        fitted = Preparation.fit(as_views(X, people), people, Plan(**W))
        found = fitted.transform(as_views(X, people), people)
        assert list(found.feature_names["mri"]) == ["roi0", "roi1", "roi2", "roi4"]
        np.testing.assert_allclose(found["mri"][:, 0], (X[:, 0] - 0.1) / X[:, 0].std(), atol=1e-9)
        known = ~np.isnan(X[:, 1])
        np.testing.assert_allclose(
            found["mri"][known, 1], (X[known, 1] - X[known, 1].mean()) / X[known, 1].std()
        )
        assert np.isfinite(found["mri"]).all()
        assert found["mri"][:, 2].std() == pytest.approx(1.0, rel=0.2)
        assert np.abs(found["mri"][own, 2]).max() < 1e-6
        of_all = "divided by the standard deviation of all subjects"
        assert texts(fitted.notes)[-5:-1] == [
            "View 'mri': 1 column fully explained by the covariates: 'roi3'",
            f"View 'mri': 1 column constant among the controls, {of_all}: 'roi0'",
            f"View 'mri': 1 column known for fewer than 20 controls, {of_all}: 'roi1'",
            f"View 'mri': 1 column fully explained by the covariates among the controls, {of_all}: 'roi2'",
        ]

    def test_genotypes_are_not_changed(self):
        views, people = cohort()
        snp = np.random.default_rng(0).integers(0, 3, (150, 4)).astype(float)
        both = Views({"mri": views["mri"], "snp": snp}, ids=views.ids)
        found = Preparation.fit(both, people, Plan(**W, genotypes=["snp"])).transform(both, people)
        np.testing.assert_array_equal(found["snp"], snp)

    def test_degrees_of_freedom(self):
        """The variance is unbiased: its mean over many features is that of the noise."""
        rng = np.random.default_rng(0)
        X, C = rng.standard_normal((25, 4000)), rng.standard_normal((25, 5))
        norm = fit_norm(X, C, np.ones(X.shape, dtype=bool), np.zeros(5))
        assert np.mean(norm.spread**2) == pytest.approx(1.0, abs=0.03)  # 0.95 with n - p


class TestTooLittleToEstimate:
    def refused(self, views, people, message, **plan):
        with pytest.raises(StudyError, match=message) as caught:
            Preparation.fit(views, people, Plan(**{**W, **plan}))
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize("plan", [{}, {"w_scores": [], "residualise": ["age"]}])
    def test_fewer_than_twenty_controls(self, plan):
        views, people = cohort()
        people.loc[people.index[19:60], "dx"] = "MCI"
        self.refused(views, people, r"View 'mri': 19 controls have it.*20 are needed.*'all'", **plan)
        people.loc[people.index[19], "dx"] = "CN"
        people["sex"] = ["F", "M"] * 75
        Preparation.fit(views, people, Plan(**{**W, **plan}))

    @pytest.mark.parametrize("few", [0, 1, 4])
    @pytest.mark.parametrize("plan", [{}, {"w_scores": [], "residualise": ["age", "sex"]}])
    def test_controls_of_one_sex(self, few, plan):
        views, people = cohort()
        people.loc[people.index[:60], "sex"] = ["F"] * (60 - few) + ["M"] * few
        self.refused(views, people, rf"View 'mri': {few} controls? of 60 with 'M' as 'sex', too few", **plan)
        people.loc[people.index[:5], "sex"] = "M"
        Preparation.fit(views, people, Plan(**{**W, **plan}))

    def test_a_level_that_only_patients_have(self):
        views, people = cohort()
        people["race"] = ["A", "B"] * 75
        people.loc[people.index[100:], "race"] = "C"
        self.refused(views, people, "0 controls of 60 with 'C' as 'race'", w_scores=["race"])

    def test_numbers_that_controls_do_not_vary_in(self):
        views, people = cohort()
        people.loc[people.index[:57], "age"] = 70.0
        self.refused(views, people, r"'age' has the same value in 57 of 60 controls", w_scores=["age"])
        people.loc[people.index[:60], "age"] = np.nan
        self.refused(views, people, r"'age' has no value in 60 controls", w_scores=["age"])

    def test_only_the_controls_who_have_the_view_count(self):
        views, people = cohort()
        X = np.hstack([views["mri"], views["mri"]])
        X[(people["sex"] == "M") & controls_of(people), 5:] = np.nan
        both = Views({"mri": X[:, :5], "pet": X[:, 5:]}, ids=views.ids, allow_nan=True)
        self.refused(both, people, r"View 'pet': 0 controls of \d+ with 'M' as 'sex'")

    def test_only_the_controls_with_all_covariates_count(self):
        views, people = cohort()
        people.loc[(people["sex"] == "M") & controls_of(people), "age"] = np.nan
        self.refused(views, people, r"View 'mri': 0 controls of \d+ with 'M' as 'sex'")

    def test_covariates_that_are_one_in_controls_and_two_in_patients(self):
        views, people = cohort()
        people["onset"] = people["age"].where(controls_of(people), people["age"] - 5 * np.arange(150) % 7)
        self.refused(views, people, "cannot be told apart in controls", w_scores=["age", "onset"])

    def test_what_nobody_varies_in_is_no_reason(self):
        _, people = cohort()
        people["sex"], people["age"] = "F", 70.0
        fitted = Preparation.fit(*cohort()[:1], people, Plan(**W))
        assert "2 covariates with a single value among the controls" in str(fitted.notes[0])
        check_estimable(people, fitted.covariates, controls_of(people))

    @pytest.mark.parametrize(
        ("plan", "message"),
        [
            ({"residualise": ["age"]}, "w_scores: excludes residualise"),
            ({"residualise_on": "all"}, "w_scores: is relative to controls"),
            ({"controls": None}, "w_scores: needs diagnosis .* and controls"),
            ({"diagnosis": None}, "w_scores: needs diagnosis"),
            ({"splines": ["education"]}, "splines: 'education' must be among w_scores or residualise"),
            ({"new_sites": "adapt"}, "new_sites: 'adapt' needs harmonise"),
            ({"harmonise": "combat", "site": "site", "new_sites": "adapt"}, "'adapt' needs harmonise"),
            ({**SITES, "w_scores": [], "controls": None}, "harmonise_on: 'controls' needs diagnosis"),
        ],
    )
    def test_settings_that_do_not_go_together(self, plan, message):
        with pytest.raises(StudyError, match=message):
            Plan(**{**W, **plan})


class TestSplines:
    KNOTS = np.array([58.0, 67.0, 75.0, 88.0])

    def test_columns_are_natural_cubic_splines(self):
        """A natural spline is determined by its values at the knots; scipy interpolates them."""
        x = np.linspace(58, 88, 301)
        at, found = spline_basis(self.KNOTS, self.KNOTS), spline_basis(x, self.KNOTS)
        for j in range(3):
            expected = CubicSpline(self.KNOTS, at[:, j], bc_type="natural")(x)
            np.testing.assert_allclose(found[:, j], expected, atol=1e-10)

    def test_span_all_natural_splines_with_a_constant(self):
        for i in range(4):
            natural = CubicSpline(self.KNOTS, np.eye(4)[i], bc_type="natural")
            x = np.linspace(58, 88, 50)
            D = np.column_stack([np.ones(50), spline_basis(x, self.KNOTS)])
            left = natural(x) - D @ np.linalg.lstsq(D, natural(x), rcond=None)[0]
            assert np.abs(left).max() < 1e-9

    def test_equal_patsy(self):
        patsy = pytest.importorskip("patsy")
        rng = np.random.default_rng(0)
        x = rng.uniform(50, 95, 80)  # also beyond the outer knots
        D = patsy.dmatrix(
            "cr(x, knots=k[1:3], lower_bound=k[0], upper_bound=k[3]) - 1", {"x": x, "k": self.KNOTS}
        )
        y = rng.standard_normal(80)
        ours = np.column_stack([np.ones(80), spline_basis(x, self.KNOTS)])
        fits = [A @ np.linalg.lstsq(A, y, rcond=None)[0] for A in (np.asarray(D), ours)]
        np.testing.assert_allclose(*fits, atol=1e-8)

    @pytest.mark.parametrize("x", [np.linspace(20, 58, 9), np.linspace(88, 120, 9)])
    def test_linear_beyond_the_outer_knots(self, x):
        np.testing.assert_allclose(np.diff(spline_basis(x, self.KNOTS), 2, axis=0), 0.0, atol=1e-9)

    @pytest.mark.parametrize("settings", [W, {**W, "w_scores": [], "residualise": W["w_scores"]}])
    def test_recover_a_curved_effect_of_age(self, settings):
        views, people = cohort(3000, curved=0.02, atrophy=0.0)
        age = people["age"].to_numpy()
        left = []
        for splines in ((), ("age",)):
            fitted = Preparation.fit(views, people, Plan(**settings, splines=splines))
            X = fitted.transform(views, people)["mri"][:, 0]
            curve = [X[(age >= low) & (age < low + 5)].mean() for low in range(55, 90, 5)]
            left.append(np.ptp(curve))
        assert left[1] < 0.35 < 1.5 < left[0]

    def test_knots_are_quantiles_of_controls_and_stored(self):
        views, people = cohort()
        fitted = Preparation.fit(views, people, Plan(**W, splines=["age"]))
        expected = np.quantile(people["age"][controls_of(people)], [0.05, 0.35, 0.65, 0.95])
        np.testing.assert_array_equal(fitted.to_arrays()["covariates/knots/0"], expected)
        assert fitted.covariates.design(people, 150).shape == (150, 5)

    def test_missing_ages_are_those_of_the_mean(self):
        views, people = cohort()
        fitted = Preparation.fit(views, people, Plan(**W, splines=["age"]))
        some, mean = people.copy(), people.copy()
        some.loc[people.index[70], "age"] = np.nan
        mean.loc[people.index[70], "age"] = people["age"][controls_of(people)].mean()
        np.testing.assert_allclose(
            *(fitted.transform(views, given)["mri"] for given in (some, mean)), rtol=1e-9
        )

    def test_categories_and_few_values_are_refused(self):
        views, people = cohort()
        with pytest.raises(StudyError, match="'sex' is categorical, and only numbers"):
            Preparation.fit(views, people, Plan(**W, splines=["sex"]))
        people["age"] = np.tile([60.0, 70.0, 80.0], 50)
        with pytest.raises(StudyError, match=r"'age' has too few distinct values for a spline \(3 among 60"):
            Preparation.fit(views, people, Plan(**W, splines=["age"]))
        with pytest.raises(StudyError, match="0 among 0"):
            knots_of(np.array([np.nan]), "age")


def with_sites(n=300, seed=0, shift=(0.0, 4.0, -3.0), scale=(1.0, 2.0, 0.7), skewed=True):
    """Sites with planted shifts and scales; the share of patients differs between sites."""
    rng = np.random.default_rng(seed)
    views, people = cohort(n, seed)
    site = rng.integers(0, 3, n)
    if skewed:
        site = np.where(controls_of(people), site, np.minimum(rng.integers(0, 12, n), 2))
    people["site"] = np.array(["a", "b", "c"])[site]
    clean = views["mri"]
    X = (clean - 10) * np.array(scale)[site][:, None] + 10 + np.array(shift)[site][:, None]
    return as_views(clean, people), as_views(X, people), people


class TestSites:
    def test_on_controls_is_combat_of_controls_applied_to_all(self):
        _, views, people = with_sites()
        found = Preparation.fit(views, people, Plan(**SITES)).transform(views, people)["mri"]
        own, site = controls_of(people), pd.Categorical(people["site"]).codes.astype(int)
        none = np.empty((len(people), 0))
        fitted = fit_combat(views["mri"][own], site[own], none[own])
        np.testing.assert_allclose(found, apply_combat(fitted, views["mri"], site, none), rtol=1e-10)

    def test_patients_keep_their_disease(self):
        """Where sites differ in their share of patients, ComBat of all subjects takes part of it."""
        clean, views, people = with_sites(1200, scale=(1.0, 1.0, 1.0))
        own, found = controls_of(people), {"clean": clean["mri"]}
        for on in ("controls", "all"):
            fitted = Preparation.fit(views, people, Plan(**{**SITES, "harmonise_on": on}))
            found[on] = fitted.transform(views, people)["mri"]
        effect = {name: X[~own, -1].mean() - X[own, -1].mean() for name, X in found.items()}
        assert effect["controls"] == pytest.approx(effect["clean"], rel=0.05)
        assert abs(effect["all"]) < 0.9 * abs(effect["clean"])

    @pytest.mark.parametrize("more", [{}, {"w_scores": ["age", "sex"], "splines": ["age"]}])
    def test_an_adapted_site_recovers_the_planted_effect(self, more):
        _, views, people = with_sites(900)
        train = (people["site"] != "c").to_numpy()
        plan = Plan(**SITES, new_sites="adapt", **more)
        fitted = Preparation.fit(views[train], people[train], plan)
        fitted = Preparation.from_arrays(json.loads(json.dumps(fitted.settings())), fitted.to_arrays())
        found = fitted.transform(views, people)["mri"]
        before, after = (
            np.abs(Y[~train & controls_of(people)].mean(0) - Y[train & controls_of(people)].mean(0))
            for Y in (views["mri"], found)
        )
        assert after.max() < 0.15 * before.min()
        spreads = [found[rows & controls_of(people)].std(axis=0) for rows in (train, ~train)]
        np.testing.assert_allclose(*spreads, rtol=0.25)
        new, controls = (~train).sum(), (~train & controls_of(people)).sum()
        told = f"{new} subjects of 1 site not in the training data, harmonised by {controls} controls"
        assert texts(fitted.remarks(views, people)) == [told]

    def test_a_known_site_that_is_adapted_gets_its_own_estimates(self):
        _, views, people = with_sites()
        own, site = controls_of(people), pd.Categorical(people["site"]).codes
        C = np.random.default_rng(0).standard_normal((len(people), 2))
        X = views["mri"].copy()
        X[:, 4] = site  # varies between sites only
        fitted = fit_combat(X[own], site[own].astype(int), C[own])
        for i in range(3):
            again = adapt_combat(fitted, X[own & (site == i)], C[own & (site == i)])
            np.testing.assert_allclose(again.shift[0], fitted.shift[i], rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose(again.scale[0], fitted.scale[i], rtol=1e-12)

    def test_known_sites_do_not_depend_on_new_ones(self):
        _, views, people = with_sites(400)
        train = (people["site"] != "c").to_numpy()
        fitted = Preparation.fit(views[train], people[train], Plan(**SITES, new_sites="adapt"))
        alone, beside = fitted.transform(views[train], people[train]), fitted.transform(views, people)
        np.testing.assert_array_equal(alone["mri"], beside["mri"][train])
        # without new sites the diagnosis is not needed
        fitted.transform(views[train], people[train].drop(columns="dx"))

    def test_a_new_site_without_enough_controls_is_refused(self):
        _, views, people = with_sites(400)
        train = (people["site"] != "c").to_numpy()
        fitted = Preparation.fit(views[train], people[train], Plan(**SITES, new_sites="adapt"))
        new = np.flatnonzero(~train & controls_of(people))[:9]
        with pytest.raises(
            StudyError, match=r"View 'mri': a site that is not in the training data has 9 controls, too few"
        ) as caught:
            fitted.transform(views[new], people.iloc[new])
        assert "10 are needed" in str(caught.value)
        assert "'c'" not in str(caught.value)
        one = np.flatnonzero(~train & ~controls_of(people))[:1]
        with pytest.raises(StudyError, match="has 0 controls"):
            fitted.transform(views[one], people.iloc[one])
        with pytest.raises(StudyError, match="has 0 columns 'dx'"):
            fitted.transform(views, people.drop(columns="dx"))

    def test_sites_with_few_controls_are_left_alone_and_counted(self):
        _, views, people = with_sites()
        few = np.flatnonzero(controls_of(people) & (people["site"] == "c").to_numpy())[4:]
        people.loc[people.index[few], "site"] = "a"
        fitted = Preparation.fit(views, people, Plan(**SITES))
        kept = (people["site"] == "c").to_numpy()
        X = fitted.transform(views, people)["mri"]
        np.testing.assert_array_equal(X[kept], views["mri"][kept])
        told = f"View 'mri': {kept.sum()} subjects of 1 site with fewer than 5 controls, not harmonised"
        assert told in texts(fitted.notes)
        people["dx"] = np.where(people["site"] == "a", people["dx"], "AD")
        with pytest.raises(StudyError, match=r"1 site of 3 with 5 controls or more .*needs two"):
            Preparation.fit(views, people, Plan(**SITES))

    @pytest.mark.parametrize("on", ["all", "controls"])
    def test_sites_that_are_one_person(self, on):
        views, people = cohort()
        people["site"] = people.index
        with pytest.raises(
            StudyError, match=r"150 sites .*the largest of 1 subject, and 5 are needed"
        ) as caught:
            Preparation.fit(views, people, Plan(**{**SITES, "harmonise_on": on}))
        assert "s0" not in str(caught.value)

    def test_a_preparation_of_version_0_2_loads(self):
        """Its settings and arrays lack what is new."""
        _, views, people = with_sites()
        old = {"harmonise": "combat", "site": "site", "residualise": ["age"], **CONTROLS}
        fitted = Preparation.fit(views, people, Plan(**old))
        settings, arrays = fitted.settings(), fitted.to_arrays()
        for name in ("w_scores", "splines", "harmonise_on"):
            del settings["plan"][name]
        arrays = {name: X for name, X in arrays.items() if not name.endswith(("/varies", "/least"))}
        restored = Preparation.from_arrays(settings, arrays)
        np.testing.assert_array_equal(*(one.transform(views, people)["mri"] for one in (fitted, restored)))
