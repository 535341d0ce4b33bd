"""study.toml: what is read, and in which words mistakes are told."""

import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from viewloom import KernelMultiviewNMF
from viewloom.kernels.graphs import GRAPHS
from viewloom.kernels.registry import KERNELS
from viewloom.solver.updates import PROJECTIONS
from viewloom.study import readers
from viewloom.study.config.positions import line_of
from viewloom.study.config.schema import BLOCKS
from viewloom.study.config.toml import Study, View, json_schema, read_study
from viewloom.study.errors import StudyError
from viewloom.study.preparation.fitted import Plan
from viewloom.study.preparation.plan import CHOICES
from viewloom.study.readers.formats import INTERNAL
from viewloom.study.reading import TRANSFORMS
from viewloom.study.wording import nearest

SCHEMAS = ("View", "Model", "Participants")
GUIDE = Path(__file__).parents[2] / "docs/study.md"
PEOPLE = """
[participants]
path = "people.csv"
id = "RID"
diagnosis = "DX"
covariates = ["AGE", "SEX"]
site = "SITE"
"""
MRI = """
[views.mri]
path = "mri.csv"
id = "RID"
"""
WHOLE = f"""
[study]
name = "Größe über Zeit"
{PEOPLE}
outcomes = "MMSE"
survival = {{ time = "years", event = "converted" }}
missing_codes = [-4, "n/a"]
{MRI}
columns = ["ST*"]
transform = "log"
missing_codes = {{ "ST*" = [-4] }}

[views.snp]
path = "ge no/chr.bed"
min_maf = 0.05

[preparation]
impute = "knn"
residualise = ["AGE", "SEX"]
controls = 1
harmonise = "combat"

[model]
n_clusters = 4
kernel = {{ mri = "linear", snp = "diffusion" }}
lam = 3
scale = "none"
seed = 7

[ids]
match = "adni"

[report]
min_cell = 20
"""


@pytest.fixture
def folder(tmp_path):
    """Files that exist; config looks at their names and first lines only."""
    folder = tmp_path / "Mémoire étude"
    (folder / "ge no").mkdir(parents=True)
    for name in ("people.csv", "mri.csv"):
        (folder / name).write_text("RID,DX,AGE,SEX,SITE,ST1,ST2\n1,CN,70,F,a,1,2\n")
    (folder / "ge no/chr.bed").write_bytes(b"\x6c\x1b\x01")
    return folder


@pytest.fixture
def read(folder):
    def from_text(text, encoding="utf-8"):
        path = folder / "study.toml"
        path.write_bytes(text.encode(encoding))
        return read_study(path)

    return from_text


@pytest.fixture
def mistakes(read):
    def of(text, encoding="utf-8"):
        with pytest.raises(StudyError) as caught:
            read(text, encoding)
        return str(caught.value).split("\n")

    return of


