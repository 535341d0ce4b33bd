"""Numbers about people that are shown or hidden; they are formatted as text last."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

ABOUT = "about "


@dataclass(frozen=True)
class Known:
    """A number that may be shown, with its precision and an optional share or spread.

    Attributes
    ----------
    value : float
        A count, a mean or a median.
    decimals : int
        Negative ones round to tens, hundreds and so on.
    share : float or None
        Share of the cluster, for a count.
    spread : float or None
        Standard deviation, for a mean; NaN if there is only one value.

    Examples
    --------
    >>> str(Known(12, share=0.4)), str(Known(24.66, 1, spread=2.7)), str(Known(3.0, 1, spread=float("nan")))
    ('12 (40%)', '24.7 (2.7)', '3.0')
    >>> str(Known(1512.3, -1, spread=148.0))
    '1510 (150)'
    """

    value: float
    decimals: int = 0
    share: float | None = None
    spread: float | None = None

    def __str__(self) -> str:
        if self.share is not None:
            return f"{self.number} ({self.share:.0%})"
        if self.spread is None or np.isnan(self.spread):
            return self.number
        return f"{self.number} ({self._text(self.spread)})"

    @property
    def number(self) -> str:
        """The number without share or spread."""
        return self._text(self.value)

    @property
    def order(self) -> float:
        """Key for sorting: the number as it is shown."""
        return round(float(self.value), self.decimals) + 0.0

    def _text(self, value: float) -> str:
        return f"{round(value, self.decimals) + 0.0:.{max(self.decimals, 0)}f}"


@dataclass(frozen=True)
class Hidden:
    """A number that must not be shown, with the bound that is shown instead.

    Attributes
    ----------
    sign : str
        ``<``, ``≥``, ``>`` or `ABOUT`, shown before the bound; empty if no bound may be shown.
    bound : int

    Examples
    --------
    >>> str(Hidden("<", 11)), Hidden("<", 11).order, Hidden("≥", 11).order
    ('<11', 0.0, 11.0)
    """

    sign: str
    bound: int
    share: None = None
    spread: None = None

    def __str__(self) -> str:
        return f"{self.sign}{self.bound}" if self.sign else "hidden"

    @property
    def words(self) -> str:
        """The number in a sentence.

        >>> Hidden("<", 11).words, Hidden("≥", 11).words, Hidden("", 0).words
        ('fewer than 11', 'at least 11', 'a hidden number of')
        """
        return f"{WORDS[self.sign]}{self.bound}" if self.sign else "a hidden number of"

    @property
    def order(self) -> float:
        """Key for sorting."""
        return 0.0 if self.sign == "<" else float(self.bound)


Shown = Known | Hidden
WORDS = {"<": "fewer than ", "≥": "at least ", ">": "more than ", ABOUT: ABOUT}
