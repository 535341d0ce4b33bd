"""Workbooks as people make them: where the table is, what its cells are, and what is refused."""

import datetime
import io
import os
import zipfile
from pathlib import Path

import foreign_files
import numpy as np
import pandas as pd
import pytest
from noted import texts
from numpy.testing import assert_allclose, assert_array_equal
from old_workbooks import old_workbook

from viewloom.study.errors import StudyError
from viewloom.study.readers import FORMATS, sniff, workbooks
from viewloom.study.readers.files import open_table, parts_of
from viewloom.study.readers.tables import read_long, read_table

openpyxl = pytest.importorskip("openpyxl")
CALENDAR_MAC_1904 = pytest.importorskip("openpyxl.utils.datetime").CALENDAR_MAC_1904
pytest.importorskip("python_calamine")
NAN = np.nan
REAL = Path(os.environ.get("VIEWLOOM_REALFILES", Path(__file__).parents[3].parent / "shared" / "realfiles"))
ROWS = [["id", "a", "b"], ["007", 1.5, 2], ["008", 2.5, None], ["009", 3.5, 4]]
NAMESPACES = {
    "office": "urn:oasis:names:tc:opendocument:xmlns:office:1.0",
    "table": "urn:oasis:names:tc:opendocument:xmlns:table:1.0",
    "text": "urn:oasis:names:tc:opendocument:xmlns:text:1.0",
    "calcext": "urn:org:documentfoundation:names:experimental:calc:xmlns:calcext:1.0",
}
ODS = (
    "<office:document-content "
    + " ".join(f'xmlns:{name}="{address}"' for name, address in NAMESPACES.items())
    + "><office:body>"
    '<office:spreadsheet><table:table table:name="S">{rows}</table:table></office:spreadsheet></office:body>'
    "</office:document-content>"
)


def book(path, *rows, merge=(), more=None):
    """A workbook with these rows; more sheets by name."""
    made = openpyxl.Workbook()
    for name, cells in {"Sheet": rows, **(more or {})}.items():
        sheet = made.active if name == "Sheet" else made.create_sheet(name)
        for row in cells:
            sheet.append(list(row))
    for area in merge:
        made.active.merge_cells(area)
    made.save(path)
    return path


def changed(path, name, change):
    """The same workbook with another text of one of its parts."""
    with zipfile.ZipFile(path) as old:
        parts = {info.filename: old.read(info) for info in old.infolist()}
    parts[name] = change(parts[name].decode()).encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        for part, content in parts.items():
            new.writestr(part, content)
    return path


def ods(path, rows, kind="application/vnd.oasis.opendocument.spreadsheet"):
    """An OpenDocument spreadsheet with the XML of these rows."""
    with zipfile.ZipFile(path, "w") as file:
        if kind is not None:
            file.writestr("mimetype", kind)
        file.writestr("META-INF/manifest.xml", "<manifest/>")
        file.writestr("content.xml", ODS.format(rows=rows))
    return path


def odf_row(*cells):
    def cell(value):
        if isinstance(value, float):
            return f'<table:table-cell office:value-type="float" office:value="{value}"/>'
        error = ' calcext:value-type="error"' if str(value).startswith("#") else ""
        return (
            f'<table:table-cell office:value-type="string"{error}><text:p>{value}</text:p></table:table-cell>'
        )

    return f"<table:table-row>{''.join(map(cell, cells))}</table:table-row>"


def complaint(path, **options):
    with pytest.raises(StudyError) as caught:
        read_table(path, **{"id": "id", **options})
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(f"{path.name}: ")
    return message


@pytest.fixture
def path(tmp_path):
    return tmp_path / "t.xlsx"


