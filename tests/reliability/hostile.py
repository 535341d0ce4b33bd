"""Views as they should not be: every type, layout, scale and gap that an array may have."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
import scipy.sparse as sp
from hypothesis import settings
from hypothesis import strategies as st

NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
LONGEST = 120  # seconds that one case may take before it counts as a hang

DTYPES = ["float64"] * 4 + ["float32", "float32", "float16", "longdouble", "int64", "int8", "uint16", "bool"]
LAYOUTS = ["C", "C", "F", "strided", "reversed", "read-only", "frame", "list", "csr", "csr", "csc", "coo"]
SHAPES = [
    "normal",
    "normal",
    "clusters",
    "clusters",
    "duplicates",
    "rank one",
    "constant columns",
    "zeros",
    "counts",
]
EXPONENTS = [0] * 20 + [-30, -8, 8, 15, 30, 50, -300, -160, -61, 61, 150, 300]


def cases(count, nightly=None):
    """So many cases in CI, and fifty times as many at night unless told otherwise."""
    return settings(max_examples=(nightly or 50 * count) if NIGHTLY else count)


@dataclass(frozen=True)
class Recipe:
    """How to make one view; small numbers only, so that failures shrink."""

    d: int
    shape: str
    dtype: str
    layout: str
    exponent: int
    absent: float  # share of samples that lack it
    poison: str | None  # a cell that no view may have
    seed: int

    def values(self, n):
        """The numbers (n x d), float64."""
        rng = np.random.default_rng(self.seed)
        X = PATTERNS[self.shape](rng, n, self.d)
        if np.dtype(self.dtype).kind == "f":
            X *= 10.0**self.exponent
        if self.poison is not None and X.size:
            X[rng.integers(n), rng.integers(self.d)] = float(self.poison)
        if not self.sparse:
            X[rng.random(n) < self.absent] = np.nan
        return X

    @property
    def sparse(self):
        return self.layout in ("csr", "csc", "coo")

    def make(self, n, positive=False):
        """The view as a user might hold it."""
        return self.contain(np.abs(self.values(n)) if positive else self.values(n))

    def contain(self, X):
        """A matrix of this type in this container."""
        with np.errstate(all="ignore"):
            return CONTAINERS[self.layout](_typed(X, self.dtype))


def _typed(X, dtype):
    kind = np.dtype(dtype)
    if kind.kind == "f":
        return X.astype(kind)
    whole = np.nan_to_num(X, nan=0.0, posinf=100.0, neginf=0.0)
    return (np.abs(whole) > 0.5) if kind.kind == "b" else np.clip(np.rint(3 * whole), 0, 100).astype(kind)


def _clusters(rng, n, d):
    return 3.0 * rng.standard_normal((3, d))[np.arange(n) % 3] + rng.standard_normal((n, d))


def _constant(rng, n, d):
    X = rng.standard_normal((n, d))
    X[:, rng.random(d) < 0.7] = 7.25
    return X


PATTERNS = {
    "normal": lambda rng, n, d: rng.standard_normal((n, d)),
    "clusters": _clusters,
    "duplicates": lambda rng, n, d: rng.standard_normal((2, d))[rng.integers(0, 2, n)],
    "rank one": lambda rng, n, d: np.outer(rng.standard_normal(n), rng.standard_normal(d)),
    "constant columns": _constant,
    "zeros": lambda rng, n, d: rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.2),
    "counts": lambda rng, n, d: rng.poisson(0.4, (n, 40 * d)).astype(float),
}


def _strided(X):
    wide = np.zeros((2 * X.shape[0], 3 * X.shape[1]), dtype=X.dtype)
    wide[::2, ::3] = X
    return wide[::2, ::3]


def _frozen(X):
    X = X.copy()
    X.flags.writeable = False
    return X


def _csr(X):
    """With explicit zeros: every cell is stored."""
    n, d = X.shape
    X = X.astype(np.float64) if X.dtype in (np.float16, np.longdouble) else X
    return sp.csr_array((X.ravel(), np.tile(np.arange(d), n), np.arange(0, n * d + 1, d)), shape=(n, d))


CONTAINERS = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "strided": _strided,
    "reversed": lambda X: X[::-1, ::-1],
    "read-only": _frozen,
    "frame": lambda X: pd.DataFrame(X.astype(np.float64) if X.dtype == np.float16 else X).add_prefix("c"),
    "list": lambda X: X.tolist(),
    "csr": _csr,
    "csc": lambda X: _csr(X).tocsc(),
    "coo": lambda X: _csr(X).tocoo(),
}

recipes = st.builds(
    Recipe,
    d=st.integers(1, 5),
    shape=st.sampled_from(SHAPES),
    dtype=st.sampled_from(DTYPES),
    layout=st.sampled_from(LAYOUTS),
    exponent=st.sampled_from(EXPONENTS),
    absent=st.sampled_from([0.0] * 6 + [0.3, 0.9]),
    poison=st.sampled_from([None] * 30 + ["nan", "inf", "-inf"]),
    seed=st.integers(0, 2**16),
)


@dataclass(frozen=True)
class Case:
    """Samples seen through several views, and how many clusters are asked for."""

    n: int
    k: int
    recipes: list = field(default_factory=list)

    @property
    def names(self):
        return [f"v{a}" for a in range(len(self.recipes))]

    def views(self, positive=False):
        return {
            name: recipe.make(self.n, positive) for name, recipe in zip(self.names, self.recipes, strict=True)
        }

    def within(self, exponent, dtypes):
        """Whether all views have this scale and one of these types."""
        return all(recipe.exponent == exponent and recipe.dtype in dtypes for recipe in self.recipes)


sizes = st.sampled_from([1, 2, 3, 3, 4, 5, 6, 6, 8, 8, 10, 10, 12, 14])


@st.composite
def problems(draw, most_views=3):
    """A case in which k may be anything from 1 to n, and now and then more than that."""
    n = draw(sizes)
    k = draw(st.sampled_from(2 * [k for k in (2, 3, 1, n) if k <= n] + [n + 1]))
    first, *others = draw(st.lists(recipes, min_size=1, max_size=most_views))
    if draw(st.integers(0, 4)):  # mostly everybody has a view, so that others may be rare
        first = replace(first, absent=0.0)
    return Case(n, k, [first, *others])


@contextmanager
def no_hang(seconds=LONGEST):
    """Stop what takes too long."""

    def stop(*_):
        raise AssertionError(f"still running after {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
