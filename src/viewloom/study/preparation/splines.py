"""Natural cubic splines of a numeric covariate, in the basis of Harrell, Regression Modeling Strategies.

With knots t_1 < ... < t_K the columns are x and, for j = 1, ..., K - 2::

    ((x - t_j)_+^3 - (x - t_{K-1})_+^3 (t_K - t_j) / (t_K - t_{K-1})
                   + (x - t_K)_+^3 (t_{K-1} - t_j) / (t_K - t_{K-1})) / (t_K - t_1)^2

With a constant they span all natural cubic splines with these knots, which are linear beyond the outer knots.
"""

from __future__ import annotations

import numpy as np

from viewloom.study.errors import StudyError

Array = np.ndarray
QUANTILES = (0.05, 0.35, 0.65, 0.95)


def knots_of(values: Array, name: str) -> Array:
    """Knots at quantiles of the known values, which must differ."""
    known = values[np.isfinite(values)]
    knots = np.quantile(known, QUANTILES) if len(known) else np.zeros(len(QUANTILES))
    if not (np.diff(knots) > 0).all():
        raise StudyError(
            f"Covariate {name!r} has too few distinct values for a spline ({len(np.unique(known))} among "
            f"{len(known)} subjects); leave it out of splines."
        )
    return knots


def spline_basis(x: Array, knots: Array) -> Array:
    """Columns (n x K - 1) of the natural cubic spline; NaN where x is.

    Examples
    --------
    >>> spline_basis(np.array([0.0, 1.0, 5.0]), np.array([0.0, 1.0, 2.0, 3.0])).round(3).tolist()
    [[0.0, 0.0, 0.0], [1.0, 0.111, 0.0], [5.0, 6.667, 2.0]]
    """
    first, (before, last) = knots[0], knots[-2:]
    cubes = np.maximum(x[:, None] - knots, 0.0) ** 3
    inner = knots[:-2]
    bent = cubes[:, :-2]
    bent = bent - cubes[:, -2:-1] * (last - inner) / (last - before)
    bent = bent + cubes[:, -1:] * (before - inner) / (last - before)
    return np.column_stack([x, bent / (last - first) ** 2])
