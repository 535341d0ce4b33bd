"""Profiles of the property-based tests, and a small study on disk for those of the command line.

``HYPOTHESIS_PROFILE=nightly`` asks for fifty times as many cases, and other ones every night.
"""

import shutil
import sys
from pathlib import Path

import pytest
from small import in_name_only, write_small
from typer.testing import CliRunner

from viewloom.cli.commands import app
from viewloom.study import report

sys.path.insert(0, str(Path(__file__).parents[1] / "study"))  # bad studies are listed there


@pytest.fixture(scope="session")
def _files(tmp_path_factory):
    folder = write_small(tmp_path_factory.mktemp("small") / "files")
    shutil.rmtree(folder / "genotypes")
    return folder


@pytest.fixture(scope="session")
def small_study(_files):
    """``small_study(folder)`` copies a study of some forty subjects there."""
    return lambda folder: shutil.copytree(_files, folder / "files")


@pytest.fixture(scope="session")
def viewloom():
    """``viewloom("fit", path)`` is the command line, in this process.

    A report is made in name only, unless it is asked for.
    """

    def run(*arguments, whole_report=False):
        with pytest.MonkeyPatch.context() as patch:
            if not whole_report:
                patch.setattr(report, "unnamed_summary", in_name_only)
                patch.setattr(report, "figure_data", lambda results, summary: {})
                patch.setattr(report, "to_html", lambda summary, figures: f"<h1>{summary['title']}</h1>")
            return CliRunner().invoke(app, [str(argument) for argument in arguments])

    return run


@pytest.fixture(scope="session")
def fitted_run(small_study, viewloom, tmp_path_factory):
    """The run folder of the small study; not to be changed."""
    folder = small_study(tmp_path_factory.mktemp("fitted"))
    result = viewloom("fit", folder / "study.toml", "--jobs", 1)
    assert result.exit_code == 0, result.output
    return folder / "study-results"
