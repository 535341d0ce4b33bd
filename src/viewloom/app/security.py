"""Who may ask: host, session, origin and form token of every request, and the headers of every answer.

The page is for one person on one machine. Against pages of other sites, other users of the machine and
other local servers: the address is that of the loopback interface; the Host header must name it (DNS
rebinding); a token in the opened link is used once, for a cookie of this process; all addresses begin with a
random path, to which the cookie is bound, because browsers send cookies to every port of a host; a POST must
come from a page of this server (Origin, or Sec-Fetch-Site where the referrer policy hides it) and carry its
form token.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from dataclasses import dataclass, field
from hmac import compare_digest
from typing import Any
from urllib.parse import parse_qs

MOST_BYTES, MOST_FIELDS = 1 << 20, 5000  # of a form
MOST_SECONDS = 15.0  # to send a form
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    b"referrer-policy": b"no-referrer",
    b"cache-control": b"no-store",
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"permissions-policy": b"camera=(), microphone=(), geolocation=()",
    b"content-security-policy": POLICY.encode(),
}
CLOSED = (
    "This page belongs to a session of viewloom that has ended, or was opened elsewhere. Start it again with "
    "viewloom app, and use the link that it prints."
)


@dataclass
class Session:
    """The secrets of one server, and when it was last used.

    Attributes
    ----------
    hosts : tuple of str
        Host and port, as browsers send them.
    base : str
        The beginning of all paths.
    """

    hosts: tuple[str, ...]
    base: str = field(default_factory=lambda: f"/{secrets.token_urlsafe(12)}")
    token: str | None = field(default_factory=lambda: secrets.token_urlsafe(32))
    cookie: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    form: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    used: float = field(default_factory=time.monotonic)
    open: int = 0  # answers under way

    @property
    def name(self) -> str:
        """Name of the cookie; cookies of several servers do not replace each other."""
        return f"viewloom-{self.hosts[0].rpartition(':')[2]}"

    @property
    def link(self) -> str:
        """The address to open; it works once."""
        return f"http://{self.hosts[0]}{self.base}/open?token={self.token}"

    def redeem(self, token: str) -> bool:
        """Whether a token is the unused one; it is used up then."""
        sound = self.token is not None and same(token, self.token)
        self.token = None if sound else self.token
        return sound

    def idle(self) -> float:
        """Seconds since the last request."""
        return 0.0 if self.open else time.monotonic() - self.used


def same(given: str, known: str) -> bool:
    """Compare secrets in constant time."""
    return compare_digest(given.encode(), known.encode())


class Refusal(Exception):
    """A request that is not answered: status and reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Gate:
    """Lets requests of the session pass, with their form read and checked, and adds headers."""

    def __init__(self, app: Any, session: Session) -> None:
        self.app, self.session = app, session

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        try:
            check(scope, self.session)
            scope["form"] = await read_form(scope, receive, self.session) if scope["method"] == "POST" else {}
        except Refusal as refusal:
            await _refuse(refusal, _with_headers(send))
            return
        self.session.used, self.session.open = time.monotonic(), self.session.open + 1
        try:
            await self.app(scope, receive, _with_headers(send))
        finally:
            self.session.used, self.session.open = time.monotonic(), self.session.open - 1


def check(scope: Any, session: Session) -> None:
    """Refuse requests for another host, of another session, or from another page."""
    headers = _headers(scope)
    if headers.get("host") not in session.hosts:
        raise Refusal(421, "This address is not served here.")
    if scope["method"] not in ("GET", "HEAD", "POST"):
        raise Refusal(405, "This method is not used here.")
    if scope["method"] == "POST":
        _check_origin(headers, session)
    if scope["path"] != f"{session.base}/open" and not has_cookie(headers, session):
        raise Refusal(403, CLOSED)


def has_cookie(headers: dict[str, str], session: Session) -> bool:
    """Whether a request carries the cookie of the session."""
    parts = (part.strip().partition("=") for part in headers.get("cookie", "").split(";"))
    return any(name == session.name and same(value, session.cookie) for name, _, value in parts)


def _check_origin(headers: dict[str, str], session: Session) -> None:
    """A form must be sent by a page of this server.

    Pages with the policy no-referrer send "null"; browsers then say by Sec-Fetch-Site, which no page can set.
    """
    origin = headers.get("origin", "null")
    if origin == "null" and headers.get("sec-fetch-site") == "same-origin":
        return
    if origin not in [f"http://{host}" for host in session.hosts]:
        raise Refusal(403, "Forms are accepted from the pages of this server only.")


async def read_form(scope: Any, receive: Any, session: Session) -> dict[str, list[str]]:
    """The fields of a form that carries the token of the session."""
    headers = _headers(scope)
    if headers.get("content-type", "").partition(";")[0].strip() != "application/x-www-form-urlencoded":
        raise Refusal(415, "Only plain forms are accepted.")
    length = headers.get("content-length", "0")
    if not length.isdigit() or int(length) > MOST_BYTES:
        raise Refusal(413, "The form is too large.")
    try:
        body = await asyncio.wait_for(_body(receive), MOST_SECONDS)
        form = parse_qs(
            body.decode("utf-8"), keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict"
        )
    except TimeoutError:
        raise Refusal(408, "The form was not sent in time.") from None
    except ValueError:
        raise Refusal(400, "The form cannot be read.") from None
    if not same(form.pop("csrf", [""])[0], session.form):
        raise Refusal(403, "The form has expired; load the page again.")
    return form


async def _body(receive: Any) -> bytes:
    body, more = bytearray(), True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > MOST_BYTES:
            raise Refusal(413, "The form is too large.")
        if message["type"] == "http.disconnect":
            raise Refusal(400, "The form was not sent completely.")
    return bytes(body)


def _headers(scope: Any) -> dict[str, str]:
    """Headers by name; of a repeated one, which no browser sends, nothing is trusted."""
    found: dict[str, str] = {}
    for name, value in scope["headers"]:
        key = name.decode("latin-1").lower()
        found[key] = "repeated" if key in found and key != "cookie" else value.decode("latin-1")
    return found


def _with_headers(send: Any) -> Any:
    """Send with the headers of every answer, unless the answer has its own."""

    async def sending(message: Any) -> None:
        if message["type"] == "http.response.start":
            own = {name.lower() for name, _ in message["headers"]}
            more = [(name, value) for name, value in HEADERS.items() if name not in own]
            message = {**message, "headers": [*message["headers"], *more]}
        await send(message)

    return sending


async def _refuse(refusal: Refusal, send: Any) -> None:
    body = str(refusal).encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    closing = [(b"connection", b"close")] if refusal.status in (408, 413) else []
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers + closing})
    await send({"type": "http.response.body", "body": body})
