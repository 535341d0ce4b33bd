"""Conditions on rows, names of columns and patterns of ids, in a table and in a study."""

import itertools

import numpy as np
import pandas as pd
import pytest
from noted import texts
from numpy.testing import assert_array_equal

from viewloom.study.config.toml import parse_study
from viewloom.study.errors import StudyError
from viewloom.study.ids import extracted, pattern_problem
from viewloom.study.readers.expressions import ConditionError, parse
from viewloom.study.readers.tables import read_long, read_table
from viewloom.study.reading import read_view
from viewloom.study.spelling import spelled_as

NAN = np.nan
TABLE = """id,QC,AGE,Mini mental,site,day,x,y
s1,Pass,70,29,1,2010-05-01,1,2
s2,Fail,80,28,2,2011-05-01,3,4
s3,Pass,50,,1,2012-05-01,5,6
s4,Pass,-4,27,2,,7,8
s5,,60,30,3,2009-05-01,9,10
"""


@pytest.fixture
def path(tmp_path):
    (tmp_path / "t.csv").write_text(TABLE)
    return tmp_path / "t.csv"


def kept(path, rows, **options):
    return read_table(path, id="id", rows=rows, columns=["x"], **options).index.tolist()


class TestConditions:
    @pytest.mark.parametrize(
        ("rows", "expected"),
        [
            ("QC == 'Pass'", "134"),
            ('QC == "Pass" and AGE >= 55', "1"),
            ("QC == 'Pass' AND AGE>=55", "1"),
            ("AGE < 55", "34"),
            ("55 <= AGE < 80", "15"),
            ("80 > AGE", "1345"),
            ("`Mini mental` in [29, 30]", "15"),
            ("`Mini mental` not in [29, 30]", "24"),
            ("QC != 'Pass'", "2"),
            ("not QC == 'Pass'", "2"),  # unknown stays unknown
            ("not (QC == 'Pass' or AGE > 75)", ""),
            ("QC is missing", "5"),
            ("`Mini mental` is not missing and QC is not missing", "124"),
            ("site in ['1', '3']", "135"),
            ("site == 2", "24"),
            ("QC == 'Pass' or AGE == 60", "1345"),
            ("QC in ['Pass', 'Fail'] and not site == 2", "13"),
            ("day >= '2011-01-01'", "23"),
            ("day < '2010-01-01' or x == 7", "45"),
            ("x < y", "12345"),
            ("x == -1e1 or y > +1.5 and y <= 4", "12"),
            ("(((AGE > 65)))", "12"),
        ],
    )
    def test_rows(self, path, rows, expected):
        if not expected:
            with pytest.raises(StudyError, match="rows keeps none of 5 rows, 1 of them for lack of a cell"):
                kept(path, rows)
        else:
            assert kept(path, rows) == [f"s{i}" for i in expected]

    def test_missing_codes_are_no_values(self, path):
        assert kept(path, "AGE < 55", missing_codes=[-4]) == ["s3"]

    def test_what_is_set_aside_is_counted(self, path):
        frame = read_table(path, id="id", rows="QC == 'Pass' and AGE >= 0", columns=["x"])
        assert (
            texts(frame.attrs["notes"])[-1]
            == "3 rows set aside by rows (1 row of them lack a cell that it names)"
        )

    def test_columns_compared_with_text_are_no_features(self, path):
        frame = read_table(path, id="id", rows="QC == 'Pass' and AGE > 0", exclude=["day"])
        assert frame.columns.tolist() == ["AGE", "Mini mental", "site", "x", "y"]

    @pytest.mark.parametrize(
        ("rows", "said"),
        [
            ("QC = 'Pass'", "unexpected '='; write == to compare"),
            ("QC == 'Pass' & AGE > 1", "write and"),
            ("QC == 'Pass", "a quotation mark is not closed"),
            ("AGE >", "expected a column, number or text before 'the end'"),
            ("(AGE > 1", "expected ')' before 'the end'"),
            ("AGE", "column 'AGE' is not compared with anything"),
            ("1 < 2", "a comparison needs a column"),
            ("AGE in [1, 'a']", "numbers only, or texts in quotes only"),
            ("AGE > 1 AGE < 2", "unexpected 'AGE'"),
            ("__import__('os').system('x')", "unexpected '.'"),
            ("AGE.__class__ == 1 or exec('x')", "column 'exec' is not compared"),
            ("(" * 60 + "AGE > 1" + ")" * 60, "nested too deeply"),
            ("not " * 200 + "AGE > 1", "nested too deeply"),
            ("a" * 3000, "at most 2000 characters"),
            ("", "expected a column"),
        ],
    )
    def test_what_is_no_condition(self, rows, said):
        with pytest.raises(ConditionError) as caught:
            parse(rows)
        assert said in str(caught.value)

    @pytest.mark.parametrize(
        ("rows", "said"),
        [
            ("QC > 1", "column 'QC' is compared with a number, but is not a number in 4 of 5 rows"),
            ("QC > 'Pass'", "text can be compared with == and != only"),
            ("age > 1", "no rows column 'age'; did you mean 'AGE'"),
            ("QC == 'pass'", "keeps none of 5 rows"),
            ("x > '2010-01-01'", "compared with a date"),
        ],
    )
    def test_types(self, path, rows, said):
        with pytest.raises(StudyError) as caught:
            kept(path, rows)
        assert said in str(caught.value)

    def test_three_valued_logic(self):
        """Agreement with a table of truth, over all combinations of true, false and unknown."""
        values = [1.0, 0.0, NAN]
        cells = np.array(list(itertools.product(values, values)))

        class Rows:
            def numbers(self, column):
                return cells[:, "ab".index(column)]

        def known(value):
            return None if np.isnan(value) else bool(value)

        for text, naive in {
            "a == 1 and b == 1": lambda a, b: False if False in (a, b) else None if None in (a, b) else True,
            "a == 1 or b == 1": lambda a, b: True if True in (a, b) else None if None in (a, b) else False,
            "not a == 1": lambda a, b: None if a is None else not a,
        }.items():
            truth = parse(text).evaluate(Rows())
            expected = [naive(known(a), known(b)) for a, b in cells]
            assert truth.yes.tolist() == [one is True for one in expected]
            assert truth.no.tolist() == [one is False for one in expected]


