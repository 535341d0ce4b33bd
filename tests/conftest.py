import os
import sys
from functools import cache
from pathlib import Path

import matplotlib
import pytest
import typer.testing
from hypothesis import HealthCheck, settings

matplotlib.use("Agg")
sys.path.insert(0, str(Path(__file__).parent))
typer.testing._get_command = cache(typer.testing._get_command)  # made once, not for every command that is run

SHARED = {
    "deadline": None,
    "print_blob": True,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
}
settings.register_profile("ci", derandomize=True, database=None, **SHARED)
settings.register_profile("nightly", **SHARED)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

DEFAULT_DATA = Path(__file__).parents[1].parent / "shared" / "data"


@pytest.fixture(scope="session")
def data_dir():
    """Folder of the real benchmark sets; tests that need it are skipped where it is absent."""
    folder = Path(os.environ.get("VIEWLOOM_DATA", DEFAULT_DATA))
    if not folder.is_dir():
        pytest.skip("real benchmark sets not found; set VIEWLOOM_DATA")
    return folder


@pytest.fixture(autouse=True, scope="module")
def _refits_of_the_page(request, _short_studies):
    """Tests of the page compare files with those of its processes, which refit as often as for users."""
    from viewloom.study.run import computations

    with pytest.MonkeyPatch.context() as patch:
        if request.path.parent.name == "app":
            patch.setattr(computations, "REFITS", _short_studies)
        yield
