"""
Views that mislead
==================

Not every modality helps. Here two views show the same three groups, one is pure noise, and one has strong
groups all of its own. The model does not know which is which.
"""

import numpy as np

import viewloom as vl
from viewloom import inspection, plotting

rng = np.random.default_rng(0)
good, y = vl.simulate.three_kinds(random_state=0)
own = rng.integers(0, 5, len(y))
views = {
    "blobs": good["blobs"],
    "rings": good["rings"],
    "noise": rng.standard_normal((len(y), 5)),
    "own groups": 6 * rng.standard_normal((5, 4))[own] + 0.3 * rng.standard_normal((len(y), 4)),
}

# %%
# Both misleading views end with the least weight, from every start. A view is believed as far as *other*
# views bear it out, so one that is merely easy to cluster gains nothing by it.
model = vl.KernelMultiviewNMF(n_clusters=3)
plotting.view_weights(inspection.weights_over_seeds(model, views, seeds=range(5)))

# %%
# What it costs to put all features side by side instead, where the strongest groups win:
from sklearn.cluster import KMeans
from sklearn.preprocessing import StandardScaler

model = vl.KernelMultiviewNMF(n_clusters=3, random_state=0).fit(views)
features = StandardScaler().fit_transform(np.hstack(list(views.values())))
found = {
    "viewloom": model.labels_,
    "k-means of all features": KMeans(3, n_init=10, random_state=0).fit_predict(features),
}
{name: round(vl.clustering_report(y, labels)["ARI"], 2) for name, labels in found.items()}

# %%
# ``gamma`` sets how far weights may differ: near 1 a single view is chosen, at large values all count
# alike. The default is 2.
plotting.weights_over_gamma(inspection.weights_over_gamma(model, views))
