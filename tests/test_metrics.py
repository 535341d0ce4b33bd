"""Metrics against brute force."""

from itertools import combinations, permutations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score, rand_score

from viewloom.metrics import clustering_accuracy, clustering_report, mirkin_index, purity_score

METRICS = [clustering_accuracy, mirkin_index, purity_score, clustering_report]
QUICK = settings(max_examples=60, deadline=None)


@st.composite
def partitions(draw, most=4):
    """Two labellings of the same samples, with up to `most` classes and clusters each."""
    n = draw(st.integers(1, 12))
    labels = st.lists(st.integers(0, draw(st.integers(0, most - 1))), min_size=n, max_size=n)
    return draw(labels), draw(labels)


def best_over_permutations(y_true, labels):
    names = range(max(*y_true, *labels) + 1)  # padded, so that every cluster can stay without a class
    pairs = list(zip(y_true, labels, strict=True))
    return max(sum(order[own] == y for y, own in pairs) for order in permutations(names)) / len(pairs)


def share_of_pairs_in_disagreement(y_true, labels):
    pairs = list(combinations(range(len(y_true)), 2))
    split = [(y_true[i] == y_true[j]) != (labels[i] == labels[j]) for i, j in pairs]
    return sum(split) / len(pairs) if pairs else 0.0


def commonest_class_of_each_cluster(y_true, labels):
    clusters = [[y for y, own in zip(y_true, labels, strict=True) if own == label] for label in set(labels)]
    return sum(max(members.count(y) for y in members) for members in clusters) / len(y_true)


@given(partitions())
@QUICK
def test_accuracy_is_the_best_over_all_matchings(pair):
    assert clustering_accuracy(*pair) == pytest.approx(best_over_permutations(*pair))


@given(partitions())
@QUICK
def test_mirkin_counts_pairs_in_disagreement(pair):
    assert mirkin_index(*pair) == pytest.approx(share_of_pairs_in_disagreement(*pair))


@given(partitions())
@QUICK
def test_purity_takes_the_commonest_class_of_each_cluster(pair):
    assert purity_score(*pair) == pytest.approx(commonest_class_of_each_cluster(*pair))


@given(partitions(), st.permutations(range(4)), st.permutations("abcd"))
@QUICK
def test_names_of_classes_and_clusters_do_not_matter(pair, numbers, letters):
    y_true, labels = pair
    renamed = [letters[y] for y in y_true], [numbers[label] - 2 for label in labels]
    assert clustering_report(*renamed) == pytest.approx(clustering_report(*pair))


@given(partitions(), st.randoms(use_true_random=False))
@QUICK
def test_order_of_samples_does_not_matter(pair, random):
    order = random.sample(range(len(pair[0])), len(pair[0]))
    shuffled = [[labels[i] for i in order] for labels in pair]
    assert clustering_report(*shuffled) == pytest.approx(clustering_report(*pair))


@given(partitions())
@QUICK
def test_report_holds_each_metric_and_rand_and_mirkin_sum_to_one(pair):
    report = clustering_report(*pair)
    assert list(report) == ["Acc", "NMI", "ARI", "RI", "MI", "purity"]
    assert report["RI"] + report["MI"] == pytest.approx(1.0)
    assert report["Acc"] <= report["purity"] + 1e-12
    expected = [clustering_accuracy, normalized_mutual_info_score, adjusted_rand_score]
    expected += [rand_score, mirkin_index, purity_score]
    assert list(report.values()) == pytest.approx([metric(*pair) for metric in expected])


@pytest.mark.parametrize(
    ("y_true", "labels", "accuracy", "purity"),
    [
        ([0, 0, 0, 1, 1, 1], [0, 0, 1, 2, 2, 3], 4 / 6, 1.0),  # more clusters than classes
        ([0, 0, 1, 1, 2, 2], [0, 0, 0, 1, 1, 1], 4 / 6, 4 / 6),  # fewer
        ([0, 1, 2, 3], [5, 5, 5, 5], 1 / 4, 1 / 4),  # one cluster
        ([7, 7, 7, 7], [0, 1, 2, 3], 1 / 4, 1.0),  # one class
        ([0, 0, 1, 1, 1], [1, 1, 0, 0, 0], 1.0, 1.0),  # the same under other names
    ],
)
def test_unequal_numbers_of_clusters_and_classes(y_true, labels, accuracy, purity):
    assert clustering_accuracy(y_true, labels) == pytest.approx(accuracy)
    assert purity_score(y_true, labels) == pytest.approx(purity)


@pytest.mark.parametrize(
    "wrap",
    [
        np.array,
        pd.Series,
        pd.Categorical,
        lambda y: pd.Series(y, index=[13, 11, 12, 10], dtype="string"),
        lambda y: np.array(y, dtype=object),
        lambda y: np.array(y)[:, None],
    ],
    ids=["array", "series", "categorical", "string", "object", "column"],
)
def test_classes_may_be_words_in_any_container(wrap):
    y_true = wrap(["ad", "ad", "hc", "hc"])
    assert clustering_accuracy(y_true, [1, 1, 0, 1]) == 0.75
    assert mirkin_index(y_true, [1, 1, 0, 0]) == 0.0
    assert purity_score(y_true, [0, 0, 0, 0]) == 0.5


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(
    ("y_true", "labels", "message"),
    [
        ([0, 1, 1], [0, 1], r"inconsistent numbers of samples: \[3, 2\]"),
        ([], [], "No samples to compare"),
        ([[0, 1], [1, 0]], [0, 1], "1d array"),
        ([0, 1], 1, "1d array|shape"),
    ],
    ids=["lengths", "empty", "2-D", "number"],
)
def test_what_cannot_be_compared_is_refused(metric, y_true, labels, message):
    with pytest.raises(ValueError, match=message):
        metric(y_true, labels)
