"""
Missing scans
=============

Most studies drop whoever lacks a modality. Here a growing share of subjects loses one view at random, and
three ways to go on are compared.
"""

import matplotlib.pyplot as plt
import numpy as np

import viewloom as vl
from viewloom.plotting import OKABE_ITO

views, y = vl.simulate.blobs_views(240, n_views=3, n_clusters=4, separation=3.5, random_state=0)
shares = [0.0, 0.2, 0.4, 0.6, 0.8]


def lose_one(views, share, rng):
    """Whoever is drawn lacks one view, at random."""
    present = views.present.copy()
    lost = rng.choice(len(views), int(share * len(views)), replace=False)
    present[lost, rng.integers(0, views.n_views, len(lost))] = False
    return vl.Views(views, present=present)


lose_one(views, 0.4, np.random.default_rng(0))

# %%
# Keep everyone; or fit on complete cases and place the others with
# :meth:`~viewloom.KernelMultiviewNMF.predict`; or fit on complete cases and lose the others, as if each
# were a cluster of its own.


def agreement(share, seed):
    """ARI with the planted groups of the three ways."""
    incomplete = lose_one(views, share, np.random.default_rng(seed))
    model = vl.KernelMultiviewNMF(4, random_state=0)
    everyone = model.fit(incomplete).labels_
    whole = incomplete.present.all(axis=1)
    placed = model.fit(incomplete[whole]).predict(incomplete)
    dropped = np.where(whole, placed, 4 + np.arange(len(y)))
    return [vl.clustering_report(y, labels)["ARI"] for labels in (everyone, placed, dropped)]


scores = np.array([[agreement(share, seed) for seed in range(3)] for share in shares])  # share x seed x way

fig, ax = plt.subplots(figsize=(5, 3.2), layout="constrained")
ways = ["everyone kept", "complete cases, rest predicted", "complete cases, rest lost"]
for way, (name, colour) in enumerate(zip(ways, OKABE_ITO, strict=False)):
    ax.plot(shares, scores[:, :, way].mean(axis=1), marker="o", color=colour, label=name)
ax.set(xlabel="share of subjects who lack a view", ylabel="ARI, mean over 3 draws", ylim=(0, 1.02))
ax.set_title("Who is dropped is lost", loc="left")
ax.legend(frameon=False)

# %%
# The same on real sets: :doc:`/quality`. A subject's consensus averages over the views that saw it, and
# each view factorises the subjects it has: nothing is imputed.
