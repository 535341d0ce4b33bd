"""A small study, and its files on disk."""

import shutil
from contextlib import contextmanager
from functools import cache
from tempfile import TemporaryDirectory

import pytest

from viewloom.study import report, write_example

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
    files = _example(**{"sizes": (12, 14, 16), **settings})
    shutil.copytree(f"{files.name}/files", folder, dirs_exist_ok=True)
    (folder / "study.toml").write_text(study, encoding="utf-8")
    return folder


@cache
def _example(**settings):
    """A folder of this process that has such files, to be copied."""
    folder = TemporaryDirectory()  # which nobody else may enter; its content is as of any folder
    write_example(f"{folder.name}/files", **settings)
    return folder


def in_name_only(results, subjects):
    """The content of a report that only has a title, for tests that do not read it."""
    return {"title": results.name, "cluster_names": results.cluster_names}


@contextmanager
def without_figures():
    """Leave out the figures of reports, half the time of a short run, in tests that do not look at them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report, "inline_figures", lambda parts, names: dict.fromkeys(parts, ""))
        yield
