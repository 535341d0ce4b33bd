"""Notes: exact for the owner of the data, without small counts of subjects in what is shared.

Every scenario makes the notes of some producers about n subjects, rows or cells. What is shared must be the
same for every n below `min_cell`; what the owner reads must not.
"""

import ast
import json
import re
import sys
from importlib.util import find_spec
from pathlib import Path

import foreign_files as foreign
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small import without_figures, write_small
from typer.testing import CliRunner

import viewloom
from viewloom import Views
from viewloom.cli.commands import app
from viewloom.clinical import Slopes
from viewloom.study import followup
from viewloom.study import notes as notes_module
from viewloom.study.check import _constant_notes, _site_notes, describe
from viewloom.study.cohort import load, read_tables
from viewloom.study.config.toml import read_study
from viewloom.study.left_out import LeftOutSites
from viewloom.study.notes import Breakdown, Count, Note
from viewloom.study.preparation import Plan, Preparation
from viewloom.study.readers import blocks, plink, ucsffsx
from viewloom.study.readers.adni import read_adnimerge
from viewloom.study.readers.berkeley import read_pet
from viewloom.study.readers.cat12 import read_cat12
from viewloom.study.readers.codes import read_codes
from viewloom.study.readers.dates import Days
from viewloom.study.readers.files import open_table
from viewloom.study.readers.freesurfer import read_stats
from viewloom.study.readers.images import read_maps
from viewloom.study.readers.matrices import read_matrix
from viewloom.study.readers.tables import read_long, read_table
from viewloom.study.reading import ReferenceDates
from viewloom.study.run import prepare
from viewloom.study.run.replication import common_views, design_notes, lost_notes
from viewloom.study.run.sampled import Assessed

MIN_CELL, N = 11, 40
IDS = [f"s{i:03d}" for i in range(N)]
SOURCES = Path(viewloom.__file__).parent
MAKERS = {"Note", "count_note"}
counts = st.builds(
    Count,
    number=st.integers(0, 30),
    one=st.just("subject"),
    many=st.sampled_from([None, "people"]),
    detail=st.sampled_from(["", " (all)"]),
    public=st.booleans(),
)


# --- rendering ---


@given(
    st.lists(st.one_of(counts, st.sampled_from(["view 'x 2'", " and {0} "])), max_size=5), st.integers(1, 20)
)
def test_no_count_below_min_cell_is_shared(parts, min_cell):
    """A small count of subjects does not change the text that is shared; other counts are shown."""
    note = Note(tuple(parts)).about("view 'a'")
    for at, part in enumerate(note.parts):
        if isinstance(part, Count) and not part.public and 0 < part.number < min_cell:
            others = (Count(n, part.one, part.many, detail=f" ({n})") for n in range(1, min_cell))
            found = {Note((*note.parts[:at], one, *note.parts[at + 1 :])).shared(min_cell) for one in others}
            assert found == {note.shared(min_cell)}
        elif isinstance(part, Count):
            assert str(part) in note.shared(min_cell)
    assert all(str(part) in str(note) for part in parts)
    assert note.shared(1) == str(note)


@given(st.lists(st.integers(0, 40), min_size=2, max_size=4), st.integers(2, 12))
def test_no_count_of_a_breakdown_can_be_derived(numbers, min_cell):
    """A hidden number is not what remains of a known total."""
    text = Breakdown(tuple((n, "x") for n in numbers)).shared(min_cell)
    shown = [part.removesuffix(" x") for part in text.split(", ")]
    hidden = [n for n, text in zip(numbers, shown, strict=True) if not text.isdigit()]
    assert all(n >= min_cell for n, text in zip(numbers, shown, strict=True) if text.isdigit())
    assert len(hidden) != 1 or len(numbers) == 1 or sum(numbers) == 0


