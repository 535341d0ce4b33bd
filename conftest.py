"""Fixtures of tests and of the examples in docstrings."""

import os
import sys

import pytest

# Tests run side by side, and some call libraries that do not limit themselves. Set before numpy is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")  # examples draw figures; no window is opened


@pytest.fixture(autouse=True)
def close_figures():
    """Close the figures that a test or an example has left open."""
    yield
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close("all")