class TestWhereTheTableIs:
    def test_values_and_ids(self, path):
        frame = read_table(book(path, *ROWS), id="id")
        assert frame.index.tolist() == ["007", "008", "009"]
        assert_array_equal(frame, [[1.5, 2], [2.5, NAN], [3.5, 4]])

    def test_titles_blank_rows_and_columns_notes_and_totals(self, path):
        rows = [
            ["Volumes of the memory clinic"], [], [None, "made by", "somebody"], [],
            *([None, *row[:2], None, row[2]] for row in ROWS),
            [], [None, "Mean", 2.5, None, 3], [None, "* without scans of poor quality"],
        ]  # fmt: skip
        frame = read_table(book(path, *rows), id="id")
        assert frame.index.tolist() == ["007", "008", "009"]
        assert frame.columns.tolist() == ["a", "b"]
        assert_array_equal(frame["b"], [2, NAN, 4])
        assert texts(frame.attrs["notes"]) == [
            "2 lines above the header left out", "2 rows of notes or totals below the table left out",
        ]  # fmt: skip

    def test_a_header_below_words_in_several_cells(self, path):
        rows = [["all", "sorts", "of words"], ["more", None, "words"], *ROWS]
        assert len(read_table(book(path, *rows), id="id")) == 3

    def test_several_sheets(self, path):
        book(path, *ROWS, more={"other": ROWS, "empty": [], "title": [["only a title"]]})
        assert parts_of(path) == ("sheet", ["Sheet", "other"])
        assert complaint(path).endswith("2 sheets have data: 'Sheet', 'other'; set sheet to one of them.")
        assert "did you mean 'other'" in complaint(path, sheet="Other")
        assert "there is no sheet 5" in complaint(path, sheet=5)
        assert read_table(path, id="id", sheet="other").equals(read_table(path, id="id", sheet=2))
        assert "'sheet', 'other'" not in complaint(path, sheet="other", delimiter=";")

    def test_a_hidden_sheet_does_not_count(self, path):
        made = openpyxl.load_workbook(book(path, *ROWS, more={"old": ROWS}))
        made["old"].sheet_state = "hidden"
        made.save(path)
        assert len(read_table(path, id="id")) == 3

    def test_merged_cells(self, path):
        rows = [
            ["id", "Left", None, "Right", None],
            [None, "volume", "area", "volume", "area"],
            ["s1", 1, 2, 3, 4], ["s2", 5, 6, 7, 7],
        ]  # fmt: skip
        book(path, *rows, merge=["A1:A2", "B1:C1", "D1:E1", "D4:E4"])
        frame = read_table(path, id="id")
        assert frame.columns.tolist() == ["Left volume", "Left area", "Right volume", "Right area"]
        assert_array_equal(frame, [[1, 2, 3, 4], [5, 6, 7, 7]])

    def test_columns_of_several_merged_cells_count_once(self, path):
        """Reports are laid out in this way."""
        rows = [["id", None, "x", None, "y"], ["s1", None, 1, None, 2], ["s2", None, 3, None, 4]]
        book(path, *rows, merge=[f"{a}{i}:{b}{i}" for i in (1, 2, 3) for a, b in ("AB", "CD")])
        frame = read_table(path, id="id")
        assert frame.columns.tolist() == ["x", "y"]
        assert_array_equal(frame, [[1, 2], [3, 4]])

    def test_one_id_merged_over_its_visits(self, path):
        rows = [["id", "visit", "a", "b"], ["s1", "bl", 1, 2], [None, "m12", 3, 4], ["s2", "bl", 5, 6]]
        book(path, *rows, merge=["A2:A3"])
        assert_array_equal(read_table(path, id="id", visit="m12"), [[3, 4]])

    def test_duplicate_names_are_refused(self, path):
        rows = [["id", "a", "a"], ["x", 1, 2], ["y", 3, 4]]
        assert "1 column names occur more than once: 'a'" in complaint(book(path, *rows))

    def test_without_a_header(self, path):
        rows = [[1, 2.5, 3.5], [2, 3.5, 4.5], [3, 4.5, 5.5]]
        assert "no header" in complaint(book(path, *rows))


