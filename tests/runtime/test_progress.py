"""Progress: drawn in terminals and notebooks, with the time left, and nowhere else."""

import io
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module

import pytest

import viewloom as vl
from viewloom.models import kernel_nmf
from viewloom.runtime import progress
from viewloom.runtime.progress import (
    NotebookBars,
    Task,
    in_notebook,
    no_progress,
    progress_bar,
    showing_parts,
    stage,
)
from viewloom.runtime.terminal import terminal_bars


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
    assert Task("Fits", 10, 4, began=0.0, at=60.0).line(60.0).endswith(" 40 %  0:01:30 left")
    assert Task("Fits", 10, 4, began=0.0, at=60.0).line(80.0).endswith(" 40 %  0:01:10 left")
    assert Task("Fits", 10, 9, began=0.0, at=90.0).line(120.0).endswith(" 90 %  0:00:00 left")
    assert Task("Fits", 10, 0, began=0.0).line(60.0).endswith(" 0 %")
    assert Task("Fits", None, 3, began=0.0).line(60.0) == "Fits 0:01:00"


def test_terminals_have_bars_of_their_own(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stderr", Terminal())
    assert type(progress._bars()).__name__ == "Progress"


def test_a_terminal_has_the_time_left_of_units_that_take_minutes():
    """The column of rich forgets units of more than half a minute ago, and then has no time."""
    now = 0.0
    bars = terminal_bars()
    bars.get_time = lambda: now
    task = bars.add_task("Fits", total=4)
    texts = [str(bars.columns[-1](bars.tasks[0]))]
    for now in (60.0, 80.0, 120.0):
        if now != 80.0:
            bars.advance(task, 1)
        texts.append(str(bars.columns[-1](bars.tasks[0])))
    assert texts == ["", "0:03:00 left", "0:02:40 left", "0:02:00 left"]


def test_a_terminal_has_the_time_of_units_that_are_not_counted():
    now = 0.0
    bars = terminal_bars()
    bars.get_time = lambda: now
    bars.add_task("Kernels", total=None)
    now = 75.0
    assert str(bars.columns[-1](bars.tasks[0])) == "0:01:15"


def test_names_of_files_are_no_markup(monkeypatch):
    """A title may name a file, and a file may be called anything."""

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stderr", Terminal())
    with progress_bar("Reading files", 0, show=True), stage("Reading a[/b]\x1b[2J.csv", 2) as tick:
        progress.SHOWN.get().refresh()
        tick(1)
    assert "a[/b]\\x1b[2J.csv" in sys.stderr.getvalue()


def test_lines_of_parts_are_shown_where_asked_for(cell):
    with progress_bar("Outer", 2, show=True), showing_parts(), progress_bar("Inner", 2, show=False) as tick:
        tick(1)
    assert [line.split()[0] for line in cell.texts[-2].splitlines()] == ["Outer", "Inner"]
    with showing_parts(), progress_bar("Alone", 2, show=False) as tick:
        assert tick is no_progress


def test_a_notebook_shows_time_pass_while_no_unit_is_finished(cell, monkeypatch):
    monkeypatch.setattr(progress, "TICK", 0.01)
    with progress_bar("Kernels", 0, show=True):
        before = len(cell.texts)
        for _ in range(500):
            time.sleep(0.01)
            if len(cell.texts) > before:
                break
    assert len(cell.texts) > before + 1


def test_units_finished_in_threads_share_one_output(cell, monkeypatch):
    display = import_module("IPython.display")
    outputs, shown = [], display.display

    def slowly(*arguments, **options):
        outputs.append(arguments)
        time.sleep(0.05)
        return shown(*arguments, **options)

    monkeypatch.setattr(display, "display", slowly)
    monkeypatch.setattr(progress, "DELAY", 0.02)
    with progress_bar("Ties", 8, show=True) as tick, ThreadPoolExecutor(4) as pool:
        time.sleep(0.03)
        list(pool.map(tick, [1] * 8))
    assert len(outputs) == 1
    assert cell.texts[-1] == ""


def test_nothing_is_drawn_into_files(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert progress._bars() is None
    assert not in_notebook()
    with progress_bar("Searching", 4, show=True) as tick:
        assert tick is no_progress


def test_fits_searches_and_comparisons_show_progress(cell, monkeypatch):
    views, y = vl.simulate.blobs_views(40, n_views=2, random_state=0)
    model = vl.KernelMultiviewNMF(3, verbose=1, random_state=0).fit(views)
    model.feature_importance()
    monkeypatch.setattr(kernel_nmf, "is_long", lambda X: True)
    model.predict(views)
    vl.selection.choose_k(views, [2, 3], n_subsamples=2, n_twins=4, random_state=0)
    vl.selection.select(views, {"lam": [1.0, 10.0]}, cv=2, random_state=0)
    vl.compare(views, y, methods=["k-means"], seeds=1)
    titles = {text.split("█")[0].split("·")[0].strip() for text in cell.texts}
    for title in (
        "Iterations, at most",
        "Importance",
        "Placing samples",
        "Counting clusters",
        "Searching",
        "Comparing methods",
    ):
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
        "for factored in (False, 20):\n"
        "    vl.KernelMultiviewNMF(3, factored=factored, verbose=1, random_state=0).fit(views)"
    )
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    client.NotebookClient(notebook, timeout=300).execute()
    shown = [out for out in notebook.cells[0].outputs if out.output_type == "display_data"]
    assert [out.data["text/plain"] for out in shown] == [""]  # one for all bars of the cell


def test_an_interrupted_bar_is_removed(cell):
    with pytest.raises(ZeroDivisionError), progress_bar("Searching", 2, show=True) as tick:
        tick(1 // len(cell.texts[1:]))
    assert cell.texts[-1] == ""
    assert progress.SHOWN.get() is None
    assert isinstance(progress._bars(), NotebookBars)
