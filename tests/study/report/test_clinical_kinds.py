"""Reports of clinical variables of every kind, however values are missing and however clusters are filled."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from small import STUDY, write_small
from study.report.conftest import changed, of_model
from typer.testing import CliRunner

import viewloom as vl
from viewloom import KernelMultiviewNMF
from viewloom.cli import rendering as console
from viewloom.cli.commands import app
from viewloom.clinical import Known
from viewloom.evaluation.selection.stability import Stability
from viewloom.study import read_study
from viewloom.study import run as runs
from viewloom.study.preparation.fitted import Preparation
from viewloom.study.report import figures, summarize, to_html
from viewloom.study.report.findings import findings
from viewloom.study.results import Roles
from viewloom.study.run.tables import metrics

N, NARROW = 120, 6  # subjects, and features of a view
SIZES = {
    "two equal": (60, 60, 0),
    "the first is empty": (0, 60, 60),
    "the middle is empty": (70, 0, 50),
    "a single subject": (1, 59, 60),
    "one for all": (120, 0, 0),
    "three": (40, 40, 40),
}
MISSING = {
    "none": lambda labels: np.zeros(N, dtype=bool),
    "some": lambda labels: np.arange(N) % 4 == 0,
    "all of a cluster": lambda labels: labels == labels[-1],
    "all": lambda labels: np.ones(N, dtype=bool),
}
CASES = [  # every size with a cluster without values, the hardest, and all else once
    *((sizes, "all of a cluster") for sizes in SIZES),
    ("two equal", "none"),
    ("a single subject", "some"),
    ("the first is empty", "some"),
    ("three", "all"),
]


def clinical_of(labels):
    """A column of each kind; all differ between clusters."""
    rng = np.random.default_rng(0)
    score = 10.0 * labels + rng.normal(size=N)
    text = np.where(rng.uniform(size=N) < 0.1 + 0.4 * labels, "carrier", "none")
    return pd.DataFrame(
        {
            "real": score - 15.0,
            "integer": score.round().astype(int),
            "nullable integer": pd.array(score.round().astype(int), dtype="Int64"),
            "code": (text == "carrier").astype(int),
            "boolean": text == "carrier",
            "nullable boolean": pd.array(text == "carrier", dtype="boolean"),
            "text": text.astype(object),
            "string": pd.array(text, dtype="string"),
            "category": pd.Categorical(text),
            "number as text": [f"{value:.2f}" for value in score],
            "date": pd.Timestamp("2020-01-01") + pd.to_timedelta(score.round(), unit="D"),
            "constant": 1.0,
            "distinct": [f"name {i}" for i in range(N)],
            "mean (SD)": score,
            "tiny": 1e-12 * score,
            "huge": 1e12 * score,
            "time": np.abs(score) + 1.0,
            "event": (text == "carrier").astype(float),
        }
    )


def hidden_where(people, gone):
    """The columns with missing values."""
    whole = people.astype({name: object for name in people if people[name].dtype.kind in "ib"})
    return whole.apply(lambda column: column.mask(gone)) if gone.any() else people


def study_of(results, sizes, missing, min_cell=11):
    """Results with clusters of these sizes, and clinical variables of every kind."""
    labels = np.repeat(np.arange(3), sizes)
    people = hidden_where(clinical_of(labels), MISSING[missing](labels)).set_axis(results.views.ids)
    names = list(people.columns[:-2])
    half = np.arange(N) % 2 == 0
    return replace(
        changed(results, labels_=labels, memberships_=0.8 * np.eye(3)[labels] + 0.2 / 3),
        participants=people,
        roles=Roles("text", "category", ["real"], [n for n in names if n not in ("text", "category", "real")],
                    ("time", "event")),
        stability=Stability.of(labels, [labels, labels], [half, ~half], people.index),
        min_cell=min_cell,
    )  # fmt: skip


@pytest.fixture(scope="module")
def results(results):
    """The same study with narrow views: only clinical variables matter here."""
    views = vl.Views(
        {name: pd.DataFrame(results.views[name][:, :NARROW]) for name in results.views.names},
        ids=results.views.ids,
    )
    preparation = Preparation.fit(views)
    return replace(results, preparation=preparation, **of_model(views, results.participants))


@pytest.mark.usefixtures("_once")
@pytest.mark.parametrize(("sizes", "missing"), CASES)
def test_every_kind_is_summarised(results, sizes, missing, capsys):
    study = study_of(results, SIZES[sizes], missing)
    told = summarize(study)
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    assert len(told["clusters"]) == len(metrics(study)["cluster_stability"]) == 3
    assert "nan" not in json.dumps(told["clusters"])
    console.print_results(study)
    assert all(str(size) in capsys.readouterr().out for size in SIZES[sizes][:1])


def drawn(study):
    """The page with the figures of all views together and of the first."""
    told = summarize(study, subjects=True)
    told["figures"] = [figure for figure in told["figures"] if figure["view"] in (None, 0)]
    return to_html(told, figures(study, told))


@pytest.mark.usefixtures("_once")
@pytest.mark.parametrize(
    ("sizes", "missing", "min_cell"),
    [
        ("the middle is empty", "some", 1),
        ("one for all", "all", 11),
    ],
)
def test_every_kind_is_drawn(results, sizes, missing, min_cell):
    study = study_of(results, SIZES[sizes], missing, min_cell)
    assert drawn(study).count("<svg") > 3


@pytest.mark.usefixtures("_once")
def test_sentences_say_the_numbers_of_the_data(results):
    study = study_of(results, SIZES["two equal"], "some", min_cell=1)
    real = study.participants["real"].astype(float)
    here, everyone = real[study.model.labels_ == 1].mean(), real.mean()
    traits = " ".join(summarize(study)["clusters"][1]["traits"])
    assert f"igher real (mean {here:.1f}; all subjects {everyone:.1f})" in traits
    carriers = study.participants["text"] == "carrier"
    share, overall = carriers[study.model.labels_ == 1].mean(), carriers.mean()
    assert f"text carrier ({share:.0%}; all subjects {overall:.0%})" in traits


@pytest.mark.usefixtures("_once")
def test_cells_sort_by_their_numbers(results):
    study = study_of(results, SIZES["two equal"], "some")
    table = next(table for table in summarize(study)["tables"] if table["id"] == "profile")
    rows = {(row[0]["text"], row[1]["text"]): row[2:] for row in table["rows"]}
    first = study.participants["real"][study.model.labels_ == 0].astype(float).mean()
    cell = rows["real", "mean (SD)"][0]
    assert first < 0  # a minus is no reason not to be sorted
    assert cell["value"] == round(first, 1)  # no digit more than is shown
    assert cell["text"].startswith(f"{first:.1f}".replace("-", "\N{MINUS SIGN}"))
    assert rows["real", "(missing)"][0]["value"] == 15.0


@pytest.mark.usefixtures("_once")
def test_what_is_hidden_is_hidden_in_numbers_too(results):
    study = study_of(results, (100, 15, 5), "some")
    found = findings(study)
    small = found.profile["2"]
    assert not any(isinstance(cell, Known) and cell.value > 0 for cell in small)


def test_a_study_whose_outcome_has_missing_values(tmp_path):
    """The whole way, by the command line: this crashed once all work was done."""
    write_small(tmp_path, f"{STUDY}[report]\nmin_cell = 3\n")
    path = tmp_path / "participants.csv"
    people = pd.read_csv(path)
    ready = runs.prepare(read_study(tmp_path / "study.toml"))
    labels = KernelMultiviewNMF(**ready.study.model.settings).fit(ready.views).labels_
    clusters = people["participant_id"].map(pd.Series(labels, index=ready.views.ids))
    people["mmse"] = 10.0 * clusters + np.arange(len(people)) % 7
    people["diagnosis"] = people["diagnosis"].mask(np.arange(len(people)) % 9 == 0)
    people.loc[::3, "mmse"] = np.nan
    people.to_csv(path, index=False)
    run = tmp_path / "run"
    fitted = CliRunner().invoke(app, ["fit", str(tmp_path / "study.toml"), "-o", str(run), "--jobs", "1"])
    assert fitted.exit_code == 0, fitted.output
    page = (run / "report.html").read_text(encoding="utf-8")
    assert "mmse (mean" in page
    (run / "report.html").unlink()
    assert CliRunner().invoke(app, ["report", str(run)]).exit_code == 0
    assert (run / "report.html").read_text(encoding="utf-8") == page


def test_as_many_clusters_as_may_be(tmp_path):
    write_small(tmp_path, f"{STUDY}n_clusters = 21\nmax_iter = 5\n[report]\nmin_cell = 1\n")
    results = runs.analyse(read_study(tmp_path / "study.toml"))
    console.print_results(results)
    assert len(results.sizes) == len(metrics(results)["cluster_stability"]) == 21
    assert drawn(results).count("<article") == 21
