"""The server of ``viewloom app``: on the loopback interface, for one person, until nobody uses it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import tempfile
import threading
import webbrowser
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from viewloom.runtime.errors import InputError, MissingPackageError

LOOPBACK = "127.0.0.1"
LOOK = 5.0  # seconds between looks at whether somebody uses it
REDIRECT = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>viewloom</title>'
    '<meta http-equiv="refresh" content="0; url={0}"><p><a href="{0}">Open viewloom</a></p></html>'
)


def serve(
    folder: Path,
    *,
    host: str = LOOPBACK,
    port: int = 0,
    idle: float = 7200.0,
    browse: bool = True,
    announce: Callable[[str], None] = print,
) -> None:
    """Serve the page until it is closed, or unused for some time.

    Parameters
    ----------
    folder : Path
        Files are read and written below it.
    host : str, default="127.0.0.1"
    port : int, default=0
        0 takes a free one.
    idle : float, default=7200
        Seconds without a request and without a job after which the server ends.
    browse : bool, default=True
        Open the browser.
    announce : callable
        Called with the link.
    """
    try:
        import jinja2  # noqa: F401
        import starlette  # noqa: F401
        import uvicorn
    except ImportError as error:
        raise MissingPackageError(
            "The page needs starlette, uvicorn and jinja2: pip install viewloom[app]"
        ) from error
    from viewloom.app.connections import TimedProtocol
    from viewloom.app.context import Context
    from viewloom.app.jobs import Jobs
    from viewloom.app.paths import Root
    from viewloom.app.routes import application
    from viewloom.app.security import Session

    root = Path(os.path.realpath(folder))
    if not root.is_dir():
        raise InputError(f"{folder}: no such folder.")
    listening = _listen(host, port)
    session = Session(_hosts(host, listening.getsockname()[1]))
    context = Context(Root(root), Jobs(root), session)
    server = uvicorn.Server(
        uvicorn.Config(
            application(context, lambda: setattr(server, "should_exit", True)),
            http=TimedProtocol,
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            ws="none",
            lifespan="off",
            timeout_keep_alive=30,
            timeout_graceful_shutdown=2,
            limit_concurrency=1000,
        )
    )
    _ignore_signals(server)
    announce(session.link)
    with _opened(session.link, browse):
        asyncio.run(_until_idle(server, listening, context, idle))
    context.jobs.close()


def _ignore_signals(server: Any) -> None:
    """Let signals end the server but not its jobs, which the handlers of other commands would kill."""
    if threading.current_thread() is not threading.main_thread():
        return
    for name in ("SIGINT", "SIGTERM"):  # uvicorn handles them, and raises them again at its end
        signal.signal(getattr(signal, name), lambda *_: None)
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, lambda *_: setattr(server, "should_exit", True))


def _listen(host: str, port: int) -> socket.socket:
    """A socket at a free port."""
    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        listening.bind((host, port))
        listening.listen(256)
    except OSError as error:
        listening.close()
        raise InputError(f"{host} port {port}: cannot be used ({error.strerror}); choose another.") from None
    return listening


def _hosts(host: str, port: int) -> tuple[str, ...]:
    """Hosts that browsers may name."""
    shown = f"[{host}]" if ":" in host else host
    return (f"{shown}:{port}", f"localhost:{port}") if host == LOOPBACK else (f"{shown}:{port}",)


async def _until_idle(server: Any, listening: socket.socket, context: Any, idle: float) -> None:
    """Serve; end when nobody has asked for anything for some time, and no job is running."""

    async def watch() -> None:
        while not server.should_exit:
            await asyncio.sleep(min(LOOK, idle / 2))
            if context.session.idle() > idle and not context.jobs.any_running():
                server.should_exit = True

    warming = threading.Thread(target=_warm, args=(context,), daemon=True)
    warming.start()
    watching = asyncio.create_task(watch())
    await server.serve([listening])
    watching.cancel()


def _warm(context: Any) -> None:
    """Import what most pages need, and start the process of the first job, while the first page is read."""
    try:
        context.jobs.prepare()
        for name in (
            "folder_page",
            "study_page",
            "check_page",
            "fit_page",
            "settings_page",
            "run_page",
            "subjects_page",
        ):
            import_module(f"viewloom.app.{name}")
        for name in ("drafting.preview", "run.comparing", "run.staging"):
            import_module(f"viewloom.study.{name}")
    finally:
        context.ready.set()


class _opened(contextlib.ExitStack):
    """Open the browser by a file of the user's own, since other users can see the arguments of programs."""

    def __init__(self, link: str, browse: bool) -> None:
        super().__init__()
        if browse:
            folder = Path(self.enter_context(tempfile.TemporaryDirectory(prefix="viewloom-")))
            page = folder / "open.html"
            page.touch(0o600)
            page.write_text(REDIRECT.format(link), encoding="utf-8")
            threading.Thread(target=webbrowser.open, args=(page.as_uri(),), daemon=True).start()
