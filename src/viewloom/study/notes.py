"""Notes on the data of a study: text in which counts stay numbers until the note is shown.

``str(note)`` has the exact counts and is for the owner of the data. ``note.shared(min_cell)`` is for reports
that are passed on: small counts of subjects are hidden there. No text is parsed for this.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pandas as pd

from viewloom.clinical import Hidden, Known, Shown, shown_counts
from viewloom.study.errors import Suggestion
from viewloom.study.wording import counted


@dataclass(frozen=True)
class Count:
    """A number and what it counts.

    Attributes
    ----------
    number : int
    one, many : str
        The noun in singular and plural; the plural is made with an s where it is not given.
    total : int or None
        The number that this one is part of, shown as "3 of 40 subjects".
    detail : str
        Text that follows the noun, and would give the number away, such as a percentage.
    public : bool
        Whether it counts columns, sites or other things that are not subjects, nor their rows or cells.
        Only such numbers are shared whatever their size.

    Examples
    --------
    >>> str(Count(1, "subject")), Count(3, "subject").shared(11), Count(3, "column", public=True).shared(11)
    ('1 subject', 'fewer than 11 subjects', '3 columns')
    >>> str(Count(37, "subject", total=40)), Count(37, "subject", total=40).shared(11)
    ('37 of 40 subjects', 'more than 29 of 40 subjects')
    """

    number: int
    one: str
    many: str | None = None
    total: int | None = None
    detail: str = ""
    public: bool = False

    def __str__(self) -> str:
        if self.total is None:
            return counted(self.number, self.one, self.many) + self.detail
        return f"{self.number}{self._rest}{self.detail}"

    def shared(self, min_cell: int) -> str:
        """The count without a small number of subjects."""
        shown = shown_count(self.number, self.total, min_cell)
        if self.public or not isinstance(shown, Hidden):
            return str(self)
        return f"{shown.words}{self._rest}"

    @property
    def _rest(self) -> str:
        """What follows the number, in the plural."""
        of_all = "" if self.total is None else f" of {self.total}"
        return f"{of_all} {self.many or self.one + 's'}"


@dataclass(frozen=True)
class Breakdown:
    """How many subjects are of each kind; readers may know the total.

    Attributes
    ----------
    counts : tuple of (int, str)
        Number and text of each kind.

    Examples
    --------
    >>> visits = Breakdown(((50, "at 'bl'"), (20, "at 'm06'"), (3, "at 'm12'")))
    >>> str(visits), visits.shared(11)
    ("50 at 'bl', 20 at 'm06', 3 at 'm12'", "50 at 'bl', at least 11 at 'm06', fewer than 11 at 'm12'")
    """

    counts: tuple[tuple[int, str], ...]

    def __str__(self) -> str:
        return ", ".join(f"{number} {kind}" for number, kind in self.counts)

    def shared(self, min_cell: int) -> str:
        """The counts without small ones, and without those from which small ones could be derived."""
        shown = shown_counts(pd.DataFrame([[number for number, _ in self.counts]]), min_cell).iloc[0]
        texts = [number.words if isinstance(number, Hidden) else str(number) for number in shown]
        return ", ".join(f"{text} {kind}" for text, (_, kind) in zip(texts, self.counts, strict=True))


@dataclass(frozen=True)
class Rough:
    """A median of subjects, which is not shared if they are few.

    Attributes
    ----------
    value : int
    unit : str
        The noun in singular.
    of : int
        Number of subjects.

    Examples
    --------
    >>> str(Rough(12, "day", 40)), Rough(12, "day", 3).shared(11)
    ('12 days', '(not shown)')
    """

    value: int
    unit: str
    of: int

    def __str__(self) -> str:
        return counted(self.value, self.unit)

    def shared(self, min_cell: int) -> str:
        """The median, if there are enough subjects."""
        return str(self) if self.of >= min_cell else "(not shown)"


@dataclass(frozen=True)
class Note:
    """Something that was left out, changed or found, and is worth knowing.

    Attributes
    ----------
    parts : tuple of str, Count, Breakdown or Rough
        Shown one after the other. Every number of subjects, rows or cells is a part of its own, never text.
    suggestions : tuple of Suggestion
        Settings that may be better.

    Examples
    --------
    >>> note = Note((Count(3, "subject"), " and ", Count(2, "column", public=True), " left out"))
    >>> str(note.about("view 'pet'"))
    "view 'pet': 3 subjects and 2 columns left out"
    >>> note.shared(11)
    'fewer than 11 subjects and 2 columns left out'
    """

    parts: tuple[str | Count | Breakdown | Rough, ...]
    suggestions: tuple[Suggestion, ...] = ()

    def __str__(self) -> str:
        return "".join(map(str, self.parts))

    def shared(self, min_cell: int) -> str:
        """The note without counts of subjects below `min_cell`."""
        return "".join(part if isinstance(part, str) else part.shared(min_cell) for part in self.parts)

    def about(self, source: str) -> Note:
        """The note with the name of the table or view that it is about."""
        return replace(self, parts=(f"{source}: ", *self.parts))


def count_note(
    number: int, one: str, many: str | None = None, text: str = "left out", *, public: bool = False
) -> list[Note]:
    """A note that begins with a count; none where the count is zero.

    >>> [str(note) for note in count_note(3, "blank row")], count_note(0, "blank row")
    (['3 blank rows left out'], [])
    """
    return [Note((Count(number, one, many, public=public), f" {text}"))] if number else []


def shown_count(count: int, total: int | None, min_cell: int) -> Shown:
    """A count of subjects, hidden where it, or the rest of a known total, is small; none and all are shown.

    >>> [str(shown_count(n, 60, 11)) for n in (40, 3, 57, 60)]
    ['40', '<11', '>49', '60']
    """
    if 0 < count < min_cell:
        return Hidden("<", min_cell)
    rest = 0 if total is None else total - count
    return Hidden(">", count + rest - min_cell) if 0 < rest < min_cell else Known(int(count))