class TestReading:
    def test_everything_that_is_said(self, read, folder):
        study = read(WHOLE)
        people, mri, snp = study.participants, study.views["mri"], study.views["snp"]
        assert (study.name, study.path) == ("Größe über Zeit", folder / "study.toml")
        assert (people.path, people.format) == (folder / "people.csv", "table")
        assert people.options == {"id": "RID", "missing_codes": [-4, "n/a"]}
        assert people.named_columns == [
            ("diagnosis", "DX"),
            ("site", "SITE"),
            ("covariates", "AGE"),
            ("covariates", "SEX"),
            ("outcomes", "MMSE"),
            ("survival", "years"),
            ("survival", "converted"),
        ]
        assert mri.options == {"id": "RID", "columns": ["ST*"], "missing_codes": {"ST*": [-4]}}
        assert (snp.source, snp.format, snp.options) == (folder / "ge no/chr.bed", "plink", {"min_maf": 0.05})
        assert (study.ids.match, study.report.min_cell) == ("adni", 20)

    def test_settings_are_those_of_the_model_and_of_the_preparation(self, read):
        study = read(WHOLE)
        model = KernelMultiviewNMF(**study.model.settings)
        assert (model.n_clusters, model.lam, model.scale, model.random_state) == (4, 3.0, None, 7)
        assert model.kernel == {"mri": "linear", "snp": "diffusion"}
        plan = Plan(**study.plan)
        assert (plan.impute, plan.diagnosis, plan.site) == ("knn", "DX", "SITE")
        assert (list(plan.controls), list(plan.genotypes)) == (["1"], ["snp"])

    def test_w_scores_keep_their_units_unless_a_scale_is_given(self, read):
        """Genotypes are scaled as always; a scale of the file is used as it is."""
        asked = "[preparation]\ncontrols = 'CN'\nw_scores = ['AGE']\n"
        snp = "[views.snp]\npath = 'ge no/chr.bed'\n"
        found = {
            text: read(text).model.settings["scale"]
            for text in (
                MRI + PEOPLE + asked,
                MRI + snp + PEOPLE + asked,
                MRI + PEOPLE + asked + "[model]\nscale = 'auto'",
                MRI + snp + PEOPLE + asked + "[model]\nscale = { mri = 'none', snp = 'unit' }",
                MRI + PEOPLE + asked.replace("w_scores", "residualise"),
            )
        }
        assert list(found.values()) == [
            "centre",
            {"mri": "centre", "snp": "auto"},
            "auto",
            {"mri": None, "snp": "unit"},
            "auto",
        ]

    def test_little_is_needed_and_defaults_are_those_of_the_model(self, read):
        study = read(MRI)
        assert study.participants is None
        assert (study.ids.match, study.report.min_cell, study.name) == ("exact", 11, "study")
        assert study.model.settings == {
            **{key: KernelMultiviewNMF().get_params()[key] for key in study.model.settings},
            "random_state": 0,
        }
        assert Plan(**study.plan) == Plan()

    @pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
    @pytest.mark.parametrize("newline", ["\n", "\r\n"])
    def test_files_of_windows(self, read, encoding, newline):
        assert read(WHOLE.replace("\n", newline), encoding).name == "Größe über Zeit"

    def test_the_study_cannot_be_changed(self, read):
        with pytest.raises(ValueError, match="frozen"):
            read(MRI).model.n_clusters = 5

    def test_preparation_takes_all_that_a_plan_takes(self):
        elsewhere = {"diagnosis", "site", "remove_severity"}  # keys of [participants] and [cluster]
        assert set(BLOCKS["preparation"].model_fields) == {field.name for field in fields(Plan)} - elsewhere

    def test_choices_of_preparation_are_those_of_a_plan(self):
        keys = json_schema()["$defs"]["Preparation"]["properties"]
        assert {name: tuple(key["enum"]) for name, key in keys.items() if "enum" in key} == CHOICES

    def test_genotypes_are_plink_files_and_what_is_named(self, read):
        study = read(WHOLE.replace('impute = "knn"', "genotypes = 'mri'"))
        assert study.plan["genotypes"] == ["mri", "snp"]

    def test_formats_kernels_and_options_are_those_that_exist(self):
        view, model, people = (json_schema()["$defs"][name]["properties"] for name in SCHEMAS)
        assert view["format"]["enum"] == list(readers.FORMATS)
        assert people["format"]["enum"] == [
            "table", "cat12-report", "bids", "oasis3", "ukb", "adnimerge", "tadpole",
        ]  # fmt: skip
        one, each = model["kernel"]["oneOf"]
        assert set(one["enum"]) == set(each["additionalProperties"]["enum"]) == set(KERNELS) - {"precomputed"}
        assert set(model["graph"]["enum"]) == set(GRAPHS)
        assert set(model["membership"]["enum"]) == set(PROJECTIONS)
        assert view["transform"]["enum"] == list(TRANSFORMS)
        for format in readers.FORMATS.values():
            options = {name for name, p in format.options.items() if p.kind is p.KEYWORD_ONLY}
            assert options - {*INTERNAL} <= set(View.model_fields)

    def test_the_schema_knows_every_block(self):
        schema = json_schema()
        assert set(schema["properties"]) == set(Study.model_fields)
        assert set(schema["$defs"]["View"]["properties"]) == set(View.model_fields)
        assert schema["$defs"]["View"]["additionalProperties"] is False


