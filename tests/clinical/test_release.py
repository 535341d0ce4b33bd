"""Numbers that may leave: rounded, withheld for small groups, and of no single subject."""

import pickle
from itertools import product

import numpy as np
import pandas as pd
import pytest

from viewloom.clinical import Hidden, Known, associations, conversion, described, on_grid
from viewloom.clinical.profiles import _mean_of_all
from viewloom.clinical.published import (
    CLASS_ONLY,
    precisions,
    published_adjusted,
    published_associations,
    published_hazards,
    published_pairs,
    small_groups,
)
from viewloom.clinical.release import (
    PClass,
    coarse_p,
    group_quantiles,
    mean_decimals,
    released,
    rounded_p,
    withheld,
)
from viewloom.clinical.statistics import Precision, _Hidden, precision
from viewloom.clinical.suppression import hidden
from viewloom.clinical.variables import variable_of


class TestWithheld:
    @pytest.mark.parametrize(
        ("sizes", "expected"),
        [
            ([50, 40, 30], [False, False, False]),
            ([50, 40, 3], [False, True, True]),
            ([50, 40, 5, 3], [False, True, True, True]),  # five and three subjects are still few
            ([50, 8, 9], [False, True, True]),
            ([50, 0, 30], [False, True, False]),  # nothing of nobody can be found
            ([5], [True]),
        ],
    )
    def test_withholds_a_second_group(self, sizes, expected):
        assert withheld(sizes, 11).tolist() == expected

    def test_means_of_others_do_not_give_a_hidden_one(self):
        labels = np.repeat([0, 1, 2], [60, 30, 5])
        people = pd.DataFrame({"mmse": np.random.default_rng(0).normal(25.0, 2.0, 95)})
        row = described(labels, people).loc[("mmse", "mean (SD)")]
        assert [isinstance(cell, Hidden) for cell in row] == [False, True, True, False]

    def test_large_numbers_have_few_digits(self):
        people = pd.DataFrame({"icv": np.random.default_rng(0).normal(1.5e6, 1.5e5, 90)})
        cells = described(np.repeat([0, 1], 45), people).loc[("icv", "mean (SD)")]
        assert all(cell.value % 10_000 == 0 and str(cell).endswith("0000)") for cell in cells)


class TestQuantiles:
    def test_are_means_of_several_subjects(self):
        """No quantile is a value, and moving one subject by one changes it by a share of one."""
        values = np.random.default_rng(0).normal(size=60)
        found = group_quantiles(values, [0.1, 0.5, 0.9], 11)
        assert np.abs(found[:, None] - values).min() > 1e-6
        moved = group_quantiles(np.sort(values) + np.eye(60)[30] * 1e-3, [0.5], 11)
        assert 0 < moved[0] - found[1] < 1.2e-4

    def test_are_close_to_quantiles_of_large_groups(self):
        values = np.random.default_rng(0).uniform(size=5000)
        levels = [0.1, 0.25, 0.5, 0.75, 0.9]
        np.testing.assert_allclose(group_quantiles(values, levels, 11), levels, atol=0.02)


class TestPValues:
    def test_keep_their_side_of_the_threshold(self):
        p = np.linspace(1e-4, 1.0, 5000)
        shown = np.array([rounded_p(value) for value in p])
        assert ((shown < 0.05) == (p < 0.05)).all()
        assert len(np.unique(shown)) < 200

    @pytest.mark.parametrize("p", [1e-9, 0.004, 0.02, 0.05, 0.7])
    def test_classes_are_numbers_and_text(self, p):
        coarse = coarse_p(p)
        assert (coarse < 0.05) == (p < 0.05)
        assert coarse == PClass(str(coarse))
        assert coarse_p(coarse) == coarse == pickle.loads(pickle.dumps(coarse))
        assert released([coarse, p])[0] == str(coarse)

    def test_classes_are_kept_in_columns(self):
        frame = pd.DataFrame({"p": [0.03, coarse_p(0.02), np.nan, coarse_p(0.3), 0.01]})
        assert [str(row["p"]) for row in frame.to_dict("records")][:3] == ["0.03", "<0.05", "nan"]
        assert (frame["p"] < 0.05).tolist() == [True, True, False, False, True]
        assert frame["p"].sort_values().index.tolist() == [4, 0, 1, 3, 2]
        with pytest.raises(TypeError):
            frame["p"].astype(float)


@pytest.fixture(scope="module")
def found():
    rng = np.random.default_rng(0)
    return conversion(np.repeat([0, 1, 2], [80, 40, 8]), rng.exponential(3.0, 128), rng.integers(2, size=128))