@pytest.mark.parametrize(
    ("count", "exact", "shared"),
    [
        (
            Count(1, "participant is", "participants are"),
            "1 participant is",
            "fewer than 11 participants are",
        ),
        (Count(3, "subject", total=40), "3 of 40 subjects", "fewer than 11 of 40 subjects"),
        (Count(37, "subject", total=40), "37 of 40 subjects", "more than 29 of 40 subjects"),
        (Count(20, "subject", total=40), "20 of 40 subjects", "20 of 40 subjects"),
        (Count(1, "missing cell", detail=" (0.1%)"), "1 missing cell (0.1%)", "fewer than 11 missing cells"),
        (Count(30, "missing cell", detail=" (9%)"), "30 missing cells (9%)", "30 missing cells (9%)"),
        (Count(2, "column", public=True), "2 columns", "2 columns"),
        (
            Breakdown(((40, "at 'bl'"), (3, "at 'm06'"))),
            "40 at 'bl', 3 at 'm06'",
            "at least 11 at 'bl', fewer than 11 at 'm06'",
        ),
    ],
)
def test_parts(count, exact, shared):
    assert (str(count), count.shared(MIN_CELL)) == (exact, shared)


# --- producers ---


def table(columns=("a", "b"), ids=IDS, seed=0):
    values = np.random.default_rng(seed).normal(5.0, 1.0, (len(ids), len(columns)))
    return pd.DataFrame(values, pd.Index(ids, name="id"), list(columns))


def written(folder, frame, **options):
    frame.to_csv(folder / "t.csv", **options)
    return folder / "t.csv"


def of_table(folder, n):
    """Blank rows, decimal commas, missing codes, patterns that fit nothing."""
    frame = table()
    frame.iloc[:n, 0] = -9.0
    path = written(folder, frame, sep=";", decimal=",")
    path.write_text(path.read_text() + ";;\n" * n)
    return read_table(path, id="id", missing_codes=[-9], exclude=["none"]).attrs["notes"]


def of_blocks(folder, n):
    """Missing codes in a table that is read in blocks."""
    frame = table()
    frame.iloc[:n, 0] = -9.0
    path = written(folder, frame)
    options = {"columns": None, "exclude": None, "aside": None, "notes": []}
    return blocks.wide_table(open_table(path), path, id="id", codes=[-9], **options).attrs["notes"]


def of_short_rows(folder, n):
    """Rows with fewer cells than the header, comments between rows, and a title."""
    rows = [f"{name},1" if i < n else f"{name},1,2" for i, name in enumerate(IDS)]
    path = folder / "short.csv"
    path.write_text("\n".join(["Volumes of the study", "id,a,b", *["# checked"] * n, *rows, ""]))
    return read_table(path, id="id").attrs["notes"]


def of_rows(folder, n):
    """Rows that a condition leaves out, and ids that do not match a pattern."""
    frame = table(["a", "b"], [*(f"sub-{name}" for name in IDS), *(f"x{i}" for i in range(n))])
    path = written(folder, frame.assign(qc=["Fail"] * n + ["Pass"] * (len(frame) - n)))
    found = read_table(path, id="id", pattern="sub-(.+)", rows="qc == 'Pass'", exclude=["qc"])
    return found.attrs["notes"]


def of_long(folder, n):
    """Rows equal to another, and values that differ."""
    rows = [(name, "left", 1.0) for name in IDS]
    rows += [(name, "left", 1.0) for name in IDS[:n]] + [(name, "left", 2.0) for name in IDS[:n]]
    path = written(folder, pd.DataFrame(rows, columns=["id", "region", "value"]), index=False)
    return read_long(path, id="id", name="region", value="value", repeats="mean").attrs["notes"]


def of_matrix(folder, n):
    """Columns of annotation and of text, rows of text and of totals, and features with several rows."""
    names = ["group", "site", "APOE", "BIN1", "APOE", "__no_feature"]
    people = {name: ["a", "b", 1, 2, 3, 4] for name in IDS} | {f"text{i}": "text" for i in range(n)}
    frame = pd.DataFrame({"Geneid": names, "Chr": 1, **people})
    return read_matrix(written(folder, frame, index=False), repeats="mean").attrs["notes"]


def of_codes(folder, n):
    """Codes that subjects have twice."""
    path = written(folder, pd.DataFrame({"id": [*IDS, *IDS[:n]], "icd10": "I10"}), index=False)
    return read_codes(path, id="id", code="icd10").attrs["notes"]


