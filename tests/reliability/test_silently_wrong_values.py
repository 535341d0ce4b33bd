"""Cells that are easily misread: each gives the right number, or an error with column, text and way out.

Every kind of damage is done to a column of a view, to a covariate and to an outcome, and read as ``viewloom
check`` and ``viewloom fit`` do. Where it is refused, the way out that the error names must work.
"""

import os
import re
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from viewloom import study as studies
from viewloom.study.errors import StudyError
from viewloom.study.preparation.covariates import Covariates
from viewloom.study.readers.notation import Notation, fault, may_be_grouped, parse
from viewloom.study.readers.plink import read_raw
from viewloom.study.sentinels import candidates

N, NAN = 30, np.nan
IDS = [f"sub-{j:03d}x" for j in range(N)]
RNG = np.random.default_rng(0)
AGES = RNG.uniform(55, 90, N).round(1)
COUNTS = RNG.integers(120, 9000, N).astype(float)
COUNTS[:3] = [6995, 183, 7420]
ROLES = ["view", "covariate", "outcome"]


def texts(values, decimal="."):
    return [f"{value:g}".replace(".", decimal) for value in values]


def grouped(values, mark):
    return [f"{int(value):,}".replace(",", mark) for value in values]


def put(cells, *new):
    """The cells with the first ones replaced."""
    return [*new, *cells[len(new) :]]


@dataclass
class Damage:
    """Cells of a column, what the error says, the line that mends it, and what is read then.

    `said` is empty where the cells are read as they are.
    """

    cells: list
    said: tuple
    line: str | None
    values: np.ndarray
    delimiter: str = ","


def missing(values, *at):
    return np.where(np.isin(np.arange(N), at), NAN, values)


def right(cells, values=None, delimiter=","):
    return Damage(cells, (), "", AGES if values is None else values, delimiter)


