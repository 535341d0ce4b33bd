"""
Which view defines which cluster?
=================================

A weight is one number for a view. Views may still matter for some clusters and not for others, and may
contradict each other about single subjects. :func:`viewloom.inspection.view_contributions` places every
subject again without each view, and with each view alone.
"""

import matplotlib.pyplot as plt
import numpy as np

import viewloom as vl
from viewloom import inspection, plotting

# Four groups: imaging tells the first two from the rest, blood the last two, a third view sees all of it
# dimly.
rng = np.random.default_rng(0)
y = np.arange(240) % 4
centres = {"imaging": [[0, 0], [6, 0], [3, 6], [3, 6]], "blood": [[0, 0], [0, 0], [6, 0], [3, 6]]}
views = {name: np.array(c, dtype=float)[y] + rng.standard_normal((240, 2)) for name, c in centres.items()}
views["cognition"] = np.array([[0], [3], [6], [9]])[y] + 1.5 * rng.standard_normal((240, 1))

model = vl.KernelMultiviewNMF(4, random_state=0).fit(views)
said = inspection.view_contributions(model)
said.by_cluster().rename(lambda label: label + 1).round(2)

# %%
# How far the consensus of a cluster's subjects would move without the view:
plotting.view_contributions(said)

# %%
# How far each view alone agrees with the consensus:
plotting.view_agreement(said)

# %%
# Subjects whose views contradict each other are worth a second look. Those who agree least, of all 240:
fig, ax = plt.subplots(figsize=(4.5, 2.6), layout="constrained")
ax.hist(said.agreement, bins=20, color=plotting.OKABE_ITO[0])
ax.set(xlabel="mean agreement between a subject's views", ylabel="subjects")
