"""Captions, legends and labels that state a fact: is it so?"""

import re

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from viewloom import KernelMultiviewNMF, plotting
from viewloom.cli.rendering import comparison_table
from viewloom.clinical import associations, pairwise
from viewloom.evaluation.agreement import view_agreement
from viewloom.evaluation.comparison import DISTANCES, SCORES, Comparison
from viewloom.evaluation.selection import consensus_matrix
from viewloom.evaluation.selection.stability import pac
from viewloom.metrics import clustering_report
from viewloom.plotting import clinical as clinical_plots
from viewloom.plotting.style import OKABE_ITO
from viewloom.study.report import captions, evidence, tables
from viewloom.study.report.html import _asset

CLASSES = np.repeat([0, 1, 2], 40)


def scores_of(share):
    """Scores of a clustering that has this share of the subjects right, and the rest by chance."""
    rng = np.random.default_rng(0)
    guessed = np.where(rng.uniform(size=len(CLASSES)) < share, CLASSES, rng.integers(3, size=len(CLASSES)))
    return clustering_report(CLASSES, guessed)


def result_of(**shares):
    """A comparison of methods that get these shares right."""
    rows = [
        {"method": name, "seed": 0, "seconds": 1.0, "iterations": 1.0,
         **{score: scores_of(share)[score] for score in SCORES}}
        for name, share in shares.items()
    ]  # fmt: skip
    return Comparison(pd.DataFrame(rows))


def directions(text):
    """Which way a caption says that scores go."""
    said = re.search(r"Higher is better; of ([\w ,]+) lower is better", text)
    lower = re.split(r", | and ", said[1])
    return {score: -1 if score in lower else 1 for score in SCORES}


@pytest.mark.parametrize("score", SCORES)
def test_which_way_a_score_goes(score):
    found = [scores_of(share)[score] for share in (0.0, 0.5, 1.0)]
    rises = int(np.sign(found[2] - found[0]))
    assert list(np.argsort(found))[::rises] == [0, 1, 2]
    assert directions(tables.COMPARISON)[score] == rises
    assert (score in DISTANCES) == (rises < 0)


def test_what_scores_are_called():
    found = scores_of(0.5)
    assert found["MI"] == pytest.approx(1 - found["RI"])
    assert "Mirkin distance (MI = 1 \N{MINUS SIGN} RI)" in tables.COMPARISON
    caption = comparison_table(result_of(a=0.5, b=0.9)).caption
    assert "MI: Mirkin distance, 100 - RI, lower is better" in caption


@pytest.mark.parametrize("score", SCORES)
def test_the_best_method_stands_on_top_and_leads(score):
    result = result_of(poor=0.1, good=1.0, fair=0.6)
    ax = plotting.comparison(result, Figure().subplots(), score=score)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["poor", "fair", "good"]
    assert ax.get_title(loc="left").startswith("Best score: good (")
    assert ("lower is better" in ax.get_xlabel().replace("\n", " ")) == (score in DISTANCES)


def test_a_comparison_of_the_oracle_alone():
    ax = plotting.comparison(result_of(**{"Gaussian (oracle)": 0.5}), Figure().subplots())
    assert "oracle" in ax.get_title(loc="left")


def test_what_chance_gives():
    """ARI is 0 by chance; NMI is 0 where nothing is in common, and more by chance."""
    rng = np.random.default_rng(0)
    drawn = [clustering_report(CLASSES, rng.integers(3, size=120)) for _ in range(40)]
    assert abs(np.mean([scores["ARI"] for scores in drawn])) < 0.01
    assert 0.005 < np.mean([scores["NMI"] for scores in drawn]) < 0.05
    assert "0 is chance" not in captions.COMPARISON
    assert clustering_report(CLASSES, CLASSES)["NMI"] == pytest.approx(1.0)
    assert clustering_report([0, 0, 1, 1], [0, 1, 0, 1])["NMI"] == pytest.approx(0.0)


def test_colours_of_profiles():
    means = pd.DataFrame({0: [-2.0, 2.0]}, index=["low", "high"])
    image = plotting.cluster_profiles(means, Figure().subplots()).images[0]
    (low_red, _, low_blue, _), (high_red, _, high_blue, _) = image.to_rgba(-1.5), image.to_rgba(1.5)
    assert low_red > low_blue  # orange
    assert high_blue > high_red  # purple
    assert "orange is below the mean, purple above" in captions.PROFILES


def test_blue_is_what_differs():
    people = pd.DataFrame({"differs": CLASSES + np.linspace(0, 0.5, 120), "same": np.arange(120) % 40})
    table = associations(CLASSES, people)
    bars = clinical_plots.association_bars(table, Figure().subplots()).patches
    blue = [to_rgb(bar.get_facecolor()) == to_rgb(OKABE_ITO[0]) for bar in bars]
    widths = [bar.get_width() for bar in bars]
    assert blue[int(np.argmax(widths))]
    assert sum(blue) == table["significant"].sum() == 1


def test_bounds_of_effects():
    people = pd.DataFrame({"number": CLASSES + np.linspace(0, 0.5, 120), "text": CLASSES.astype(str)})
    table = associations(CLASSES, people).set_index("variable")
    assert table["effect"].between(0.8, 1.0).all()
    assert "from 0 (none) to 1" in tables.ASSOCIATIONS
    assert table["significant"].tolist() == (table["q"] < 0.05).tolist()


def test_the_sign_of_cliffs_delta():
    pair = pairwise([0, 0, 0, 1, 1, 1], [7.0, 8.0, 9.0, 1.0, 2.0, 3.0]).iloc[0]
    assert (pair["cluster"], pair["effect"]) == (0, 1.0)
    assert "positive where the first cluster has higher values" in tables.PAIRS


def test_ambiguous_pairs_low_is_good():
    same, ambiguous = consensus_matrix([CLASSES] * 4), consensus_matrix([CLASSES, np.roll(CLASSES, 20)])
    assert pac(same) == 0.0 < pac(ambiguous)


@pytest.mark.parametrize("text", [tables.CLUSTERS, _asset("report.html.j2")])
def test_bounds_of_stability(text):
    bounds = r"(0\.\d+) or more is considered stable, and clusters below (0\.\d+) should not be"
    stable, trusted = re.search(bounds, text).groups()
    assert evidence.described(float(stable), None) == "stable"
    assert evidence.described(float(stable) - 1e-9, None) == "doubtful"
    assert evidence.described(float(trusted) - 1e-9, None) == "unstable"


def test_quantiles_that_are_drawn():
    assert captions.QUANTILES == (0.1, 0.25, 0.5, 0.75, 0.9)
    assert "interquartile range; thin line: 10th to 90th percentile" in captions.CERTAINTY


def test_weights_do_not_rank_views_but_their_agreement_does():
    rng = np.random.default_rng(0)
    noise = {"first": 1.0, "second": 1.0, "third": 1.0, "coarse": 5.0}
    views = {
        name: 3.0 * rng.standard_normal((3, 6))[CLASSES] + spread * rng.standard_normal((120, 6))
        for name, spread in noise.items()
    }
    model = KernelMultiviewNMF(3, random_state=0).fit(views)
    agreement = view_agreement(model, n_resamples=1)["agreement"]
    assert agreement["coarse"] < 0.75 * agreement["first"]
    assert model.view_weights_.min() > 0.75 * model.view_weights_.max()
    assert all("similar weights" in text for text in (captions.WEIGHTS, tables.VIEWS))
    assert all("do not rank" in text for text in (captions.WEIGHTS, KernelMultiviewNMF.__doc__))
