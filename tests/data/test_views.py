"""Views: what goes in, what comes out, and what is refused in which words."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import VarianceThreshold
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import FunctionTransformer, MaxAbsScaler, OneHotEncoder, StandardScaler

from viewloom import PerView, Views
from viewloom.data.alignment import align, check_trainable
from viewloom.data.checks import per_view
from viewloom.data.naming import MOST_NAMES, listed
from viewloom.data.views import is_multiview

NAN = np.nan
A = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 7.0], [0.0, 9.0]])
B = np.array([[0.5, 0.0, 1.0], [2.0, 0.0, 0.0], [0.0, 3.0, 0.0], [1.0, 1.0, 1.0]])
HOLED = np.where(np.arange(4)[:, None] == 2, NAN, B)  # the third sample lacks this view
FRAME = pd.DataFrame(A, columns=["age", "mass"])


def dense(X):
    return X.toarray() if sp.issparse(X) else X


def ab():
    return Views({"a": A, "b": HOLED}, ids=["p", "q", "r", "s"])


class TestBuilding:
    @pytest.mark.parametrize(
        "data",
        [
            {"a": A, "b": B},
            {"a": A.tolist(), "b": sp.csr_array(B)},
            {"a": FRAME, "b": pd.DataFrame(B)},
            Views({"a": A, "b": B}),
        ],
        ids=["arrays", "nested lists and sparse", "frames", "views"],
    )
    def test_a_dict_names_the_views(self, data):
        views = Views(data)
        assert views.names == ["a", "b"]
        assert (views.shape, views.n_views, views.n_features, len(views)) == ((4, 5), 2, [2, 3], 4)
        assert_array_equal(views["a"], A)
        assert_array_equal(dense(views["b"]), B)
        assert views.complete

    @pytest.mark.parametrize("data", [[A, B], (A, B), [A.tolist(), B.tolist()], [FRAME, sp.coo_array(B)]])
    def test_a_list_numbers_the_views(self, data):
        views = Views(data)
        assert views.names == ["view0", "view1"]
        assert_array_equal(dense(np.asarray(views)), np.hstack([A, B]))

    @pytest.mark.parametrize("data", [A, A.tolist(), tuple(map(tuple, A)), list(A), FRAME, sp.csc_array(A)])
    def test_one_matrix_is_one_view(self, data):
        views = Views(data)
        assert views.names == ["view0"]
        assert_array_equal(dense(views.blocks[0]), A)

    @pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"])
    @pytest.mark.parametrize("kind", [sp.csr_array, sp.csr_matrix])
    @pytest.mark.parametrize("wrap", [lambda X: X, lambda X: [X], lambda X: {"view0": X}])
    def test_any_sparse_format_becomes_a_csr_array(self, form, kind, wrap):
        X = Views(wrap(kind(B).asformat(form)))["view0"]
        assert isinstance(X, sp.csr_array)
        assert_array_equal(X.toarray(), B)

    def test_sparse_duplicates_are_summed_without_touching_the_caller(self):
        indices, data = np.array([1, 0, 1]), np.array([1.0, 2.0, 3.0])
        X = sp.csr_array((data, indices, np.array([0, 3])), shape=(1, 2))
        for part in (X.data, X.indices, X.indptr):
            part.flags.writeable = False
        assert_array_equal(Views(X)["view0"].toarray(), [[2.0, 4.0]])
        assert X.indices.tolist() == [1, 0, 1]
        assert X.data.tolist() == [1.0, 2.0, 3.0]

    @pytest.mark.parametrize("kind", [sp.csr_array, sp.csc_matrix])
    def test_positions_beyond_the_shape_are_refused(self, kind):
        X = kind(np.eye(3))
        X.indices[1] = 10**9
        with pytest.raises(ValueError, match=r"View 'snp': .*indices"):
            Views({"snp": X})

    @pytest.mark.parametrize("wrap", [np.asarray, pd.DataFrame, sp.csr_array])
    @pytest.mark.parametrize(
        ("dtype", "kept"), [("f4", "f4"), ("f8", "f8"), ("i8", "f8"), ("u1", "f8"), ("?", "f8")]
    )
    def test_float32_is_kept_and_the_rest_becomes_float64(self, wrap, dtype, kept):
        X = Views({"a": wrap(A.astype(dtype))})["a"]
        assert X.dtype == kept
        assert_array_equal(dense(X), A.astype(dtype))

    @pytest.mark.parametrize(
        "column",
        [
            [True, False, True],
            pd.array([True, None, False], dtype="boolean"),
            pd.array([1, None, 3], dtype="Int64"),
            pd.array([1.5, None, 3.5], dtype="Float32"),
            pd.Series([1, 2.5, True], dtype=object),
            pd.Series([1, None, np.float32(2.0)], dtype=object),
            pd.Series([pd.NA, np.int8(3), np.bool_(True)], dtype=object),
            pd.arrays.SparseArray([0.0, 0.0, 2.0]),
        ],
        ids=["bool", "boolean", "Int64", "Float32", "object", "object None", "object NA", "sparse"],
    )
    def test_columns_that_hold_numbers_are_numbers(self, column):
        views = Views({"a": pd.DataFrame({"x": column, "y": [1, 2, 3]})}, allow_nan=True)
        expected = [NAN if pd.isna(value) else float(value) for value in column]
        assert_array_equal(views["a"][:, 0], expected)

    def test_names_and_ids_can_be_given(self):
        views = Views([A, B], names=["mri", "pet"], ids=pd.Index(list("wxyz")))
        assert views.names == ["mri", "pet"]
        assert views.feature_names["pet"].tolist() == ["pet_0", "pet_1", "pet_2"]
        assert views.ids.tolist() == list("wxyz")

    def test_renaming_views_leaves_the_original_alone(self):
        views = Views({"a": FRAME, "b": B})
        other = Views(views, names=["mri", "pet"], ids=range(4))
        assert (views.names, views.ids) == (["a", "b"], None)
        assert other.feature_names["mri"].tolist() == ["age", "mass"]
        assert other.feature_names["pet"].tolist() == ["pet_0", "pet_1", "pet_2"]
        assert views.feature_names["b"].tolist() == ["b_0", "b_1", "b_2"]

    def test_a_row_of_nan_is_an_absent_view(self):
        views = ab()
        assert_array_equal(views.present, [[1, 1], [1, 1], [1, 0], [1, 1]])
        assert views.rows(1).tolist() == [0, 1, 3]
        assert not views.complete

    @pytest.mark.parametrize("wrap", [np.asarray, sp.csr_array])
    def test_present_takes_views_away(self, wrap):
        present = np.ones((4, 2), dtype=bool)
        present[2, 1] = False
        block = np.where(present[:, [1]], B, 7.0).astype(np.float32)
        for views in (
            Views({"a": A, "b": wrap(block)}, present=present),
            Views(Views({"a": A, "b": wrap(block)}), present=present),
        ):
            assert_array_equal(views.present, present)
            assert views["b"].dtype == np.float32
            assert_array_equal(
                dense(views["b"]), np.where(present[:, [1]], B, NAN if wrap is np.asarray else 0)
            )

    def test_present_cannot_bring_back_a_row_of_nan(self):
        assert_array_equal(Views([A, HOLED], present=np.ones((4, 2))).present, ab().present)

    def test_nan_admitted_for_imputation_is_still_refused_for_training(self):
        raw = Views({"a": [[1.0, NAN], [2.0, 3.0]]}, allow_nan=True)
        assert raw.complete
        assert_array_equal(Views(raw, allow_nan=True)["a"], raw["a"])
        with pytest.raises(ValueError, match="View 'a' contains NaN"):
            Views(raw)

    @given(arrays(float, (5, 3), elements=st.sampled_from([0.0, 1.5, NAN])))
    @settings(max_examples=50, deadline=None)
    def test_presence_is_read_off_the_rows(self, X):
        views = Views({"full": np.ones((5, 1)), "holes": X}, allow_nan=True)
        assert views.present[:, 1].tolist() == [not all(np.isnan(row)) for row in X]


class TestFromFrames:
    MRI = pd.DataFrame({"id": ["c", "a", "b"], "x": [1, 2, 3], "y": [True, False, True]})
    PET = pd.DataFrame({"id": ["d", "b", "c"], "z": [4.0, 5.0, 6.0]})

    def frames(self):
        return {"mri": self.MRI, "pet": self.PET}

    @pytest.mark.parametrize("on", ["id", None])
    def test_outer_keeps_everyone_in_order_of_first_appearance(self, on):
        frames = self.frames() if on else {name: X.set_index("id") for name, X in self.frames().items()}
        views = Views.from_frames(frames, on=on)
        assert views.ids.tolist() == ["c", "a", "b", "d"]
        assert_array_equal(views.present, [[1, 1], [1, 0], [1, 1], [0, 1]])
        assert_array_equal(views["mri"], [[1, 1], [2, 0], [3, 1], [NAN, NAN]])
        assert_array_equal(views["pet"], [[6], [NAN], [5], [4]])
        assert views.feature_names["mri"].tolist() == ["x", "y"]

    def test_inner_keeps_those_seen_in_all_views(self):
        views = Views.from_frames(self.frames(), on="id", how="inner")
        assert views.ids.tolist() == ["c", "b"]
        assert views.complete
        assert_array_equal(views["pet"], [[6], [5]])

    def test_a_row_without_values_does_not_count_as_seen(self):
        pet = self.PET.assign(z=[NAN, 5.0, 6.0])
        views = Views.from_frames({"mri": self.MRI, "pet": pet}, on="id")
        assert views.ids.tolist() == ["c", "a", "b"]

    def test_nan_inside_rows_is_kept_if_allowed(self):
        mri = self.MRI.assign(x=[1.0, NAN, 3.0])
        views = Views.from_frames({"mri": mri, "pet": self.PET}, on="id", allow_nan=True)
        assert_array_equal(views["mri"][:, 0], [1.0, NAN, 3.0, NAN])

    def test_float32_survives_the_join(self):
        frames = {"mri": self.MRI[["id", "x"]].astype({"x": np.float32}), "pet": self.PET}
        assert Views.from_frames(frames, on="id")["mri"].dtype == np.float32


class TestRows:
    MASK = np.array([True, False, True, False])

    @pytest.mark.parametrize(
        ("key", "rows"),
        [
            (1, [1]),
            (-1, [3]),
            (np.int64(2), [2]),
            (slice(1, None), [1, 2, 3]),
            (slice(None, None, -1), [3, 2, 1, 0]),
            ([2, 0, 0], [2, 0, 0]),
            ([], []),
            (np.array([3, 1]), [3, 1]),
            (MASK, [0, 2]),
            (MASK.tolist(), [0, 2]),
            (pd.Series(MASK, index=list("zyxw")), [0, 2]),
            ((np.array([3, 1]), ...), [3, 1]),
        ],
    )
    @pytest.mark.parametrize("wrap", [np.asarray, sp.csr_array])
    def test_rows_are_selected_in_every_view(self, key, rows, wrap):
        views = Views({"a": A, "b": wrap(B)}, ids=list("pqrs"))[key]
        assert_array_equal(views["a"], A[rows])
        assert_array_equal(dense(views["b"]), B[rows])
        assert views.ids.tolist() == [list("pqrs")[i] for i in rows]
        assert views.present.shape == (len(rows), 2)

    def test_presence_follows_the_rows(self):
        assert ab()[[2, 3]].present.tolist() == [[True, False], [True, True]]

    @pytest.mark.parametrize(
        "key", [4, (0, 1), (slice(None), "a"), None, [[0, 1]], np.array([True, False]), 1.0]
    )
    def test_other_keys_are_refused(self, key):
        with pytest.raises(IndexError):
            ab()[key]

    def test_views_are_not_iterated_by_accident(self):
        with pytest.raises(TypeError, match=r"views\.items\(\)"):
            list(ab())


class TestAsOneMatrix:
    def test_dense_views_lie_side_by_side(self):
        X = Views([A, B]).concatenate()
        assert isinstance(X, np.ndarray)
        assert_array_equal(X, np.hstack([A, B]))

    def test_one_sparse_view_makes_the_whole_sparse(self):
        views = Views([A, sp.csr_array(B)])
        assert isinstance(views.concatenate(), sp.csr_array)
        assert_array_equal(np.asarray(views, dtype=np.float32), np.hstack([A, B]).astype(np.float32))

    def test_float32_stays_float32_if_all_views_are(self):
        assert Views([A.astype(np.float32), B.astype(np.float32)]).concatenate().dtype == np.float32
        assert Views([A.astype(np.float32), B]).concatenate().dtype == np.float64


def test_select_keeps_the_named_views_in_the_order_asked_for():
    views = Views({"a": FRAME, "b": B, "c": A}).select(["c", "a"])
    assert views.names == list(views.feature_names) == ["c", "a"]
    assert views.feature_names["a"].tolist() == ["age", "mass"]
    assert views.present.shape == (4, 2)


def test_select_refuses_what_leaves_samples_unseen_or_is_not_there():
    with pytest.raises(ValueError, match="1 samples have no view"):
        ab().select(["b"])
    with pytest.raises(KeyError, match=r"No view is called 'c'; there are \['a', 'b'\]"):
        ab().select(["c"])
    with pytest.raises(ValueError, match="same name"):
        ab().select(["a", "a"])


def test_repr_counts_and_names_no_one():
    assert repr(ab()) == "Views(4 samples; a: 2 features, b: 3 features, 1 absent)"


@pytest.mark.parametrize("again", [lambda v: pickle.loads(pickle.dumps(v)), copy.deepcopy])
def test_a_copy_is_the_same(again):
    views = Views({"a": FRAME, "b": sp.csr_array(B)}, ids=list("pqrs"))
    other = again(views)
    assert (other.names, other.shape, other.ids.tolist()) == (views.names, views.shape, list("pqrs"))
    assert_array_equal(np.asarray(other), np.asarray(views))
    assert other.feature_names["a"].tolist() == ["age", "mass"]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ([A, B], True),
        ([None, A], True),
        ([A, None], True),
        ({"a": A}, True),
        ([A.tolist()], True),
        ([[[1.0, 2.0], [3.0]], A], True),
        (A, False),
        (A.tolist(), False),
        (list(A), False),
        (FRAME, False),
        (sp.dok_array(A), False),
        (sp.csr_array(A), False),
    ],
)
def test_several_matrices_are_told_from_one(data, expected):
    assert is_multiview(data) is expected


def test_long_lists_of_names_are_cut():
    names = [f"f{j}" for j in range(MOST_NAMES + 2)]
    assert listed(names[:2]) == "'f0', 'f1'"
    assert listed(names).endswith("and 2 more")
    assert names[MOST_NAMES] not in listed(names)


class TestPerView:
    def test_a_scaler_sees_observed_rows_only_and_absent_rows_stay_absent(self):
        scaled = PerView(StandardScaler()).fit_transform(ab())
        observed = HOLED[[0, 1, 3]]
        expected = np.full_like(HOLED, NAN)
        expected[[0, 1, 3]] = (observed - observed.mean(axis=0)) / observed.std(axis=0)
        assert_allclose(scaled["b"], expected)
        assert_array_equal(scaled.present, ab().present)
        assert scaled.ids.tolist() == list("pqrs")
        assert scaled.feature_names["b"].tolist() == ["b_0", "b_1", "b_2"]

    def test_an_imputer_fills_observed_rows_only(self):
        raw = np.array([[1.0, NAN], [3.0, 5.0], [NAN, NAN], [5.0, 7.0]])
        filled = PerView(SimpleImputer()).fit_transform({"a": A, "b": raw})
        assert_array_equal(filled["b"], [[1.0, 6.0], [3.0, 5.0], [NAN, NAN], [5.0, 7.0]])
        assert_array_equal(Views(filled).present[:, 1], [1, 1, 0, 1])

    def test_an_imputer_fills_sparse_views(self):
        raw = sp.csr_array([[1.0, NAN], [3.0, 4.0]])
        filled = PerView(SimpleImputer()).fit_transform({"a": raw})
        assert_array_equal(dense(filled["a"]), [[1.0, 4.0], [3.0, 4.0]])

    def test_a_dict_leaves_unnamed_views_alone(self):
        transformer = PerView({"b": MaxAbsScaler()}).fit({"a": A, "b": B})
        scaled = transformer.transform({"a": A, "b": B})
        assert list(transformer.transformers_) == ["b"]
        assert_array_equal(scaled["a"], A)
        assert_allclose(scaled["b"], B / np.abs(B).max(axis=0))

    def test_the_given_transformer_is_cloned(self):
        scaler = StandardScaler()
        PerView(scaler).fit([A, B])
        assert not hasattr(scaler, "mean_")

    @pytest.mark.parametrize(
        ("transformer", "names"),
        [
            (PCA(1), ["pca0"]),
            (TruncatedSVD(2), ["truncatedsvd0", "truncatedsvd1"]),
            (VarianceThreshold(1.5), ["mass"]),
            (FunctionTransformer(lambda X: X[:, :1]), ["x0"]),
            (FunctionTransformer(lambda X: 2 * X), ["age", "mass"]),
        ],
    )
    def test_features_may_change_in_number(self, transformer, names):
        raw = pd.DataFrame({"age": [1.0, 2, NAN, 3], "mass": [9.0, 4, NAN, 1]})
        changed = PerView({"a": transformer}).fit_transform({"a": raw, "b": B})
        assert changed["a"].shape == (4, len(names))
        assert changed.feature_names["a"].tolist() == names
        assert np.isnan(changed["a"][2]).all()
        assert changed.rows(0).tolist() == [0, 1, 3]

    @pytest.mark.parametrize("transformer", [OneHotEncoder(), FunctionTransformer(sp.coo_matrix)])
    def test_sparse_output_becomes_a_csr_array(self, transformer):
        assert isinstance(PerView(transformer).fit_transform([A])["view0"], sp.csr_array)

    def test_sparse_views_keep_absent_rows_empty(self):
        present = np.array([[1, 1], [1, 1], [1, 0], [1, 1]], dtype=bool)
        views = Views({"a": A, "b": sp.csr_array(B.astype(np.float32))}, present=present)
        scaled = PerView({"b": MaxAbsScaler()}).fit_transform(views)
        assert_allclose(dense(scaled["b"]), B / [2.0, 1.0, 1.0] * present[:, [1]])
        assert scaled["b"].dtype == np.float32
        assert_array_equal(scaled.present, present)

    def test_whole_numbers_and_frames_from_a_transformer_become_floats(self):
        for transformer in (
            FunctionTransformer(lambda X: X.astype(int)),
            StandardScaler().set_output(transform="pandas"),
        ):
            changed = PerView(transformer).fit_transform({"a": A, "b": HOLED})
            assert changed["b"].dtype == np.float64
            assert np.isnan(changed["b"][2]).all()

    def test_new_samples_are_put_into_the_order_of_fit(self):
        fitted = PerView(StandardScaler()).fit({"a": FRAME})
        assert_allclose(
            fitted.transform({"a": FRAME[["mass", "age"]]})["a"], fitted.transform({"a": FRAME})["a"]
        )

    @pytest.mark.parametrize("new", [{"a": A[:1]}, {"a": A[:1], "b": [[NAN] * 3]}, {"a": A[:1], "b": None}])
    def test_a_view_that_no_new_sample_has_is_left_out(self, new):
        fitted = PerView(StandardScaler()).fit({"a": A, "b": B})
        transformed = fitted.transform(new)
        assert transformed.names == ["a"]
        assert_allclose(transformed["a"], (A[:1] - A.mean(axis=0)) / A.std(axis=0))

    @pytest.mark.parametrize(
        ("transformer", "fitted_on", "new", "message"),
        [
            ({"mri": PCA()}, {"a": A}, None, r"transformer names views \['mri'\]"),
            (PCA(), {"a": A, "b": np.full((4, 2), NAN)}, None, "View 'b' is observed for 0 of 4 samples"),
            (PCA(), {"a": A, "b": np.where(B == 2, NAN, B)}, None, "View 'b': Input X contains NaN"),
            (PCA(), {"a": A}, {"c": A}, r"Views \['c'\] were not seen in fit"),
            (PCA(), {"a": A}, {"a": B}, "View 'a' has 3 features, but fit saw 2"),
            (FunctionTransformer(np.ravel), {"a": A}, {"a": A}, "View 'a': Expected 2 dimensions"),
        ],
    )
    def test_errors_name_the_view(self, transformer, fitted_on, new, message):
        with pytest.raises(ValueError, match=message):
            PerView(transformer).fit(fitted_on).transform(new)

    def test_transform_before_fit(self):
        with pytest.raises(NotFittedError):
            PerView(PCA()).transform(A)


class TestParameterPerView:
    @pytest.mark.parametrize("value", [3.0, "linear", None, sp.csr_array(A)])
    def test_one_value_is_for_all(self, value):
        assert per_view(value, ["a", "b"], "lam") == [value, value]

    @pytest.mark.parametrize("value", [{"b": 2.0, "a": 1.0}, [1.0, 2.0], (1.0, 2.0), np.array([1.0, 2.0])])
    def test_one_value_each(self, value):
        assert per_view(value, ["a", "b"], "lam") == [1.0, 2.0]

    @pytest.mark.parametrize(
        ("value", "message"),
        [
            ({"a": 1.0}, r"lam must have one entry per view: missing \['b'\], unknown \[\]"),
            ({"a": 1.0, "b": 1.0, "c": 1.0}, r"missing \[\], unknown \['c'\]"),
            ([1.0], "lam has 1 entries for 2 views"),
        ],
    )
    def test_wrong_number(self, value, message):
        with pytest.raises(ValueError, match=message):
            per_view(value, ["a", "b"], "lam")


class TestAlign:
    FITTED = Views({"a": FRAME, "b": B})

    def align(self, new, **options):
        return align(new, self.FITTED.names, self.FITTED.feature_names, **options)

    @pytest.mark.parametrize(
        "new",
        [
            {"a": FRAME},
            {"a": FRAME, "b": None},
            {"b": None, "a": A},
            [A, None],
            (FRAME, None),
            Views({"a": FRAME}),
            {"a": FRAME, "b": np.full((4, 3), NAN)},
        ],
        ids=["left out", "None", "other order", "list", "tuple", "views", "NaN"],
    )
    def test_absent_views_are_filled_in(self, new):
        views = self.align(new)
        assert views.names == ["a", "b"]
        assert_array_equal(views.present, [[True, False]] * 4)
        assert_array_equal(views["a"], A)
        assert views["b"].shape == (4, 3)

    @pytest.mark.parametrize("wrap", [dict, Views])
    def test_named_columns_are_put_in_order(self, wrap):
        views = self.align(wrap({"b": B, "a": FRAME[["mass", "age"]]}))
        assert_array_equal(views["a"], A)
        assert_array_equal(views["b"], B)
        assert views.feature_names["a"].tolist() == ["age", "mass"]

    def test_sparse_columns_are_put_in_order(self):
        fitted = Views(sp.csr_array(B))
        reordered = fitted.replaced(
            blocks=[fitted["view0"][:, [2, 0, 1]]],
            feature_names={"view0": fitted.feature_names["view0"][[2, 0, 1]]},
        )
        assert_array_equal(align(reordered, fitted.names, fitted.feature_names)["view0"].toarray(), B)

    def test_columns_without_names_go_by_position_on_either_side(self):
        assert_array_equal(self.align([A, B])["a"], A)
        assert_array_equal(self.align(Views(Views([A, B]), names=["a", "b"]))["a"], A)
        frame = pd.DataFrame(B, columns=["x", "y", "z"])
        assert_array_equal(self.align({"b": frame})["b"], B)

    @pytest.mark.parametrize("new", [A, A.tolist(), FRAME, FRAME[["mass", "age"]], Views(A)])
    def test_one_matrix_is_the_only_view_whatever_its_name(self, new):
        views = align(new, ["mri"], {"mri": np.array(["age", "mass"], dtype=object)})
        assert views.names == ["mri"]
        assert_array_equal(views["mri"], A)

    def test_ids_are_carried_along(self):
        assert self.align(Views({"a": FRAME}, ids=list("pqrs"))).ids.tolist() == list("pqrs")

    def test_nan_is_let_through_for_imputation_only(self):
        new = {"a": np.where(A == 5.0, NAN, A)}
        assert np.isnan(self.align(new, allow_nan=True)["a"]).sum() == 1
        with pytest.raises(ValueError, match="View 'a' contains NaN"):
            self.align(new)
        with pytest.raises(ValueError, match="View 'a' contains NaN"):
            self.align(Views(new, allow_nan=True))

    @pytest.mark.parametrize(
        ("new", "message"),
        [
            ({"a": A, "c": B}, r"Views \['c'\] were not seen in fit, which saw \['a', 'b'\]"),
            ({"a": A, "c": None}, r"Views \['c'\] were not seen in fit"),
            (Views({"c": FRAME}), r"Views \['c'\] were not seen in fit"),
            ([A], r"1 views given, 2 fitted; pass None for a missing view"),
            ([A, B, None], "3 views given, 2 fitted"),
            ([None, None], "No views given"),
            ({"a": B}, "View 'a' has 3 features, but fit saw 2"),
            ({"a": FRAME[["age"]]}, "View 'a' has 1 features, but fit saw 2"),
            (
                {"a": FRAME.rename(columns={"mass": "height"})},
                "View 'a' lacks 1 features seen in fit: 'mass'",
            ),
            ({"a": A[:0]}, r"0 sample\(s\)"),
            ({"a": A, "b": B[:2]}, "'a' has 4, 'b' has 2"),
        ],
    )
    def test_what_does_not_fit_is_named(self, new, message):
        with pytest.raises(ValueError, match=message):
            self.align(new)


class TestTrainable:
    @pytest.mark.parametrize(
        ("data", "n_clusters", "message"),
        [
            ({"a": A[:1]}, 1, "at least 2 samples, got n_samples=1"),
            ({"a": A[:0]}, 1, "at least 2 samples, got n_samples=0"),
            ({"a": A}, 5, "n_clusters=5 is more than n_samples=4"),
            ({"a": A, "b": np.ones((4, 3))}, 2, "View 'b' is constant: all its 4 observed rows are equal"),
            ({"a": A, "b": sp.csr_array(np.ones((4, 3)))}, 2, "View 'b' is constant"),
            ({"a": A, "b": sp.csr_array((4, 3))}, 2, "View 'b' is constant"),
            ({"a": A, "b": [[1.0], [NAN], [1.0], [1.0]]}, 2, "View 'b' is constant: all its 3 observed rows"),
            ({"a": A, "b": [[1.0], [NAN], [NAN], [NAN]]}, 2, "View 'b' is observed for 1 of 4 samples"),
        ],
    )
    def test_untrainable_data_is_refused(self, data, n_clusters, message):
        with pytest.raises(ValueError, match=message):
            check_trainable(Views(data), n_clusters)

    @pytest.mark.parametrize("block", [A, HOLED, sp.csr_array(B), [[1.0], [1.0], [1.0], [1.0 + 1e-12]]])
    def test_as_many_clusters_as_samples_can_be_asked_for(self, block):
        check_trainable(Views({"a": A, "b": block}), 4)


# A subject's id and a cell's value that must never be seen in a message.
ID, VALUE = "SUBJECT-4711", 90817.25
LEAKY = np.array([[VALUE, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, VALUE]])
IDS = [ID, "x", "y", "z"]


def table(X=LEAKY, ids=IDS, **more):
    return pd.DataFrame(X, columns=["age", "mass"][: np.shape(X)[1]], index=pd.Index(ids)).assign(**more)


def with_cell(value, kind=object):
    X = LEAKY.astype(kind)
    X[1, 1] = value
    return X


REFUSED = {
    "no views in a dict": (lambda: Views({}), "No views given"),
    "no views in a list": (lambda: Views([]), "No views given"),
    "no tables": (lambda: Views.from_frames({}), "No views given"),
    "lengths": (lambda: Views({"a": LEAKY, "b": LEAKY[:3]}), "same order: 'a' has 4, 'b' has 3.*from_frames"),
    "same name": (lambda: Views([LEAKY, LEAKY], names=["a", "a"]), "Two views have the same name"),
    "same name as text": (lambda: Views({1: LEAKY, "1": LEAKY}), "Two views have the same name"),
    "too few names": (lambda: Views([LEAKY, LEAKY], names=["a"]), "1 names given for 2 views"),
    "duplicate ids": (lambda: Views({"a": LEAKY}, ids=[ID, ID, "y", "z"]), "1 ids are duplicates"),
    "too many ids": (lambda: Views({"a": LEAKY[:3]}, ids=IDS), "4 ids given for 3 samples"),
    "ids of views": (lambda: Views(Views({"a": LEAKY}), ids=[ID, ID, "y", "z"]), "1 ids are duplicates"),
    "shape of present": (lambda: Views([LEAKY, LEAKY], present=[True, False]), r"shape \(4, 2\), got \(2,\)"),
    "duplicate ids in a table": (
        lambda: Views.from_frames({"a": table(ids=[ID, ID, "y", ID])}),
        "View 'a' has 2 rows with a duplicate id; keep one row per sample",
    ),
    "rows without an id": (
        lambda: Views.from_frames({"a": table(ids=[ID, None, "y", "z"])}),
        "View 'a' has 1 rows without an id",
    ),
    "no id column": (
        lambda: Views.from_frames({"a": table()}, on="subject"),
        "View 'a' has no id column 'subject'; its columns begin with 'age', 'mass'",
    ),
    "no common subject": (
        lambda: Views.from_frames({"a": table(), "b": table(ids=["ID-4711", "u", "v", "w"])}),
        "View 'a' shares no id with any other view; check that the ids are spelled the same way",
    ),
    "no subject in all": (
        lambda: Views.from_frames(
            {"a": table(), "b": table(ids=["z", "u", "v", "w"]), "c": table(ids=["w", ID, "s", "t"])},
            how="inner",
        ),
        "how='inner' keeps none; use how='outer'",
    ),
    "bad join": (lambda: Views.from_frames({"a": table()}, how="left"), "how must be 'outer' or 'inner'"),
    "table without values": (
        lambda: Views.from_frames({"a": table(), "b": table(np.full((4, 2), NAN))}),
        "View 'b' has no values; leave it out",
    ),
    "table of ids only": (
        lambda: Views.from_frames({"a": table(), "b": pd.DataFrame({"id": IDS}).set_index("id")}),
        "View 'b' has no values",
    ),
    "NaN inside rows": (
        lambda: Views({"a": table(with_cell(NAN, float)), "b": LEAKY}),
        r"View 'a' contains NaN in 1 observed rows, in features 'mass'\. Impute them.*PerView",
    ),
    "NaN in nullable columns": (
        lambda: Views({"a": table(extra=pd.array([1, None, None, 2], dtype="Int64"))}),
        "View 'a' contains NaN in 2 observed rows, in features 'extra'",
    ),
    "NaN in a sparse view": (
        lambda: Views({"a": sp.csr_array(with_cell(NAN, float))}),
        "View 'a' contains NaN in 1 observed rows, in features 'a_1'",
    ),
    "infinity": (
        lambda: Views({"a": LEAKY, "b": with_cell(-np.inf, float)}),
        r"View 'b' contains 1 infinite values \(inf\)",
    ),
    "infinity in a sparse view": (
        lambda: Views({"a": sp.csr_array(with_cell(np.inf, float))}, allow_nan=True),
        "View 'a' contains 1 infinite values",
    ),
    "sample without a view": (
        lambda: Views({"a": np.where(LEAKY == 3.0, NAN, LEAKY)[:, :1], "b": np.full((4, 1), NAN)}),
        "1 samples have no view at all",
    ),
    "sample made absent": (
        lambda: Views({"a": LEAKY}, present=[[True], [False], [True], [False]]),
        "2 samples have no view at all",
    ),
    "no features": (lambda: Views({"a": LEAKY, "b": LEAKY[:, :0]}), r"View 'b': .*0 feature\(s\)"),
    "no columns": (lambda: Views({"a": LEAKY, "b": table()[[]]}), r"View 'b': .*0 feature\(s\)"),
    "text column": (
        lambda: check_trainable(Views({"a": table(site=IDS)}), 2),
        "View 'a': text column 'site' has 4 different values in 4 rows, like an identifier",
    ),
    "numbers as text": (
        lambda: Views({"a": table(site=[*IDS[:3], "7"])}),
        "View 'a' has 1 columns that are not numeric: 'site'.*astype",
    ),
    "text in an object column": (
        lambda: Views({"a": table(with_cell(ID))}),
        "View 'a' has 1 columns that are not numeric: 'mass'",
    ),
    "categories that are dates": (
        lambda: Views({"a": table(site=pd.Categorical(pd.to_datetime(["2020-01-01"] * 4)))}),
        "View 'a' has 1 columns that are not numeric: 'site'",
    ),
    "date column": (
        lambda: Views({"a": table(seen=pd.to_datetime(["2020-01-01"] * 4))}),
        "View 'a' has 1 columns that are not numeric: 'seen'",
    ),
    "complex column": (
        lambda: Views({"a": table(signal=LEAKY[:, 0] + 1j)}),
        "View 'a' has 1 columns that are not numeric: 'signal'",
    ),
    "many bad columns": (
        lambda: Views({"a": pd.DataFrame({f"c{j}": LEAKY[:, 0] + 1j for j in range(9)})}),
        "View 'a' has 9 columns that are not numeric: 'c0', .* and 4 more",
    ),
    "duplicate feature names": (
        lambda: Views({"a": pd.DataFrame(LEAKY, columns=["age", "age"])}),
        "View 'a' has duplicate feature names: 'age'",
    ),
    "feature names alike as text": (
        lambda: Views({"a": pd.DataFrame(LEAKY, columns=[1, "1"])}),
        "View 'a' has duplicate feature names: '1'",
    ),
    "text array": (
        lambda: Views({"a": with_cell(ID, "U20")}),
        "View 'a': it contains text that is not a number",
    ),
    "text in an object array": (lambda: Views({"a": with_cell(ID)}), "View 'a': it contains text"),
    "text in a list": (lambda: Views([[[1.0, ID]], [[2.0]]]), "View 'view0': it contains text"),
    "text in one matrix": (lambda: Views(with_cell(ID)), "View 'view0': it contains text"),
    "date array": (lambda: Views({"a": np.full((2, 2), "2020-01-01", dtype="M8[D]")}), "View 'a': Dates"),
    "complex array": (lambda: Views({"a": LEAKY + 1j}), "View 'a': Complex data not supported"),
    "complex sparse": (
        lambda: Views({"a": sp.csr_array(LEAKY + 1j)}),
        "View 'a': Complex data not supported",
    ),
    "one complex matrix": (lambda: Views(LEAKY + 1j), "View 'view0': Complex data not supported"),
    "1-D": (lambda: Views({"a": LEAKY[0]}), r"View 'a': Expected 2 dimensions .*, got 1\. Reshape"),
    "one vector": (lambda: Views(LEAKY[0]), r"View 'view0': Expected 2 dimensions .*, got 1\. Reshape"),
    "series": (lambda: Views({"a": table()["age"]}), "View 'a': Expected 2 dimensions .*, got 1"),
    "3-D": (lambda: Views({"a": LEAKY, "b": LEAKY[None]}), "View 'b': Expected 2 dimensions .*, got 3"),
    "one cube": (lambda: Views(LEAKY[None]), "View 'view0': Expected 2 dimensions .*, got 3"),
    "a number": (lambda: Views({"a": VALUE}), "View 'a': Expected 2 dimensions .*, got 0"),
    "None": (lambda: Views([LEAKY, None]), "View 'view1' is None; leave it out"),
    "ragged": (lambda: Views({"a": [[VALUE, 2.0], [3.0]]}), "View 'a': .*inhomogeneous"),
    "first of a list ragged": (
        lambda: Views([[[VALUE, 2.0], [3.0]], LEAKY[:2]]),
        "View 'view0': .*inhomogeneous",
    ),
}


@pytest.mark.parametrize(("build", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_bad_input_is_refused_in_clear_words_without_ids_or_values(build, message):
    with pytest.raises(ValueError, match=message) as caught:
        build()
    assert ID not in str(caught.value)
    assert "90817" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Views.from_frames({"a": LEAKY}), "View 'a' must be a DataFrame, got ndarray"),
        (
            lambda: Views({"a": with_cell({ID: VALUE})}),
            "View 'a': .*argument must be a string or a real number",
        ),
    ],
)
def test_wrong_types_are_type_errors(build, message):
    with pytest.raises(TypeError, match=message) as caught:
        build()
    assert ID not in str(caught.value)


def test_names_can_always_be_written():
    assert Views({"\udc80": np.eye(3)}).names == ["\\udc80"]
