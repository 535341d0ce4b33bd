"""The documentation: its code runs, its notebook runs, its site builds and asks nobody for anything.

Code on pages in Markdown is run from top to foot in one namespace per page: ``python`` blocks as they are,
``pycon`` blocks as doctests, whose output must be what they print. A block that needs data or programs from
elsewhere begins with a comment ``# not run here: ...``, which readers see, too; it is compiled.
"""

import doctest
import importlib
import inspect
import re
import runpy
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import viewloom as vl

ROOT = Path(__file__).parents[1]
DOCS, EXAMPLES = ROOT / "docs", ROOT / "examples"
BLOCK = re.compile(r"^```(python|pycon)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NOT_RUN = "# not run here: "
OUTPUT = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
PROMISED = ["start", "study", "guide/report", "paper", "published", "method", "which", "migration"]
PROMISED += ["architecture", "changelog"]
FRAGMENTS = {"scaling.md"}  # pages whose blocks show calls only, with views that the reader has

NEEDS = {"guide/together.md": "dask", "guide/visits.md": "statsmodels"}  # extras that pages use

if not DOCS.exists():
    pytest.skip("the documentation is not part of the package", allow_module_level=True)
matplotlib = pytest.importorskip("matplotlib")


def pages():
    found = [path for path in DOCS.rglob("*.md") if not {"_build", "_generated", "gallery"} & set(path.parts)]
    return [path for path in sorted(found) if BLOCK.search(path.read_text(encoding="utf-8"))]


def name_of(path):
    return str(path.relative_to(DOCS))


@pytest.fixture(autouse=True)
def figures_closed():
    from matplotlib import pyplot

    matplotlib.use("Agg")
    yield
    pyplot.close("all")


def run_doctest(text, namespace, name):
    test = doctest.DocTestParser().get_doctest(text, namespace, name, name, 0)
    test.globs = namespace  # not a copy: later blocks go on with it
    said = []
    doctest.DocTestRunner(optionflags=OUTPUT).run(test, out=said.append, clear_globs=False)
    assert not said, "".join(said)


@pytest.mark.parametrize("path", pages(), ids=name_of)
def test_code_on_pages_runs(path, tmp_path, monkeypatch):
    pytest.importorskip(NEEDS.get(name_of(path), "matplotlib"))
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "page"}
    for kind, text in BLOCK.findall(path.read_text(encoding="utf-8")):
        if text.startswith(NOT_RUN) or name_of(path) in FRAGMENTS:
            compile(text, name_of(path), "exec")
        elif kind == "pycon":
            run_doctest(text, namespace, name_of(path))
        else:
            exec(compile(text, name_of(path), "exec"), namespace)


def test_every_page_has_python_that_is_run():
    """The rule above would hold of pages without any."""
    assert {"start.md", "index.md", "migration.md"} <= {path.name for path in pages()}
    assert len(pages()) > 8


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("plot_*.py")), ids=lambda path: path.stem)
def test_examples_are_examples(path):
    """`make docs` runs them; here they have a title, compile, and use nothing private."""
    text = path.read_text(encoding="utf-8")
    compile(text, path.name, "exec")
    title, rule = text.split("\n")[1:3]
    assert rule == "=" * len(title)
    assert not re.search(r"\b(?:model|vl|views)\._[a-z]", text)


@pytest.mark.parametrize(
    "stem", ["plot_01_first_clusters", "plot_05_published_form", "plot_08_kernels_on_rings"]
)
def test_examples_run(stem):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runpy.run_path(str(EXAMPLES / f"{stem}.py"))


def test_the_notebook_runs_and_prints_what_it_shows(monkeypatch):
    monkeypatch.delenv("MPLBACKEND", raising=False)  # the kernel of notebooks has its own
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    shown = nbformat.read(EXAMPLES / "first_clusters.ipynb", as_version=4)
    again = nbformat.from_dict(shown)
    nbclient.NotebookClient(again, timeout=300, kernel_name="python3").execute()
    assert [printed(cell) for cell in again.cells] == [printed(cell) for cell in shown.cells]
    assert (EXAMPLES / "first_clusters.ipynb").stat().st_size < 200_000


