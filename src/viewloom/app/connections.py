"""Connections of clients that do not send, or do not read: uvicorn by itself would keep them for ever."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 15.0  # to send the head of a request, from the connection or its first byte on
READ_SECONDS = 60.0  # to read what was sent, while no more can be buffered


class TimedProtocol(H11Protocol):
    """HTTP/1.1 whose clients have limited time to ask and to read; see `security` for the body of a form."""

    _asking: asyncio.TimerHandle | None = None
    _reading: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._wait_for_request()

    def data_received(self, data: bytes) -> None:
        """Read a part of a request; a client does not gain time with every byte."""
        super().data_received(data)
        self._wait_for_request()

    def _wait_for_request(self) -> None:
        answering = self.cycle is not None and not self.cycle.response_complete
        if answering:
            _cancel(self._asking)
            self._asking = None
        elif self._asking is None:
            self._asking = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def pause_writing(self) -> None:
        """Begin to wait for a client that does not read."""
        super().pause_writing()
        _cancel(self._reading)
        self._reading = self.loop.call_later(READ_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on writing."""
        super().resume_writing()
        _cancel(self._reading)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        _cancel(self._asking)
        _cancel(self._reading)
        super().connection_lost(exc)


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
