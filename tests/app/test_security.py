"""Attacks on the local page: other sites, other users, other servers, hostile names, and mere load."""

import http.client
import os
import re
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

HARM = "<script>window.harmed = 1</script>"
NAMES = [
    "<img src=x onerror=harm()>.csv",
    '" onmouseover="x" y=.csv',
    "'; DROP.csv",
    "\u202egnp.csv",
    "{{ 7 * 7 }}.csv",
    "-o.csv",
]


class TestSession:
    def test_only_the_link_opens_and_only_once(self, serve, tmp_path):
        page = serve()
        assert page.get("")[0].status == 403
        assert page.ask("GET", page.path.replace("token=", "token=x"))[0].status == 403
        answer, _ = page.ask("GET", page.path)
        cookie = answer.getheader("set-cookie")
        assert answer.status == 200
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert f"Path={page.base}" in cookie
        assert page.ask("GET", page.path)[0].status == 403  # used up
        page.cookie = cookie.split(";")[0]
        assert page.get("")[0].status == 200
        assert page.ask("GET", page.path)[0].status == 200  # the same browser may open it again

    @pytest.mark.parametrize("cookie", ["", "viewloom-1=x", "viewloom-{port}=", "viewloom-{port}={other}"])
    def test_no_other_cookie(self, page, cookie):
        given = cookie.format(port=page.host.split(":")[1], other="x" * 43)
        for place in ("", "study", "static/app.css", "events", "download"):
            answer, text = page.ask("GET", page.url(place), Cookie=given)
            assert answer.status == 403
            assert "csrf" not in text
        assert page.ask("POST", page.url("quit"), f"csrf={page.csrf}", Cookie=given)[0].status == 403

    def test_link_is_not_in_the_arguments_of_a_program(self, tmp_path, monkeypatch):
        """Other users see the arguments of the browser."""
        from viewloom.app import server

        opened = []
        monkeypatch.setattr(server.webbrowser, "open", opened.append)
        with server._opened("http://127.0.0.1:1/x/open?token=secret", True):
            end = time.monotonic() + 10
            while not opened and time.monotonic() < end:
                time.sleep(0.01)
            file = Path(opened[0].removeprefix("file://"))
            assert "secret" not in opened[0]
            assert "secret" in file.read_text()
            assert file.stat().st_mode & 0o077 == 0
            assert file.parent.stat().st_mode & 0o077 == 0
        assert not file.exists()


class TestOtherSites:
    @pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", ""])
    def test_rebound_names_are_refused(self, page, host):
        given = host.format(port=page.host.split(":")[1])
        assert page.ask("GET", page.url(""), Host=given)[0].status in (400, 421)

    def test_localhost_is_served(self, page):
        assert page.ask("GET", page.url(""), Host=f"localhost:{page.host.split(':')[1]}")[0].status == 200

    @pytest.mark.parametrize(
        "origin", ["http://evil.example", "null", None, "http://127.0.0.1:1", "https://{host}"]
    )
    def test_foreign_forms_are_refused(self, page, origin, root):
        given = origin and origin.format(host=page.host)
        body = f"csrf={page.csrf}&name=harm"
        answer, _ = page.ask("POST", page.url("simulate"), body, Origin=given)
        assert answer.status == 403
        cross = {"Origin": "null", "Sec_Fetch_Site": "cross-site"}
        assert page.ask("POST", page.url("simulate"), body, **cross)[0].status == 403
        assert not (root / "harm").exists()

    @pytest.mark.parametrize("csrf", ["", "x", "x" * 43])
    def test_forms_without_the_token_are_refused(self, page, csrf, root):
        assert page.post("simulate", csrf=csrf, name="harm")[0].status == 403
        assert not (root / "harm").exists()

    def test_a_page_without_referrer_may_send_its_form(self, page):
        """With the policy no-referrer browsers send the origin null."""
        own = {"Origin": "null", "Sec_Fetch_Site": "same-origin"}
        answer, text = page.ask("POST", page.url("use"), f"csrf={page.csrf}", **own)
        assert answer.status == 400, text

    @pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "TRACE", "PATCH"])
    def test_other_methods_are_refused(self, page, method):
        assert page.ask(method, page.url(""))[0].status == 405

    @pytest.mark.parametrize("place", ["simulate", "quit", "study/live", "fit", "job/stop"])
    def test_links_change_nothing(self, page, place):
        answer, _ = page.get(place, name="harm", file="study/study.toml", command="fit")
        assert answer.status in (200, 400, 404, 405)
        assert page.process.poll() is None

    def test_headers(self, page):
        for place in ("", "static/app.js", "nowhere"):
            answer, _ = page.get(place)
            assert answer.getheader("referrer-policy") == "no-referrer"
            assert answer.getheader("cache-control") == "no-store"
            assert answer.getheader("x-content-type-options") == "nosniff"
            policy = answer.getheader("content-security-policy")
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert "http" not in policy
            assert answer.getheader("access-control-allow-origin") is None


