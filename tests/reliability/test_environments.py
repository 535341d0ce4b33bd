"""The command line in processes of its own: signals, streams, limits and variables of the environment."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import viewloom as viewloom_package

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals and limits of POSIX")
PROGRAM = [sys.executable, "-m", "viewloom"]
VARIABLES = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(viewloom_package.__file__).parents[1])}
LEAN = """
import sys
from viewloom.study.run import computations as stages
from viewloom.__main__ import main
stages.REFITS, stages.TWINS = 2, 0
sys.exit(main())
"""  # fewer refits than `viewloom` makes, or tests would take minutes


def answer_signals():
    """In a new process: under nohup, or in the background of a shell, signals are ignored."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def start(*arguments, program=PROGRAM, limit=None, **more):
    """A running command; ``limit`` limits the files it may open."""

    def prepare():
        answer_signals()
        if limit is not None:
            limit()

    variables = {
        name: value for name, value in {**os.environ, **VARIABLES, **more}.items() if value is not None
    }
    return subprocess.Popen(
        [*program, *map(str, arguments)],
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=prepare if os.name == "posix" else None,
    )


def finished(process):
    """Exit code, output and errors, as bytes."""
    out, err = process.communicate(timeout=300)
    return process.returncode, out, err


def shell(line, *arguments, **more):
    """A command in a line of a shell, where it is ``"$@"``."""
    return start(*PROGRAM, *arguments, program=["bash", "-o", "pipefail", "-c", line, "bash"], **more)


def fewest_files():
    resource.setrlimit(resource.RLIMIT_NOFILE, (24, 24))


@pytest.fixture(scope="module")
def study(small_study, tmp_path_factory):
    return small_study(tmp_path_factory.mktemp("environments")) / "study.toml"


@pytest.fixture(scope="module")
def hostile_run(study, tmp_path_factory):
    """A fit where almost nothing is as it should be: exit code, output, errors, and the run folder."""
    place = tmp_path_factory.mktemp("hostile")
    (place / "home").mkdir(0o555)
    variables = {
        "MPLBACKEND": "no-such-backend",
        "PYTHONIOENCODING": "ascii",
        "HOME": str(place / "home" / "missing"),
        "MPLCONFIGDIR": None,
        "XDG_CACHE_HOME": None,
        "TMPDIR": str(place / "missing"),
        "LC_ALL": "de_DE.UTF-8",
        "TERM": "dumb",
        "COLUMNS": "20",
        "NO_COLOR": "1",
    }
    program = [sys.executable, "-c", LEAN]
    told = finished(start("fit", study, "--output", place / "run", "--jobs", 1, program=program, **variables))
    return *told, place / "run"


def test_fit_in_a_hostile_environment(hostile_run):
    code, out, err, run = hostile_run
    assert (code, err) == (0, b"")
    text = out.decode("ascii")
    assert f"Results in {run}" in text
    assert "?" not in text  # whatever is drawn has a form of ASCII
    assert "\x1b" not in text
    assert all(word in text for word in ("vbm", "fdg", "weight", "stability", "features"))  # nothing cut
    assert "<svg" in (run / "report.html").read_text(encoding="utf-8")
    weights = (run / "weights.csv").read_text(encoding="utf-8").splitlines()
    assert 0 < float(weights[1].split(",")[1]) < 1  # decimal points, whatever the locale


READ = {
    "head": ('"$@" | head -n 1', {}),
    "cp1252": ('"$@"', {"PYTHONIOENCODING": "cp1252"}),
    "C": ('"$@"', {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "HOME": None}),
}
CLOSED = {  # whatever is printed; a help text starts in a tenth of the time
    "no stdout": ('"$@" >&-', 0, ""),
    "no streams": ('"$@" <&- >&- 2>&-', 0, ""),
    "full stdout": ('"$@" > /dev/full', 1, "the standard output cannot be written"),
}


