"""The page and the command line write the same files, byte for byte.

Jobs of the page are commands in another process. Of those that take long, or write files that others write as
well (`report` and `figures`: `rename` and `paper`), `test_settings_page` compares the commands themselves.
"""

import json
import re
import shutil
import zipfile

import pytest
from local_page import QUICK, Page
from small import write_small
from typer.testing import CliRunner

from viewloom.cli import app

FILE = "study/study.toml"


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """The same steps through the page and by commands, in two folders of the same name."""
    pytest.importorskip("docx")
    pytest.importorskip("openpyxl")
    page_root, command_root = (tmp_path_factory.mktemp(name) / "root" for name in ("page", "commands"))
    write_small(page_root / "study", QUICK)
    write_small(page_root / "new", QUICK, random_state=1)
    write_small(page_root / "draft", QUICK)
    shutil.copytree(page_root, command_root)
    by_page(page_root)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(command_root)
        by_commands()
    return page_root, command_root


def by_page(root):
    page = Page(root).open()
    try:
        page.run("simulate", name="example")
        page.run("draft", below="draft", overwrite="on")
        page.run("check", file=FILE)
        shutil.copy(next(root.glob(".viewloom-app/*/check/overlaps.svg")), root / "overlaps.svg")
        run = "study/study-results"
        page.run("fit", file=FILE, clusters="number", n_clusters="2")
        page.run("run/rename", run=run, **{"name-0": "limbic", "name-1": "2"})
        page.run("run/paper", ("format", "svg"), run=run)
        page.run("subjects/predict", run=run, other="new/study.toml")
        page.run("subjects/replicate", run=run, other="new/study.toml")
    finally:
        page.close()


def by_commands():
    study = f"{QUICK}".replace('kernel = "linear"\n', 'kernel = "linear"\nn_clusters = 2\n')
    run = "study/study-results"
    for command in (
        "simulate example", "init draft --overwrite --json", f"check {FILE} --json --picture overlaps.svg",
        "write", f"fit {FILE} --output {run}", f"rename {run} 1=limbic",
        f"paper {run} --format svg",
        f"predict {run} new/study.toml --output new/predictions.csv",
        f"replicate {run} new/study.toml --output new/study-replication",
    ):  # fmt: skip
        if command == "write":
            with open(FILE, "w", encoding="utf-8") as file:
                file.write(study)
            continue
        result = CliRunner().invoke(app, command.split())
        assert result.exit_code == 0, result.output


def contents(root):
    """Files by path, without times, and without the random marks that matplotlib gives to clips."""
    found = {}
    for path in root.rglob("*"):
        name = path.relative_to(root).as_posix()
        if path.is_file() and not name.startswith(".viewloom-app"):
            found[name] = content(path)
    return found


def content(path):
    if path.suffix in (".docx", ".xlsx"):
        with zipfile.ZipFile(path) as archive:
            return {name: archive.read(name) for name in archive.namelist() if name != "docProps/core.xml"}
    data = path.read_bytes()
    if path.name == "run.json":
        return re.sub(rb'"finished": "[^"]*"', b"", data)
    if path.name == "model.safetensors":  # seconds of each iteration, and the digest of all
        length = int.from_bytes(data[:8], "little")
        head = re.sub(rb"seconds.*?\]\]|[0-9a-f]{64}", b"", data[8 : 8 + length]).rstrip()  # padded
        return head, data[8 + length :]
    return (
        re.sub(rb"(?<=[#\"])[a-z][0-9a-f]{10}|<dc:date>.*?</dc:date>", b"", data)
        if path.suffix == ".svg"
        else data
    )


def test_the_same_files(both):
    by_page, by_command = map(contents, both)
    assert sorted(by_page) == sorted(by_command)
    different = [name for name in by_page if by_page[name] != by_command[name]]
    assert different == []
    assert len(by_page) > 60


def test_the_same_permissions(both):
    modes = [
        {path.name: path.stat().st_mode for path in (root / "study" / "study-results").iterdir()}
        for root in both
    ]
    assert modes[0] == modes[1]
    assert modes[0]["labels.csv"] & 0o777 == 0o600


def test_comments_of_the_study_stay(both):
    """Everything but the number of clusters is as it was written."""
    text = (both[0] / FILE).read_text()
    assert text.replace("n_clusters = 2\n", "") == QUICK
    assert json.loads((both[0] / "study/study-results/run.json").read_text())["cluster_names"] == [
        "limbic",
        "2",
    ]