class TestPaths:
    @pytest.mark.parametrize(
        "path",
        ["../secret.csv", "study/../../secret.csv", "/etc/passwd", "link.csv", "folder/secret.csv", "~/x",
         "C:\\x", "\\\\host\\share", "a\0b", "a\nb", ".viewloom-app", "study/.hidden", "..", "%2e%2e/x.csv"],
    )  # fmt: skip
    @pytest.mark.parametrize("place", ["preview", "download"])
    def test_nothing_outside_is_read(self, page, root, place, path):
        secret = root.parent / "secret.csv"
        secret.write_text("id,x\ntop-secret,1\n")
        for name, target in (("link.csv", secret), ("folder", root.parent)):
            if not (root / name).is_symlink():
                (root / name).symlink_to(target)
        answer, text = page.get(place, path=path)
        assert answer.status == 400, text
        assert "top-secret" not in text
        assert "root:" not in text

    @pytest.mark.parametrize("path", ["../x", "/tmp/x", "folder/x", "a/../../x"])
    def test_nothing_outside_is_written(self, page, root, path):
        before = sorted(root.parent.iterdir())
        file = "study/study.toml"
        assert page.post("fit", file=file, output=path, clusters="choose")[0].status == 400
        assert page.post("simulate", name=path)[0].status == 400
        assert page.post("draft", below=path)[0].status == 400
        assert page.post("fit/discard", file=file, output=path)[0].status == 400
        assert sorted(root.parent.iterdir()) == before

    def test_a_study_may_not_be_pointed_outside(self, page, root):
        path = root / "study" / "study.toml"
        before = path.read_text()
        digest = re.search(r'name="digest" value="(\w+)"', page.get("study", file="study/study.toml")[1])[1]
        text = before.replace('path = "vbm.csv"', 'path = "../../secret.csv"')
        answer, shown = page.post("study/text", file="study/study.toml", digest=digest, text=text)
        assert answer.status == 400
        assert "outside the folder" in shown
        assert path.read_text() == before

    def test_safe_name_of_a_download(self, page, root):
        name = 'a"; filename=b\u202e.csv'
        (root / name).write_text("id,x\n")
        answer, _ = page.get("download", path=name)
        assert answer.status == 200
        shown = answer.getheader("content-disposition")
        assert shown.startswith("attachment; filename*=utf-8''a%22%3B%20filename%3Db%E2%80%AE.csv")
        assert answer.getheader("content-type") == "application/octet-stream"


def test_hostile_names_stay_text(serve, tmp_path):
    for name in NAMES:
        (tmp_path / name).write_text(f'id,"{HARM}"\ns1,1\ns2,"{HARM}"\n')
    page = serve().open()
    for text in [page.get("")[1], *(page.get("preview", path=name)[1] for name in NAMES)]:
        assert HARM not in text
        assert "<img src=x" not in text
        assert 'onmouseover="x"' not in text
        assert "\u202e" not in text
        assert "49" not in re.findall(r"\{\{[^}]*\}\}|\b49\.csv", text)
    answer, _ = page.post("use", ("view", "1"), path="-o.csv", name=HARM, id="id", format="table", file="")
    assert answer.status in (303, 400)
    shown = page.get("study", file="study.toml")[1]
    assert HARM not in shown


