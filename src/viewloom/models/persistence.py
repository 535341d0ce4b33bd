"""Model files, which contain no code: arrays as safetensors, everything else as JSON.

The tensors of the safetensors file are named ``0``, ``1``, ...; its metadata has one entry, ``viewloom``,
a JSON object with the entries

``format``    "viewloom-model";
``version``   version of this layout, an integer (see `VERSION`);
``holds``     "training rows" or "landmarks": which data about subjects the file contains;
``digest``    SHA-256 of structure and tensors, to detect damage;
``model``     JSON. Objects are ``{"tag": tag, "version": number, "state": {name: value, ...}}``, arrays are
              ``{"tensor": name}``, other values are stored directly;
``extra``     JSON that the caller stored with the model.

Only objects of registered tags (`viewloom.runtime.stored`) are restored, from their state. Names of classes
are not part of the format. Files of format 1 are converted by `viewloom.models.persistence_v1`.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import ClusterMixin

from viewloom.models.persistence_v1 import upgraded
from viewloom.runtime.errors import InputError, InputTypeError, MissingFileError
from viewloom.runtime.files import atomic_write, special
from viewloom.runtime.stored import REGISTRY, tag_of

Array = np.ndarray
FORMAT, VERSION = "viewloom-model", 2
KEY, ENTRIES = "viewloom", ("format", "version", "holds", "model", "extra", "digest")
LARGEST_STRUCTURE = 64 * 2**20  # bytes of JSON
DEEPEST = 40
MODELS = ("viewloom.models.kernel_nmf", "viewloom.models.baselines")  # importing them registers all tags
DTYPES = {"BOOL", "F16", "F32", "F64", *(f"{kind}{bits}" for kind in "IU" for bits in (8, 16, 32, 64))}
STORES = ("auto", "landmarks")
PathLike = str | os.PathLike[str]


class DamagedFile(InputError):
    """A file that is not a model, or was damaged or changed."""


class UnknownTag(DamagedFile):
    """A model with an object of a custom class that is not imported."""


def save(
    model: Any,
    path: PathLike,
    *,
    store: str = "auto",
    extra: Mapping[str, Any] | None = None,
    arrays: Mapping[str, Array] | None = None,
    mode: int = 0o666,
) -> None:
    """Write a fitted model (see `KernelMultiviewNMF.save`), with `extra` (JSON) and `arrays`.

    `mode` are the permissions of the file, reduced by the umask.
    """
    if store not in STORES:
        raise InputError(f"store must be one of {list(STORES)}, got {store!r}.")
    holds = "landmarks" if model.needs_no_training_rows else "training rows"
    if store == "landmarks" and holds != store:
        raise InputError(
            "This model needs its training rows to place new samples, so it cannot be stored without them; "
            "fit with factored=True, or a number of landmarks below a third of the samples. Views of counts, "
            "which cannot be averaged, need scale='standard'."
        )
    tensors = Tensors()
    structure = _text(_encoded(model.without_samples() if store == "landmarks" else model, tensors))
    beside = _text({"extra": dict(extra or {}), "arrays": _encoded(dict(arrays or {}), tensors)})
    metadata = {
        "format": FORMAT,
        "version": str(VERSION),
        "holds": holds,
        "model": structure,
        "extra": beside,
    }
    metadata["digest"] = _digest(metadata, tensors.arrays)
    with atomic_write(path, mode) as part:
        _write(part, tensors.arrays, {KEY: _text(metadata)})


def _write(path: Path, arrays: Mapping[str, Array], metadata: dict[str, str]) -> None:
    """Write tensors; raise errors of the system as OSError instead of SafetensorError."""
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    try:
        save_file(dict(arrays), path, metadata)
    except SafetensorError as error:
        number = re.search(
            r"os error (\d+)|Os \{ code: (\d+)", str(error)
        )  # newer versions, and those up to 0.5
        if number is None:
            raise
        code = int(number[1] or number[2])
        raise OSError(code, os.strerror(code)) from error


def load(path: PathLike) -> Any:
    """Load a saved model.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    KernelMultiviewNMF
        The fitted model.

    Raises
    ------
    DamagedFile
        A ValueError: the file is not a model, was truncated or changed, or was written by a later version.

    Examples
    --------
    >>> import tempfile
    >>> import viewloom as vl
    >>> views, y = vl.simulate.blobs_views(60, random_state=0)
    >>> model = vl.KernelMultiviewNMF(3, random_state=0).fit(views)
    >>> path = tempfile.mkdtemp() + "/model.safetensors"
    >>> model.save(path)
    >>> bool((vl.load(path).predict(views) == model.predict(views)).all())
    True
    """
    return load_with(path)[0]


def load_with(path: PathLike) -> tuple[Any, dict[str, Any], dict[str, Array]]:
    """Load a saved model with the `extra` and `arrays` stored with it."""
    metadata, arrays = _read(path)
    for home in MODELS:
        import_module(home)
    if metadata["digest"] != _digest(metadata, arrays):
        raise DamagedFile(f"{_name(path)} was changed or damaged after it was written.")
    model, beside = (_parsed(metadata[key], path) for key in ("model", "extra"))
    model = _decoded(_as_format_2(model) if metadata["version"] == "1" else model, arrays)
    if not (isinstance(model, ClusterMixin) and _is_beside(beside)):
        raise DamagedFile(f"{_name(path)} does not contain a model.")
    return model, beside["extra"], _decoded(beside["arrays"], arrays)


def change_extra(path: PathLike, changes: Mapping[str, Any], mode: int = 0o666) -> None:
    """Change some of the `extra` of a model file; the model and its arrays stay exactly as they are."""
    metadata, arrays = _read(path)
    if metadata["digest"] != _digest(metadata, arrays):
        raise DamagedFile(f"{_name(path)} was changed or damaged after it was written.")
    beside = _parsed(metadata["extra"], path)
    if not _is_beside(beside):
        raise DamagedFile(f"{_name(path)} does not contain a model.")
    metadata["extra"] = _text({**beside, "extra": {**beside["extra"], **changes}})
    metadata["digest"] = _digest(metadata, arrays)
    with atomic_write(path, mode) as part:
        _write(part, arrays, {KEY: _text(metadata)})


def _is_beside(value: Any) -> bool:
    """Whether a value has the form of the data that `save` stores with a model."""
    return (
        isinstance(value, dict)
        and set(value) == {"extra", "arrays"}
        and isinstance(value["extra"], dict)
        and isinstance(value["arrays"], dict)
        and set(value["arrays"]) == {"dict"}
    )


def _read(path: PathLike) -> tuple[dict[str, str], dict[str, Array]]:
    """Metadata and tensors of a model file."""
    from safetensors import SafetensorError, safe_open

    if kind := special(path):
        raise DamagedFile(f"{_name(path)} is {kind}, not a model file.")
    if not Path(path).is_file():
        raise MissingFileError(f"The file {_name(path)!r} does not exist.")
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = _checked_metadata(file.metadata() or {}, path)
            return metadata, {name: _tensor(file, name, path) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, KeyError, TypeError, OverflowError) as error:
        raise DamagedFile(f"{_name(path)} is not a model file, or was truncated.") from error


def _tensor(file: Any, name: str, path: PathLike) -> Array:
    """Read a tensor of a supported type."""
    if file.get_slice(name).get_dtype() not in DTYPES:
        raise DamagedFile(f"{_name(path)} contains numbers of a type that models do not have.")
    return file.get_tensor(name)


def _checked_metadata(found: Mapping[str, str], path: PathLike) -> dict[str, str]:
    metadata = _parsed(found.get(KEY, "{}"), path)
    complete = isinstance(metadata, dict) and all(isinstance(metadata.get(key), str) for key in ENTRIES)
    if not complete or metadata["format"] != FORMAT:
        raise DamagedFile(f"{_name(path)} is not a viewloom model.")
    _check_version(metadata["version"], path)
    return metadata


def _check_version(version: str, path: PathLike) -> None:
    if not re.fullmatch("[1-9][0-9]{0,5}", version):
        raise DamagedFile(f"{_name(path)} does not state the version of its format.")
    if int(version) > VERSION:
        raise DamagedFile(
            f"{_name(path)} was written by a later version of viewloom (format {version}; this version reads "
            f"up to {VERSION}); pip install --upgrade viewloom."
        )


def _as_format_2(structure: Any) -> Any:
    """Convert a structure of format 1 to the current format."""
    try:
        return upgraded(structure)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DamagedFile("The model contains an invalid entry.") from error


class Tensors:
    """Arrays under numbered names, each stored once."""

    def __init__(self) -> None:
        self.arrays: dict[str, Array] = {}
        self._names: dict[int, str] = {}
        self._alive: list[Any] = []  # keeps arrays alive, so that ids are unique

    def add(self, array: Array) -> dict[str, str]:
        """A reference to the array; "transposed" if it is in Fortran order, since rounding depends on it."""
        columns = array.flags.f_contiguous and not array.flags.c_contiguous
        if id(array) not in self._names:
            name = self._names[id(array)] = str(len(self.arrays))
            self.arrays[name] = np.ascontiguousarray(array.T if columns else array)
            self._alive.append(array)
        return {"transposed" if columns else "tensor": self._names[id(array)]}


def _encoded(value: Any, tensors: Tensors) -> Any:
    """Encode a value as JSON with references to tensors."""
    if (tag := tag_of(value)) is not None:
        state = {name: _encoded(item, tensors) for name, item in value.state().items()}
        return {"tag": tag, "version": value.STATE_VERSION, "state": state}
    if sp.issparse(value):
        csr = sp.csr_array(value)
        parts = {"data": csr.data, "indices": csr.indices, "indptr": csr.indptr}
        return {"sparse": list(csr.shape), **{k: tensors.add(v) for k, v in parts.items()}}
    if isinstance(value, np.ndarray) and value.dtype == object:
        return {"names": [str(item) for item in value]}
    encode = next((f for kind, f in ENCODERS.items() if isinstance(value, kind)), None)
    if encode is None:
        raise InputTypeError(_refusal(value))
    return encode(value, tensors)


def _refusal(value: Any) -> str:
    """Why a value cannot be saved, and what to do."""
    name = type(value).__name__
    if callable(value) and not hasattr(value, "fit"):
        return (
            f"A model with a kernel given as a function ({getattr(value, '__name__', name)}) cannot be "
            "saved: functions are code. Write it as a kernel class with a tag (see CONTRIBUTING.md), or "
            "pass the matrices themselves with kernel='precomputed'."
        )
    return (
        f"A model that holds a {name} cannot be saved: only numbers, and objects of classes that declare a "
        "tag, can be. See CONTRIBUTING.md for how to declare one."
    )


ENCODERS: dict[Any, Any] = {
    np.ndarray: lambda value, tensors: tensors.add(value),
    (type(None), bool, str): lambda value, tensors: value,
    np.bool_: lambda value, tensors: bool(value),
    (int, np.integer): lambda value, tensors: int(value),
    (float, np.floating): lambda value, tensors: {"number": float(value).hex()},
    slice: lambda value, tensors: {"all": True},  # rows of a complete view
    (list, tuple): lambda value, tensors: [_encoded(item, tensors) for item in value],
    dict: lambda value, tensors: {"dict": [[str(k), _encoded(v, tensors)] for k, v in value.items()]},
}


def _decoded(value: Any, arrays: Mapping[str, Array], depth: int = 0) -> Any:
    """Decode a value from JSON with references to tensors."""
    if depth > DEEPEST:
        raise DamagedFile("The model is nested too deeply.")
    if isinstance(value, list):
        return [_decoded(item, arrays, depth + 1) for item in value]
    if not isinstance(value, dict):
        return value
    kind = next((kind for kind in DECODERS if kind in value), None)
    if kind is None:
        raise DamagedFile("The model contains an entry of an unknown kind.")
    try:
        return DECODERS[kind](value, arrays, depth + 1)
    except UnknownTag:
        raise
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        raise DamagedFile("The model contains an invalid entry.") from error


def _object(value: dict[str, Any], arrays: Mapping[str, Array], depth: int) -> Any:
    cls = REGISTRY.get(value["tag"])
    if set(value) != {"tag", "version", "state"}:
        raise DamagedFile("The model contains an object of an unknown kind.")
    if cls is None:
        raise UnknownTag(
            f"The model holds an object of kind {str(value['tag'])[:40]!r}, which is not known here: import "
            "the module that defines it, then load again."
        )
    state = {name: _decoded(item, arrays, depth) for name, item in value["state"].items()}
    if value["version"] != cls.STATE_VERSION:
        state = cls.upgraded(state, value["version"])
    return cls.from_state(state)


def _sparse(value: dict[str, Any], arrays: Mapping[str, Array], depth: int) -> sp.csr_array:
    parts = tuple(_decoded(value[name], arrays, depth) for name in ("data", "indices", "indptr"))
    matrix = sp.csr_array(parts, shape=tuple(value["sparse"]))
    matrix.check_format(full_check=True)  # invalid indices would read other memory
    return matrix


DECODERS: dict[str, Any] = {
    "tag": _object,
    "sparse": _sparse,
    "tensor": lambda value, arrays, depth: arrays[value["tensor"]],
    "transposed": lambda value, arrays, depth: arrays[value["transposed"]].T,
    "names": lambda value, arrays, depth: np.array([str(name) for name in value["names"]], dtype=object),
    "number": lambda value, arrays, depth: float.fromhex(value["number"]),
    "all": lambda value, arrays, depth: slice(None),
    "dict": lambda value, arrays, depth: {str(k): _decoded(v, arrays, depth) for k, v in value["dict"]},
}


def _text(structure: Any) -> str:
    return json.dumps(structure, ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def _parsed(text: str, path: PathLike) -> Any:
    if len(text) > LARGEST_STRUCTURE:
        raise DamagedFile(f"{_name(path)} has a structure that is too large for a model.")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError also for numbers with too many digits
        raise DamagedFile(f"{_name(path)} is damaged: its structure cannot be read.") from error


def _digest(metadata: Mapping[str, str], arrays: Mapping[str, Array]) -> str:
    """SHA-256 of everything except the digest."""
    digest = hashlib.sha256()
    for key in ENTRIES[:-1]:
        digest.update(metadata[key].encode(errors="surrogatepass") + b"\0")  # JSON may contain surrogates
    for name in sorted(arrays):
        digest.update(f"{name} {arrays[name].dtype.str} {arrays[name].shape}\0".encode())
        digest.update(np.ascontiguousarray(arrays[name]).tobytes())
    return digest.hexdigest()


def _name(path: PathLike) -> str:
    return Path(path).name
