"""Fixtures of tests and of the examples in docstrings."""

import gc
import os
import sys

import pytest

# Tests run side by side, and some call libraries that do not limit themselves. Set before numpy is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")  # examples draw figures; no window is opened


def pytest_collection_finish():
    """The search for garbage, a tenth of all time otherwise, passes over what was there before any test."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


@pytest.fixture(autouse=True, scope="session")
def _short_studies():
    """Studies are refitted twice, and compared with twins only by tests that say how many.

    Both take most of the time of a run. The fixture has the number of refits otherwise.
    """
    from viewloom.study.run import computations

    usual = computations.REFITS
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(computations, "REFITS", 2)
        patch.setattr(computations, "TWINS", 0)
        yield usual


@pytest.fixture(autouse=True)
def close_figures():
    """Close the figures that a test or an example has left open."""
    yield
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close("all")
