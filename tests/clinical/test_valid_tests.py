"""Variables used for clustering, tests that are valid for them, effects with intervals, adjusted effects."""

import sys
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy import stats

import viewloom as vl
from viewloom.clinical import (
    adjusted_effects,
    associations,
    cauchy_combination,
    cliffs_delta_interval,
    cramers_v,
    cramers_v_interval,
    epsilon_squared_interval,
    explanation_sentences,
    explanations,
    hazards,
    pairwise,
    split_tests,
    thinned,
    thinning_tests,
    used,
    used_for_clustering,
    view_left_out,
)
from viewloom.clinical.hazards import proportionality, schoenfeld
from viewloom.clinical.held_out import absent, compared_columns, used_variables, variable_left_out
from viewloom.clinical.regression import SEPARATED, SINGULAR
from viewloom.clinical.used import USED
from viewloom.runtime.errors import InputError

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import calibration_tests as calibration
from calibration_tests import KMeansViews

# survival::ovarian of R: time, event, age, ECOG performance (Edmunson et al. 1979)
OVARIAN = np.array(
    [
        [59, 1, 72.3315, 1], [115, 1, 74.4932, 1], [156, 1, 66.4658, 2], [421, 0, 53.3644, 1],
        [431, 1, 50.3397, 1], [448, 0, 56.4301, 2], [464, 1, 56.9370, 2], [475, 1, 59.8548, 2],
        [477, 0, 64.1753, 1], [563, 1, 55.1781, 2], [638, 1, 56.7562, 2], [744, 0, 50.1096, 1],
        [769, 0, 59.6301, 2], [770, 0, 57.0521, 1], [803, 0, 39.2712, 1], [855, 0, 43.1233, 2],
        [1040, 0, 38.8932, 2], [1106, 0, 44.6000, 1], [1129, 0, 53.9068, 1], [1206, 0, 44.2055, 1],
        [1227, 0, 59.5890, 2], [268, 1, 74.5041, 2], [329, 1, 43.1370, 1], [353, 1, 63.2192, 2],
        [365, 1, 64.4247, 1], [377, 0, 58.3096, 1],
    ]
)  # fmt: skip


@pytest.fixture(scope="module")
def cohort():
    """Two views of one cloud, and variables that are, nearly are, or are not among their features."""
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((100, 4)), rng.standard_normal((100, 3))
    views = vl.Views({"a": pd.DataFrame(a, columns=["MMSE", "x1", "x2", "x3"]), "b": b})
    noise = 0.2 * rng.standard_normal((100, 3))
    people = pd.DataFrame(
        {
            "mmse": rng.standard_normal(100),  # the name of a feature
            "near": a[:, 1] + noise[:, 0],
            "monotone": np.exp(3.0 * b[:, 0]),
            "total": a.sum(axis=1),
            "group": np.where(b[:, 1] + 4.0 * noise[:, 1] > 0, "high", "low"),
            "age": rng.standard_normal(100),
            "sex": rng.choice(["F", "M"], 100),
        }
    )
    labels = KMeansViews().fit(views).labels_
    return views, people, labels


