"""An outsider with the published files of a run finds no hidden number; with those of a leaky run, many."""

import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import attack as studies
from attacker import (
    ANY,
    Crossed,
    Numbers,
    decided,
    enumerated,
    found_among,
    found_mean,
    found_number,
    found_total,
    found_values,
    interval,
    possible_events,
    resolution,
    solved,
)
from attacker_features import Feature, attack, found_by_loadings, found_carriers, found_together

from viewloom.clinical.intervals import epsilon_squared_interval
from viewloom.clinical.published import published_associations, published_explanations
from viewloom.clinical.statistics import Precision

SMALL = 11
SEEDS = (0, 5)  # the first has a small cluster, the second rare combinations of views
COUNTS = {"subjects", "cluster_sizes", "controls_placed", "at_risk", "heights"}  # keys of counts of subjects
PRIVATE = {"labels.csv", "model.safetensors"}
FEATURES = ("carriers", "loadings", "joined")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Run folders of random studies."""
    folders = []
    for seed in SEEDS:
        folder = tmp_path_factory.mktemp("study")
        studies.run(studies.write_study(folder, seed), folder / "run")
        folders.append(folder / "run")
    return folders


def test_no_hidden_number_is_found(runs):
    found = [attack(run) for run in runs]
    tried = ("counts", "patterns", "means", "times", "hazards", "numbers", "values", *FEATURES)
    assert all(sum(one[name].tried for one in found) > 0 for name in tried)
    assert not [(name, one) for each in found for name, one in each.items() if one.found]


def test_the_attacks_work_on_files_as_they_were():
    """Six digits, exact steps of curves, and no second mean hidden."""
    found = studies.attacked(0, leaks=True)
    assert found["counts"].found > found["counts"].tried / 3
    assert found["means"].found > 0.9 * found["means"].tried > 0
    assert found["times"].found == found["times"].tried > 0
    assert all(found[name].found > 0 for name in ("values", "carriers", "joined"))


def numbers(content, name=""):
    """Every number of nested content, with the key that it is under."""
    if isinstance(content, dict):
        for key, value in content.items():
            yield from numbers(value, key)
    elif isinstance(content, list):
        for value in content:
            yield from numbers(value, name)
    elif isinstance(content, (int, float)) and not isinstance(content, bool):
        yield name, content


def is_coarse(value):
    """At most three significant digits, or two decimals."""
    return float(f"{value:.3g}") == value or round(value, 2) == value


@pytest.mark.parametrize("name", ["summary.json", "metrics.json", "clinical.json"])
def test_published_numbers_have_few_digits_and_are_no_small_counts(runs, name):
    """Whatever is added to a report or file: its numbers pass through the same rules, or this fails."""
    for run in runs:
        content = json.loads((run / name).read_text(encoding="utf-8"))
        content.pop("figures", None)
        for part in ("settings", "seed", "format"):
            content.get("summary", content).pop(part, None)
        told = list(numbers(content))
        assert told
        assert not [(key, value) for key, value in told if not is_coarse(value)]
        assert not [(key, value) for key, value in told if key in COUNTS and 0 < value < SMALL]


def test_sort_keys_are_what_is_shown(runs):
    for run in runs:
        summary = json.loads((run / "summary.json").read_text(encoding="utf-8"))["summary"]
        for table in summary["tables"]:
            cells = [cell for row in table["rows"] for cell in row if cell["value"] is not None]
            for cell in cells:
                text = cell["text"].split(" (")[0].replace("\N{MINUS SIGN}", "-")
                assert not re.fullmatch(r"-?[\d.]+", text) or float(text) == cell["value"]


def test_tables_of_files_have_few_digits(runs):
    for path in (path for run in runs for path in run.glob("*.csv") if path.name not in PRIVATE):
        _, *lines = path.read_text(encoding="utf-8").splitlines()
        values = [cell for line in lines for cell in line.split(",") if re.fullmatch(r"-?[\d.e-]+", cell)]
        assert all(is_coarse(float(value)) for value in values), path.name


def test_positions_in_drawings_are_rounded(runs):
    page = (runs[0] / "report.html").read_text(encoding="utf-8")
    assert not re.search(r'\bd="[^"]*\d\.\d{3}', page)


def test_what_is_private_is_listed_and_readable_by_its_owner_only(runs):
    for run in runs:
        about = json.loads((run / "run.json").read_text(encoding="utf-8"))
        assert set(about["private"]) == PRIVATE
        assert {path.name for path in run.iterdir() if path.stat().st_mode & 0o077 == 0} == PRIVATE


class TestAttacker:
    """The solver finds what can be found, and no more."""

    @staticmethod
    def crossed(low, high, rows, columns, effect=(-np.inf, np.inf)):
        ends = (np.array([line, line]).T for line in (rows, columns))
        return Crossed(np.array(low), np.array(high), *ends, len(rows), effect, (0.0, 1.0), "", {})

    def test_enumerates_all_tables(self):
        low, high = [[0, 0], [0, 0]], [[10, 99], [99, 10]]
        tables, complete = enumerated(self.crossed(low, high, [12, 13], [14, 11]))
        naive = [a for a in range(11) if 0 <= 14 - a <= 99 and 0 <= 13 - (14 - a) <= 10 and 12 - a <= 99]
        assert complete
        assert sorted(tables[:, 0, 0].tolist()) == naive

    def test_finds_a_count_by_its_effect(self):
        from attacker import cramers_v

        table = np.array([[30, 4], [12, 20]])
        bounds = [[11, 0], [11, 11]], [[99, 10], [99, 99]]
        exact = interval(float(f"{cramers_v(table[None])[0]:.6g}"))
        assert solved(self.crossed(*bounds, [34, 32], [42, 24])) == [False] * 4
        assert solved(self.crossed(*bounds, [34, 32], [42, 24], exact)) == [True] * 4

    def test_finds_a_mean_by_those_of_the_others(self):
        sizes = np.array([[40, 40], [30, 30], [5, 5]])
        everything = (-np.inf, np.inf)
        first, second, all_ = (24.9999, 25.0001), (27.9999, 28.0001), (25.9999, 26.0001)
        shown, both = [first, second, everything, all_], [first, everything, everything, all_]
        assert found_mean(shown, sizes, (75, 75), 2.0, (0.0, 1.0), 2)
        assert not found_mean(both, sizes, (75, 75), 2.0, (0.0, 1.0), 2)
        assert found_mean(both, sizes, (75, 75), 2.0, (0.4, 0.401), 2)

    def test_finds_counts_by_an_odds_ratio_and_its_interval(self):
        table = np.array([[30, 14], [12, 40], [3, 2]])  # the last row: missing values
        bounds = [[11, 11], [11, 11], [0, 0]], [[99, 99], [99, 99], [10, 10]]
        b, reach = np.log(40 * 30 / (12 * 14)), 1.96 * np.sqrt(1 / 30 + 1 / 14 + 1 / 12 + 1 / 40)
        shown = (1, *(interval(f"{np.exp(x):.2f}") for x in (b, b - reach, b + reach)))
        hidden = self.crossed(*bounds, table.sum(axis=1), table.sum(axis=0))
        hidden = replace(hidden, tested=2)
        assert True not in solved(hidden)
        assert True in solved(replace(hidden, odds=(shown,)))

    def test_finds_events_by_the_interval_of_a_hazard_ratio(self):
        """Two clusters, of which one has 7 events: its row is not shown, but the other has the same ratio."""
        reach = 1.96 * np.sqrt(1 / 40 + 1 / 7)
        two = interval(f"{1.6 * np.exp(-reach):.2f}"), interval(f"{1.6 * np.exp(reach):.2f}")
        ends = [(40, 40), (0, 10)]
        assert possible_events(ends, {0: two}, 1) == 1
        assert possible_events(ends, {0: (ANY, ANY)}, 1) == 11

    def test_finds_numbers_of_values_by_means_and_intervals(self):
        """57 of 60 and 26 of 40 have a value."""
        n, m, s = np.array([57, 26]), np.array([70.0, 82.0]), 8.0
        everyone = n @ m / n.sum()
        spread = np.sqrt(((n - 1) * s**2 + n * (m - everyone) ** 2).sum() / (n.sum() - 1))
        means = [interval(f"{x:.1f}") for x in (*m, everyone)]
        spreads = [interval(f"{x:.1f}") for x in (s, s, spread)]
        shown = Numbers([(50, 60), (11, 40)], (83, 83), means, spreads, [])
        assert found_number(shown, 0)
        assert not found_number(replace(shown, means=[*means[:2], (everyone - 0.5, everyone + 0.5)]), 0)
        apart = replace(shown, total=(61, 100), means=[*means[:2], (60.0, 90.0)])
        reach, d = 1.99 * np.sqrt(s**2 / 56 + s**2 / 25) / spread, 12.0 / spread
        exact, rough = ([(0, ANY, *(interval(f"{d + x:.{k}f}") for x in (-reach, reach)))] for k in (2, 1))
        assert found_number(replace(apart, n=[(57, 57), (11, 40)], differences=exact), 1)
        assert not found_number(replace(apart, n=[(57, 57), (11, 40)], differences=rough), 1)

    def test_finds_counts_of_three_values_by_cliffs_delta(self):
        """34, 1 and 3 subjects against 21, 18 and 1."""
        shown = interval("-0.33"), interval("-0.51"), interval("-0.13")
        beside = [interval("0"), interval("0")], interval("0.13")
        assert any(found_values(38, 40, *shown, *beside))
        assert not any(found_values(38, 40, shown[0], ANY, ANY, *beside))

    def test_finds_counts_of_few_values_by_a_standard_deviation(self):
        """Three of 60 have the value 1, the others 0: the mean is 0.05 and the standard deviation 0.22."""
        assert found_among(60, interval("0.1"), interval("0.2")) == [False, True, True]
        assert found_among(60, interval("0"), ANY) == [False] * 3

    def test_finds_numbers_of_values_by_standard_deviations(self):
        """60 of 63 and 36 of 40 have a value; means are equal, standard deviations are not."""
        n, s = np.array([60, 36]), np.array([2.0, 8.0])
        everyone = np.sqrt(((n - 1) * s**2).sum() / (n.sum() - 1))
        means, spreads = [interval("25.0")] * 3, [interval(f"{x:.2f}") for x in (*s, everyone)]
        shown = Numbers([(53, 63), (30, 40)], (83, 103), means, spreads, [])
        assert found_number(replace(shown, n=[(60, 60), (30, 40)]), 1)
        assert not found_number(replace(shown, n=[(60, 60), (30, 40)], spreads=[*spreads[:2], ANY]), 1)

    def test_finds_carriers_by_exact_means(self):
        """2, 8 and 0 of 58, 36 and 46 have the value 1; the mean of the second cluster is hidden."""
        n, c = np.array([58, 36, 46]), np.array([2, 8, 0])
        p, sizes = c.sum() / n.sum(), np.column_stack([n, n])
        z = (c / n - p) / np.sqrt(p * (1.0 - p))
        exact = [interval(f"{z[0]:.3f}"), ANY, interval(f"{z[2]:.3f}")]
        assert all(found_carriers(Feature("x", exact, (0.0, 1.0), ANY), sizes, n.sum(), 2)[1::2])
        assert not any(found_carriers(Feature("x", [ANY] * 3, (0.0, 1.0), ANY), sizes, n.sum(), 2))

    def test_finds_scores_by_loadings_and_shares_of_variance(self):
        """The second and third of three clusters are hidden; loadings tell the signs that shares do not."""
        n, rng = np.array([70, 71, 9]), np.random.default_rng(0)
        d = rng.standard_normal((13, 3))
        d -= (d @ n / 150)[:, None]
        d *= np.sqrt(0.99 / (d**2 @ n / 150))[:, None]
        *d, t = d  # of twelve features, and of the positions
        sizes, share = np.column_stack([n, n]), (0.985, 0.995)
        shown = [
            Feature("", [(z[0] - 1e-3, z[0] + 1e-3), ANY, ANY], share, (r - 1e-3, r + 1e-3))
            for z, r in zip(d, np.array(d) @ (n * t) / 150, strict=True)
        ]
        assert any(found_by_loadings(shown, sizes, 150, 2))
        without = [replace(feature, share=(0.0, 1.0)) for feature in shown]
        assert not any(found_by_loadings(without, sizes, 150, 2))

    def test_finds_a_size_by_two_tables(self):
        """Of the small cluster, with 2 to 10 subjects, one table tells at most 8, the other at least 6."""
        sizes, rows = np.array([[40, 40], [40, 48], [2, 10]]), np.array([[0, 99], [0, 99]])

        def table(least, most):
            low, high = [[20, 0, least], [20, 0, least]], [[20, 99, most], [20, 99, most]]
            return Crossed(np.array(low), np.array(high), rows, sizes, 2, ANY, (0.0, 1.0), "", {})

        assert not any(found_together([table(0, 4)], 90))
        assert not any(found_together([table(3, 10)], 90))
        assert any(found_together([table(0, 4), table(3, 10)], 90))

    def test_decides_counts_without_all_tables(self):
        low, high = np.zeros((3, 3), dtype=int), np.full((3, 3), 99)
        table = self.crossed(low, high, [40, 30, 20], [35, 30, 25], effect=(0.15, 0.25))
        assert decided(table, 0, 0, set(), 5) is False
        shown = [[30, 2, 8], [3, 25, 2], [2, 3, 15]]
        narrow = self.crossed(np.array(shown) - 1, np.array(shown) + 1, [40, 30, 20], [35, 30, 25])
        assert decided(narrow, 0, 0, set(), 5) is True

    def test_tells_a_grid_from_times_of_subjects(self):
        assert resolution([0.5, 1.0, 1.5, 3.0]) == 0.5
        assert resolution([0.2189, 0.3329, 0.5001, 0.7]) == 0.0


def test_the_interval_of_epsilon_squared_told_how_many_values_are_missing():
    """Of 60 subjects in three clusters, 59 with a value; the interval is not shown any more."""
    effect, (low, high) = 0.5, epsilon_squared_interval(0.5 * 58, 59, 3)
    bounds = interval(f"{low:.2f}"), interval(f"{high:.2f}")
    told, p = interval(f"{effect:.2f}"), interval("<0.001")
    assert found_total(range(50, 61), 3, told, bounds, p)
    assert not found_total(range(50, 61), 3, told, (ANY, ANY), p)
    raw = pd.DataFrame({"variable": ["a"], "effect": effect, "low": low, "high": high, "p": 2e-7, "n": 59})
    for counted in (True, False):
        shown = published_associations(raw.assign(q=raw["p"]), {"a": Precision(counted=counted)})
        assert shown["low"].notna().all() == counted
    assert published_explanations(raw, 60)["low"].isna().all()
    assert published_explanations(raw, 59)["low"].notna().all()
