"""The addresses of the pages, and what answers them; modules are imported when they are asked for."""

from __future__ import annotations

import asyncio
import mimetypes
from collections.abc import Callable
from importlib import import_module
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from viewloom.app.context import Context, context_of, page, study_path
from viewloom.app.security import CLOSED, Gate, has_cookie
from viewloom.runtime.errors import ViewloomError

PAGES = {  # address -> module and function that shows it
    "": "folder_page.home",
    "drafted": "folder_page.drafted",
    "preview": "folder_page.preview",
    "study": "study_page.show",
    "check": "check_page.show",
    "overlaps": "check_page.picture",
    "fit": "fit_page.show",
    "job": "fit_page.job",
    "settings": "settings_page.show",
    "settings/figure": "settings_page.figure",
    "run": "run_page.show",
    "report": "run_page.report",
    "download": "run_page.download",
    "compare": "run_page.compare",
    "subjects": "subjects_page.show",
    "replication": "subjects_page.replication",
}
FORMS = {  # address -> module and function that does what the form asks for
    "simulate": "folder_page.simulate",
    "draft": "folder_page.draft",
    "use": "folder_page.use",
    "study": "study_page.save",
    "study/live": "study_page.live",
    "study/text": "study_page.save_text",
    "study/remove": "study_page.remove",
    "study/apply": "study_page.apply",
    "check": "check_page.start",
    "fit": "fit_page.start",
    "fit/resume": "fit_page.resume",
    "fit/discard": "fit_page.discard",
    "job/stop": "fit_page.stop",
    "settings": "settings_page.start",
    "settings/apply": "settings_page.apply",
    "run/rename": "run_page.rename",
    "run/report": "run_page.rewrite",
    "run/figures": "run_page.figures",
    "run/paper": "run_page.paper",
    "subjects/predict": "subjects_page.predict",
    "subjects/replicate": "subjects_page.replicate",
}
FIRST = "folder_page.home"  # needs neither numpy nor pandas
PATIENCE = 120.0  # seconds that imports may take
STATIC = ("app.css", "app.js")
OPENING = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>viewloom</title>'
    '<link rel="icon" href="data:,">'
    '<meta http-equiv="refresh" content="0; url={0}/"><p><a href="{0}/">Open viewloom</a></p></html>'
)


def application(context: Context, quit: Callable[[], None]) -> Gate:
    """The application behind its gate."""
    base = context.session.base

    def leave(request: Request) -> Response:
        quit()
        return page(request, "closed.html")

    routes = [
        Route(f"{base}/open", opened, methods=["GET"]),
        Route(f"{base}/events", _lazily("fit_page.events", True), methods=["GET"]),
        Route(f"{base}/static/{{name}}", static, methods=["GET"]),
        Route(f"{base}/quit", leave, methods=["POST"]),
        *(Route(f"{base}/{place}", _lazily(name), methods=["GET"]) for place, name in PAGES.items()),
        *(Route(f"{base}/{place}", _lazily(name), methods=["POST"]) for place, name in FORMS.items()),
    ]
    handlers: Any = {ViewloomError: refused, Exception: failed, 404: absent, 405: absent}
    app = Starlette(routes=routes, exception_handlers=handlers)
    app.state.context = context
    return Gate(app, context.session)


def _lazily(name: str, asynchronous: bool = False) -> Callable[[Request], Any]:
    """A function of a module that is imported on first use."""
    module, _, function = name.partition(".")

    def answer(request: Request) -> Any:
        if name != FIRST:  # importing a module in two threads at once may fail
            context_of(request).ready.wait(PATIENCE)
        return getattr(import_module(f"viewloom.app.{module}"), function)(request)

    async def answer_later(request: Request) -> Any:
        return await (await asyncio.to_thread(answer, request))

    return answer_later if asynchronous else answer


def opened(request: Request) -> Response:
    """Exchange the token of the link for the cookie.

    The page then loads the first one itself: a redirection would still count as coming from elsewhere, and
    the cookie would not be sent.
    """
    session = context_of(request).session
    known = has_cookie(dict(request.headers), session)
    if not (known or session.redeem(request.query_params.get("token", ""))):
        return HTMLResponse(CLOSED, 403)
    answer = HTMLResponse(OPENING.format(session.base))
    answer.set_cookie(session.name, session.cookie, path=session.base, httponly=True, samesite="strict")
    return answer


def static(request: Request) -> Response:
    """Style and script."""
    name = request.path_params["name"]
    if name not in STATIC:
        return absent(request, None)
    text = files("viewloom.app").joinpath("static", name).read_text(encoding="utf-8")
    return Response(text, media_type=mimetypes.guess_type(name)[0])


def refused(request: Request, error: Exception) -> Response:
    """An error that viewloom raises deliberately: its lines have no ids and no values."""
    return _error(request, 400, "This did not work", str(error).split("\n"))


def absent(request: Request, error: Exception | None) -> Response:
    """No such page."""
    return _error(request, 404, "There is no such page", [])


def failed(request: Request, error: Exception) -> Response:
    """Any other error; its message may quote data and is not shown."""
    lines = [f"The program failed ({type(error).__name__}). Your files are unchanged."]
    return _error(request, 500, "This did not work", lines)


def _error(request: Request, status: int, title: str, lines: list[str]) -> Response:
    """A page that says what is wrong, with a way back to the study where there is one."""
    try:
        there = study_path(request).is_file()
    except ViewloomError:
        there = False
    return page(request, "error.html", status, title=title, lines=lines, there=there)
