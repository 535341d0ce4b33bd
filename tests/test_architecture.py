"""What is private stays in its module, few things meet in the estimator, and the walks in the docs exist."""

import ast
import inspect
import re
from importlib import import_module
from pathlib import Path

import pytest

import viewloom
from viewloom.kernels.graphs import GRAPHS
from viewloom.kernels.registry import KERNELS
from viewloom.solver.teams import TEAMS

SOURCE = Path(viewloom.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))
DOCS = Path(__file__).parents[1] / "docs" / "architecture.md"
OWNERS = {"self", "cls", "super()"}
MOST_IMPORTS = 8
HELPERS = {"viewloom.runtime.errors", "viewloom.runtime.progress"}  # that any module may use
# numpy keeps where a memory map begins in a private attribute, and has no other way to ask for it
FOREIGN = {("data/row_sources.py", "mapped._mmap"), ("runtime/workers.py", "os._exit")}


def private(name):
    return name.startswith("_") and not name.endswith("__")


def defined(tree):
    """Private names that the classes of a module give to their own methods and attributes."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            names |= {inner.name for inner in node.body if isinstance(inner, ast.FunctionDef)}
            names |= {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            names.add(node.attr)
    return names


def crossings(text):
    """Private attributes of others that a module reads, and private names that it imports."""
    tree = ast.parse(text)
    own = defined(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and private(node.attr) and node.attr not in own:
            if ast.unparse(node.value) not in OWNERS:
                yield ast.unparse(node)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("viewloom"):
            yield from (alias.name for alias in node.names if private(alias.name))


def test_no_private_attribute_crosses_modules():
    found = {
        (path.relative_to(SOURCE).as_posix(), what)
        for path in MODULES
        for what in crossings(path.read_text(encoding="utf-8"))
    }
    assert found - FOREIGN == set()


@pytest.mark.parametrize(
    "text",
    [
        "def f(model):\n    return model._problem",
        "from viewloom.kernels import _dense",
        "model.fit(X)._set_results()",
        "def _position(a):\n    return a\n\ndef f(model):\n    return model._position(0)",
    ],
)
def test_a_crossing_is_found(text):
    assert list(crossings(text))


def test_few_rooms_meet_in_the_estimator():
    tree = ast.parse((SOURCE / "models/kernel_nmf.py").read_text(encoding="utf-8"))
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    rooms = {name for name in imported if name.startswith("viewloom")} - HELPERS
    assert len(rooms) <= MOST_IMPORTS


def walked():
    """Names in code type that the numbered steps of the architecture page name, as module and attribute."""
    steps = re.findall(r"^\d+\. (.*(?:\n {3}.*)*)", DOCS.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return [name for step in steps for name in re.findall(r"`([a-z_]+(?:\.\w+)+)`", step)]


@pytest.mark.skipif(not DOCS.exists(), reason="docs are not part of the archive")
def test_the_walks_in_the_docs_name_what_exists():
    names = walked()
    assert len(names) > 15
    for name in names:
        assert resolved(name) is not None, name


def resolved(name):
    """The object of a dotted name below viewloom, or None."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found = import_module(".".join(["viewloom", *parts[:length]]))
        except ImportError:
            continue
        for part in parts[length:]:
            found = getattr(found, part, None)
        return found
    return None


BUILT_IN = {"ValueError", "TypeError", "ImportError", "RuntimeError", "FileNotFoundError"}