class TestMistakes:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            (MRI + "colums = ['a']", "line 5: views.mri.colums: unknown key; did you mean 'columns'?"),
            (MRI + "n_clusters = 2", "line 5: views.mri.n_clusters: unknown key; it belongs to [model]."),
            ("[view.mri]\npath = 'mri.csv'" + MRI, "line 1: view: unknown key; did you mean 'views'?"),
            (MRI + "[study]\nnam = 'x'", "line 6: study.nam: unknown key; did you mean 'name'?"),
            (MRI + "transform = 'Log'", "did you mean 'log'?"),
            (MRI + "format = 'tabel'", "line 5: views.mri.format: must be one of 'table', 'long', "),
            (MRI + "columns = 3", "line 5: views.mri.columns: should be a valid list."),
            (MRI + "columns = ['a',\n 3]", "line 5: views.mri.columns.1: should be a valid string."),
            (MRI + "missing_codes = [true]", "line 5: views.mri.missing_codes.0: should be a valid "),
            (
                MRI + "min_maf = 0.1",
                "line 5: views.mri.min_maf: not an option of format 'table'; it belongs to",
            ),
            (
                MRI + "[model]\nn_clusters = 1",
                "line 6: model.n_clusters: should be greater than or equal to 2.",
            ),
            (MRI + "[model]\nn_clusters = '3'", "line 6: model.n_clusters: should be a valid integer."),
            (MRI + "[model]\nn_clusters = true", "line 6: model.n_clusters: should be a valid integer."),
            (MRI + "[model]\nkernel = 'lineer'", "did you mean 'linear'?"),
            (
                MRI + "[model]\nkernel = {mri = 'lineer'}",
                "line 6: model.kernel.mri: must be one of 'linear', ",
            ),
            (
                MRI + "[model]\nlam = {mir = 1}",
                "line 6: model.lam.mir: there is no such view; did you mean 'mri'?",
            ),
            (
                MRI + "[model]\nlam = {mri = -1}",
                "line 6: model.lam.mri: should be greater than or equal to 0.",
            ),
            (
                MRI + "[ids]\nmatch = 'plink'",
                "line 6: ids.match: must be one of 'exact', 'adni', 'bids', got 'plink'.",
            ),
            ("[study]\nname = 'x'", "line 1: views: is missing; add a block [views.<name>] with a path."),
            ("views = {}", "line 1: views: there are none; add a block [views.<name>] with a path."),
            ("[views.mri]\npath = 'mri.csv'", "line 1: views.mri.id: is missing; format 'table' needs it."),
            ("[views.mri]\nid = 'a'", "line 1: views.mri: needs either path or paths."),
            (MRI + "paths = ['mri.csv']", "line 2: views.mri: needs either path or paths."),
            (
                "[views.mri]\npath = 'mir.csv'",
                "path: no such file or folder: mir.csv; did you mean 'mri.csv'?",
            ),
            ("[views.mri]\npath = ''", "line 2: views.mri.path: must be a path in quotes."),
            (
                "[views.mri]\npath = 'study.toml'",
                "line 1: views.mri.format: is missing and cannot be guessed",
            ),
            (MRI + "format = ''", "line 5: views.mri.format: must be one of 'table', "),
            (MRI + "[model]\ntol = nan", "line 6: model.tol: should be a finite number."),
            (
                MRI + "[views.MRI]\npath = 'mri.csv'\nid = 'RID'",
                "line 5: views.MRI: another view has the same name",
            ),
            (
                "[views.mri]\npath = '" + 300 * "x" + "'",
                "line 2: views.mri.path: no such file or folder: xxx",
            ),
            ('[views.mri]\npath = "a\\u0000"', "line 2: views.mri.path: "),
            (
                "[views.mri]\npath = '../no/where'",
                "line 2: views.mri.path: no such file or folder: ../no/where.",
            ),
            (
                "[views.'a/b']\npath = 'mri.csv'\nid = 'RID'",
                "line 1: views.a/b: names of views are up to 64 letters",
            ),
            (
                MRI + "[preparation]\ngenotypes = ['mir']",
                "line 6: preparation.genotypes: there is no view 'mir'; did you mean 'mri'?",
            ),
            (MRI + "[preparation]\nresidualise = 'AGE'", "'AGE' is not among participants.covariates"),
            (
                MRI + "[preparation]\nharmonise = 'combat'",
                "preparation.harmonise: 'combat' needs site of [participants].",
            ),
            (
                MRI + PEOPLE + "[preparation]\nresidualise = ['AEG']\nresidualise_on = 'all'",
                "13: preparation.residualise: 'AEG' is not among participants.covariates; did you mean 'AGE'",
            ),
            (
                MRI + PEOPLE + "[preparation]\nresidualise = ['AGE']",
                "estimating effects in controls needs diagnosis of [participants]",
            ),
            (
                MRI + PEOPLE + "[preparation]\nw_scores = ['AEG']\ncontrols = 'CN'",
                "13: preparation.w_scores: 'AEG' is not among participants.covariates; did you mean 'AGE'",
            ),
            (
                MRI + PEOPLE + "[preparation]\nw_scores = ['AGE']",
                "13: preparation.w_scores: needs diagnosis of [participants] (a column) and controls",
            ),
            (
                MRI + PEOPLE + "[preparation]\nw_scores = ['AGE']\nresidualise = ['AGE']\ncontrols = 'CN'",
                "13: preparation.w_scores: excludes residualise",
            ),
            (
                MRI + PEOPLE + "[preparation]\nw_scores = ['AGE']\ncontrols = 'CN'\nsplines = 'SEX'",
                "15: preparation.splines: 'SEX' must be among w_scores or residualise.",
            ),
            (
                MRI + PEOPLE + "[preparation]\nnew_sites = 'adapt'",
                "13: preparation.new_sites: 'adapt' needs harmonise = 'combat' and harmonise_on = 'controls'",
            ),
            (MRI + "[model]\nscale = { mir = 'unit' }", "model.scale.mir: there is no such view"),
            (MRI + "[report]\ntwins = 2", "report.twins: give 0 for none, or 3 or more"),
            (MRI + "[model]\nscale = 'max'", "model.scale: must be one of 'auto', 'standard', 'centre'"),
            (MRI + PEOPLE + "survival = { time = 'a' }", "line 12: participants.survival.event: is missing."),
        ],
    )
    def test_one_line_names_place_and_way_out(self, mistakes, text, expected):
        found = mistakes(text)
        assert any(expected in line for line in found), found
        assert all(line.startswith("study.toml, line ") for line in found)

    def test_all_mistakes_are_told_in_the_order_of_the_file(self, mistakes):
        text = "[model]\ngama = 2\n" + MRI + "colums = 'a'\n[ids]\nmatch = 'ADNI'"
        assert mistakes(text) == [
            "study.toml, line 2: model.gama: unknown key; did you mean 'gamma'?",
            "study.toml, line 7: views.mri.colums: unknown key; did you mean 'columns'?",
            "study.toml, line 9: ids.match: must be one of 'exact', 'adni', 'bids', got 'ADNI'; did "
            "you mean 'adni'?",
        ]

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("[views.mri\n", "line 1: not valid TOML: "),
            ("[views.mri]\npath = mri.csv", "line 2: not valid TOML: Invalid value; text needs quotes."),
            ("[views.mri]\npath = “mri.csv”", "use straight quotes."),
            ('[views.mri]\npath = "C:\\data\\mri.csv"', "line 2: not valid TOML: "),
            ('[views.mri]\npath = "C:\\data\\mri.csv"', "write paths with / or between single quotes."),
            ("a = 1\na = 2", "line 2: not valid TOML: Cannot overwrite a value"),
            ('a = """\nx\n', "not valid TOML: "),
        ],
    )
    def test_what_is_not_toml(self, mistakes, text, expected):
        (line,) = mistakes(text)
        assert expected in line

    def test_encodings_that_are_not_utf8(self, mistakes):
        assert mistakes(WHOLE, "cp1252") == ["study.toml: not UTF-8; save it with the encoding UTF-8."]

    def test_no_file(self, tmp_path):
        with pytest.raises(StudyError, match="no such study file"):
            read_study(tmp_path / "study.toml")


