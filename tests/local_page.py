"""The server of `viewloom app` as its users start it, and a client that asks as a browser does."""

import http.client
import re
import signal
import subprocess
import sys
import time
import urllib.parse
from types import SimpleNamespace

from small import STUDY

ONE_FIT = "100 KB"  # of memory: enough for one fit of such a study at a time, so no processes are started
QUICK = f'{STUDY}[report]\ntwins = 0\n[compute]\nmemory = "{ONE_FIT}"\n'
PATIENCE = 240  # seconds that a job may take on a busy machine


class Page:
    """A session with a server."""

    def __init__(self, folder, *options):
        command = [sys.executable, "-m", "viewloom", "app", str(folder), "--no-browser", "--quiet", *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.link = self.process.stdout.readline().strip()
        parts = urllib.parse.urlsplit(self.link)
        self.host, self.path = parts.netloc, f"{parts.path}?{parts.query}"
        self.base = f"/{parts.path.split('/')[1]}"
        self.cookie = self.csrf = ""

    def open(self):
        """Use the link."""
        answer, _ = self.ask("GET", self.path)
        self.cookie = answer.getheader("set-cookie").split(";")[0]
        self.csrf = re.search(r'name="csrf" value="([^"]+)"', self.get("")[1])[1]
        return self

    def ask(self, method, path, body=None, **headers):
        """One request; header names are given with underscores."""
        connection = http.client.HTTPConnection(self.host, timeout=60)
        sent = {"Host": self.host, "Cookie": self.cookie, "Origin": f"http://{self.host}"}
        sent |= {"Content-Type": "application/x-www-form-urlencoded"} if body is not None else {}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        connection.putrequest(method, path, skip_host=True)
        for name, value in sent.items():
            if value is not None:
                connection.putheader(name, value)
        data = None if body is None else body if isinstance(body, bytes) else body.encode()
        if data is not None:
            connection.putheader("Content-Length", str(len(data)))
        connection.endheaders(data)
        answer = connection.getresponse()
        text = answer.read().decode("utf-8", "replace")
        connection.close()
        return answer, text

    def get(self, place, **query):
        """A page."""
        return self.ask("GET", self.url(place, **query))

    def url(self, place, **query):
        return f"{self.base}/{place}" + (f"?{urllib.parse.urlencode(query)}" if query else "")

    def post(self, place, *pairs, csrf=None, **fields):
        """Send a form."""
        content = [("csrf", self.csrf if csrf is None else csrf), *pairs, *fields.items()]
        return self.ask("POST", f"{self.base}/{place}", urllib.parse.urlencode(content))

    def start(self, place, *pairs, **fields):
        """Send a form that starts a job; the address of the page that shows it."""
        answer, text = self.post(place, *pairs, **fields)
        assert answer.status == 303, text
        return answer.getheader("location")

    def run(self, place, *pairs, **fields):
        """Send a form that starts a job, and wait for its end; the address of its results."""
        return self.wait(self.start(place, *pairs, **fields))

    def wait(self, job):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            answer, text = self.ask("GET", job)
            if answer.status == 303:
                return answer.getheader("location")
            assert 'id="progress"' in text, text
            time.sleep(0.1)
        raise AssertionError("the job does not end")

    def close(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=60)


def asked(study, place="settings", **form):
    """A request to the page of the fixture `study`, past its gate."""
    from starlette.requests import Request

    scope = {
        "type": "http",
        "method": "POST",
        "path": f"{study.context.session.base}/{place}",
        "headers": [(b"host", b"127.0.0.1:1")],
        "query_string": b"",
        "app": SimpleNamespace(state=SimpleNamespace(context=study.context)),
        "form": {name: [value] for name, value in {"file": "study/study.toml", **form}.items()},
    }
    return Request(scope)
