"""Views: named, aligned, possibly incomplete matrices of the same samples."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from os import PathLike
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from viewloom.frames import LOST_INDEX, as_table, is_dask_frame, is_default, is_frame
from viewloom.matching import check_ids, in_order, match_rows, row_index

Block = Any  # an ndarray or a csr_array, samples in rows
FLOATS = [np.float64, np.float32]
NUMBERS = (int, float, np.bool_, np.integer, np.floating)  # what a column of mixed objects may hold
MOST_NAMES = 5  # how many names an error message lists before it counts the rest
SPLIT_BY_VIEWS = (
    "To split samples with scikit-learn (GridSearchCV, cross_val_score, train_test_split), pass Views(...): "
    "it takes the entries of a list for samples."
)
LARGEST, LARGEST_SINGLE = 1e60, 1e9  # fourth powers of values and of their inverses are still numbers


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
        ids: Sequence[Any] | pd.Index | None = None,
        present: Any = None,
        allow_nan: bool = False,
    ) -> None:
        if isinstance(data, Views):
            self.__dict__.update(data.__dict__)
            if names is not None:
                self._rename(names)
        else:
            self._read(data, names)
        if ids is not None:
            self.ids = _checked_ids(ids, len(self), self.ids)
        if present is not None:
            self._restrict(np.asarray(present, dtype=bool))
        for a, (name, X) in enumerate(self.items()):
            _check_values(X, self.present[:, a], name, self.feature_names[name], allow_nan)
        _check_everyone_seen(self.present)

    def _read(self, data: Any, names: Sequence[str] | None) -> None:
        raw, found = _split(data)
        self.names = _checked_names(found if names is None else list(names), len(raw))
        tables = {name: _as_table(X, name) for X, name in zip(raw, self.names, strict=True)}
        self.ids, tables = _matched(tables)
        self.blocks = [_as_block(X, name) for name, X in tables.items()]
        _check_lengths(self.blocks, self.names)
        self.feature_names = {
            name: _feature_names(X, block, name)
            for (name, X), block in zip(tables.items(), self.blocks, strict=True)
        }
        self.present = np.column_stack([_observed(X) for X in self.blocks])

    def _restrict(self, present: np.ndarray) -> None:
        """Take views away from samples that lack them."""
        if present.shape != self.present.shape:
            raise ValueError(f"present must have shape {self.present.shape}, got {present.shape}.")
        self.present = self.present & present
        self.blocks = [
            _scatter_rows(X[self.rows(a)], self.rows(a), len(self)) for a, X in enumerate(self.blocks)
        ]

    @classmethod
    def from_frames(
        cls,
        frames: Mapping[str, Any],
        on: str | None = None,
        *,
        how: str = "outer",
        allow_nan: bool = False,
    ) -> Views:
        """Join one table per view on an id, and remember who has what.

        Parameters
        ----------
        frames : dict of str to DataFrame
            Of pandas, Polars, PyArrow or any library that narwhals knows.
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
            raise ValueError("No subject has all views, so how='inner' keeps nobody; use how='outer'.")
        data = {name: frame.reindex(ids) for name, frame in indexed.items()}
        return cls(data, ids=ids, allow_nan=allow_nan)

    @classmethod
    def from_mudata(cls, data: Any, *, layer: str | None = None) -> Views:
        """Take the modalities of a MuData as views, in the order of its observations.

        Parameters
        ----------
        data : mudata.MuData
            An observation that a modality lacks lacks that view. Sparse matrices stay sparse.
        layer : str, optional
            A layer of every modality instead of ``X``.

        Examples
        --------
        >>> mudata = Views.from_mudata(MuData({"rna": rna, "atac": atac}))  # doctest: +SKIP
        """
        ids = pd.Index(data.obs_names)
        blocks, present = {}, []
        for name, modality in data.mod.items():
            if layer is not None and layer not in modality.layers:
                raise ValueError(f"Modality {name!r} has no layer {layer!r}; it has {list(modality.layers)}.")
            block = _as_block(modality.X if layer is None else modality.layers[layer], name)
            rows = ids.get_indexer(modality.obs_names)
            order = np.argsort(rows)
            blocks[name] = _scatter_rows(block[order], rows[order], len(ids))
            present.append(np.isin(np.arange(len(ids)), rows))
        views = cls(blocks, ids=ids, present=np.column_stack(present))
        features = {name: np.asarray(modality.var_names, dtype=str) for name, modality in data.mod.items()}
        return views.replaced(feature_names=features)

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
        if rows.ndim > 1:
            raise IndexError("Rows are selected by a number, a slice, or a one-dimensional list or mask.")
        return self.replaced(
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
        chosen = [self.index(name) for name in _checked_names(list(names), len(names))]
        _check_everyone_seen(self.present[:, chosen])
        return self.replaced(
            names=[self.names[a] for a in chosen],
            blocks=[self.blocks[a] for a in chosen],
            present=self.present[:, chosen],
            feature_names={name: self.feature_names[name] for name in names},
        )

    def concatenate(self) -> Block:
        """All features side by side: dense, or sparse where any view is sparse."""
        return concatenated(self.blocks)

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

    def replaced(self, **changes: Any) -> Views:
        """The same with other blocks, names, ids or presence, which the caller has checked."""
        other = object.__new__(Views)
        other.__dict__.update({**self.__dict__, **changes})
        return other

    def _rename(self, names: Sequence[str]) -> None:
        old, self.names = self.names, _checked_names(list(names), self.n_views)
        features = [self.feature_names[name] for name in old]
        self.feature_names = {
            new: _numbered(new, len(found)) if _is_numbered(found, name) else found
            for new, name, found in zip(self.names, old, features, strict=True)
        }


class PerView(TransformerMixin, BaseEstimator):
    """Apply a scikit-learn transformer to every view on its own, fitted on observed rows.

    Parameters
    ----------
    transformer : transformer, or dict of view name to transformer
        Cloned for each view. Views that a dict does not name pass through, as do those whose transformer
        is None or "passthrough".

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
        chosen = self._chosen(views.names)
        self.transformers_ = {}
        for a, (name, block) in enumerate(views.items()):
            if chosen[name] is not None:
                _check_observed(views, a, 1)
                with _naming(name):
                    self.transformers_[name] = clone(chosen[name]).fit(block[views.rows(a)])
        self.view_names_, self.view_features_ = views.names, views.feature_names
        self.n_features_in_ = views.shape[1]
        return self

    def transform(self, X: Any) -> Views:
        """Transform every view; absent samples stay absent, and a view that nobody has is left out."""
        check_is_fitted(self)
        views = align(X, self.view_names_, self.view_features_, allow_nan=True)
        views = views.select([name for a, name in enumerate(views.names) if views.present[:, a].any()])
        blocks, features = [], []
        for a, (name, block) in enumerate(views.items()):
            fitted, names = self.transformers_.get(name), views.feature_names[name]
            if fitted is not None:
                rows = views.rows(a)
                with _naming(name):
                    transformed = fitted.transform(block[rows])
                block = _scatter_rows(_as_block(transformed, name), rows, len(views))
                names = _transformed_names(fitted, names, block.shape[1])
            blocks.append(block)
            features.append(names)
        return views.replaced(blocks=blocks, feature_names=dict(zip(views.names, features, strict=True)))

    def _chosen(self, names: Sequence[str]) -> dict[str, Any]:
        """The transformer of each view, or None."""
        if not isinstance(self.transformer, Mapping):
            return dict.fromkeys(names, _or_none(self.transformer))
        unknown = [name for name in self.transformer if name not in names]
        if unknown:
            raise ValueError(f"transformer names views {unknown}, but the data has {list(names)}.")
        return {name: _or_none(self.transformer.get(name)) for name in names}


def _or_none(transformer: Any) -> Any:
    """None for scikit-learn's word for it."""
    return None if isinstance(transformer, str) and transformer == "passthrough" else transformer


def concatenated(blocks: Sequence[Block]) -> Block:
    """Columns of all blocks: dense, or sparse where any block is."""
    if any(sp.issparse(X) for X in blocks):
        return sp.csr_array(sp.hstack(blocks, format="csr"))
    return np.hstack(blocks)


def listed(names: Sequence[Any]) -> str:
    """A few names in quotes, and how many more there are.

    >>> listed(["a", "b"])
    "'a', 'b'"
    """
    shown = ", ".join(repr(str(name)) for name in names[:MOST_NAMES])
    more = len(names) - MOST_NAMES
    return f"{shown} and {more} more" if more > 0 else shown


def is_multiview(data: Any) -> bool:
    """Whether `data` holds several matrices rather than being one."""
    if isinstance(data, (list, tuple)):
        return any(X is None or isinstance(X, (str, PathLike)) or _depth(X) == 2 for X in data[:2])
    return isinstance(data, Mapping) and not sp.issparse(data)  # dok arrays are mappings


def _depth(X: Any) -> int:
    """Number of dimensions, also of nested lists whose rows differ in length."""
    if is_frame(X) or getattr(getattr(X, "dtype", None), "names", None) is not None:
        return 2
    return 1 + _depth(X[0]) if isinstance(X, (list, tuple)) and X else np.ndim(X)


def _split(data: Any) -> tuple[list[Any], list[Any]]:
    """The matrices in `data` and the names it gives them."""
    if isinstance(data, (Mapping, list, tuple)) and not sp.issparse(data) and len(data) == 0:
        raise ValueError("No views given: the data is empty.")
    if not is_multiview(data):
        return [data], ["view0"]
    if isinstance(data, Mapping):
        return list(data.values()), list(data)
    return list(data), [f"view{a}" for a in range(len(data))]


def named_parts(data: Any) -> dict[str, Any]:
    """The matrices in `data` by name."""
    if isinstance(data, Views):
        return dict(data.items())
    parts, names = _split(data)
    return dict(zip(_checked_names(names, len(parts)), parts, strict=True))


def _checked_names(names: list[str], n_views: int) -> list[str]:
    names = [_text(name) for name in names]
    if len(names) != n_views:
        raise ValueError(f"{len(names)} names given for {n_views} views.")
    if len(set(names)) != len(names):
        raise ValueError(f"Two views have the same name: {names}.")
    return names


def _text(name: Any) -> str:
    """A name that can be written: lone surrogates, which no file can hold, become escapes."""
    return str(name).encode("utf-8", "backslashreplace").decode("utf-8")


def _as_table(X: Any, name: str) -> Any:
    """What was given as a view: a pandas frame, or something that can be made an array."""
    if X is None:
        raise ValueError(f"View {name!r} is None; leave it out.")
    if isinstance(X, (str, PathLike)):
        raise TypeError(f"View {name!r} is a path; only estimators read files. Read it into a table first.")
    with _naming(name):
        return as_table(X)


def _as_block(X: Any, name: str) -> Block:
    """One view as a numeric two-dimensional array; float32 stays float32 where it can be computed with."""
    if isinstance(X, pd.DataFrame):
        X = _numeric_frame(X, name)
    try:
        X = X if sp.issparse(X) else np.asarray(X)
        _check_kind(X)
        if hasattr(X, "check_format"):
            X.check_format(full_check=True)  # positions beyond the shape would be written to memory
        if not _is_plain(X):  # of one row, checks take longer than all else
            with np.errstate(over="ignore"):  # what double precision cannot hold is told as infinite
                X = check_array(
                    X, accept_sparse="csr", dtype=FLOATS, ensure_all_finite=False, ensure_min_samples=0
                )
    except (ValueError, TypeError, OverflowError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"View {name!r}: {_without_values(str(error))}") from None
    X = _canonical(X) if sp.issparse(X) else X
    return X.astype(np.float64) if X.dtype == np.float32 and _needs_double(X) else X


def _is_plain(X: Any) -> bool:
    """Whether an array is one to compute with already."""
    return type(X) is np.ndarray and X.dtype in FLOATS and X.shape[1] > 0


def _needs_double(X: Block) -> bool:
    """Whether products of values leave the range of single precision."""
    size = _size(X)
    return size > 0.0 and not 1.0 / LARGEST_SINGLE <= size <= LARGEST_SINGLE


def _canonical(X: Any) -> sp.csr_array:
    """Without duplicates, and with positions of 32 bits where they suffice: scikit-learn takes no others."""
    index = np.int32 if max(X.nnz, *X.shape) < 2**31 else np.int64
    parts = (X.data, X.indices.astype(index, copy=False), X.indptr.astype(index, copy=False))
    canonical = sp.csr_array(parts, shape=X.shape)
    if not canonical.has_canonical_format:
        canonical = canonical.copy()  # the caller's matrix stays as it was
        canonical.sum_duplicates()
    return canonical


def _size(X: Block) -> float:
    """The largest absolute value, NaN aside."""
    values = X.data if sp.issparse(X) else X
    return float(max(np.fmax.reduce(values, None, initial=0.0), -np.fmin.reduce(values, None, initial=0.0)))


def _check_kind(X: Any) -> None:
    """Refuse what scikit-learn would refuse by printing the data, or would take for numbers."""
    if X.ndim != 2:
        raise ValueError(
            f"Expected 2 dimensions (samples x features), got {X.ndim}. Reshape your data, with "
            "array.reshape(-1, 1) if it is a single feature."
        )
    if X.dtype.kind == "c":
        raise ValueError("Complex data not supported; pass real and imaginary part as features.")
    if X.dtype.kind in "mM":
        raise ValueError("Dates and durations are not numbers; turn them into days or years.")


def _without_values(message: str) -> str:
    """A message of numpy or scikit-learn without the cell it complains of."""
    if message.startswith("could not convert string"):
        return "it holds text that is not a number; encode it or leave it out."
    if message.startswith("int too large"):
        return "it holds whole numbers that are too large to compute with."
    return message


def _numeric_frame(frame: pd.DataFrame, name: str) -> np.ndarray:
    """Values of a table as floats; what is not a number is named by its column."""
    columns = frame.columns.map(str)
    lost = [column for column in columns if column.startswith("__") and LOST_INDEX.fullmatch(column)]
    if lost:
        raise ValueError(
            f"View {name!r} has a column {lost[0]!r}, the index of a pandas frame that another library "
            "saved. Make it the index again, or drop it."
        )
    repeated = columns[columns.duplicated()].unique()
    if len(repeated):
        raise ValueError(f"View {name!r} has duplicate feature names: {listed(list(repeated))}.")
    bad = [column for column, dtype in frame.dtypes.items() if not _is_numeric(dtype, frame, column)]
    if bad:
        raise ValueError(
            f"View {name!r} has {len(bad)} columns that are not numeric: {listed(bad)}. "
            "Encode them (for example with pandas.get_dummies) or leave them out."
        )
    if any(pd.api.types.is_object_dtype(dtype) for dtype in frame.dtypes):
        frame = frame.where(frame.notna(), np.nan)  # None and NA among numbers
    single = all(dtype == np.float32 for dtype in frame.dtypes)
    return frame.to_numpy(dtype=np.float32 if single else np.float64, na_value=np.nan)


def _is_numeric(dtype: Any, frame: pd.DataFrame, column: Any) -> bool:
    if pd.api.types.is_object_dtype(dtype):
        return all(isinstance(value, NUMBERS) or value is None or value is pd.NA for value in frame[column])
    return pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_complex_dtype(dtype)


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
        return np.asarray([_text(column) for column in X.columns], dtype=object)
    return _numbered(name, block.shape[1])


@lru_cache(maxsize=16)
def _numbered(name: str, count: int) -> np.ndarray:
    """Names of features that came without."""
    names = np.asarray([f"{name}_{j}" for j in range(count)], dtype=object)
    names.flags.writeable = False  # all views of this name and size have them
    return names


def _is_numbered(features: np.ndarray, name: str) -> bool:
    return np.array_equal(features, _numbered(name, len(features)))


def _observed(X: Block) -> np.ndarray:
    """Which rows hold anything: all rows of a sparse matrix, else those that are not all NaN."""
    if sp.issparse(X):
        return np.ones(X.shape[0], dtype=bool)
    return np.asarray(~np.isnan(X).all(axis=1))


def _check_values(X: Block, present: np.ndarray, name: str, features: np.ndarray, allow_nan: bool) -> None:
    """Infinities are errors, and so is NaN in observed rows unless it is still to be imputed."""
    values = X.data if sp.issparse(X) else X
    if np.isfinite(values).all():
        return
    infinite = int(np.isinf(values).sum())
    if infinite:
        raise ValueError(f"View {name!r} contains {infinite} infinite values (inf); remove them.")
    count, columns = _stray_nan(X, present)
    if count and not allow_nan:
        raise ValueError(
            f"View {name!r} contains NaN in {count} observed rows, in features "
            f"{listed(features[columns])}. Impute them, for example with "
            "viewloom.PerView(sklearn.impute.SimpleImputer()), or set a whole row to NaN where "
            "the sample lacks this view."
        )


def _stray_nan(X: Block, present: np.ndarray) -> tuple[int, np.ndarray]:
    """In how many observed rows there is NaN, and in which columns."""
    if sp.issparse(X):
        entries = X.tocoo()
        stray = np.isnan(entries.data)
        return len(np.unique(entries.row[stray])), np.unique(entries.col[stray])
    missing = np.isnan(X) & present[:, None]
    return int(missing.any(axis=1).sum()), np.flatnonzero(missing.any(axis=0))


def _check_size(X: Block, name: str) -> None:
    """Refuse values whose products are no numbers any more."""
    if _size(X) > LARGEST:
        count = int(np.count_nonzero(np.abs(X.data if sp.issparse(X) else X) > LARGEST))
        raise ValueError(
            f"View {name!r} contains {count} values beyond {LARGEST:g}, whose products cannot be computed. "
            "Set codes for missing values to NaN, or change its unit."
        )


def _matched(tables: dict[str, Any]) -> tuple[pd.Index | None, dict[str, Any]]:
    """The ids that tables have, and their rows in one order."""
    labels = {name: f"View {name!r}" for name in tables}
    ids, orders = match_rows({labels[name]: row_index(X) for name, X in tables.items()})
    return ids, {name: in_order(X, orders[labels[name]]) for name, X in tables.items()}


def _checked_ids(ids: Sequence[Any] | pd.Index, n: int, known: pd.Index | None) -> pd.Index:
    index: pd.Index = pd.Index(ids)
    if len(index) != n:
        raise ValueError(f"{len(index)} ids given for {n} samples.")
    if not index.is_unique:
        raise ValueError(f"{int(index.duplicated().sum())} ids are duplicates; ids must be unique.")
    if known is not None and not index.equals(known) and known.isin(index).all():
        raise ValueError(
            "ids are those of the rows in another order. Leave ids out: they are taken from the index."
        )
    return index


def _check_everyone_seen(present: np.ndarray) -> None:
    unseen = int((~present.any(axis=1)).sum())
    if unseen:
        raise ValueError(f"{unseen} samples have no view at all (every row is NaN); leave them out.")


def _indexed_by_id(frame: Any, name: str, on: str | None) -> pd.DataFrame:
    """The table of a view with its id as index; rows without any value are dropped."""
    if not is_frame(frame) and not is_dask_frame(frame):
        raise TypeError(f"View {name!r} must be a DataFrame, got {type(frame).__name__}.")
    indexed = isinstance(frame, pd.DataFrame)
    frame = _as_table(frame, name)
    if on is not None and on != frame.index.name:
        if on not in frame.columns:
            raise ValueError(
                f"View {name!r} has no id column {on!r}; its columns begin with "
                f"{listed(list(frame.columns))}."
            )
        frame = frame.set_index(on)
    elif on is None and not indexed and is_default(frame.index):
        raise ValueError(f"View {name!r} has no index; say with on= which column holds the ids.")
    check_ids(frame.index, f"View {name!r}")
    if frame.shape[1]:
        frame = frame[frame.notna().any(axis=1)]
    if frame.empty:
        raise ValueError(f"View {name!r} has no values; leave it out.")
    return frame


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
    if len(rows) == n:
        return X
    if sp.issparse(X):
        ones = np.ones(len(rows), dtype=X.dtype)
        return sp.csr_array(sp.csr_array((ones, (rows, np.arange(len(rows)))), (n, len(rows))) @ X)
    full = np.full((n, X.shape[1]), np.nan, dtype=X.dtype)
    full[rows] = X
    return full


@contextmanager
def _naming(name: str) -> Iterator[None]:
    """Errors of a transformer, with the view it was working on."""
    try:
        yield
    except (ValueError, TypeError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"View {name!r}: {error}") from error


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
            raise ValueError(f"{what} must have one entry per view: missing {absent}, unknown {unknown}.")
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
        _check_observed(views, a, 2)
        rows = views.rows(a)
        X = X if len(rows) == n else X[rows]
        _check_size(X, name)
        spread = _size(X.max(axis=0) - X.min(axis=0))
        if not spread:
            raise ValueError(
                f"View {name!r} is constant: all its {len(rows)} observed rows are equal. Leave it out."
            )
        if spread < 1.0 / LARGEST:
            raise ValueError(
                f"View {name!r} varies by less than {1.0 / LARGEST:g}, too little to compute with. Change "
                "its unit, or leave it out if it is constant but for rounding."
            )


def _check_observed(views: Views, a: int, least: int) -> None:
    count = len(views.rows(a))
    if count < least:
        raise ValueError(
            f"View {views.names[a]!r} is observed for {count} of {len(views)} samples; leave it out."
        )


def align(
    data: Any,
    names: Sequence[str],
    features: Mapping[str, np.ndarray],
    *,
    allow_nan: bool = False,
    names_checked: bool = False,
) -> Views:
    """New samples as the views a model was fitted on, absent views included.

    A dict or Views may lack views; in a list None stands for an absent one. Named features are put in order.
    """
    given = Views(fitted_parts(data, names), allow_nan=allow_nan)
    if given.names == ["view0"] and len(names) == 1:
        given = Views(given, names=names, allow_nan=allow_nan)
    _check_known(given.names, names)
    if len(given) == 0:
        raise ValueError("Found array with 0 sample(s); at least 1 is needed.")
    n = len(given)
    blocks, present = [], np.zeros((n, len(names)), dtype=bool)
    for a, name in enumerate(names):
        if name in given.names:
            at = given.index(name)
            if not allow_nan:  # it will be computed with
                _check_size(given.blocks[at], name)
            blocks.append(_in_order(given.blocks[at], given.feature_names[name], features[name], name))
            present[:, a] = given.present[:, at]
        else:
            blocks.append(sp.csr_array((n, len(features[name]))))
    if not names_checked:
        _warn_of_names(given, features)
    return given.replaced(names=list(names), blocks=blocks, present=present, feature_names=dict(features))


def fitted_parts(data: Any, names: Sequence[str]) -> Any:
    """New samples by the names of the model's views, without absent ones: a dict, or Views as they are."""
    if isinstance(data, Views):
        return data
    if not is_multiview(data):
        if len(names) > 1:
            raise ValueError(
                f"One matrix given, but fit saw {len(names)} views: {listed(names)}. "
                "Name the views in a dict."
            )
        return {names[0]: data}
    if not isinstance(data, Mapping):
        if len(data) != len(names):
            raise ValueError(
                f"{len(data)} views given, {len(names)} fitted; None stands for an absent view. "
                f"{SPLIT_BY_VIEWS}"
            )
        data = dict(zip(names, data, strict=True))
    _check_known([_text(name) for name in data], names)
    return {name: X for name, X in data.items() if X is not None}


def _check_known(given: Sequence[str], names: Sequence[str]) -> None:
    unknown = [name for name in given if name not in names]
    if unknown:
        raise ValueError(f"Views {unknown} were not seen in fit, which saw {list(names)}.")


def _in_order(X: Block, found: np.ndarray, wanted: np.ndarray, name: str) -> Block:
    """Columns in the order of fit; by position where either side came without names."""
    unnamed = found is _numbered(name, len(found))  # quicker than to compare thousands of names
    if (unnamed and len(found) == len(wanted)) or np.array_equal(found, wanted):
        return X
    if set(found) == set(wanted):
        position = {feature: j for j, feature in enumerate(found)}
        return X[:, [position[feature] for feature in wanted]]
    bare = _is_bare(found, name) or _is_bare(wanted, name)
    if X.shape[1] != len(wanted):
        which = "." if bare else f": {_differing(found, wanted)}."
        raise ValueError(f"View {name!r} has {X.shape[1]} features, but fit saw {len(wanted)}{which}")
    if bare:
        return X
    missing = [feature for feature in wanted if feature not in set(found)]
    raise ValueError(f"View {name!r} lacks {len(missing)} features seen in fit: {listed(missing)}.")


def _is_bare(features: np.ndarray, name: str) -> bool:
    """Whether features came without names, or with numbers for names, as columns of frames made of arrays."""
    if features is _numbered(name, len(features)):
        return True  # quicker than to compare thousands of names
    if not len(features) or features[-1] not in (f"{name}_{len(features) - 1}", str(len(features) - 1)):
        return False
    counted = [str(j) for j in range(len(features))]
    return _is_numbered(features, name) or features.tolist() == counted


def _differing(found: np.ndarray, wanted: np.ndarray) -> str:
    missing = [feature for feature in wanted if feature not in set(found)]
    extra = [feature for feature in found if feature not in set(wanted)]
    parts = [("it lacks", missing), ("fit did not see", extra)]
    return "; ".join(f"{what} {listed(features)}" for what, features in parts if features)


def _warn_of_names(given: Views, features: Mapping[str, np.ndarray]) -> None:
    """Warn of views whose features have names in fit only, or now only, and so are matched by position."""
    one_sided = [name for name in given.names if _one_sided(given.feature_names[name], features[name], name)]
    if one_sided:
        warnings.warn(
            f"Features of {len(one_sided)} views have names either in fit or in the new data, not in both: "
            f"{listed(one_sided)}. They are matched by position; pass data frames to match them by name.",
            UserWarning,
            stacklevel=4,
        )


def _one_sided(found: np.ndarray, wanted: np.ndarray, name: str) -> bool:
    if _is_bare(found, name) == _is_bare(wanted, name):
        return False
    return wanted[0] not in found.tolist() or set(found) != set(wanted)


def view_position(view: Any, names: Sequence[str]) -> int:
    """Position of a view given by name or by number.

    >>> view_position("pet", ["mri", "pet"]), view_position(-1, ["mri", "pet"])
    (1, 1)
    """
    if isinstance(view, str):
        if view not in names:
            raise ValueError(f"No view is called {view!r}; there are {listed(names)}.")
        return list(names).index(view)
    if isinstance(view, bool) or not isinstance(view, (int, np.integer)):
        raise TypeError(f"view must be the name or the number of a view, got {type(view).__name__}.")
    if not -len(names) <= view < len(names):
        raise ValueError(f"There is no view number {view}; there are {len(names)}, numbered from 0.")
    return int(view) % len(names)


def components(present: np.ndarray) -> np.ndarray:
    """Which views (v,) are linked by samples that have both, directly or through other views.

    >>> components(np.array([[True, True, False], [False, False, True]])).tolist()
    [0, 0, 1]
    """
    seen = sp.csr_array(present.astype(np.float64))
    return np.asarray(connected_components(seen.T @ seen, directed=False)[1])
