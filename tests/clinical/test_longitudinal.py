"""Several visits: transitions, conversion and slopes, against loops, simulation and statsmodels."""

import sys

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from viewloom.clinical import first_conversion, slopes, transitions
from viewloom.runtime.errors import InputError, MissingPackageError


class TestTransitions:
    @pytest.mark.parametrize("seed", range(5))
    def test_counts_are_those_of_a_loop(self, seed):
        rng = np.random.default_rng(seed)
        before = rng.integers(0, 3, 50)
        after = rng.choice([0.0, 1.0, 2.0, np.nan], 50)
        expected = np.zeros((3, 3), dtype=int)
        for one, other in zip(before, after, strict=True):
            if not np.isnan(other):
                expected[one, int(other)] += 1
        found = transitions(before, after, clusters=range(3))
        assert found.to_numpy().tolist() == expected.tolist()

    def test_series_are_matched_by_their_index(self):
        before = pd.Series([0, 1, 1], index=["a", "b", "c"])
        after = pd.Series([1, 0], index=["b", "a"])
        assert transitions(before, after).to_numpy().tolist() == [[1, 0], [0, 1]]

    def test_clusters_without_subjects_have_rows(self):
        assert transitions([0, 1], [1, 0], clusters=range(3)).shape == (3, 3)

    def test_other_lengths_and_labels_are_refused(self):
        with pytest.raises(InputError, match="2 clusters before and 3 after"):
            transitions([0, 1], [0, 1, 1])
        with pytest.raises(InputError, match="1 labels are not among"):
            transitions([0, 5], [0, 0], clusters=range(2))


def naive_conversion(rows, to, among):
    """By a loop over subjects and their visits in order."""
    found = {}
    for subject in dict.fromkeys(row[0] for row in rows):
        visits = sorted((t, d) for s, t, d in rows if s == subject and t is not None and d is not None)
        found[subject] = (np.nan, np.nan)
        if len({t for t, _ in visits}) < 2 or visits[0][1] in to or (among and visits[0][1] not in among):
            continue
        reached = [t for t, d in visits if d in to]
        found[subject] = (reached[0], 1.0) if reached else (visits[-1][0], 0.0)
    return found


class TestConversion:
    @pytest.mark.parametrize("among", [(), ("MCI",)])
    @pytest.mark.parametrize("seed", range(6))
    def test_times_are_those_of_a_loop(self, seed, among):
        rng = np.random.default_rng(seed)
        rows = [
            (
                subject,
                None if rng.random() < 0.05 else float(t),
                [None, "CN", "MCI", "AD"][rng.choice(4, p=P)],
            )
            for subject in range(60)
            for t in rng.choice(6, size=int(rng.integers(1, 5)), replace=False)
        ]
        rng.shuffle(rows)
        ids, time, diagnosis = zip(*rows, strict=True)
        found = first_conversion(ids, time, diagnosis, ["AD"], among=among)
        expected = naive_conversion(rows, {"AD"}, among)
        assert_allclose(found.loc[list(expected)].to_numpy(), np.array(list(expected.values())))
        assert found["event"].eq(1).any()
        assert found["event"].isna().any()


P = [0.05, 0.25, 0.5, 0.2]


def cohort(rng, slope_of, n=60, visits=4, spread=(2.0, 0.5), noise=0.5):
    """Outcomes with an intercept and a slope of each subject around those of its cluster."""
    ids = np.repeat(np.arange(n), visits)
    labels = ids % len(slope_of)
    time = np.tile(np.arange(visits, dtype=float), n) + rng.uniform(-0.1, 0.1, n * visits)
    start, own = (rng.normal(0, sd, n) for sd in spread)
    slope = np.asarray(slope_of)[labels] + own[ids]
    return labels, ids, time, 27 + start[ids] + slope * time + rng.normal(0, noise, len(ids))


@pytest.fixture(scope="module", autouse=True)
def stats():
    return pytest.importorskip("statsmodels.formula.api")