def of_visits(folder, n):
    """First visits at two times, later rows, and rows without order; n rows of another visit."""
    rows = [(name, "bl", 1.0) for name in IDS[n:]] + [(name, "m06", 1.0) for name in IDS[:n]]
    rows += [(name, "m12", 1.0) for name in IDS[:n]] + [(name, "unscheduled", 2.0) for name in IDS[:n]]
    path = written(folder, pd.DataFrame(rows, columns=["id", "visit", "x"]), index=False)
    found = list(read_table(path, id="id", visit="first").attrs["notes"])
    rows = [(name, "ses-M00", 1.0) for name in IDS] + [(name, "m12", 1.0) for name in IDS[:n]]
    path = written(folder, pd.DataFrame(rows, columns=["id", "visit", "x"]), index=False)
    return found + read_table(path, id="id", visit="bl").attrs["notes"]


def of_dates(folder, n):
    """Dates nearest to those of the participants: n ties, and n that are far away."""
    days = [(name, day) for name in IDS[:n] for day in (-10, 10)] + [(name, 5) for name in IDS[n:-n]]
    days += [(name, 200) for name in IDS[-n:]]
    path = written(folder, pd.DataFrame(days, columns=["id", "day"]).assign(x=1.0), index=False)
    reference = ReferenceDates(Days(pd.Series(0.0, index=IDS), False), "exact")
    return read_table(path, id="id", visit="nearest:day", reference=reference).attrs["notes"]


def of_followup(folder, n):
    """Models that did not converge, visits without a time, and no later visits."""
    none = pd.DataFrame({"slope": [np.nan]})
    failed, simple = (Slopes(none, np.nan, 0, np.nan, "intercept", converged) for converged in (False, True))
    once = pd.DataFrame({"id": IDS, "visit": "baseline", "years": 0.0, "mmse": 1.0})
    untimed = pd.concat([once, once.assign(visit="V2", years=np.nan)])
    notes = [*followup._slope_notes({"mmse": failed, "cdr": simple}, n)]
    visit = followup.LaterVisit("m12", Views({"mri": np.ones((n, 2))}), once)
    notes += followup.visit_notes([visit], N)
    for table in (once, untimed):
        notes += followup._slopes(table, pd.Series(0, index=IDS), ["mmse"])[1]
    return notes


def of_adni(folder, n):
    """Cells beyond the range of the assay, and columns of text."""
    raw = pd.DataFrame({"RID": range(N), "PTID": IDS, "VISCODE": "bl", "DX": "CN", "TAU": ["1.5"] * N})
    raw.loc[: n - 1, "TAU"] = ">1700"
    return read_adnimerge(written(folder, raw, index=False)).attrs["notes"]


def of_ucsffsx(folder, n):
    """Runs that did not pass, and runs that are not the newest."""
    raw = pd.DataFrame({"RID": [*range(N), *range(n), *range(n)], "VISCODE": "bl", "ST29SV": 3000.0})
    raw["OVERALLQC"] = ["Pass"] * (N + n) + ["Fail"] * n
    raw = raw.assign(RUNDATE="2010-01-01", ST29SA=1.0)
    return ucsffsx.read_ucsffsx(written(folder, raw, index=False)).attrs["notes"]


def of_pet(folder, n):
    """Scans that failed, scans of another tracer, and scans without a value of the reference region."""
    raw = foreign.berkeley(range(1, N + 1)).assign(WHOLECEREBELLUM_SUVR=1.1)
    raw.loc[: n - 1, "qc_flag"] = 0
    raw.loc[n : 2 * n - 1, "TRACER"] = "FBB"
    raw.loc[2 * n : 3 * n - 1, "WHOLECEREBELLUM_SUVR"] = np.nan
    path = written(folder, raw, index=False)
    return read_pet(path, tracer="FBP", reference_region="WHOLECEREBELLUM").attrs["notes"]


def of_freesurfer(folder, n):
    """Subjects who lack a file or have another segmentation, and directories of the other stream."""
    for i, name in enumerate([*IDS, *(f"t{i}.long.base" for i in range(n))]):
        stats = folder / name / "stats"
        stats.mkdir(parents=True)
        (stats / ("aseg+DKT.stats" if N - n <= i < N else "aseg.stats")).write_text(
            "# Measure EstimatedTotalIntraCranialVol, eTIV, eTIV, 1500000.0, mm^3\n"
            f"1 17 100 {3000 + i} Left-Hippocampus\n2 1006 100 {1900 + i} ctx-lh-entorhinal\n"
        )
        if i >= n:
            (stats / "lh.aparc.DKTatlas.stats").write_text(f"entorhinal 100 700 {1500 + i} 2.5 0.5\n")
    return read_stats(folder, hemispheres=["lh"]).attrs["notes"]


