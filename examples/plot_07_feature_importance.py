"""
Feature importance against the truth
====================================

Which features do the clusters rest on? In a simulated cohort the answer can be checked, since the features
that carry the disease are planted.
"""

import pandas as pd

import viewloom as vl
from viewloom import inspection, plotting

cohort = vl.simulate.adni_like(random_state=0)
model = vl.KernelMultiviewNMF(3, kernel="linear", random_state=0).fit(cohort.views)

# %%
# With a linear kernel importance is the paper's ``F = X^T P``: how far each cluster's centroid lies from
# the mean, feature by feature. Temporal and entorhinal cortex, amygdala and hippocampus lead, as they
# should.
ranking = model.feature_importance("freesurfer")
plotting.feature_importance(ranking, top=12)

# %%
# Among the ten first of each view, how many are planted (regions whose effect between AD and controls is at
# least one standard deviation, SNPs with an effect of their own)? The SNP ranking is at chance, and nothing
# should be read into it.
rows = {
    name: inspection.importance_against_truth(
        model.feature_importance(name), cohort.truth.informative(name, min_effect=1.0)
    )
    for name in model.view_names_
}
pd.DataFrame(rows).T.round(2)

# %%
# What the clusters look like in those features: mean z-scores.
first = list(ranking["feature"][:12])
plotting.cluster_profiles(inspection.cluster_profiles(cohort.views, model.labels_, "freesurfer", first))
