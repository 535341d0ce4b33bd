"""Cells of the tables of a report, as plain data: text and sort key."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from viewloom.clinical import Hidden, Shown
from viewloom.clinical.release import P, PClass, rounded, rounded_p
from viewloom.clinical.shown import ABOUT

A_SMALL = "a small number"
HIDDEN = str(Hidden("", 0))
Cell = dict[str, Any]
Table = dict[str, Any]


def table_of(
    name: str, caption: str, about: str, columns: Iterable[tuple[str, int]], rows: Sequence[list[Cell]]
) -> Table:
    """A table; columns come with whether they are numbers. A legend explains hidden numbers."""
    heads = [{"label": label, "number": bool(is_number)} for label, is_number in columns]
    rows = list(rows)
    return {
        "id": name,
        "caption": caption,
        "about": about,
        "columns": heads,
        "rows": [[{"text": cell["text"], "value": cell["value"]} for cell in row] for row in rows],
        "legend": _legend([cell["text"] for row in rows for cell in row if cell.get("hidden")]),
    }


def _legend(texts: Sequence[str]) -> str | None:
    """What the hidden numbers of a table mean; None if it has none.

    >>> _legend(["<11", "≥11"])
    '<11: a small number. ≥11: not shown, since a small number could be derived from it.'
    """
    small = sorted({text for text in texts if text.startswith("<")})
    rough = any(text.startswith(ABOUT) for text in texts)
    others = sorted(set(texts) - set(small) - {text for text in texts if text.startswith(ABOUT)})
    parts = [f"{text}: a small number." for text in small]
    why = f"not shown, since {A_SMALL} could be derived from it"
    parts += [f"{' or '.join(sorted(set(others) - {HIDDEN}))}: {why}."] * bool(set(others) - {HIDDEN})
    parts += [f"{HIDDEN}: {why}, or since there are few subjects or values."] * (HIDDEN in others)
    parts += [f"About: rounded, since {A_SMALL} could be derived from it."] * rough
    return " ".join(parts) or None


def text(value: str) -> Cell:
    """A cell of text."""
    return {"text": value, "value": None}


def number(value: float, digits: int = 2) -> Cell:
    """A cell of a number; a dash where it is not finite.

    The sort key has no more digits than are shown.

    >>> number(-0.126), number(float("nan"))
    ({'text': '−0.13', 'value': -0.13}, {'text': '–', 'value': None})
    """
    if not np.isfinite(value):
        return {"text": "\N{EN DASH}", "value": None}
    near = rounded(value, digits)
    return {"text": f"{near:.{digits}f}".replace("-", "\N{MINUS SIGN}"), "value": near}


def interval(low: float, high: float, digits: int = 2) -> Cell:
    """A cell of an interval.

    >>> interval(-0.251, 1.0)["text"], interval(float("nan"), 1.0)["text"]
    ('−0.25 to 1.00', '–')
    """
    if not (np.isfinite(low) and np.isfinite(high)):
        return text("\N{EN DASH}")
    return text(f"{low:.{digits}f} to {high:.{digits}f}".replace("-", "\N{MINUS SIGN}"))


def p_value(p: P) -> Cell:
    """A cell of a p-value or q-value, with two digits or only its class.

    >>> from viewloom.clinical.release import coarse_p
    >>> p_value(0.0421), p_value(1e-9)["text"], p_value(0.3387)["text"], p_value(coarse_p(0.02))["text"]
    ({'text': '0.042', 'value': 0.042}, '<0.001', '0.34', '<0.05')
    """
    if isinstance(p, PClass):
        return {"text": p.text, "value": p.bound}
    near = rounded_p(p)
    cell = number(near, 2 if near >= 0.1 else 3)
    return {"text": "<0.001", "value": 0.0} if near < 0.001 else cell


def shown(value: Shown) -> Cell:
    """A cell of a count or mean that may be hidden; hidden ones sort by their bound.

    >>> from viewloom.clinical import Hidden, Known
    >>> shown(Known(12, share=0.4)), shown(Hidden("<", 11))
    ({'text': '12 (40%)', 'value': 12.0}, {'text': '<11', 'value': 0.0, 'hidden': True})
    """
    cell = {"text": str(value).replace("-", "\N{MINUS SIGN}"), "value": float(value.order)}
    return {**cell, "hidden": True} if isinstance(value, Hidden) else cell