def printed(cell):
    """Text of a cell's outputs, without memory addresses; figures by their kind."""
    texts = [output.get("data", {}).get("text/plain", "") for output in cell.get("outputs", [])]
    return [re.sub(r" at 0x[0-9a-f]+", "", text) for text in texts]


@pytest.fixture(scope="module")
def data():
    return vl.simulate.blobs_views(90, n_views=2, random_state=0)


@pytest.fixture
def model():
    return vl.KernelMultiviewNMF(3, random_state=0)


class TestTogether:
    """What guide/together.md says of other tools, with the results looked at."""

    def test_pandas(self, data, model):
        views, _ = data
        table = model.set_output(transform="pandas").fit(views).transform(views)
        assert list(table.columns) == [f"kernelmultiviewnmf{j}" for j in range(3)]
        np.testing.assert_allclose(table.sum(axis=1), 1.0)

    def test_pipeline_and_grid_search(self, data, model):
        from sklearn.model_selection import GridSearchCV
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        views, y = data
        pipeline = make_pipeline(vl.PerView(StandardScaler()), model)
        grid = {"kernelmultiviewnmf__lam": [1.0, 10.0]}
        search = GridSearchCV(pipeline, grid, cv=3).fit(views)
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()
        assert vl.clustering_report(y, search.predict(views))["ARI"] > 0.9

    def test_joblib(self, data, model, tmp_path):
        import joblib

        views, _ = data
        here, there = model.fit(views), joblib.Parallel(n_jobs=2)([joblib.delayed(model.fit)(views)])[0]
        np.testing.assert_array_equal(there.memberships_, here.memberships_)
        joblib.dump(here, tmp_path / "model.joblib")
        np.testing.assert_array_equal(
            joblib.load(tmp_path / "model.joblib").predict(views), here.predict(views)
        )

    def test_dask_arrays(self, data, model):
        da = pytest.importorskip("dask.array")
        views, _ = data
        lazy = {name: da.from_array(X, chunks=(40, -1)) for name, X in views.items()}
        np.testing.assert_array_equal(model.fit(lazy).labels_, model.fit(views).labels_)

    def test_html(self, data, model):
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        page = make_pipeline(vl.PerView(StandardScaler()), model)._repr_html_()
        assert "KernelMultiviewNMF" in page
        assert "PerView" in page

    def test_single_view_estimators(self, data):
        from sklearn.cluster import KMeans

        views, y = data
        labels = KMeans(3, n_init=5, random_state=0).fit_predict(views)
        assert vl.clustering_report(y, labels)["ARI"] > 0.9

    def test_mudata(self, data, model):
        anndata, mudata = pytest.importorskip("anndata"), pytest.importorskip("mudata")
        import pandas as pd

        views, _ = data
        names = [f"cell{i}" for i in range(len(views))]
        modalities = {
            name: anndata.AnnData(X[skip:], obs=pd.DataFrame(index=names[skip:]))
            for skip, (name, X) in enumerate(views.items())
        }
        with mudata.set_options(pull_on_update=False):
            cells = mudata.MuData(modalities)
        joined = vl.Views.from_mudata(cells)
        assert joined.present.sum(axis=0).tolist() == [90, 89]
        cells.obs["cluster"] = model.fit(joined).labels_
        assert cells.obs["cluster"].nunique() == 3


