"""A folder with a small study, and the page of it."""

from types import SimpleNamespace

import pytest
from local_page import QUICK, Page
from small import STUDY, write_small

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


@pytest.fixture
def study(tmp_path, monkeypatch):
    """A study and its page without a server, whose jobs are recorded and not run."""
    from viewloom.app.context import Context
    from viewloom.app.jobs import Jobs
    from viewloom.app.paths import Root
    from viewloom.app.security import Session

    write_small(tmp_path / "study", STUDY)
    context = Context(Root(tmp_path), Jobs(tmp_path, warm=False), Session(("127.0.0.1:1",)))
    started = []
    monkeypatch.setattr(context.jobs, "start", lambda *given, **about: started.append((*given, about)))
    return SimpleNamespace(context=context, root=tmp_path, started=started)
