"""
First clusters
==============

A cohort seen through four views, its clusters, and what each view counted. The cohort is simulated after a
published one (345 subjects, four modalities), so nobody's data is shown and the truth is known.
"""

import viewloom as vl
from viewloom import plotting

cohort = vl.simulate.adni_like(random_state=0)
cohort.views

# %%
# One estimator, as in scikit-learn. Views are brought to scale by the model.
model = vl.KernelMultiviewNMF(n_clusters=3, random_state=0).fit(cohort.views)
model

# %%
# Every subject has a membership in every cluster. Columns below are subjects, sorted by cluster and by how
# sure the model is of them; those at the right end of a block are ambiguous.
plotting.memberships(model)

# %%
# Genotypes count least. That is as it should be: with odds ratios of 1.1 to 1.3 they say little about 345
# people.
plotting.view_weights(model)

# %%
# The fit ends when an iteration gains next to nothing.
plotting.objective(model)

# %%
# Do the clusters agree with the diagnosis? Somewhat. Clusters are found without it, and the three diagnoses
# of this cohort are cuts in a continuum (see :doc:`/paper`). NMI and ARI are zero for chance and one for
# identity.
report = vl.clustering_report(cohort.truth.y, model.labels_)
{name: round(report[name], 2) for name in ("Acc", "NMI", "ARI")}

# %%
# The cross table says more than a score. Labels count from 0, clusters in figures from 1.
import pandas as pd

diagnosis = cohort.participants["diagnosis"].to_numpy()
pd.crosstab(diagnosis, model.labels_ + 1, rownames=["diagnosis"], colnames=["cluster"])