class TestAdniTables:
    """The study file on the page "From ADNI tables to a report", on tables of that layout."""

    N = 60

    @pytest.fixture
    def folder(self, tmp_path):
        import pandas as pd

        rng, rid = np.random.default_rng(0), np.arange(2, 2 + self.N)
        people = {"RID": rid, "PTID": [f"011_S_{r:04d}" for r in rid], "VISCODE": "bl", "SITE": rid % 2}
        people |= {"DX_bl": "CN", "AGE": 70 + rid % 9, "PTGENDER": np.where(rid % 3, "Male", "Female")}
        people |= {"PTEDUCAT": 12, "APOE4": rid % 3, "MMSE": 20 + rid % 11, "CDRSB": rid % 5}
        people |= {"ICV": 1.5e6 + rid, "DX": np.where(rid % 2, "CN", "Dementia")}
        scans = {"RID": rid, "VISCODE": "sc", "VISCODE2": "sc", "RUNDATE": "2012-05-01", "IMAGEUID": rid}
        scans |= {"OVERALLQC": "Pass", "TEMPQC": "Pass", "ST10CV": 1.5e6 + rid}
        scans |= {code: rng.normal(3, 0.3, self.N) for code in ("ST29SV", "ST88SV", "ST24TA", "ST83TA")}
        regions = ["Angular", "CingulumPost", "Temporal"]
        pet = {
            "RID": rid.repeat(3),
            "VISCODE": "bl",
            "VISCODE2": "bl",
            "UID": "0",
            "ROINAME": regions * self.N,
        }
        pet |= {"ROILAT": "Left", "MEAN": rng.normal(1.2, 0.1, 3 * self.N)}
        pd.DataFrame(people).to_csv(tmp_path / "ADNIMERGE.csv", index=False)
        pd.DataFrame(scans)[5:].to_csv(tmp_path / "UCSFFSX51_11_08_19.csv", index=False)
        pd.DataFrame(pet)[:-30].to_csv(tmp_path / "UCBERKELEYFDG_05_28_20.csv", index=False)
        return tmp_path

    def test_the_study_file_reads_them(self, folder):
        from viewloom import study

        page = (DOCS / "study.md").read_text(encoding="utf-8")
        text = re.search(r"```toml\n(.*?ADNIMERGE.*?)```", page, re.DOTALL).group(1)
        (folder / "study.toml").write_text(text, encoding="utf-8")
        found = study.check(study.read_study(folder / "study.toml"))
        assert found.problems == []
        assert found.views["features"].to_dict() == {"mri": 4, "fdg": 3}
        assert found.views["subjects"].to_dict() == {"mri": self.N - 5, "fdg": self.N - 10}


def public_objects():
    """Names of the reference: the entries of api.rst, and what the package exports."""
    entries = re.findall(r"^   ([A-Za-z_.]+)$", (DOCS / "api.rst").read_text(encoding="utf-8"), re.MULTILINE)
    exported = [name for name in vl.__all__ if not inspect.ismodule(getattr(vl, name))]
    return sorted({*entries, *exported})


def resolved(name):
    """The object of a dotted name below viewloom."""
    *where, last = name.split(".")
    return getattr(importlib.import_module(".".join(["viewloom", *where])), last)


@pytest.mark.parametrize("name", public_objects())
def test_everything_public_has_an_example(name):
    doc = inspect.getdoc(resolved(name)) or ""
    assert "Examples\n--------" in doc
    assert ">>> " in doc


def test_everything_exported_is_in_the_reference():
    entries = (DOCS / "api.rst").read_text(encoding="utf-8")
    missing = [
        name for name in vl.__all__ if not re.search(rf"^   {name}$|^   {name}\.", entries, re.MULTILINE)
    ]
    assert missing == []


def test_every_equation_has_its_function():
    text = (DOCS / "method.md").read_text(encoding="utf-8")
    targets = re.findall(r"\{py:(?:func|class|meth)\}`[^<`]+<viewloom\.([A-Za-z_.]+)>`", text)
    assert len(targets) > 40
    for target in targets:
        if target != "KernelMultiviewNMF.transform":
            assert callable(resolved(target)), target


