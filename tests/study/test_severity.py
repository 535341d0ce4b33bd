"""Removal of severity, and the numbers on how much of a clustering it is."""

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import normalized_mutual_info_score

import viewloom as vl
from viewloom.study import StudyError
from viewloom.study.design import (
    SeverityShare,
    compared_with,
    eta_squared,
    mean_feature,
    severity_outcomes,
    signs_from_controls,
)
from viewloom.study.preparation import Plan, Preparation, severity
from viewloom.study.preparation.severity import NORMAL, common_component, fit_severity
from viewloom.study.report import design as design_report
from viewloom.study.report.design import severity_sentence

N = 80


def cohort(seed=0, missing=0.0):
    """Two views with a common score, one of genotypes, and a clinical score with noise."""
    rng = np.random.default_rng(seed)
    stage = rng.normal(size=N)
    ids = [f"s{i:02d}" for i in range(N)]
    frames = {}
    for name, width in (("mri", 12), ("pet", 5)):
        X = 3.0 + np.outer(stage, rng.uniform(0.5, 2.0, width)) + 0.5 * rng.standard_normal((N, width))
        X[rng.random(N) < missing] = np.nan
        frames[name] = pd.DataFrame(X, index=ids)
    frames["snp"] = pd.DataFrame(rng.integers(0, 3, (N, 7)).astype(float), index=ids)
    people = pd.DataFrame({"mmse": 27 - 2 * stage + 0.1 * rng.standard_normal(N)}, index=ids)
    return vl.Views(frames, ids=ids), people, stage


def correlations(X, score):
    return np.array([np.corrcoef(column, score)[0, 1] for column in X.T])


class TestCommonComponent:
    def test_it_is_the_first_singular_vector_of_views_of_equal_largest_variance(self):
        views, _, _ = cohort()
        (fitted,) = fit_severity(views, "common", genotypes=["snp"])
        parts = []
        for name in ("mri", "pet"):
            X = views[name]
            Z = (X - X.mean(axis=0)) / X.std(axis=0)
            parts.append(Z / np.linalg.svd(Z)[1][0])
        U = np.linalg.svd(np.hstack(parts))[0][:, 0]
        assert abs(np.corrcoef(fitted.score(views, None), U)[0, 1]) == pytest.approx(1.0, abs=1e-8)

    def test_it_finds_the_score_that_views_share_with_missing_views_too(self):
        views, _, stage = cohort(missing=0.3)
        (fitted,) = fit_severity(views, "common", genotypes=["snp"])
        score = fitted.score(views, None)
        known = ~np.isnan(score)
        assert_array_equal(known, views.present[:, :2].any(axis=1))
        assert abs(np.corrcoef(score[known], stage[known])[0, 1]) > 0.95

    def test_scale_and_sign_of_features_do_not_matter(self):
        views, _, _ = cohort()
        other = views.replaced(blocks=[-1000.0 * views["mri"] + 5.0, *views.blocks[1:]])
        first, second = (
            fit_severity(v, "common", genotypes=["snp"])[0].score(v, None) for v in (views, other)
        )
        assert abs(np.corrcoef(first, second)[0, 1]) == pytest.approx(1.0)

    def test_constant_features_have_no_loading(self):
        views, _, _ = cohort()
        X = views["mri"].copy()
        X[:, 0] = 4.0
        parts = common_component(views.replaced(blocks=[X, *views.blocks[1:]]), ["mri", "pet"])
        assert parts["mri"].loadings[0] == 0.0

    @pytest.mark.parametrize("shape", [(30, 7), (7, 30)])
    def test_the_first_component_is_that_of_a_singular_value_decomposition(self, shape):
        Z = np.random.default_rng(0).standard_normal(shape)
        U, values, _ = np.linalg.svd(Z, full_matrices=False)
        found = severity._first_component(Z)
        assert_allclose(np.abs(found), np.abs(U[:, 0] * values[0]))

    def test_without_views_there_is_none(self):
        assert common_component(cohort()[0], []) == {}


