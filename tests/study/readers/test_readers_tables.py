"""Wide and long tables as spreadsheets, R and Windows write them, and what is refused in which words."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from noted import texts
from numpy.testing import assert_array_equal

from viewloom.study.errors import StudyError
from viewloom.study.readers import FORMATS, frames, sniff
from viewloom.study.readers.tables import read_long, read_table
from viewloom.study.readers.text import find_dialect, load, padded_columns

NAN = np.nan
WIDE = "subject,hippocampus,amygdala\n007,3.5,1.25\n008,2.5,\n010,-4,1.75\n"
VALUES = [[3.5, 1.25], [2.5, NAN], [-4.0, 1.75]]
COMMAS = ["decimal commas read as points"]
ABOVE = ["1 line above the header left out"]
ABOVE_2, ABOVE_3 = ([f"{n} lines above the header left out"] for n in (2, 3))
BELOW = ["2 rows of notes or totals below the table left out"]
SHORT = ["1 row with fewer cells than the header: the last ones are missing"]
LONG = "RID,VISCODE,ROI,SIDE,SUVR\n2,bl,Angular,Left,1.2\n2,bl,Angular,Right,1.3\n5,bl,Angular,Left,1.4\n"


@pytest.fixture
def write(tmp_path):
    """Write text, or bytes as they are, and give the path."""

    def write(content, name="table.csv", encoding="utf-8"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode(encoding))
        return path

    return write


def complaint(path, **options):
    with pytest.raises(StudyError) as caught:
        read_table(path, **{"id": "subject", **options})
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(f"{path.name}: ")
    return message


class TestWide:
    @pytest.mark.parametrize(
        ("change", "encoding", "note"),
        [
            (lambda text: text, "utf-8", []),
            (lambda text: text, "utf-8-sig", []),
            (lambda text: text, "utf-16", []),
            (lambda text: text.replace(",", ";"), "cp1252", []),
            (lambda text: text.replace(",", "\t"), "utf-8", []),
            (lambda text: text.replace("\n", "\r\n"), "utf-8", []),
            (lambda text: text.replace("\n", "\r"), "utf-8", []),
            (lambda text: text.replace(",", ", "), "utf-8", []),
            (lambda text: '"' + text.strip().replace(",", '","').replace("\n", '"\n"') + '"', "utf-8", []),
            (lambda text: "sep=;\n" + text.replace(",", ";"), "utf-8", []),
            (lambda text: text.replace(",", ";").replace(".", ","), "utf-8", COMMAS),
            (lambda text: text.replace(",", "\t").replace(".", ","), "utf-16", COMMAS),
            (lambda text: "\n" + text.replace("\n", "\n\n"), "utf-8", []),
            (lambda text: text + ",,\n,,\n", "utf-8", ["2 blank rows left out"]),
            (lambda text: text.replace("\n", ",\n"), "utf-8", []),
            (lambda text: text.replace("\n", ",\n").replace("amygdala,", "amygdala"), "utf-8", []),
            (lambda text: text, "utf-32", []),
            (lambda text: text + "\x1a", "utf-8", ["1 blank row left out"]),
            (lambda text: text.replace(",", "|"), "utf-8", []),
            (lambda text: text.replace(",,", ",NA,").replace(",\n", ",NA\n").replace(",", " "), "utf-8", []),
            (lambda text: "# a, b\n\n# c\n" + text, "utf-8", ["2 lines above the header left out"]),
            (lambda text: "Volumes of 2021\n\n" + text, "utf-8", ABOVE),
            (lambda text: '"Volumes, in mL",,\n' + text, "utf-8", ABOVE),
            (lambda text: "Volumes of 2021\nin mL\n" + text, "utf-8", ABOVE_2),
            (lambda text: "A study of\nhealth and\n\nof age\n" + text, "utf-8", ABOVE_3),
            (lambda text: "A study\nin mL\n" + text.replace(",", ";").replace(".", ","), "utf-8",
             [*COMMAS, *ABOVE_2]),
            (lambda text: "A,,\nB,,\nC c,,\n" + text, "utf-8", ABOVE_3),
            (lambda text: "Volumes of 2021\n" + text.replace(",", "|"), "utf-8", ABOVE),
            (lambda text: text + "# end\n", "utf-8", ["1 comment left out"]),
            (lambda text: text + "Mean,1,2\nTotal,3,\n", "utf-8", BELOW),
            (lambda text: text.replace("2.5,", "2.5"), "utf-8", SHORT),
        ],
        ids=["comma", "bom", "utf-16", "semicolon", "tab", "crlf", "cr", "blanks", "quotes", "sep line",
             "decimal comma", "decimal comma, tab, utf-16", "empty lines", "empty rows", "empty column",
             "closing delimiter", "utf-32", "end of DOS", "bar", "blank", "comments above", "title above",
             "title with delimiters above", "two titles", "three titles", "two titles, decimal comma",
             "titles with delimiters", "title above bars", "comment", "totals", "short row"],
    )  # fmt: skip
    def test_any_dialect_gives_the_same_numbers(self, write, change, encoding, note):
        frame = read_table(write(change(WIDE), encoding=encoding), id="subject")
        assert frame.index.tolist() == ["007", "008", "010"]
        assert frame.index.name == "id"
        assert frame.columns.tolist() == ["hippocampus", "amygdala"]
        assert (frame.dtypes == np.float64).all()
        assert_array_equal(frame, VALUES)
        assert texts(frame.attrs["notes"]) == note

    def test_columns_without_any_value_are_left_out_and_named(self, write):
        frame = read_table(write(WIDE.replace("\n", ",\n")), id="subject")
        assert frame.columns.tolist() == ["hippocampus", "amygdala"]
        assert frame.attrs["empty"] == ["column 4"]

    @pytest.mark.parametrize(
        ("content", "names"),
        [
            ("#subject,x\na,1\n", ["#subject", "x"]),
            ("#subject,x\na,1,\n", ["#subject", "x", "column 3"]),
            ("# of 2021\n#subject,x,y\na,1,2\n", ["#subject", "x", "y"]),
            ("x\na,b\nc,d\n", None),
            ("x y\na 1 2\nb 3 4\n", ["row.names", "x", "y"]),
            ("x y\na b\nc,d e,f\ng,h i,j\n", ["x", "y"]),
            ("subject x\na u\nb 2,5\nc 3,5\n", ["subject", "x"]),
            ("subject;x\na;1\nb;u,v\nc;w,x\n", ["subject", "x"]),
            ("site,x\n1,2\n", ["site", "x"]),
            ("name,x\nAda A. Lee,low\nBo B. Lee,high\n", ["name", "x"]),
        ],
    )
    def test_a_header_is_not_taken_for_a_comment_or_title(self, write, content, names):
        path = write(content)
        if names is None:
            assert "no id column 'subject'" in complaint(path)
        else:
            assert find_dialect(path).header == names

    @pytest.mark.parametrize("mark", [",", ";", "\t"])
    @pytest.mark.parametrize(
        ("above", "count"),
        [
            ("Table S1. Volumes, of all\n", 1),
            ("Volumes; in mL, of all\nCohort A, baseline; n = 3\n", 2),
            ("Date{0}2021-05-01\nSite{0}Bonn\n\n", 2),
            ("Date{0}2021-05-01{0}{0}\nSite{0}Bonn{0}{0}\n", 2),
            ("{0}brain{0}{0}person\n", 1),
            ("# of\n# left, right, their age\n", 2),
        ],
    )
    def test_lines_above_the_header_may_have_delimiters(self, write, above, count, mark):
        rows = "subject,left,right,age\na,3.5,1.25,70\nb,2.5,1.5,71\nc,4.5,1.75,72\n".replace(",", mark)
        frame = read_table(write(above.format(mark) + rows), id="subject")
        assert frame.columns.tolist() == ["left", "right", "age"]
        assert frame["age"].tolist() == [70, 71, 72]
        assert texts(frame.attrs["notes"]) == [*(ABOVE if count == 1 else ABOVE_2)]

    @pytest.mark.parametrize(
        "content",
        [
            "subject,site,,\na,Bonn,x,y\nb,Kiel,z,w\n",
            ",site,score\na,Bonn,not done\nb,Kiel,2\nc,Kiel,3\n",
            "site,score,age\na,Bonn,not done,old\nb,Kiel,2,3\nc,Kiel,3,4\n",
        ],
    )
    def test_rows_are_not_taken_for_the_header(self, write, content):
        assert find_dialect(write(content)).above == 0

    @pytest.mark.parametrize("end", ["\nSource: a study, 2021\nn=3\n", "\nn=3", "\n\nof 2021,7\n\n"])
    def test_notes_below_a_blank_line_are_no_rows(self, write, end):
        rows = "subject,left,right,age\na,3.5,1.25,70\nb,2.5,1.5,71\nc,4.5,1.75,72\n"
        frame = read_table(write(rows + end), id="subject")
        assert frame.index.tolist() == ["a", "b", "c"]
        assert frame["left"].tolist() == [3.5, 2.5, 4.5]
        assert any(
            "of notes or totals below the table left out" in text for text in texts(frame.attrs["notes"])
        )

    def test_short_rows_below_a_blank_line_are_rows(self, write):
        frame = read_table(write("subject,left,right,age\na1,3,1,70\n\na2,2\n"), id="subject")
        assert frame.index.tolist() == ["a1", "a2"]
        assert texts(frame.attrs["notes"]) == SHORT

    def test_a_level_is_not_taken_for_a_total(self, write):
        frame = read_table(
            write("smoker,subject,x\nY,a,1\nY,b,2\nN,c,3\nN,d,4\n"), id="subject", numeric=False
        )
        assert frame["smoker"].tolist() == ["Y", "Y", "N", "N"]

    def test_quoted_line_ends_are_not_short_rows(self, write):
        frame = read_table(write('subject,x,y\na,"1",\nb,"2\n",\n'), id="subject", exclude=["y"])
        assert_array_equal(frame["x"], [1, 2])
        assert frame.attrs["notes"] == []

    def test_exponents_with_decimal_commas(self, write):
        frame = read_table(write("subject;x\na;1,5E+02\nb;2,5e-01\n"), id="subject")
        assert frame["x"].tolist() == [150.0, 0.25]

    @pytest.mark.parametrize("word", ["None", "NA", "n/a", "NULL"])
    def test_a_level_that_is_read_as_missing_cannot_be_listed(self, write, word):
        path = write(f"subject,x,pain\na,1,{word}\nb,2,mild\nc,3,severe\n")
        for setting in ([word, "mild", "severe"], {"no": [word]}):
            said = complaint(path, types={"pain": setting})
            assert f"column 'pain' has 1 missing cell, and '{word}' is read as missing" in said
        frame = read_table(
            write("subject,pain\na,mild\nb,severe\n"), id="subject", types={"pain": [word, "mild", "severe"]}
        )
        assert frame["pain"].tolist() == ["mild", "severe"]

    def test_names_beyond_ascii_survive_windows(self, write):
        text = "Größe;Fläche\nMüller;1,5\nÉtienne;2,5\n"
        frame = read_table(write(text, "Maße 1 é.csv", "cp1252"), id="Größe")
        assert frame.index.tolist() == ["Müller", "Étienne"]
        assert frame["Fläche"].tolist() == [1.5, 2.5]

    def test_an_encoding_can_be_given(self, write):
        path = write("subject,Ωmega\na,1\n", encoding="iso8859-7")
        assert read_table(path, id="subject", encoding="iso8859-7").columns.tolist() == ["Ωmega"]
        assert "unknown encoding 'utf-99'" in complaint(path, encoding="utf-99")
        assert "cannot be decoded as utf-8" in complaint(path, encoding="utf-8")

    def test_a_delimiter_can_be_given_by_name_or_character(self, write):
        path = write(WIDE.replace(",", "|"))
        assert_array_equal(read_table(path, id="subject", delimiter="|"), VALUES)
        path = write(WIDE.replace(",", ";"))
        assert_array_equal(read_table(path, id="subject", delimiter="semicolon"), VALUES)

    def test_row_names_that_r_leaves_without_a_header(self, write):
        for text in (WIDE.replace("subject,", ""), WIDE.replace("subject", '""')):
            assert_array_equal(read_table(write(text), id="row.names"), VALUES)

    def test_cat12_tables_are_known_by_names(self, write):
        path = write("names;lHip;rHip\nsub-01;3,01;3,2\nsub-02;2,5;\n", "ROI_neuromorphometrics_Vgm.csv")
        assert sniff(path) == "table"
        frame = read_table(path, id="names")
        assert_array_equal(frame, [[3.01, 3.2], [2.5, NAN]])

    @pytest.mark.parametrize("blank", ["", " ", "NA", "n/a", "NaN", "NULL", ".", "#N/A"])
    def test_usual_spellings_of_missing(self, write, blank):
        frame = read_table(write(f"subject,x,y\na,{blank},1\nb,2.5,1\n"), id="subject")
        assert_array_equal(frame["x"], [NAN, 2.5])

    @pytest.mark.parametrize("codes", [[-4, "n.d."], ["-4", "n.d."], [-4.0, "n.d."], {"*": [-4, "n.d."]}])
    def test_missing_codes_are_numbers_or_text(self, write, codes):
        frame = read_table(
            write("subject,x,y\na,-4,n.d.\nb,2,-4.0\nc,1,3\n"), id="subject", missing_codes=codes
        )
        assert_array_equal(frame, [[NAN, NAN], [2.0, NAN], [1.0, 3.0]])
        assert texts(frame.attrs["notes"]) == ["3 cells with a missing code set to missing"]

    def test_missing_codes_of_some_columns_leave_the_others_alone(self, write):
        path = write("subject,moca,z_score\na,-1,-1\nb,20,2\n")
        frame = read_table(path, id="subject", missing_codes={"moca": [-1]})
        assert_array_equal(frame, [[NAN, -1.0], [20.0, 2.0]])

    def test_columns_and_exclude_are_case_sensitive_patterns_in_the_order_of_the_file(self, write):
        path = write("subject,lh_b,rh_a,LH_c,lh_a,sex,x[1]\ns,1,2,3,4,F,5\n")
        chosen = {"columns": ["lh_*", "x[1]"], "exclude": ["*_b", "unseen"]}
        frame = read_table(path, id="subject", **chosen)
        assert frame.columns.tolist() == ["lh_a", "x[1]"]
        assert texts(frame.attrs["notes"]) == ["no column matches 'unseen' of exclude"]
        assert "no column matches 'lh_A*' of columns" in complaint(path, columns=["lh_A*"])
        assert "; did you mean 'lh_b'?" in complaint(path, columns=["LH_b"])
        assert "no columns left" in complaint(path, exclude=["*"])

    def test_one_visit_of_many(self, write):
        path = write("subject,session,x\na,1,1.5\na,2,9\nb,1,2.5\nb,2,9\nb,3,9\n")
        for options in ({"visit": "1"}, {"visit": 1, "visit_column": "session"}):
            frame = read_table(path, id="subject", **options)
            assert frame["x"].to_dict() == {"a": 1.5, "b": 2.5}
            assert frame.columns.tolist() == ["x"]
            assert texts(frame.attrs["notes"]) == ["3 rows of other visits left out"]
        assert "no row has visit 'bl' in column 'session', which has 3 codes" in complaint(path, visit="bl")
        assert "no visit column 'sesion'; did you mean 'session'?" in complaint(
            path, visit="1", visit_column="sesion"
        )
        assert "set visit to keep one visit of column 'session'" in complaint(path)

    def test_a_column_of_visits_is_no_feature(self, write):
        path = write("subject,wave,x\na,1,1.5\nb,1,2.5\n")
        assert read_table(path, id="subject", visit_column="wave").columns.tolist() == ["x"]
        assert "no visit column 'waves'; did you mean 'wave'?" in complaint(path, visit_column="waves")

    def test_a_visit_needs_a_column_of_visits(self, write):
        assert "set visit_column" in complaint(write(WIDE), visit="bl")

    def test_participants_keep_their_text(self, write):
        path = write("subject,sex,age,site,dx,none\n01,F,70.5,011,1,\n02,M,n/a,002,2,\n03,,-4,011,-4,\n")
        frame = read_table(path, id="subject", numeric=False, missing_codes=[-4])
        assert frame.columns.tolist() == ["sex", "age", "site", "dx"]
        assert frame["site"].tolist() == ["011", "002", "011"]
        assert frame["sex"].fillna("?").tolist() == ["F", "M", "?"]
        assert_array_equal(frame["age"], [70.5, NAN, NAN])
        assert_array_equal(frame["dx"], [1.0, 2.0, NAN])

    def test_participants_of_text_alone(self, write):
        frame = read_table(write("subject,sex,dx\na,F,CN\nb,M,AD\n"), id="subject", numeric=False)
        assert frame.loc["b"].tolist() == ["M", "AD"]

    def test_participants_with_decimal_commas(self, write):
        frame = read_table(write("subject;age;sex\na;70,5;F\nb;81;M\n"), id="subject", numeric=False)
        assert frame["age"].tolist() == [70.5, 81.0]
        assert texts(frame.attrs["notes"]) == COMMAS

    @pytest.mark.parametrize("mark", [",", ";", "\t"])
    def test_participants_are_what_reading_all_as_text_gives(self, write, mark):
        kinds = [
            ["011", "7"], ["0", "0.5", "00"], ["TRUE", "False"], ["true", "", "0"], ['"01"', "1"],
            ["1e3", "-01"], ["F", "M", ""], ['"a\n012"', "b"], ["01/02/2020", ""],
            ["2,5", "01,5"] if mark == ";" else ["2.5"],
        ]  # fmt: skip
        rng, paths = np.random.default_rng(ord(mark)), []  # other tables for each delimiter
        for table in range(15):
            columns = [kinds[j] for j in rng.permutation(len(kinds))[:4]]
            rows = [[f"s{i}", *(rng.choice(cells) for cells in columns)] for i in range(5)]
            lines = [mark.join(row) for row in [["subject", "a", "b", "c", "d"], *rows]]
            paths.append(write("\n".join(lines) + "\n", f"{table}.csv"))
        for path in paths:
            dialect = find_dialect(path, delimiter=mark)
            given, notation = load(path, dialect, text=None).set_index("subject"), dialect.notation
            expected = frames.numbers_or_text(given, (), path, [], notation=notation).dropna(
                axis=1, how="all"
            )
            found = read_table(path, id="subject", numeric=False, delimiter=mark)
            kind = {"check_dtype": False, "check_index_type": False, "check_names": False}
            pd.testing.assert_frame_equal(found, expected, **kind)

    @pytest.mark.parametrize("mark", [",", "\t"])
    def test_codes_behind_many_blank_cells(self, write, mark):
        """Cells are passed over one by one: a line of blanks alone would take minutes otherwise."""
        names = [f"x{j}" for j in range(30_000)]
        rows = [["subject", *names], *([f"s{i}", "1", *[""] * 29_998, '" 07"'] for i in range(20))]
        path = write("\n".join(mark.join(row) for row in rows) + "\n")
        assert padded_columns(path, find_dialect(path, delimiter=mark)) == ["x29999"]

    def test_a_byte_order_mark_under_a_given_encoding(self, write):
        assert_array_equal(
            read_table(write(WIDE, encoding="utf-8-sig"), id="subject", encoding="utf-8"), VALUES
        )

    def test_ids_written_as_floats_are_whole(self, write):
        frame = read_table(write("subject,x\n2.0,1\n11.0,2\n"), id="subject")
        assert frame.index.tolist() == ["2", "11"]

    def test_true_and_false_are_numbers(self, write):
        assert read_table(write("subject,x\na,True\nb,False\n"), id="subject")["x"].tolist() == [1.0, 0.0]


class TestParquet:
    @pytest.mark.parametrize("as_index", [False, True])
    @pytest.mark.parametrize("ids", [["007", "008"], [7, 8]], ids=["text", "numbers"])
    def test_the_same_frame_comes_back(self, tmp_path, as_index, ids):
        pytest.importorskip("pyarrow")
        path = tmp_path / "a table.parquet"
        frame = pd.DataFrame({"subject": ids, "x": [1.5, None], "y": [1, 2]})
        (frame.set_index("subject") if as_index else frame).to_parquet(path)
        read = read_table(path, id="subject")
        assert read.index.tolist() == [str(one) for one in ids]
        assert_array_equal(read, [[1.5, 1.0], [NAN, 2.0]])
        assert sniff(path) == "table"

    def test_other_bytes_are_refused(self, write):
        pytest.importorskip("pyarrow")
        assert "is not a valid Parquet file" in complaint(write(WIDE, "table.parquet"))

    def test_dates_as_ids_are_refused(self, tmp_path):
        pytest.importorskip("pyarrow")
        path = tmp_path / "table.parquet"
        pd.DataFrame({"subject": pd.to_datetime(["2004-03-01"]), "x": [1.0]}).to_parquet(path)
        assert "1 ids that look like dates" in complaint(path)


class TestRefusals:
    @pytest.mark.parametrize(
        ("content", "said"),
        [
            ("", "the file is empty"),
            (" \n\n", "the file is empty"),
            ("subject,x\n", "a header but no rows"),
            ("subject,x\n,\n", "a header but no rows"),
            ("subject\na\nb\n", "a single column"),
            ("subject x\na\nb 2\n", "a single column"),
            (
                "subject x y\n" + "a 1 2\n" * 60 + "b  3\n",
                "line 62 has 2 cells, but the header has 3; write NA",
            ),
            ("subject,x,y\na,1,2\nb,1", "the last line has 2 of 3 cells and no line end"),
            ("subject,x\na,1\nb,2,3,4\n", "line 3 has 4 cells, but the header has 2"),
            ('subject,x\na,"1\nb,2\n', "unclosed quotation mark"),
            ('subject,x\na,"' + "1" * 200_000, "unclosed quotation mark"),
            ("subject,x\na,1,2,3\nb,1,2\n", "line 2 has more cells, but the header has 2"),
            ("Subject,x\na,1\n", "no id column 'subject'; did you mean 'Subject'?"),
            ("sub-01,3.5,1.25\nsub-02,2.5,1.5\n", "the first line has numbers instead of names"),
            ("name,x\na,1\n", "no id column 'subject'; there are 'name', 'x'."),
            ("subject,subject,x\na,b,1\n", "2 columns are called 'subject'"),
            ("subject,x,x,y,y\na,1,2,3,4\n", "2 column names occur more than once: 'x', 'y'"),
            ("subject,x\na,1\na,2\nb,3\na,4\n", "has 2 rows with a duplicate id; keep one row"),
            ("subject,x\na,1\n,2\n", "has no id in 1 of 2 rows"),
            ("subject,x\n2004-03-01,1\n2004-04-01,2\n", "2 ids that look like dates"),
            ("subject,x\n01-Mar,1\nb,2\n", "1 ids that look like dates"),
            ("subject,x\n01/03/2004,1\nb,2\n", "1 ids that look like dates"),
            ("subject,x\n1.2E+05,1\nb,2\n", "1 ids that look like rounded numbers"),
            (
                "subject,x,y,z\na,1,low,F\nb,?,1,M\n",
                "column 'x' is not a number in 1 of 2 rows (2 more columns likewise: 'y', 'z'); ",
            ),
            (
                'subject,x\na,"1,234"\nb,"2,345"\n',
                "'x' is written with thousands separators in 2 of 2 rows; set thousands =",
            ),
            (
                "subject,x\na,2021-03-14\nb,2021-03-15\n",
                "is a date in 2 of 2 rows; leave dates out with exclude.",
            ),
            ("subject,x\na,inf\nb,1\n", "column 'x' is infinite in 1 of 2 rows"),
            ("subject,x,y\na,,NA\nb,,\n", "no column has any value among 2 subjects: 'x', 'y';"),
            (b"PK\x03\x04rest", "is a workbook or a zip file; give its name the right end"),
            (b"\xd0\xcf\x11\xe0rest", "old workbook"),
            (b"a\0b\0", "is not a text file"),
        ],
    )
    def test_a_bad_table_gets_one_line(self, write, content, said):
        assert said in complaint(write(content))

    def test_a_text_that_is_called_a_workbook(self, write):
        pytest.importorskip("python_calamine")
        assert "is not a valid workbook" in complaint(write(WIDE, "table.xlsx"))

    def test_a_given_delimiter_that_is_wrong(self, write):
        message = complaint(write(WIDE), delimiter=";")
        assert "a single column with delimiter ';', but 3 with ','" in message

    def test_what_is_not_a_file(self, tmp_path):
        assert "is a folder" in complaint(tmp_path)
        assert "no such file" in complaint(tmp_path / "absent.csv")
        assert "no such file" in complaint(tmp_path / "absent.parquet")

    @pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="no file that fails when it is read")
    def test_failing_disk(self):
        assert "mem: cannot be read (Input/output error)" in complaint(Path("/proc/self/mem"))

    def test_a_line_of_data_in_place_of_the_header_is_not_told(self, write):
        assert "sub-01" not in complaint(write("sub-01,3.5,1.25\nsub-02,2.5,1.5\n"), id="sub")

    def test_no_message_holds_an_id_or_a_value(self, write):
        path = write("subject,visit,x\nsecret-id,v,hush\nsecret-id,v,hush\n", "t.csv")
        for options in ({}, {"visit": "w"}, {"visit": "v"}, {"columns": ["x"]}, {"id": "secret"}):
            message = complaint(path, **options)
            assert "secret-id" not in message
            assert "hush" not in message


class TestLong:
    def test_regions_become_columns_in_order_of_appearance(self, write):
        path = write(LONG)
        frame = read_long(path, id="RID", name=["ROI", "SIDE"], value="SUVR")
        assert frame.columns.tolist() == ["Angular_Left", "Angular_Right"]
        assert frame.index.tolist() == ["2", "5"]
        assert_array_equal(frame, [[1.2, 1.3], [1.4, NAN]])

    def test_chosen_regions(self, write):
        frame = read_long(write(LONG), id="RID", name=["ROI", "SIDE"], value="SUVR", exclude=["*_Right"])
        assert frame.columns.tolist() == ["Angular_Left"]

    def test_a_blank_side_adds_nothing_to_the_name(self, write):
        path = write("RID,ROI,SIDE,SUVR\n2,Pons,,1\n2,Angular,Left,2\n")
        frame = read_long(path, id="RID", name=["ROI", "SIDE"], value="SUVR")
        assert frame.columns.tolist() == ["Pons", "Angular_Left"]

    def test_several_values_of_a_region_are_never_dropped_silently(self, write):
        path = write(LONG + "2,m12,Angular,Left,1.4\n5,bl,Angular,Left,1.4\n")
        options = {"id": "RID", "name": ["ROI", "SIDE"], "value": "SUVR"}
        with pytest.raises(StudyError, match="1 pairs of subject and region have several values; set visit"):
            read_long(path, **options)
        frame = read_long(path, **options, repeats="mean")
        assert frame.loc["2", "Angular_Left"] == pytest.approx(1.3)
        assert texts(frame.attrs["notes"]) == [
            "1 row equal to another counted once",
            "1 pair of subject and region measured more than once averaged",
        ]
        frame = read_long(path, **options, visit="bl")
        assert frame.loc["2", "Angular_Left"] == 1.2
        assert "1 row of another visit left out" in texts(frame.attrs["notes"])

    def test_a_missing_value_beside_a_known_one_is_no_second_value(self, write):
        path = write("s,roi,v\na,x,\na,x,1.5\nb,x,2\n")
        frame = read_long(path, id="s", name="roi", value="v")
        assert_array_equal(frame, [[1.5], [2.0]])

    def test_missing_measurements(self, write):
        path = write("s;roi;v\na;x;1,5\na;y;-1\nb;x;\nb;y;2\nc;x;-1\n")
        frame = read_long(path, id="s", name="roi", value="v", missing_codes=[-1])
        assert_array_equal(frame, [[1.5, NAN], [NAN, 2.0], [NAN, NAN]])

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({"name": "REGION"}, "no name column 'REGION'"),
            ({"columns": ["Precuneus"], "repeats": "mean"}, "no column matches 'Precuneus' of columns"),
            ({"value": "SUV"}, "no value column 'SUV'; did you mean 'SUVR'?"),
            ({"value": "SIDE"}, "column 'SIDE' is not a number in 3 of 3 rows"),
            ({"repeats": "first"}, "repeats must be 'error' or 'mean'"),
        ],
    )
    def test_refusals(self, write, options, said):
        with pytest.raises(StudyError, match=said.replace("?", r"\?")):
            read_long(write(LONG), **{"id": "RID", "name": "ROI", "value": "SUVR", **options})


class TestSniff:
    @pytest.mark.parametrize(
        ("name", "content", "expected"),
        [
            ("a.csv", WIDE, "table"),
            ("a.tsv", WIDE.replace(",", "\t"), "table"),
            ("a.csv", "subject,region,value\n1,x,2\n", "long"),
            ("a.txt", "", None),
            ("a.xlsx", b"PK\x03\x04", "table"),
            ("a.bed", "chr1\t100\t200\n", None),
            ("a.bed", b"\x6c\x1b\x01", "plink"),
            ("a.bim", "1\trs1\t0\t1\tA\tG\n", "table"),
            ("a.h5ad", b"\x89HDF", "h5ad"),
            ("a.h5mu", b"\x89HDF", "h5mu"),
        ],
    )
    def test_by_name_and_content(self, write, name, content, expected):
        assert sniff(write(content, name)) == expected

    def test_what_is_absent_or_no_data(self, tmp_path):
        assert sniff(tmp_path / "absent") is None
        assert sniff(tmp_path) is None

    def test_every_format_has_a_reader(self):
        assert list(FORMATS) == [
            "table", "long", "matrix", "codes", "nifti", "cat12-report", "cat12", "caps", "bids",
            "freesurfer",
            "freesurfer-table", "clinica-merge", "muse", "oasis3", "ukb", "ucsffsx", "adnimerge", "tadpole",
            "fdg", "adni-pet", "plink", "plink-raw", "pgen", "bgen", "vcf", "h5mu", "h5ad",
        ]  # fmt: skip


def test_a_wide_table(tmp_path):
    values = np.random.default_rng(0).normal(size=(300, 3000))
    frame = pd.DataFrame(values, index=[f"{i:04d}" for i in range(300)]).rename_axis("id")
    frame.to_csv(tmp_path / "wide.csv", float_format="%.6f")
    read = read_table(tmp_path / "wide.csv", id="id", missing_codes=[-4])
    np.testing.assert_allclose(read, values, atol=1e-6)
