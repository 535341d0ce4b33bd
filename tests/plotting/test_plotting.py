"""Every figure shows the data it is given, on the axes it is given, whatever the names and sizes."""

import subprocess
import sys
import warnings
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from matplotlib.font_manager import FontProperties
from matplotlib.text import Text

from viewloom import KernelMultiviewNMF, plotting
from viewloom.data import simulated as simulate
from viewloom.evaluation.comparison import SCORES, Comparison
from viewloom.evaluation.inspection import ViewContributions
from viewloom.plotting import style
from viewloom.plotting.features import ImportanceMap

HOSTILE = [
    "$\\frac{",
    "100 $ to $ 200_{x",
    "<script>alert(1)</script>",
    "海馬 hippocampus",
    "new\nline\ttab",
    "‮right to left",
    "thickness of the left caudal anterior cingulate cortex after correction for age, sex and head size",
    "x" * 200,
    "",
    "π ≤ 2 µm",
    r"\textbf{a} % b # c & d",
]


@pytest.fixture(autouse=True)
def strict():
    """Any warning fails: layout that collapsed, letters without a glyph, too many figures."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ResourceWarning)  # of objects of other tests, collected here
        yield


def contributions(k=3, v=3, n=60, names=None, seed=0):
    rng = np.random.default_rng(seed)
    U = rng.dirichlet(np.ones(k), (v, n))
    change = rng.random((n, v)) if v > 1 else np.full((n, 1), np.nan)
    names = list(names) if names is not None else [f"view{a}" for a in range(v)]
    return ViewContributions(names, np.arange(n) % k, U[0], U, change)


def importance(d=40, k=3, names=None, signed=True):
    F = np.random.default_rng(0).standard_normal((d, k))
    F = F if signed else np.abs(F)
    table = pd.DataFrame({"feature": names or [f"f{j}" for j in range(d)], "importance": (F**2).sum(axis=1)})
    table[[f"cluster_{j}" for j in range(k)]] = F
    return table.sort_values("importance", ascending=False, ignore_index=True)


def weights(v=3, rows=(0, 1, 2), names=None):
    W = np.random.default_rng(0).dirichlet(np.ones(v), len(rows))
    return pd.DataFrame(W, index=list(rows), columns=names or [f"view{a}" for a in range(v)])


def gamma_weights(v=3, names=None):
    gammas = [1.0, 1.5, 2.0, 8.0, 64.0]
    table = weights(v, gammas, names)
    table.iloc[0] = np.eye(v)[0]
    table.iloc[-1] = 1 / v
    return table


def search(recommended=3, columns=("stability", "twin_stability", "pac")):
    ks = np.arange(2, 9)
    table = pd.DataFrame(
        {"k": ks, **{name: np.linspace(0.9, 0.3, len(ks)) - 0.1 * i for i, name in enumerate(columns)}}
    )
    return SimpleNamespace(table=table, recommended=recommended)


def profiles(k=3, names=("p", "q", "r")):
    z = np.random.default_rng(0).standard_normal((len(names), k))
    return pd.DataFrame(z, index=list(names), columns=range(k))


def fitted(v=2, k=3):
    """What the figures of a model read of it."""
    U = np.random.default_rng(0).dirichlet(np.ones(k), 50)
    return SimpleNamespace(
        memberships_=U,
        view_weights_=np.full(v, 1 / v),
        view_names_=[f"view{a}" for a in range(v)],
        history_={"objective": [3.0, 2.0, 1.5]},
        converged_=True,
        n_clusters=k,
        feature_importance=lambda name: importance(k=k),
    )


def block_matrix(k=3, each=6):
    labels = np.arange(k * each) % k
    return np.where(labels[:, None] == labels, 0.9, 0.1), labels


FIGURES = {
    "view_weights": lambda ax, k, v: plotting.view_weights(weights(v), ax),
    "view_weights_of_a_model": lambda ax, k, v: plotting.view_weights(fitted(v), ax),
    "objective": lambda ax, k, v: plotting.objective(fitted(), ax),
    "memberships": lambda ax, k, v: plotting.memberships(fitted(k=k), ax),
    "view_agreement": lambda ax, k, v: plotting.view_agreement(contributions(k, v), ax),
    "view_contributions": lambda ax, k, v: plotting.view_contributions(contributions(k, v), ax),
    "weights_over_gamma": lambda ax, k, v: plotting.weights_over_gamma(gamma_weights(v), ax),
    "feature_importance": lambda ax, k, v: plotting.feature_importance(importance(k=k), ax),
    "cluster_profiles": lambda ax, k, v: plotting.cluster_profiles(profiles(k), ax),
    "stability": lambda ax, k, v: plotting.stability(search(), ax),
    "consensus_matrix": lambda ax, k, v: plotting.consensus_matrix(*block_matrix(k), ax),
}


def drawn(ax):
    ax.get_figure(root=True).draw_without_rendering()
    return ax


def row_names(ax):
    return [label.get_text() for label in ax.get_yticklabels()]


def column_names(ax):
    return [label.get_text() for label in ax.get_xticklabels()]


def shown(ax):
    return np.asarray(ax.images[0].get_array())


class TestContract:
    @pytest.mark.parametrize("name", FIGURES)
    @pytest.mark.parametrize("layout", [None, "constrained"])
    def test_draws_on_the_axes_given(self, name, layout):
        _, axes = plt.subplots(1, 2, figsize=(9, 4), layout=layout)
        assert FIGURES[name](axes[0], 3, 3) is axes[0]
        drawn(axes[0])
        assert axes[0].get_title(loc="left")
        assert not axes[1].has_data()
        assert len(plt.get_fignums()) == 1

    @pytest.mark.parametrize("name", FIGURES)
    @pytest.mark.parametrize(("k", "v"), [(1, 1), (20, 8)])
    def test_makes_axes_where_none_are_given(self, name, k, v):
        ax = drawn(FIGURES[name](None, k, v))
        assert ax.get_xlabel()
        box, page = ax.figure.get_tightbbox(), ax.figure.get_size_inches()
        assert box.x0 > -0.05
        assert box.y0 > -0.05
        assert box.x1 < page[0] + 0.05  # nothing is cut
        assert box.y1 < page[1] + 0.05

    def test_works_in_a_subfigure(self):
        parts = plt.figure(figsize=(8, 3), layout="constrained").subfigures(1, 2)
        ax = parts[1].subplots()
        assert drawn(plotting.feature_importance(importance(), ax)).figure is parts[1]

    def test_the_package_does_not_import_it(self):
        code = "import sys, viewloom; assert not any(m.startswith('matplotlib') for m in sys.modules)"
        subprocess.run([sys.executable, "-c", code], check=True)

    def test_without_matplotlib_it_says_what_to_install(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        monkeypatch.delitem(sys.modules, "viewloom.plotting")
        with pytest.raises(ImportError, match=r"pip install viewloom\[plot\]"):
            __import__("viewloom.plotting")


class TestNames:
    @pytest.mark.parametrize(
        "draw",
        [
            lambda: plotting.feature_importance(importance(len(HOSTILE), names=HOSTILE)),
            lambda: plotting.cluster_profiles(profiles(names=HOSTILE)),
            lambda: plotting.view_weights(weights(len(HOSTILE), names=HOSTILE)),
            lambda: plotting.view_agreement(contributions(v=len(HOSTILE), names=HOSTILE)),
        ],
    )
    def test_all_of_every_name_is_drawn_inert(self, draw):
        ax = drawn(draw())
        drawn_names = {"".join(name.split()) for name in row_names(ax)}
        assert drawn_names == {"".join(style.inert(name).split()) for name in HOSTILE}
        assert not any(label.get_parse_math() or label.get_usetex() for label in ax.get_yticklabels())
        assert ax.figure.get_tightbbox().x0 > -0.05

    def test_names_of_columns_and_lines_too(self):
        columns = drawn(plotting.view_contributions(contributions(v=len(HOSTILE), names=HOSTILE)))
        lines = drawn(plotting.weights_over_gamma(gamma_weights(len(HOSTILE), HOSTILE)))
        for texts in (columns.get_xticklabels(), lines.texts):
            whole = ["".join(text.get_text().split()) for text in texts]
            assert whole == ["".join(style.inert(name).split()) for name in HOSTILE]
            assert not any(text.get_parse_math() for text in texts)

    @pytest.mark.parametrize("name", [HOSTILE[0], HOSTILE[3], HOSTILE[8]])
    def test_names_in_titles_are_inert_and_short(self, name):
        ax = drawn(plotting.cluster_profiles(profiles(names=[name])))
        title = ax.get_title(loc="left").replace("\n", "").replace(" ", "")
        assert style.inert(name)[:30].replace(" ", "") in title
        assert len(title) < 90
        assert not ax._left_title.get_parse_math()

    def test_what_the_font_lacks_is_given_by_its_code(self):
        assert style.inert("π ≤ é") == "π ≤ é"
        assert style.inert("a\u202eb\n") == "a\\u202eb\\n"
        assert style.inert("海") == "\\u6d77"
        assert style.inert("\udc80") == "\\udc80"
        assert style.inert(3) == "3"
        assert style.inert(" ") == "(unnamed)"

    def test_fonts_of_the_user_are_asked(self):
        assert style._drawable(tuple(FontProperties().get_family())) >= set(range(33, 127))


class TestWeights:
    def test_views_by_mean_weight_with_a_dot_per_seed(self):
        table = pd.DataFrame({"low": [0.1, 0.3], "high": [0.6, 0.5], "mid": [0.3, 0.2]})
        table["mid"] = 1 - table["low"] - table["high"]
        ax = plotting.view_weights(table)
        order = table.mean().sort_values().index.to_list()
        assert row_names(ax) == order
        mean_line = ax.get_lines()[-1]
        np.testing.assert_allclose(mean_line.get_xdata(), table[order].mean())
        dots = np.array([line.get_xdata() for line in ax.get_lines()[1:-1]])
        np.testing.assert_allclose(dots, table[order])
        assert "high has the largest weight (0.55)" in ax.get_title(loc="left").replace("\n", " ")

    def test_a_single_fit_has_no_spread(self):
        ax = plotting.view_weights(fitted(3))
        assert len(ax.get_lines()) == 2  # equal weights, and the weights
        assert ax.get_title(loc="left") == "All views have equal weight"

    def test_gamma_lines_labels_and_finding(self):
        table = gamma_weights(8)
        ax = drawn(plotting.weights_over_gamma(table.iloc[::-1]))
        lines = [line for line in ax.get_lines() if len(line.get_xdata()) == len(table)]
        for name, line in zip(table, lines, strict=True):
            np.testing.assert_allclose(line.get_ydata(), table[name])
            np.testing.assert_allclose(line.get_xdata(), table.index)
        assert [text.get_text() for text in ax.texts] == list(table)
        assert [to_hex(t.get_color()) for t in ax.texts] == [to_hex(line.get_color()) for line in lines]
        boxes = [Text.get_window_extent(text) for text in ax.texts]  # without their leaders
        heights = np.sort([box.y0 for box in boxes])
        assert np.diff(heights).min() > 0.9 * boxes[0].height  # apart, though all lines end in one point
        assert "only view0 counts; at 64 weights are equal" in ax.get_title(loc="left").replace("\n", " ")

    def test_more_lines_than_colours_differ_in_dashes(self):
        ax = plotting.weights_over_gamma(gamma_weights(12))
        looks = {(line.get_color(), line.get_linestyle()) for line in ax.get_lines()[1:]}
        assert len(looks) == 12

    def test_spread_keeps_order_and_distance(self):
        rng = np.random.default_rng(0)
        for _ in range(50):
            y = rng.random(6)
            moved = style.spread(y, 0.1, 0.0, 1.0)
            assert np.array_equal(np.argsort(moved), np.argsort(y))
            assert np.diff(np.sort(moved)).min() > 0.1 - 1e-9
            assert moved.min() >= 0.0
            assert moved.max() <= 1.0 + 1e-9
        apart = np.array([0.9, 0.1, 0.5])
        np.testing.assert_allclose(style.spread(apart, 0.1, 0.0, 1.0), apart)


class TestMaps:
    def test_memberships_are_sorted_and_complete(self):
        U = np.array([[0.2, 0.8], [0.9, 0.1], [0.45, 0.55], [0.7, 0.3]])
        ax = plotting.memberships(U)
        np.testing.assert_array_equal(shown(ax), U[[1, 3, 0, 2]].T)
        assert row_names(ax) == ["1 (n=2)", "2 (n=2)"]
        assert row_names(plotting.memberships(U, names=["a", "b"])) == ["a (n=2)", "b (n=2)"]
        assert ax.get_title(loc="left").startswith("1 of 4 samples are ambiguous")

    def test_contributions_show_the_means_by_cluster(self):
        result = contributions(4, 3)
        ax = plotting.view_contributions(result)
        np.testing.assert_allclose(shown(ax), result.by_cluster())
        assert column_names(ax) == result.view_names
        assert row_names(ax) == [f"{j} (n=15)" for j in range(1, 5)]
        named = plotting.view_contributions(result, names=["a", "b", "c", "d"])
        assert row_names(named) == [f"{name} (n=15)" for name in "abcd"]
        numbers = [f"{value:.2f}" for value in result.by_cluster().to_numpy().ravel()]
        assert [text.get_text() for text in ax.texts] == numbers
        bold = [i for i, text in enumerate(ax.texts) if text.get_fontweight() == "bold"]
        assert bold == [3 * j + int(row.argmax()) for j, row in enumerate(result.by_cluster().to_numpy())]

    def test_contributions_of_nobody(self):
        plain = contributions(3, 2)
        still = ViewContributions(
            plain.view_names, plain.labels, plain.consensus, plain.alone, 1e-4 * plain.change
        )
        assert "No single view is decisive" in plotting.view_contributions(still).get_title(loc="left")
        single = plotting.view_contributions(contributions(3, 1))
        assert "single view" in single.get_title(loc="left")
        assert not single.texts

    def test_importance_shows_the_first_by_name_and_all_beside(self):
        table = importance(40, 3)
        shuffled = table.sample(frac=1, random_state=0)
        ax = plotting.feature_importance(shuffled, top=12)
        F = table[["cluster_0", "cluster_1", "cluster_2"]].to_numpy()
        relative = np.abs(F) / np.abs(F).max()
        np.testing.assert_array_equal(shown(ax), relative[:12])
        assert row_names(ax) == table["feature"][:12].to_list()
        strip = ax.child_axes[0]
        np.testing.assert_array_equal(shown(strip), relative)
        assert column_names(ax) == ["1", "2", "3"]
        assert column_names(plotting.feature_importance(table, names=["a", "b", "c"])) == ["a", "b", "c"]

    def test_colours_of_importance_have_one_meaning(self):
        """Whether values are loadings with a sign or changes of membership: 0 to 1, on the same scale."""
        maps = [plotting.feature_importance(importance(40, signed=signed)) for signed in (True, False)]
        for ax in maps:
            images = [ax.images[0], ax.child_axes[0].images[0]]
            assert {(image.get_cmap().name, image.get_clim()) for image in images} == {
                ("cividis", (0.0, 1.0))
            }
        labels = [[other.get_ylabel() for other in ax.figure.axes[1:]] for ax in maps]
        assert labels[0] == labels[1] == ["importance (1: largest of the view)"]

    def test_importance_of_very_many_features_is_drawn_by_means(self):
        ax = plotting.feature_importance(importance(5000, 3))
        assert shown(ax.child_axes[0]).shape == (400, 3)
        assert "of 5000 features" in ax.get_title(loc="left").replace("\n", " ")

    def test_importance_of_few_features_needs_no_strip(self):
        ax = plotting.feature_importance(importance(8, signed=False))
        assert not ax.child_axes
        assert len(row_names(ax)) == 8
        assert ax.images[0].get_clim()[0] == 0.0

    def test_importance_title_counts_features(self):
        table = importance(4)
        table["importance"] = [5.0, 3.0, 1.0, 1.0]
        title = plotting.feature_importance(table).get_title(loc="left").replace("\n", " ")
        assert title == "Half of the importance lies in 1 of 4 features"

    def test_slanted_names_of_columns_have_one_line(self):
        _, ax = plt.subplots(figsize=(2, 2))
        ax.set_xlim(0, 5)
        style.name_columns(ax, [f"published form {j}\n(searched from random start)" for j in range(6)])
        assert not any("\n" in label.get_text() for label in ax.get_xticklabels())

    def test_methods_without_a_score_are_named(self):
        runs = pd.DataFrame(
            {"method": ["ours", "k-means", "CNMF"], "seed": 0, "seconds": 1.0, "iterations": 1}
        )
        runs = runs.assign(**{score: [np.nan, 0.2, 0.1] for score in SCORES})
        ax = plotting.comparison(Comparison(runs))
        assert row_names(ax) == ["ours", "CNMF", "k-means"]
        assert [text.get_text() for text in ax.texts] == [" not shown"]
        assert ax.get_title(loc="left") == "Best score shown: k-means (0.2)"

    def test_importance_of_clusters_alone_has_no_half(self):
        table = pd.DataFrame({"feature": ["a", "b"], "importance": np.nan, "cluster_0": [0.5, 0.2]})
        assert ImportanceMap.of(table, 2).half is None

    def test_importances_of_every_view(self):
        views, _ = simulate.blobs_views(40, n_views=3, n_features=4, random_state=0)
        model = KernelMultiviewNMF(3, kernel="linear", random_state=0).fit(views)
        axes = plotting.feature_importances(model, top=2)
        assert len(axes) == 3
        for ax, name in zip(axes, views.names, strict=True):
            assert ax.get_title(loc="left").split("\n")[0] == name
            assert row_names(ax) == model.feature_importance(name)["feature"][:2].to_list()
        drawn(axes[0])
        given = plt.subplots(1, 3)[1]
        assert list(plotting.feature_importances(model, given)) == list(given)

    def test_importances_need_axes_for_every_view(self):
        with pytest.raises(ValueError, match="2 views, but 1 axes"):
            plotting.feature_importances(fitted(2), [plt.subplots()[1]])

    def test_profiles_in_the_order_given(self):
        table = profiles(4, names=["b", "a", "c"])
        table.iloc[1, 2] = -5.0
        ax = plotting.cluster_profiles(table)
        np.testing.assert_array_equal(shown(ax), table)
        assert row_names(ax) == ["b", "a", "c"]
        assert column_names(ax) == ["1", "2", "3", "4"]
        assert column_names(plotting.cluster_profiles(table, names=list("wxyz"))) == list("wxyz")
        assert ax.images[0].get_clim() == (-5.0, 5.0)
        assert "Largest deviation: a in cluster 3, -5.0 SD" in ax.get_title(loc="left").replace("\n", " ")

    def test_profiles_with_gaps(self):
        table = profiles(3)
        table[1] = np.nan
        drawn(plotting.cluster_profiles(table))

    def test_consensus_matrix_is_sorted_by_cluster(self):
        C, labels = block_matrix(3, 4)
        C[0, 3] = C[3, 0] = 0.2
        ax = plotting.consensus_matrix(C, labels)
        order = np.argsort(labels, kind="stable")
        sorted_C = shown(ax)
        np.testing.assert_array_equal(
            np.sort(sorted_C, axis=None), np.sort(C[np.ix_(order, order)], axis=None)
        )
        blocks = sorted_C.reshape(3, 4, 3, 4).mean(axis=(1, 3))
        assert blocks.diagonal().min() > 0.7
        assert np.allclose(blocks[~np.eye(3, dtype=bool)], 0.1)
        np.testing.assert_allclose(ax.get_yticks(), [1.5, 5.5, 9.5])
        assert row_names(ax) == column_names(ax) == ["1", "2", "3"]
        assert row_names(plotting.consensus_matrix(C, labels, names=["a", "b", "c"])) == ["a", "b", "c"]
        assert row_names(plotting.consensus_matrix(C, np.array(["x", "y", "z"])[labels])) == ["x", "y", "z"]

    def test_too_few_names(self):
        with pytest.raises(ValueError, match="no name for some of the 4 clusters"):
            plotting.cluster_profiles(profiles(4), names=["a"])


class TestCurves:
    def test_objective_is_the_history(self):
        ax = plotting.objective(fitted())
        line = ax.get_lines()[0]
        np.testing.assert_array_equal(line.get_xdata(), [1, 2, 3])
        np.testing.assert_array_equal(line.get_ydata(), [3.0, 2.0, 1.5])
        assert "Converged after 3 iterations" in ax.get_title(loc="left")
        assert "50.0%" in ax.get_title(loc="left").replace("\n", " ")

    def test_an_objective_that_hardly_falls(self):
        model = SimpleNamespace(history_={"objective": [0.02105313, 0.02105105]}, converged_=True)
        ax = plotting.objective(model)
        ax.figure.canvas.draw()
        assert "fell by less than 0.1%" in ax.get_title(loc="left").replace("\n", " ")
        assert ax.yaxis.get_offset_text().get_text() == ""
        assert all(label.get_text().startswith("0.02105") for label in ax.get_yticklabels())

    def test_one_iteration_that_did_not_converge(self):
        model = SimpleNamespace(history_={"objective": [1.0]}, converged_=False)
        assert plotting.objective(model).get_title(loc="left").startswith("Not converged")

    def test_agreement_marks_medians(self):
        result = contributions(3, 3)
        result.alone[1, :5] = np.nan
        ax = plotting.view_agreement(result)
        medians = np.nanmedian(result.overlap, axis=0)
        np.testing.assert_allclose(ax.get_lines()[-1].get_xdata(), np.sort(medians))
        assert row_names(ax) == [result.view_names[a] for a in np.argsort(medians)]

    @pytest.mark.parametrize(
        "columns", [("stability",), ("stability", "pac"), ("stability", "twin_stability", "pac")]
    )
    def test_stability_draws_what_there_is(self, columns):
        ax = drawn(plotting.stability(search(3, columns)))
        assert len([line for line in ax.get_lines() if len(line.get_xdata()) == 7]) == len(columns)
        assert len(ax.texts) == len(columns)
        assert column_names(ax) == [str(k) for k in range(2, 9)]
        assert "3 clusters" in ax.get_title(loc="left")

    def test_no_recommendation_is_said(self):
        ax = plotting.stability(search(None))
        assert "No number of clusters" in ax.get_title(loc="left")
        assert len(ax.get_lines()) == 3
