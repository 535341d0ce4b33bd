"""Jobs: one at a time, stopped cleanly, and found again after the job or the server was killed."""

import io
import json
import os
import re
import signal
import time

from local_page import PATIENCE, QUICK
from small import STUDY, write_small

from viewloom.app import jobs

FILE = "study/study.toml"
OUTPUT = "study/study-results"


def until(true, what="it does not happen"):
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def holder(root):
    """The process of the job on the study."""
    for lock in root.glob(".viewloom-app/*/lock"):
        text = lock.read_text()
        if text and json.loads(text)["command"] == "fit":
            return json.loads(text)["pid"]
    return None


def stages(root):
    """The stages that a fit has begun."""
    found = list(root.glob(".viewloom-app/*/fit/progress.jsonl"))
    return re.findall(r'"stage": "([^"]*)"', found[0].read_text()) if found else []


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rsplit(b")", 1)[1].split()[0] != b"Z"
    except OSError:
        return False


def begin(page, root, splits=100):
    """Start a fit, and wait until it has finished its first stages; the address of its page."""
    job = page.start("fit", file=FILE, clusters="number", n_clusters="2", splits=str(splits))
    until(lambda: "Refitting on subsamples" in stages(root), "the fit does not begin")
    until(lambda: holder(root))
    return job


def test_one_at_a_time_and_events_and_cancelled_by_another_server(serve, tmp_path):
    """The fit has processes of its own, outlives its server, and leaves nothing behind once cancelled."""
    write_small(tmp_path / "study", f"{STUDY}[report]\ntwins = 0\n")
    page = serve().open()
    job = begin(page, tmp_path, splits=5000)  # longer than another server takes to start, on any machine
    answer, text = page.post("fit", file=FILE, clusters="choose")
    assert answer.status == 400
    assert "Another job is running" in text
    assert page.post("check", file=FILE)[0].status == 400
    events = first_event(page, job)
    assert events["state"] == "running"
    assert events["stage"]
    assert re.match(r"Step \d of \d+ · ", events["detail"])  # of the whole
    assert 0 < events["done"] < events["total"] == 1
    assert events["said"].startswith("2 clusters of ")  # known before the end
    pid = holder(tmp_path)
    page.process.kill()
    page.process.wait()
    assert alive(pid)
    again = serve().open()
    answer, _ = again.get("fit", file=FILE)
    assert answer.status == 303  # to the job
    assert 'id="progress"' in again.ask("GET", answer.getheader("location"))[1]
    assert again.post("job/stop", ("cancel", "1"), file=FILE, command="fit")[0].status == 303
    until(lambda: not alive(pid))
    assert sorted(path.name for path in (tmp_path / "study").glob(".*")) == []  # nothing is left behind
    assert not (tmp_path / OUTPUT).exists()
    text = again.get("fit", file=FILE)[1]
    assert "nothing is left of it" in text
    assert "Continue where it ended" not in text


def first_event(page, job):
    import http.client

    connection = http.client.HTTPConnection(page.host, timeout=60)
    path = job.replace("/job?", "/events?")
    connection.request("GET", path, headers={"Cookie": page.cookie})
    answer = connection.getresponse()
    assert answer.getheader("content-type").startswith("text/event-stream")
    line = answer.fp.readline()
    while not line.startswith(b"data: "):
        line = answer.fp.readline()
    connection.close()
    return json.loads(line.removeprefix(b"data: "))


def test_the_next_process_is_started_when_the_job_has_ended(tmp_path, monkeypatch):
    """Its imports would slow the job down."""
    made = []

    class Process:
        pid, ended = 0, None

        def __init__(self):
            self.stdin = io.StringIO()
            made.append(self)

        def poll(self):
            return self.ended

        def kill(self):
            self.ended = 1

        def wait(self):
            return self.ended

    monkeypatch.setattr(jobs, "_process", Process)
    known = jobs.Jobs(tmp_path)
    known.prepare()
    known.start("a", ["check"], "")
    assert known.status("a", "check").running
    assert len(made) == 1
    made[0].ended = 0
    assert known.status("a", "check").state == "lost"
    assert len(made) == 2
    known.close()
    assert known.status("a", "check").state == "lost"
    assert len(made) == 2


def test_a_killed_job_is_resumed(page, root):
    begin(page, root)
    pid = holder(root)
    os.killpg(pid, signal.SIGKILL)
    until(lambda: not alive(pid))
    until(lambda: "ended from outside" in page.get("fit", file=FILE)[1])
    arguments = json.loads(next(root.glob(".viewloom-app/*/fit/job.json")).read_text())["arguments"]
    assert "--splits" in arguments
    answer, text = page.post("fit/resume", file=FILE)
    assert answer.status == 303, text
    resumed = json.loads(next(root.glob(".viewloom-app/*/fit/job.json")).read_text())["arguments"]
    assert resumed == [*arguments, "--resume"]
    until(lambda: "Leaving out views" in stages(root))
    page.post("job/stop", ("pause", "1"), file=FILE, command="fit")  # paused: what is finished is kept
    assert (root / "study" / ".study-results.unfinished").is_dir()
    assert "Continue where it ended" in page.get("fit", file=FILE)[1]
    assert page.post("fit/discard", file=FILE, output=OUTPUT)[0].status == 303
    assert not (root / "study" / ".study-results.unfinished").exists()


def test_errors_of_commands_are_shown_without_ids(page, root):
    write_small(root / "wrong", QUICK)
    table = root / "wrong" / "vbm.csv"
    lines = table.read_text().splitlines()
    table.write_text("\n".join([*lines, lines[1]]) + "\n")  # a duplicate id
    shown = page.ask("GET", page.run("check", file="wrong/study.toml"))[1]
    assert "What is wrong" in shown
    assert re.search(r"vbm\.csv: .*duplicate", shown)
    assert lines[1].split(",")[0] not in shown
