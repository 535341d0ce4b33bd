"""The block updates, one pure function each. Notation: see `viewloom.solver.objective`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrf as potrf
from scipy.linalg.lapack import dtrtrs as trtrs

from viewloom.runtime.errors import InputError

Array = np.ndarray
Project = Callable[..., Array]  # of columns, and optionally of points near the result
Rows = Any  # positions of a view's samples: an increasing index array, or slice(None) for all
RIDGES = (1e-15, 1e-10)  # relative to the mean diagonal of S: keep an empty cluster finite
CACHED = 2**18  # number of memberships that are updated at a time, which fit in the processor's cache
UNMOVED = 5e-7  # resolution of single precision: a sample whose first step is shorter takes no other step
SETTLED = 0.1  # the same for a single view, relative to the first step of the sample
SHORTEST = 1e-4  # least curvature relative to the slope: longer steps overshoot the simplex and lose digits
FLATTEST = 1e-3  # least curvature along the simplex relative to tr(A): keeps steps from depending on B
MOST_COMPARED = 16  # number of rows up to which a sorting network is used
LEAST_GUESSED, GUESSES = 5, 4  # number of rows from which zeros are guessed, and attempts
LEAST_COMPARED = 10  # number of columns per comparison from which it is faster than sorting


def project_simplex(V: Array, near: Array | None = None) -> Array:
    """Nearest point of the simplex ``{g >= 0, sum(g) = 1}``, for every column of one or several matrices.

    With ``u`` the sorted column, the threshold is ``tau = max_r (u_1 + ... + u_r - 1) / r``; the
    projection is ``max(v - tau, 0)``. `near` are points of the simplex that are expected to be near.
    """
    k = V.shape[-2]
    if near is not None and k >= LEAST_GUESSED:
        tau = _guessed_threshold(V, near > 0.0, GUESSES)
    elif k <= MOST_COMPARED and V.size > LEAST_COMPARED * k * len(sorting_network(k)):
        tau = _compared_threshold(V)
    else:
        tau = _sorted_threshold(V)
    tau = tau[..., None, :]
    G = np.maximum(V, tau)  # max(v - tau, 0) + tau, which is faster than a comparison with a number
    G -= tau
    return np.asarray(G)


def _guessed_threshold(V: Array, free: Array, guesses: int) -> Array:
    """The threshold of every column, from the entries that are expected to be above it.

    ``tau = (sum of the free entries - 1) / their number`` is the threshold if it separates the free entries
    from the others. If not, those above it are free in the next guess for the column, and a column for which
    no guess is right is sorted.
    """
    tau = column_dots(V, free)
    tau -= 1.0
    tau /= np.maximum(free.sum(axis=-2, dtype=np.int32), 1)
    above = tau[..., None, :] < V
    wrong = (above != free).any(axis=-2)
    if wrong.any():
        V, above = (np.ascontiguousarray(entries.swapaxes(-1, -2)[wrong].T) for entries in (V, above))
        tau[wrong] = _guessed_threshold(V, above, guesses - 1) if guesses > 1 else _sorted_threshold(V)
    return np.asarray(tau)


def _sorted_threshold(V: Array) -> Array:
    """The threshold of every column, with each column sorted by itself."""
    sums = np.sort(V, axis=-2)[..., ::-1, :]
    sums[..., 0, :] -= 1.0
    np.cumsum(sums, axis=-2, out=sums)
    sums *= (1.0 / np.arange(1, V.shape[-2] + 1))[:, None]
    return np.asarray(sums.max(axis=-2))


def _compared_threshold(V: Array) -> Array:
    """The same by a sorting network over entire rows, which is faster for few rows and many columns."""
    u = falling_rows(V)
    excess = u[0] - 1.0
    tau, share = excess.copy(), np.empty_like(excess)
    for r, row in enumerate(u[1:], 2):
        excess += row
        np.multiply(excess, 1.0 / r, out=share)
        np.maximum(tau, share, out=tau)
    return tau


def falling_rows(V: Array) -> list[Array]:
    """The rows of V, or of each of several matrices, with every column sorted in decreasing order."""
    u = list(V.swapaxes(0, -2).copy())
    spare = np.empty_like(u[0])
    for i, j in sorting_network(len(u)):
        np.minimum(u[i], u[j], out=spare)
        np.maximum(u[i], u[j], out=u[i])
        u[j], spare = spare, u[j]
    return u


@cache
def sorting_network(k: int) -> list[tuple[int, int]]:
    """Pairs to compare and exchange to sort k numbers (Batcher's odd-even merge sort)."""
    powers = [1 << b for b in range((k - 1).bit_length())]
    return [
        (i, i + d)
        for b, p in enumerate(powers)
        for d in reversed(powers[: b + 1])
        for i in range(d % p, k - d)
        if (i - d % p) // d % 2 == 0 and i // (2 * p) == (i + d) // (2 * p)
    ]


def project_nonnegative(V: Array, near: Array | None = None) -> Array:
    """Nearest non-negative point."""
    return np.maximum(V, 0.0)


PROJECTIONS: dict[str, Project] = {
    "simplex": project_simplex,
    "nonnegative": project_nonnegative,
}


def membership_gram(G: Array, rho: float) -> Array:
    """``S = (1 - rho) G G^T + rho diag(G 1)``; for hard memberships it equals ``G G^T`` for every ``rho``."""
    S = np.asarray(G @ G.T, dtype=np.float64)
    return (1.0 - rho) * S + rho * np.diag(G.sum(axis=1, dtype=np.float64)) if rho else S


def update_P(S: Array, M: Array, quad: Array) -> tuple[Array, Array]:
    """``P = G^T S^-1`` (Eq. 5), the minimiser of the reconstruction error at fixed ``G``.

    Returned in the form that the other blocks use: ``C = S^-1 M`` (with ``P^T K = lift(C)``) and
    ``A = P^T K P = S^-1 (G K G^T) S^-1``.
    """
    R = _inverse_root(S)
    A = R.T @ (R @ quad @ R.T) @ R
    return R.T @ (R @ M), (A + A.T) / 2


def combinations(G: Array, rho: float) -> Array:
    """``P^T = S^-1 G`` (k x n), computed explicitly to place new samples (Eq. 5)."""
    R = _inverse_root(membership_gram(G, rho))
    return np.asarray(R.T @ (R @ G))


def _inverse_root(S: Array) -> Array:
    """``R`` with ``R^T R = S^-1``: the inverse of the Cholesky factor.

    LAPACK is called directly: the checks of `scipy.linalg` would take longer than the factorisation.
    """
    size, identity = max(float(np.trace(S)) / len(S), 1e-300), np.eye(len(S))
    for ridge in RIDGES if np.isfinite(size) else ():
        lower, singular = potrf(S + ridge * size * identity, lower=True)
        if not singular:  # else two clusters have equal memberships, up to round-off
            return np.asarray(trtrs(lower, identity, lower=True)[0])
    raise InputError("Memberships contain values that are not finite.")


@dataclass(frozen=True)
class Quadratic:
    """The part of ``q`` of one view that depends on ``G``, at fixed ``P``, up to a constant::

        tr(A G G^T) - 2 tr(B^T G) + shift ||G||^2 + lam ||G - G_star||^2

    where ``A`` and ``B`` are ``P^T K P`` and ``P^T K`` for ``rho = 0``. The smoothness term is replaced
    by a majoriser that reads the graph once per iteration: with ``sigma >= sigma_max(L)`` and the
    memberships ``G_t`` of the previous iteration::

        tr(G L G^T) <= sigma ||G||^2 - 2 tr(G_t (sigma I - L) G^T) + const

    so that ``shift = theta sigma`` and ``B = P^T K + theta G_t (sigma I - L)``. The problem then
    separates into one problem in k unknowns per sample.
    """

    A: Array  # k x k
    B: Array  # k x n_a
    shift: float
    lam: float
    weight: float  # of this view in the objective
    rows: Rows  # which samples of the shard have this view

    @property
    def lipschitz(self) -> float:
        """Half the Lipschitz constant: ``sigma_max(A) + lam + theta sigma_max(L)`` (Eq. 6).

        Larger if the curvature is negligible relative to the slope.
        """
        return _lipschitz([self], [self.A])[0]

    def half_gradient(self, G: Array, G_star: Array) -> Array:
        """``P^T K P G - P^T K + lam (G - G_star) + theta G L`` at ``G = G_t`` (Eq. 6)."""
        H = self.A + (self.shift + self.lam) * np.eye(len(self.A))
        return H.astype(G.dtype) @ G - self.B - self.lam * G_star[:, self.rows]

    def values(self, G: Array, G_star: Array) -> Array:
        """Value of the problem of every sample (n_a)."""
        H = self.A + self.shift * np.eye(len(self.A))
        return _values(H.astype(G.dtype), self.B, self.lam, G, G_star[:, self.rows])


def _lipschitz(quadratics: list[Quadratic], curvatures: list[Array]) -> list[float]:
    """`Quadratic.lipschitz` of every view, with given matrices in place of ``A``."""
    largest = np.linalg.eigvalsh(np.stack(curvatures))[:, -1].tolist()
    curvature = [value + q.lam + q.shift for value, q in zip(largest, quadratics, strict=True)]
    steepest = [float(max(q.B.max(initial=0.0), -q.B.min(initial=0.0))) for q in quadratics]
    return [max(c, SHORTEST * s) or 1.0 for c, s in zip(curvature, steepest, strict=True)]


def _step_lengths(quadratics: list[Quadratic], project: Project, n_steps: int) -> list[float]:
    """``L`` of every view, whose steps are ``1 / L`` long.

    A single view that all samples have is the consensus itself, so ``lam`` does not add to its curvature. On
    the simplex, memberships change only in directions that sum to zero, and the curvature of ``A`` along
    them is often much smaller than ``sigma_max(A)``. A single step is that of the paper.
    """
    if n_steps == 1 or len(quadratics) > 1 or not _is_all(quadratics[0].rows):
        return _lipschitz(quadratics, [q.A for q in quadratics])
    (alone,) = quadratics
    A = _along_simplex(alone.A) if project is project_simplex else alone.A
    return _lipschitz([replace(alone, lam=0.0)], [A])


def _along_simplex(A: Array) -> Array:
    """``C A C`` with ``C = I - 11^T / k``, and a least curvature."""
    centred = A - A.mean(axis=0)
    centred -= centred.mean(axis=1)[:, None]
    return np.asarray(centred + FLATTEST * float(np.trace(A)) * np.eye(len(A)))


def _values(H: Array, B: Array, lam: Any, G: Array, G_star: Array) -> Array:
    """``g^T H g - 2 b^T g + lam ||g - g_star||^2`` of every column, in one or several views."""
    own = H @ G
    own -= B
    own -= B
    gap = G - G_star
    return column_dots(G, own) + lam * column_dots(gap, gap)


def column_dots(G: Array, H: Array) -> Array:
    """Inner products of the columns, of one or several pairs of matrices."""
    return np.asarray(np.einsum("...ij,...ij->...j", G, H))


@dataclass(frozen=True)
class Memberships:
    """``G`` of every view and ``G_star``, for the same samples."""

    G: list[Array]
    G_star: Array

    @property
    def n(self) -> int:
        """Number of samples."""
        return int(self.G_star.shape[1])


def update_G(start: Memberships, quadratics: list[Quadratic], project: Project, n_steps: int) -> Memberships:
    """Projected gradient on the memberships of all views at fixed ``P`` (Eq. 6), then the consensus (Eq. 7).

    ``n_steps = 1`` is the step of the paper. More steps are accelerated: every sample has its own
    momentum, which is reset when it overshoots, and keeps its first, plain step if the other steps do
    not improve on it. So the objective of no sample increases, and the result does not depend on how
    samples are split into shards. A sample that hardly moves in its first step takes no further steps.
    """
    lipschitz, rows = _step_lengths(quadratics, project, n_steps), [q.rows for q in quadratics]
    chunk, found = max(CACHED // (len(rows) * len(start.G_star)), 1), []
    for first in range(0, max(start.n, 1), chunk):
        samples = slice(first, min(first + chunk, start.n))
        now = _Stack(_layered(start.G, rows, samples), start.G_star[:, samples])
        found.append(_updated(now, _Steps.of(quadratics, lipschitz, samples, project), n_steps))
    G, G_star = found[0] if len(found) == 1 else map(_joined, zip(*found, strict=True))
    views = [g if _is_all(where) else g.take(where, axis=1) for g, where in zip(G, rows, strict=True)]
    return Memberships(views, G_star)


def _joined(parts: tuple[Array, ...]) -> Array:
    return np.concatenate(parts, axis=-1)


def _is_all(rows: Rows) -> bool:
    return isinstance(rows, slice)


def _layered(parts: list[Array], rows: list[Rows], samples: slice) -> Array:
    """Consecutive samples of views (k x n_a each) as layers (v x k x n), zero where a view is missing."""
    if all(map(_is_all, rows)):
        return parts[0][None, :, samples] if len(parts) == 1 else np.stack([p[:, samples] for p in parts])
    shape = len(parts), len(parts[0]), samples.stop - samples.start
    layers = np.zeros(shape, dtype=np.result_type(*parts))
    for layer, part, where in zip(layers, parts, rows, strict=True):
        columns, places = _within(where, samples)
        layer[:, places] = part[:, columns]
    return layers


def _presence(rows: list[Rows], samples: slice) -> Array:
    """Which consecutive samples have each view (v x n), or v x 1 if all have all views."""
    if all(map(_is_all, rows)):
        return np.ones((len(rows), 1), dtype=bool)
    present = np.zeros((len(rows), samples.stop - samples.start), dtype=bool)
    for layer, where in zip(present, rows, strict=True):
        layer[_within(where, samples)[1]] = True
    return present


def _within(rows: Rows, samples: slice) -> tuple[slice, Rows]:
    """Consecutive samples that have a view: their positions in the view, and among these samples."""
    if _is_all(rows):
        return samples, rows
    columns = slice(*np.searchsorted(rows, (samples.start, samples.stop)))
    return columns, rows[columns] - samples.start


class _Stack(NamedTuple):
    """Memberships of the same samples in all views, and in the consensus."""

    G: Array  # v x k x n
    G_star: Array  # k x n


class _Steps(NamedTuple):
    """Steps ``project((I - (H + lam I) / L) G + (B + lam G_star) / L)`` on some samples in all views.

    ``H = A + shift I``, and ``L`` is the Lipschitz constant. Samples without a view have a layer of zeros,
    which has no weight.
    """

    H: Array  # v x k x k
    B: Array  # v x k x n
    lam: Array  # v x 1
    matrix: Array  # v x k x k: I - (H + lam I) / L
    offset: Array  # v x k x n: B / L
    pull: Array  # v x 1 x 1: lam / L
    present: Array  # v x n, or v x 1 if all samples have all views
    weights: Array  # the same: of the views in the objective
    lengths: Array  # the same: weights times L
    shares: Array  # the same: of the views in G_star
    project: Project

    @property
    def coupled(self) -> bool:
        """Whether the consensus differs from the views: not if there is one view that all samples have."""
        return self.shares.size > 1

    @classmethod
    def of(
        cls, quadratics: list[Quadratic], lipschitz: list[float], samples: slice, project: Project
    ) -> _Steps:
        """The steps of consecutive samples."""
        rows = [q.rows for q in quadratics]
        B, present = _layered([q.B for q in quadratics], rows, samples), _presence(rows, samples)
        shift, lam, weight = np.array([(q.shift, q.lam, q.weight) for q in quadratics]).T[:, :, None]  # v x 1
        shares, weights, L = _shares(weight * lam, present, B.dtype), weight * present, np.array(lipschitz)
        if present.size == 1:
            lam = 0.0 * lam  # a single complete view is the consensus itself
        L, identity = L[:, None, None], np.eye(B.shape[1])
        H = np.stack([q.A for q in quadratics]) + shift[:, :, None] * identity
        matrix = identity - (H + lam[:, :, None] * identity) / L
        H, matrix, scale, pull = (x.astype(B.dtype) for x in (H, matrix, 1.0 / L, lam[:, :, None] / L))
        return cls(
            H, B, lam, matrix, scale * B, pull, present, weights, L[:, :, 0] * weights, shares, project
        )

    def taken(self, chosen: Array) -> _Steps:
        """The steps of chosen samples."""
        names = ["B", "offset"]
        if self.present.shape[1] > 1:
            names += ["present", "weights", "lengths", "shares"]
        return self._replace(**{name: getattr(self, name).take(chosen, axis=-1) for name in names})

    def moved(self, G: Array, G_star: Array, near: Array | None = None) -> Array:
        """``G`` of every view after a step, if given with memberships `near` it."""
        V = self.matrix @ G
        if self.coupled:
            V += self.pull * G_star
        V += self.offset
        return self.project(V, near)

    def consensus(self, G: Array) -> Array:
        """``G_star`` for given ``G``."""
        return np.asarray((G * self.shares[:, None]).sum(axis=0) if self.coupled else G[0])

    def squares(self, change: Array) -> Array:
        """Squared length of a change of ``G`` of every sample, in all views together."""
        return np.asarray((self.present * column_dots(change, change)).sum(axis=0))

    def increase(self, first: _Stack, last: _Stack) -> Array:
        """Value of the problem of every sample at `last` minus that at `first`.

        ``tr(H G G^T) - 2 tr(B^T G)`` changes by ``tr((G_last - G)^T (H (G_last + G) - 2 B))``.
        """
        change, total = last.G - first.G, last.G + first.G
        own = self.H @ total
        own -= self.B
        own -= self.B
        found = column_dots(change, own)
        if self.coupled:
            change -= last.G_star - first.G_star
            total -= last.G_star + first.G_star
            found += self.lam * column_dots(change, total)
        return np.asarray((self.weights * found).sum(axis=0))


def _updated(start: _Stack, steps: _Steps, n_steps: int) -> _Stack:
    """One step of all samples, and further ones of those that it moved."""
    G = steps.moved(*start, near=start.G)
    first = _Stack(G, steps.consensus(G))
    if n_steps == 1:
        return first
    change = G - start.G
    squares = steps.squares(change)
    if steps.coupled:
        gap = first.G_star - start.G_star
        squares += column_dots(gap, gap)
    moved = squares > UNMOVED**2
    if moved.all():
        return _accelerated(first, change, squares, steps, n_steps)
    chosen = np.flatnonzero(moved)
    if len(chosen):
        change, squares = (part.take(chosen, axis=-1) for part in (change, squares))
        G, some = G.take(chosen, axis=-1), steps.taken(chosen)
        last = _accelerated(_Stack(G, some.consensus(G)), change, squares, some, n_steps)
        first.G[..., chosen] = last.G
        if steps.coupled:
            first.G_star[:, chosen] = last.G_star
    return first


def _accelerated(first: _Stack, change: Array, squares: Array, steps: _Steps, n_steps: int) -> _Stack:
    """FISTA with restarts after the first step; returns the better of first and last for every sample.

    ``G_star`` is linear in ``G``, so that of an extrapolated ``G`` is extrapolated too. The momentum of a
    sample is reset if its step points against it: ``<Y - G_new, G_new - G_old> > 0``.

    With a single view, a sample stops when its step is short compared with the first, of which the change
    and the squared lengths are given. Several views do not: their consensus moves in many short steps.
    """
    G, last = first.G, np.empty_like(first.G)
    momenta, age = _momenta(n_steps).astype(G.dtype), np.zeros(G.shape[-1], dtype=np.intp)
    least, left, own = SETTLED**2 * squares, np.arange(G.shape[-1]), steps
    for number in range(n_steps - 1):
        ahead = momenta.take(age) * change
        ahead += G
        new = own.moved(ahead, own.consensus(ahead), near=G)
        change = new - G
        ahead -= new
        over = (own.lengths * column_dots(ahead, change)).sum(axis=0) > 0.0
        G = new
        age += 1
        age[over] = 0
        if number % 2 and not steps.coupled and not (moving := own.squares(change) > least).all():
            keep = np.flatnonzero(moving)
            if not len(keep):
                break
            last[..., left] = G
            G, change, own = G.take(keep, axis=-1), change.take(keep, axis=-1), own.taken(keep)
            age, least, left = age[keep], least[keep], left[keep]
    if len(left) < last.shape[-1]:
        last[..., left] = G
        G = last
    end = _Stack(G, steps.consensus(G))
    worse = steps.increase(first, end) > 0.0
    if worse.any():
        return _Stack(*(np.where(worse, g, h) for g, h in zip(first, end, strict=True)))
    return end


@cache
def _momenta(n_steps: int) -> Array:
    """Momentum of FISTA by the number of steps since the last restart: ``(t_j - 1) / t_(j+1)``."""
    times = [1.0]
    for _ in range(n_steps):
        times.append((1.0 + float(np.sqrt(1.0 + 4.0 * times[-1] ** 2))) / 2.0)
    return np.array([(now - 1.0) / later for now, later in pairwise(times)])


def update_G_star(G: list[Array], pull: Array, rows: list[Rows], n: int) -> Array:
    """``G_star = sum beta^gamma lam G / sum beta^gamma lam`` over the views that a sample has (Eq. 7).

    `pull` are the weights ``beta^gamma lam``.
    """
    layers, present = _layered(G, rows, slice(0, n)), _presence(rows, slice(0, n))
    return np.asarray((layers * _shares(pull[:, None], present, layers.dtype)[:, None]).sum(axis=0))


def _shares(pull: Array, present: Array, dtype: Any) -> Array:
    """Weights of the views in ``G_star`` (v x n, or v x 1) from their pull (v x 1).

    If no view of a sample pulls, every ``G_star`` is a minimiser, and the mean of its views is used.
    """
    none = float(np.sqrt(np.finfo(dtype).tiny))  # replaces zero, so that views without weight have a mean
    weights = np.maximum(pull / (pull.max() or 1.0), none) * present
    return np.asarray(weights / weights.sum(axis=0), dtype=dtype)


def update_beta(q: Array, gamma: float) -> Array:
    """Weights that minimise ``sum_a beta_a^gamma q_a`` on the simplex (Eq. 8).

    ``gamma > 1``: ``beta_a ~ q_a^(1 / (1 - gamma))``. ``0 < gamma <= 1``: all weight on the smallest
    ``q``, since the objective is linear or concave in ``beta`` and its minimum is a vertex. ``gamma =
    0``: equal weights. Views with ``q = 0`` share all the weight.
    """
    v = len(q)
    if gamma == 0.0:
        return np.full(v, 1.0 / v)
    if gamma <= 1.0:
        return np.eye(v)[int(np.argmin(q))]
    perfect = q <= np.finfo(float).tiny
    if perfect.any():
        return perfect / perfect.sum()
    logs = np.log(q) / (1.0 - gamma)
    beta = np.exp(logs - logs.max())
    return np.asarray(beta / beta.sum())
