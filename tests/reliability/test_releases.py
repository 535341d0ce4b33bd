"""What leaves a study beside its report: follow-up, replications, comparisons, searches, papers, figures."""

import json
import re
import shutil
import sys
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import attack as studies
import attacker_releases as releases
from attacker import ANY, Crossed, solved

from viewloom.clinical.statistics import Precision
from viewloom.evaluation.comparison import SCORES, Comparison
from viewloom.study.compared import published_comparison, score_decimals
from viewloom.study.run.search import shared_table

SEED = 0  # has small clusters in both cohorts, and a transition that is hidden


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A folder with the run of a study with follow-up, its replication, and a comparison of methods."""
    folder = tmp_path_factory.mktemp("releases")
    first, second, n = studies.write_cohorts(folder, SEED)
    studies.run(first, folder / "run")
    studies.replicated(folder / "run", second, folder / "replication")
    studies.compared(first, folder)
    (folder / "second").mkdir(exist_ok=True)
    (folder / "second" / "n").write_text(str(n))
    return folder


@pytest.fixture(scope="module")
def kit(study):
    pytest.importorskip("docx")
    from viewloom.study.publication import write_paper

    write_paper(study / "run", study / "kit", dpi=50)
    return study / "kit"


def test_no_hidden_number_is_found(study):
    n = int((study / "second" / "n").read_text())
    found = {
        "transitions": releases.attack_transitions(study / "run"),
        "sizes": releases.attack_sizes(study / "run", study / "replication", n),
        "deviations": releases.attack_deviations(study / "replication", n, ["diagnosis", "sex"]),
        "scores": releases.attack_scores(study / "run", study, "ours, linear"),
    }
    assert all(one.tried > 0 for one in found.values()), found
    assert not any(one.found for one in found.values()), found


def test_numbers_of_a_replication_have_few_digits(study):
    content = json.loads((study / "replication" / "replication.json").read_text(encoding="utf-8"))
    for row in content["clusters"]:
        numbers = [value for value in row.values() if isinstance(value, float)]
        assert all(round(value, 3) == value for value in numbers)
        assert all(not 0 < row[name] < 11 for name in ("first", "transferred") if isinstance(row[name], int))
    small = [
        row for row in content["clusters"] if "<11" in (row["first"], row["transferred"], row["refitted"])
    ]
    assert small
    assert all(row["verdict"] == "too few subjects" and row["jaccard"] is None for row in small)


def contents(folder):
    """The content of every file; of Word and Excel files that of their parts, without the time of writing."""
    found = {}
    for path in sorted(folder.iterdir()):
        if path.suffix in (".docx", ".xlsx"):
            with zipfile.ZipFile(path) as file:
                parts = [name for name in file.namelist() if not name.startswith("docProps")]
                found.update({(path.name, name): file.read(name) for name in parts})
        else:
            found[path.name] = path.read_bytes()
    return found


def test_papers_and_figures_are_made_from_published_files_alone(study, kit, tmp_path):
    """So they tell nothing that the attacked files do not tell."""
    from viewloom.study.publication import write_paper

    about = json.loads((study / "run" / "run.json").read_text(encoding="utf-8"))
    shutil.copytree(study / "run", tmp_path / "run", ignore=shutil.ignore_patterns(*about["private"]))
    assert not {path.name for path in (tmp_path / "run").iterdir()} & set(about["private"])
    write_paper(tmp_path / "run", tmp_path / "kit", dpi=50)
    assert contents(tmp_path / "kit") == contents(kit)
    assert [name for name in contents(kit) if str(name).startswith("figure_")]


def test_figures_in_the_report_are_drawn_from_published_numbers_alone(study):
    """So limits and ticks of axes, and positions, tell nothing that the numbers do not tell."""
    from viewloom.study.report.figures import inline_figures

    content = json.loads((study / "run" / "summary.json").read_text(encoding="utf-8"))
    drawn = {name: svg for name, svg in content["figures"].items() if svg}
    assert drawn
    parts = {name: content["drawings"][name] for name in drawn}
    assert inline_figures(parts, content["summary"]["cluster_names"]) == drawn


def test_table_one_has_the_cells_of_the_report(study, kit):
    content = json.loads((study / "run" / "summary.json").read_text(encoding="utf-8"))["summary"]
    cells = {cell["text"] for table in content["tables"] for row in table["rows"] for cell in row}
    table = pd.read_csv(kit / "table1.csv", dtype=str, keep_default_na=False)
    told = {cell for row in table.to_numpy() for cell in row if re.search(r"\d", cell)}
    assert told
    assert told <= cells


def runs(**nmi):
    rows = [{"method": name, "seed": 0, **dict.fromkeys(SCORES, value)} for name, value in nmi.items()]
    return pd.DataFrame(rows).assign(seconds=1.0, iterations=3)


def test_scores_of_methods_that_find_the_described_clusters_are_as_coarse_as_ours():
    labels = {"ours, linear": [0, 0, 1, 1], "k-means": [1, 1, 0, 0], "CNMF": [0, 1, 0, 1]}
    table = runs(**dict.fromkeys(labels, 0.1234)).assign(labels=list(labels.values()), largest=0.94)
    shown = published_comparison(Comparison(table), Precision(agreement=1, exact=False))
    assert shown.runs["NMI"].tolist() == [0.1, 0.1, 0.12]
    assert shown.runs["largest"].tolist() == [0.9] * 3  # 0.94 of 150 subjects are 141: the others are nine
    assert shown.runs["Acc"].isna().tolist() == [True, True, False]
    assert score_decimals(Comparison(table), Precision(agreement=1, exact=False)) == {
        "ours, linear": 1, "k-means": 1, "CNMF": 2,
    }  # fmt: skip
    hidden = published_comparison(Comparison(table), Precision(agreement=None, exact=False))
    assert hidden.runs["NMI"].isna().tolist() == [True, True, False]
    assert published_comparison(Comparison(table), Precision()).runs["NMI"].tolist() == [0.12] * 3


def test_tables_of_searches_have_few_digits():
    table = pd.DataFrame({"lam": [10.0], "held_out": [0.123456], "reported_ARI": [0.98765], "rank": [1]})
    assert shared_table(table).to_numpy().tolist() == [[10.0, 0.123, 0.99, 1]]


class TestAttacks:
    """They find what can be found."""

    def test_a_count_of_subjects_who_move(self):
        cells = np.array([[20, 20], [0, 10], [15, 15], [30, 30]])  # one hidden count
        lines, totals = np.ones((1, 4)), np.array([[70, 70]])
        assert releases._span(cells, lines, totals, 1) == 1
        two = np.array([[20, 20], [0, 10], [11, 99], [30, 30]])
        assert not releases._narrow(two, lines, totals, 1)

    def test_a_hidden_share_by_those_of_the_other_clusters(self):
        sizes = np.array([[41, 41], [30, 30], [29, 29]])
        counts = np.array([[20, 12, 3], [21, 18, 26]])
        shift = counts / sizes[:, 0] - counts.sum(axis=1, keepdims=True) / 100.0
        exact = [[(x - 1e-4, x + 1e-4) for x in row] for row in shift]
        exact[0][2] = ANY
        assert list(releases._hidden_shares(exact, sizes, 100, True)) == [True]
        both = [[ANY, ANY, exact[0][0]], [ANY, ANY, ANY]]
        assert not any(releases._hidden_shares(both, sizes, 100, False))

    def test_a_count_that_two_runs_with_other_bounds_hide(self):
        """Each run hides another count beside the small one."""
        totals = np.array([[70, 70], [70, 70]]), np.array([[55, 55], [40, 40], [45, 45]])
        first = np.array([[[20, 20], [0, 10], [11, 99]], [[35, 35], [11, 99], [0, 10]]])
        second = np.array([[[20, 20], [0, 19], [20, 99]], [[35, 35], [32, 32], [0, 19]]])
        one, other = (
            Crossed(cells[..., 0], cells[..., 1], *totals, 2, ANY, (0.0, 1.0), "", {})
            for cells in (first, second)
        )
        assert True not in solved(one)
        assert set(solved(releases.merged(one, other))) == {True}

    def test_the_category_of_a_subject_who_is_left_out(self):
        whole, without = np.array([[40, 40], [0, 10]]), np.array([[39, 39], [0, 10]])
        assert releases.found_category(whole, without)
        assert not releases.found_category(whole, whole)

    def test_two_runs_differ_in_few_subjects(self):
        labels, others = np.repeat([0, 1], [40, 30]), np.repeat([0, 1, 2], [35, 5, 30])
        assert releases.differenced(labels, others) == (1, 2)