class TestSlopes:
    def test_planted_slopes_are_found(self):
        found = slopes(*cohort(np.random.default_rng(0), [0.0, -1.0, -2.0]))
        assert_allclose(found.table["slope"], [0.0, -1.0, -2.0], atol=0.4)
        assert ((found.table["low"] < [0.0, -1.0, -2.0]) & (found.table["high"] > [0.0, -1.0, -2.0])).all()
        assert (found.p < 1e-6, found.df, found.random) == (True, 2, "intercept and slope")
        assert found.table["subjects"].tolist() == [20, 20, 20]
        assert found.table["visits"].tolist() == [80, 80, 80]

    def test_numbers_are_those_of_statsmodels_called_directly(self, stats):
        labels, ids, time, values = cohort(np.random.default_rng(1), [0.0, -1.0])
        found = slopes(labels, ids, time, values)
        table = pd.DataFrame({"y": values, "t": time, "c": labels.astype(str), "id": ids})
        direct = stats.mixedlm("y ~ 0 + c + c:t", table, groups="id", re_formula="~t").fit(reml=True)
        names = ["c[0]:t", "c[1]:t"]
        assert_allclose(found.table["slope"], direct.params[names], rtol=1e-3)
        errors = (found.table["high"] - found.table["low"]) / 2 / 1.959964
        assert_allclose(errors, direct.bse[names], rtol=1e-2)
        wald = direct.wald_test("c[0]:t = c[1]:t", use_f=False, scalar=True)
        assert found.statistic == pytest.approx(float(wald.statistic), rel=2e-2)

    def test_equal_slopes_are_called_different_rarely(self):
        cohorts = [cohort(np.random.default_rng(seed), [-1.0, -1.0], n=24, visits=3) for seed in range(8)]
        assert sum(slopes(*data).p < 0.05 for data in cohorts) <= 2

    def test_units_do_not_matter(self):
        labels, ids, time, values = cohort(np.random.default_rng(2), [0.0, -1.0])
        one, other = slopes(labels, ids, time, values), slopes(labels, ids, time, 1e6 * values)
        assert_allclose(other.table["slope"], 1e6 * one.table["slope"], rtol=1e-6)
        assert other.p == pytest.approx(one.p)

    def test_the_order_of_rows_and_the_names_do_not_matter(self):
        labels, ids, time, values = cohort(np.random.default_rng(3), [0.0, -1.0])
        order = np.random.default_rng(0).permutation(len(ids))
        names = np.array([f"s{i:03d}" for i in ids])
        one, other = (slopes(*data) for data in (
            (labels, ids, time, values),
            (np.array(["b", "a"])[labels][order], names[order], time[order], values[order]),
        ))  # fmt: skip
        assert_allclose(other.table.loc[["b", "a"], "slope"], one.table["slope"], rtol=1e-4)

    def test_missing_values_are_left_out(self):
        labels, ids, time, values = cohort(np.random.default_rng(4), [0.0, -1.0])
        values[::7], time[3::11] = np.nan, np.nan
        known = np.isfinite(values) & np.isfinite(time)
        one, other = (
            slopes(labels, ids, time, values),
            slopes(labels[known], ids[known], time[known], values[known]),
        )
        pd.testing.assert_frame_equal(one.table, other.table)

    def test_without_random_slopes_it_is_said(self, monkeypatch):
        """The larger model fails here on purpose."""
        from statsmodels.regression.mixed_linear_model import MixedLM

        fit = MixedLM.fit

        def refuse(self, *args, **kwargs):
            if self.k_re == 2:
                raise np.linalg.LinAlgError
            return fit(self, *args, **kwargs)

        monkeypatch.setattr(MixedLM, "fit", refuse)
        found = slopes(*cohort(np.random.default_rng(5), [0.0, -1.0]))
        assert (found.random, found.converged) == ("intercept", True)
        assert_allclose(found.table["slope"], [0.0, -1.0], atol=0.4)

    def test_too_few_visits_give_no_slope(self):
        labels, ids, time, values = cohort(np.random.default_rng(6), [0.0, -1.0])
        once = (labels == 1) & (time > 0.5)
        values[once] = np.nan
        found = slopes(labels, ids, time, values)
        assert np.isnan(found.table.loc[1, "slope"])
        assert np.isfinite(found.table.loc[0, "slope"])
        assert np.isnan(found.p)
        none = slopes(labels, ids, np.zeros(len(ids)), values)
        assert (none.converged, none.table["slope"].isna().all()) == (False, True)
        same = slopes(labels, ids, time, np.ones(len(ids)))
        assert not same.converged

    def test_lengths_are_checked(self):
        with pytest.raises(InputError):
            slopes([0, 1], [0, 1, 2], [0.0, 1.0], [1.0, 2.0])

    def test_without_statsmodels_the_way_out_is_told(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "statsmodels", None)
        monkeypatch.setattr("viewloom.clinical.longitudinal.find_spec", lambda name: None)
        with pytest.raises(MissingPackageError, match=r"pip install viewloom\[stats\]"):
            slopes([0, 1], [0, 1], [0.0, 1.0], [1.0, 2.0])
