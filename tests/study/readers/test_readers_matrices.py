"""Tables with features in rows and subjects in columns: read as such, found as such, or refused."""

import numpy as np
import pandas as pd
import pytest
from noted import texts

from viewloom.study.check import check
from viewloom.study.config.toml import parse_study
from viewloom.study.drafting.draft import draft
from viewloom.study.errors import StudyError
from viewloom.study.readers import sniff
from viewloom.study.readers.matrices import read_matrix

N = 24
IDS = [f"S{n:03d}" for n in range(N)]
GENES = [f"ENSG{n:011d}" for n in range(30)]
VALUES = pd.DataFrame(np.random.default_rng(0).normal(8, 2, (30, N)).round(3), GENES, IDS)
PEOPLE = pd.DataFrame({"participant_id": IDS, "age": range(50, 50 + N), "sex": ["M", "F"] * (N // 2)})


def as_text(frame, sep="\t", corner=""):
    return frame.rename_axis(corner).to_csv(sep=sep)


def gct(version, columns=(), rows=()):
    """A GCT file with annotation of genes and subjects."""
    frame = VALUES.copy().astype(object)
    for at, name in enumerate(columns):
        frame.insert(at, name, range(30))
    top = pd.DataFrame([["na"] * len(columns) + list(row) for row in rows], columns=frame.columns)
    top.index = [f"note{n}" for n in range(len(rows))]
    sizes = f"30\t{N}" + (f"\t{len(columns)}\t{len(rows)}" if version == "1.3" else "")
    return f"#{version}\n{sizes}\n" + as_text(pd.concat([top, frame]), corner="Name")


def counts():
    """A table of featureCounts."""
    frame = VALUES.round().astype(int)
    for at, name in enumerate(["Chr", "Start", "End", "Strand", "Length"]):
        frame.insert(at, name, ["+"] * 30 if name == "Strand" else range(7, 37))
    return "# Program:featureCounts; Command:x\n" + as_text(frame, corner="Geneid")


def htseq():
    """Counts with totals of reads below."""
    totals = pd.DataFrame(900, ["__no_feature", "__ambiguous"], IDS)
    return as_text(pd.concat([VALUES, totals]))


LABELS = "Label," + ",".join(["case", "control"] * (N // 2)) + "\n"
LAYOUTS = {
    "plain.tsv": (as_text(VALUES), VALUES),
    "r.txt": ("\t".join(IDS) + as_text(VALUES).removeprefix("\t" + "\t".join(IDS)), VALUES),
    "v12.gct": (gct("1.2", ["Description"]), VALUES),
    "v13.gct": (gct("1.3", ["mean", "x"], [range(N), IDS]), VALUES),
    "batches.gct": (gct("1.3", ["x"], [["b1"] * N, IDS[::-1]]), VALUES),
    "counts.txt": (counts(), VALUES.round()),
    "htseq.tsv": (htseq(), VALUES),
    "labels.csv": (as_text(VALUES, ",").replace("\n", "\n" + LABELS, 1), VALUES),
    "group.csv": (as_text(VALUES, ",").replace("\n", "\n" + LABELS.replace("Label", "Class"), 1), VALUES),
    "geo_series_matrix.txt": (
        '!Series_title\t"x"\n!Sample_title\t' + "\t".join(IDS) + "\n!series_matrix_table_begin\n"
        + as_text(VALUES, corner="ID_REF") + "!series_matrix_table_end\n",
        VALUES,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYOUTS)
def test_values_of_each_layout(tmp_path, name):
    text, expected = LAYOUTS[name]
    (tmp_path / name).write_text(text)
    frame = read_matrix(tmp_path / name)
    pd.testing.assert_frame_equal(
        frame, expected.T.astype(float).rename_axis("id"), check_names=False, check_index_type=False
    )
    assert sniff(tmp_path / name) == "matrix"


@pytest.mark.parametrize("name", ["plain.tsv", "v13.gct", "labels.csv"])
def test_init_finds_subjects_in_the_header(tmp_path, name):
    symbols = LAYOUTS[name][0].replace("ENSG000000000", "G")  # names that tell nothing
    (tmp_path / name).write_text(symbols)
    PEOPLE.to_csv(tmp_path / "participants.csv", index=False)
    study = parse_study(draft(tmp_path).text, tmp_path / "study.toml")
    (view,) = study.views.values()
    assert view.format == "matrix"
    assert study.participants is not None
    found = check(study)
    assert not found.problems


def test_check_says_that_columns_are_subjects(tmp_path):
    (tmp_path / "genes.csv").write_text(as_text(VALUES, ",", "sample"))
    PEOPLE.to_csv(tmp_path / "participants.csv", index=False)
    text = """[participants]
path = "participants.csv"
id = "participant_id"
[views.genes]
path = "genes.csv"
format = "{}"
{}
[model]
n_clusters = 2
"""
    wrong = parse_study(text.format("table", 'id = "sample"'), tmp_path / "study.toml")
    (problem,) = check(wrong).problems
    assert "the columns of view 'genes' are subjects" in problem
    assert "format = 'matrix'" in problem
    right = parse_study(text.format("matrix", ""), tmp_path / "study.toml")
    assert not check(right).problems


def test_results_of_tests_are_no_subjects(tmp_path):
    results = pd.DataFrame({"baseMean": range(30), "log2FoldChange": range(30), "padj": range(30)}, GENES)
    (tmp_path / "results.csv").write_text(as_text(results, ","))
    PEOPLE.to_csv(tmp_path / "participants.csv", index=False)
    assert sniff(tmp_path / "results.csv") == "table"
    with pytest.raises(StudyError, match="its rows are not subjects"):
        draft(tmp_path)


def test_rows_of_one_name(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("gene,S1,S2,S3\nA,1,2,NA\nB,3,4,5\nA,3,4,6\n")
    with pytest.raises(StudyError, match=r"1 rows have the name of another row; .*repeats = 'mean'"):
        read_matrix(path)
    frame = read_matrix(path, repeats="mean")
    assert frame.to_numpy().tolist() == [[2, 3], [3, 4], [6, 5]]
    assert "1 row with the name of another averaged" in texts(frame.attrs["notes"])


def test_subjects_and_features_are_chosen_by_patterns(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("gene,qc,S1,S2\nA,9,1,-9\nB,9,3,4\nC,9,x,6\n")
    frame = read_matrix(path, subjects=["S*"], columns=["A", "B"], missing_codes={"A": [-9]})
    assert frame.index.tolist() == ["S1", "S2"]
    assert frame["A"].isna().tolist() == [False, True]
    with pytest.raises(StudyError, match="column 'C' is"):
        read_matrix(path, subjects=["S*"])


def test_ids_of_subjects_must_be_unique(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("gene,S1,S1\nA,1,2\nB,3,4\n")
    with pytest.raises(StudyError, match="1 column with the name of another"):
        read_matrix(path)


def test_a_gct_of_few_columns_whose_ids_are_numbers(tmp_path):
    path = tmp_path / "a.gct"
    path.write_text("#1.3\n2\t2\t1\t0\nrid\trhd1\t11\t12\nA\tx\t1\t2\nB\ty\t3\t4\n")
    frame = read_matrix(path)
    assert sniff(path) == "matrix"
    assert frame.index.tolist() == ["11", "12"]
    assert frame.to_numpy().tolist() == [[1, 3], [2, 4]]


def test_a_damaged_gct_is_refused(tmp_path):
    path = tmp_path / "a.gct"
    path.write_text("Name\tDescription\tS1\tS2\nA\tx\t1\t2\nB\tx\t3\t4\n")
    with pytest.raises(StudyError, match="is not a GCT file"):
        read_matrix(path)


@pytest.mark.parametrize("pattern", ["P{:05d}", "NP_{:03d}", "CG{:08d}", "q{:05d}", "XR_{}"])
def test_ids_like_those_of_proteins_and_sites_are_subjects(tmp_path, pattern):
    table = VALUES.set_axis([pattern.format(n) for n in range(30)]).set_axis(
        [f"v{n}" for n in range(N)], axis=1
    )
    (tmp_path / "volumes.csv").write_text(as_text(table, ",", "id"))
    assert sniff(tmp_path / "volumes.csv") == "table"
    view = parse_study(draft(tmp_path).text, tmp_path / "study.toml").views["volumes"]
    assert (view.format, view.id) == ("table", "id")


def test_accessions_of_proteins_are_features(tmp_path):
    names = [f"P{n:05d}" for n in range(20)] + [f"Q9Y6K{n}" for n in range(10)]
    (tmp_path / "proteins.tsv").write_text(as_text(VALUES.set_axis(names), corner="id"))
    assert sniff(tmp_path / "proteins.tsv") == "matrix"


def test_a_name_that_begins_like_that_of_a_gct_file(tmp_path):
    (tmp_path / "study.gcta.csv").write_text(as_text(VALUES.T, ",", "id"))
    assert sniff(tmp_path / "study.gcta.csv") == "table"


def write_numbered(folder, id):
    """Features 1 to 12 of subjects whose numbers are those of the participants."""
    numbers = [str(n) for n in range(1, N + 1)]
    regions = VALUES.T.iloc[:, :12].set_axis(numbers[:12], axis=1)
    regions.index = [id.format(n) for n in range(1, N + 1)]
    (folder / "regions.csv").write_text(as_text(regions, ",", "id"))
    PEOPLE.assign(participant_id=numbers).to_csv(folder / "participants.csv", index=False)


@pytest.mark.parametrize("id", ["sub-{:03d}", "S{:03d}"])
def test_numbered_features_are_no_subjects_with_numbers(tmp_path, id):
    write_numbered(tmp_path, id)
    study = parse_study(draft(tmp_path).text, tmp_path / "study.toml")
    assert study.views["regions"].format == "table"


def test_ids_in_another_spelling_come_before_columns_that_are_subjects(tmp_path):
    write_numbered(tmp_path, "sub-{:03d}")
    text = """[participants]
path = "participants.csv"
id = "participant_id"
[views.regions]
path = "regions.csv"
id = "id"
[model]
n_clusters = 2
"""
    (problem,) = check(parse_study(text, tmp_path / "study.toml")).problems
    assert "set match = 'bids'" in problem