class TestUsed:
    def test_features_copies_and_correlates_are_found(self, cohort):
        views, people, _ = cohort
        table = used_for_clustering(people, views)
        used = table[table["used"]].set_index("variable")
        assert used["view"].to_dict() == {"mmse": "a", "near": "a", "monotone": "b", "total": "a"}
        assert used["measure"].to_dict() == {
            "mmse": "name", "near": "r", "monotone": "rank r", "total": "multiple R",
        }  # fmt: skip
        assert used.loc["near", "strength"] == pytest.approx(
            stats.pearsonr(people["near"], views["a"][:, 1])[0]
        )

    def test_categories_by_eta_and_v(self, cohort):
        views, people, _ = cohort
        row = used_for_clustering(people[["group"]], views, bound=0.5).set_index("view").loc["b"]
        x, inside = views["b"][:, 1], (people["group"] == "high").to_numpy()
        groups = [x[inside], x[~inside]]
        between = sum(len(g) * (g.mean() - x.mean()) ** 2 for g in groups) / ((x - x.mean()) ** 2).sum()
        eta = np.sqrt(1 - (1 - between) * 99 / 98)
        assert (row["measure"], row["feature"], row["used"]) == ("eta", "b_1", True)
        assert row["strength"] == pytest.approx(eta)
        snp = np.repeat([0.0, 1.0, 2.0, 1.0], 25)[:, None]
        coded = pd.DataFrame(
            {"carrier": np.where(snp[:, 0] == 1.0, "het", "hom")}
        )  # not monotone in the feature
        assert used_for_clustering(coded, {"snp": snp})["measure"].tolist() == ["V"]

    def test_only_features_with_few_values_are_tabulated(self):
        rng = np.random.default_rng(0)
        X = np.column_stack(
            [rng.integers(0, 3, 40), rng.standard_normal(40), np.ones(40), np.arange(40) % 11]
        )
        X[::4, 0] = np.nan  # one value more
        strengths = dict(used._categorical_strengths(np.repeat(["a", "b"], 20), X))["V"]
        np.testing.assert_array_equal(np.isfinite(strengths), [True, False, False, False])

    def test_tables_of_features_at_once_are_those_of_each_feature(self, monkeypatch):
        rng = np.random.default_rng(1)
        y, X = rng.choice(list("abc"), 60), rng.integers(0, 4, (60, 7)).astype(float)
        X[rng.random(X.shape) < 0.1] = np.nan
        X[:, 2] = np.where(y == "a", 3.0, -1.0)
        monkeypatch.setattr(used, "MOST_COUNTS", 90)  # three features at once
        strengths = dict(used._categorical_strengths(y, X))["V"]
        for strength, x in zip(strengths, X.T, strict=True):
            counts = pd.crosstab(pd.Series(y), pd.Series(x).fillna(9.0)).to_numpy()
            chi2 = stats.chi2_contingency(counts, correction=False)[0]
            assert strength == pytest.approx(cramers_v(chi2, counts), abs=1e-12)
        assert np.isnan(dict(used._categorical_strengths(np.repeat("a", 60), X))["V"]).all()

    def test_the_bound_holds_and_rows_are_matched_by_id(self, cohort):
        views, people, _ = cohort
        assert not used_for_clustering(people[["near"]], views, bound=0.999)["used"].any()
        ids = [f"s{i}" for i in range(100)]
        named = vl.Views(views, ids=ids)
        shuffled = people.set_axis(ids).sample(frac=1.0, random_state=1)
        assert used_for_clustering(shuffled[["near"]], named)["used"].tolist() == [True, False]

    def test_noise_is_rarely_marked(self):
        rng = np.random.default_rng(1)
        people = pd.DataFrame(rng.standard_normal((60, 20))).add_prefix("v")
        people["site"] = rng.choice(list("ABCDEFGHIJKL"), 60)
        assert not used_for_clustering(people, {"x": rng.standard_normal((60, 300))})["used"].any()

    @pytest.mark.parametrize("wrap", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
    def test_multiple_correlation_is_that_of_least_squares(self, wrap):
        rng = np.random.default_rng(0)
        X = np.where(rng.random((200, 12)) < 0.3, rng.normal(5.0, 1.0, (200, 12)), 0.0)
        X[:, 3], X[:, 5] = X[:, 4], 7.0  # collinear, and constant
        y = X.sum(axis=1) + rng.standard_normal(200)
        design = np.column_stack([np.ones(200), X])
        left = y - design @ np.linalg.lstsq(design, y, rcond=None)[0]
        expected = np.sqrt(1.0 - left.var() / y.var() * 199 / 187)
        assert used._multiple(y, wrap(X)) == pytest.approx(expected, abs=1e-7)

    def test_very_many_subjects_are_drawn_at_random(self, cohort, monkeypatch):
        views, people, _ = cohort
        whole = used_for_clustering(people, views)
        monkeypatch.setattr(used, "MOST_SUBJECTS", 40)
        with patch.object(used, "_strengths", wraps=used._strengths) as compared:
            some = used_for_clustering(people, views)
        assert {len(call.args[1]) for call in compared.call_args_list} == {40}
        pd.testing.assert_series_equal(some["used"], whole["used"])
        differences = (some["strength"] - whole["strength"]).abs()
        assert 0.0 < differences.max() < 0.3
        monkeypatch.setattr(used, "PER_FEATURE", 15)
        with patch.object(used, "_strengths", wraps=used._strengths) as compared:
            used_for_clustering(people[["near"]], views)
        assert [len(call.args[1]) for call in compared.call_args_list] == [60, 45]

    def test_other_lengths_are_refused(self, cohort):
        views, people, _ = cohort
        with pytest.raises(InputError, match="99 participants and 100 samples"):
            used_for_clustering(people[:99], views)

    def test_associations_mark_them_and_correct_for_the_others(self, cohort):
        views, people, labels = cohort
        table = associations(labels, people, views=views).set_index("variable")
        marked = ["mmse", "near", "monotone", "total"]
        assert (table.loc[marked, "note"] == USED).all()
        assert table.loc[marked, ["p", "q"]].isna().all(axis=None)
        assert not table.loc[marked, "significant"].any()
        assert table.loc[marked, "effect"].notna().all()
        plain = associations(labels, people[["group", "age", "sex"]])
        np.testing.assert_allclose(table.loc[["group", "age", "sex"], "q"], plain["q"])
        assert table.attrs["tested"] == 3
        assert (plain["note"] == "").all()


class TestIntervals:
    def test_epsilon_squared_covers(self):
        rng = np.random.default_rng(0)
        shift = np.repeat([0.0, 0.4, 0.9], 30)
        big = np.repeat([0.0, 0.4, 0.9], 20_000)
        values = big + rng.standard_normal(len(big))
        truth = compared_columns(np.repeat([0, 1, 2], 20_000), values[:, None])[1][0]
        hits = []
        for _ in range(150):
            y = shift + rng.standard_normal(90)
            low, high = epsilon_squared_interval(stats.kruskal(y[:30], y[30:60], y[60:])[0], 90, 3)
            hits.append(low <= truth <= high)
        assert 0.90 <= np.mean(hits) <= 0.995

    def test_ends_solve_the_noncentral_distributions(self):
        low, high = epsilon_squared_interval(20.0, 100, 3)
        F = (20.0 / 2) / (79.0 / 97)
        sizes = [100 * bound / (1 - bound) for bound in (low, high)]
        np.testing.assert_allclose(stats.ncf.sf(F, 2, 97, sizes), [0.025, 0.975], rtol=1e-6)
        counts = np.array([[30, 10, 5], [10, 25, 20]])
        chi2 = stats.chi2_contingency(counts, correction=False)[0]
        ends = np.array(cramers_v_interval(chi2, counts))
        np.testing.assert_allclose(stats.ncx2.sf(chi2, 2, 100 * ends**2), [0.025, 0.975], rtol=1e-6)

    def test_cliffs_delta_equals_naive_sums(self):
        rng = np.random.default_rng(2)
        x, y = rng.integers(0, 8, 15).astype(float), rng.integers(2, 10, 12).astype(float)
        D = np.sign(x[:, None] - y[None, :])
        d, n, m = D.mean(), 15, 12
        s2 = (
            m**2 * ((D.mean(axis=1) - d) ** 2).sum()
            + n**2 * ((D.mean(axis=0) - d) ** 2).sum()
            - ((D - d) ** 2).sum()
        ) / (n * m * (n - 1) * (m - 1))
        z = stats.norm.ppf(0.975)
        reach = z * np.sqrt(s2) * np.sqrt((1 - d**2) ** 2 + z**2 * s2)
        expected = [(d - d**3 - reach) / (1 - d**2 + z**2 * s2), (d - d**3 + reach) / (1 - d**2 + z**2 * s2)]
        np.testing.assert_allclose(cliffs_delta_interval(x, y), expected)
        row = pairwise([0] * 15 + [1] * 12, np.append(x, y)).loc[0]
        assert row["effect"] == pytest.approx(d)
        assert row["low"] == pytest.approx(expected[0])


class TestCombination:
    def test_formula_and_missing(self):
        p = np.array([[0.01, np.nan], [0.5, np.nan], [0.2, np.nan]])
        expected = 0.5 - np.arctan(np.mean(np.tan((0.5 - p[:, 0]) * np.pi))) / np.pi
        found = cauchy_combination(p)
        assert found[0] == pytest.approx(expected)
        assert np.isnan(found[1])

    def test_one_of_p_1_does_not_decide(self):
        assert cauchy_combination([0.0001, 1.0, 1.0]) < 0.01


class TestHeldOut:
    def test_columns_equal_rank_anova(self):
        rng = np.random.default_rng(0)
        X, codes = rng.integers(0, 4, (40, 3)).astype(float), np.repeat([0, 1, 2], [10, 14, 16])
        p, effect = compared_columns(codes, X)
        for j in range(3):
            groups = [X[codes == k, j] for k in range(3)]
            assert effect[j] == pytest.approx(stats.kruskal(*groups)[0] / 39)
            ranks = stats.rankdata(X[:, j])
            assert p[j] == pytest.approx(stats.f_oneway(*(ranks[codes == k] for k in range(3)))[1])

    def test_the_view_takes_no_part(self, cohort):
        views, people, _ = cohort
        model = KMeansViews().fit(views)
        found = view_left_out(model, views, "a")
        alone = KMeansViews().fit(views.select(["b"]))
        np.testing.assert_array_equal(found.p, compared_columns(alone.labels_, views["a"])[0])
        changed = vl.Views({"a": views["a"][::-1], "b": views["b"]})
        again = view_left_out(model, changed, "a")
        np.testing.assert_array_equal(again.p, compared_columns(alone.labels_, views["a"][::-1])[0])
        ((variable, left),) = used_variables(people[["near"]], views).values()
        assert left == ["a"]
        assert 0.0 <= variable_left_out(model, views, variable, left) <= 1.0
        assert np.isnan(variable_left_out(model, views, variable, ["a", "b"]))

    def test_subjects_without_another_view_are_left_out(self, cohort):
        views, _, _ = cohort
        lacking = views["b"].copy()
        lacking[:30] = np.nan
        incomplete = vl.Views({"a": views["a"], "b": lacking})
        assert view_left_out(KMeansViews().fit(incomplete), incomplete, "a").subjects == 70
        none = absent(incomplete[30:], [1])
        assert not none.present[:, 1].any()
        assert np.isnan(none["b"]).all()

    def test_one_view_is_refused(self, cohort):
        views, _, _ = cohort
        with pytest.raises(InputError, match="only one view"):
            view_left_out(KMeansViews(), views.select(["a"]), "a")
        with pytest.raises(InputError, match="only one view"):
            split_tests(KMeansViews(), views.select(["a"]))

    def test_clusters_are_found_again_by_the_model(self):
        views, _ = vl.simulate.blobs_views(80, n_views=2, random_state=0)
        people = pd.DataFrame({"copy": views["blobs0"][:, 0]})
        model = vl.KernelMultiviewNMF(3, kernel={"blobs0": "linear", "blobs1": "linear"}, random_state=0)
        table = split_tests(model, views, people, splits=3)
        assert (table.loc[table["view"] != "", "q"] < 0.05).mean() > 0.5
        assert table.iloc[-1]["name"] == "copy"
        assert len(table) == sum(views.n_features) + 1


class TestThinning:
    def test_parts_sum_and_are_uncorrelated(self):
        rng = np.random.default_rng(0)
        root = np.array([[1.0, 0.5], [0.0, 1.0]])
        X = rng.standard_normal((20_000, 2)) @ root
        first, second = thinned(X, "gaussian", covariance=root.T @ root, share=0.3)
        np.testing.assert_allclose(first + second, X)
        assert np.abs(np.corrcoef(first.T, second.T)[:2, 2:]).max() < 0.03
        assert np.cov(first.T)[0, 0] == pytest.approx(0.3, abs=0.02)
        counts = rng.poisson(5.0, (20_000, 2))
        a, b = thinned(counts, "poisson")
        np.testing.assert_array_equal(a + b, counts)
        assert np.abs(np.corrcoef(a[:, 0], b[:, 0])[0, 1]) < 0.03

    @pytest.mark.parametrize(
        ("X", "noise", "given", "message"),
        [
            ([[1.5]], "poisson", {}, "whole numbers"),
            ([[1.0]], "gaussian", {}, "needs the covariance of the noise"),
            ([[1.0]], "gaussian", {"covariance": np.eye(2)}, "shape"),
            ([[1.0]], "gaussian", {"covariance": -np.eye(1)}, "negative eigenvalues"),
            ([[np.nan]], "poisson", {}, "1 values are missing"),
            ([[1.0]], "cauchy", {}, "noise must be"),
            ([[1.0]], "poisson", {"share": 1.0}, "share must be"),
        ],
    )
    def test_bad_input(self, X, noise, given, message):
        with pytest.raises(InputError, match=message):
            thinned(X, noise, **given)

    def test_incomplete_views_are_refused(self):
        views = {"a": [[1.0], [np.nan], [2.0]], "b": [[1.0], [2.0], [3.0]]}
        with pytest.raises(InputError, match="1 subjects lack a view"):
            thinning_tests(KMeansViews(), views, "poisson")


@pytest.mark.parametrize("name", ["view left out: Gaussian", "split: Gaussian", "thinning: Poisson"])
def test_levels_hold(name):
    """A short run of the benchmark that the documentation shows."""
    test, each = calibration.OFFERED[name]
    share, _, _ = calibration.rate(test, each, 320)
    assert 0.02 <= share <= 0.09


def test_what_is_not_offered_is_invalid():
    for name in ("features between their own clusters", "second half placed by all views"):
        assert calibration.rate(*calibration.NOT_OFFERED[name], 160)[0] > 0.5


@pytest.fixture(scope="module")
def confounded():
    rng = np.random.default_rng(3)
    labels = np.repeat([0, 1, 2], 40)
    age = rng.normal(70, 5, 120) + 2.0 * labels
    logit = 0.2 * (age - 72) + 1.0 * (labels == 2)
    return labels, pd.DataFrame(
        {
            "age": age,
            "sex": rng.choice(["F", "M"], 120),
            "score": 0.3 * age + 1.0 * (labels == 1) + rng.standard_normal(120),
            "event": (logit + rng.logistic(size=120) > 0).astype(int),
            "stage": np.digitize(logit + rng.logistic(size=120), [-1.0, 1.0]),
            "kind": rng.choice(["x", "y", "z"], 120),
        }
    )


class TestAdjusted:
    def test_equal_statsmodels(self, confounded):
        smf = pytest.importorskip("statsmodels.formula.api")
        labels, people = confounded
        found = adjusted_effects(labels, people, ["score", "event", "stage", "kind"], ["age", "sex"])
        assert found.skipped == {"kind": "categories without an order, which have no single effect"}
        assert found.overall["model"].tolist() == ["linear", "logistic", "ordinal"]
        assert found.tested == 3
        np.testing.assert_allclose(found.overall["q"], stats.false_discovery_control(found.overall["p"]))
        data = people.assign(c=labels == 1, y=people["score"] / people["score"].std())
        fitted = smf.ols("y ~ c + age + sex", data).fit(cov_type="HC3", use_t=True)
        row = found.effects.query("variable == 'score' and cluster == 1").iloc[0]
        np.testing.assert_allclose(
            row[["effect", "low", "high", "p"]].astype(float),
            [fitted.params["c[T.True]"], *fitted.conf_int().loc["c[T.True]"], fitted.pvalues["c[T.True]"]],
            rtol=1e-6,
        )
        full = smf.logit("event ~ C(label) + age + sex", people.assign(label=labels)).fit(disp=0)
        less = smf.logit("event ~ age + sex", people).fit(disp=0)
        assert found.overall["statistic"][1] == pytest.approx(2 * (full.llf - less.llf), rel=1e-5)
        assert found.overall["p"][1] == pytest.approx(stats.chi2.sf(2 * (full.llf - less.llf), 2), rel=1e-4)
        one = smf.logit("event ~ c + age + sex", people.assign(c=(labels == 2) * 1.0)).fit(disp=0)
        row = found.effects.query("variable == 'event' and cluster == 2").iloc[0]
        np.testing.assert_allclose(
            row[["effect", "low", "high"]].astype(float),
            np.exp([one.params["c"], *one.conf_int().loc["c"]]),
            rtol=1e-4,
        )

    def test_ordinal_of_two_values_is_logistic(self, confounded):
        pytest.importorskip("statsmodels")
        from viewloom.clinical.regression import MODELS

        labels, people = confounded
        X, Z = (labels == 2).astype(float)[:, None], people[["age"]].to_numpy() - 72.0
        y = people["event"].to_numpy()
        ordinal, logistic = (MODELS[kind].effect(y, X, Z) for kind in ("ordinal", "logistic"))
        assert ordinal.effect == pytest.approx(logistic.effect, rel=1e-3)
        assert ordinal.p == pytest.approx(logistic.p, rel=1e-3)

    def test_against_a_reference_and_used_variables(self, confounded):
        pytest.importorskip("statsmodels")
        labels, people = confounded
        views = vl.Views({"a": people[["score"]].to_numpy()})
        found = adjusted_effects(labels, people, ["score"], ["age"], against=0, views=views)
        assert found.effects["cluster"].tolist() == [1, 2]
        assert (found.effects["note"] == USED).all()
        assert found.effects["p"].isna().all()
        assert found.overall["p"].isna().all()
        assert found.tested == 0

    def test_separation_small_groups_and_determined_clusters(self):
        pytest.importorskip("statsmodels")
        rng = np.random.default_rng(0)
        labels = np.repeat([0, 1, 2], [30, 30, 5])
        people = pd.DataFrame(
            {"y": (labels == 1).astype(int), "x": rng.standard_normal(65), "same": labels.astype(float)}
        )
        found = adjusted_effects(labels, people, ["y"]).effects
        assert found["note"].tolist() == [SEPARATED, SEPARATED, "fewer than 10 subjects"]
        determined = adjusted_effects(labels, people, ["x"], ["same"]).effects
        assert determined["note"].tolist()[:2] == [SINGULAR, SINGULAR]
        assert determined["effect"].isna().all()

    def test_unknown_columns_and_reference(self, confounded):
        pytest.importorskip("statsmodels")
        labels, people = confounded
        with pytest.raises(InputError, match="no column 'iq'"):
            adjusted_effects(labels, people, ["iq"])
        with pytest.raises(InputError, match="the reference"):
            adjusted_effects(labels, people, ["score"], against=7)


class TestHazards:
    def test_check_equals_cox_zph_of_r(self):
        """cox.zph (survival 3) of coxph(Surv(futime, fustat) ~ age + ecog.ps, ovarian), as in its manual."""
        PHReg = pytest.importorskip("statsmodels.duration.hazard_regression").PHReg
        time, event, X = OVARIAN[:, 0], OVARIAN[:, 1] == 1, OVARIAN[:, 2:]
        fitted = PHReg(time, X, status=event.astype(int), ties="efron").fit(disp=0)
        single, together = proportionality(X, time, event, fitted.params)
        chi_squares = stats.chi2.isf([*single, together], [1, 1, 2])
        np.testing.assert_allclose(chi_squares, [0.698, 2.371, 3.633], atol=6e-4)
        expected = fitted.schoenfeld_residuals[event]
        np.testing.assert_allclose(schoenfeld(X, time, event, fitted.params)[0], expected, atol=1e-8)

    def test_sums_of_those_at_risk_equal_loops(self):
        """With ties between events, and between events and censored subjects."""
        rng = np.random.default_rng(0)
        X, time, event = (
            rng.standard_normal((60, 2)),
            rng.integers(1, 15, 60).astype(float),
            rng.random(60) < 0.6,
        )
        beta = np.array([0.5, -1.0])
        residuals, V = schoenfeld(X, time, event, beta)
        for i, r, v in zip(np.flatnonzero(event), residuals, V, strict=True):
            weights = np.exp(X @ beta) * (time >= time[i])
            np.testing.assert_allclose(r, X[i] - np.average(X, axis=0, weights=weights), atol=1e-12)
            np.testing.assert_allclose(v, np.cov(X.T, aweights=weights, ddof=0), atol=1e-12)

    def test_equal_phreg_with_covariates(self):
        PHReg = pytest.importorskip("statsmodels.duration.hazard_regression").PHReg
        rng = np.random.default_rng(0)
        labels, age = np.repeat([0, 1, 2], 40), rng.normal(70, 5, 120)
        time = rng.exponential(np.exp(0.7 * (labels == 2) - 0.05 * (age - 70))).round(2)
        event = (rng.random(120) < 0.7).astype(int)
        found = hazards(labels, time, event, pd.DataFrame({"age": age}), ["age"])
        X = np.column_stack([labels == 2, (age - age.mean()) / age.std()]).astype(float)
        fitted = PHReg(time, X, status=event, ties="efron").fit(disp=0)
        without = PHReg(time, X[:, 1:], status=event, ties="efron").fit(disp=0)
        row = found.table.loc[2]
        assert row["hazard_ratio"] == pytest.approx(np.exp(fitted.params[0]), rel=1e-5)
        assert row["p"] == pytest.approx(stats.chi2.sf(2 * (fitted.llf - without.llf), 1), rel=1e-4)
        assert found.df == 2
        assert 0.0 <= found.ph_p <= 1.0
        assert found.events == event.sum()

    def test_changing_hazards_are_found(self):
        pytest.importorskip("statsmodels")
        rng = np.random.default_rng(1)
        labels = np.repeat([0, 1], 150)
        time = np.where(labels == 0, rng.exponential(1.0, 300), rng.weibull(4.0, 300))
        assert hazards(labels, time, np.ones(300)).ph_p < 0.001

    def test_few_events_and_bad_input(self):
        pytest.importorskip("statsmodels")
        labels, event = np.repeat([0, 1], 20), np.repeat([1, 0], 20)
        found = hazards(labels, np.arange(1.0, 41.0), event)
        assert found.table["hazard_ratio"].isna().all()
        assert np.isnan(found.p)
        assert "events" in found.table["note"][0]
        with pytest.raises(InputError, match="need the participants"):
            hazards(labels, np.arange(1.0, 41.0), event, None, ["age"])


class TestExplanations:
    def test_site_and_missing_views_are_found(self):
        rng = np.random.default_rng(0)
        labels = np.repeat([0, 1, 2], 40)
        site = np.where(rng.random(120) < 0.7, np.array(["A", "B", "C"])[labels], "A")
        block = rng.standard_normal((120, 2))
        block[(labels == 0) & (rng.random(120) < 0.8)] = np.nan
        views = vl.Views({"mri": rng.standard_normal((120, 2)), "pet": block})
        people = pd.DataFrame({"site": site, "age": rng.normal(70, 5, 120)})
        table = explanations(labels, people, columns=["site", "age", "icv"], views=views).set_index(
            "variable"
        )
        assert table["explains"].to_dict() == {"site": True, "age": False, "pet": True}
        assert (table["low"] <= table["effect"]).all()
        assert (table["effect"] <= table["high"]).all()
        sentences = explanation_sentences(table.reset_index())
        assert len(sentences) == 2
        assert "who lacks pet" in sentences[1]

    def test_a_variable_that_determines_the_clusters_explains_them(self):
        """An effect of 1 has no interval."""
        labels = np.repeat([0, 1, 2], [50, 40, 30])
        table = explanations(labels, pd.DataFrame({"age": 70.0 + labels}), columns=["age"])
        assert table["low"].isna().all()
        assert table["explains"].all()
        assert "nan" not in explanation_sentences(table)[0]

    def test_nothing_to_explain(self):
        assert explanations([0, 1, 0, 1]).empty


@pytest.mark.parametrize("events", [[2, 4], [0, 4], [3, 4]])
def test_hazards_of_few_events_are_not_checked(events):
    rng = np.random.default_rng(0)
    X, time, event = rng.standard_normal((5, 2)), np.arange(5.0) + 1.0, np.isin(np.arange(5), events)
    single, together = proportionality(
        X, time, event, np.array([0.1, 0.2])
    )  # one subject at risk at the last
    assert np.isnan(together)
    assert np.isnan(single).all() or (single > 0.0).all()


def test_a_column_that_is_constant_at_risk_leaves_the_others_as_they_are():
    rng = np.random.default_rng(1)
    X, time, event = rng.standard_normal((40, 2)), rng.exponential(size=40), np.ones(40, dtype=bool)
    first = np.argmin(time)
    event[first] = False
    X[:, 1] = np.arange(40) == first  # censored before the first event
    alone, _ = proportionality(X[:, :1], time, event, np.array([0.3]))
    single, together = proportionality(X, time, event, np.array([0.3, 0.0]))
    np.testing.assert_allclose(single[0], alone[0], rtol=1e-6)
    assert np.isnan([single[1], together]).all()