class TestCells:
    def column(self, path, *cells, **options):
        return read_table(
            book(path, ["id", "x", "y"], *([f"s{i}", cell, 1.0] for i, cell in enumerate(cells))),
            id="id",
            **options,
        )["x"]

    def test_numbers_stored_as_text(self, path):
        assert_array_equal(self.column(path, 1.5, "2.25", "NA", None, 4), [1.5, 2.25, NAN, NAN, 4])

    def test_a_number_is_not_taken_for_thousands(self, path):
        assert_array_equal(self.column(path, 6.995, 1.234, "183"), [6.995, 1.234, 183])

    def test_decimal_commas_in_text_beside_numbers(self, path):
        assert_array_equal(self.column(path, 1.5, "2,25", decimal=","), [1.5, 2.25])
        assert "set decimal = ','" in complaint(path).replace('"', "'")
        assert_array_equal(self.column(path, 2.05, 1.125, "2,25", decimal=","), [2.05, 1.125, 2.25])
        assert "thousands" not in complaint(path)  # 2.05 is not shown as 2,050

    def test_truth_values(self, path):
        assert_array_equal(self.column(path, True, False, None), [1, 0, NAN])

    @pytest.mark.parametrize(
        ("cell", "said"),
        [
            ("12 %", "written with percent signs"),
            ("3.5 mm", "written with units"),
            ("<5", "not a number"),
            (datetime.date(2021, 3, 14), "a date"),
            (datetime.datetime(2021, 3, 14, 5, 6), "a date"),
        ],
    )
    def test_what_is_no_number_is_refused(self, path, cell, said):
        with pytest.raises(StudyError, match=said):
            self.column(path, 1.5, cell, 2.5)

    def test_a_percentage_is_a_fraction(self, path):
        made = openpyxl.load_workbook(book(path, *ROWS))
        made.active["B2"].number_format = "0%"
        made.save(path)
        assert read_table(path, id="id").iloc[0, 0] == 1.5

    def test_errors(self, path):
        rows = [["id", "x", "y"], ["s1", "#DIV/0!", 1.0], ["s2", 2.5, 1.0], ["s3", 3.5, 2.0]]
        made = openpyxl.load_workbook(book(path, *rows))
        assert made.active["B2"].data_type == "e"
        assert "column 'x' is a spreadsheet error in 1 of 3 rows ('#DIV/0!')" in complaint(path).replace(
            '("', "('"
        )
        book(path, *(["#N/A" if cell == "#DIV/0!" else cell for cell in row] for row in rows))
        assert_array_equal(read_table(path, id="id")["x"], [NAN, 2.5, 3.5])

    def test_dates_of_participants_and_visits(self, path):
        rows = [
            ["id", "day", "x", "y"],
            *(["s", datetime.date(2020 + i, 1, 2), float(i), 2.0] for i in range(3)),
        ]
        frame = read_table(book(path, *rows), id="id", visit="last", date="day")
        assert_array_equal(frame, [[2, 2]])
        people = read_table(path, id="id", visit="first", date="day", numeric=False)
        assert people["day"].tolist() == ["2020-01-02"]

    @pytest.mark.parametrize(
        "more", ["", '<extLst><ext><x14:workbookPr xmlns:x14="x" defaultImageDpi="32767"/></ext></extLst>']
    )
    def test_dates_since_1904(self, path, more):
        """Excel on a Mac counts days since 1904; as an extension, it writes other properties of the name."""
        made = openpyxl.Workbook()
        made.epoch = CALENDAR_MAC_1904
        for row in [["id", "day", "x"], ["s1", datetime.date(2016, 1, 1), 1.0], ["s2", None, 2.0]]:
            made.active.append(row)
        made.save(path)
        changed(path, "xl/workbook.xml", lambda text: text.replace("</workbook>", f"{more}</workbook>"))
        assert read_table(path, id="id", numeric=False).loc["s1", "day"] == "2016-01-01"

    def test_ids_that_became_dates(self, path):
        rows = [["id", "x", "y"], [datetime.date(2021, 3, 1), 1, 2], ["s2", 3, 4]]
        assert "look like dates" in complaint(book(path, *rows))

    def test_numeric_ids_have_no_decimal_point(self, path):
        frame = read_table(book(path, ["id", "x", "y"], [7, 1, 2], [12, 3, 4]), id="id")
        assert frame.index.tolist() == ["7", "12"]

    def test_equal_to_openpyxl(self, path):
        rng = np.random.default_rng(0)
        values = rng.normal(size=(2500, 4))
        book(path, ["id", *"abcd"], *([f"s{i}", *row] for i, row in enumerate(values.tolist())))
        sheet = openpyxl.load_workbook(path, read_only=True).active
        independent = [row[1:] for row in sheet.iter_rows(min_row=2, values_only=True)]
        assert_array_equal(read_table(path, id="id"), np.array(independent))


def test_numbers_as_names(path):
    frame = read_table(
        book(path, ["id", "dose", 0.5, 2010], ["x", 1.5, 2.5, 3.5], ["y", 2.5, 3.5, 4.5]), id="id"
    )
    assert frame.columns.tolist() == ["dose", "0.5", "2010"]


class TestNotesBelow:
    """Below a table of two columns, a long text by itself is a note, and a short one a subject."""

    def test_a_long_one(self, path):
        frame = read_table(
            book(path, ["id", "a"], ["x", 1.5], ["y", 2.5], ["Source: records of the clinic"]), id="id"
        )
        assert frame.index.tolist() == ["x", "y"]

    def test_a_short_one(self, path):
        frame = read_table(book(path, ["id", "a"], ["x", 1.5], ["y", 2.5], ["z"]), id="id")
        assert frame.index.tolist() == ["x", "y", "z"]