def bare_errors(text):
    """Errors of Python itself that a module raises with a message of its own."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Raise) and isinstance(call := node.exc, ast.Call) and call.args:
            yield from {ast.unparse(call.func)} & BUILT_IN


def test_messages_to_users_are_of_the_errors_of_viewloom():
    """The command line shows no other messages, as those of other libraries may quote data."""
    texts = {path.relative_to(SOURCE).as_posix(): path.read_text(encoding="utf-8") for path in MODULES}
    found = {name: list(bare_errors(text)) for name, text in texts.items()}
    assert {path: names for path, names in found.items() if names} == {}
    assert list(bare_errors("raise ValueError('a view is empty')")) == ["ValueError"]


FACADES = sorted({path.stem for path in SOURCE.glob("*.py")} - {"__init__", "__main__", "metrics"})


@pytest.mark.parametrize("name", FACADES)
def test_a_facade_passes_on_what_its_package_exports(name):
    """It has no list of its own, so a name that is added to the package is public at once."""
    tree = ast.parse((SOURCE / f"{name}.py").read_text(encoding="utf-8"))
    imports = tree.body[1:]
    assert ast.get_docstring(tree)
    assert [alias.name for node in imports for alias in node.names] == ["*", "__all__"]
    facade, home = import_module(f"viewloom.{name}"), import_module(imports[0].module)
    assert facade.__all__ is home.__all__
    for exported in home.__all__:
        assert getattr(facade, exported) is getattr(home, exported)


def defined_in(package, suits):
    """Classes and functions that the modules of a package define, of those that suit."""
    names = sorted((SOURCE / package).glob("*.py"))
    modules = [import_module(f"viewloom.{package.replace('/', '.')}.{path.stem}") for path in names]
    found = [(module, thing) for module in modules for thing in vars(module).values()]
    return {thing for module, thing in found if inspect.getmodule(thing) is module and suits(thing)}


def named_by(function):
    """What the registered makers of a team name: the class of a classmethod, or what a function fetches."""
    code = inspect.unwrap(function).__code__
    return {getattr(function, "__self__", None).__name__} if inspect.ismethod(function) else {*code.co_names}


class TestRegistries:
    """What is not in a registry cannot be chosen by name; what is listed elsewhere has to be listed twice."""

    def test_every_reader_has_a_format(self):
        readers = import_module("viewloom.study.readers")

        def is_reader(thing):
            return inspect.isfunction(thing) and re.fullmatch("read_[a-z].*", thing.__name__)

        found = defined_in("study/readers", is_reader)
        assert found == {format.read for format in readers.FORMATS.values()}
        assert len(found) == len(readers.FORMATS)

    @pytest.mark.parametrize(("kind", "registry"), [("kernel", KERNELS), ("graph", GRAPHS)])
    def test_every_kernel_and_graph_has_a_name(self, kind, registry):
        def is_choice(thing):
            return inspect.isclass(thing) and re.fullmatch(rf"{kind}\.\w+", getattr(thing, "TAG", None) or "")

        found = {thing for thing in defined_in("kernels", is_choice) if hasattr(thing, "fit")}
        wrappers = {thing for thing in found if "kernel" in inspect.signature(thing).parameters}
        assert {thing.__name__ for thing in wrappers} <= {"Nystroem"}  # an object that holds another kernel
        assert found - wrappers == set(registry.values())
        assert {thing.TAG for thing in registry.values()} == {f"{kind}.{name}" for name in registry}

    def test_every_team_has_a_name(self):
        def is_team(thing):
            return inspect.isclass(thing) and {"each", "deal", "total"} <= set(dir(thing))

        found = {thing.__name__ for thing in defined_in("solver", is_team)} - {"Team"}  # the protocol
        assert found == {name for make in TEAMS.values() for name in named_by(make) if name in found}
        assert len(found) == len(TEAMS)

    def test_none_is_listed_by_hand(self):
        """`viewloom init` has rules for single formats, and asks the readers of all others."""
        registries = [set(KERNELS), set(TEAMS), set(import_module("viewloom.study.readers").FORMATS)]
        homes = {"kernels/registry.py", "solver/teams.py", "study/readers/__init__.py"}
        found = {
            path.relative_to(SOURCE).as_posix()
            for path in MODULES
            for names in literal_lists(path.read_text(encoding="utf-8"))
            if any(len(names) > 2 and names <= registry for registry in registries)
        }
        assert found == homes | {"study/drafting/candidates.py"}

    def test_a_list_is_found(self):
        text = "Kernel = Literal['linear', 'gaussian', 'cosine']\nOTHERS = {'serial': 1, 'dask': 2}"
        assert {"linear", "gaussian", "cosine"} in literal_lists(text)
        assert {"serial", "dask"} in literal_lists(text)


def literal_lists(text):
    """Texts that stand together in a list, a tuple, a set, or as the keys of a dict."""
    for node in ast.walk(ast.parse(text)):
        items = node.keys if isinstance(node, ast.Dict) else getattr(node, "elts", [])
        texts = {
            item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str)
        }
        if texts and len(texts) == len(items):
            yield texts


def test_lazy_names_of_the_package_are_those_it_exports():
    """`__all__`, the imports for type checkers, and where names are fetched from."""
    tree = ast.parse((SOURCE / "__init__.py").read_text(encoding="utf-8"))
    imported = {
        (node.module, alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("viewloom")
        for alias in node.names
    }
    homes = {(f"viewloom.{home}", name) for home, names in viewloom._HOMES.items() for name in names}
    modules = {("viewloom", name) for name in viewloom.__all__ if inspect.ismodule(getattr(viewloom, name))}
    assert imported == homes | modules
    assert {name for _, name in imported} == set(viewloom.__all__)
