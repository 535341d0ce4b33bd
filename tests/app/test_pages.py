"""Pages in states that a walk through a study does not meet."""

import json
from pathlib import Path

import pytest
from local_page import asked

from viewloom.app import check_page, folder_page, routes, run_page, study_page
from viewloom.app.jobs import Jobs
from viewloom.runtime.errors import InputError
from viewloom.study import StudyError

FILE = "study/study.toml"


def test_an_error_leads_back_to_the_study(study):
    text = routes.refused(asked(study), StudyError("x")).body.decode()
    assert "To the study" in text
    assert "To the study" not in routes.refused(asked(study, file="gone.toml"), StudyError("x")).body.decode()


def test_the_only_study_of_a_folder_can_be_reached(study):
    text = folder_page.home(asked(study, "", file="")).body.decode()
    assert "/fit?file=study%2Fstudy.toml" in text.partition("</nav>")[0]


def test_nothing_given(study):
    with pytest.raises(InputError, match=r"The file: no such file\."):
        run_page.download(asked(study))
    with pytest.raises(InputError, match="Choose a study file"):
        folder_page.drafted(asked(study, file=""))


def checked(study, block, text="view 'vbm': a.csv: -4; set missing_codes = [-4]."):
    """As if a check had ended with a message."""
    folder = study.context.jobs.folder(FILE, "check")
    folder.mkdir(parents=True)
    (folder / "job.json").write_text(json.dumps({"arguments": [], "next": "", "about": {}, "began": 0.0}))
    line = {"missing_codes": [-4]}
    advice = {"block": block, "settings": line, "text": "missing_codes = [-4]", "condition": ""}
    found = {"problems": [text], "notes": [], "suggestions": {text: [advice]}}
    empty = {key: {} for key in ("views", "groups", "diagnoses", "aside", "participants", "sites")}
    (folder / "output.txt").write_text(json.dumps({**empty, **found, "ok": False, "subjects": 0}))
    (folder / "exit.json").write_text("2")
    return text


def test_what_a_message_suggests_is_written(study):
    message = checked(study, ["views", "vbm"])
    assert "missing_codes = [-4]</code>" in check_page.show(asked(study)).body.decode()
    study_page.apply(asked(study, message=message, number="0"))
    assert "missing_codes = [-4]" in (study.root / FILE).read_text()
    assert study.started[0][1][0] == "check"  # again


@pytest.mark.parametrize(
    ("block", "form"),
    [
        (["views", "vbm"], {"number": "1"}),
        (["views", "vbm"], {"number": "-1"}),
        (["views", "vbm"], {"message": "set missing_codes = [-4]"}),  # of no check
        (["views", "gone"], {}),
    ],
)
def test_suggestions_that_do_not_fit(study, block, form):
    before = (study.root / FILE).read_text()
    with pytest.raises(StudyError, match="does not fit the study any more"):
        study_page.apply(asked(study, **{"message": checked(study, block), "number": "0", **form}))
    assert (study.root / FILE).read_text() == before


def test_progress_of_the_whole(tmp_path):
    """The plan is at the beginning of a long record, the stage at its end."""
    jobs = Jobs(tmp_path, warm=False)
    folder = jobs.folder("a", "fit")
    folder.mkdir(parents=True)
    (folder / "job.json").write_text(json.dumps({"arguments": [], "next": "", "about": {}, "began": 0.0}))
    record(folder / "progress.jsonl")
    status = jobs.status("a", "fit")
    assert (status.stage, status.steps, status.said) == ("Fitting", (2, 2), ["2 clusters"])
    assert status.share == pytest.approx(0.25 + 0.75 * 0.9)
    assert status.left_of_all == pytest.approx(status.elapsed * (1 - status.share) / status.share)
    assert (status.done, status.total) == (900, 1000)


def record(path: Path):
    lines = [{"plan": {"Reading": 1, "Fitting": 3}}, {"stage": "Reading", "done": 0, "total": 1, "at": 0.0}]
    lines += [{"said": "2 clusters"}]
    lines += [{"stage": "Fitting", "done": i, "total": 1000, "at": float(i)} for i in range(901)]
    lines += [{"stage": "Iterations", "done": 1, "total": 9, "at": 901.0}]  # a part of fitting
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
