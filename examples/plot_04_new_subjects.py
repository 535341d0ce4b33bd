"""
New subjects
============

A fitted model places subjects it has never seen, from whatever views they have. It solves its own problem
for them, at the centroids it found; nothing is fitted again.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split

import viewloom as vl
from viewloom.plotting import OKABE_ITO

views, y = vl.simulate.blobs_views(400, n_views=3, n_clusters=3, separation=2.6, random_state=0)
train, test, y_train, y_test = train_test_split(views, y, random_state=0)
model = vl.KernelMultiviewNMF(3, random_state=0).fit(train)
print(train, test, sep="\n")

# %%
# Views may be absent: left out of a dict, None in a list, or a row of NaN.
model.predict({"blobs1": test["blobs1"][:5]})

# %%
# The fewer views a new subject has, the less sure the model is of its place, and it says so: memberships
# soften.
kept = {"all three": ["blobs0", "blobs1", "blobs2"], "two": ["blobs0", "blobs1"], "one": ["blobs0"]}
memberships = {name: model.transform(test.select(views)) for name, views in kept.items()}

fig, axes = plt.subplots(1, 2, figsize=(7, 2.8), layout="constrained")
for (name, U), colour in zip(memberships.items(), OKABE_ITO, strict=False):
    top = np.sort(U.max(axis=1))
    axes[0].plot(np.linspace(0, 1, len(top)), top, color=colour, label=name)
axes[0].set(xlabel="new subjects, from least to most certain", ylabel="largest membership", ylim=(0.3, 1.02))
axes[0].legend(title="views", frameon=False)
scores = [vl.clustering_report(y_test, U.argmax(axis=1))["ARI"] for U in memberships.values()]
axes[1].barh(list(memberships), scores, color=OKABE_ITO[:3])
axes[1].invert_yaxis()
axes[1].set(xlabel="ARI with the planted groups", xlim=(0, 1))