class TestWordsOfTruth:
    """TRUE and FALSE, which pandas reads as booleans, are compared as the file has them."""

    @pytest.fixture(params=["TRUE", ""], ids=["complete", "missing"])
    def path(self, tmp_path, request):
        (tmp_path / "t.csv").write_text(f"id,usable,x\na,TRUE,1\nb,FALSE,2\nc,{request.param},3\n")
        return tmp_path / "t.csv"

    @pytest.mark.parametrize("numeric", [True, False])
    def test_a_condition(self, path, numeric):
        assert kept(path, "usable == 'FALSE'", numeric=numeric) == ["b"]

    def test_missing_codes_of_participants(self, path):
        people = read_table(path, id="id", numeric=False, missing_codes=["FALSE"])
        assert people["usable"].tolist()[0] == 1.0
        assert people["usable"].isna().tolist()[1]


class TestRename:
    def test_all_keys_use_the_new_names(self, path):
        rename = {"id": "subject", "Mini mental": "mmse"}
        frame = read_table(path, id="subject", rename=rename, rows="mmse >= 28", columns=["mmse", "x"])
        assert_array_equal(frame, [[29, 1], [28, 3], [30, 9]])

    def test_leading_zeros_stay(self, tmp_path):
        (tmp_path / "t.csv").write_text("No,x\n007,1\n008,2\n")
        assert read_table(tmp_path / "t.csv", id="id", rename={"No": "id"}).index.tolist() == ["007", "008"]

    @pytest.mark.parametrize(
        ("rename", "said"),
        [
            ({"age": "a"}, "no column 'age', named under rename; did you mean 'AGE'"),
            ({"x": "y"}, "the name 'y'"),
        ],
    )
    def test_refused(self, path, rename, said):
        with pytest.raises(StudyError, match=said):
            read_table(path, id="id", rename=rename)


