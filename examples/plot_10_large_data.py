"""
Large data on landmarks
=======================

Beyond 20 000 samples everything is tied to landmarks, and cost grows with the number of samples instead of
its square. ``factored=True`` asks for that at any size. A model on landmarks needs no training rows to
place new samples, so its file holds nothing of any one subject.
"""

import tempfile
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import viewloom as vl
from viewloom.plotting import OKABE_ITO


def cohort(n):
    """Two views in single precision, and their planted groups."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 5, n)
    centres = rng.standard_normal((2, 5, 16))
    return {
        name: (c[y] + rng.standard_normal((n, 16))).astype("f4")
        for name, c in zip("ab", centres, strict=True)
    }, y


def timed(n, factored):
    """Seconds and ARI of one fit."""
    views, y = cohort(n)
    began = time.perf_counter()
    labels = vl.KernelMultiviewNMF(5, factored=factored, random_state=0).fit(views).labels_
    return time.perf_counter() - began, vl.clustering_report(y, labels)["ARI"]


sizes = {"exact": [500, 1000, 2000, 4000], "400 landmarks": [1000, 4000, 16000, 32000]}
runs = {
    "exact": [timed(n, False) for n in sizes["exact"]],
    "400 landmarks": [timed(n, 400) for n in sizes["400 landmarks"]],
}

# %%
# Time depends on the machine that built this page; what matters are the slopes. ``python
# benchmarks/scale.py`` goes on to a million rows.
fig, axes = plt.subplots(1, 2, figsize=(7.5, 3), layout="constrained")
for (name, measured), colour in zip(runs.items(), OKABE_ITO, strict=False):
    seconds, scores = zip(*measured, strict=True)
    axes[0].loglog(sizes[name], seconds, marker="o", color=colour, label=name)
    axes[1].semilogx(sizes[name], scores, marker="o", color=colour)
axes[0].set(xlabel="samples", ylabel="seconds")
axes[0].yaxis.set_minor_formatter("")
axes[1].set(xlabel="samples", ylabel="ARI with planted groups", ylim=(0, 1.02))
axes[0].legend(frameon=False)

# %%
# Views may be files, too: they are read in blocks of rows and never loaded whole.
folder = Path(tempfile.mkdtemp())
views, y = cohort(8000)
for name, X in views.items():
    np.save(folder / f"{name}.npy", X)
model = vl.KernelMultiviewNMF(5, factored=400, random_state=0)
model.fit({name: folder / f"{name}.npy" for name in views})
round(vl.clustering_report(y, model.labels_)["ARI"], 2)

# %%
# Saved without a trace of single subjects, and loaded again: the same answers for new ones.
model.save(folder / "model.safetensors", store="landmarks")
again = vl.load(folder / "model.safetensors")
new, _ = cohort(100)
print(f"{(folder / 'model.safetensors').stat().st_size / 1e6:.1f} MB")
bool((again.predict(new) == model.predict(new)).all())