class TestOtherPrograms:
    def test_xls(self, tmp_path, monkeypatch):
        path = tmp_path / "t.xls"
        path.write_bytes(old_workbook(ROWS))
        assert_array_equal(read_table(path, id="id"), [[1.5, 2], [2.5, NAN], [3.5, 4]])
        monkeypatch.setattr("viewloom.study.readers.sheets.OLD_COLUMNS", 2)
        assert "is not a valid workbook" in complaint(path)

    def test_xls_with_letters_of_two_bytes(self, tmp_path):
        wide = [["i\0d\0", "a\0"], ["x\0", 1.5], ["y\0", 2.5]]
        path = tmp_path / "t.xls"
        path.write_bytes(old_workbook(wide))
        assert read_table(path, id="id")["a"].to_dict() == {"x": 1.5, "y": 2.5}

    def test_ods(self, tmp_path):
        rows = [odf_row("id", "a", "b"), odf_row("x", 1.5, 2.0), odf_row("y", 2.5, 3.0)]
        path = ods(tmp_path / "t.ods", "".join(rows))
        assert_array_equal(read_table(path, id="id"), [[1.5, 2], [2.5, 3]])
        path = ods(path, "".join([*rows, odf_row("z", "#DIV/0!", 1.0), odf_row("w", 1.0, 1.0)]))
        assert "a spreadsheet error in 1 of 4 rows" in complaint(path)

    def test_ods_of_google(self, tmp_path):
        """It has no part that says that it is a spreadsheet."""
        rows = [odf_row("id", "a", "b"), odf_row("x", 1.5, 2.0), odf_row("y", 2.5, 3.0)]
        path = ods(tmp_path / "t.ods", "".join(rows), kind=None)
        assert_array_equal(read_table(path, id="id"), [[1.5, 2], [2.5, 3]])

    @pytest.mark.parametrize("shown", ["#DIV/0!", "#NAME?", "Err:502"])
    @pytest.mark.parametrize("remark", ["", "<office:annotation><text:p>why</text:p></office:annotation>"])
    def test_errors_in_ods_that_excel_wrote(self, tmp_path, shown, remark):
        """Such cells are the number 0 with the error as text."""
        cell = '<table:table-cell office:value-type="float" office:value="0">{}</table:table-cell>'
        error = cell.format(f"{remark}<text:p>{shown}</text:p>")
        wide = cell.format("<text:p>###</text:p>")  # a number that its column has no room for
        rows = [odf_row("id", "a", "b"), odf_row("x", 1.5, 2.0), odf_row("y", 0.5, 0.0)]
        last = f"<table:table-row>{cell.format('<text:p>0</text:p>')}{error}{wide}</table:table-row>"
        path = ods(tmp_path / "t.ods", "".join([*rows, last]))
        assert "column 'a' is a spreadsheet error in 1 of 3 rows" in complaint(path)
        assert_array_equal(read_table(path, id="id", exclude=["a"])["b"], [2, 0, 0])

    @pytest.mark.skipif(not REAL.is_dir(), reason="real files not found; set VIEWLOOM_REALFILES")
    def test_a_real_sheet_of_freesurfer(self):
        path = REAL / "abide" / "FS_data_ABIDE_common.xlsx"
        assert sniff(path) == "freesurfer-table"
        frame = FORMATS["freesurfer-table"](path, global_measures=True)
        sheet = openpyxl.load_workbook(path, read_only=True).active
        header, *rows = sheet.iter_rows(max_row=60, values_only=True)
        at = header.index("Left-Hippocampus")
        assert frame["Left-Hippocampus"].iloc[:59].to_dict() == {row[0]: row[at] for row in rows}

    def test_sheets_of_freesurfer_are_joined(self, path):
        """A workbook with one sheet per hemisphere, one of volumes, and one of notes."""
        left = [["lh.aparc.thickness", "lh_cuneus_thickness"], ["a", 1.5], ["b", 1.75]]
        notes = [["who", "when"], ["x", "y"]]
        more = {
            "Right": [["rh.aparc.thickness", "rh_cuneus_thickness"], ["b", 2.5], ["a", 2.25]],
            "Volume": [["Measure:volume", "Left-Hippocampus"], ["a", 3500.0], ["b", 3250.0]],
            "Notes": notes,
        }
        read = FORMATS["freesurfer-table"]
        frame = read(book(path, *left, more=more))
        assert frame.loc["b"].tolist() == [1.75, 2.5, 3250.0]
        assert texts(frame.attrs["notes"]) == ["1 other sheet left out: 'Notes'"]
        assert read(path, sheet="Right").columns.tolist() == ["rh_cuneus_thickness"]
        assert sniff(path, {"sheet": "Right"}) == "freesurfer-table"
        with pytest.raises(StudyError, match="none of 2 sheets is a table of FreeSurfer: 'Sheet', 'Notes'"):
            read(book(path, *notes, more={"Notes": notes}))

    def test_a_long_sheet(self, path):
        rows = [
            ["id", "region", "value"],
            ["s1", "A", 1.0],
            ["s1", "B", 2.0],
            ["s2", "A", 3.0],
            ["s2", "B", 4.0],
        ]
        assert sniff(book(path, *rows)) == "long"
        assert_array_equal(read_long(path, id="id", name="region", value="value"), [[1, 2], [3, 4]])


