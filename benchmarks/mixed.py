"""Views with numeric, ordinal, binary and nominal columns: encodings of the same data, and Gower distances.

Simulated cohorts have two mixed views with three planted clusters. Sets of patients have columns of few
values: two values are nominal, three to seven are ordinal. Every method gets the true number of clusters,
never the labels.

- mixed: `KernelMultiviewNMF` on data frames with categories, which it encodes itself;
- FAMD: the same, with the dummies of factor analysis of mixed data, whose variance grows with their number;
- one-hot: the same model on standardised numbers, codes of ordered levels and standardised dummies;
- Gower: spectral clustering of the mean of Gower's similarities over all columns of all views.

Scores: adjusted Rand index, mean over seeds (simulated), and over seeds of the model (sets).

    python benchmarks/mixed.py [--seeds 10] [--first 100] [--data ../shared/data/cohorts]

--wide
    Instead: seconds and peak memory of a fit by landmarks and of importance, with codes such as ICD as a
    sparse view of 0 and 1, about twenty of 10 000 for each subject, and a view of 12 mixed columns, one of
    which has 2000 levels; 25 000, 50 000 and 100 000 subjects.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.cluster import SpectralClustering
from sklearn.metrics import adjusted_rand_score

import viewloom as vl
from viewloom.data.mixed_encoding import MixedEncoder, NominalColumn

Array = np.ndarray
Frames = dict[str, pd.DataFrame]
SETS = ("dermatology", "arrhythmia", "pbc312")
MOST_LEVELS = 7
WIDE = (25_000, 50_000, 100_000)
SHAPES = {  # numbers of numeric, ordinal, binary and nominal columns, and the levels of nominal ones
    "balanced": (3, 3, 3, 3, (3, 4, 5)),
    "mostly nominal": (1, 1, 1, 9, (3, 4, 6, 8)),
    "many levels of noise": (3, 2, 2, 4, (4, 12, 20, 30)),
    "mostly numeric": (9, 1, 1, 1, (4,)),
}


def simulated(shape: str, seed: int, n: int = 200) -> tuple[Frames, Array]:
    """Two mixed views of three clusters; every other column is noise."""
    rng = np.random.default_rng(seed)
    y = rng.choice(3, size=n, p=[0.5, 0.3, 0.2])
    return {name: _frame(shape, y, rng) for name in ("clinical", "history")}, y


def _frame(shape: str, y: Array, rng: np.random.Generator) -> pd.DataFrame:
    numeric, ordinal, binary, nominal, sizes = SHAPES[shape]
    columns: dict[str, object] = {}
    for j in range(numeric):
        columns[f"number {j}"] = np.exp(0.3 * _latent(y, rng, j)) if j % 3 == 2 else _latent(y, rng, j)
    for j in range(ordinal):
        codes = np.digitize(_latent(y, rng, j), [0.0, 0.7, 1.8])  # most are in the first level
        columns[f"grade {j}"] = pd.Categorical.from_codes(codes, ["0", "1", "2", "3"], ordered=True)
    for j in range(binary):
        columns[f"sign {j}"] = pd.Categorical(np.where(_latent(y, rng, j) > 0.8, "yes", "no"))
    for j in range(nominal):
        size = sizes[j % len(sizes)]
        shares = rng.dirichlet(np.ones(size), size=1 if j % 2 or size > 10 else 3)
        codes = [rng.choice(size, p=shares[c % len(shares)]) for c in y]
        columns[f"group {j}"] = pd.Categorical([f"level {code}" for code in codes])
    return pd.DataFrame(columns)


def _latent(y: Array, rng: np.random.Generator, j: int) -> Array:
    """A normal variable, whose mean depends on the cluster in every other column."""
    means = rng.normal(0.0, 1.2, size=3) * (j % 2 == 0)
    return means[y] + rng.standard_normal(len(y))


def stored(path: Path) -> tuple[Frames, Array]:
    """A set of patients, with categories where columns have few values."""
    with np.load(path) as data:
        names, y = [str(name) for name in data["names"]], data["y"]
        return {name: _typed(data[f"view{a}"][y >= 0]) for a, name in enumerate(names)}, y[y >= 0]


def _typed(X: Array) -> pd.DataFrame:
    columns = {f"column {j}": pd.Series(X[:, j]) for j in range(X.shape[1]) if np.ptp(X[:, j]) > 0}
    few = {name: column.nunique() for name, column in columns.items() if column.nunique() <= MOST_LEVELS}
    made = {name: pd.Series(pd.Categorical(columns[name], ordered=count > 2)) for name, count in few.items()}
    return pd.DataFrame({**columns, **made})


def mixed(frames: Frames, k: int, seed: int) -> Array:
    """The model on data frames."""
    return vl.KernelMultiviewNMF(k, random_state=seed).fit(frames).labels_


class Unscaled(NominalColumn):
    """A nominal column of factor analysis of mixed data."""

    @property
    def weights(self) -> Array:
        """``1 / sqrt(share)``."""
        return 1.0 / np.sqrt(self.shares)


def famd(frames: Frames, k: int, seed: int) -> Array:
    """The model on the columns of factor analysis of mixed data."""
    views = vl.Views(frames)
    encoders = {name: MixedEncoder.fit(X) if hasattr(X, "levels") else None for name, X in views.items()}
    blocks = {}
    for name, encoder in encoders.items():
        if encoder is None:
            blocks[name] = _standardised(views[name])
            continue
        for j, column in enumerate(encoder.categorical):
            if isinstance(column, NominalColumn):
                encoder.categorical[j] = Unscaled(column.levels, column.dummies, column.shares)
        blocks[name] = encoder.transform(views[name])
    return vl.KernelMultiviewNMF(k, scale=None, random_state=seed).fit(blocks).labels_


def one_hot(frames: Frames, k: int, seed: int) -> Array:
    """The model on codes of ordered levels and dummies, all standardised."""
    blocks = {name: _standardised(_dummies(frame)) for name, frame in frames.items()}
    return vl.KernelMultiviewNMF(k, scale=None, random_state=seed).fit(blocks).labels_


def gower(frames: Frames, k: int, seed: int) -> Array:
    """Spectral clustering of Gower's similarity."""
    parts = [_similarity(frame[name]) for frame in frames.values() for name in frame]
    S = np.mean(parts, axis=0)
    return SpectralClustering(k, affinity="precomputed", random_state=seed).fit_predict(S)


