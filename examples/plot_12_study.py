"""
From files to a report
======================

What ``viewloom fit study.toml`` does, step by step, from Python. The files are those of a simulated cohort
in the formats that researchers have: FreeSurfer tables, a long PET table, PLINK genotypes, a table of
participants.
"""

import tempfile
from pathlib import Path

from viewloom import plotting, runs, study

folder = Path(tempfile.mkdtemp()) / "study"
study.write_example(folder)
sorted(str(path.relative_to(folder)) for path in folder.rglob("*.*"))

# %%
# ``study.toml`` says who the participants are and where each view is. A linear kernel ranks features at
# once; other kernels shuffle them one by one, which takes minutes where there are many.
with open(folder / "study.toml", "a") as file:
    file.write('kernel = "linear"\n')
print((folder / "study.toml").read_text())

# %%
# Who has what, and what would be left out, before anything runs.
described = study.read_study(folder / "study.toml")
found = study.check(described)
found.views

# %%
# Views, participants and preparation in one go, then clusters, stability, clinical tables and a report.
# Everything lands in one folder, or nothing does.
run = runs.run_study(described, folder / "results")
sorted(path.name for path in (folder / "results").iterdir())

# %%
# The report is one HTML file without a subject in it. This is one of its figures.
plotting.view_weights(run.model)