class TestCurves:
    def test_have_no_time_of_a_subject(self, found):
        shown = on_grid(found, 11)
        times = np.unique(shown.curves["time"])
        assert len(times) <= 11
        np.testing.assert_allclose(np.diff(times), times[1])
        assert not np.isin(times[1:], found.curves["time"]).any()
        assert set(shown.summary["median"].dropna()) <= set(times)
        assert {n for n in shown.at_risk.to_numpy().ravel() if n % 10} <= {11, -1}

    def test_agree_with_the_exact_curve(self, found):
        shown = on_grid(found, 11)
        for cluster, curve in shown.curves.groupby("cluster"):
            exact = found.curves[found.curves["cluster"] == cluster]
            for time, value in zip(curve["time"], curve["survival"], strict=True):
                assert value == round(exact.loc[exact["time"] <= time, "survival"].iloc[-1], 2)

    def test_tell_no_hidden_number_of_subjects_or_events(self):
        """Of 128 subjects, 80 and "<11" are shown: a curve or number at risk of the third would tell both."""
        rng = np.random.default_rng(0)
        event = np.r_[np.ones(80), np.zeros(40), np.ones(8)]
        found = conversion(np.repeat([0, 1, 2], [80, 40, 8]), rng.exponential(3.0, 128), event)
        shown = on_grid(found, 11)
        assert set(shown.curves["cluster"]) == {0}
        assert shown.at_risk.iloc[0].tolist() == [80, -1, 0]
        assert shown.summary["median"].notna().tolist() == [True, False, False]
        few = on_grid(conversion(np.repeat([0, 1], 64), rng.exponential(3.0, 128), np.arange(128) < 70), 11)
        assert set(few.curves["cluster"]) == {0}  # six events
        assert few.at_risk.iloc[0].tolist() == [60, 60]

    def test_are_the_same_if_shown_again(self, found):
        once = on_grid(found, 11)
        again = on_grid(once, 11)
        pd.testing.assert_frame_equal(once.curves, again.curves)
        pd.testing.assert_frame_equal(once.at_risk, again.at_risk)


def naive_values(counts, secret, effect):
    """Values of hidden counts of all 2 x 2 tables with the same totals and effect, by loops."""
    from viewloom.clinical.findings import cramers_vs

    values = {tuple(at): set() for at in np.argwhere(secret)}
    small = counts < 11
    for shift in range(-60, 61):
        table = counts + shift * np.array([[1, -1], [-1, 1]])
        fits = all(
            (0 <= table[at] <= 10) if small[at] else table[at] >= 11 for at in product(range(2), repeat=2)
        )
        if fits and (effect is None or round(cramers_vs(table[None])[0], 1) == effect):
            for at in values:
                values[at].add(int(table[at]))
    return values


class TestStatistics:
    @pytest.mark.parametrize("seed", range(12))
    def test_leave_enough_tables(self, seed):
        """The precision that is chosen leaves five values of each hidden count, or what the totals leave."""
        from viewloom.clinical.findings import cramers_vs

        rng = np.random.default_rng(seed)
        counts = rng.multinomial(int(rng.integers(50, 150)), [0.4, 0.3, 0.25, 0.05]).reshape(2, 2)
        secret = hidden(counts)
        found = precision(counts, secret)
        effect = None if found.effect is None else round(cramers_vs(counts[None])[0], found.effect)
        if secret.all() and not found.exact:
            left, all_ = (naive_values(counts, secret, one) for one in (effect, None))
            assert all(len(left[at]) >= min(5, len(all_[at])) for at in left)

    def test_counts_hidden_without_a_bound(self):
        """The effect of this table is that of one other table only, if no bound is shown."""
        counts = np.array([[14, 16, 11], [19, 7, 11]])
        secret = np.array([[False, True, True], [False, True, True]])
        assert precision(counts, secret, floor=0).effect is None

    def test_the_class_of_a_p_value_is_hidden_where_it_tells_a_count(self):
        """Of the eleven tables that the totals allow, too few have a p-value of the same class."""
        counts = np.array([[20, 19, 10], [24, 18, 20]])
        table = _Hidden(counts, np.array([[1, 0, 1], [1, 0, 1]], dtype=bool), 11, 11, 2)
        assert len(np.unique(table.others, axis=0)) == len(table.others) == 11
        assert table.is_safe(None, None, classes=False)
        assert not table.is_safe(None, None, classes=True)
        assert not precision(counts, table.secret).classes

    def test_other_tables_have_the_same_totals_and_bounds(self):
        counts = np.array([[12, 31, 45], [52, 25, 6], [74, 70, 30]])
        secret = hidden(counts)
        others = _Hidden(counts, secret, 11, 11, 3).others
        assert len(others) > 5
        assert (others.sum(axis=1) == counts.sum(axis=0)).all()
        assert (others.sum(axis=2) == counts.sum(axis=1)).all()
        assert (others[:, ~secret] == counts[~secret]).all()
        assert ((others < 11) == (counts < 11))[:, secret].all()

    def test_effects_of_variables_with_hidden_numbers_are_coarse(self):
        rng = np.random.default_rng(0)
        labels = np.repeat([0, 1, 2], [60, 50, 6])
        people = pd.DataFrame({"age": rng.normal(70, 8, 116), "sex": rng.choice(["F", "M"], 116)})
        known = precisions(labels, people, described(labels, people), 11)
        shown = published_associations(associations(labels, people), known).set_index("variable")
        assert np.isnan(shown.loc["age", "effect"])
        assert str(shown.loc["age", "p"]) == "≥0.05"
        exact = precisions(labels, people, described(labels, people, min_cell=1), 1)
        assert all(one.exact for one in exact.values())