def test_every_function_of_an_equation_is_tested_by_name():
    """The page says that all of them are compared with loops, closed forms or known answers."""
    text = (DOCS / "method.md").read_text(encoding="utf-8")
    targets = set(re.findall(r"\{py:(?:func|class|meth)\}`[^<`]+<viewloom\.([A-Za-z_.]+)>`", text))
    tests = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    imported = set(re.findall(r"^from viewloom[\w.]* import ([^(\n]+)$", tests, re.MULTILINE))
    imported |= set(re.findall(r"^from viewloom[\w.]* import \(([^)]+)\)", tests, re.MULTILINE))
    names = {name.strip().split(" as ")[0] for line in imported for name in line.split(",")}
    names |= set(re.findall(r"\b(?:vl|viewloom)\.(?:\w+\.)?(\w+)", tests))
    assert sorted(target for target in targets if target.split(".")[-1] not in names) == [
        "KernelMultiviewNMF.transform"
    ]


def test_numbers_that_are_quoted_stand_where_they_come_from():
    quoted, printed = ((DOCS / name).read_text(encoding="utf-8") for name in ("which.md", "quality.md"))
    numbers = re.findall(r"\b0\.\d{3}\b", quoted)
    assert len(numbers) >= 4
    assert [number for number in numbers if number not in printed] == []


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built as `make docs` does but without running the gallery."""
    pytest.importorskip("sphinx_gallery")
    pytest.importorskip("myst_nb")
    folder = tmp_path_factory.mktemp("site")
    source = shutil.copytree(
        DOCS, folder / "docs", ignore=shutil.ignore_patterns("_build", "_generated", "gallery")
    )
    for name in ("examples", "src", "CHANGELOG.md", "SECURITY.md", "pyproject.toml"):
        (folder / name).symlink_to(ROOT / name)
    images = "suppress_warnings=config.cache,image.not_readable"  # figures of the gallery, which has not run
    options = ["-W", "--keep-going", "-q", "-b", "html", "-D", "plot_gallery=0", "-D", images]
    command = [sys.executable, "-m", "sphinx", *options, str(source), str(folder / "html")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-4000:]
    return folder / "html"


class TestSite:
    def test_asks_nobody_for_anything(self, site):
        """No script, style, font, picture or frame from elsewhere; links may lead there."""
        fetched = re.compile(
            r'<(?:script|img|iframe|source|link)\b[^>]*(?:src|href|srcset)="((?:https?:)?//[^"]+)"'
        )
        for page in site.rglob("*.html"):
            assert fetched.findall(page.read_text(encoding="utf-8")) == [], page.name
        for style in site.rglob("*.css"):
            assert not re.search(
                r"(?:url\(|@import)\s*['\"]?(?:https?:)?//", style.read_text(encoding="utf-8")
            ), style

    def test_has_every_page_the_reader_was_promised(self, site):
        for page in PROMISED:
            assert (site / f"{page}.html").is_file()
        assert len(list((site / "gallery").glob("plot_*.html"))) >= 8

    def test_draws_every_package(self, site):
        page = (site / "architecture.html").read_text(encoding="utf-8")
        packages = {
            path.stem for path in (ROOT / "src" / "viewloom").glob("[!_]*") if path.suffix in ("", ".py")
        }
        assert [package for package in packages if f">{package}</text>" not in page] == []
        assert page.count('class="band"') == 11  # ten layers of import-linter, and what stands apart

    def test_draws_formulas_itself(self, site):
        page = (site / "method.html").read_text(encoding="utf-8")
        assert page.count("<math") > 50
        assert "MathJax" not in page

    def test_internal_links_lead_somewhere(self, site):
        """Files and anchors of the pages written by hand."""
        broken = []
        for page in [*site.glob("*.html"), *site.glob("guide/*.html")]:
            text = page.read_text(encoding="utf-8")
            for href in re.findall(r'<a [^>]*href="([^"#:]*)(?:#([^"]*))?"', text):
                if "gallery/images/" in href[0]:
                    continue  # drawn by the gallery, which has not run
                target = (page.parent / href[0]).resolve() if href[0] else page
                if not target.exists():
                    broken.append((page.name, href[0]))
                elif href[1] and f'id="{href[1]}"' not in target.read_text(encoding="utf-8"):
                    broken.append((page.name, "#".join(href)))
        assert broken == []
