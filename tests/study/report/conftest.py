"""Results to report on: a small simulated cohort, and the same with names that are out to do harm."""

import copy
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest

import viewloom as vl
from viewloom.evaluation.inspection import view_agreement, view_contributions
from viewloom.evaluation.selection import ClusterEvidence, ClusterNumber
from viewloom.evaluation.selection.stability import Stability
from viewloom.study.check import Check
from viewloom.study.notes import Count, Note
from viewloom.study.preparation.fitted import Preparation
from viewloom.study.report import figures, summarize, to_html
from viewloom.study.results import Results, Roles

K, WIDE = 3, 45  # clusters, and features of a view
HOSTILE = [
    "<script>window.harmed = 1</script>",
    "</script></style><img src=x onerror='window.harmed = 1'>",
    '" onmouseover="window.harmed = 1" x=\'',
    '=HYPERLINK("http://example.org/", "click")',
    "javascript:window.harmed=1",
    "{{ 7 * 7 }}{% raw %}",
    "$\\frac{1}{2}$",
    "\u202egnp.exe\u202c",
    "א" * 60,
    "x" * 10_000,
    "two\nlines\x00\t",
    " ",
]
FEWER = partial(view_agreement, n_resamples=20)
ROLES = Roles("diagnosis", "site", ["age", "sex"], ["mmse", "apoe"], ("conversion_time", "conversion_event"))


def changed(results, **attributes):
    """Results of a model with other fitted attributes."""
    model = copy.copy(results.model)
    vars(model).update(attributes)
    return replace(results, model=model)


def of_model(views, participants, **settings):
    model = vl.KernelMultiviewNMF(K, kernel="linear", random_state=0, **settings).fit(views)
    return {
        "model": model,
        "views": views,
        "participants": participants,
        "importance": {name: model.feature_importance(name) for name in views.names},
    }


def cohort_of():
    """120 participants, 3 sites, four views of up to 45 features; some views are missing."""
    cohort = vl.simulate.adni_like(30, 60, 30, missing=0.1, n_sites=3, random_state=0)
    frames = {
        name: pd.DataFrame(X[:, :WIDE], columns=cohort.views.feature_names[name][:WIDE])
        for name, X in cohort.views.items()
    }
    return vl.Views(frames, ids=cohort.participants.index), cohort.participants


def compared(views, participants):
    return vl.compare(views, participants["diagnosis"], methods=["k-means", "ours, linear"], seeds=1)


def counted():
    """A result of `choose_k`, made up."""
    table = pd.DataFrame({"k": [2, 3, 4], "stability": [0.7, 0.9, 0.6], "twin_stability": [0.6, 0.6, 0.5]})
    table = table.assign(pac=0.1, prediction_strength=0.8, gap=[0.1, 0.3, 0.1], clear=[False, True, False])
    return ClusterNumber(3, ["because"], table, None, None, [])


def compared_with_twins(verdict="clusters"):
    """A comparison with twins, made up."""
    gap, stable = {"clusters": (0.4, 0.95), "cuts": (0.02, 0.8), "not reproducible": (0.0, 0.3)}[verdict]
    table = pd.DataFrame(
        {"data": [stable, 0.3, 0.9], "twins": [0.5, 0.3 / (1 - gap), 0.8], "twins_std": 0.1, "z": 1.0},
        index=["stability", "loss", "separation"],
    )
    return ClusterEvidence(verdict, table, gap, 10)


@pytest.fixture(scope="session")
def results():
    views, participants = cohort_of()
    return Results(
        name="Small cohort",
        preparation=Preparation.fit(views),
        roles=ROLES,
        stability=Stability(pd.Series([0.9, 0.8, 0.76]), pd.Series(0.5, index=views.ids), 0.85),
        comparison=compared(views, participants),
        numbers=counted(),
        check=Check(
            "x", 120, pd.DataFrame(), pd.Series(dtype=int), {}, {}, pd.DataFrame(), {}, pd.DataFrame(), [], []
        ),
        notes=[
            Note(("view 'fdg': ", Count(3, "subject"), " without any value left out")),
            Note(("participants: ", Count(30, "subject"), " have no view")),
        ],
        settings={
            "model": {"n_clusters": K, "kernel": "linear"},
            "views": {"fdg": {"path": "/home/anna/fdg.csv"}},
        },
        versions={"viewloom": vl.__version__, "numpy": np.__version__},
        seed=7,
        inputs={"/home/anna/fdg.csv": "ab" * 32},
        min_cell=11,
        evidence=compared_with_twins(),
        **of_model(views, participants),
    )


@pytest.fixture(scope="module")
def contributions(results):
    return view_contributions(results.model)


@pytest.fixture
def _once(contributions, monkeypatch):
    """Contributions and agreement of views take time and say nothing about what these tests change."""

    def same(model):
        return replace(contributions, labels=model.labels_)

    monkeypatch.setattr("viewloom.study.report.findings.view_contributions", same)
    monkeypatch.setattr("viewloom.study.report.findings.view_agreement", FEWER)


@pytest.fixture(scope="session")
def hostile(results):
    """The same study, with harmful names of study, views, features, columns, categories and settings."""
    people = results.participants.copy()
    people["diagnosis"] = people["diagnosis"].map(dict(zip(["HC", "MCI", "AD"], HOSTILE[:3], strict=True)))
    columns = dict(
        zip(["diagnosis", "mmse", "apoe", "age", "sex", "site", "conversion_event"], HOSTILE, strict=False)
    )
    people = people.rename(columns=columns)
    frames = {
        HOSTILE[-4 + a]: pd.DataFrame(
            X, columns=[*HOSTILE, *(f"{name}{j}" for j in range(X.shape[1] - len(HOSTILE)))]
        )
        for a, (name, X) in enumerate(results.views.items())
    }
    return replace(
        results,
        name=HOSTILE[1],
        roles=Roles(columns["diagnosis"], columns["site"], [columns["age"], columns["sex"]],
                    [columns["mmse"], columns["apoe"]], ("conversion_time", columns["conversion_event"])),
        notes=[Note((text,)) for text in HOSTILE],
        settings=dict(enumerate(HOSTILE)),
        versions={HOSTILE[0]: HOSTILE[1]},
        inputs={HOSTILE[0]: HOSTILE[1]},
        **of_model(vl.Views(frames, ids=results.views.ids), people),
    )  # fmt: skip


@pytest.fixture(scope="session")
def summary(results):
    return summarize(results)


@pytest.fixture(scope="session")
def page(results, summary):
    return to_html(summary, figures(results, summary))


@pytest.fixture(scope="session")
def hostile_page(hostile):
    told = summarize(hostile, subjects=True)
    return to_html(told, figures(hostile, told))