class TestRemoval:
    @pytest.mark.parametrize("setting", ["mmse", "common"])
    def test_nothing_correlates_with_the_score_afterwards(self, setting):
        views, people, _ = cohort()
        (fitted,) = fit_severity(views, setting, people, ["snp"])
        left, notes = fitted.remove(views, people)
        score = fitted.score(views, people)
        for name in ("mri", "pet"):
            assert np.abs(correlations(views[name], score)).min() > 0.5
            assert np.abs(correlations(left[name], score)).max() < 1e-8
            assert_allclose(left[name].mean(axis=0), views[name].mean(axis=0))
        assert_array_equal(left["snp"], views["snp"])
        assert notes == []

    def test_slopes_are_those_of_least_squares_in_subjects_with_the_score(self):
        views, people, _ = cohort()
        people.iloc[:9, 0] = np.nan
        (fitted,) = fit_severity(views, "mmse", people, ["snp"])
        known = people["mmse"].notna().to_numpy()
        expected = [np.polyfit(people["mmse"][known], x, 1)[0] for x in views["mri"][known].T]
        assert_allclose(fitted.views["mri"].slopes, expected)
        left, notes = fitted.remove(views, people)
        assert_array_equal(left["mri"][~known], views["mri"][~known])
        assert [str(note) for note in notes] == [
            "9 subjects without 'mmse', from whom severity is not removed"
        ]

    @pytest.mark.parametrize(("setting", "n"), [("common:2", 2), ("mmse", 1)])
    def test_it_is_stored_and_the_same_for_new_subjects(self, setting, n):
        views, people, _ = cohort(missing=0.2)
        people.iloc[N - 1, 0] = np.nan
        plan = Plan(genotypes=["snp"], remove_severity=setting)
        fitted = Preparation.fit(views, people, plan)
        settings = json.loads(json.dumps(fitted.settings()))
        again = Preparation.from_arrays(settings, fitted.to_arrays())
        assert len(again.severity) == n
        expected = fitted.transform(views, people)
        for rows in (np.arange(N), np.arange(5), np.array([N - 1])):
            for X, Y in zip(
                again.transform(views[rows], people.iloc[rows]).blocks, expected.blocks, strict=True
            ):
                if not sp.issparse(X):
                    assert_allclose(X, Y[rows])

    def test_settings_of_earlier_releases_have_none(self):
        views, people, _ = cohort()
        fitted = Preparation.fit(views, people)
        settings = {key: value for key, value in fitted.settings().items() if key != "severity"}
        settings["plan"] = {key: value for key, value in settings["plan"].items() if key != "remove_severity"}
        assert Preparation.from_arrays(settings, fitted.to_arrays()).severity == ()

    def test_it_is_estimated_in_the_clustered_subjects(self):
        """Reference subjects whose features depend on the score in another way do not matter."""
        views, people, _ = cohort()
        clustered = np.arange(N) < 50
        X = views["mri"].copy()
        X[~clustered] += 7.0 * people["mmse"].to_numpy()[~clustered, None]
        other = views.replaced(blocks=[X, *views.blocks[1:]])
        plan = Plan(genotypes=["snp"], remove_severity="mmse")
        fits = [Preparation.fit(v, people, plan, clustered) for v in (views, other)]
        assert_allclose(fits[0].severity[0].views["mri"].slopes, fits[1].severity[0].views["mri"].slopes)

    def test_normal_variation_is_removed_first_where_controls_have_any(self):
        rng = np.random.default_rng(3)
        views, _, _ = cohort()
        size = rng.normal(size=N)
        noise = [rng.standard_normal(views[name].shape) for name in ("mri", "pet")]
        sized = views.replaced(blocks=[*(X + 2 * size[:, None] for X in noise), views["snp"]])
        unrelated = views.replaced(blocks=[*noise, views["snp"]])
        kinds = [
            [severity.column for severity in fit_severity(views, "common", None, ["snp"], controls)]
            for controls in (sized, unrelated, sized[np.arange(19)])
        ]
        assert kinds == [[NORMAL, "common"], ["common"], ["common"]]

    @pytest.mark.parametrize(
        ("column", "words"),
        [
            ([np.nan] * N, "has no value"),
            ([20.0] * N, "is constant"),
            ([20.0, 21.0, 22.0] + [np.nan] * (N - 3), "3 clustered subjects with 'mmse', too few"),
            (["low"] * N, "is not numeric in 80 subjects"),
        ],
    )
    def test_scores_that_cannot_be_removed(self, column, words):
        views, _, _ = cohort()
        with pytest.raises(StudyError, match=words):
            fit_severity(views, "mmse", pd.DataFrame({"mmse": column}))

    def test_without_views_or_participants(self):
        views, people, _ = cohort()
        with pytest.raises(StudyError, match="no view is left"):
            fit_severity(views, "common", people, views.names)
        with pytest.raises(StudyError, match="there are no participants"):
            fit_severity(views, "mmse", None)
        with pytest.raises(StudyError, match="did you mean 'mmse'"):
            fit_severity(views, "mmsee", people)

    def test_planted_subtypes_are_found_better_and_stage_less(self):
        """Means of three simulated cohorts, which vary much; benchmarks/subtypes.py has more of them."""
        with_severity, without = np.mean([subtypes_and_stage(seed) for seed in (1, 2, 3)], axis=0)
        assert without[0] > with_severity[0]
        assert without[1] < 0.5 * with_severity[1]