class TestLoad:
    def test_two_hundred_requests_at_once(self, page):
        def one(i):
            return page.get(["", "subjects", "static/app.css", "preview"][i % 4], path="study/vbm.csv")[
                0
            ].status

        with ThreadPoolExecutor(200) as pool:
            assert set(pool.map(one, range(200))) == {200}

    def test_slow_clients_hold_nobody_up(self, page):
        host, port = page.host.split(":")
        slow = [socket.create_connection((host, int(port))) for _ in range(60)]
        try:
            for i, one in enumerate(slow):
                one.sendall(f"POST {page.url('check')} HTTP/1.1\r\nHost: {page.host}\r\n".encode()[: 20 + i])
            began = time.monotonic()
            assert page.get("")[0].status == 200
            assert time.monotonic() - began < 20
        finally:
            for one in slow:
                one.close()

    @pytest.mark.parametrize("size", [2 << 20, 40 << 20])
    def test_oversized_forms_are_refused(self, page, size):
        connection = http.client.HTTPConnection(page.host, timeout=60)
        headers = {"Cookie": page.cookie, "Origin": f"http://{page.host}", "Content-Length": str(size)}
        headers["Content-Type"] = "application/x-www-form-urlencoded"
        connection.putrequest("POST", page.url("check"))
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders(b"csrf=" + b"x" * 1000)
        assert connection.getresponse().status == 413
        connection.close()

    def test_oversized_chunks_are_refused(self, page):
        connection = http.client.HTTPConnection(page.host, timeout=60)
        headers = {"Cookie": page.cookie, "Origin": f"http://{page.host}"}
        headers |= {"Content-Type": "application/x-www-form-urlencoded"}
        try:
            connection.request("POST", page.url("check"), (b"x" * 65536 for _ in range(64)), headers)
            status = connection.getresponse().status
        except (BrokenPipeError, ConnectionResetError):  # it stopped to listen
            status = 413
        assert status == 413

    def test_many_fields_are_refused(self, page):
        assert page.post("check", *[("a", "b")] * 6000)[0].status == 400

    @pytest.mark.parametrize("kind", ["multipart/form-data; boundary=x", "application/json", "text/plain"])
    def test_other_bodies_are_refused(self, page, kind):
        assert page.ask("POST", page.url("check"), f"csrf={page.csrf}", Content_Type=kind)[0].status == 415


def test_closes_when_unused(serve, tmp_path):
    page = serve(tmp_path, "--idle", "0.02")
    assert page.process.wait(timeout=60) == 0


def test_listens_to_this_machine_only(page):
    port = int(page.host.split(":")[1])
    addresses = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    for address in addresses - {"127.0.0.1"}:
        if not address.startswith("127."):
            with pytest.raises((ConnectionError, TimeoutError)):
                socket.create_connection((address, port), timeout=2).close()


def test_other_users_read_nothing(page, root):
    """What the page keeps of its jobs is in a folder of its own."""
    page.wait(page.start("check", file="study/study.toml"))
    hidden = root / ".viewloom-app"
    assert hidden.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o077 for path in hidden.rglob("*") if path.is_dir()} == {0}


def test_unhandled_errors_tell_nothing(page, root):
    """A damaged run folder, read-only folders and the like end in a page, not in a traceback."""
    (root / "damaged").mkdir(exist_ok=True)
    (root / "damaged" / "run.json").write_text('{"settings": 3, "cluster_names": 7, "private": 5}')
    for place, query in (("run", {}), ("compare", {"other": "damaged"}), ("report", {})):
        answer, text = page.get(place, run="damaged", **query)
        assert answer.status in (400, 500)
        assert "Traceback" not in text


def test_threads_are_not_left_behind(page):
    assert threading.active_count() < 50
    assert os.path.exists("/proc") is False or len(os.listdir(f"/proc/{page.process.pid}/fd")) < 150
