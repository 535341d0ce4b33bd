"""Views with categorical columns: encoding against loops, invariances, and what is refused."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from viewloom import InputError, Views
from viewloom.data import mixed_encoding
from viewloom.data.mixed import mixed_block
from viewloom.data.mixed_encoding import POOLED, MixedEncoder, NominalColumn, OrdinalColumn, pooled

N = 60
RNG = np.random.default_rng(0)
SITES = RNG.choice(list("abc"), N, p=[0.5, 0.3, 0.2])
GRADES = RNG.choice(4, N, p=[0.6, 0.2, 0.1, 0.1])
AGES = RNG.normal(70.0, 8.0, N)


def ordinal(codes, names=("0", "I", "II", "III")):
    return pd.Categorical.from_codes(codes, list(names), ordered=True)


def cohort(**changes):
    return pd.DataFrame({"age": AGES, "grade": ordinal(GRADES), "site": SITES, **changes})


def encoded(frame):
    block = mixed_block(frame, "clinical")
    return MixedEncoder.fit(block).transform(block)


def distances(X):
    X = X.toarray() if sp.issparse(X) else X
    return ((X[:, None] - X[None]) ** 2).sum(axis=2)


def chi_square(columns):
    """Squared distances of rows in multiple correspondence analysis, by loops."""
    D = np.zeros((N, N))
    for column in columns:
        for level in set(column):
            share = np.mean(column == level)
            for i in range(N):
                for j in range(N):
                    D[i, j] += ((column[i] == level) * 1.0 - (column[j] == level)) ** 2 / share
    return D


@pytest.mark.parametrize("width", [256, 2])
def test_nominal_distances_are_those_of_multiple_correspondence_analysis(monkeypatch, width):
    monkeypatch.setattr(mixed_encoding, "SPARSE_WIDTH", width)
    two, three = RNG.choice(["no", "yes"], N), RNG.choice(list("abc"), N)
    X = encoded(pd.DataFrame({"two": two}))
    assert_allclose(distances(X), chi_square([two]), atol=1e-9)
    both = encoded(pd.DataFrame({"two": two, "three": three}))
    assert_allclose(distances(both), chi_square([two]) + chi_square([three]) / 2.0, atol=1e-9)


def test_two_levels_are_a_standardised_column():
    yes = RNG.random(N) < 0.3
    z = (yes - yes.mean()) / yes.std()
    assert_allclose(
        distances(encoded(pd.DataFrame({"sign": np.where(yes, "yes", "no")}))),
        distances(z[:, None]),
        atol=1e-9,
    )


def test_every_column_has_variance_one_and_mean_zero():
    X = encoded(cohort())
    assert_allclose(X.mean(axis=0), 0.0, atol=1e-12)
    assert_allclose([X[:, group].var(axis=0).sum() for group in (slice(0, 1), slice(1, 2), slice(2, 5))], 1.0)


def test_ordinal_scores_are_standardised_ridits():
    counts = np.array([4, 0, 3, 1])
    values = np.repeat(np.arange(4), counts)
    ridits = np.array([(values < v).mean() + 0.5 * (values == v).mean() for v in range(4)])
    expected = (ridits - ridits[values].mean()) / ridits[values].std()
    assert_allclose(OrdinalColumn.fit(list("abcd"), counts).scores, expected)


class TestInvariance:
    BASE = distances(encoded(cohort()))

    def test_to_names_and_order_of_nominal_levels(self):
        names = {"a": "Rome", "b": "Bern", "c": "Oslo"}
        renamed = pd.Categorical([names[site] for site in SITES], categories=["Oslo", "Nice", "Rome", "Bern"])
        assert_allclose(distances(encoded(cohort(site=renamed))), self.BASE, atol=1e-9)

    def test_to_labels_of_ordinal_levels_and_levels_without_samples(self):
        grade = ordinal(np.array([0, 2, 3, 5])[GRADES], ("none", "-", "some", "more", "--", "most"))
        assert_allclose(distances(encoded(cohort(grade=grade))), self.BASE, atol=1e-9)

    def test_to_order_of_columns_and_units(self):
        moved = cohort(age=12.0 * AGES + 3.0)[["site", "age", "grade"]]
        assert_allclose(distances(encoded(moved)), self.BASE, atol=1e-9)

    def test_the_order_of_grades_matters(self):
        turned = ordinal(np.array([1, 0, 2, 3])[GRADES])
        assert abs(distances(encoded(cohort(grade=turned))) - self.BASE).max() > 0.1

    def test_sparse_or_not(self, monkeypatch):
        monkeypatch.setattr(mixed_encoding, "SPARSE_WIDTH", 1)
        wide = pd.DataFrame({"site": [f"s{i % 12}" for i in range(N)]})
        assert sp.issparse(encoded(wide))
        monkeypatch.setattr(mixed_encoding, "SPARSE_WIDTH", 99)
        dense = encoded(wide)
        assert not sp.issparse(dense)
        monkeypatch.setattr(mixed_encoding, "SPARSE_WIDTH", 1)
        assert_allclose(distances(encoded(wide)), distances(dense), atol=1e-9)


class TestRareAndUnseen:
    def test_rare_levels_share_a_dummy(self):
        column = NominalColumn.fit(list("abcde"), np.array([50, 0, 2, 45, 3]))
        assert column.names == ["a", "d", POOLED]
        assert_allclose(column.shares, [0.5, 0.45, 0.05])
        assert_allclose(column.encode(np.array([2])), column.encode(np.array([4])))

    @pytest.mark.parametrize("counts", [[2, 2, 2], [10] * 10_000, [1, 1]])
    def test_levels_of_equal_size_are_not_rare(self, counts):
        assert pooled(np.array(counts)).tolist() == list(range(len(counts)))

    @pytest.mark.parametrize("width", [256, 1])
    def test_unseen_levels_are_at_the_mean(self, monkeypatch, width):
        monkeypatch.setattr(mixed_encoding, "SPARSE_WIDTH", width)
        frame = pd.DataFrame({"site": [f"s{i % 6}" for i in range(N)]})
        encoder = MixedEncoder.fit(mixed_block(frame, "a"))
        new = mixed_block(pd.DataFrame({"site": ["s1", "other", "s2"]}), "a")
        found, known = encoder.transform(new), encoder.transform(mixed_block(frame, "a"))
        assert encoder.unseen(new) == {"site": 1}
        assert_allclose(
            sp.csr_array(found).toarray()[1], sp.csr_array(known).toarray().mean(axis=0), atol=1e-12
        )

    def test_levels_are_matched_by_name_whatever_their_codes(self):
        encoder = MixedEncoder.fit(mixed_block(cohort(), "a"))
        part = cohort().iloc[:7]
        part = part.assign(site=pd.Categorical(part["site"], categories=["c", "x", "b", "a"]))
        assert_allclose(encoder.transform(mixed_block(part, "a")), encoded(cohort())[:7])

    def test_numbers_are_matched_with_levels_that_are_numbers(self):
        codes = RNG.choice([1, 2, 3], N)
        encoder = MixedEncoder.fit(mixed_block(pd.DataFrame({"apoe": pd.Categorical(codes)}), "a"))
        as_levels = encoder.transform(mixed_block(pd.DataFrame({"apoe": pd.Categorical(codes)}), "a"))
        assert_allclose(encoder.transform(codes[:, None].astype(float)), as_levels)

    def test_many_levels_stay_sparse(self):
        codes = np.random.default_rng(0).integers(0, 10_000, 50_000).astype(str)
        X = encoded(pd.DataFrame({"icd": pd.Categorical(codes)}))
        assert sp.issparse(X)
        assert X.nnz == 50_000
        assert X.shape[1] > 5000


USES = {
    "array": lambda views: np.asarray(views),
    "mean": lambda views: views["clinical"].mean(axis=0),
    "product": lambda views: np.ones((1, N)) @ views["clinical"],
    "difference": lambda views: views["clinical"] - 1.0,
    "comparison": lambda views: views["clinical"] > 0.0,
    "iteration": lambda views: list(views["clinical"]),
}


class TestViews:
    def test_rows_of_nothing_are_missing_views(self):
        frame = cohort()
        frame.loc[3] = [np.nan, None, None]
        views = Views({"clinical": frame, "mri": np.eye(N)})
        assert np.flatnonzero(~views.present[:, 0]).tolist() == [3]
        ready = views.encoded()
        assert ready.feature_names["clinical"].tolist() == ["age", "grade", "site=a", "site=b", "site=c"]
        assert np.isnan(ready["clinical"][3]).all()
        assert np.isfinite(ready["clinical"][[2, 4]]).all()
        assert ready["mri"] is views["mri"]

    def test_numeric_frames_are_arrays_as_before(self):
        frame = pd.DataFrame({"age": AGES, "sign": GRADES > 1})
        assert type(Views(frame)["view0"]) is np.ndarray

    def test_frames_are_joined_by_id(self):
        frame = cohort().set_axis([f"s{i}" for i in range(N)])
        other = pd.DataFrame({"x": AGES[:50]}, index=frame.index[:50][::-1])
        views = Views.from_frames({"clinical": frame, "mri": other})
        assert views["clinical"].shape == (N, 3)
        assert views.present.sum() == N + 50

    def test_presence_can_be_restricted(self):
        present = np.column_stack([np.arange(N) % 2 == 0, np.ones(N, dtype=bool)])
        views = Views({"clinical": cohort(), "mri": np.eye(N)}, present=present)
        assert np.isnan(views["clinical"].cells[1]).all()

    @pytest.mark.parametrize("make", ["polars", "pyarrow"])
    def test_categories_of_other_libraries(self, make):
        library = pytest.importorskip(make)
        frame = cohort(site=pd.Categorical(SITES), apoe=pd.Categorical(np.where(GRADES > 1, "4", "3")))
        if make == "polars":
            columns = {name: list(frame[name]) for name in frame}
            types = {"grade": library.Enum(["0", "I", "II", "III"]), "apoe": library.Categorical}
            table = library.DataFrame(columns, schema_overrides=types)
            frame["grade"] = frame["grade"].cat.as_unordered()
        else:
            table = library.Table.from_pandas(frame)
        assert_allclose(
            distances(Views({"a": table}).encoded()["a"]),
            distances(Views({"a": frame}).encoded()["a"]),
            atol=1e-9,
        )

    @pytest.mark.parametrize("use", USES.values(), ids=USES.keys())
    def test_codes_are_never_used_as_numbers(self, use):
        with pytest.raises(
            InputError, match=r"View 'clinical' has 2 categorical columns: 'grade', 'site'.*encoded"
        ):
            use(Views({"clinical": cohort()}))

    def test_missing_cells_are_refused(self):
        with pytest.raises(InputError, match=r"NaN in 2 observed rows, in features 'site'.*add_categories"):
            Views({"a": cohort(site=[None, None, *SITES[2:]])})

    def test_levels_alike_as_text_are_refused(self):
        with pytest.raises(InputError, match="column 'site' has two levels with the same text"):
            Views({"a": cohort(site=pd.Categorical([1, "1"] * (N // 2)))})
