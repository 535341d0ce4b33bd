"""The hidden folder beside a run: nobody else's is used, and nothing outside of it is touched."""

import os
import stat
from pathlib import Path

import pytest
from small import without_figures, write_small
from typer.testing import CliRunner

from viewloom.cli.commands import app
from viewloom.study.errors import StudyError
from viewloom.study.run import staging as places
from viewloom.study.run.staging import workplace

pytestmark = pytest.mark.skipif(os.name != "posix", reason="links, owners and modes of POSIX")
AS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0


@pytest.fixture
def victim(tmp_path):
    """A folder of somebody else, with what a run folder and its hidden folder have."""
    folder = tmp_path / "victim"
    for name in ("checkpoints", "new", "old"):
        (folder / name).mkdir(parents=True)
        (folder / name / "thesis.txt").write_text("years of work")
    (folder / "letter.txt").write_text("dear all")
    return folder


def everything(folder):
    return {
        str(path.relative_to(folder)): (path.lstat().st_mode, path.is_file() and path.read_bytes())
        for path in folder.rglob("*")
    }


def linked(hidden, victim):
    hidden.symlink_to(victim)


def linked_to_a_file(hidden, victim):
    hidden.symlink_to(victim / "letter.txt")


def dangling(hidden, victim):
    hidden.symlink_to(victim / "not there")


def looping(hidden, victim):
    hidden.symlink_to(hidden)


def a_file(hidden, victim):
    hidden.write_text("a file")


def a_pipe(hidden, victim):
    os.mkfifo(hidden)


def open_to_all(hidden, victim):
    hidden.mkdir()
    hidden.chmod(0o777)


def open_to_the_group(hidden, victim):
    hidden.mkdir()
    hidden.chmod(0o770)


def inner_link(name):
    def trap(hidden, victim):
        hidden.mkdir(mode=0o700)
        (hidden / name).symlink_to(victim / name)

    trap.__name__ = f"{name}_is_a_link"
    return trap


def link_among_checkpoints(hidden, victim):
    hidden.mkdir(mode=0o700)
    (hidden / "checkpoints").mkdir()
    (hidden / "checkpoints" / "key").symlink_to(victim)


def pipe_among_checkpoints(hidden, victim):
    hidden.mkdir(mode=0o700)
    (hidden / "checkpoints" / "key").mkdir(parents=True)
    os.mkfifo(hidden / "checkpoints" / "key" / "model.safetensors")


def of_another_user(hidden, victim):
    hidden.mkdir(mode=0o700)
    os.chown(hidden, 12345, 12345)


def checkpoint_of_another_user(hidden, victim):
    hidden.mkdir(mode=0o700)
    (hidden / "checkpoints").mkdir()
    (hidden / "checkpoints" / "file").write_text("x")
    os.chown(hidden / "checkpoints" / "file", 12345, 12345)


TRAPS = [
    linked, linked_to_a_file, dangling, looping, a_file, a_pipe, open_to_all, open_to_the_group,
    *map(inner_link, ("checkpoints", "new", "old")), link_among_checkpoints, pipe_among_checkpoints,
    *(pytest.param(trap, marks=pytest.mark.skipif(not AS_ROOT, reason="gives files away"))
      for trap in (of_another_user, checkpoint_of_another_user)),
]  # fmt: skip


@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize("trap", TRAPS)
def test_a_trap_is_refused_and_nothing_is_touched(tmp_path, victim, trap, resume):
    trap(tmp_path / ".run.unfinished", victim)
    before = everything(tmp_path)
    with (
        pytest.raises(StudyError, match=r"\.run\.unfinished: .*; remove it, or set another --output") as told,
        workplace(tmp_path / "run", resume=resume),
    ):
        pytest.fail("went to work")
    assert "\n" not in str(told.value)
    assert everything(tmp_path) == before


@pytest.mark.parametrize("command", ["fit", "select"])
def test_commands_fall_into_no_trap(tmp_path, victim, command):
    study = write_small(tmp_path / "files") / "study.toml"
    output = tmp_path / ("run" if command == "fit" else "found.csv")
    (tmp_path / f".{output.name}.unfinished").symlink_to(victim)
    before = everything(victim)
    said = CliRunner().invoke(app, [command, str(study), "--output", str(output)])
    assert said.exit_code == 2
    assert everything(victim) == before
    assert not output.exists()


