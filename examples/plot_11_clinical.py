"""
What do the clusters mean clinically?
=====================================

Clusters are found in the views. What they mean is asked afterwards, of variables that had no part in
finding them.
"""

import viewloom as vl
from viewloom import clinical
from viewloom.clinical_plots import association_bars, survival_curves

cohort = vl.simulate.adni_like(random_state=0)
imaging = cohort.views.select(["vbm", "freesurfer", "fdg"])
labels = vl.KernelMultiviewNMF(3, random_state=0).fit(imaging).labels_

# %%
# Effect sizes with tests, corrected for their number. Site is among them on purpose: clusters that follow
# scanners say nothing about people. Here they do so in part, since nothing was harmonised; a study would
# (``harmonise = "combat"``).
table = clinical.associations(
    labels, cohort.participants.drop(columns=["conversion_time", "conversion_event"])
)
table[["variable", "kind", "effect", "p", "q"]].round(3)

# %%
association_bars(table)

# %%
# Do subjects with mild impairment convert sooner in some clusters? Curves end where fewer than eleven are
# at risk: smaller groups are never shown.
mci = (cohort.participants["diagnosis"] == "MCI").to_numpy()
people = cohort.participants[mci]
survival_curves(clinical.conversion(labels[mci], people["conversion_time"], people["conversion_event"]))
