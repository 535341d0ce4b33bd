import os
import sys
from pathlib import Path

import matplotlib
import pytest

matplotlib.use("Agg")
sys.path.insert(0, str(Path(__file__).parent))

DEFAULT_DATA = Path(__file__).parents[1].parent / "shared" / "data"


@pytest.fixture(scope="session")
def data_dir():
    """Folder of the real benchmark sets; tests that need it are skipped where it is absent."""
    folder = Path(os.environ.get("VIEWLOOM_DATA", DEFAULT_DATA))
    if not folder.is_dir():
        pytest.skip("real benchmark sets not found; set VIEWLOOM_DATA")
    return folder


@pytest.fixture(autouse=True, scope="session")
def _no_twins_unless_asked():
    """Studies are compared with twins only by tests that say how many; it takes most of the time of a run."""
    from viewloom.study.run import computations

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(computations, "TWINS", 0)
        yield
