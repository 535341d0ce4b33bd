"""A folder with a small study, and the page of it."""

import pytest
from local_page import QUICK, Page
from small import write_small

pytest.importorskip("uvicorn")
pytest.importorskip("starlette")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A folder with a small study."""
    folder = tmp_path_factory.mktemp("root")
    (folder / "study").mkdir()
    write_small(folder / "study", QUICK)
    return folder


@pytest.fixture(scope="module")
def page(root):
    """A session with a server in that folder."""
    found = Page(root).open()
    yield found
    found.close()


@pytest.fixture
def serve(tmp_path):
    """Start servers in a folder."""
    started = []

    def serving(folder=tmp_path, *options):
        started.append(Page(folder, *options))
        return started[-1]

    yield serving
    for one in started:
        one.close()
