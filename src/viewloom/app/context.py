"""What the pages share: root, jobs, session, templates and studies."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote, urlencode

import jinja2
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from viewloom.app.jobs import Jobs
from viewloom.app.paths import Root
from viewloom.app.security import Session
from viewloom.runtime.errors import InputError
from viewloom.runtime.visible import visible


@dataclass(frozen=True)
class Context:
    """The state of a server."""

    root: Root
    jobs: Jobs
    session: Session
    ready: threading.Event = field(default_factory=threading.Event)  # when imports are done

    def url(self, place: str, **parameters: Any) -> str:
        """The address of a page."""
        return f"{self.session.base}/{address(place, **parameters)}"


def address(place: str, **parameters: Any) -> str:
    """The address of a page below the base of a session, which other sessions can use, too.

    >>> address("study", file="a b/study.toml", run="")
    'study?file=a%20b%2Fstudy.toml'
    """
    given = {key: value for key, value in parameters.items() if value not in (None, "")}
    return f"{place}?{urlencode(given, quote_via=quote)}" if given else place


def context_of(request: Request) -> Context:
    """The state of the server that answers a request."""
    found: Context = request.app.state.context
    return found


def form_of(request: Request) -> dict[str, list[str]]:
    """The fields of a form, which `security.Gate` has read and checked."""
    found: dict[str, list[str]] = request.scope["form"]
    return found


def one(request: Request, name: str, default: str = "") -> str:
    """A field of the form, or a parameter of the address."""
    form = form_of(request)
    return form[name][0] if name in form else request.query_params.get(name, default)


def page(request: Request, template: str, status: int = 200, **content: Any) -> HTMLResponse:
    """Render a page."""
    context = context_of(request)
    shared = {
        "base": context.session.base,
        "url": context.url,
        "csrf": context.session.form,
        "folder": context.root.folder.name or str(context.root.folder),
        "file": one(request, "file"),
        "run": one(request, "run"),
        "known": _known_run(context, one(request, "file")),
        "here": request.url.path.removeprefix(f"{context.session.base}/").partition("/")[0],
    }
    return HTMLResponse(_templates().get_template(template).render({**shared, **content}), status)


def _known_run(context: Context, file: str) -> str:
    """The run folder of a study, where its last fit or the command line has written one."""
    if not file.endswith(".toml"):
        return ""
    status = context.jobs.status(file, "fit")
    output = str(status.about.get("output", "")) if status else ""
    for given in (output, default_output(file)):
        try:
            if given and (context.root.path(given) / "run.json").is_file():
                return given
        except InputError:
            return ""
    return ""


def default_output(file: str) -> str:
    """The folder that the command line writes the results of a study to."""
    path = PurePosixPath(file)
    return str(path.with_name(f"{path.stem}-results"))


def go(request: Request, place: str, **parameters: Any) -> Response:
    """Send the browser to another page, after a form."""
    return RedirectResponse(context_of(request).url(place, **parameters), 303)


@lru_cache(maxsize=1)
def _templates() -> jinja2.Environment:
    pages = jinja2.Environment(
        loader=jinja2.PackageLoader("viewloom.app"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=_inert,
    )
    pages.filters |= {"exact": lambda text: Markup(escape(text)), "size": size, "seconds": seconds}
    return pages


def _inert(value: Any) -> Any:
    """Text from files without characters that steer the display; see `visible`."""
    return visible(value, keep="\n\t") if isinstance(value, str) and not isinstance(value, Markup) else value


def size(count: int) -> str:
    """A number of bytes for people.

    >>> size(999), size(2_500_000)
    ('999 B', '2.5 MB')
    """
    value, unit = float(count), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{value:.0f} {unit}" if unit == "B" or value >= 10 else f"{value:.1f} {unit}"


def seconds(count: float | None) -> str:
    """A duration for people.

    >>> seconds(4.2), seconds(75), seconds(4000)
    ('4 seconds', '1 min 15 s', '1 h 6 min')
    """
    whole = round(count or 0)
    if whole < 60:
        return "1 second" if whole == 1 else f"{whole} seconds"
    return (
        f"{whole // 60} min {whole % 60} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60} min"
    )


def digest(text: str) -> str:
    """A short fingerprint of a text, to notice that a file has changed since it was shown."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def study_path(request: Request) -> Path:
    """The study file of a request; `InputError` if there is none."""
    given = one(request, "file")
    if not given.endswith(".toml"):
        raise InputError("Choose a study file first.")
    path = context_of(request).root.path(given)
    if not path.is_file():
        raise InputError(f"{given}: no such study file.")
    return path


def run_path(request: Request, name: str = "run", index: str = "run.json") -> Path:
    """The run folder of a request; `InputError` if it is none."""
    given = one(request, name)
    path = context_of(request).root.path(given)
    if not given or not (path / index).is_file():
        raise InputError(f"{given or 'No folder'}: not a folder of results.")
    return path


def whole_number(text: str, name: str) -> str:
    """The input as an argument of a command; `InputError` if it is no whole number."""
    if not (text.isascii() and text.isdigit()):
        raise InputError(f"{name.removeprefix('--')}: must be a whole number.")
    return text


def local(given: str) -> str:
    """A relative path as an argument of a command, never an option."""
    return os.path.join(".", given)


def parsed_json(text: str) -> Mapping[str, Any] | None:
    """A JSON object that a command printed; None if it printed none."""
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