def of_cat12(folder, n):
    """Subjects who lack the atlas, reports without TIV, and cells that are infinite."""
    foreign.cat12(folder, IDS[:n], atlases=["hammers"])
    foreign.cat12(folder, IDS[n:])
    for name in IDS[n : 2 * n]:
        _rewritten(folder / "report" / f"cat_{name}.xml", "<vol_TIV>.*</vol_TIV>", "")
        _rewritten(folder / "label" / f"catROI_{name}.xml", r"<Vgm>\[[^;]+", "<Vgm>[Inf")
    return read_cat12(folder, atlas="neuromorphometrics", global_measures=True).attrs["notes"]


def _rewritten(path, pattern, text):
    """The first match of a pattern in a file replaced."""
    path.write_text(re.sub(pattern, text, path.read_text(), count=1))


def of_maps(folder, n):
    """Maps on another grid, and maps that lack a region."""
    import nibabel

    foreign.nifti(folder, IDS)
    for i, name in enumerate(IDS[: 2 * n]):
        image = nibabel.load(folder / f"{name}.nii.gz")
        values, affine = image.get_fdata(), image.affine
        if i < n:
            values, affine = np.repeat(values, 2, axis=0), affine @ np.diag([0.5, 1, 1, 1])
        else:
            values[:, :, 5:] = np.nan
        nibabel.save(nibabel.Nifti1Image(values, affine), folder / f"{name}.nii.gz")
    atlas = {name: folder / f"atlas-toy_dseg{end}" for name, end in ATLAS.items()}
    return read_maps(folder, files="s*", resample=True, cache=False, **atlas).attrs["notes"]


ATLAS = {"atlas_image": ".nii.gz", "atlas_labels": ".tsv"}