@pytest.mark.parametrize(
    ("where", "line"),
    [
        (("name",), 2),
        (("a", "b", "c"), 4),
        (("table",), 5),
        (("table", "text"), 6),
        (("table", "list"), 9),
        (("table", "list", 1, "x"), 9),
        (("table", "inline", "deep", "er"), 13),
        (("table", "absent"), 5),
        (("table", "inline", "absent"), 13),
        (("table", "sub", "key"), 15),
        (("rows", 0, "x"), 17),
        (("rows", 1, "x"), 19),
        (("rows", 2), 16),
        (("quoted key", "table"), 20),
        (("nowhere",), 1),
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_lines_of_keys(where, line, newline):
    text = '''# table = 1
name = "table"

a.b.c = 1
[table] # text = 2
text = """
list = 3
"""
list = [ # not "inline"
  "a",
  { x = 1 },
]
inline = { deep.er = "[rows]" }
[table.sub]
key = 1
[[rows]]
x = 1
[[rows]]
x = 2
["quoted key".table]
'''
    assert line_of(where, text.replace("\n", newline)) == line


def test_nearest_ignores_case_and_stays_silent_about_strangers():
    assert nearest("age", ["AGE", "PTGENDER"]) == "; did you mean 'AGE'?"
    assert nearest("xyz", ["AGE", "PTGENDER"]) == ""


@pytest.mark.skipif(not GUIDE.exists(), reason="the guide is not part of the package")
def test_the_guide_has_every_key_and_format():
    told = set(re.findall(r"`([\w-]+)`", GUIDE.read_text(encoding="utf-8")))
    keys = {key for block in BLOCKS.values() for key in block.model_fields}
    assert keys | set(readers.FORMATS) <= told | {"time", "event"}


def test_without_pydantic_the_way_out_is_told():
    code = "import sys; sys.modules['pydantic'] = None; import viewloom.study"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "Studies need pydantic: pip install viewloom[study]" in run.stderr
