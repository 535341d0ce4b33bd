"""Cells of the tables of a report, as plain data: text and sort key."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from viewloom.clinical import Shown

Cell = dict[str, Any]
Table = dict[str, Any]


def table_of(
    name: str, caption: str, about: str, columns: Iterable[tuple[str, int]], rows: Sequence[list[Cell]]
) -> Table:
    """A table; columns come with whether they are numbers."""
    heads = [{"label": label, "number": bool(is_number)} for label, is_number in columns]
    return {"id": name, "caption": caption, "about": about, "columns": heads, "rows": list(rows)}


def text(value: str) -> Cell:
    """A cell of text."""
    return {"text": value, "value": None}


def number(value: float, digits: int = 2) -> Cell:
    """A cell of a number; a dash where it is not finite.

    >>> number(-0.126), number(float("nan"))
    ({'text': '−0.13', 'value': -0.126}, {'text': '–', 'value': None})
    """
    if not np.isfinite(value):
        return {"text": "\N{EN DASH}", "value": None}
    formatted = f"{value:.{digits}f}".replace("-", "\N{MINUS SIGN}")
    return {"text": formatted, "value": float(f"{value:.6g}")}


def p_value(p: float) -> Cell:
    """A cell of a p-value or q-value.

    >>> p_value(0.0421)["text"], p_value(1e-9)["text"]
    ('0.042', '<0.001')
    """
    return {**number(p, 3), "text": "<0.001"} if p < 0.001 else number(p, 3)


def shown(value: Shown) -> Cell:
    """A cell of a count or mean that may be hidden; hidden ones sort by their bound.

    >>> from viewloom.clinical import Hidden, Known
    >>> shown(Known(12, share=0.4)), shown(Hidden("<", 11))
    ({'text': '12 (40%)', 'value': 12.0}, {'text': '<11', 'value': 0.0})
    """
    return {"text": str(value).replace("-", "\N{MINUS SIGN}"), "value": float(f"{value.order:.6g}")}
