"""Clients that do not send or do not read lose their connection; the others are served meanwhile."""

import socket
import threading

import pytest
import uvicorn
from local_page import PATIENCE

from viewloom.app import connections

LARGE = 1 << 24  # bytes of an answer, more than all buffers hold
SECONDS = 1.0
ENDED: list[str] = []  # answers that the server has done with


async def answers(scope, receive, send):
    """A short answer, or a large one."""
    body = b"x" * (LARGE if scope["path"] == "/large" else 5)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body, "more_body": True})
    await send({"type": "http.response.body", "body": b"end"})
    ENDED.append(scope["path"])


@pytest.fixture
def port(monkeypatch):
    """A server whose clients have a second for everything."""
    monkeypatch.setattr(connections, "HEAD_SECONDS", SECONDS)
    monkeypatch.setattr(connections, "READ_SECONDS", SECONDS)
    ENDED.clear()
    settings = {"log_config": None, "lifespan": "off", "ws": "none", "timeout_graceful_shutdown": 1}
    server = uvicorn.Server(uvicorn.Config(answers, http=connections.TimedProtocol, **settings))
    listening = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    yield listening.getsockname()[1]
    server.should_exit = True
    thread.join()


def connected(port, sent=b""):
    client = socket.create_connection(("127.0.0.1", port), PATIENCE)
    client.settimeout(PATIENCE)
    client.sendall(sent)
    return client


def is_closed(client):
    """Whether the server ends the connection, sooner or later."""
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True


def request(path, end=b"Connection: close\r\n\r\n"):
    return b"GET " + path + b" HTTP/1.1\r\nHost: x\r\n" + end


@pytest.mark.parametrize("sent", [b"", b"GET", request(b"/", b"X-More: 1\r\n")])
def test_no_request(port, sent):
    clients = [connected(port, sent) for _ in range(50)]
    other = connected(port, request(b"/"))
    assert b"200" in other.recv(100)  # while the others wait
    assert all(is_closed(client) for client in clients)


def test_a_second_request_that_does_not_end(port):
    client = connected(port, request(b"/", b"\r\n"))
    received = b""
    while b"end" not in received:
        received += client.recv(1000)
    client.sendall(b"GET / HT")
    while received := client.recv(1000):  # the rest of the first answer
        assert b"200" not in received


def test_bytes_do_not_gain_time(port):
    """A client that sends a byte now and then is cut off as well."""
    client = connected(port, b"GET / HTTP/1.1\r\n")
    client.settimeout(SECONDS / 5)
    for _ in range(round(5 * PATIENCE / SECONDS)):
        try:
            client.sendall(b"X")
            if client.recv(1) == b"":
                return
        except TimeoutError:
            continue
        except OSError:
            return
    pytest.fail("the connection stays open")


def test_an_answer_that_is_not_read(port):
    client = connected(port, request(b"/large"))
    end = threading.Event()
    for _ in range(round(10 * PATIENCE)):
        if ENDED:
            break
        end.wait(0.1)
    assert ENDED == ["/large"]  # the server does not wait for ever
    client.close()


def test_a_large_answer_that_is_read(port):
    with connected(port, request(b"/large")) as client:
        received = 0
        while part := client.recv(1 << 20):
            received += len(part)
        assert received > LARGE
