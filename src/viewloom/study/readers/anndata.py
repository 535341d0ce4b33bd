"""Matrices of the scverse: AnnData (``.h5ad``) and MuData (``.h5mu``)."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from viewloom.study.errors import StudyError
from viewloom.study.readers import frames
from viewloom.study.readers.frames import Patterns
from viewloom.study.wording import nearest
from viewloom.views import listed

CORRECT = "correct the matrix, or leave the columns out with exclude"
ONE_ROW = "keep one observation per subject"
HEADS = (b"\x89HDF", b"MuData")  # MuData writes its name before the HDF5


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
        Without mudata (``pip install viewloom[omics]``).
    """
    path = Path(path)
    data = _opened(_library("mudata").read_h5mu, path)
    if modality not in data.mod:
        names = [str(name) for name in data.mod]
        hint = nearest(modality, names) or f"; there are {listed(names) or 'none'}."
        raise StudyError(f"{path.name}: no modality {modality!r}{hint}")
    return _as_frame(data.mod[modality], layer, columns, exclude, path)


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
    data = _opened(_library("anndata").read_h5ad, Path(path))
    return _as_frame(data, layer, columns, exclude, Path(path))


def _library(name: str) -> ModuleType:
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(f"This file needs {name}: pip install viewloom[omics]") from error


def _opened(read: Any, path: Path) -> Any:
    """The file's content; HDF5 that holds something else fails in too many ways to list."""
    if not path.is_file():
        raise StudyError(f"{path.name}: there is no such file.")
    with path.open("rb") as file:
        if not file.read(8).startswith(HEADS):
            raise StudyError(f"{path.name}: is not an HDF5 file; check path and format.")
    try:
        _check_groups(path)
        return read(path)
    except StudyError:
        raise
    except MemoryError:
        raise StudyError(f"{path.name}: does not fit into memory.") from None
    except Exception as error:
        kind = type(error).__name__
        raise StudyError(f"{path.name}: cannot be read as {path.suffix} ({kind}); write it again.") from None


def _check_groups(path: Path) -> None:
    """Refuse groups that are there twice, perhaps within themselves, where reading would not end."""
    h5py: Any = import_module("h5py")
    with h5py.File(path, "r") as file:
        waiting, seen = [file], set()
        while waiting:
            group = waiting.pop()
            address = h5py.h5o.get_info(group.id).addr
            if address in seen:
                raise StudyError(f"{path.name}: holds a group that is there twice; write it again.")
            seen.add(address)
            waiting += [node for node in map(group.get, group) if isinstance(node, h5py.Group)]


def _as_frame(data: Any, layer: str | None, columns: Patterns, exclude: Patterns, path: Path) -> pd.DataFrame:
    """Observations in rows, variables in columns."""
    if layer is not None and layer not in data.layers:
        names = [str(name) for name in data.layers]
        hint = nearest(layer, names) or f"; there are {listed(names) or 'none'}."
        raise StudyError(f"{path.name}: no layer {layer!r}{hint}")
    matrix = data.X if layer is None else data.layers[layer]
    if matrix is None:
        raise StudyError(f"{path.name}: there is no X; choose a layer.")
    wide = pd.DataFrame(_dense(matrix, path), columns=data.var_names.astype(str))
    notes: list[str] = []
    ids = frames.checked_ids(pd.Series(data.obs_names.astype(str), name="obs_names"), path, hint=ONE_ROW)
    chosen = frames.select(wide, columns, exclude, path, notes)
    return frames.finish(frames.numbers(chosen, (), path, notes, way_out=CORRECT), ids, path, notes)


def _dense(matrix: Any, path: Path) -> np.ndarray:
    """The numbers of a matrix; positions of a sparse one are checked, since nobody else does."""
    if getattr(matrix, "dtype", np.dtype(object)).kind not in "biuf":
        raise StudyError(f"{path.name}: the matrix holds something else than numbers; choose a layer.")
    if not sp.issparse(matrix):
        return np.asarray(matrix, dtype=np.float64)
    try:
        matrix.check_format(full_check=True)
    except ValueError:
        raise StudyError(f"{path.name}: the sparse matrix is damaged; write it again.") from None
    return np.asarray(matrix.toarray(), dtype=np.float64)