class TestRefused:
    @pytest.mark.parametrize("cut", [0, 10, 0.3, 0.7, -1])
    @pytest.mark.parametrize("end", [".xlsx", ".ods", ".xls"])
    def test_cut_off(self, tmp_path, cut, end):
        whole = book(tmp_path / "whole.xlsx", *ROWS).read_bytes()
        at = int(cut * len(whole)) if isinstance(cut, float) else cut
        path = tmp_path / f"t{end}"
        path.write_bytes(whole[:at])
        assert "is not a valid workbook" in complaint(path)

    def test_a_password(self, path):
        path.write_bytes(
            b"\xd0\xcf\x11\xe0" + bytes(100) + "EncryptedPackage".encode("utf-16-le") + bytes(100)
        )
        assert complaint(path) == "t.xlsx: is protected by a password; save it without one."

    def test_a_bomb_by_its_declared_size(self, path, monkeypatch):
        monkeypatch.setattr(workbooks, "LEAST", 1 << 20)
        with zipfile.ZipFile(book(path, *ROWS), "a", zipfile.ZIP_DEFLATED) as file:
            file.writestr("xl/bomb.xml", bytes(1 << 23))
        assert "expands to more than 500 times its size" in complaint(path)

    def test_entities(self, path):
        entity = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]>'
        changed(
            book(path, *ROWS),
            "xl/workbook.xml",
            lambda text: text.replace("<workbook", entity + "<workbook", 1),
        )
        assert "declares XML entities" in complaint(path)

    def test_a_document_type_without_entities(self, tmp_path):
        """OpenOffice writes it where a spreadsheet has macros."""
        path = ods(tmp_path / "t.ods", odf_row("id", "a") + odf_row("x", 1.5) + odf_row("y", 2.5))
        with zipfile.ZipFile(path, "a") as file:
            file.writestr(
                "Basic/script-lc.xml", '<!DOCTYPE library PUBLIC "-//O//DTD 1.0//EN" "l.dtd"><library/>'
            )
        assert_array_equal(read_table(path, id="id")["a"], [1.5, 2.5])

    def test_a_cell_far_away(self, path):
        part = "xl/worksheets/sheet1.xml"
        changed(book(path, *ROWS), part, lambda text: text.replace('r="C4"', 'r="XFD1048576"'))
        assert "spread over an area of 17179869184; delete stray cells" in complaint(path)

    def test_a_large_area_that_is_filled_is_read(self, path, monkeypatch):
        monkeypatch.setattr(workbooks, "MOST_CELLS", 4)
        assert len(read_table(book(path, *ROWS), id="id")) == 3

    def test_repeated_cells_of_open_document(self, tmp_path):
        times = 'table:number-columns-repeated="16384"'
        cell = f'<table:table-cell office:value-type="float" office:value="1" {times}/>'
        row = f'<table:table-row table:number-rows-repeated="1048576">{cell}</table:table-row>'
        assert complaint(ods(tmp_path / "t.ods", odf_row("id", "a") + row))

    def test_a_panic_of_the_library_is_one_line(self, tmp_path, capfd):
        pytest.importorskip("xlwt")
        made = io.BytesIO()
        import xlwt

        written = xlwt.Workbook()
        written.add_sheet("one").write(0, 0, "id")
        written.save(made)
        rng = np.random.default_rng(0)
        whole = bytearray(made.getvalue())
        for at in rng.integers(512, len(whole), 200):
            whole[at] = rng.integers(256)
        (tmp_path / "t.xls").write_bytes(bytes(whole))
        complaint(tmp_path / "t.xls")
        assert capfd.readouterr().err == ""

    def test_options_of_other_kinds(self, path):
        book(path, *ROWS)
        assert "delimiter is not an option of Excel" in complaint(path, delimiter=";")
        text = path.with_suffix(".csv")
        text.write_text("id,a\n1,2\n")
        assert "sheet is not an option of delimited text; it is for Excel" in complaint(text, sheet="x")
        assert open_table(text).header == ["id", "a"]