@pytest.fixture(scope="module")
def checked(study):
    """All of `READ` and `CLOSED`, side by side."""
    running = {name: shell(line, "check", study, **more) for name, (line, more) in READ.items()}
    running |= {name: shell(line, "--help") for name, (line, *_) in CLOSED.items()}
    running["json"] = start("check", study, "--json", PYTHONIOENCODING="ascii")
    return {name: finished(process) for name, process in running.items()}


@pytest.mark.parametrize("name", READ)
def test_streams(checked, name):
    code, out, err = checked[name]
    assert (code, err) == (0, b"")
    assert out.startswith(b"Small ")
    if name in ("cp1252", "C"):
        assert b"Diagnoses" in out


@pytest.mark.parametrize("name", CLOSED)
def test_streams_that_cannot_be_written(checked, name):
    code, out, err = checked[name]
    expected, words = CLOSED[name][1:]
    assert (code, out) == (expected, b"")
    assert err.count(b"\n") == (1 if words else 0)
    assert words in err.decode()


def test_json_is_whole_in_every_encoding(checked):
    code, out, _ = checked["json"]
    assert code == 0
    assert json.loads(out.decode("ascii"))["subjects"] == 42


def test_an_unreadable_error_still_has_its_code(tmp_path):
    assert finished(shell('"$@" 2>&-', "check", tmp_path / "nothing.toml")) == (2, b"", b"")


def test_too_few_files_are_known_before_work_begins(study, tmp_path):
    code, _, err = finished(start("fit", study, "--output", tmp_path / "run", limit=fewest_files))
    assert code == 2
    assert err.startswith(b"Error: only 24 files may be open at the same time")
    assert err.count(b"\n") == 1
    assert list(tmp_path.iterdir()) == []


def children(pid):
    """Processes that a process has started."""
    try:
        found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [int(child) for child in found]


def workers(pid):
    """Those of joblib among them."""
    return [child for child in children(pid) if b"popen_loky" in _command(child)]


def _command(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def waited(found, process, seconds=600):
    """What ``found()`` returns, once it is something."""
    for _ in range(seconds * 50):
        if result := found():
            return result
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    raise TimeoutError


def catches(pid, number):
    """Whether a process answers a signal by itself."""
    status = Path(f"/proc/{pid}/status").read_text()
    caught = int(status.split("SigCgt:")[1].split()[0], 16)
    return bool(caught >> (number - 1) & 1)


on_linux = pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="processes are read from /proc")
STOPPED = {
    "select": (("--output", "settings.csv"), signal.SIGTERM, 143, "--resume to continue"),
    "compare": (("--output", "compared"), signal.SIGINT, 130, "interrupted"),
    "fit": (("--output", "run"), signal.SIGHUP, 129, "--resume to continue"),
}


@on_linux
@pytest.mark.parametrize("name", STOPPED)
def test_a_command_that_is_stopped_leaves_no_process(study, tmp_path, name):
    (option, file), number, code, words = STOPPED[name]
    process = start(name, study, option, tmp_path / file)
    running = waited(lambda: len(workers(process.pid)) == 2 and children(process.pid), process)
    process.send_signal(number)
    found, out, err = finished(process)  # which waits until nobody holds its output any more
    began = time.monotonic()
    while any(map(alive, running)) and time.monotonic() - began < 60:
        time.sleep(0.05)
    assert [pid for pid in running if alive(pid)] == []
    assert (found, out) == (code, b""), err
    assert err.startswith(b"Error: interrupted")
    assert err.count(b"\n") == 1
    assert words in err.decode()
    shown = [path for path in tmp_path.rglob("*") if path.is_file() and ".unfinished" not in str(path)]
    assert shown == []


WORKERS = """
import sys, time
from joblib import Parallel, delayed
from viewloom.runtime.workers import watched
def work(i):
    print("at work", flush=True)
    time.sleep(600)
Parallel(2)(delayed(watched)(work, i) for i in range(2))
"""