@pytest.mark.parametrize(
    "leads_to", ["victim", "victim/letter.txt", "nowhere", "run"], ids=["folder", "file", "nothing", "itself"]
)
def test_an_output_that_is_a_link_is_not_replaced(tmp_path, victim, leads_to):
    (tmp_path / "run").symlink_to(tmp_path / leads_to)
    before = everything(tmp_path)
    with pytest.raises(StudyError, match="is a link"), workplace(tmp_path / "run"):
        pytest.fail("went to work")
    assert everything(tmp_path) == before


@pytest.mark.parametrize("output", ["/", "/proc", "/dev"])
def test_where_a_disk_begins(output):
    if not os.path.ismount(output):
        pytest.skip("no mount point here")
    with pytest.raises(StudyError, match="is a mount point"), workplace(output):
        pytest.fail("went to work")


def test_a_path_with_dots(tmp_path):
    (tmp_path / "a").mkdir()
    with workplace(tmp_path / "a" / ".." / "run") as place:
        assert place.target == tmp_path / "run"


def test_ones_own_earlier_folder_is_used_and_closed(tmp_path):
    """What an interrupted run has left, be it with other permissions."""
    kept = tmp_path / ".run.unfinished" / "checkpoints" / "file"
    kept.parent.mkdir(parents=True)
    kept.write_text("found before")
    kept.parent.parent.chmod(0o755)
    with workplace(tmp_path / "run", resume=True) as place:
        assert (place.checkpoints / "file").read_text() == "found before"
        assert stat.S_IMODE(place.hidden.stat().st_mode) == 0o700
    assert not place.hidden.exists()


def test_hard_links_are_let_go_not_written_through(tmp_path, victim):
    hidden = tmp_path / ".run.unfinished" / "checkpoints"
    hidden.mkdir(parents=True)
    os.link(victim / "letter.txt", hidden / "letter.txt")
    with workplace(tmp_path / "run"):
        pass
    assert (victim / "letter.txt").read_text() == "dear all"
    assert (victim / "letter.txt").stat().st_nlink == 1


def test_a_folder_swapped_while_it_is_opened_is_seen(tmp_path, victim, monkeypatch):
    """The check is of what was opened, not of what was there a moment before."""
    made = places._make

    def swapped(place):
        made(place)
        place.hidden.rmdir()
        place.hidden.symlink_to(victim)

    monkeypatch.setattr(places, "_make", swapped)
    before = everything(victim)
    with pytest.raises(StudyError, match="remove it"), workplace(tmp_path / "run"):
        pytest.fail("went to work")
    assert everything(victim) == before


@pytest.mark.parametrize("umask", [0o000, 0o077, 0o777])
def test_whatever_the_umask_the_folder_is_closed(tmp_path, umask):
    old = os.umask(umask)
    try:
        with workplace(tmp_path / "run") as place:
            assert stat.S_IMODE(place.hidden.stat().st_mode) == 0o700
    finally:
        os.umask(old)


def test_what_tells_of_subjects_is_private_from_its_first_byte(tmp_path, monkeypatch):
    """Modes of all files at the moment they are made, with a umask that takes nothing away."""
    seen, opened = {}, os.open

    def watched(path, flags, mode=0o777, **more):
        handle = opened(path, flags, mode, **more)
        if flags & os.O_CREAT and str(path).startswith(str(tmp_path)):
            seen[Path(path).name.removeprefix(".").split(".")[0]] = stat.S_IMODE(os.fstat(handle).st_mode)
        return handle

    study = write_small(tmp_path / "files") / "study.toml"
    old = os.umask(0)
    try:
        monkeypatch.setattr(os, "open", watched)
        arguments = ["fit", str(study), "-o", str(tmp_path / "run"), "--subjects", "--jobs", "1", "-q"]
        with without_figures():
            said = CliRunner().invoke(app, arguments)
    finally:
        os.umask(old)
    assert said.exit_code == 0, said.output
    assert {seen[name] for name in ("labels", "model", "report", "summary")} == {0o600}
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "run").iterdir()}
    private = {name for name, mode in modes.items() if mode == 0o600}
    assert private == {"labels.csv", "model.safetensors", "report.html", "summary.json"}