EFFECT = {"effect": 0.4321, "low": 0.0321, "high": 0.8321, "p": 0.0342, "p_holm": 0.0342}


class TestIntervals:
    """Intervals tell how many subjects are behind them."""

    def pairs(self, n, known):
        return published_pairs(pd.DataFrame([{"variable": "mmse", **EFFECT, "n": n, "n_other": n}]), known)

    @pytest.mark.parametrize(("n", "shown"), [(40, (0.4, None)), (100, (0.4, 0.0)), (5000, (0.43, 0.03))])
    def test_are_rounder_where_numbers_of_missing_values_are_hidden(self, n, shown):
        found = self.pairs(n, {"mmse": Precision(counted=False)}).iloc[0]
        assert (found["effect"], None if np.isnan(found["low"]) else found["low"]) == shown
        assert found["p"] == (0.034 if n == 5000 else PClass("<0.05"))
        assert "n" not in found

    def test_have_two_decimals_where_nothing_is_hidden(self):
        found = self.pairs(40, {"mmse": Precision()}).iloc[0]
        assert found[["effect", "low", "high"]].tolist() == [0.43, 0.03, 0.83]

    def test_of_adjusted_effects_are_hidden_with_counts_and_with_missing_values_of_covariates(self):
        rows = [
            {"variable": name, "measure": "odds ratio", **EFFECT, "n": 60, "note": ""}
            for name in ("sex", "sex", "apoe")
        ]
        known = {"sex": Precision(), "apoe": CLASS_ONLY, "age": Precision(counted=False)}
        assert published_adjusted(pd.DataFrame(rows), known)["low"].tolist() == [0.03, 0.03]
        beside = published_adjusted(pd.DataFrame(rows), known, ["age"])
        assert beside["low"].isna().all()
        assert beside["p"].tolist() == [PClass("<0.05")] * 2

    def test_of_hazard_ratios_are_hidden_if_any_cluster_has_few_events(self):
        """Of two clusters, the ratio of one is that of the other."""
        rows = [{"cluster": j, **EFFECT, "n": n, "events": d, "note": ""} for j, n, d in self.CLUSTERS]
        table = pd.DataFrame(rows).rename(columns={"effect": "hazard_ratio"})
        found = published_hazards(table, 11)
        assert found["cluster"].tolist() == [0]
        assert np.isnan(found.loc[0, "low"])
        assert found.loc[0, "p"] == PClass("<0.05")
        assert published_hazards(table, 5)["low"].tolist() == [0.03, 0.03]

    CLUSTERS = ((0, 90, 40), (1, 60, 7))


