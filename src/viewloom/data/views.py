"""Views: named, aligned, possibly incomplete matrices of the same samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from os import PathLike
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from viewloom.data.checks import check_lengths, check_no_empty_samples, check_values
from viewloom.data.frames import is_frame
from viewloom.data.joining import check_overlap, indexed_by_id, joined_ids
from viewloom.data.matching import in_order, match_rows, row_index
from viewloom.data.matrix import Block, as_block, as_view_table, concatenated, observed_rows, scatter_rows
from viewloom.data.mixed import MixedBlock
from viewloom.data.mixed_encoding import MixedEncoder
from viewloom.data.naming import checked_names, name_text
from viewloom.runtime.errors import InputError, InputTypeError

SPLIT_BY_VIEWS = (
    "To split samples with scikit-learn (GridSearchCV, cross_val_score, train_test_split), pass Views(...): "
    "scikit-learn treats the entries of a list as samples."
)


class Views:
    """Several matrices that describe the same samples, with one row per sample.

    Parameters
    ----------
    data : dict, list, Views, array, DataFrame or sparse matrix
        One matrix per view, with samples in rows. The keys of a dict are the names of the views; the
        views of a list are named ``view0``, ``view1``, ...; a single two-dimensional array or DataFrame
        is one view. A row that is all NaN means that the sample does not have the view. Columns of a
        DataFrame may be categorical: see `encoded`.
    names : list of str, optional
        Names of the views, instead of the keys of a dict or ``view0``, ``view1``, ...
    ids : sequence, optional
        One identifier per sample, kept when rows are selected.
    present : (n, v) bool array, optional
        Mask of the views that each sample has, for sparse matrices, which cannot have NaN rows.
    allow_nan : bool, default=False
        Accept NaN inside observed rows, for data that will be imputed (see `PerView`).

    Attributes
    ----------
    names : list of str
    blocks : list of (n, d_a) arrays or sparse arrays
        Rows of samples without the view are NaN (dense) or empty (sparse); see `present`.
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
            check_values(X, self.present[:, a], name, self.feature_names[name], allow_nan)
        check_no_empty_samples(self.present)

    def _read(self, data: Any, names: Sequence[str] | None) -> None:
        raw, found = _split(data)
        self.names = checked_names(found if names is None else list(names), len(raw))
        tables = {name: as_view_table(X, name) for X, name in zip(raw, self.names, strict=True)}
        self.ids, tables = _matched(tables)
        self.blocks = [as_block(X, name) for name, X in tables.items()]
        check_lengths(self.blocks, self.names)
        self.feature_names = {
            name: _feature_names(X, block, name)
            for (name, X), block in zip(tables.items(), self.blocks, strict=True)
        }
        self.present = np.column_stack([observed_rows(X) for X in self.blocks])

    def _restrict(self, present: np.ndarray) -> None:
        """Remove the rows of views that samples do not have."""
        if present.shape != self.present.shape:
            raise InputError(f"present must have shape {self.present.shape}, got {present.shape}.")
        self.present = self.present & present
        self.blocks = [
            scatter_rows(X[self.rows(a)], self.rows(a), len(self)) for a, X in enumerate(self.blocks)
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
        """Join one table per view on an id; samples may be missing from some tables.

        Parameters
        ----------
        frames : dict of str to DataFrame
            Tables of pandas, Polars, PyArrow or any library supported by narwhals.
        on : str, optional
            The id column, which every table must have. If None, the index is used.
        how : {"outer", "inner"}
            Keep the samples of at least one table, or only those of all tables.
        allow_nan : bool, default=False
            Accept NaN inside observed rows.

        Returns
        -------
        Views

        Examples
        --------
        >>> import pandas as pd
        >>> mri = pd.DataFrame({"id": ["a", "b", "c"], "hippocampus": [3.1, 2.9, 2.2]})
        >>> pet = pd.DataFrame({"id": ["c", "a"], "cingulate": [1.0, 1.4]})
        >>> Views.from_frames({"mri": mri, "pet": pet}, on="id")
        Views(3 samples; mri: 1 features, pet: 1 features, 1 absent)
        """
        if how not in ("outer", "inner"):
            raise InputError(f"how must be 'outer' or 'inner', got {how!r}.")
        if not frames:
            raise InputError("No views given: frames is empty.")
        indexed = {name: indexed_by_id(frame, str(name), on) for name, frame in frames.items()}
        check_overlap(indexed)
        ids = joined_ids([frame.index for frame in indexed.values()], how)
        if len(ids) == 0:
            raise InputError("No sample has all views, so how='inner' keeps none; use how='outer'.")
        data = {name: frame.reindex(ids) for name, frame in indexed.items()}
        return cls(data, ids=ids, allow_nan=allow_nan)

    @classmethod
    def from_mudata(cls, data: Any, *, layer: str | None = None) -> Views:
        """Use the modalities of a MuData as views, in the order of its observations.

        Parameters
        ----------
        data : mudata.MuData
            Observations that are not in a modality do not have that view. Sparse matrices stay sparse.
        layer : str, optional
            A layer of every modality, instead of ``X``.

        Returns
        -------
        Views

        Examples
        --------
        >>> mudata = Views.from_mudata(MuData({"rna": rna, "atac": atac}))  # doctest: +SKIP
        """
        ids = pd.Index(data.obs_names)
        blocks, present = {}, []
        for name, modality in data.mod.items():
            if layer is not None and layer not in modality.layers:
                raise InputError(f"Modality {name!r} has no layer {layer!r}; it has {list(modality.layers)}.")
            block = as_block(modality.X if layer is None else modality.layers[layer], name)
            rows = ids.get_indexer(modality.obs_names)
            order = np.argsort(rows)
            blocks[name] = scatter_rows(block[order], rows[order], len(ids))
            present.append(np.isin(np.arange(len(ids)), rows))
        views = cls(blocks, ids=ids, present=np.column_stack(present))
        features = {name: np.asarray(modality.var_names, dtype=str) for name, modality in data.mod.items()}
        return views.replaced(feature_names=features)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of samples, and number of features over all views."""
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
        """``views[rows]`` selects samples; ``views["name"]`` is the matrix of a view."""
        if isinstance(key, str):
            return self.blocks[self.index(key)]
        if isinstance(key, tuple) and len(key) == 2 and key[1] is Ellipsis:
            key = key[0]  # scikit-learn selects rows with X[rows, ...]
        if isinstance(key, tuple):
            raise IndexError("Views are indexed by rows, or by the name of a view.")
        rows = key if isinstance(key, slice) else np.atleast_1d(np.arange(len(self))[key])  # slices: no copy
        if not isinstance(rows, slice) and rows.ndim > 1:
            raise IndexError("Select rows by an integer, a slice, or a one-dimensional list or mask.")
        return self.replaced(
            blocks=[X[rows] for X in self.blocks],
            present=self.present[rows],
            ids=None if self.ids is None else self.ids[rows],
        )

    def __iter__(self) -> Iterator[Any]:
        raise InputTypeError("Iterate over views.items(), or over rows with views[i].")

    def items(self) -> Iterator[tuple[str, Block]]:
        """Pairs of view name and matrix."""
        return iter(zip(self.names, self.blocks, strict=True))

    def index(self, name: str) -> int:
        """Position of the view called `name`."""
        if name not in self.names:
            raise KeyError(f"No view is called {name!r}; there are {self.names}.")
        return self.names.index(name)

    def rows(self, view: int) -> np.ndarray:
        """Positions of the samples that have the view at this position."""
        return np.flatnonzero(self.present[:, view])

    def select(self, names: Sequence[str]) -> Views:
        """Select views by name; raise an error if a sample has none of them."""
        chosen = [self.index(name) for name in checked_names(list(names), len(names))]
        check_no_empty_samples(self.present[:, chosen])
        return self.replaced(
            names=[self.names[a] for a in chosen],
            blocks=[self.blocks[a] for a in chosen],
            present=self.present[:, chosen],
            feature_names={name: self.feature_names[name] for name in names},
        )

    def concatenate(self) -> Block:
        """Concatenate the features of all views: dense, or sparse if any view is sparse."""
        return concatenated(self.blocks)

    def encoded(self) -> Views:
        """The same samples with numbers instead of categorical columns.

        Numeric columns of views that also have categorical ones are standardised, ordered categories are
        standardised scores of their ranks, and other categories and text are weighted dummies, so that each
        column has a total variance of at most 1. `KernelMultiviewNMF` encodes such views itself, with the
        levels of its training samples; use this method for other estimators and functions, with `scale=None`
        where they scale. Views of numbers are unchanged.

        Returns
        -------
        Views

        Examples
        --------
        >>> import pandas as pd
        >>> views = Views({"clinical": pd.DataFrame({"age": [60.0, 70.0, 80.0], "sex": ["f", "m", "m"]})})
        >>> views.encoded().feature_names["clinical"].tolist()
        ['age', 'sex=f', 'sex=m']
        """
        parts = [_encoded(X, self.rows(a)) for a, X in enumerate(self.blocks)]
        features = {
            name: self.feature_names[name] if found is None else found
            for name, (_, found) in zip(self.names, parts, strict=True)
        }
        return self.replaced(blocks=[X for X, _ in parts], feature_names=features)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Concatenated features, so that single-view estimators accept Views."""
        X = self.concatenate()
        return np.asarray(X.toarray() if sp.issparse(X) else X, dtype=dtype)

    def __repr__(self) -> str:
        parts = []
        for a, (name, X) in enumerate(self.items()):
            absent = len(self) - int(self.present[:, a].sum())
            parts.append(f"{name}: {X.shape[1]} features" + (f", {absent} absent" if absent else ""))
        return f"Views({len(self)} samples; {', '.join(parts)})"

    def replaced(self, **changes: Any) -> Views:
        """A copy with other blocks, names, ids or presence, which the caller has checked."""
        other = object.__new__(Views)
        other.__dict__.update({**self.__dict__, **changes})
        return other

    def _rename(self, names: Sequence[str]) -> None:
        old, self.names = self.names, checked_names(list(names), self.n_views)
        self.blocks = [_renamed(X, name) for X, name in zip(self.blocks, self.names, strict=True)]
        features = [self.feature_names[name] for name in old]
        self.feature_names = {
            new: numbered_names(new, len(found)) if is_numbered(found, name) else found
            for new, name, found in zip(self.names, old, features, strict=True)
        }


def _renamed(X: Block, name: str) -> Block:
    """A block that knows the name of its view, for messages."""
    return replace(X, name=name) if isinstance(X, MixedBlock) else X


def _encoded(X: Block, rows: np.ndarray) -> tuple[Block, np.ndarray | None]:
    """A block of numbers, and the names of its features if it was mixed."""
    if not isinstance(X, MixedBlock):
        return X, None
    encoder = MixedEncoder.fit(X[rows])
    block = scatter_rows(encoder.transform(X[rows]), rows, len(X))
    return block, np.asarray(encoder.names, dtype=object)


def is_multiview(data: Any) -> bool:
    """Whether `data` contains several matrices, rather than being one."""
    if isinstance(data, (list, tuple)):
        return any(X is None or isinstance(X, (str, PathLike)) or _depth(X) == 2 for X in data[:2])
    return isinstance(data, Mapping) and not sp.issparse(data)  # dok arrays are mappings


def _depth(X: Any) -> int:
    """Number of dimensions, also of nested lists with rows of different lengths."""
    if is_frame(X) or getattr(getattr(X, "dtype", None), "names", None) is not None:
        return 2
    return 1 + _depth(X[0]) if isinstance(X, (list, tuple)) and X else np.ndim(X)


def _split(data: Any) -> tuple[list[Any], list[Any]]:
    """The matrices in `data` and their names."""
    if isinstance(data, (Mapping, list, tuple)) and not sp.issparse(data) and len(data) == 0:
        raise InputError("No views given: the data is empty.")
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
    return dict(zip(checked_names(names, len(parts)), parts, strict=True))


def _feature_names(X: Any, block: Block, name: str) -> np.ndarray:
    if isinstance(X, pd.DataFrame):
        return np.asarray([name_text(column) for column in X.columns], dtype=object)
    return numbered_names(name, block.shape[1])


@lru_cache(maxsize=16)
def numbered_names(name: str, count: int) -> np.ndarray:
    """Default names of features without names."""
    names = np.asarray([f"{name}_{j}" for j in range(count)], dtype=object)
    names.flags.writeable = False  # shared by all views of this name and size
    return names


def is_numbered(features: np.ndarray, name: str) -> bool:
    """Whether features have default names."""
    return np.array_equal(features, numbered_names(name, len(features)))


def _matched(tables: dict[str, Any]) -> tuple[pd.Index | None, dict[str, Any]]:
    """The common ids of tables, and the tables with rows in this order."""
    labels = {name: f"View {name!r}" for name in tables}
    ids, orders = match_rows({labels[name]: row_index(X) for name, X in tables.items()})
    return ids, {name: in_order(X, orders[labels[name]]) for name, X in tables.items()}


def _checked_ids(ids: Sequence[Any] | pd.Index, n: int, known: pd.Index | None) -> pd.Index:
    index: pd.Index = pd.Index(ids)
    if len(index) != n:
        raise InputError(f"{len(index)} ids given for {n} samples.")
    if not index.is_unique:
        raise InputError(f"{int(index.duplicated().sum())} ids are duplicates; ids must be unique.")
    if known is not None and not index.equals(known) and known.isin(index).all():
        raise InputError(
            "ids are those of the index in another order. Leave ids out: they are taken from the index."
        )
    return index
