"""Changes of HDF5 files that keep them alive: other groups, arrays, types and attributes.

Other bytes are left alone: on some, the HDF5 library itself does not come back (see SECURITY.md).
"""

from __future__ import annotations

import io
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

from fuzzing.models import Mutate

Nodes = list[str]
LARGEST = 200_000  # bytes; what is taken out leaves a gap
ATTRIBUTES: list[Any] = [
    "", "x", "array", "csr_matrix", "csc_matrix", "dataframe", "anndata", "MuData", "categorical", "dict",
    "null", "string-array", "string", "nullable-integer", "awkward-array", "0.1.0", "9.9.9", -1, 0, 2, 2**62,
    1.5, True, b"\xff\xfe",
    np.array([], dtype=np.int64), np.array([2, 2]), np.array([-1, 2]), np.array([2**40, 2**40]),
]  # fmt: skip
VALUES: list[Any] = [
    0, -1, 2**62, np.nan, np.inf, "x", "\0", b"\xff", np.zeros(0), np.zeros((0, 2)), np.zeros((2, 0)),
    np.ones((2, 2)), np.ones((2, 2, 2)), np.ones((3, 2)), np.array([0, 2, 2**31]), np.array([-1, 0, 5]),
    np.array([0, 1, 2], "i1"), np.array([True, False]), np.array([1 + 2j, 3]), np.array([b"1", b"1"]),
    np.array([b"g", b"\xff"]), np.array([np.inf, np.nan]), np.array([2**63], "u8"),
    np.array([1.5, 2.5], "f2"), np.array([(1, 2.0)], "i4,f8"),
]  # fmt: skip


def mutated_hdf5(content: bytes, random: Random, mutate: Mutate) -> bytes:
    """An HDF5 file with other nodes, after the byte that chooses options."""
    import h5py

    before, marks, rest = content.partition(b"\x89HDF")
    file = io.BytesIO(marks + rest)
    try:
        with h5py.File(file, "r+") as root:
            for _ in range(random.choice([1, 1, 2, 3])):
                random.choice(CHANGES)(root, names(root), random)
    except (OSError, ValueError, LookupError, TypeError, RuntimeError, AttributeError):
        return content
    changed = before + file.getvalue()
    return changed if len(changed) <= LARGEST else content


def names(root: Any) -> Nodes:
    """Paths of all nodes, each node once."""
    found: Nodes = []
    root.visit(found.append)
    return sorted(found) or ["/"]


def _without(root: Any, nodes: Nodes, random: Random) -> None:
    del root[random.choice(nodes)]


def _other_value(root: Any, nodes: Nodes, random: Random) -> None:
    """Another array in the place of a node, with the attributes that it had."""
    name = random.choice(nodes)
    kept = dict(root[name].attrs)
    del root[name]
    root[name] = random.choice(VALUES)
    root[name].attrs.update(kept)


def _other_entries(root: Any, nodes: Nodes, random: Random) -> None:
    """Other numbers in an array that stays as large as it is."""
    array = root[random.choice([name for name in nodes if hasattr(root[name], "dtype")])]
    array[...] = np.resize(np.asarray(random.choice(VALUES)), array.shape)


def _attribute(root: Any, nodes: Nodes, random: Random) -> None:
    attributes = root[random.choice([*nodes, "/"])].attrs
    name = random.choice([*attributes, "encoding-type", "encoding-version", "shape", "_index"])
    if random.random() < 0.3:
        del attributes[name]
    else:
        attributes[name] = random.choice(ATTRIBUTES)


def _moved(root: Any, nodes: Nodes, random: Random) -> None:
    root.move(random.choice(nodes), random.choice(nodes) + random.choice(["", "x", "/x", "/_index"]))


def _linked(root: Any, nodes: Nodes, random: Random) -> None:
    """A node that is there twice, perhaps within itself, or a link that leads nowhere."""
    import h5py

    place = random.choice(nodes) + random.choice(["x", "/x", "/rna", "/log"])
    root[place] = random.choice([root[random.choice(nodes)], h5py.SoftLink("/nowhere"), h5py.SoftLink("/")])


def _copied(root: Any, nodes: Nodes, random: Random) -> None:
    source, target = random.choice(nodes), random.choice(nodes)
    if source != target and not target.startswith(source):
        del root[target]
        root.copy(source, target)


CHANGES: list[Callable[[Any, Nodes, Random], None]] = [
    _without, _other_value, _other_value, _other_entries, _attribute, _attribute, _moved, _linked, _copied,
]  # fmt: skip