class TestNumbersOfValues:
    @pytest.fixture
    def cohort(self):
        """Four clusters, of which one has many missing values."""
        labels = np.repeat([0, 1, 2, 3], [44, 39, 34, 19])
        score = np.array([22.4, 25.1, 26.5, 23.5])[labels]
        score += np.random.default_rng(0).normal(0.0, 2.7, len(labels))
        return labels, pd.DataFrame({"score": score}).mask(np.arange(136)[:, None] < 24)

    def test_the_total_is_rounder(self, cohort):
        table = described(*cohort).loc["score"]
        assert [str(cell) for cell in table["all"]][2:] == ["hidden", "about 20"]

    def test_the_mean_of_all_is_rounder_if_they_could_be_solved_for(self):
        means = [Known(mean, 1, spread=2.9) for mean in (22.4, 25.1, 26.5, 23.5, 24.8)]
        ends, total = np.array([[11, 33], [29, 39], [24, 34], [11, 19]]), np.array([111, 121])
        assert str(_mean_of_all(means, ends, total)) == "25 (3)"
        alike = [Known(mean, 1, spread=2.9) for mean in (24.0, 24.1, 24.2, 24.0, 24.1)]
        assert str(_mean_of_all(alike, ends, total)) == "24.1 (2.9)"
        known = np.repeat(ends[:, :1], 2, axis=1)
        assert _mean_of_all(means, known, total) is means[-1]

    def test_the_standard_deviation_of_all_is_left_out_if_they_could_be_solved_for(self):
        """Means are alike, standard deviations are not: 60 of 60, and some of 40, have a value."""
        ends, total = np.array([[60, 60], [30, 40]]), np.array([90, 100])
        apart = [Known(25.0, 2, spread=spread) for spread in (2.0, 8.0, 5.1)]
        assert str(_mean_of_all(apart, ends, total)) == "25.00"
        alike = [Known(25.0, 1, spread=spread) for spread in (5.0, 5.1, 5.0)]
        assert str(_mean_of_all(alike, ends, total)) == "25.0 (5.0)"

    def test_statistics_of_single_clusters_know_of_it(self, cohort):
        labels, people = cohort
        known = precisions(labels, people, described(labels, people), 11)["score"]
        assert known.exact
        assert not known.counted

    def test_of_three_values_are_counts(self):
        labels = np.repeat([0, 1], 40)
        people = pd.DataFrame(
            {"cdr": np.r_[np.repeat([0, 1, 2], [34, 2, 4]), np.repeat([0, 1, 2], [15, 20, 5])]}
        )
        known = precisions(labels, people, described(labels, people), 11)["cdr"]
        assert (known.effect, known.exact) == (1, False)
        assert precisions(labels, people, described(labels, people, min_cell=1), 1)["cdr"] == Precision()


class TestFewValues:
    @pytest.mark.parametrize("top", [1, 2])
    @pytest.mark.parametrize("n", [*range(11, 40), 79, 80, 81, 159, 160, 161, 400])
    def test_means_leave_five_numbers_of_subjects_with_each_value(self, n, top):
        """Whatever the mean: the numbers of subjects with the least and with the largest value stay open."""
        decimals = mean_decimals(np.arange(top + 1), n)
        ones, twos = (grid.ravel() for grid in np.meshgrid(np.arange(n + 1), np.arange(n + 1)))
        ones, twos = ones[ones + twos <= n], twos[ones + twos <= n]
        if top == 1:
            ones, twos = np.arange(n + 1), np.zeros(n + 1, dtype=int)
        shown = np.round((ones + 2 * twos) / n, decimals)
        for mean in np.unique(shown):
            for counts in (n - ones - twos, ones, twos)[: top + 1]:
                assert len(np.unique(counts[shown == mean])) >= 5

    def test_have_no_standard_deviation(self):
        """That of one subject with 1, two with 2 and 157 with 0 is 0.24, and the mean 0.03."""
        labels = np.repeat([0, 1], 160)
        people = pd.DataFrame({"cdr": np.r_[np.repeat([0, 1, 2], [157, 1, 2]), np.tile([0, 1, 2, 1], 40)]})
        cells = described(labels, people).loc[("cdr", "mean (SD)")]
        assert [str(cell) for cell in cells] == ["0.0", "1.0", "0.5"]
        assert "(" in str(described(labels, people, min_cell=1).loc[("cdr", "mean (SD)"), "0"])

    def test_are_hidden_in_small_groups(self):
        labels, people = np.repeat([0, 1], 12), pd.DataFrame({"cdr": np.tile([0, 1, 2, 3], 6)})
        assert set(described(labels, people).loc[("cdr", "mean (SD)")]) == {Hidden("", 0)}


def test_a_log_rank_test_has_its_class_beside_hidden_events():
    rng = np.random.default_rng(0)
    labels, time = np.repeat([0, 1], [60, 40]), rng.exponential(3.0, 100)
    few = np.where(labels == 1, np.arange(100) % 8 == 0, 1)
    assert isinstance(on_grid(conversion(labels, time, few), 11).p, PClass)
    assert isinstance(on_grid(conversion(labels, time, np.arange(100) % 2), 11).p, float)


@pytest.mark.parametrize(
    ("values", "small"),
    [
        (["F", "M"] * 40, False),
        (["F", "M"] * 37 + [None] * 6, True),  # few missing values are a small group, too
        (list(np.arange(80.0)), False),
        ([0, 1, 2] * 26 + [1, 2], False),
        ([0] * 70 + [1, 2] * 5, True),
    ],
)
def test_groups_of_a_variable_that_are_small(values, small):
    """Statistics of a variable with small groups are hidden in every table, also as explanations."""
    variable = variable_of("x", pd.Series(values), categorical=False)
    assert small_groups(variable, np.arange(80) // 40, 2, 11) == small
