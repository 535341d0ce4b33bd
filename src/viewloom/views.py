"""Views: named, aligned, possibly incomplete matrices of the same samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

Block = Any  # an ndarray or a csr_array, samples in rows
MOST_NAMES = 5  # how many names an error message lists before it counts the rest


class Views:
    """Several matrices that describe the same samples, row by row.

    Parameters
    ----------
    data : dict, list, Views, array, DataFrame or sparse matrix
        One matrix per view, samples in rows. A dict names the views, a list calls them ``view0``,
        ``view1``, ...; a single two-dimensional array or DataFrame is one view.
        A row that is all NaN means that this sample lacks this view.
    names : list of str, optional
        Names of the views, instead of the dict's keys or ``view0``, ``view1``, ...
    ids : sequence, optional
        One identifier per sample, carried along when rows are selected.
    present : (n, v) bool array, optional
        Which sample has which view, where the data cannot say it (sparse matrices have no NaN rows).
    allow_nan : bool, default=False
        Accept NaN inside observed rows, for data that is still to be imputed (see `PerView`).

    Attributes
    ----------
    names : list of str
    blocks : list of (n, d_a) arrays or sparse arrays
        Rows of absent samples are NaN (dense) or empty (sparse); ask `present`.
    present : (n, v) bool array
        Whether a sample has a view.
    feature_names : dict of str to array of str
    ids : Index or None

    Examples
    --------
    >>> import numpy as np
    >>> from viewloom import Views
    >>> views = Views({"mri": np.eye(4), "pet": [[1.0, 2.0], [3.0, 4.0], [np.nan, np.nan], [5.0, 6.0]]})
    >>> views
    Views(4 samples; mri: 4 features, pet: 2 features, 1 absent)
    >>> views[[0, 2]].present.tolist()
    [[True, True], [True, False]]
    >>> views["pet"].shape
    (4, 2)
    """

    names: list[str]
    blocks: list[Block]
    present: np.ndarray
    feature_names: dict[str, np.ndarray]
    ids: pd.Index | None

    def __init__(
        self,
        data: Any,
        names: Sequence[str] | None = None,
        *,
        ids: Sequence[Any] | None = None,
        present: Any = None,
        allow_nan: bool = False,
    ) -> None:
        if isinstance(data, Views):
            self.__dict__.update(data.__dict__)
            if names is not None:
                self._rename(names)
            if ids is not None:
                self.ids = pd.Index(ids)
            return
        raw, found = _split(data)
        self.names = _checked_names(found if names is None else list(names), len(raw))
        labels = self.names if _is_multiview(data) else ["X"]
        self.blocks = [_as_block(X, name) for X, name in zip(raw, labels, strict=True)]
        _check_lengths(self.blocks, self.names)
        self.feature_names = {
            name: _feature_names(X, block, name)
            for X, block, name in zip(raw, self.blocks, self.names, strict=True)
        }
        observed = [
            _observed(block, label, self.feature_names[name], allow_nan)
            for block, label, name in zip(self.blocks, labels, self.names, strict=True)
        ]
        self.present = np.column_stack(observed)
        if present is not None:
            self.present &= np.asarray(present, dtype=bool)
        self.ids = None if ids is None else pd.Index(ids)
        _check_ids(self.ids, len(self))
        _check_everyone_seen(self.present)

    @classmethod
    def from_frames(
        cls,
        frames: Mapping[str, pd.DataFrame],
        on: str | None = None,
        *,
        how: str = "outer",
        allow_nan: bool = False,
    ) -> Views:
        """Join one table per view on an id, and remember who has what.

        Parameters
        ----------
        frames : dict of str to DataFrame
        on : str, optional
            The id column, present in every table; the index where None.
        how : {"outer", "inner"}
            Keep everyone seen in at least one view, or only those seen in all.
        allow_nan : bool, default=False
            Accept NaN inside observed rows.

        Examples
        --------
        >>> import pandas as pd
        >>> mri = pd.DataFrame({"id": ["a", "b", "c"], "hippocampus": [3.1, 2.9, 2.2]})
        >>> pet = pd.DataFrame({"id": ["c", "a"], "cingulate": [1.0, 1.4]})
        >>> Views.from_frames({"mri": mri, "pet": pet}, on="id")
        Views(3 samples; mri: 1 features, pet: 1 features, 1 absent)
        """
        if how not in ("outer", "inner"):
            raise ValueError(f"how must be 'outer' or 'inner', got {how!r}.")
        if not frames:
            raise ValueError("No views given: frames is empty.")
        indexed = {name: _indexed_by_id(frame, str(name), on) for name, frame in frames.items()}
        _check_overlap(indexed)
        ids = _joined_ids([frame.index for frame in indexed.values()], how)
        if len(ids) == 0:
            raise ValueError(
                "No subject has all views, so how='inner' keeps nobody; use how='outer'."
            )
        data = {name: frame.reindex(ids) for name, frame in indexed.items()}
        return cls(data, ids=ids, allow_nan=allow_nan)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of samples, and of features over all views."""
        return int(self.blocks[0].shape[0]), sum(self.n_features)

    @property
    def n_views(self) -> int:
        """Number of views."""
        return len(self.blocks)

    @property
    def n_features(self) -> list[int]:
        """Number of features of each view."""
        return [int(X.shape[1]) for X in self.blocks]

    @property
    def complete(self) -> bool:
        """Whether every sample has every view."""
        return bool(self.present.all())

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        """``views[rows]`` selects samples, ``views["name"]`` is the matrix of a view."""
        if isinstance(key, str):
            return self.blocks[self.index(key)]
        if isinstance(key, tuple) and len(key) == 2 and key[1] is Ellipsis:
            key = key[0]  # scikit-learn selects rows with X[rows, ...]
        if isinstance(key, tuple):
            raise IndexError("Views are indexed by rows, or by the name of a view.")
        rows = np.atleast_1d(np.arange(len(self))[key])
        return self._replace(
            blocks=[X[rows] for X in self.blocks],
            present=self.present[rows],
            ids=None if self.ids is None else self.ids[rows],
        )

    def __iter__(self) -> Iterator[Any]:
        raise TypeError("Iterate over views.items(), or over rows with views[i].")

    def items(self) -> Iterator[tuple[str, Block]]:
        """Pairs of view name and matrix."""
        return iter(zip(self.names, self.blocks, strict=True))

    def index(self, name: str) -> int:
        """Position of the view called `name`."""
        if name not in self.names:
            raise KeyError(f"No view is called {name!r}; there are {self.names}.")
        return self.names.index(name)

    def rows(self, view: int) -> np.ndarray:
        """Numbers of the samples that have the view at this position."""
        return np.flatnonzero(self.present[:, view])

    def select(self, names: Sequence[str]) -> Views:
        """The named views only; samples that have none of them are an error."""
        chosen = [self.index(name) for name in names]
        _check_everyone_seen(self.present[:, chosen])
        return self._replace(
            names=[self.names[a] for a in chosen],
            blocks=[self.blocks[a] for a in chosen],
            present=self.present[:, chosen],
            feature_names={name: self.feature_names[name] for name in names},
        )

    def concatenate(self) -> Block:
        """All features side by side: dense, or sparse where any view is sparse."""
        if any(sp.issparse(X) for X in self.blocks):
            return sp.csr_array(sp.hstack(self.blocks, format="csr"))
        return np.hstack(self.blocks)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Concatenated features, so that single-view estimators accept Views."""
        X = self.concatenate()
        return np.asarray(X.toarray() if sp.issparse(X) else X, dtype=dtype)

    def __repr__(self) -> str:
        parts = []
        for a, (name, X) in enumerate(self.items()):
            absent = len(self) - int(self.present[:, a].sum())
            parts.append(f"{name}: {X.shape[1]} features" + (f", {absent} absent" * bool(absent)))
        return f"Views({len(self)} samples; {', '.join(parts)})"

    def _replace(self, **changes: Any) -> Views:
        other = object.__new__(Views)
        other.__dict__.update({**self.__dict__, **changes})
        return other

    def _rename(self, names: Sequence[str]) -> None:
        old, self.names = self.names, _checked_names(list(names), self.n_views)
        self.feature_names = {
            new: self.feature_names[name] for new, name in zip(self.names, old, strict=True)
        }

    def _replace_blocks(self, blocks: list[Block], features: list[np.ndarray]) -> Views:
        names = dict(zip(self.names, features, strict=True))
        return self._replace(blocks=blocks, feature_names=names)


class PerView(TransformerMixin, BaseEstimator):
    """Apply a scikit-learn transformer to every view on its own, fitted on observed rows.

    Parameters
    ----------
    transformer : transformer, or dict of view name to transformer
        Cloned for each view. Views that a dict does not name pass through.

    Attributes
    ----------
    transformers_ : dict of str to fitted transformer

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from viewloom import PerView
    >>> scaled = PerView(StandardScaler()).fit_transform({"a": [[1.0], [3.0]], "b": [[0.0], [10.0]]})
    >>> scaled["b"].ravel().tolist()
    [-1.0, 1.0]
    """

    def __init__(self, transformer: Any) -> None:
        self.transformer = transformer

    def fit(self, X: Any, y: Any = None) -> PerView:
        """Fit one clone of the transformer per view."""
        views = Views(X, allow_nan=True)
        self.transformers_ = {}
        for a, (name, block) in enumerate(views.items()):
            chosen = self._transformer_of(name)
            if chosen is not None:
                self.transformers_[name] = clone(chosen).fit(block[views.rows(a)])
        self.n_features_in_ = views.shape[1]
        return self

    def transform(self, X: Any) -> Views:
        """Transform every view; absent samples stay absent."""
        check_is_fitted(self)
        views = Views(X, allow_nan=True)
        blocks, features = [], []
        for a, (name, block) in enumerate(views.items()):
            fitted = self.transformers_.get(name)
            if fitted is None:
                blocks.append(block)
                features.append(views.feature_names[name])
                continue
            rows, names = views.rows(a), views.feature_names[name]
            blocks.append(_scatter_rows(fitted.transform(block[rows]), rows, len(views)))
            features.append(_transformed_names(fitted, names, blocks[-1].shape[1]))
        return views._replace_blocks(blocks, features)

    def _transformer_of(self, name: str) -> Any:
        if isinstance(self.transformer, Mapping):
            return self.transformer.get(name)
        return self.transformer


def listed(names: Sequence[Any]) -> str:
    """A few names in quotes, and how many more there are.

    >>> listed(["a", "b"])
    "'a', 'b'"
    """
    shown = ", ".join(repr(str(name)) for name in names[:MOST_NAMES])
    more = len(names) - MOST_NAMES
    return f"{shown} and {more} more" if more > 0 else shown


def _is_multiview(data: Any) -> bool:
    """Whether `data` holds several matrices rather than being one."""
    if isinstance(data, Mapping):
        return True
    return isinstance(data, (list, tuple)) and len(data) > 0 and np.ndim(data[0]) == 2


def _split(data: Any) -> tuple[list[Any], list[str]]:
    """The matrices in `data` and the names it gives them."""
    if isinstance(data, Mapping):
        if not data:
            raise ValueError("No views given: the dict is empty.")
        return list(data.values()), [str(name) for name in data]
    if _is_multiview(data):
        return list(data), [f"view{a}" for a in range(len(data))]
    if isinstance(data, (list, tuple)) and len(data) == 0:
        raise ValueError("No views given: the list is empty.")
    return [data], ["view0"]


def _checked_names(names: list[str], n_views: int) -> list[str]:
    names = [str(name) for name in names]
    if len(names) != n_views:
        raise ValueError(f"{len(names)} names given for {n_views} views.")
    if len(set(names)) != len(names):
        raise ValueError(f"Two views have the same name: {names}.")
    return names


def _as_block(X: Any, name: str) -> Block:
    """One view as a numeric two-dimensional array; float32 stays float32."""
    if isinstance(X, pd.DataFrame):
        X = _numeric_frame(X, name)
    try:
        X = check_array(
            X,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            ensure_all_finite=False,
            ensure_min_samples=0,
            input_name=name,
        )
    except (ValueError, TypeError) as error:
        if name == "X":
            raise
        raise type(error)(f"View {name!r}: {error}") from None
    if sp.issparse(X):
        X = sp.csr_array(X)
        X.sum_duplicates()
    return X


def _numeric_frame(frame: pd.DataFrame, name: str) -> np.ndarray:
    """Values of a table as floats; what is not a number is named by its column."""
    repeated = frame.columns[frame.columns.duplicated()].unique()
    if len(repeated):
        raise ValueError(f"View {name!r} has duplicate feature names: {listed(repeated)}.")
    bad = [column for column in frame.columns if not _is_numeric(frame[column])]
    if bad:
        raise ValueError(
            f"View {name!r} has {len(bad)} columns that are not numeric: {listed(bad)}. "
            "Encode them (for example with pandas.get_dummies) or leave them out."
        )
    numeric = all(dtype == np.float32 for dtype in frame.dtypes)
    return frame.to_numpy(dtype=np.float32 if numeric else np.float64, na_value=np.nan)


def _is_numeric(column: pd.Series) -> bool:
    if pd.api.types.is_complex_dtype(column):
        return True  # check_array refuses it in scikit-learn's words
    if pd.api.types.is_numeric_dtype(column):
        return True
    if not pd.api.types.is_object_dtype(column):
        return False
    return all(isinstance(value, (int, float, np.number)) or value is pd.NA for value in column)


def _check_lengths(blocks: list[Block], names: list[str]) -> None:
    lengths = [X.shape[0] for X in blocks]
    if len(set(lengths)) > 1:
        found = ", ".join(f"{name!r} has {n}" for name, n in zip(names, lengths, strict=True))
        raise ValueError(
            f"Views must have one row per sample, in the same order: {found}. "
            "Views.from_frames joins tables on an id."
        )


def _feature_names(X: Any, block: Block, name: str) -> np.ndarray:
    if isinstance(X, pd.DataFrame):
        return np.asarray([str(column) for column in X.columns], dtype=object)
    return np.asarray([f"{name}_{j}" for j in range(block.shape[1])], dtype=object)


def _observed(X: Block, name: str, features: np.ndarray, allow_nan: bool) -> np.ndarray:
    """Which rows hold this view; infinities and stray NaN are errors."""
    values = X.data if sp.issparse(X) else X
    if np.isinf(values).any():
        count = int(np.isinf(values).sum())
        raise ValueError(f"View {name!r} contains {count} infinite values (inf); remove them.")
    if sp.issparse(X):
        if np.isnan(values).any():
            raise ValueError(f"View {name!r} is sparse and contains NaN; impute or remove them.")
        return np.ones(X.shape[0], dtype=bool)
    missing = np.isnan(X)
    present = ~missing.all(axis=1)
    stray = missing & present[:, None]
    if stray.any() and not allow_nan:
        raise ValueError(
            f"View {name!r} contains NaN in {int(stray.any(axis=1).sum())} observed rows, in "
            f"features {listed(features[stray.any(axis=0)])}. Impute them, for example with "
            "viewloom.PerView(sklearn.impute.SimpleImputer()), or set a whole row to NaN where "
            "the sample lacks this view."
        )
    return np.asarray(present)


def _check_ids(ids: pd.Index | None, n: int) -> None:
    if ids is None:
        return
    if len(ids) != n:
        raise ValueError(f"{len(ids)} ids given for {n} samples.")
    if not ids.is_unique:
        raise ValueError(f"{int(ids.duplicated().sum())} ids are duplicates; ids must be unique.")


def _check_everyone_seen(present: np.ndarray) -> None:
    unseen = int((~present.any(axis=1)).sum())
    if unseen:
        raise ValueError(
            f"{unseen} samples have no view at all (every row is NaN); leave them out."
        )


def _indexed_by_id(frame: pd.DataFrame, name: str, on: str | None) -> pd.DataFrame:
    """The table of a view with its id as index; rows without any value are dropped."""
    if not isinstance(frame, pd.DataFrame):
        raise TypeError(f"View {name!r} must be a DataFrame, got {type(frame).__name__}.")
    if on is not None:
        if on not in frame.columns:
            raise ValueError(
                f"View {name!r} has no id column {on!r}; its columns begin with "
                f"{listed(list(frame.columns))}."
            )
        frame = frame.set_index(on)
    if frame.index.hasnans:
        raise ValueError(f"View {name!r} has {int(frame.index.isna().sum())} rows without an id.")
    if not frame.index.is_unique:
        count = int(frame.index.duplicated().sum())
        raise ValueError(
            f"View {name!r} has {count} rows whose id appeared before; keep one row per subject."
        )
    return frame[frame.notna().any(axis=1)] if frame.shape[1] else frame


def _check_overlap(indexed: dict[str, pd.DataFrame]) -> None:
    if len(indexed) < 2:
        return
    for name, frame in indexed.items():
        others = [other.index for key, other in indexed.items() if key != name]
        if not any(frame.index.isin(other).any() for other in others):
            raise ValueError(
                f"View {name!r} has no subject in common with any other view; "
                "check that the ids are spelt alike."
            )


def _joined_ids(indices: list[pd.Index], how: str) -> pd.Index:
    """Ids in order of first appearance."""
    ids = indices[0]
    for other in indices[1:]:
        ids = ids[ids.isin(other)] if how == "inner" else ids.append(other[~other.isin(ids)])
    return ids


def _scatter_rows(X: Any, rows: np.ndarray, n: int) -> Block:
    """Observed rows put back in place; absent ones NaN (dense) or empty (sparse)."""
    if isinstance(X, pd.DataFrame):
        X = X.to_numpy()
    if len(rows) == n:
        return X
    if sp.issparse(X):
        put = sp.csr_array((np.ones(len(rows)), (rows, np.arange(len(rows)))), (n, len(rows)))
        return sp.csr_array(put @ X)
    full = np.full((n, X.shape[1]), np.nan, dtype=X.dtype)
    full[rows] = X
    return full


def _transformed_names(fitted: Any, names: np.ndarray, width: int) -> np.ndarray:
    try:
        return np.asarray(fitted.get_feature_names_out(names), dtype=object)
    except (AttributeError, ValueError):
        kept = width == len(names)
        return names if kept else np.asarray([f"x{j}" for j in range(width)], dtype=object)


def per_view(value: Any, names: Sequence[str], what: str) -> list[Any]:
    """A parameter that may be one value for all views, a list, or a dict by view name.

    >>> per_view({"a": 1.0, "b": 2.0}, ["a", "b"], "lam")
    [1.0, 2.0]
    """
    if isinstance(value, Mapping):
        unknown = [key for key in value if key not in names]
        absent = [name for name in names if name not in value]
        if unknown or absent:
            raise ValueError(
                f"{what} must have one entry per view: missing {absent}, unknown {unknown}."
            )
        return [value[name] for name in names]
    if isinstance(value, (list, tuple, np.ndarray)):
        if len(value) != len(names):
            raise ValueError(f"{what} has {len(value)} entries for {len(names)} views.")
        return list(value)
    return [value] * len(names)


def check_trainable(views: Views, n_clusters: int) -> None:
    """Refuse data from which `n_clusters` clusters cannot be learned, naming the view at fault."""
    n = len(views)
    if n < 2:
        raise ValueError(f"Clustering needs at least 2 samples, got n_samples={n}.")
    if n_clusters > n:
        raise ValueError(f"n_clusters={n_clusters} is more than n_samples={n}.")
    for a, (name, X) in enumerate(views.items()):
        rows = views.rows(a)
        if len(rows) < 2:
            raise ValueError(
                f"View {name!r} is observed for {len(rows)} of {n} samples; leave it out."
            )
        X = X if len(rows) == n else X[rows]
        spread = X.max(axis=0) - X.min(axis=0)
        if not np.any(spread.toarray() if sp.issparse(spread) else spread):
            raise ValueError(
                f"View {name!r} is constant: all its {len(rows)} observed rows are equal. "
                "Leave it out."
            )


def align(data: Any, names: Sequence[str], features: Mapping[str, np.ndarray]) -> Views:
    """New samples as the views a model was fitted on, absent views included.

    A dict or Views may lack views; in a list None stands for an absent one. Named features are put in order.
    """
    if not isinstance(data, Views) and not isinstance(data, Mapping) and not _is_list_of_views(data):
        data = Views(data)
    if isinstance(data, Views):
        given = data
        if data.names != list(names) and data.n_views == len(names) == 1:
            given = Views(data, names=names)
    else:
        given = _named(data, names)
    unknown = [name for name in given.names if name not in names]
    if unknown:
        raise ValueError(f"Views {unknown} were not seen in fit, which saw {list(names)}.")
    n = len(given)
    blocks, present = [], np.zeros((n, len(names)), dtype=bool)
    for a, name in enumerate(names):
        if name in given.names:
            at = given.index(name)
            blocks.append(_in_order(given.blocks[at], given.feature_names[name], features[name], name))
            present[:, a] = given.present[:, at]
        else:
            blocks.append(sp.csr_array((n, len(features[name]))))
    return given._replace(
        names=list(names), blocks=blocks, present=present, feature_names=dict(features)
    )


def _is_list_of_views(data: Any) -> bool:
    return isinstance(data, (list, tuple)) and any(X is None or np.ndim(X) == 2 for X in data)


def _named(data: Any, names: Sequence[str]) -> Views:
    """A dict or list, without its absent entries, under the names of the model."""
    if not isinstance(data, Mapping):
        if len(data) != len(names):
            raise ValueError(
                f"{len(data)} views given, {len(names)} fitted; None stands for an absent view."
            )
        data = dict(zip(names, data, strict=True))
    return Views({name: X for name, X in data.items() if X is not None})


def _in_order(X: Block, found: np.ndarray, wanted: np.ndarray, name: str) -> Block:
    if X.shape[1] == len(wanted) and list(found) == list(wanted):
        return X
    if set(found) == set(wanted):
        position = {feature: j for j, feature in enumerate(found)}
        return X[:, [position[feature] for feature in wanted]]
    if X.shape[1] != len(wanted):
        raise ValueError(f"View {name!r} has {X.shape[1]} features, but fit saw {len(wanted)}.")
    generated = [f"{name}_{j}" for j in range(len(wanted))]
    if list(found) == generated or list(wanted) == generated:
        return X  # one of the two had no names to compare
    missing = [feature for feature in wanted if feature not in set(found)]
    raise ValueError(f"View {name!r} lacks {len(missing)} features seen in fit: {listed(missing)}.")