T = "'target'"
DAMAGES = {
    "one bound": Damage(put(texts(AGES), "90+"), (T, "'90+'"), 'missing_codes = ["90+"]', missing(AGES, 0)),
    "below detection": Damage(
        put(texts(AGES), "<5", "<5"), (T, "'<5'"), 'missing_codes = ["<5"]', missing(AGES, 0, 1)
    ),
    "a word": Damage(put(texts(AGES), "n.d."), (T, "'n.d.'"), 'missing_codes = ["n.d."]', missing(AGES, 0)),
    "a dash": Damage(put(texts(AGES), "-"), (T, "'-'"), 'missing_codes = ["-"]', missing(AGES, 0)),
    "an Excel error": Damage(
        put(texts(AGES), "#DIV/0!"), (T, "'#DIV/0!'"), 'missing_codes = ["#DIV/0!"]', missing(AGES, 0)
    ),
    "two kinds of text": Damage(
        put(texts(AGES), "90+", "?"), (T, "'90+', '?'"), 'missing_codes = ["90+", "?"]', missing(AGES, 0, 1)
    ),
    "a unit": Damage(put(texts(AGES), "61 mm"), (T, "'61 mm'", "without units"), None, AGES),
    "percent signs": Damage([f"{x}%" for x in texts(AGES)], (T, "without percent signs"), None, AGES),
    "a date": Damage(put(texts(AGES), "2004-03-01"), (T, "a date"), None, AGES),
    "quotation marks": Damage([f"'{x}'" for x in texts(AGES)], (T, "quotation marks"), None, AGES),
    "quoted decimal commas": Damage(
        [f'"{x}"' for x in texts(AGES, ",")], (T, "decimal commas", 'decimal = ","'), 'decimal = ","', AGES
    ),
    "one quoted decimal comma": Damage(put(texts(AGES), '"61,2"'), (T, "one decimal mark"), None, AGES),
    "decimal commas": right(texts(AGES, ","), delimiter=";"),
    "decimal commas, tabs": right(texts(AGES, ","), delimiter="\t"),
    "both decimal marks": Damage(
        put(texts(AGES, ","), "61.2"), (T, "'61.2'", "one decimal mark"), None, AGES, ";"
    ),
    "thousands with points": Damage(
        grouped(COUNTS, "."), (T, 'thousands = "."', 'decimal = "."'), 'thousands = "."', COUNTS, ";"
    ),
    "thousands with points, commas between cells": Damage(
        grouped(COUNTS, "."), (T, 'thousands = "."'), 'thousands = "."', COUNTS
    ),
    "thousands with commas": Damage(
        [f'"{x}"' for x in grouped(COUNTS, ",")], (T, 'thousands = ","'), 'thousands = ","', COUNTS
    ),
    "thousands with commas, tabs": Damage(
        grouped(COUNTS, ","), (T, 'thousands = ","', 'decimal = ","'), 'thousands = ","', COUNTS, "\t"
    ),
    "thousands throughout, tabs": Damage(
        grouped(COUNTS + 1000, ","), (T, 'thousands = ","'), 'thousands = ","', COUNTS + 1000, "\t"
    ),
    "millions": Damage(
        grouped(COUNTS * 1000, "."), (T, 'thousands = "."'), 'thousands = "."', COUNTS * 1000, ";"
    ),
    "thousands with blanks": Damage(
        grouped(COUNTS, " "), (T, 'thousands = " "'), 'thousands = " "', COUNTS, ";"
    ),
    "thousands with apostrophes": Damage(
        grouped(COUNTS, "'"), (T, 'thousands = "\'"'), 'thousands = "\'"', COUNTS, ";"
    ),
    "thousands and decimals": Damage(
        [f"{x:,.1f}".translate(str.maketrans(",.", ".,")) for x in COUNTS],
        (T, 'thousands = "."'), 'decimal = ","\nthousands = "."', COUNTS, ";",
    ),
    "three decimals that are decimals": Damage(
        put([f"{x:.3f}" for x in AGES], "61"), (T, 'decimal = "."'), 'decimal = "."', put(AGES, 61.0)
    ),
    "three decimals": right([f"{x:.3f}" for x in AGES]),
    "three decimals and zeros": right(put([f"{x:.3f}" for x in AGES], "0"), put(AGES, 0.0)),
    "exponents": right(put(texts(AGES), "6.1e1"), put(AGES, 61.0)),
    "truth": right([str(x > 70) for x in AGES], (AGES > 70) * 1.0),
    "truth with blanks": right(put([str(x > 70).upper() for x in AGES], ""), missing((AGES > 70) * 1.0, 0)),
    **{
        f"blank {blank!r}": right(put(texts(AGES), blank), missing(AGES, 0))
        for blank in ("", " ", "NA", "n/a", "NaN", "#N/A", ".", "NULL")
    },
    **{
        f"code {code}": Damage(
            put(texts(AGES), code, code),
            (T, code, "2 cells"), f"missing_codes = [{code}]", missing(AGES, 0, 1),
        )
        for code in ("-4", "-1", "-9", "-99", "-999", "999", "9999", "99999", "777", "-9999", "999.9")
    },
    "code 999 once": Damage(put(texts(AGES), "999"), (T, "999"), "missing_codes = [999]", missing(AGES, 0)),
    "code that is a value": Damage(
        put(texts(AGES), "-4", "-4"),
        (T, "'target' = []"), "missing_codes = { target = [] }", put(AGES, -4.0, -4.0),
    ),
    "code that is a value anywhere": Damage(
        put(texts(AGES), "-4", "-4"), (T, "-4"), "missing_codes = []", put(AGES, -4.0, -4.0)
    ),
    "code beside thousands of millimetres": Damage(
        put(texts(COUNTS), "-4", "-4"), (T, "-4"), "missing_codes = [-4]", missing(COUNTS, 0, 1)
    ),
}  # fmt: skip


