"""The header of a ``.pgen``: types and lengths of the records of its variants (`pgen_spec` of plink-ng)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

Array = np.ndarray
MAGIC = b"\x6c\x1b"
MODES = (0x02, 0x03, 0x04, 0x10, 0x11, 0x20, 0x21)  # storage modes, the third byte
VARIABLE, SEPARATE = (0x10, 0x11), (0x20, 0x21)  # records of any width; with the index in a file apart
HARD = (0x02,)  # without dosages
VARIANTS_OF_BLOCK = 65536  # of the header
MAIN, DOSAGE = 0x07, 0x60  # bits of a record type
LISTED = (4, 6)  # main tracks that list the subjects who are not homozygous for REF, or for ALT


@dataclass(frozen=True, eq=False)
class Records:
    """The records of variants.

    Attributes
    ----------
    types : (d,) array of uint8
    lengths : (d,) array of int64
        Bytes of each record.
    starts : (ceil(d / 65536),) array of int64
        Where the first record of each block of variants begins.
    """

    types: Array
    lengths: Array
    starts: Array

    def fit(self, size: int) -> bool:
        """Whether blocks follow one another, and the last ends within a file of so many bytes."""
        ends = self.starts + np.add.reduceat(self.lengths, np.arange(0, len(self.lengths), VARIANTS_OF_BLOCK))
        return bool((ends[:-1] == self.starts[1:]).all() and ends[-1] <= size)

    def unlike_at_most(self) -> Array:
        """Per variant, a bound of the subjects who do not have two copies of the most frequent allele.

        A list of L subjects takes at least a byte for L, ``floor(L / 4)`` bytes for their calls, and a byte
        for each of them, so that ``L <= (4 (length - 1) + 3) / 5``. Without a list there is no bound.
        """
        listed = np.isin(self.types & MAIN, LISTED)
        return np.where(listed, (4 * self.lengths - 1) // 5, np.iinfo(np.int64).max)


def records(path: Path) -> Records | None:
    """The records of a file; None where all have one width, or the header does not describe them.

    The header has 12 bytes, then 8 bytes for each block of 65 536 variants, then for each block: record types
    of 4 or 8 bits, record lengths, numbers of alleles and flags.
    """
    with path.open("rb") as file:
        head = file.read(12)
        variants, control = int.from_bytes(head[3:7], "little"), head[11]
        if head[2] not in VARIABLE or control & 8 or not variants:
            return None
        blocks = -(-variants // VARIANTS_OF_BLOCK)
        starts = np.frombuffer(file.read(8 * blocks), dtype="<i8")
        sizes = np.diff([*range(0, variants, VARIANTS_OF_BLOCK), variants]).tolist()
        parts = [_block(file, size, control) for size in sizes]
    types, lengths = (np.concatenate(found) for found in zip(*parts, strict=True))
    return Records(types, lengths, starts) if len(starts) == blocks and len(lengths) == variants else None


def has_dosages(path: Path, found: Records | None) -> bool:
    """Whether some variant may have dosages; `found` are the records of the file."""
    if found is not None:
        return bool((found.types & DOSAGE).any())
    with path.open("rb") as file:
        return file.read(3)[2] not in HARD


def _block(file: IO[bytes], size: int, control: int) -> tuple[Array, Array]:
    """Types and lengths of a block of variants; fewer where the file ends."""
    if control & 4:
        types = np.frombuffer(file.read(size), dtype=np.uint8)
    else:
        pairs = np.frombuffer(file.read(-(-size // 2)), dtype=np.uint8)
        types = np.stack([pairs & 15, pairs >> 4], axis=1).reshape(-1)[:size]
    width = 1 + (control & 3)
    cells = np.frombuffer(file.read(width * size), dtype=np.uint8)
    lengths = np.zeros((len(cells) // width, 8), dtype=np.uint8)
    lengths[:, :width] = cells[: len(lengths) * width].reshape(-1, width)
    alleles, flags = (control >> 4 & 3) * size, -(-size // 8) if control >> 6 == 3 else 0
    file.seek(alleles + flags, 1)
    return types, lengths.view("<i8")[:, 0]
