"""Matrices of the scverse: AnnData (``.h5ad``) and MuData (``.h5mu``)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from viewloom.data.naming import listed
from viewloom.runtime.errors import InputError, MissingPackageError
from viewloom.study.errors import StudyError, check_kind
from viewloom.study.notes import Note
from viewloom.study.readers import frames
from viewloom.study.readers.frames import Patterns
from viewloom.study.wording import counted, nearest

CORRECT = "correct the matrix, or leave the columns out with exclude"
ONE_ROW = "keep one observation per subject"
HEADS = (b"\x89HDF", b"MuData")  # MuData files start with its name


def read_h5mu(
    path: str | Path,
    *,
    modality: str,
    layer: str | None = None,
    columns: Patterns = None,
    exclude: Patterns = None,
) -> pd.DataFrame:
    """Read one modality of a MuData file.

    Parameters
    ----------
    path : str or Path
    modality : str
    layer, columns, exclude
        As in `read_h5ad`.

    Returns
    -------
    DataFrame indexed by ``id``

    Raises
    ------
    ImportError
        Without anndata (``pip install viewloom[omics]``).
    """
    path = Path(path)
    with _opened(path) as file:
        return _as_frame(_chosen(file.get("mod"), modality, "modality", path), layer, columns, exclude, path)


def read_h5ad(
    path: str | Path, *, layer: str | None = None, columns: Patterns = None, exclude: Patterns = None
) -> pd.DataFrame:
    """Read an AnnData file.

    Parameters
    ----------
    path : str or Path
    layer : str, optional
        Layer to read instead of ``X``.
    columns, exclude : list of str, optional
        Shell patterns of the variables to keep and to leave out.

    Returns
    -------
    DataFrame indexed by ``id``, the names of the observations

    Raises
    ------
    ImportError
        Without anndata (``pip install viewloom[omics]``).
    """
    path = Path(path)
    with _opened(path) as file:
        return _as_frame(file, layer, columns, exclude, path)


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Open the file; other HDF5 files raise errors of many kinds."""
    try:
        h5py: Any = import_module("h5py")
        import_module("anndata.io")
    except ImportError as error:
        raise MissingPackageError("This file needs anndata: pip install viewloom[omics]") from error
    check_kind(path)
    if not path.is_file():
        raise StudyError(f"{path.name}: no such file.")
    with path.open("rb") as opened:
        if not opened.read(8).startswith(HEADS):
            raise StudyError(f"{path.name}: is not an HDF5 file; check path and format.")
    try:
        with h5py.File(path, "r") as file:
            yield file
    except StudyError:
        raise
    except MemoryError:
        raise StudyError(f"{path.name}: does not fit into memory.") from None
    except Exception as error:
        kind = type(error).__name__
        raise StudyError(f"{path.name}: cannot be read as {path.suffix} ({kind}); write it again.") from None


def _as_frame(
    group: Any, layer: str | None, columns: Patterns, exclude: Patterns, path: Path
) -> pd.DataFrame:
    """Read observations as rows and variables as columns, and nothing else of the file."""
    if layer is not None:
        matrix = _chosen(group.get("layers"), layer, "layer", path)
    elif "X" in group:
        matrix = group["X"]
    else:
        raise StudyError(f"{path.name}: has no X; set layer.")
    values, names = _dense(matrix, path), {axis: axis_names(group[axis], path) for axis in ("obs", "var")}
    if values.shape != (len(names["obs"]), len(names["var"])):
        raise StudyError(
            f"{path.name}: the shape of the matrix does not match its row and column names; write it again."
        )
    nameless = int(np.count_nonzero(names["var"].isna()))
    if nameless:
        raise StudyError(f"{path.name}: {counted(nameless, 'column')} without a name; write it again.")
    wide = pd.DataFrame(values, columns=names["var"])
    notes: list[Note] = []
    ids = frames.checked_ids(pd.Series(names["obs"], name="obs_names"), path, hint=ONE_ROW)
    chosen = frames.select(wide, columns, exclude, path, notes)
    return frames.finish(frames.numbers(chosen, (), path, notes, way_out=CORRECT), ids, path, notes)


def _chosen(nodes: Any, name: str, what: str, path: Path) -> Any:
    """The modality or layer of that name."""
    names = list(nodes) if hasattr(nodes, "keys") else []
    if name not in names:
        hint = nearest(name, names) or f"; there are {listed(names) or 'none'}."
        raise StudyError(f"{path.name}: no {what} {name!r}{hint}")
    return nodes[name]


def axis_names(table: Any, path: Path) -> pd.Index:
    """Names of observations or variables.

    The table is a group whose attribute ``_index`` names their column or, before anndata 0.7, an array of
    records with the names in the first field.
    """
    if not hasattr(table, "keys"):
        if not table.dtype.names:
            raise StudyError(f"{path.name}: a table of rows or columns has no names; write it again.")
        return _as_text(table[table.dtype.names[0]])
    name = table.attrs.get("_index", "_index" if "_index" in table else "index")
    if name not in table:
        raise StudyError(f"{path.name}: a table of rows or columns has no names; write it again.")
    return _as_text(_named_levels(table[name]))


def _named_levels(node: Any) -> Any:
    """A column; codes with separate levels, as before anndata 0.8, are replaced by the levels."""
    levels = getattr(node, "attrs", {}).get("categories")
    if levels is None:
        return _element(node)
    codes = np.asarray(node[()])
    known = np.asarray(_element(node.file[levels]), dtype=object)
    if not ((codes >= -1) & (codes < len(known))).all():
        raise InputError("codes beyond their levels")
    return np.array([*known, None], dtype=object)[codes]  # -1 is the last: missing


def _as_text(values: Any) -> pd.Index:
    """Names as text; bytes are UTF-8, and missing names stay missing."""
    found = pd.Series(np.asarray(values, dtype=object))
    return pd.Index(found.map(_decoded), dtype=object)


def _decoded(name: Any) -> Any:
    if isinstance(name, bytes):
        return name.decode("utf-8")
    return None if pd.isna(name) else str(name)


def _dense(node: Any, path: Path) -> np.ndarray:
    """A matrix as a dense array; the indices of a sparse one are checked first."""
    matrix = _element(node)
    if getattr(matrix, "dtype", np.dtype(object)).kind not in "biuf":
        raise StudyError(f"{path.name}: the matrix is not numeric; set layer.")
    if matrix.ndim != 2:
        raise StudyError(f"{path.name}: the matrix has {matrix.ndim} dimensions, not 2; write it again.")
    if not sp.issparse(matrix):
        return np.asarray(matrix, dtype=np.float64)
    try:
        matrix.check_format(full_check=True)
    except ValueError:
        raise StudyError(f"{path.name}: the sparse matrix is damaged; write it again.") from None
    return np.asarray(matrix.toarray(), dtype=np.float64)


def _element(node: Any) -> Any:
    """An array, or a group of arrays; nested groups, which may be cyclic, are refused."""
    from anndata.io import read_elem

    if hasattr(node, "keys") and any(hasattr(part, "keys") for part in node.values()):
        raise InputError("nested groups")
    return read_elem(node)
