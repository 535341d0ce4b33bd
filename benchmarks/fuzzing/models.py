"""Changes of model files that keep them alive: other structures and tensors, and the digest that fits."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

Mutate = Callable[[bytes], bytes]  # libFuzzer's own changes of bytes

VALUES: list[Any] = [
    None, True, -1, 0, 3, 2**70, 1e308, "", "x", "0", "\0", [], {}, [[]], {"is": "Weft"}, {"tag": "Popen"},
    {"is": []}, {"tag": []}, {"tag": "shared_graph", "version": 1, "state": {}}, {"tensor": "0"},
    {"tag": "geometry.gram", "version": 1, "state": {"X": {"tensor": "0"}, "name": "x"}},
    {"tensor": "99"}, {"tensor": []}, {"transposed": "1"}, {"names": 3}, {"names": [[]]}, {"dict": [[1]]},
    {"dict": {}}, {"all": 0},
    {"number": "nan"}, {"number": "0x1p9999"}, {"number": 1}, {"sparse": [-1, 2]}, {"sparse": [2**62,
    2**62]}, {"sparse": "ab"},
    {"sparse": [3, 3], "data": {"tensor": "0"}, "indices": {"tensor": "1"}, "indptr": {"tensor": "2"}},
]  # fmt: skip
DTYPES = ["F64", "F32", "F16", "BF16", "I64", "I32", "I8", "U8", "BOOL", "U64", "F8_E4M3", "C64", ""]
SHAPES: list[Any] = [[], [0], [1], [-1], [2, 0], [2**32, 2**32], [2**63], [1] * 40, "x", [1.5]]


def mutated_model(content: bytes, random: Random, mutate: Mutate) -> bytes:
    """A model file with another structure or other tensors, sealed again; one in five times other bytes."""
    if random.random() < 0.2:
        return mutate(content)
    try:
        header, data = opened(content)
        change = random.choice(MODEL_CHANGES)
        data = change(header, data, random, mutate)
        return sealed(header, data)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, struct.error, RecursionError):
        return mutate(content)


def opened(content: bytes) -> tuple[dict[str, Any], bytes]:
    """The header of a safetensors file and what follows it."""
    (length,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + length]), content[8 + length :]


def joined(header: dict[str, Any], data: bytes) -> bytes:
    """A safetensors file."""
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def sealed(header: dict[str, Any], data: bytes) -> bytes:
    """A safetensors file with the digest that its content has, where it can be computed."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    from viewloom.models import persistence

    try:
        ours = json.loads(header["__metadata__"][persistence.KEY])
        ours["digest"] = persistence._digest(ours, load(joined(header, data)))
        header["__metadata__"][persistence.KEY] = json.dumps(ours)
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError):
        pass
    return joined(header, data)


def _structure(header: dict[str, Any], data: bytes, random: Random, mutate: Mutate) -> bytes:
    """Values of the structure by others, or by some that stand elsewhere in it."""
    with_entry(header, random, lambda text: _other_values(text, random))
    return data


def _structure_text(header: dict[str, Any], data: bytes, random: Random, mutate: Mutate) -> bytes:
    """The structure as text that is hardly JSON any more."""
    with_entry(header, random, lambda text: mutate(text.encode()).decode("utf-8", "replace"))
    return data


def _tensor_entry(header: dict[str, Any], data: bytes, random: Random, mutate: Mutate) -> bytes:
    """Type, shape or place of a tensor."""
    entry = header[random.choice([name for name in header if name != "__metadata__"])]
    if random.random() < 0.5:
        entry["dtype"] = random.choice(DTYPES)
    else:
        size = entry["shape"]
        entry["shape"] = random.choice([size[::-1], [1, *size], *SHAPES])
    return data


def _swap_tensors(header: dict[str, Any], data: bytes, random: Random, mutate: Mutate) -> bytes:
    first, second = random.sample([name for name in header if name != "__metadata__"], 2)
    header[first], header[second] = header[second], header[first]
    return data


def _tensor_bytes(header: dict[str, Any], data: bytes, random: Random, mutate: Mutate) -> bytes:
    changed = bytearray(data)
    at = random.randrange(len(data))
    piece = random.choice(
        [b"\xff" * 8, b"\0" * 8, random.randbytes(8), struct.pack("<q", random.randrange(-2, 9))]
    )
    changed[at : at + len(piece)] = piece[: len(data) - at]
    return bytes(changed)


def with_entry(header: dict[str, Any], random: Random, change: Callable[[str], str]) -> None:
    """Change one of our entries of the metadata, mostly the model."""
    ours = json.loads(header["__metadata__"]["viewloom"])
    key = random.choice(["model", "model", "model", "extra", "extra", "holds", "version"])
    ours[key] = change(ours[key])
    header["__metadata__"]["viewloom"] = json.dumps(ours)


def _other_values(text: str, random: Random) -> str:
    root = [json.loads(text)]
    for _ in range(random.choice([1, 1, 1, 2, 5])):
        places = list(_places(root))
        holder, key = random.choice(places)
        there, where = random.choice(places)
        holder[key] = json.loads(json.dumps(random.choice([there[where], *VALUES])))
    return json.dumps(root[0])


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place of a structure at which a value stands."""
    for key, inner in list(value.items()) if isinstance(value, dict) else list(enumerate(value)):
        yield value, key
        if isinstance(inner, dict | list):
            yield from _places(inner)


MODEL_CHANGES = [
    _structure,
    _structure,
    _structure,
    _structure_text,
    _tensor_entry,
    _swap_tensors,
    _tensor_bytes,
]