class TestPatterns:
    IDS = "MR ID,x,y\nOAS30001_MR_d0129,1,2\nOAS30001_MR_d0757,3,4\nOAS30002_MR_d0000,5,6\nphantom,7,8\n"

    @pytest.fixture
    def oasis(self, tmp_path):
        (tmp_path / "t.csv").write_text(self.IDS)
        return tmp_path / "t.csv"

    def test_visits_in_ids(self, oasis):
        pattern = r"(OAS\d+)_MR_(?P<visit>d\d+)"
        for visit, expected in {
            "first": [[1, 2], [5, 6]],
            "last": [[3, 4], [5, 6]],
            "d757": [[3, 4]],
        }.items():
            frame = read_table(oasis, id="MR ID", pattern=pattern, visit=visit)
            assert_array_equal(frame, expected)
            assert set(frame.index) <= {"OAS30001", "OAS30002"}
        assert "1 row whose id does not match the pattern left out" in texts(frame.attrs["notes"])

    def test_equal_ids_are_refused(self, oasis):
        with pytest.raises(
            StudyError, match=r"1 row with a duplicate id; the pattern gives several rows the same id"
        ):
            read_table(oasis, id="MR ID", pattern=r"(OAS\d+)")

    def test_a_pattern_that_matches_few(self, oasis):
        with pytest.raises(StudyError, match="the pattern matches 1 of 4 ids of column 'MR ID'"):
            read_table(oasis, id="MR ID", pattern="(phantom)")

    def test_long_tables(self, tmp_path):
        (tmp_path / "t.csv").write_text("id,region,value\nsub-1_run,A,1\nsub-1_run,B,2\nsub-2_run,A,3\n")
        frame = read_long(tmp_path / "t.csv", id="id", name="region", value="value", pattern=r"sub-(\d+)")
        assert_array_equal(frame, [[1, 2], [3, NAN]])
        assert frame.index.tolist() == ["1", "2"]

    @pytest.mark.parametrize(
        ("pattern", "problem"),
        [
            ("(a", "is not a valid regular expression"),
            ("a", "needs one group"),
            ("(a)(b)", "needs one group"),
            ("(?P<visit>a)", "needs one group"),
            ("(a)(?P<visit>b)", None),
            ("(?P<id>a)", None),
            ("(" * 400, "has more than 300 characters"),
        ],
    )
    def test_problems(self, pattern, problem):
        found = pattern_problem(pattern)
        assert found is None if problem is None else problem in found

    def test_extracted(self):
        found = extracted(pd.Series(["sub-7_ses-2", None, "x"]), r"sub-(\d+)_ses-(?P<visit>\d+)")
        assert found["id"].tolist()[0] == "7"
        assert found["visit"].isna().tolist() == [False, True, True]


class TestStudyFile:
    TOML = """[views.a]
path = "t.csv"
id = {id}
{more}
"""

    def study(self, path, id="'id'", more=""):
        return parse_study(self.TOML.format(id=id, more=more), path.parent / "study.toml")

    def test_all_keys(self, path):
        more = """rows = "QC == 'Pass'"\nrename = { x = "volume" }\ncolumns = ["volume"]"""
        view = self.study(path, "{ column = 'id', pattern = 's(\\d)' }", more).views["a"]
        frame = read_view(view, "exact")
        assert frame.index.tolist() == ["1", "3", "4"]
        assert frame.columns.tolist() == ["volume"]

    @pytest.mark.parametrize(
        ("id", "more", "said"),
        [
            ("'id'", 'rows = "QC = 1"', "line 4: views.a.rows: unexpected '='; write == to compare"),
            (
                "{ column = 'id', pattern = '(' }",
                "",
                "line 3: views.a.id.pattern: is not a valid regular expression",
            ),
            ("{ column = 'id', patern = '(a)' }", "", "patern: unknown key; did you mean 'pattern'"),
            ("{ column = 'id' }", "", "views.a.id.pattern: is missing"),
            ("{ pattern = '(a)' }", "", "views.a.id: is missing; format 'table' needs it"),
            ("3", "", "views.a.id"),
            (
                "'id'",
                "sheet = 'x'",
                "line 4: views.a.sheet: not an option of delimited text; it is for Excel",
            ),
            ("'id'", "columns_from = 'nowhere'", "no such file or folder: nowhere"),
        ],
    )
    def test_mistakes(self, path, id, more, said):
        with pytest.raises(StudyError) as caught:
            self.study(path, id, more)
        assert said in str(caught.value)

    def test_columns_of_another_study(self, path):
        second = path.with_name("second.csv")
        second.write_text("id,X,y.,z\na,1,2,3\nb,9,7,6\nc,4,8,1\n")
        self.study(path)
        (path.parent / "first.toml").write_text(self.TOML.format(id="'id'", more=""))
        text = '[views.a]\npath = "second.csv"\nid = "id"\ncolumns_from = "first.toml"\n'
        frame = read_view(parse_study(text, path.parent / "study.toml").views["a"], "exact", name="a")
        assert frame.columns.tolist() == ["x", "y", "z"]
        assert any("2 columns renamed" in note for note in texts(frame.attrs["notes"]))


def test_names_that_fit_several_columns_are_refused():
    frame = pd.DataFrame({"A_b": [1], "a.b": [2], "c": [3]})
    with pytest.raises(StudyError, match="1 names of columns fit several columns"):
        spelled_as(frame, ["AB"], "t.csv")
    assert spelled_as(frame, ["A_b", "C"], "t.csv").columns.tolist() == ["A_b", "a.b", "C"]
