"""
Where the published form fails
==============================

``KernelMultiviewNMF.paper`` is the published form to the letter, with the published settings. Each failure
below is shown on data in which the default finds the planted groups. :doc:`/published` says why each one
happens, and how far the published form gets where its grid is searched (``vl.select(views, paper=True)``);
``tests/models/test_failures.py`` holds all of them.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

import viewloom as vl
from viewloom.plotting import OKABE_ITO

warnings.simplefilter("ignore")  # the published form has a lot to warn of
BLUE, RED = OKABE_ITO[:2]


def planted(n=120, sizes=(10, 20), seed=0):
    """Three groups in the first views, and their labels."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    blocks = [2.5 * rng.standard_normal((3, d))[y] + rng.standard_normal((n, d)) for d in sizes]
    return {f"view{a}": X for a, X in enumerate(blocks)}, y


def two_panels(**settings):
    """Axes for the published form and the default."""
    _, axes = plt.subplots(1, 2, figsize=(7, 2.6), layout="constrained", **settings)
    for ax, title in zip(axes, ["the published form", "the default"], strict=True):
        ax.set_title(title, loc="left")
    return axes


# %%
# 1. Memberships shrink, or soften, for nothing
# ---------------------------------------------
# ``P G`` does not change when ``G`` shrinks and ``P`` grows, but both regularisers do. Putting memberships
# on the simplex stops the shrinking and not the softening: mix all memberships with uniform ones, and the
# centroids move outwards to match. Below, memberships go from as planted (0) to uniform (1). Only
# *sharpness* charges for it.
from viewloom.solver.objective import reconstruction
from viewloom.solver.updates import combinations, membership_gram

views, y = planted()
K = views["view0"] @ views["view0"].T
hard = np.eye(3)[y].T * 0.9 + 0.1 / 3


def error(G, rho):
    """Reconstruction error at the best centroids."""
    Pt = combinations(G, rho)
    return reconstruction(np.trace(K), float((Pt @ K * G).sum()), Pt @ K @ Pt.T, membership_gram(G, rho))


mixes = np.linspace(0, 0.95, 20)
fig, ax = plt.subplots(figsize=(4.5, 2.8), layout="constrained")
for rho, colour, name in [(0.0, RED, "as published"), (0.5, BLUE, "sharpness 0.5, the default")]:
    errors = [error((1 - mix) * hard + mix / 3, rho) for mix in mixes]
    ax.plot(mixes, np.array(errors) / errors[0], color=colour, label=name)
ax.set(xlabel="mixed with uniform memberships", ylabel="reconstruction error, relative")
ax.legend(frameon=False)

# %%
# 2. The smallest view takes the weight
# -------------------------------------
# Losses of different views are not comparable: two features of noise are easily reconstructed.
views, y = planted()
views["2 of noise"] = 0.1 * np.random.default_rng(1).standard_normal((len(y), 2))
models = [
    vl.KernelMultiviewNMF.paper(3, kernel="linear", random_state=0),
    vl.KernelMultiviewNMF(3, random_state=0),
]
for ax, model, colour in zip(two_panels(sharex=True), models, [RED, BLUE], strict=True):
    ax.barh(list(views), model.fit(views).view_weights_, color=colour)
    ax.invert_yaxis()
    ax.set(xlabel="view weight", xlim=(0, 1))

# %%
# 3. The iteration ends wherever its random start led
# ---------------------------------------------------
views, y = planted(150)
seeds = range(4)
runs = [
    [vl.KernelMultiviewNMF.paper(3, random_state=seed, max_iter=50).fit(views) for seed in seeds],
    [vl.KernelMultiviewNMF(3, random_state=seed).fit(views) for seed in seeds],
]
for ax, models, colour in zip(two_panels(sharey=True), runs, [RED, BLUE], strict=True):
    scores = [vl.clustering_report(y, model.labels_)["ARI"] for model in models]
    ax.bar_label(ax.bar([f"seed {seed}" for seed in seeds], scores, color=colour), fmt="%.2f")
    ax.set(ylim=(-0.02, 1.15), yticks=[0, 0.5, 1])
plt.gcf().axes[0].set_ylabel("ARI with planted groups")

# %%
# 4. Memberships end up alike
# ---------------------------
# What the two forms say of the same subjects: rows are clusters, columns subjects, sorted by planted group.
models = [runs[0][0], runs[1][0]]
for ax, model in zip(two_panels(), models, strict=True):
    shown = {"aspect": "auto", "cmap": "cividis", "vmin": 0, "vmax": 1, "interpolation": "nearest"}
    image = ax.imshow(model.memberships_[np.argsort(y, kind="stable")].T, **shown)
    ax.set(xlabel="subjects", yticks=range(3), yticklabels=["1", "2", "3"], ylabel="cluster")
plt.colorbar(image, ax=plt.gcf().axes, label="membership")