@on_linux
def test_workers_end_with_a_process_that_is_killed():
    process = start(program=[sys.executable, "-c", WORKERS])
    assert [process.stdout.readline() for _ in range(2)] == [b"at work\n"] * 2
    running = workers(process.pid)
    assert len(running) == 2
    process.kill()
    process.communicate(timeout=60)  # until nobody holds its output any more
    assert [pid for pid in running if alive(pid)] == []


@on_linux
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_during_imports(study, number, code):
    process = start("check", study)
    waited(lambda: catches(process.pid, signal.SIGTERM), process)
    process.send_signal(number)
    assert finished(process) == (code, b"", b"Error: interrupted.\n")


INTERRUPTED = """
import os, signal, sys
from viewloom.runtime.workers import exit_code, stop_on_signals

stop_on_signals()
try:
    exec(f"os.kill(os.getpid(), {sys.argv[1]})")  # as in the definition of a data class
except KeyboardInterrupt:
    sys.exit(exit_code())
"""


@on_linux
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_during_code_that_is_made_of_text(tmp_path, number, code):
    (tmp_path / "interrupted.py").write_text(INTERRUPTED)
    command = [sys.executable, "-m", "interrupted", str(int(number))]
    done = subprocess.run(command, cwd=tmp_path, check=False, timeout=300, preexec_fn=answer_signals)
    assert done.returncode == code


FINALIZED = """
import os, signal, sys, time, weakref
from viewloom.runtime.workers import exit_code, stop_on_signals

class Collected:
    pass

stop_on_signals()
collected = Collected()
reference = weakref.ref(collected, lambda _: os.kill(os.getpid(), int(sys.argv[1])))
try:
    del collected  # Python prints the errors of the callback and goes on
    time.sleep(1)
except KeyboardInterrupt:
    sys.exit(exit_code())
"""


@on_linux
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_during_a_finalizer(number, code):
    command = [sys.executable, "-c", FINALIZED, str(int(number))]
    done = subprocess.run(command, check=False, timeout=300, capture_output=True, preexec_fn=answer_signals)
    assert (done.returncode, done.stdout, done.stderr) == (code, b"", b"")


SLOW = """
import time
from viewloom.runtime.workers import stop_on_signals

stop_on_signals()
try:
    time.sleep(60)
finally:
    time.sleep(60)  # as code that waits for its threads
"""


@on_linux
def test_a_command_that_is_ended_by_force_says_so():
    process = start("-c", SLOW, program=[sys.executable])
    waited(lambda: catches(process.pid, signal.SIGTERM), process)
    process.send_signal(signal.SIGTERM)
    code, _, errors = finished(process)
    assert (code, errors.strip()) == (143, b"Error: interrupted; earlier results are unchanged.")


@on_linux
def test_nohup_is_respected(study):
    process = shell('trap "" HUP; exec "$@"', "check", study)
    waited(lambda: catches(process.pid, signal.SIGTERM), process)
    process.send_signal(signal.SIGHUP)
    code, out, err = finished(process)
    assert (code, err) == (0, b"")
    assert out.startswith(b"Small ")


def test_make_takes_any_python_that_is_new_enough(tmp_path):
    script = Path(__file__).parents[2] / "scripts" / "find-python.sh"
    if not script.exists() or shutil.which("sh") is None:
        pytest.skip("the sources are not here")
    place = tmp_path / "with blanks"
    place.mkdir()
    new, old, bare = (place / name for name in ("new python", "old", "bare"))
    new.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    old.write_text("#!/bin/sh\nexit 1\n")
    bare.write_text('#!/bin/sh\ncase "$2" in *version_info*) exit 0;; esac\nexit 1\n')
    for program in (new, old, bare):
        program.chmod(0o755)

    def find(*candidates):
        return subprocess.run(["sh", script, *candidates], capture_output=True, text=True)

    assert find(old, bare, new).stdout.strip() == str(new)
    assert find(old).returncode == find(bare).returncode == 1
    assert "No Python 3.11 or newer" in find(old).stderr
    assert "venv" in find(bare).stderr