def of_genotypes(folder, n):
    """Variants that are called too seldom or vary too little, and columns of dominance."""
    raw = pd.DataFrame({"FID": IDS, "IID": IDS, "PAT": 0, "MAT": 0, "SEX": 1, "PHENOTYPE": 1, "rs1_A": 0})
    raw = raw.assign(rs1_HET=0, rs2_A=[0, 1] * (N // 2), rs3_A=np.nan)
    path = written(folder, raw, index=False, sep=" ", na_rep="NA").rename(folder / "g.raw")
    return plink.read_raw(path, min_maf=0.1, min_call_rate=0.5).attrs["notes"]


STUDY = """
[participants]
path = "people.csv"
id = "id"
diagnosis = "dx"
site = "site"
[views.a]
path = "a.csv"
id = "id"
[views.b]
path = "b.csv"
id = "id"
[preparation]
harmonise = "combat"
min_site = 10
"""


def read_written(folder, a, b, people, more="", text=STUDY):
    for name, frame in (("a", a), ("b", b), ("people", people)):
        frame.to_csv(folder / f"{name}.csv")
    (folder / "study.toml").write_text(text + more)
    return read_study(folder / "study.toml")


def people_of(ids):
    return pd.DataFrame({"dx": "CN", "site": "x"}, pd.Index(ids, name="id"))


def of_study(folder, n):
    """Subjects without a value or without a participant, participants without a view, a small site."""
    a = table(["a", "b", "c", "d"], [*IDS, *(f"new{i}" for i in range(n))])
    a = a.assign(empty=np.nan, fixed=1.0, score=[*(np.arange(len(a) - 2) % 9), -1, -1], no=range(len(a)))
    a["risen"] = np.sort(a["b"] ** 2)
    a.iloc[:n] = np.nan
    b = table(["e", "f"], seed=1).assign(copy=2.0 * a["d"])
    people = people_of([*IDS, *(f"only{i}" for i in range(n))])
    people.iloc[:n, 1] = "y"
    study = read_written(folder, a, b, people)
    tables = read_tables(study)
    shown = describe(study, tables)
    return [*tables.notes, *_constant_notes(shown.constant), *_site_notes(shown.sites, study)]


def of_ids(folder, n):
    """Ids that are not of the style, and ids that another style would join."""
    ids = [*(f"sub-{i + 1:02d}" for i in range(n)), *(f"011_S_{i:04d}" for i in range(100 + n, 100 + N))]
    rest = [f"phantom{i}" for i in range(n)]
    views = table(["a", "b"], [*ids, *rest]), table(["e", "f"], ids, seed=1)
    found = load(read_written(folder, *views, people_of([*ids, *rest]), '[ids]\nmatch = "adni"\n')).notes
    views = table(["a", "b"], ids), table(["e", "f"], [str(i + 1) for i in range(n)] + ids[n:], seed=1)
    return found + load(read_written(folder, *views, people_of(ids))).notes


def of_preparation(folder, n):
    """Subjects without a covariate, site or value, of small and new sites, with new levels; filled cells."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(120, 3)), columns=list("abc"), index=[f"s{i}" for i in range(120)])
    people = pd.DataFrame({"age": rng.normal(size=120), "sex": ["F", "M"] * 60, "g": 1.0}, frame.index)
    people["site"] = rng.permutation(["x", "y"] * 60)
    people.loc[people.index[:n], "age"] = np.nan
    people.loc[people.index[20 : 20 + n], "site"] = "small"
    people.loc[people.index[40 : 40 + n], "site"] = None
    frame.iloc[60 : 60 + n, 0] = np.nan
    frame["fixed"] = 1.0
    plan = Plan(
        residualise=["age", "sex", "g"], residualise_on="all", harmonise="combat", site="site", min_site=11,
        new_sites="average",
    )  # fmt: skip
    fitted = Preparation.fit(Views({"v": frame}, ids=frame.index, allow_nan=True), people, plan)
    sites = Plan(harmonise="combat", site="site", min_site=100)
    one = people.assign(site="x")
    idle = Preparation.fit(Views({"v": frame}, ids=frame.index, allow_nan=True), one, sites)
    adapted = _of_controls(frame, people)
    other, who = frame.assign(extra=1.0), people.assign(sex=["X"] * n + ["F"] * (120 - n))
    other.iloc[80 : 80 + n, :3] = np.nan
    other["w"] = 1.0
    who.loc[who.index[100 : 100 + n], "site"] = "new"
    more = Views({"v": other, "w": other[["a"]].fillna(0.0)}, ids=other.index, allow_nan=True)
    both = Preparation.fit(
        Views({"v": frame, "w": other[["a"]].fillna(0.0)}, ids=frame.index, allow_nan=True), people, plan
    )
    return [*fitted.notes, *idle.notes, *adapted, *both.remarks(more, who)]


def _of_controls(frame, people):
    """W-scores, and a new site that its controls harmonise."""
    plan = Plan(
        w_scores=["sex"], diagnosis="dx", controls="CN", harmonise="combat", harmonise_on="controls",
        site="site", new_sites="adapt", min_site=11,
    )  # fmt: skip
    views = Views({"v": frame}, ids=frame.index, allow_nan=True)
    people = people.assign(dx=["CN", "CN", "AD"] * 40, site=people["site"].fillna("x"))
    fitted = Preparation.fit(views, people, plan)
    return [*fitted.notes, *fitted.remarks(views, people.assign(site="new"))]


def of_levels(folder, n):
    """Missing codes and missing cells of columns with levels, and new subjects with other levels."""
    a = table().assign(onset=["gait", "memory"] * (N // 2), fixed="yes", grade=["low", "high"] * (N // 2))
    a.iloc[:4, 2] = ["rare", "rare", "odd", "odd"]
    a.iloc[4 : 4 + n, 4] = "-9"
    people = people_of(IDS).assign(age=np.arange(N) % 7)
    more = 'missing_codes = [-9]\n[views.a.types]\nfixed = "nominal"\n'
    text = STUDY.replace('path = "a.csv"\nid = "id"\n', f'path = "a.csv"\nid = "id"\n{more}')
    data = load(read_written(folder, a, table(["e", "f"], seed=1), people, text=text))
    fitted = Preparation.fit(data.views, people, Plan(residualise=["age"], residualise_on="all"))
    a.iloc[20 : 20 + n, 2] = "new"
    a["grade"] = a["grade"].str.upper()
    other = load(read_written(folder, a, table(["e", "f"], seed=1), people, text=text))
    return [*data.notes, *fitted.notes, *fitted.remarks(other.views, people)]


def of_cluster(folder, n):
    """Subjects that a rule leaves out, and subjects without the score whose effect is removed."""
    ids = [*IDS, *(f"out{i}" for i in range(n))]
    people = people_of(ids).assign(mmse=np.arange(len(ids)) % 9 + 20.0)
    people.loc[ids[N:], "dx"] = "PSP"
    people.loc[ids[:n], "mmse"] = np.nan
    rules = '[cluster]\ninclude = { dx = "CN" }\nremove_severity = "mmse"\n'
    study = read_written(folder, table(["a", "b"], ids), table(["e", "f"], ids, seed=1), people, rules)
    return prepare(study).check.notes


def of_sites(folder, n):
    """Small sites that are not left out, and subjects without a site."""
    none = np.empty(0)
    found = LeftOutSites([], none, none, none, none, none, small_sites=2, small_subjects=n, unknown=n)
    return found.notes


def of_assessed(folder, n):
    """Subjects in whom the clusters of very many are assessed."""
    return Assessed(np.arange(n), None, None, None).notes(N)


def of_replication(folder, n):
    """A second cohort with other views and another design, and subjects with other views only."""
    a, ids = table(["a", "b"]), pd.Index([*IDS, *(f"new{i}" for i in range(n))])
    fitted = Preparation.fit(Views({"a": a, "z": a}, ids=a.index, allow_nan=True))
    other = table(["c", "d"], ids, seed=1)
    views = Views({"a": a.reindex(ids), "b": other}, ids=ids, allow_nan=True)
    study = read_written(folder, a, other, people_of(ids))
    run = {"settings": {"cluster": {"remove_severity": "mmse"}}}
    return [*common_views(views, fitted)[1], *lost_notes(n, study), *design_notes(run, study)]


SCENARIOS = [
    of_table,
    of_blocks,
    of_short_rows,
    of_rows,
    of_long,
    of_matrix,
    of_codes,
    of_visits,
    of_dates,
    of_followup,
    of_adni,
    of_ucsffsx,
    of_pet,
    of_freesurfer,
    of_cat12,
    of_genotypes,
    of_study,
    of_ids,
    of_preparation,
    of_levels,
    of_cluster,
    of_sites,
    of_assessed,
    of_replication,
]
NEED_NIBABEL = {of_maps: ("study/readers/images.py", "read_maps")}
SCENARIOS += NEED_NIBABEL if find_spec("nibabel") else []
ONLY_COLUMNS = [of_genotypes]
# counts of variants, columns, regions and lines, which are public, and settings; or files of many parts: see
# the tests of readers
ELSEWHERE = {
    ("study/reading.py", "_by_pattern"),
    ("study/spelling.py", "_notes"),
    *((f"study/readers/{name}", function) for name, function in [
        ("files.py", "CellFile.load"), ("rfiles.py", "load_rfile"), ("sheets.py", "_table"),
        ("genotypes/collecting.py", "Collection.notes"), ("genotypes/harmonising.py", "_note"),
        ("genotypes/reading.py", "Files.notes"), ("genotypes/reading.py", "Files._unusable"),
        ("genotypes/reading.py", "_pooled"),
        ("genotypes/scores.py", "Score._notes"), ("genotypes/scores.py", "_about"),
        ("freesurfer_tables.py", "_parts"), ("freesurfer_tables.py", "_read_stats_table"),
        ("bids.py", "labelled"), ("caps.py", "_said"), ("caps.py", "read_caps"), ("caps.py", "read_merged"),
        ("muse.py", "read_muse"), ("oasis.py", "read_oasis"), ("ukb.py", "_chosen"),
        ("ukb.py", "_of_instance"), ("ukb.py", "_parts"), ("ukb.py", "_sources"), ("ukb.py", "_texts_left"),
    ]),
    *([] if find_spec("nibabel") else NEED_NIBABEL.values()),
}  # fmt: skip


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_small_counts_are_exact_for_the_owner_and_not_shared(scenario, tmp_path):
    made = {}
    for n in (1, 4, 7):
        (tmp_path / str(n)).mkdir()
        made[n] = scenario(tmp_path / str(n), n)
    shared = {n: [note.shared(MIN_CELL) for note in found] for n, found in made.items()}
    assert shared[1] == shared[4] == shared[7] != []
    if scenario not in ONLY_COLUMNS:
        small = [note for note in made[7] if note.shared(MIN_CELL) != str(note)]
        assert small
        assert all("7" in str(note) for note in small)


def test_every_producer_is_reached(tmp_path, monkeypatch):
    """Functions that make notes, as the source has them, and those that made one in a scenario."""
    reached, make = set(), Note.__init__

    def recorded(self, *args, **kwargs):
        frame = sys._getframe(1)
        while frame.f_code.co_filename in (notes_module.__file__, "<string>"):
            frame = frame.f_back
        reached.add((Path(frame.f_code.co_filename), frame.f_code.co_qualname.split(".<locals>")[0]))
        make(self, *args, **kwargs)

    monkeypatch.setattr(Note, "__init__", recorded)
    for scenario in SCENARIOS:
        folder = tmp_path / scenario.__name__
        folder.mkdir()
        scenario(folder, 7)
    missed = {(path.relative_to(SOURCES).as_posix(), name) for path, name in producers() - reached}
    without_counts = ("study/ordering.py", "ordered")
    warnings = ("study/run/analysis.py", "_clustered")  # see below
    assert missed == {warnings, without_counts, *ELSEWHERE}


def producers():
    """Functions of the package that call a maker of notes."""
    return {
        (path, name)
        for path in SOURCES.rglob("*.py")
        if path != Path(notes_module.__file__)
        for name in _callers(ast.parse(path.read_text(encoding="utf-8")), "")
    }


def _callers(node, scope):
    for child in ast.iter_child_nodes(node):
        inner = scope
        if isinstance(child, ast.FunctionDef | ast.ClassDef):
            inner = f"{scope}.{child.name}".lstrip(".")
        if isinstance(child, ast.Call) and isinstance(child.func, ast.Name) and child.func.id in MAKERS:
            yield scope
        yield from _callers(child, inner)


# --- from the files to the report ---


def test_warnings_of_the_model_do_not_count_subjects():
    """They are notes of a run, as text: views that few subjects have, without anyone in common."""
    found = set()
    for n in (4, 7):
        who = {name: IDS[:n] if name in "cd" else IDS[n:] for name in "abcd"}
        views = Views.from_frames({name: table(ids=ids) for name, ids in who.items()})
        with pytest.warns(UserWarning, match="groups without common samples") as caught:
            viewloom.KernelMultiviewNMF(2, random_state=0).fit(views)
        found.add(tuple(str(one.message) for one in caught if "groups" in str(one.message)))
    assert len(found) == 1


def test_the_owner_reads_exact_counts_and_the_report_does_not(tmp_path):
    folder = write_small(tmp_path)
    frame = pd.read_csv(folder / "vbm.csv", dtype=str, keep_default_na=False)
    frame.iloc[:5, 1:] = ""
    frame.to_csv(folder / "vbm.csv", index=False)
    text = (folder / "study.toml").read_text().replace("[model]\n", "[model]\nmax_iter = 2\n")
    (folder / "study.toml").write_text(text)
    exact = "view 'vbm': 5 subjects without any value left out"
    assert exact in " ".join(CliRunner().invoke(app, ["check", str(folder / "study.toml")]).output.split())
    arguments = ["fit", str(folder / "study.toml"), "-o", str(tmp_path / "run"), "--json", "--jobs", "1"]
    with without_figures():
        run = CliRunner().invoke(app, arguments)
    assert exact in json.loads(run.stdout)["notes"]
    assert exact not in json.loads((tmp_path / "run" / "run.json").read_text())["notes"]
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())["summary"]
    assert "view 'vbm': fewer than 11 subjects without any value left out" in summary["notes"]
    assert any("max_iter" in note for note in summary["notes"])  # a warning of the model
    page = (tmp_path / "run" / "report.html").read_text()
    assert "fewer than 11 subjects without any value" in page
    assert "5 subjects without" not in page
