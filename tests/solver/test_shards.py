"""The loop sees sums only, so it does not matter how samples are split."""

import weakref

import numpy as np
import pytest

from viewloom.kernels.graphs import Laplacian
from viewloom.kernels.operators import Explicit, Factored
from viewloom.solver.loop import Settings, solve
from viewloom.solver.objective import Calibration
from viewloom.solver.shard import Shard, ViewBlock
from viewloom.solver.start import soft_memberships
from viewloom.solver.teams import Serial
from viewloom.solver.updates import project_simplex


def factors(seed=0, n=60):
    """Two views of three planted clusters, as kernel factors and anchor-graph factors."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    Z = [rng.standard_normal((3, d))[y] + 0.4 * rng.standard_normal((n, d)) for d in (4, 6)]
    anchors = [rng.dirichlet(np.ones(5), n) / np.sqrt(n / 5) for _ in Z]
    return y, Z, anchors


def shards_of(Z, anchors, G_star, splits, lacking):
    """Shards over consecutive samples; the samples in `lacking` have no second view."""
    degrees = [B @ B.sum(axis=0) for B in anchors]
    shards = []
    for part in np.split(np.arange(G_star.shape[1]), splits):
        blocks = []
        for a in range(2):
            rows = np.flatnonzero(~np.isin(part, lacking)) if a == 1 else np.arange(len(part))
            chosen = part[rows]
            laplacian = Laplacian(Factored(anchors[a][chosen]), degrees[a][chosen], 2.0)
            blocks.append(ViewBlock(Factored(Z[a][chosen]), laplacian, rows))
        shard = Shard(blocks, project_simplex, 0.5)
        shard.start(np.ascontiguousarray(G_star[:, part]))
        shards.append(shard)
    return shards


def settings(Z, lacking):
    traces = np.array([(Z[0] ** 2).sum(), (np.delete(Z[1], lacking, axis=0) ** 2).sum()])
    return Settings(
        lam=np.array([1.0, 2.0]),
        theta=np.array([0.1, 0.2]),
        gamma=2.0,
        traces=traces,
        sigmas=np.array([2.0, 2.0]),
        calibration=Calibration.identity(2),
        n_steps=10,
        max_iter=25,
        tol=-1.0,  # never settle, so that both take as many iterations
    )


@pytest.mark.parametrize("splits", [[20, 40], [7, 8, 55], [59]])
@pytest.mark.parametrize("lacking", [[], [3, 9, 30, 31]])
def test_several_shards_equal_one(splits, lacking):
    y, Z, anchors = factors()
    start = soft_memberships((y + (np.arange(60) % 7 == 0)) % 3, 3)
    whole = shards_of(Z, anchors, start, [], lacking)
    parts = shards_of(Z, anchors, start, splits, lacking)
    expected = solve(Serial(whole), settings(Z, lacking))
    result = solve(Serial(parts), settings(Z, lacking))
    np.testing.assert_allclose(result.history["objective"], expected.history["objective"], rtol=1e-9)
    np.testing.assert_allclose(result.beta, expected.beta, rtol=1e-9)
    np.testing.assert_allclose(np.hstack([shard.G_star for shard in parts]), whole[0].G_star, atol=1e-8)


def test_a_kernel_stored_entry_by_entry_cannot_be_split():
    projection = Explicit(np.eye(3)).project(np.ones((2, 3)))
    with pytest.raises(ValueError, match="Only factored operators"):
        projection + projection


def test_sums_of_all_shards_are_never_held_at_once():
    """Each is added as soon as it is there: messages of many thousand shards would fill the memory."""
    alive, most = weakref.WeakSet(), []

    class Sum:
        def __init__(self, value):
            self.value = value
            alive.add(self)
            most.append(len(alive))

        def __add__(self, other):
            return Sum(self.value + other.value)

    (found,) = Serial(range(100)).total(lambda shard: [Sum(shard)])
    assert found.value == sum(range(100))
    assert max(most) <= 4
