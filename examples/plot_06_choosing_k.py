"""
How many clusters are there?
============================

:func:`~viewloom.choose_k` compares the data with *twins* that have no clusters: draws from one Gaussian
with the same means and covariances. A number of clusters is recommended only if it is tighter and more
stable than in the twins, and "none" is an answer.
"""

import matplotlib.pyplot as plt
import numpy as np

import viewloom as vl
from viewloom import plotting

# %%
# Data with three groups, and one elongated cloud, which any method cuts in two at the same place every
# time. Few subsamples and twins keep this page fast; leave them at their defaults for your data.
groups, _ = vl.simulate.blobs_views(60, n_views=2, n_clusters=3, random_state=1)
rng = np.random.default_rng(0)
along = rng.standard_normal((60, 1))
cloud = {name: 3 * along @ np.ones((1, 4)) + rng.standard_normal((60, 4)) for name in ("one", "two")}

settings = {"n_subsamples": 10, "n_twins": 8, "random_state": 0, "progress": False}
found = {
    name: vl.choose_k(data, [2, 3, 4], **settings) for name, data in [("groups", groups), ("cloud", cloud)]
}
{name: result.recommended for name, result in found.items()}

# %%
# The reasons are given in words.
from textwrap import fill

for result in found.values():
    print(*(fill(reason, 100) for reason in result.reasons), sep="\n", end="\n\n")

# %%
fig, axes = plt.subplots(1, 2, figsize=(7.5, 3), layout="constrained")
for ax, result in zip(axes, found.values(), strict=True):
    plotting.stability(result, ax)

# %%
# At the recommended number, how often two samples share a cluster over the subsamples:
result = found["groups"]
labels = vl.KernelMultiviewNMF(result.recommended, random_state=0).fit(groups).labels_
plotting.consensus_matrix(result.consensus, labels)
