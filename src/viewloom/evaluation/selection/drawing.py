"""How many samples are compared with twins, or searched."""

from __future__ import annotations

from viewloom.data.drawing import rows_at_most
from viewloom.data.views import Views
from viewloom.runtime.errors import InputError

MOST_SAMPLES = 4000  # that are compared with twins, or searched
LEAST_SAMPLES = 100  # that may be drawn of more


def at_most(views: Views, most: int | None, seed: int) -> Views:
    """All samples, or so many that are drawn at random."""
    rows = rows_at_most(len(views), checked(most), seed)
    chosen: Views = views if len(rows) == len(views) else views[rows]
    return chosen


def checked(most: int | None) -> int | None:
    """The parameter max_samples, which must not be too small."""
    if most is not None and most < LEAST_SAMPLES:
        raise InputError(f"max_samples must be {LEAST_SAMPLES} or more, or None for all; got {most}.")
    return most