def _similarity(column: pd.Series) -> Array:
    """1 - the distance relative to the range, or whether levels are equal (n x n)."""
    if isinstance(column.dtype, pd.CategoricalDtype) and not column.cat.ordered:
        codes = column.cat.codes.to_numpy()
        return (codes[:, None] == codes[None]).astype(float)
    values = _numbers(column)
    return 1.0 - np.abs(values[:, None] - values[None]) / np.ptp(values)


def _numbers(column: pd.Series) -> Array:
    return np.asarray(column.cat.codes if hasattr(column, "cat") else column, dtype=float)


def _dummies(frame: pd.DataFrame) -> Array:
    nominal = [name for name in frame if hasattr(frame[name], "cat") and not frame[name].cat.ordered]
    numbers = [_numbers(frame[name]) for name in frame if name not in nominal]
    return np.column_stack([*numbers, pd.get_dummies(frame[nominal]).to_numpy(float)] if nominal else numbers)


def _standardised(X: Array) -> Array:
    spread = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0)


def wide(n: int, d: int = 10_000, seed: int = 0) -> tuple[dict[str, object], Array]:
    """Codes of n subjects, 180 of them by cluster, and a mixed view of which one column has 2000 levels."""
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n)
    common = rng.integers(200, d, size=(n, 14))
    own = 60 * y[:, None] + rng.integers(60, size=(n, 6))
    at = np.sort(np.hstack([common, own]), axis=1)
    codes = sp.csr_array((np.ones(at.size), (np.repeat(np.arange(n), 20), at.ravel())), shape=(n, d))
    codes.data[:] = 1.0
    frame = _frame("balanced", y, rng)
    frame["place"] = pd.Categorical.from_codes(rng.integers(2000, size=n), [f"p{i}" for i in range(2000)])
    return {"codes": codes, "clinical": frame}, y


def measured(n: int) -> str:
    """Time, memory and agreement of one wide fit, in a process of its own."""
    views, y = wide(n)
    before, began = _resident(), time.perf_counter()
    model = vl.KernelMultiviewNMF(3, factored=500, random_state=0).fit(views)
    seconds, ranked = time.perf_counter() - began, time.perf_counter()
    model.feature_importance("clinical")
    ranked = time.perf_counter() - ranked
    ari = adjusted_rand_score(y, model.labels_)
    peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**20
    return f"{n:>8} {seconds:8.1f} s {ranked:8.1f} s {peak:8.2f} GiB {ari:8.2f}"


def _resident() -> int:
    """Peak memory so far, in KiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


METHODS: dict[str, Callable[[Frames, int, int], Array]] = {
    "mixed": mixed,
    "FAMD": famd,
    "one-hot": one_hot,
    "Gower": gower,
}


def scores(frames: Frames, y: Array, seed: int) -> list[float]:
    """The adjusted Rand index of every method."""
    k = len(np.unique(y))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [float(adjusted_rand_score(y, method(frames, k, seed))) for method in METHODS.values()]


def table(seeds: range, folder: Path) -> pd.DataFrame:
    """Mean scores, one row per kind of data."""
    rows = {
        shape: np.mean([scores(*simulated(shape, seed), seed) for seed in seeds], axis=0) for shape in SHAPES
    }
    for name in SETS:
        path = folder / f"{name}.npz"
        if path.exists():
            rows[name] = np.mean([scores(*stored(path), seed) for seed in range(2)], axis=0)
    return pd.DataFrame.from_dict(rows, orient="index", columns=list(METHODS))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=10, help="simulated cohorts of each shape")
    parser.add_argument("--first", type=int, default=100, help="first seed")
    parser.add_argument("--data", type=Path, default=Path("../shared/data/cohorts"))
    parser.add_argument("--wide", type=int, nargs="*", help="numbers of subjects with 10 000 codes")
    options = parser.parse_args()
    if options.wide is not None:
        print(f"{'subjects':>8} {'fit':>10} {'importance':>10} {'memory':>12} {'ARI':>8}")
        for n in options.wide or WIDE:
            code = f"import mixed; print(mixed.measured({n}))"
            folder = Path(__file__).parent
            subprocess.run([sys.executable, "-c", code], cwd=folder, check=True)
        return
    found = table(range(options.first, options.first + options.seeds), options.data)
    print(found.round(2).to_string())


if __name__ == "__main__":
    main()
