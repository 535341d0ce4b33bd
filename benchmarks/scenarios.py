"""What is done to the views before a method sees them: a harmful view added, or views taken away."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Array = np.ndarray
Generator = np.random.Generator


@dataclass(frozen=True)
class Scenario:
    """A change to the views, by kind: `clean`, the name of a harmful view, `signal and noise` and so on.

    With `signal and noise`, only one view stays, beside one of noise. With `missing`,
    `share` of the samples lack one random view each; with `complete`, the same samples are left out of the
    fit altogether; with `one view missing`, they all lack the same view.
    """

    kind: str = "clean"
    share: float = 0.0

    def __str__(self) -> str:
        return f"{self.kind} {self.share:g}" if self.share else self.kind


CLEAN = Scenario()
SIGNAL_AND_NOISE = "signal and noise"
ONE_VIEW_MISSING = "one view missing"
N_NOISE = 50  # features of the noise beside the signal


def _noise(n_features: int) -> Callable[[list[Array], int, Generator], Array]:
    return lambda views, n_clusters, rng: rng.standard_normal((len(views[0]), n_features))


def _loud_copy(views: list[Array], n_clusters: int, rng: Generator) -> Array:
    """One of the views, a million times as large."""
    return views[rng.integers(len(views))] * 1e6


def _rival(views: list[Array], n_clusters: int, rng: Generator) -> Array:
    """Clusters ten standard deviations apart that have nothing to do with those of the other views."""
    own = rng.integers(n_clusters, size=len(views[0]))
    centres = rng.standard_normal((n_clusters, 20)) * 10.0 / np.sqrt(2 * 20)
    return centres[own] + rng.standard_normal((len(own), 20))


HARMFUL: dict[str, Callable[[list[Array], int, Generator], Array]] = {
    "2 noise features": _noise(2),
    "200 noise features": _noise(200),
    "copy times 1e6": _loud_copy,
    "rival clusters": _rival,
}


def with_harm(views: list[Array], kind: str, n_clusters: int, seed: int) -> list[Array]:
    """The views and a harmful one, which comes last."""
    rng = np.random.default_rng([seed, list(HARMFUL).index(kind)])
    return [*views, HARMFUL[kind](views, n_clusters, rng)]


def signal_and_noise(views: list[Array], seed: int, signal: int | None = None) -> list[Array]:
    """The view that is known to carry signal, or else the one with most features; and one of noise."""
    kept = max(views, key=lambda X: X.shape[1]) if signal is None else views[signal]
    return [kept, np.random.default_rng([seed, 100]).standard_normal((len(kept), N_NOISE))]


def changed(
    views: list[Array], scenario: Scenario, n_clusters: int, seed: int, signal: int | None = None
) -> list[Array]:
    """Views with another one added or put in the place of the rest, where the scenario asks for that."""
    if scenario.kind in HARMFUL:
        return with_harm(views, scenario.kind, n_clusters, seed)
    return signal_and_noise(views, seed, signal) if scenario.kind == SIGNAL_AND_NOISE else views


def absent_view(scenario: Scenario, n_samples: int, n_views: int, seed: int) -> Array:
    """The view that each sample lacks under a scenario, -1 for none."""
    absent = lacking(n_samples, n_views, scenario.share, seed)
    if scenario.kind == ONE_VIEW_MISSING:
        absent[absent >= 0] = seed % n_views
    return absent


def lacking(n_samples: int, n_views: int, share: float, seed: int) -> Array:
    """The view that each sample lacks, -1 for none: `share` of the samples lack a random one."""
    rng = np.random.default_rng([seed, round(1000 * share)])
    absent = np.full(n_samples, -1)
    chosen = rng.choice(n_samples, size=round(share * n_samples), replace=False)
    absent[chosen] = rng.integers(n_views, size=len(chosen))
    return absent


def with_absent(views: list[Array], absent: Array) -> list[Array]:
    """Views with rows of NaN where a sample lacks them."""
    return [np.where((absent == a)[:, None], np.nan, X) for a, X in enumerate(views)]
