"""The recipes of CONTRIBUTING.md, followed as they are written."""

import os
import re
import sys
from importlib import import_module, invalidate_caches
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.utils.estimator_checks import check_estimator

import viewloom as vl
from viewloom import kernels
from viewloom.data.row_sources import Blocks
from viewloom.evaluation import comparison
from viewloom.kernels.base import PLAIN, Context
from viewloom.kernels.geometry import Geometry
from viewloom.kernels.graphs import KNN
from viewloom.kernels.nystroem import Nystroem
from viewloom.kernels.operators import Explicit, Factored
from viewloom.kernels.pairwise import PairwiseKernel
from viewloom.kernels.registry import KERNELS
from viewloom.models import kernel_nmf
from viewloom.runtime import stored
from viewloom.solver.teams import TEAMS

PAGE = Path(__file__).parents[1] / "CONTRIBUTING.md"
if not PAGE.exists():
    pytest.skip("the recipes are not part of the archive", allow_module_level=True)
RECIPE = re.compile(r"^### Add an? (.+?)\n(.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)
RECIPES = dict(RECIPE.findall(PAGE.read_text(encoding="utf-8")))


class Registries:
    """All registries, which forget what a test has added."""

    def __init__(self):
        from viewloom.study.readers import FORMATS

        self.all = [KERNELS, TEAMS, FORMATS, comparison.METHODS, stored.REGISTRY]
        self.before = [registry.copy() for registry in self.all]

    def restore(self):
        for registry, before in zip(self.all, self.before, strict=True):
            registry.clear()
            (registry.update if isinstance(registry, dict) else registry.extend)(before)

    @property
    def grown(self):
        """How many entries each registry but the last, that of tags, has more."""
        return [len(now) - len(before) for now, before in zip(self.all[:-1], self.before[:-1], strict=True)]


@pytest.fixture
def registries():
    registries = Registries()
    yield registries
    registries.restore()


@pytest.fixture
def follow(registries, tmp_path, monkeypatch):
    """A function that runs the code of a recipe as a module, which is all that the recipe asks for."""
    monkeypatch.syspath_prepend(tmp_path / "recipes")
    followed = []

    def follow(title):
        (code,) = re.findall(r"^```python\n(.*?)^```", RECIPES[title], re.MULTILINE | re.DOTALL)
        name = f"recipe_{title.replace(' ', '_')}"
        (tmp_path / "recipes").mkdir(exist_ok=True)
        (tmp_path / "recipes" / f"{name}.py").write_text(code, encoding="utf-8")
        followed.append(name)
        invalidate_caches()
        module = import_module(name)
        assert sum(registries.grown) == len(followed)  # one entry in one registry
        return module

    yield follow
    for name in followed:
        sys.modules.pop(name, None)


def test_every_recipe_is_followed():
    assert set(RECIPES) == {"kernel", "operator", "backend", "file format", "baseline"}


@pytest.mark.parametrize("recipe", sorted(RECIPES))
def test_the_recipes_name_what_is_there(recipe):
    """Names in code type of modules and tests, as far as they are dotted or paths."""
    text = re.sub(r"```.*?```", "", RECIPES[recipe], flags=re.DOTALL)
    for name in re.findall(r"`((?:\w+/)+\w+\.(?:py|md))`", text):
        places = (PAGE.parent / name, PAGE.parent / "src/viewloom" / name)
        assert any(place.exists() for place in places), name
    for module, attribute in re.findall(r"`([a-z_.]+)\.([A-Z]\w+)`", text):
        assert hasattr(import_module(f"viewloom.{module}"), attribute)


def test_the_table_names_the_registries():
    rows = re.findall(r"^\| .*? \| `([\w.]+)\.([A-Z]+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(rows) == 4
    for module, registry in rows:
        assert getattr(import_module(f"viewloom.{module}"), registry)


class Doubled(kernels.Linear, tag="kernel.doubled"):
    """A kernel with a finite factor: every feature twice."""

    def fit(self, geometry, context=PLAIN):
        return FittedDoubled(geometry.X)


class FittedDoubled(stored.Stored, tag="kernel.doubled.fitted", fields=("X",)):
    def __init__(self, X):
        self.X, self.operator = X, Factored(np.hstack([X, X]))

    def place(self, cross, shared_graph=None):
        return Factored(np.hstack([cross.X, cross.X]))


def cohort(n=60):
    rng = np.random.default_rng(0)
    y = np.arange(n) % 3
    return {
        name: np.abs(9 + 2 * rng.standard_normal((3, 5))[y] + rng.standard_normal((n, 5))) for name in "ab"
    }


def saved_and_loaded(model, path):
    model.save(path)
    loaded = vl.load(path)
    assert_array_equal(loaded.transform(cohort()), model.transform(cohort()))
    assert repr(loaded) == repr(model)
    return loaded


class TestKernel:
    @pytest.fixture(autouse=True)
    def recipe(self, follow):
        self.Cauchy = follow("kernel").Cauchy

    def test_entries_unit_diagonal_and_new_samples(self):
        X = cohort()["a"]
        fitted = self.Cauchy(2.0).fit(Geometry(X), Context(normalize=True))
        expected = [[1.0 / (1.0 + sum((x - y) ** 2) / 4.0) for y in X] for x in X]
        assert_allclose(fitted.operator.K, expected)
        assert_allclose(fitted.place(Geometry(X).to(X[:4])).rows, np.array(expected)[:4])

    @pytest.mark.parametrize(
        "kernel", ["cauchy", {"a": "cauchy", "b": "linear"}, Nystroem("cauchy", rank=20)], ids=str
    )
    def test_a_model_with_it_is_saved_and_loaded(self, tmp_path, kernel):
        model = vl.KernelMultiviewNMF(3, kernel=kernel, random_state=0).fit(cohort())
        saved_and_loaded(model, tmp_path / "m.safetensors")

    def test_an_object_of_it(self, tmp_path):
        model = vl.KernelMultiviewNMF(3, kernel=self.Cauchy(3.0), random_state=0).fit(cohort())
        saved_and_loaded(model, tmp_path / "m.safetensors")

    def test_what_prepare_found_is_kept(self, tmp_path):
        model = vl.KernelMultiviewNMF(3, kernel="cauchy", random_state=0).fit(cohort())
        loaded = saved_and_loaded(model, tmp_path / "m.safetensors")
        mine, theirs = (m.fitted_model_.problem.views[0].kernel.kernel for m in (model, loaded))
        assert mine.width == theirs.width > 0.0

    def test_landmarks_with_it(self, tmp_path):
        model = vl.KernelMultiviewNMF(3, kernel="cauchy", factored=20, random_state=0).fit(cohort())
        saved_and_loaded(model, tmp_path / "m.safetensors")

    def test_loading_without_it_says_what_is_missing(self, tmp_path):
        vl.KernelMultiviewNMF(3, kernel="cauchy").fit(cohort()).save(tmp_path / "m.safetensors")
        del stored.REGISTRY["kernel.cauchy"]
        with pytest.raises(ValueError, match=r"'kernel.cauchy', which is not known here: import"):
            vl.load(tmp_path / "m.safetensors")

    def test_one_without_a_tag_is_refused(self, tmp_path):
        class Untagged(self.Cauchy):
            pass

        model = vl.KernelMultiviewNMF(3, kernel=Untagged()).fit(cohort())
        with pytest.raises(TypeError, match=r"holds a Untagged cannot be saved: .* declare a tag"):
            model.save(tmp_path / "m.safetensors")
        assert not list(tmp_path.glob("*.safetensors"))

    def test_two_classes_of_one_tag_are_refused(self):
        with pytest.raises(TypeError, match=r"The tag 'kernel.cauchy' belongs to"):

            class Other(PairwiseKernel, tag="kernel.cauchy"):
                pass

    def test_a_study_may_name_it(self, tmp_path):
        from viewloom.study import StudyError, read_study
        from viewloom.study.config.toml import json_schema

        (tmp_path / "a.csv").write_text("id,x,y\ns1,1,2\n")
        study = tmp_path / "study.toml"
        study.write_text("[views.a]\npath = 'a.csv'\nid = 'id'\n[model]\nkernel = 'cauchy'\n")
        assert read_study(study).model.settings["kernel"] == "cauchy"
        one, each = json_schema()["$defs"]["Model"]["properties"]["kernel"]["oneOf"]
        assert "cauchy" in one["enum"]
        assert "cauchy" in each["additionalProperties"]["enum"]
        study.write_text(study.read_text().replace("'cauchy'", "'cauchi'"))
        with pytest.raises(StudyError, match=r"must be one of .*'cauchy', got 'cauchi'; did you mean"):
            read_study(study)


def test_a_function_is_refused(tmp_path):
    def product(X, Y):
        return X @ Y.T

    model = vl.KernelMultiviewNMF(3, kernel=product).fit(cohort())
    with pytest.raises(TypeError, match=r"function \(product\) cannot be saved: functions are code"):
        model.save(tmp_path / "m.safetensors")


def test_a_finite_factor(tmp_path):
    model = vl.KernelMultiviewNMF(3, kernel=Doubled(), random_state=0).fit(cohort())
    saved_and_loaded(model, tmp_path / "m.safetensors")


def test_a_graph_of_ones_own_is_refused(tmp_path):
    class Own(KNN):
        pass

    model = vl.KernelMultiviewNMF(3, graph=Own(5)).fit(cohort())
    with pytest.raises(TypeError, match="holds a Own cannot be saved"):
        model.save(tmp_path / "m.safetensors")


@pytest.mark.parametrize("store", ["Landmarks", "labels", "", None, True])
def test_an_unknown_store_is_refused(tmp_path, store):
    model = vl.KernelMultiviewNMF(3, factored=15, random_state=0).fit(cohort())
    with pytest.raises(ValueError, match=r"store must be one of \['auto', 'landmarks'\]"):
        model.save(tmp_path / "m.safetensors", store=store)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("library", ["numpy", "dask.array"])
class TestOperator:
    @pytest.fixture(autouse=True)
    def recipe(self, follow, library):
        pytest.importorskip(library)
        self.module = follow("operator")

    def test_its_products_are_those_of_the_matrix(self, library):
        X, G = cohort()["a"], np.random.default_rng(1).random((3, 60))
        operator, expected = self.module.DeviceFactor(X, library), Explicit(X @ X.T)
        assert operator.project(G).M.dtype == np.float64
        assert_allclose(operator.lift(operator.project(G).M), G @ X @ X.T)
        assert_allclose(operator.project(G).quad, expected.project(G).quad)
        assert_allclose(operator.lift(operator.codebook(G)), G @ X @ X.T)
        for what in ("diagonal", "mean", "trace"):
            assert_allclose(getattr(operator, what)(), getattr(expected, what)())
        assert_allclose(operator.centred_spectrum(3), expected.centred_spectrum(3))

    @pytest.mark.parametrize("factored", [False, 20])
    def test_a_model_with_it_is_that_of_the_linear_kernel(self, tmp_path, library, factored):
        used = []
        self.module.to_host = counted(self.module.to_host, used)
        settings = {"factored": factored, "max_iter": 5, "tol": 0.0, "random_state": 0}
        own = self.module.DeviceLinear(library)
        with pytest.warns(UserWarning, match="did not converge"):
            model, plain = (
                vl.KernelMultiviewNMF(3, kernel=kernel, **settings).fit(cohort())
                for kernel in (own, "linear")
            )
        lifted = [array for (array,) in used if array.shape == (3, 60)]
        assert len(lifted) >= 5 * 2  # of all samples, in every iteration and view
        assert_allclose(model.memberships_, plain.memberships_, atol=1e-9)
        loaded = saved_and_loaded(model, tmp_path / "m.safetensors")
        assert_allclose(loaded.transform(cohort()), plain.transform(cohort()), atol=1e-9)


def counted(function, calls):
    def wrapped(*args):
        calls.append(args)
        return function(*args)

    return wrapped


class TestBackend:
    @pytest.fixture(autouse=True)
    def recipe(self, follow, monkeypatch):
        self.module = follow("backend")
        monkeypatch.setattr(self.module, "allowed_threads", lambda: 2)

    def test_it_is_as_short_as_promised(self):
        (code,) = re.findall(r"```python\n(.*?)```", RECIPES["backend"], re.DOTALL)
        assert len(code.splitlines()) <= 60

    def test_it_gives_the_results_of_one_thread(self, tmp_path, monkeypatch):
        monkeypatch.setattr(kernel_nmf, "Blocks", lambda X: Blocks(X, rows=13))
        views = cohort()
        views["b"][:9] = np.nan
        settings = {"factored": 20, "init": "random", "random_state": 0}  # which is dealt to shards
        serial, processes = (
            vl.KernelMultiviewNMF(3, backend=backend, **settings).fit(views)
            for backend in ("serial", "processes")
        )
        assert_array_equal(processes.memberships_, serial.memberships_)
        assert_array_equal(processes.view_weights_, serial.view_weights_)
        assert processes.history_["objective"] == serial.history_["objective"]
        saved_and_loaded(processes, tmp_path / "m.safetensors")

    def test_a_lost_process_is_told(self):
        team = TEAMS["processes"](still, Blocks(np.ones((6, 1)), rows=2), lambda count: None)
        assert team.each(len_of, 1) == [3, 3, 3]
        with pytest.raises(MemoryError, match="A process was ended"):
            team.each(end_process)

    def test_one_that_is_not_registered_is_refused(self):
        with pytest.raises(ValueError, match=r"'backend' parameter .*'processes'.* Got 'ray' instead"):
            vl.KernelMultiviewNMF(3, factored=20, backend="ray").fit(cohort())


def still(views):
    return [len(views)]


def end_process(shard):
    os._exit(1)


def len_of(shard, more):
    return shard[0] + more


def keys_of_views(schema):
    """Keys of a block of views in the JSON schema; earlier versions of pydantic refer to a definition."""
    block = schema["properties"]["views"]["additionalProperties"]
    return (schema["$defs"][block["$ref"].split("/")[-1]] if "$ref" in block else block)["properties"]


class TestFormat:
    @pytest.fixture(autouse=True)
    def recipe(self, follow):
        follow("file format")

    @pytest.fixture
    def folder(self, tmp_path):
        folder, ids = tmp_path / "data", [f"s{i:02}" for i in range(60)]
        folder.mkdir()
        views = cohort()
        names = [f"gene{j}" for j in range(5)]
        np.savez(folder / "rna.npz", ids=ids, names=names, values=views["a"])
        pd.DataFrame(views["b"], ids, [f"roi{j}" for j in range(5)]).rename_axis("subject_id").to_csv(
            folder / "mri.csv"
        )
        return folder

    def test_a_study_is_drafted_checked_fitted_and_predicted(self, folder, tmp_path):
        pytest.importorskip("jinja2")
        pytest.importorskip("matplotlib")
        from small import without_figures

        from viewloom import runs, study
        from viewloom.study.cohort import input_hashes
        from viewloom.study.drafting.draft import draft

        found = draft(folder)
        assert "60 subjects, 5 columns of numbers, format 'npz'" in found.text
        (folder / "study.toml").write_text(found.text, encoding="utf-8")
        described = study.read_study(folder / "study.toml")
        assert described.views["rna"].format == "npz"
        assert study.check(described).problems == []
        assert set(input_hashes(described)) == {"rna.npz", "mri.csv"}
        with without_figures():
            results = runs.run_study(described, tmp_path / "run")
        assert set(results.model.view_names_) == {"rna", "mri"}
        found = runs.predict(tmp_path / "run", described)
        assert (found["label"].to_numpy() == results.model.labels_).all()

    def test_the_format_is_guessed_and_listed(self, folder):
        from viewloom.study import StudyError, read_study
        from viewloom.study.config.toml import json_schema
        from viewloom.study.readers import sniff

        assert sniff(folder / "rna.npz") == "npz"
        keys = keys_of_views(json_schema())
        assert "npz" in keys["format"]["enum"]
        (folder / "study.toml").write_text("[views.rna]\npath = 'rna.npz'\nformat = 'npy'\n")
        with pytest.raises(StudyError, match=r"must be one of .*'npz', got 'npy'; did you mean 'npz'"):
            read_study(folder / "study.toml")
        (folder / "study.toml").write_text("[views.rna]\npath = 'rna.npz'\nvisit = 'bl'\n")
        with pytest.raises(StudyError, match="visit: not an option of format 'npz'"):
            read_study(folder / "study.toml")

    def test_an_option_of_its_own_is_a_key(self, folder):
        from viewloom.study import StudyError, load, read_study
        from viewloom.study.config.toml import json_schema
        from viewloom.study.run.analysis import settings_of

        with np.load(folder / "rna.npz") as file:
            np.savez(folder / "rna.npz", ids=file["ids"], names=file["names"], counts=file["values"])
        toml, block = folder / "study.toml", "[views.rna]\npath = 'rna.npz'\n"
        toml.write_text(f"{block}array = 'counts'\n")
        described = read_study(toml)
        assert load(described).views["rna"].shape == (60, 5)
        assert settings_of(described)["views"]["rna"]["array"] == "counts"
        keys = keys_of_views(json_schema())
        assert keys["array"]["anyOf"][0]["type"] == "string"
        for wrong, message in {
            "array = 3": r"line 3: views\.rna\.array: should be a valid string",
            "aray = 'counts'": "unknown key; did you mean 'array'",
            "array = 'counts'\ncolumns = 3": r"line 4: views\.rna\.columns: should be a valid list",
            "format = 'table'\narray = 'counts'": "array: not an option of format 'table'; it belongs to",
        }.items():
            toml.write_text(block + wrong)
            with pytest.raises(StudyError, match=message):
                read_study(toml)
        toml.write_text(block)
        with pytest.raises(StudyError, match=r"rna\.npz: no array values; write it with"):
            load(read_study(toml))

    def test_an_option_of_participants_is_a_key_too(self, folder, registries):
        from viewloom.study import StudyError, read_study
        from viewloom.study.readers import FORMATS, Format
        from viewloom.study.readers.tables import read_table

        def read_sheet(path, *, id: str, sheet: str, numeric: bool = True):
            return read_table(path, id=id, numeric=numeric)

        FORMATS["sheet"] = Format(read_sheet)
        toml = folder / "study.toml"
        people = "[views.mri]\npath = 'mri.csv'\nid = 'subject_id'\nformat = 'table'\n[participants]\n"
        people += "path = 'mri.csv'\nid = 'subject_id'\nformat = 'sheet'\n"
        toml.write_text(f"{people}sheet = 'a'\n")
        assert read_study(toml) == read_study(toml)
        assert read_study(toml).participants.options == {"id": "subject_id", "sheet": "a"}
        toml.write_text(f"{people}array = 'a'\n")  # of views only
        with pytest.raises(StudyError, match=r"participants\.array: unknown key"):
            read_study(toml)

    @pytest.mark.parametrize("content", [b"", b"PK\x03\x04 no archive", b"ids"])
    def test_a_damaged_file_is_refused(self, tmp_path, content):
        from viewloom.study import StudyError
        from viewloom.study.readers import FORMATS

        (tmp_path / "x.npz").write_bytes(content)
        with pytest.raises(StudyError, match=r"^x\.npz: cannot be read as \.npz"):
            FORMATS["npz"](tmp_path / "x.npz")


class TestBaseline:
    @pytest.fixture(autouse=True)
    def recipe(self, follow):
        self.HalfNMF = follow("baseline").HalfNMF

    @pytest.mark.filterwarnings("ignore::UserWarning")
    def test_it_has_the_attributes_of_the_others(self):
        model = self.HalfNMF(3, random_state=0).fit(cohort())
        other = vl.MultiviewNMF(3, random_state=0).fit(cohort())
        missing = {name for name in vars(other) if name.endswith("_")} - {*vars(model), "components_"}
        assert not missing
        assert model.transform(cohort()).shape == (60, 3)

    @pytest.mark.filterwarnings("ignore::UserWarning")
    def test_scikit_learn_checks(self):
        reason = "standardises its data, so it has negative entries, whatever the tags say"
        check_estimator(
            self.HalfNMF(max_iter=3), expected_failed_checks={"check_clustering": reason}, on_skip=None
        )

    def test_a_row_of_the_table(self):
        table = comparison.compare(cohort(), np.arange(60) % 3, methods=["half", "k-means"], seeds=range(1))
        assert set(table.table.index) == {"half", "k-means"}
        assert "half" in comparison.method_names(cohort())