def subtypes_and_stage(seed):
    """NMI with the subtypes and eta squared of the stage, with severity and without."""
    simulated = vl.simulate.adni_like(random_state=seed)
    patients = simulated.truth.y > 0
    subtype, stage = simulated.truth.subtype[patients], simulated.truth.stage[patients]
    known = subtype != "none"
    plan = Plan(genotypes=["snp"], remove_severity="common")
    fitted = Preparation.fit(simulated.views, simulated.participants, plan, patients)
    scores = []
    for preparation in (fitted.without_severity, fitted):
        views = preparation.transform(simulated.views, simulated.participants)[patients]
        labels = vl.KernelMultiviewNMF(4, random_state=0).fit(views).labels_
        scores.append(
            (normalized_mutual_info_score(subtype[known], labels[known]), eta_squared(stage, labels))
        )
    return scores


class TestShares:
    def test_eta_squared_against_sums_of_squares(self):
        rng = np.random.default_rng(0)
        labels, values = rng.integers(0, 4, 200), rng.normal(size=200)
        values[::7] = np.nan
        known = ~np.isnan(values)
        x, groups = values[known], labels[known]
        within = sum(((x[groups == j] - x[groups == j].mean()) ** 2).sum() for j in range(4))
        assert eta_squared(values, labels) == pytest.approx(1 - within / ((x - x.mean()) ** 2).sum())

    @pytest.mark.parametrize("values", [[np.nan] * 4, [1.0] * 4, [1.0, 2.0, np.nan, np.nan]])
    def test_eta_squared_that_is_not_defined(self, values):
        assert np.isnan(eta_squared(np.array(values), np.array([0, 0, 1, 1])))

    def test_mean_of_signed_features_against_a_loop(self):
        views, _, _ = cohort(missing=0.3)
        signs = {"mri": np.array([1.0, -1.0] * 6), "pet": np.ones(5)}
        found = mean_feature(views, signs)
        for i in range(N):
            parts = []
            for name, sign in signs.items():
                X = views[name]
                Z = (X - np.nanmean(X, axis=0)) / np.nanstd(X, axis=0)
                if not np.isnan(Z[i]).any():
                    parts.append(np.mean(sign * Z[i]))
            assert found[i] == pytest.approx(np.mean(parts) if parts else np.nan, nan_ok=True)

    def test_signs_are_away_from_controls(self):
        views, _, _ = cohort()
        controls = views.replaced(
            blocks=[X + np.array([5.0, -5.0] + [5.0] * (X.shape[1] - 2)) for X in views.blocks]
        )
        assert signs_from_controls(views, controls, ["mri"])["mri"][:3].tolist() == [-1.0, 1.0, -1.0]

    def test_scales_of_severity_are_preferred_to_other_numbers(self):
        people = pd.DataFrame({"CDRSB": [0, 1, 2.5], "abeta": [900, 1000, 1100], "apoe": ["e3", "e4", "e3"]})
        assert severity_outcomes(people, list(people)) == ["CDRSB"]
        assert severity_outcomes(people, ["abeta", "apoe"]) == ["abeta"]
        assert severity_outcomes(None, []) == []

    def test_comparison_of_fits_against_a_loop(self):
        rng = np.random.default_rng(0)
        labels, again = rng.integers(0, 3, 100), rng.integers(0, 3, 100)
        found = compared_with(labels, again, np.array([0, 1, 1]), 3)
        assert found.table.sum() == 100
        assert sorted(found.controls.tolist()) == [0, 1, 2]
        assert np.trace(found.table) == max(
            sum(((labels == j) & (again == order[j])).sum() for j in range(3))
            for order in [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]
        )

    @pytest.mark.parametrize(("share", "word"), [(0.6, "Much"), (0.3, "Part"), (0.05, "Little")])
    def test_words(self, share, word):
        told = severity_sentence(SeverityShare({"mmse": 0.01, "cdrsb": share}, 0.9))
        assert told.startswith(f"{word} of the clustering is severity")
        assert "90% of the variance of the mean of the features" in told
        assert "unknown" in severity_sentence(SeverityShare({}, float("nan")))
        assert severity_sentence(SeverityShare({}, 0.9)).startswith("No clinical score tells")  # not "much"


@pytest.mark.parametrize(
    ("removed", "normal", "told"),
    [
        ("mmse", 0, "the linear effect of mmse was removed from every view but genotypes"),
        ("common:2", 0, "the first 2 common components were removed from every view but genotypes"),
        ("common", 1, "the first of the controls (normal variation), and then the first common component"),
        ("common", 3, "the first 3 of the controls"),
    ],
)
def test_the_report_says_what_was_removed(removed, normal, told):
    results = SimpleNamespace(preparation=SimpleNamespace(plan=Plan(genotypes=["snp"])))
    found = SimpleNamespace(removed=removed, normal=normal)
    assert told in design_report._removed(found, design_report._where(results))