def write(folder, role, damage, line="", name="target"):
    """A study whose column `target` is damaged, in a view or among the participants."""
    mark, folder = damage.delimiter, Path(folder)
    plain = [[f"{x:.0f}" for x in RNG.integers(1000, 9000, N)] for _ in range(3)]
    sex = ["F", "M"] * (N // 2)
    columns = {
        "view": {"h1": plain[0], "h2": plain[1]},
        "people": {"sex": sex, "other": plain[2]},
    }
    columns["view" if role == "view" else "people"][name] = damage.cells
    for file, table in columns.items():
        rows = zip(IDS, *table.values(), strict=True)
        lines = [mark.join(row) for row in [["id", *table], *rows]]
        (folder / f"{file}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    named = {"covariate": f"covariates = ['sex', '{name}']", "outcome": f"outcomes = ['{name}']"}
    view, people = (line, "") if role == "view" else ("", line)
    (folder / "study.toml").write_text(
        f"[participants]\npath = 'people.csv'\nid = 'id'\ndiagnosis = 'sex'\n{named.get(role, '')}\n"
        f"{people}\n"
        f"[views.a]\npath = 'view.csv'\nid = 'id'\nformat = 'table'\n{view}\n",
        encoding="utf-8",
    )
    return studies.read_study(folder / "study.toml")


def column_of(data, role, name="target"):
    if role != "view":
        return data.participants[name]
    return data.views["a"][:, data.views.feature_names["a"].tolist().index(name)]


def problems(study):
    """What `check` says, which is what `load`, the first step of `fit`, refuses with."""
    found = studies.check(study)
    assert not found.ok
    with pytest.raises(StudyError) as caught:
        studies.load(study)
    assert str(caught.value).split("\n") == found.problems
    assert not re.search(r"sub-\d", str(caught.value)), "an id was told"
    return "\n".join(found.problems)


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("name", DAMAGES)
def test_right_or_refused(tmp_path, role, name):
    damage = DAMAGES[name]
    study = write(tmp_path, role, damage)
    if damage.said:
        message = problems(study)
        for part in damage.said:
            assert part in message, message
    if damage.line is not None:
        study = write(tmp_path, role, damage, damage.line)
        read = column_of(studies.load(study), role)
        assert_allclose(pd.to_numeric(pd.Series(read)).to_numpy(float), damage.values)


@pytest.mark.parametrize("role", ROLES[1:])
def test_texts_among_numbers_may_be_declared_as_categories(tmp_path, role):
    damage = Damage(list("12123" * 5) + ["4+"] * 5, (), "", AGES)
    assert "'4+'" in problems(write(tmp_path, role, damage))
    study = write(tmp_path, role, damage, "categorical = ['target']")
    assert column_of(studies.load(study), role).tolist() == damage.cells
    table = studies.check(study).covariates
    assert table.loc["target", "type"] == "categories"


def test_numbers_declared_as_categories_are_coded_so(tmp_path):
    cells = [x for x, _ in zip(cycle("123"), range(N), strict=False)]
    study = write(tmp_path, "covariate", Damage(cells, (), "", AGES), "categorical = ['target']")
    fitted = Covariates.fit(studies.load(study).participants, ["target"])
    assert fitted.levels == {"target": ["1", "2", "3"]}


SPELLINGS = {
    "case": (["F", "f", "M", "M"], "'F', 'f'"),
    "words": (["F", "female", "M", "Male"], "'F', 'female'"),
    "blanks inside": (["Site 1", "site_1", "B", "B"], "'Site 1', 'site_1'"),
    "yes": (["yes", "Y", "no", "no"], "'Y', 'yes'"),
    "leading zeros": (["01", "1", "B", "B", "B"], "'01', '1'"),
    "mixes codes and words": (["F", "M", "F", "1"], "'1', 'F', 'M'"),
}


@pytest.mark.parametrize("key", ["covariates", "outcomes", "diagnosis", "site"])
@pytest.mark.parametrize("name", SPELLINGS)
def test_every_level_has_one_spelling(tmp_path, key, name):
    levels, told = SPELLINGS[name]
    cells = [level for level, _ in zip(cycle(levels), range(N), strict=False)]

    def study(line):
        written = write(tmp_path, "people", Damage(cells, (), "", AGES))
        text = written.path.read_text().replace("diagnosis = 'sex'", f"{key} = 'target'\n{line}")
        written.path.write_text(text)
        return studies.read_study(written.path)

    message = problems(study(""))
    assert "'target'" in message
    assert told in message
    first, *others = re.search(r"levels = (\{.*?\} \})", message).groups()
    way_out = f"levels = {first}" if "..." not in first else "levels = { target = { F = [1] } }"
    assert not others
    joined = studies.load(study(way_out)).participants["target"]
    assert joined.nunique() == 2
    apart = studies.load(study("categorical = ['target']")).participants["target"]
    assert apart.nunique() == len(set(levels))


def test_many_levels_are_not_told_for_they_may_be_ids(tmp_path):
    cells = [f"Secret{j // 2}" if j % 2 else f"secret{j // 2}" for j in range(2 * 22)][:N]
    damage = Damage(cells, (), "", AGES)
    message = problems(write(tmp_path, "outcome", damage))
    assert "15 levels with several spellings" in message
    assert "ecret" not in message.replace("'target'", "")


@pytest.mark.parametrize("cells", [IDS, [f"{j}A{j}" for j in range(N)], ["2004-03-01"] * 2 + texts(AGES)[2:]])
def test_ids_and_dates_are_not_told(tmp_path, cells):
    mixed = [*texts(AGES)[:20], *cells[20:]] if cells[0] != "2004-03-01" else cells
    message = problems(write(tmp_path, "view", Damage(mixed, (), "", AGES)))
    assert "'target'" in message
    assert not any(cell in message for cell in cells if not re.fullmatch(r"[\d.]+", cell))


def test_all_columns_are_told_at_once_and_few_by_name(tmp_path):
    many = {f"x{j:02d}": put(texts(AGES), "n.d.") for j in range(20)}
    many["y"], many["z"] = [f"{x}%" for x in texts(AGES)], put(texts(AGES), "999", "999")
    frame = pd.DataFrame(many, index=pd.Index(IDS, name="id"))
    frame.to_csv(tmp_path / "view.csv")
    (tmp_path / "study.toml").write_text("[views.a]\npath = 'view.csv'\nid = 'id'\n")
    lines = problems(studies.read_study(tmp_path / "study.toml")).split("\n")
    assert [line for line in lines if "'x00'" in line and "19 more columns" in line and "'n.d.'" in line]
    assert [line for line in lines if "'y'" in line and "percent" in line]
    assert all(len(line) < 400 for line in lines)


def test_check_lists_the_columns_of_participants(tmp_path):
    study = write(tmp_path, "covariate", right(texts(AGES)))
    table = studies.check(study).covariates
    assert table.index.tolist() == ["sex", "target"]
    assert table.loc["sex", "levels"] == "F (15), M (15)"
    age = table.loc["target"]
    assert (age["type"], age["missing"], age["step"]) == ("numbers", 0, 0.1)
    beyond = (np.sort(AGES) < age["lowest"]).sum(), (age["highest"] < AGES).sum()
    assert min(beyond) >= 10
    computed = [f"{x}" for x in AGES + 1e-13 * (np.arange(N) % 3)]
    table = studies.check(write(tmp_path, "covariate", right(computed))).covariates
    assert table.loc["target", "step"] == 0.1
    cells = ["F"] * 4 + ["M"] * 26
    rare = studies.check(write(tmp_path, "covariate", Damage(cells, (), "", AGES))).covariates
    assert rare.loc["target", "levels"] == "F (<11), M (≥11)"


@pytest.mark.parametrize("role", ROLES)
def test_a_score_of_minus_one_is_noted(tmp_path, role):
    scores = put(texts(np.arange(N) % 12), "-1", "-1")
    study = write(tmp_path, role, Damage(scores, (), "", AGES))
    (note,) = [
        note for note in map(str, studies.check(study).notes) if "-1 as the only negative value" in note
    ]
    assert "'target'" in note
    for line in ("missing_codes = [-1]", "missing_codes = []"):
        found = studies.check(write(tmp_path, role, Damage(scores, (), "", AGES), line))
        assert not any("negative" in note for note in map(str, found.notes))


class TestOtherFormats:
    """The same in long tables, Parquet, FreeSurfer's tables, ADNI's and PLINK's."""

    def study(self, folder, content, block, name="v.csv"):
        if isinstance(content, str):
            (folder / name).write_text(content)
        (folder / "study.toml").write_text(f"[views.a]\npath = '{name}'\n{block}")
        return studies.read_study(folder / "study.toml")

    @pytest.mark.parametrize("format", ["long", "freesurfer-table", "ucsffsx", "fdg"])
    @pytest.mark.parametrize("cells", ["thousands", "sentinel", "word"])
    def test_text_formats(self, tmp_path, format, cells):
        values = {
            "thousands": grouped(COUNTS, "."),
            "sentinel": put(texts(COUNTS), "99999", "99999"),
            "word": put(texts(COUNTS), "n.d."),
        }[cells]
        more = texts(RNG.integers(1000, 9000, N))
        rows = list(zip(IDS, values, more, strict=True))
        text, block = {
            "long": (
                "id,region,value\n" + "".join(f"{i},r1,{a}\n{i},r2,{b}\n" for i, a, b in rows),
                "format = 'long'\nid = 'id'\nname = 'region'\nvalue = 'value'\n",
            ),
            "freesurfer-table": (
                "Measure:volume\tr1\tr2\n" + "".join(f"{i}\t{a}\t{b}\n" for i, a, b in rows), ""
            ),
            "ucsffsx": (
                "RID,VISCODE2,OVERALLQC,ST29SV,ST88SV\n"
                + "".join(f"{j},bl,Pass,{a},{b}\n" for j, (_, a, b) in enumerate(rows)), ""
            ),
            "fdg": (
                "RID,VISCODE2,ROINAME,MEAN\n"
                + "".join(f"{j},bl,r1,{a}\n{j},bl,r2,{b}\n" for j, (_, a, b) in enumerate(rows)), ""
            ),
        }[format]  # fmt: skip
        message = problems(self.study(tmp_path, text, block))
        part = {"thousands": "thousands", "sentinel": "99999", "word": "'n.d.'"}[cells]
        assert part in message
        if cells == "thousands":
            return
        code = {"sentinel": "99999", "word": "'n.d.'"}[cells]
        data = studies.load(self.study(tmp_path, text, f"{block}missing_codes = [{code}]\n"))
        assert np.isnan(data.views["a"]).sum() == (2 if cells == "sentinel" else 1)

    def test_ucsffsx_and_fdg_know_their_codes(self, tmp_path):
        rows = "".join(f"{j},bl,Pass,{a:g},{a + 7:g}\n" for j, a in enumerate(put(COUNTS, -4, -1)))
        text = "RID,VISCODE2,OVERALLQC,ST29SV,ST88SV\n" + rows.replace(",3\n", ",-4\n").replace(
            ",6\n", ",-1\n"
        )
        data = studies.load(self.study(tmp_path, text, ""))
        assert len(data.views.ids) == N - 2

    def test_patterns_of_codes_fit_either_name_of_a_column(self, tmp_path):
        rows = "".join(f"{j},bl,Pass,{a:g},{a + 7:g}\n" for j, a in enumerate(put(COUNTS, 99999, 99999)))
        text = "RID,VISCODE2,OVERALLQC,ST29SV,ST88SV\n" + rows
        for pattern in ("ST29*", "LeftHippo*"):
            study = self.study(
                tmp_path, text, f"missing_codes = {{ 'ST88*' = [100006], '{pattern}' = [99999] }}"
            )
            assert np.isnan(studies.load(study).views["a"][:, 0]).sum() == 0  # rows without any value are out
            assert len(studies.load(study).views.ids) == N - 2

    @pytest.mark.parametrize("kind", ["text", "category", "boolean", "dates"])
    def test_parquet(self, tmp_path, kind):
        pytest.importorskip("pyarrow")
        columns = {
            "text": pd.Series(texts(AGES), dtype=object),
            "category": pd.Series(texts(AGES)).astype("category"),
            "boolean": pd.Series(AGES > 70).astype("boolean"),
            "dates": pd.Series(pd.date_range("2001-01-01", periods=N)),
        }
        frame = pd.DataFrame({"id": IDS, "h": COUNTS, "target": columns[kind]})
        frame.to_parquet(tmp_path / "v.parquet")
        study = self.study(tmp_path, None, "id = 'id'", "v.parquet")
        if kind == "dates":
            assert "'target' is a date" in problems(study)
        else:
            assert_allclose(studies.load(study).views["a"][:, 1], AGES > 70 if kind == "boolean" else AGES)
        if kind == "text":
            frame["target"] = texts(AGES, ",")
            frame.to_parquet(tmp_path / "v.parquet")
            assert 'set decimal = ","' in problems(study)
            study = self.study(tmp_path, None, "id = 'id'\ndecimal = ','", "v.parquet")
            assert_allclose(studies.load(study).views["a"][:, 1], AGES)

    def test_plink_codes_are_no_calls(self, tmp_path):
        path = tmp_path / "a.raw"
        path.write_text("FID IID PAT MAT SEX PHENOTYPE rs1_A\n" + "".join(
            f"{j} {j} 0 0 1 1 {call}\n" for j, call in enumerate([-9, 0, 1, 2])
        ))  # fmt: skip
        with pytest.raises(StudyError, match="1 calls are not between 0 and 2"):
            read_raw(path)

    def test_an_age_of_adnimerge_in_words_is_refused(self, tmp_path):
        rows = "".join(f"{j},011_S_{j:04d},bl,CN,{a},0,{a}\n" for j, a in enumerate(put(texts(AGES), "90+")))
        (tmp_path / "m.csv").write_text("RID,PTID,VISCODE,DX,AGE,Years_bl,MMSE\n" + rows)
        study = self.study(tmp_path, None, "", "m.csv")
        assert "'AGE' is not a number in 1 of 30 rows ('90+')" in problems(study)


class TestFalseAlarms:
    """Values that look like codes, but may well be values."""

    @pytest.mark.parametrize(
        "column",
        [
            RNG.normal(size=300).round(0), RNG.normal(size=300), RNG.integers(-2, 3, 300),
            RNG.integers(-1, 2, 300), RNG.poisson(3, 300) - 1, RNG.choice([-1, 1], 300),
            RNG.choice([0, 1, 2], 300), np.arange(60, 100),
            np.r_[RNG.poisson(60, 300), 99, 99], np.r_[RNG.lognormal(3, 1, 300).round(), 99],
            RNG.choice([0.0, 0.5, 1.0, 2.0, 3.0], 300), np.r_[RNG.uniform(0, 1000, 300).round(), 999, 999],
            np.r_[RNG.normal(0, 2, 300), -4, -4], np.r_[RNG.integers(0, 31, 300), -1, -1], [-1.0] * 9,
        ],
    )  # fmt: skip
    def test_of_columns_with_such_values(self, column):
        assert candidates(pd.DataFrame({"x": np.asarray(column, dtype=float)})) == []

    @pytest.mark.parametrize("size", [20, 200])
    def test_of_heavy_tails(self, size):
        rng = np.random.default_rng(1)
        shape = (size, 1000)
        for X in (
            rng.lognormal(0, 1.5, shape), rng.standard_t(3, shape), rng.lognormal(3, 1.5, shape).round(),
            rng.standard_t(3, shape).round(1), rng.negative_binomial(1, 0.05, shape),
        ):  # fmt: skip
            assert candidates(pd.DataFrame(X)) == []

    def test_of_real_sets(self, data_dir):
        for path in sorted(data_dir.glob("cohorts/*.npz")):
            with np.load(path) as arrays:
                for name in arrays.files:
                    X = arrays[name] if arrays[name].dtype.kind in "fiu" else np.empty((0, 0))
                    if X.ndim == 2:
                        assert candidates(pd.DataFrame(X.astype(float))) == [], path.name

    def test_of_real_tables(self):
        folder = Path(
            os.environ.get("VIEWLOOM_REALFILES", Path(__file__).parents[3] / "shared" / "realfiles")
        )
        if not folder.is_dir():
            pytest.skip("real files not found; set VIEWLOOM_REALFILES")
        for path, id in ("abide/aseg_stats.txt", None), ("mlni/test_feature.tsv", "participant_id"):
            format = "freesurfer-table" if id is None else "table"
            options = {} if id is None else {"id": id, "numeric": False}
            frame = studies.readers.FORMATS[format](folder / path, **options).select_dtypes("number")
            assert candidates(frame) == [], path
            assert frame.shape[1] > 5

    @pytest.mark.parametrize("digits", [1, 2, 3, 4])
    def test_of_decimals(self, digits):
        """Thickness written by R, which leaves out closing zeros, is not taken for thousands."""
        rng = np.random.default_rng(2)
        for _ in range(40):
            text = pd.Series([f"{x:g}" for x in rng.normal(2.5, 0.4, 60).round(digits)])
            assert fault(text, parse(text, Notation()), Notation()) is None


def test_what_may_be_thousands_is_found_as_by_its_definition():
    def literal(values, notation):
        known = values[np.isfinite(values)]
        parts = known[known % 1 != 0]
        if notation.given or not len(parts) or (len(parts) == len(known) and notation.certain):
            return False
        size = np.abs(parts) * 1000
        grouped = [1000 <= one < 1e6 and abs(one - round(one)) < 1e-6 for one in size]
        return max(np.abs(known)) > 2 and all(grouped)

    rng, found = np.random.default_rng(0), []
    for _ in range(300):
        values = np.where(
            rng.random(90) < rng.random(), rng.integers(1, 900, 90), rng.integers(1000, 9999, 90) / 1000
        )
        values[rng.random(90) < 0.1] = rng.choice([np.nan, np.inf, 5.0])
        if rng.random() < 0.5:
            values[rng.integers(90)] = rng.choice([0.5, 1.23456, -3.125, 1e7 + 0.5])
        for notation in (Notation(), Notation(","), Notation(certain=False), Notation(given=True)):
            found.append(may_be_grouped(values, notation))
            assert found[-1] == literal(values, notation)
    assert 0.1 < np.mean(found) < 0.9
