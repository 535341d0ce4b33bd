"""Inputs on which a reader once failed, hung or swelled: it returns, or raises what it documents."""

import sys
import time
from pathlib import Path

import pytest
from hostile import no_hang

from viewloom.models.persistence import DamagedFile
from viewloom.runtime.errors import MissingPackageError
from viewloom.study.errors import StudyError
from viewloom.study.readers import FORMATS

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from fuzzing.seeds import SEEDS
from fuzzing.targets import ADNI, TARGETS, attempt

CORPUS = Path(__file__).with_name("corpus")
FILES = sorted(path.relative_to(CORPUS).as_posix() for path in CORPUS.rglob("*") if path.is_file())
LONGEST = 5.0  # CPU seconds
FOREIGN = ["adni-pet", "bids", "caps", "cat12", "cat12-report", "clinica-merge", "muse", "oasis3"]


def test_every_format_is_fuzzed():
    assert set(FORMATS) <= set(TARGETS) | {format for format, _ in ADNI}
    assert {name.split("/")[0] for name in FILES} <= set(TARGETS) == set(SEEDS)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FILES)
def test_known_inputs(tmp_path, name):
    content = (CORPUS / name).read_bytes()
    began = time.process_time()
    try:
        with no_hang():
            attempt(TARGETS[name.split("/")[0]], content, tmp_path)
    except MissingPackageError as missing:
        pytest.skip(str(missing))
    assert time.process_time() - began < LONGEST


@pytest.mark.parametrize(
    ("name", "error", "told"),
    [
        ("load/number-beyond-float", DamagedFile, "contains an invalid entry"),
        ("load/type-that-numpy-lacks", DamagedFile, "numbers of a type that models do not have"),
        ("load/extra-of-another-kind", DamagedFile, "does not contain a model"),
        ("predict/limits-of-text", DamagedFile, "a preparation that cannot be read"),
        ("study/deep.toml", StudyError, "a number is too large, or lists are nested too deeply"),
        ("study/digits.toml", StudyError, "a number is too large, or lists are nested too deeply"),
        ("study/many-parts.toml", StudyError, "line 1: more than 500 dots"),
        ("table/codec-that-fails", StudyError, "cannot be decoded as undefined"),
        ("table/codec-with-nul", StudyError, "unknown encoding"),
        ("adni/visits-twice", StudyError, "1 column names occur more than once: 'VISCODE'"),
        ("parquet/metadata-of-unknown-type", StudyError, "is not a valid Parquet file"),
    ],
)
def test_what_is_told(tmp_path, name, error, told):
    target = TARGETS[name.split("/")[0]]
    with pytest.raises(error, match=told):
        target.run((CORPUS / name).read_bytes(), tmp_path)


def test_of_very_many_mistakes_the_first_are_told(tmp_path):
    with pytest.raises(StudyError) as caught:
        TARGETS["study"].run((CORPUS / "study/many-mistakes.toml").read_bytes(), tmp_path)
    assert [line.split(":")[0] for line in str(caught.value).split("\n")] == [
        f"study.toml, line {number}" for number in range(4, 54)
    ]


def test_numbers_of_any_length_beside_decimal_commas(tmp_path):
    frame = TARGETS["table"].run(b"\0id;a;b\n1;3,5;" + b"9" * 40 + b"\n", tmp_path)
    assert frame.loc["1"].tolist() == [3.5, 1e40]


def test_a_table_without_any_diagnosis(tmp_path):
    frame = TARGETS["adni"].run((CORPUS / "adni/no-diagnosis").read_bytes(), tmp_path)
    assert frame["AGE"].tolist() == [70.0, 71.0]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name", ["load", "study", "predict", "adni", "freesurfer-table", "plink-raw", *FOREIGN]
)
def test_fuzzing_begins_with_files_that_can_be_read(tmp_path, name):
    assert TARGETS[name].run(next(iter(SEEDS[name]())), tmp_path) is not None
