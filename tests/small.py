"""A small study, and its files on disk."""

from viewloom.study import write_example

STUDY = """
[study]
name = "Small"
[participants]
path = "participants.csv"
id = "participant_id"
diagnosis = "diagnosis"
covariates = ["age", "sex"]
outcomes = ["mmse"]
[views.vbm]
path = "vbm.csv"
id = "participant_id"
columns = ["LH*", "LA*", "LP*"]
[views.fdg]
path = "fdg.csv"
format = "long"
id = "participant_id"
name = "region"
value = "suvr"
[model]
kernel = "linear"
"""


def write_small(folder, study=STUDY, **settings):
    """Files of some forty subjects, with another study file; the folder."""
    write_example(folder, **{"sizes": (12, 14, 16), **settings})
    (folder / "study.toml").write_text(study, encoding="utf-8")
    return folder


def in_name_only(results, subjects):
    """The content of a report that only has a title, for tests that do not read it."""
    return {"title": results.name, "cluster_names": results.cluster_names}
