"""Progress: drawn in terminals and notebooks, with the time left, and nowhere else."""

import io
import sys

import pytest

import viewloom as vl
from viewloom.runtime import progress
from viewloom.runtime.progress import NotebookBars, Task, in_notebook, no_progress, progress_bar, stage


class Output:
    """An output of a cell, as IPython hands it out: what it has shown, one text after another."""

    def __init__(self):
        self.texts = []

    def update(self, data, raw):
        assert raw
        self.texts.append(data["text/plain"])


@pytest.fixture
def cell(monkeypatch):
    """The output of a notebook's cell in which bars appear at once."""
    display = pytest.importorskip("IPython.display")
    output = Output()

    def shown(data, raw, display_id):
        assert display_id
        output.update(data, raw)
        return output

    monkeypatch.setattr(display, "display", shown)
    monkeypatch.setattr(progress, "in_notebook", lambda: True)
    monkeypatch.setattr(progress, "DELAY", 0.0)
    monkeypatch.setattr(progress, "EVERY", 0.0)
    return output


def test_a_notebook_shows_lines_that_end_with_the_work(cell):
    with progress_bar("Searching", 4, show=True) as tick:
        tick(1)
        with stage("Part", 2) as inner:
            inner(1)
        tick(3)
    assert cell.texts[0].startswith("Searching ")
    assert "25 %" in cell.texts[1]
    assert cell.texts[1].endswith("left")
    assert cell.texts[3].splitlines()[1].startswith("Part ")
    assert "100 %" in cell.texts[-2]
    assert cell.texts[-1] == ""


def test_a_bar_within_a_bar_is_a_line_of_it(cell):
    with progress_bar("Outer", 2, show=True), progress_bar("Inner", 2, show=True) as tick:
        tick(1)
    assert [line.split()[0] for line in cell.texts[-2].splitlines()] == ["Outer", "Inner"]


def test_hidden_bars_stay_hidden_within_others(cell):
    with progress_bar("Outer", 2, show=True), progress_bar("Inner", 2, show=False) as tick:
        assert tick is no_progress


def test_quick_work_shows_nothing(cell, monkeypatch):
    monkeypatch.setattr(progress, "DELAY", 100.0)
    monkeypatch.setattr(progress, "EVERY", 0.5)
    with progress_bar("Searching", 2, show=True) as tick:
        tick(2)
    assert cell.texts == []


def test_time_left():
    assert Task("Fits", 10, 4, began=0.0).line(60.0).endswith(" 40 %  0:01:30 left")
    assert Task("Fits", 10, 0, began=0.0).line(60.0).endswith(" 0 %")
    assert Task("Fits", None, 3, began=0.0).line(60.0) == "Fits 0:01:00"


def test_terminals_have_bars_of_their_own(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stderr", Terminal())
    assert type(progress._bars()).__name__ == "Progress"


def test_nothing_is_drawn_into_files(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert progress._bars() is None
    assert not in_notebook()
    with progress_bar("Searching", 4, show=True) as tick:
        assert tick is no_progress


def test_fits_searches_and_comparisons_show_progress(cell):
    views, y = vl.simulate.blobs_views(40, n_views=2, random_state=0)
    vl.KernelMultiviewNMF(3, verbose=1, random_state=0).fit(views)
    vl.selection.choose_k(views, [2, 3], n_subsamples=2, n_twins=4, random_state=0)
    vl.selection.select(views, {"lam": [1.0, 10.0]}, cv=2, random_state=0)
    vl.compare(views, y, methods=["k-means"], seeds=1)
    titles = {text.split("█")[0].split("·")[0].strip() for text in cell.texts}
    for title in ("Iterations, at most", "Counting clusters", "Searching", "Comparing methods"):
        assert title in titles


def test_a_real_kernel_draws_and_clears(tmp_path):
    """What a notebook receives, in a kernel of its own."""
    client = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    code = (
        "import viewloom as vl\n"
        "from viewloom.runtime import progress\n"
        "progress.DELAY = progress.EVERY = 0.0\n"
        "views, y = vl.simulate.blobs_views(60, random_state=0)\n"
        "assert progress.in_notebook()\n"
        "vl.KernelMultiviewNMF(3, verbose=1, random_state=0).fit(views);"
    )
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    client.NotebookClient(notebook, timeout=300).execute()
    shown = [out for out in notebook.cells[0].outputs if out.output_type == "display_data"]
    assert [out.data["text/plain"] for out in shown] == [""] * len(shown)
    assert shown


def test_an_interrupted_bar_is_removed(cell):
    with pytest.raises(ZeroDivisionError), progress_bar("Searching", 2, show=True) as tick:
        tick(1 // len(cell.texts[1:]))
    assert cell.texts[-1] == ""
    assert progress.SHOWN.get() is None
    assert isinstance(progress._bars(), NotebookBars)