def adni(*names):
    """A table of ADNI with one visit and these columns of numbers."""
    keys = {"RID": range(1, 13), "PTID": [f"011_S_{rid:04d}" for rid in range(1, 13)], "VISCODE": "bl"}
    return pd.DataFrame(keys).assign(**{name: np.arange(12) % 3 + 1.5 for name in names})


RIDS = [f"{rid:04d}" for rid in range(1, 13)]
TABLES = {
    "muse": (foreign_files.muse(RIDS), {}),
    "oasis3": (foreign_files.oasis([f"OAS3{rid}" for rid in RIDS]), {}),
    "ukb": (foreign_files.ukb(RIDS), {"instance": 2, "arrays": "drop"}),
    "adni-pet": (foreign_files.berkeley(range(1, 13)), {}),
    "clinica-merge": (
        foreign_files.merged([f"sub-{rid}" for rid in RIDS]),
        {"statistics": {"pipeline": "t1-volume"}},
    ),
    "adnimerge": (adni("MMSE", "FDG").assign(DX="AD"), {}),
    "tadpole": (adni("D1", "D2", "MMSE", "FDG").assign(DXCHANGE=1), {}),
    "ucsffsx": (adni("ST29SV", "ST88SV").assign(OVERALLQC="Pass"), {}),
    "fdg": (adni("MEAN").assign(ROINAME="Angular"), {}),
}


class TestFormatsInFilesOfSeveralTables:
    """What is read from a sheet or object is what is read from a file of its own."""

    @pytest.mark.parametrize("format", list(TABLES))
    def test_sheets(self, tmp_path, format):
        table, options = TABLES[format]
        read = FORMATS[format].read
        table.to_csv(tmp_path / "t.csv", index=False)
        expected = read(tmp_path / "t.csv", **options)
        path = tmp_path / "t.xlsx"
        with pd.ExcelWriter(path) as book:
            pd.DataFrame({"id": ["a", "b"], "x": [1, 2]}).to_excel(book, sheet_name="first", index=False)
            table.to_excel(book, sheet_name="second", index=False)
        for sheet in ("second", 2):
            found = read(path, sheet=sheet, **options)
            assert_array_equal(found.index.str.lstrip("0"), expected.index.str.lstrip("0"))
            pd.testing.assert_frame_equal(found.reset_index(drop=True), expected.reset_index(drop=True))
        with pytest.raises(StudyError, match="2 sheets have data: 'first', 'second'; set sheet to one of"):
            read(path, **options)
        with pytest.raises(StudyError, match="no sheet 'third'; there are 'first'"):
            read(path, sheet="third", **options)
        with pytest.raises(StudyError, match="sheet is not an option of delimited text"):
            read(tmp_path / "t.csv", sheet="second", **options)
        assert sniff(path, {"sheet": "second"}) == format
        assert {"sheet", "object"} <= set(FORMATS[format].options)

    @pytest.mark.parametrize("format", ["muse", "ukb", "adni-pet"])
    def test_objects(self, tmp_path, format):
        rdata = pytest.importorskip("rdata")
        table, options = TABLES[format]
        frames = {"first": pd.DataFrame({"x": [1.0, 2.0]}), "second": table.reset_index(drop=True)}
        texts = {name: pd.StringDtype("python") for name in table.select_dtypes("str").columns}
        frames["second"] = frames["second"].astype(texts)
        rdata.write_rda(tmp_path / "t.RData", frames)
        read = FORMATS[format].read
        found = read(tmp_path / "t.RData", object="second", **options)
        table.to_csv(tmp_path / "t.csv", index=False)
        assert_allclose(found, read(tmp_path / "t.csv", **options))
        with pytest.raises(StudyError, match="set object"):
            read(tmp_path / "t.RData", **options)
