"""Files of a study with rows and columns permuted, renamed, and with columns that must not be features.

Either the clusters are the same, or what was set aside is said with its cause, or the study is refused; and
`check` refuses what `fit` refuses, in the same words.
"""

import json
import re

import numpy as np
import pandas as pd
import pytest
from noted import texts
from small import STUDY
from threadpoolctl import threadpool_limits

from viewloom import KernelMultiviewNMF
from viewloom.study import StudyError, check, load, read_study, write_example
from viewloom.study.check import examine
from viewloom.study.run import prepare

WHOLE = STUDY.replace('columns = ["LH*", "LA*", "LP*"]\n', "").replace(
    'outcomes = ["mmse"]', 'outcomes = ["mmse"]\nsite = "site"'
)
FILES = ("participants.csv", "vbm.csv", "fdg.csv")
REGIONS = ("region", "suvr")


@pytest.fixture
def folder(small_study, tmp_path):
    """The small study, with all columns of its table as features."""
    path = small_study(tmp_path)
    (path / "study.toml").write_text(WHOLE, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def truth(small_study, tmp_path_factory):
    """Labels by id, and the features, of the study as it is."""
    path = small_study(tmp_path_factory.mktemp("truth"))
    (path / "study.toml").write_text(WHOLE, encoding="utf-8")
    return outcome(path)


def outcome(folder):
    """Labels by id, and the values that the model gets, by view."""
    study = read_study(folder / "study.toml")
    views = prepare(study).views
    with threadpool_limits(1):
        labels = KernelMultiviewNMF(**study.model.settings).fit(views).labels_
    return dict(zip(views.ids, labels.tolist(), strict=True)), features(views)


def features(views):
    """The values of each view, with columns in the order of their names."""
    return {
        name: pd.DataFrame(X, views.ids, views.feature_names[name]).sort_index(axis=1)
        for name, X in views.items()
    }


def assert_same_features(folder, truth):
    """The model gets what it got without the change, to the last bit, and so gives the same labels."""
    found = features(prepare(read_study(folder / "study.toml")).views)
    assert list(found) == list(truth[1])
    for name, frame in found.items():
        pd.testing.assert_frame_equal(frame, truth[1][name], check_exact=True)


def change(folder, file, edit):
    path = folder / file
    edit(pd.read_csv(path, dtype={"participant_id": str})).to_csv(path, index=False)


def setting(folder, old, new):
    path = folder / "study.toml"
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def refusal(folder):
    """The lines with which a study is refused, by check and fit alike."""
    found = check(read_study(folder / "study.toml"))
    with pytest.raises(StudyError) as caught:
        prepare(read_study(folder / "study.toml"))
    assert str(caught.value).split("\n") == found.problems
    assert not found.ok
    return "\n".join(found.problems)


def shuffled_columns(frame):
    return frame[np.random.default_rng(3).permutation(frame.columns)]


@pytest.mark.parametrize("file", FILES)
def test_the_order_of_rows_and_columns_means_nothing(folder, truth, file):
    change(folder, file, lambda frame: shuffled_columns(frame.sample(frac=1, random_state=1)))
    assert outcome(folder)[0] == truth[0]
    assert_same_features(folder, truth)


class TestRenamedColumns:
    def test_of_a_view(self, folder, truth):
        """A feature may be called anything but what the study names elsewhere."""
        change(folder, "vbm.csv", lambda f: f.rename(columns={"LInsula": "Größe (mm³)"}))
        labels, found = outcome(folder)
        assert labels == truth[0]
        assert "Größe (mm³)" in found["vbm"]

    @pytest.mark.parametrize("column", ["participant_id", "diagnosis", "age", "sex", "mmse", "site"])
    def test_of_the_participants(self, folder, column):
        change(folder, "participants.csv", lambda f: f.rename(columns={column: "other"}))
        assert f"{column!r}" in refusal(folder)

    @pytest.mark.parametrize("column", ["participant_id", *REGIONS])
    def test_of_a_long_table(self, folder, column):
        change(folder, "fdg.csv", lambda f: f.rename(columns={column: "other"}))
        assert f"{column!r}" in refusal(folder)


def predictions(folder, run, viewloom):
    result = viewloom("predict", run, folder / "study.toml", "--quiet")
    assert result.exit_code == 0, result.stderr
    return (folder / "predictions.csv").read_text()


def codes(column):
    return pd.factorize(column, sort=True)[0]


COPIES = {  # name of the column, its values for participants, why it is set aside
    "diagnosis by name": ("Diagnosis", lambda p: codes(p["diagnosis"]), "named under diagnosis"),
    "diagnosis as numbers": ("zz", lambda p: codes(p["diagnosis"]), "copy of 'diagnosis'"),
    "diagnosis in another order": (
        "zz",
        lambda p: (codes(p["diagnosis"]) + 1) % 3 * 7.5,
        "copy of 'diagnosis'",
    ),
    "patients or controls": ("zz", lambda p: (p["diagnosis"] != "HC") * 1, "copy of 'diagnosis'"),
    "diagnosis with gaps": (
        "zz",
        lambda p: pd.Series(codes(p["diagnosis"]), p.index).mask(np.arange(len(p)) % 5 == 0),
        "copy of 'diagnosis'",
    ),
    "age by name": ("AGE ", lambda p: p["age"], "named under covariates"),
    "age": ("zz", lambda p: p["age"], "copy of 'age'"),
    "age in months": ("zz", lambda p: (12 * p["age"]).round(), "copy of 'age'"),
    "age in whole years": ("zz", lambda p: p["age"].round(), "copy of 'age'"),
    "year of birth": ("zz", lambda p: 2011.0 - p["age"], "copy of 'age'"),
    "logarithm of age": ("zz", lambda p: np.log(p["age"]), "copy of 'age'"),
    "sex": ("zz", lambda p: codes(p["sex"]) + 1, "copy of 'sex'"),
    "outcome by name": ("m.m.s.e", lambda p: p["mmse"], "named under outcomes"),
    "outcome": ("zz", lambda p: 30 - p["mmse"], "copy of 'mmse'"),
    "site by name": ("SITE", lambda p: codes(p["site"]), "named under site"),
    "site": ("zz", lambda p: 100 + codes(p["site"]), "copy of 'site'"),
    "visit": ("VISCODE", lambda p: np.arange(len(p)) % 2, "column of visits"),
    "id by name": ("Participant-ID", lambda p: p.index.str[-4:].astype(int), "id of"),
    "id": ("zz", lambda p: p.index.str[-4:].astype(int), "number"),
}
COUNTERS = {  # the same, of columns that depend on the order of rows
    "row number": ("zz", lambda p: np.arange(1, len(p) + 1), "row numbers"),
    "row number from 0": ("zz", lambda p: np.arange(len(p)), "row numbers"),
    "row number of a longer file": ("zz", lambda p: 7 + 4 * np.arange(len(p)), "row numbers"),
    "row number of R": ("row.names", lambda p: 1 + np.arange(len(p)), "row numbers"),
    "row number of pandas": ("Unnamed: 0", lambda p: np.arange(len(p)), "row numbers"),
    "X": ("X", lambda p: np.arange(len(p)), "row numbers"),
    "counting down": ("zz", lambda p: len(p) - np.arange(len(p)), "row numbers"),
    "share of the file": ("zz", lambda p: np.arange(len(p)) / len(p), "number series"),
}
LEAKS = {**COPIES, **COUNTERS}
ROWS = {  # order of rows before and after the leak is added
    "as they are": (lambda f: f, lambda f: f),
    "sorted by group": (lambda f: f.sort_values("diagnosis", kind="stable"), lambda f: f),
    "shuffled afterwards": (lambda f: f, lambda f: f.sample(frac=1, random_state=2)),
}


def leaked(folder, leak, rows="as they are"):
    """Put a column into the table of the first view."""
    name, values, _ = LEAKS[leak]
    before, after = ROWS[rows]
    people = pd.read_csv(folder / "participants.csv").set_index("participant_id")

    def add(frame):
        who = people.loc[frame["participant_id"]]
        frame = before(frame.assign(diagnosis=who["diagnosis"].to_numpy())).drop(columns="diagnosis")
        return after(frame.assign(**{name: np.asarray(values(people.loc[frame["participant_id"]]))}))

    change(folder, "vbm.csv", add)
    return name.strip()


@pytest.mark.parametrize("rows", ROWS)
def test_what_the_study_names_elsewhere_is_set_aside_and_said(folder, truth, rows):
    """All at once; names that are alike get a number."""
    people = pd.read_csv(folder / "participants.csv").set_index("participant_id")
    names = {
        leak: name if name != "zz" else f"zz{j}" for j, (leak, (name, _, _)) in enumerate(COPIES.items())
    }
    before, after = ROWS[rows]

    def add(frame):
        who = people.loc[frame["participant_id"]]
        columns = {names[leak]: np.asarray(values(who)) for leak, (_, values, _) in COPIES.items()}
        leaks = pd.DataFrame({**columns, "diagnosis": who["diagnosis"].to_numpy()}, index=frame.index)
        return after(before(pd.concat([frame, leaks], axis=1)))

    change(folder, "vbm.csv", add)
    found = check(read_study(folder / "study.toml"))
    aside = found.aside["vbm"]
    assert set(aside) == {*(name.strip() for name in names.values()), "diagnosis"}
    wrong = {leak for leak, name in names.items() if COPIES[leak][2] not in aside[name.strip()]}
    assert wrong <= {"id"}, aside  # in files that are sorted by id, its number is that of a row
    assert str(found.notes[0]).startswith(f"view 'vbm': {len(aside)} columns set aside: ")
    assert_same_features(folder, truth)


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("leak", COUNTERS)
def test_row_numbers_are_set_aside_and_said(folder, truth, leak, rows):
    if rows == "shuffled afterwards" and leak in ("row number of a longer file", "share of the file"):
        pytest.skip("no number of a row any more")
    name, why = leaked(folder, leak, rows), COUNTERS[leak][2]
    found, ready = examine(read_study(folder / "study.toml"))
    assert list(found.aside["vbm"]) == [name]
    assert why in found.aside["vbm"][name] or "running numbers" in found.aside["vbm"][name]
    assert str(found.notes[0]).startswith(
        f"view 'vbm': 1 column set aside: {name!r} ({found.aside['vbm'][name]})"
    )
    assert list(features(ready.views)["vbm"]) == list(truth[1]["vbm"])


@pytest.mark.parametrize("leak", ["diagnosis as numbers", "age by name", "row number", "site"])
def test_a_column_named_in_full_is_a_feature_and_one_that_fits_a_pattern_is_not(folder, leak):
    name = leaked(folder, leak)
    for columns, kept in ((["L*", "R*", name], True), ([f"{name[:1]}*", "L*", "*"], False)):
        (folder / "study.toml").write_text(
            WHOLE.replace('"vbm.csv"', f'"vbm.csv"\ncolumns = {json.dumps(columns)}')
        )
        found = prepare(read_study(folder / "study.toml")).views
        assert (name in found.feature_names["vbm"]) == kept


@pytest.mark.parametrize("leak", ["diagnosis as numbers", "age", "sex", "outcome", "site by name"])
def test_a_leak_in_a_long_table(folder, truth, leak):
    name, values, why = LEAKS[leak]
    people = pd.read_csv(folder / "participants.csv").set_index("participant_id")

    def add(frame):
        ids = frame["participant_id"].unique()
        rows = {
            "participant_id": ids,
            "visit": "bl",
            "region": name,
            "suvr": np.asarray(values(people.loc[ids])),
        }
        return pd.concat([frame, pd.DataFrame(rows)])

    change(folder, "fdg.csv", add)
    assert why in check(read_study(folder / "study.toml")).aside["fdg"][name]
    assert_same_features(folder, truth)


def test_participants_and_a_view_in_one_file(folder, truth):
    people, vbm = (pd.read_csv(folder / name) for name in ("participants.csv", "vbm.csv"))
    people.merge(vbm, how="left").to_csv(folder / "all.csv", index=False)
    others = [name for name in people if name not in WHOLE]  # which the study says nothing of
    setting(folder, '"participants.csv"', '"all.csv"')
    setting(folder, '"vbm.csv"', f'"all.csv"\nexclude = {json.dumps(others)}')
    found = check(read_study(folder / "study.toml"))
    assert set(found.aside["vbm"]) == {"diagnosis", "age", "sex", "mmse", "site"}
    assert_same_features(folder, truth)
    setting(
        folder, f"exclude = {json.dumps(others)}", f"exclude = {json.dumps([*others, 'L*', 'R*', 'Ver*'])}"
    )
    assert "all columns are named elsewhere in the study: 'diagnosis', 'age'" in refusal(folder)


@pytest.mark.parametrize("rownames", [True, False])
def test_a_table_as_r_and_pandas_write_it(folder, truth, rownames):
    frame = pd.read_csv(folder / "vbm.csv")
    text = frame.to_csv(index=True)
    (folder / "vbm.csv").write_text(text if rownames else text.removeprefix(","))  # R's write.table
    assert check(read_study(folder / "study.toml")).aside == {"vbm": {"row.names": "row numbers"}}
    assert_same_features(folder, truth)


def test_a_part_of_an_outcome_is_no_copy(tmp_path):
    """Variants from which the APOE genotype is made, which is an outcome of the example."""
    path = write_example(tmp_path, sizes=(40, 40, 40))[0]
    found = check(read_study(path))
    assert "apoe" in read_study(path).participants.outcomes
    assert found.aside == {}
    assert found.ok


def test_real_measures_are_no_leaks(folder):
    """Sorted, ranked, whole numbers, two values: none of them copies anything."""
    rng = np.random.default_rng(0)

    def add(frame):
        n = len(frame)
        ranks = {f"rank{j}": rng.permutation(n) + 1 for j in range(4)}
        counts = {"lesions": rng.poisson(3, n), "carrier": rng.integers(0, 2, n), "rare": np.arange(n) == 5}
        return (
            frame.assign(
                sorted=np.sort(rng.normal(size=n)), steps=np.sort(rng.poisson(900, n)), **ranks, **counts
            )
            * 1
        )

    change(folder, "vbm.csv", add)
    found = check(read_study(folder / "study.toml"))
    assert found.aside == {}
    assert "view 'vbm': 1 column that the rows of the file are sorted by kept as features: 'sorted'" in texts(
        found.notes
    )


def test_files_of_one_view_count_their_rows_each(folder, truth):
    """Parts under each other, each with row numbers of its own."""
    frame = pd.read_csv(folder / "vbm.csv")
    cut = len(frame) // 2
    for name, part in (("one", frame[:cut]), ("two", frame[cut:])):
        part.reset_index(drop=True).to_csv(folder / f"{name}.csv")
    setting(folder, 'path = "vbm.csv"', 'paths = ["one.csv", "two.csv"]')
    assert check(read_study(folder / "study.toml")).aside == {"vbm": {"row.names": "row numbers"}}
    assert_same_features(folder, truth)


@pytest.mark.parametrize(
    ("edit", "count"),
    [
        (lambda f: f, 86),
        (lambda f: f.sample(frac=1, random_state=0).add_prefix("x"), 86),
        (lambda f: -3.0 * f + 7.0, 86),
        (lambda f: f.round(6).iloc[:, 40:], 46),
        (lambda f: f.iloc[:, :5].join(f.iloc[:, 5:9] ** 3), 5),
        (lambda f: f.iloc[:, :9] ** 3, 0),
    ],
)
def test_copies_of_measures_as_two_views_are_said(folder, edit, count):
    edit(pd.read_csv(folder / "vbm.csv", index_col="participant_id")).to_csv(folder / "copy.csv")
    with (folder / "study.toml").open("a") as file:
        file.write('[views.copy]\npath = "copy.csv"\nid = "participant_id"\n')
    found = [note for note in texts(check(read_study(folder / "study.toml")).notes) if "in common" in note]
    assert len(found) == bool(count)
    if count:
        assert found[0].startswith(f"views 'vbm' and 'copy' have {count} columns in common (of 86 and ")


class TestNewSubjects:
    def test_leaks_in_the_file_of_new_subjects_change_nothing(self, folder, fitted_run, viewloom):
        (folder / "study.toml").write_text(STUDY)
        expected = predictions(folder, fitted_run, viewloom)
        setting(folder, 'columns = ["LH*"', 'columns = ["zz", "LH*"')
        for leak in ("diagnosis as numbers", "row number", "age"):
            leaked(folder, leak)
            assert predictions(folder, fitted_run, viewloom) == expected

    def test_the_columns_of_training_rule(self, folder):
        """What a model was fitted on is a feature, although the study of new subjects names it elsewhere."""
        study = WHOLE.replace('outcomes = ["mmse"]', 'outcomes = ["mmse", "cdrsb"]')
        change(folder, "vbm.csv", lambda f: f.assign(cdrsb=np.random.default_rng(0).normal(size=len(f))))
        needed = prepare(read_study(folder / "study.toml")).views.feature_names
        assert "cdrsb" in needed["vbm"]
        (folder / "study.toml").write_text(study)
        described = read_study(folder / "study.toml")
        assert "cdrsb" not in load(described, training=False).views.feature_names["vbm"]
        assert "cdrsb" in load(described, training=False, needed=needed).views.feature_names["vbm"]


def cell(column, value):
    """One cell of the table of the first view is something else."""
    return lambda folder: change(folder, "vbm.csv", lambda f: f.assign(**{column: [value, *f[column][1:]]}))


def said(text):
    """The study file says something more."""

    def add(folder):
        with (folder / "study.toml").open("a") as file:
            file.write(text)

    return add


def both(*edits):
    return lambda folder: [edit(folder) for edit in edits]


def only_two(function):
    """Two columns of the first view are left, and changed."""

    def edit(frame):
        left = frame.iloc[:, :3]
        return left.assign(**{name: function(left[name]) for name in left.columns[1:]})

    return lambda folder: change(folder, "vbm.csv", edit)


def ages_only(folder):
    """The first view is a covariate in two units."""
    age = pd.read_csv(folder / "participants.csv")[["participant_id", "age"]]
    age = age.rename(columns={"age": "years"}).assign(months=12 * age["age"])
    age.to_csv(folder / "vbm.csv", index=False)


def people(**columns):
    return lambda folder: change(folder, "participants.csv", lambda f: f.assign(**columns))


CONTROLS = '[preparation]\nresidualise = ["age", "sex"]\ncontrols = "HC"\n'
ON_ALL = 'residualise_on = "all"\n'
W_SCORES = '[preparation]\nw_scores = ["age", "sex"]\ncontrols = "HC"\n'
ONE_EACH = '[preparation]\nharmonise = "combat"\n'
FOLLOWED = 'survival = { time = "conversion_time", event = "conversion_event" }\n'
BROKEN = {  # what fit would refuse, and what it says
    "too large": (cell("LInsula", 1e300), "1 values are beyond 1e\\+60.*'LInsula'"),
    "dates as a covariate": (
        both(people(sex=[f"2001-{j}" for j in range(42)]), said(CONTROLS + ON_ALL)),
        "Covariate 'sex'.*42|'sex'.*text",
    ),
    "few controls": (
        both(people(diagnosis=["HC"] * 4 + ["AD"] * 38), said(CONTROLS)),
        "controls have it, too few",
    ),
    "controls of one sex": (
        both(
            people(diagnosis=["HC"] * 30 + ["AD"] * 12, sex=["F"] * 30 + ["F", "M", "M"] * 4), said(CONTROLS)
        ),
        r"0 controls of \d+ with 'M' as 'sex'",
    ),
    "few controls for w-scores": (
        both(people(diagnosis=["HC"] * 19 + ["AD"] * 23), said(W_SCORES)),
        r"1\d controls have it, too few .*\(20 are needed",
    ),
    "sites that are one person": (
        both(people(site=[f"planted-secret{j}" for j in range(42)]), said(ONE_EACH)),
        "42 sites .*the largest of 1 subject",
    ),
    "no such controls": (said(CONTROLS.replace("HC", "CN")), "no subject has the diagnosis 'CN'"),
    "sites that are a covariate": (
        both(
            people(site=["a"] * 21 + ["b"] * 21, age=[60.0] * 21 + [70.0] * 21),
            said(CONTROLS + ON_ALL + 'harmonise = "combat"'),
        ),
        "confounded with the sites",
    ),
    "no genotypes": (
        both(cell("LInsula", -9), said('[preparation]\ngenotypes = ["vbm"]')),
        "1 value outside 0 to 2",
    ),
    "negative times": (
        both(
            people(conversion_time=-1.0, conversion_event=1),
            lambda folder: setting(folder, "[views.vbm]", f"{FOLLOWED}[views.vbm]"),
        ),
        "42 times are negative",
    ),
    "events that are none": (
        both(
            people(conversion_time=1.0, conversion_event=7),
            lambda folder: setting(folder, "[views.vbm]", f"{FOLLOWED}[views.vbm]"),
        ),
        "42 values that are neither 0 nor 1",
    ),
    "settings that do not go together": (said('membership = "nonnegative"'), "pass sharpness=0"),
    "more clusters than subjects": (said("n_clusters = 50"), "too few for 50 clusters"),
    "too little variation": (only_two(lambda x: 1e-70 * x), "varies by less than"),
    "text": (
        lambda folder: change(
            folder, "vbm.csv", lambda f: f.assign(LInsula=[f"planted-secret {i}" for i in range(len(f))])
        ),
        "'LInsula' is not a number",
    ),
    "one column": (
        lambda folder: setting(folder, '"vbm.csv"', '"vbm.csv"\ncolumns = ["LInsula"]'),
        "a single column 'LInsula'",
    ),
    "constant": (only_two(lambda x: 0.0 * x), "no column varies"),
    "a covariate twice": (ages_only, "no features are left.*copy of 'age'"),
    "another file": (
        lambda folder: (folder / "vbm.csv").write_bytes(b"PK\x03\x04rubbish"),
        "cannot be guessed",
    ),
    "no rows": (
        lambda folder: (folder / "fdg.csv").write_text("participant_id,visit,region,suvr\n"),
        "no rows",
    ),
}


def test_text_that_is_the_same_for_all_is_left_out_and_said(folder, viewloom):
    change(folder, "vbm.csv", lambda f: f.assign(LInsula="a word"))
    done = viewloom("fit", folder / "study.toml", "--jobs", 1)
    assert done.exit_code == 0, done.stderr
    assert "View 'vbm': 1 column with a single value left out: 'LInsula'" in " ".join(done.stdout.split())


@pytest.mark.parametrize("case", BROKEN)
def test_check_refuses_what_fit_refuses_in_the_same_words(folder, viewloom, case):
    spoil, words = BROKEN[case]
    spoil(folder)
    checked, fitted = (viewloom(command, folder / "study.toml") for command in ("check", "fit"))
    assert checked.exit_code == fitted.exit_code == 2
    assert checked.stderr == fitted.stderr
    assert re.search(words, checked.stderr)
    assert "planted-secret" not in checked.stderr
    assert not (folder / "study-results").exists()


def test_what_check_accepts_can_be_fitted(folder, viewloom):
    result = viewloom("check", folder / "study.toml", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["aside"] == {}
    leaked(folder, "age")
    shown = viewloom("check", folder / "study.toml").stdout
    assert "Columns set aside" in shown
    assert "a copy of 'age', named under covariates" in " ".join(shown.split())
