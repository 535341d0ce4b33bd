"""Install viewloom as its users do, and see whether it works there.

    python scripts/environments.py [archives] [core] [extras] [oldest] [pythons]      (all of them by default)

archives
    Wheel and source archive, built twice, are the same bytes; the wheel of the source archive, too.
core
    Only what the wheel asks for: the Python of the README, and the command line.
extras
    Every extra alone, each with something that needs it.
oldest
    The oldest versions that pyproject.toml allows, and the tests of the library (the newest versions are
    what ``make test`` installs). A browser shows the same pages there and is not started again.
pythons
    Every other Python of at least 3.11 that is found here, with the newest versions: types, the demo and
    a quick part of the tests.

Everything is made in a temporary folder.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TESTED_WITH = ["hypothesis>=6.100", "pytest>=8.3", "pytest-xdist>=3.8"]
SIDE_BY_SIDE = ["-n", "2", "--dist", "loadfile", "--no-loadscope-reorder", "-p", "no:cacheprovider"]
QUICK = [
    *("tests/cli/test_commands.py", "tests/data/test_views.py"),
    *("tests/models/test_kernel_nmf.py", "tests/models/test_persistence.py"),
    *("tests/study/test_check.py", "tests/study/test_runs.py", "tests/study/readers/test_readers_tables.py"),
    "tests/reliability/test_environments.py",
]
MINORS = range(11, 16)  # of Python 3
# about the sources, not the library
NEWEST_ONLY = ["tests/test_architecture.py", "tests/test_docs.py", "tests/test_benchmarks.py"]
OLD = ("plot", "study", "dask", "data", "stats", "paper", "app")
# anndata does not allow what make test installs
TESTS = {"omics": "tests/study/readers/test_readers_anndata.py"}

FIT = "import viewloom as vl; v, y = vl.simulate.blobs_views(60, 2, 3, random_state=0); "
CHECKS = {
    "plot": FIT + "vl.plotting.objective(vl.KernelMultiviewNMF(3).fit(v)).figure.savefig('figure.png')",
    "study": """
from typer.testing import CliRunner
from viewloom.cli import app
for command in ("simulate study", "check study/study.toml", "fit study/study.toml --output run"):
    result = CliRunner().invoke(app, command.split())
    assert result.exit_code == 0, result.output
""",
    "paper": """
from typer.testing import CliRunner
from viewloom.cli import app
for command in ("simulate study", "fit study/study.toml --output run", "paper run --format svg"):
    result = CliRunner().invoke(app, command.split())
    assert result.exit_code == 0, result.output
""",
    "dask": """
if __name__ == "__main__":
    import dask.array as da, viewloom as vl
    from distributed import Client
    v, y = vl.simulate.blobs_views(300, 2, 3, random_state=0)
    with Client(n_workers=2, threads_per_worker=1, dashboard_address=None, host="127.0.0.1"):
        lazy = {name: da.from_array(v[name], chunks=(100, -1)) for name in v.names}
        vl.KernelMultiviewNMF(3, factored=50, backend="dask", random_state=0).fit(lazy)
""",
    "scale": FIT
    + """
import faiss, numpy as np, zarr
zarr.save("a.zarr", np.asarray(v.blocks[0]))
vl.KernelMultiviewNMF(3, factored=20).fit({"a": "a.zarr", "b": v.blocks[1]})
""",
    "genetics": """
import numpy as np, pgenlib
from viewloom.study.readers import FORMATS
with pgenlib.PgenWriter(b"g.pgen", 3, variant_ct=1, nonref_flags=False) as file:
    file.append_biallelic(np.array([0, 1, 2], dtype=np.int8))
open("g.psam", "w").write("#IID\\na\\nb\\nc\\n")
open("g.pvar", "w").write("#CHROM\\tPOS\\tID\\tREF\\tALT\\n1\\t9\\trs1\\tA\\tG\\n")
assert FORMATS["pgen"]("g.pgen")["rs1_G"].tolist() == [0, 1, 2]
""",
    "omics": FIT
    + """
import numpy as np, scipy.sparse as sp
from anndata import AnnData
from mudata import MuData
rna, atac = (AnnData(sp.csr_matrix(np.abs(X))) for X in v.blocks)
both = MuData({"rna": rna, "atac": atac[::-1][:50].copy()})
found = vl.Views.from_mudata(both)
assert found.present.sum(axis=0).tolist() == [60, 50] and sp.issparse(found["atac"])
for i in (10, 59):
    assert (found["atac"][[i]].toarray() == atac[found.ids[i]].X.toarray()).all()
vl.KernelMultiviewNMF(3).fit(found)
""",
    "files": """
import pandas as pd, pyreadstat, rdata, python_calamine
from viewloom.study.readers.tables import read_table
frame = pd.DataFrame({"id": ["a", "b"], "x": [1.5, 2.5], "y": [3.0, 4.0]})
pyreadstat.write_sav(frame, "t.sav")
rdata.write_rds("t.rds", frame.astype({"id": pd.StringDtype("python")}))
for name in ("t.sav", "t.rds"):
    assert read_table(name, id="id")["x"].tolist() == [1.5, 2.5]
""",
    "images": """
import nibabel, numpy as np
from viewloom.study.readers import FORMATS
for name, values in (("sub-1", np.full((2, 2, 2), 1.5)), ("atlas", np.ones((2, 2, 2), dtype=np.uint8))):
    nibabel.save(nibabel.Nifti1Image(values, np.eye(4)), f"{name}.nii.gz")
frame = FORMATS["nifti"](["sub-1.nii.gz"], atlas_image="atlas.nii.gz", cache=False)
assert frame.loc["sub-1", "region_1"] == 1.5
""",
    "stats": """
import numpy as np
from viewloom.clinical import slopes
ids, time = np.repeat(np.arange(60), 3), np.tile([0.0, 1.0, 2.0], 60)
noise = np.random.default_rng(0).normal(0, 0.5, 180)
assert slopes(ids % 2, ids, time, 28 - (ids % 2) * time + noise).p < 0.001
""",
    "app": """
import re, subprocess, sys, urllib.request
command = [sys.executable, "-m", "viewloom", "app", ".", "--no-browser", "--quiet"]
server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
link = server.stdout.readline().strip()
browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
browser.open(link)
assert b"Start a study" in browser.open(re.match("(.*)/open", link)[1] + "/").read()
server.terminate()
assert server.wait(60) == 0
""",
    "data": "import viewloom as vl; print(vl.datasets.load_ad_csf().views)",
}  # fmt: skip


def run(*command: object, cwd: Path, **environment: str) -> None:
    """Run a command, and say what it printed where it fails."""
    variables = {**os.environ, "OMP_NUM_THREADS": "1", "NO_COLOR": "1", **environment}
    variables.pop("PYTHONDONTWRITEBYTECODE", None)  # or every process would compile the package anew
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{done.stdout[-8000:]}\n{' '.join(map(str, command))[:400]} failed.")


def environment(
    folder: Path, *packages: object, python: str = sys.executable, base: Path | None = None
) -> Path:
    """A new environment with some packages, and those of another environment; its folder of programs."""
    folder.mkdir(exist_ok=True)
    run(python, "-m", "venv", *(["--without-pip"] if base else []), folder / "venv", cwd=folder)
    programs = folder / "venv" / "bin"
    if base is not None:  # its packages, among them pip, without a copy of their content
        shutil.copytree(installed(base), installed(programs), copy_function=os.link, dirs_exist_ok=True)
    run(programs / "python", "-m", "pip", "install", "--quiet", *packages, cwd=folder)
    return programs


def installed(programs: Path) -> Path:
    """The folder of packages of an environment."""
    return next((programs.parent / "lib").glob("python3*/site-packages"))


def build(folder: Path, *kinds: str) -> None:
    """Source archive and wheel, or one of them."""
    targets = [part for kind in kinds for part in ("--target", kind)]
    run(sys.executable, "-m", "hatchling", "build", "--directory", folder, *targets, cwd=ROOT)


def wheel(folder: Path) -> str:
    """A wheel of the sources, as an address that may be followed by extras."""
    build(folder, "wheel")
    return next(folder.glob("*.whl")).as_uri()


def digests(folder: Path) -> dict[str, str]:
    """SHA-256 of each archive."""
    archives = [*folder.glob("*.whl"), *folder.glob("*.tar.gz")]
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in archives}


def archives(folder: Path) -> Iterator[str]:
    """Two builds, byte by byte, and the wheel of the unpacked source archive."""
    first, second, unpacked = folder / "first", folder / "second", folder / "unpacked"
    build(first, "sdist", "wheel")
    build(second, "sdist", "wheel")
    with tarfile.open(next(first.glob("*.tar.gz"))) as archive:
        archive.extractall(unpacked, filter="data")
    source = next(unpacked.iterdir())
    run(sys.executable, "-m", "hatchling", "build", "--directory", folder, "--target", "wheel", cwd=source)
    if digests(first) != digests(second) or not digests(folder).items() <= digests(first).items():
        raise SystemExit(f"Builds differ: {digests(first)}, {digests(second)}, {digests(folder)}")
    yield from (f"{name}  {digest[:16]}" for name, digest in digests(first).items())


def core(folder: Path) -> Iterator[str]:
    """The README's Python without any extra, and the command line."""
    programs = environment(folder, f"viewloom @ {wheel(folder)}")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    block = re.search(r"## Ten lines of Python\n\n```python\n(.*?)```", readme, re.S)
    assert block is not None
    run(programs / "python", "-W", "error", "-c", block[1], cwd=folder)
    run(programs / "viewloom", "--version", cwd=folder)
    run(programs / "viewloom", "fit", "--help", cwd=folder)
    yield "README and command line"


def extras(folder: Path) -> Iterator[str]:
    """Each extra on its own."""
    address = wheel(folder)
    base = environment(folder / "core", f"viewloom @ {address}")
    for extra, code in CHECKS.items():
        place = folder / extra
        programs = environment(place, f"viewloom[{extra}] @ {address}", base=base)
        (place / "check.py").write_text(code, encoding="utf-8")
        run(programs / "python", "check.py", cwd=place)
        if extra in TESTS:
            run(programs / "python", "-m", "pip", "install", "--quiet", "matplotlib", *TESTED_WITH, cwd=place)
            run(programs / "pytest", "-p", "no:cacheprovider", TESTS[extra], cwd=ROOT)
        yield extra


def oldest(folder: Path) -> Iterator[str]:
    """The test suite on the oldest versions allowed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    optional = project["optional-dependencies"]
    needed = [*project["dependencies"], *(line for name in OLD for line in optional[name])]
    pins = [line.replace(">=", "==") for line in needed if not line.startswith("viewloom")]
    programs = environment(folder, f"viewloom[{','.join(OLD)}] @ {wheel(folder)}", *pins, *TESTED_WITH)
    ignored = [f"--ignore={name}" for name in NEWEST_ONLY]
    run(programs / "pytest", *SIDE_BY_SIDE, *ignored, "tests", cwd=ROOT, VIEWLOOM_NO_BROWSER="1")
    yield ", ".join(pins)


def interpreters() -> dict[str, str]:
    """Other Pythons by version, on the path or among those of pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = {}
    for version in (f"3.{minor}" for minor in MINORS if minor != sys.version_info.minor):
        named = [*sorted(map(str, pyenv.glob(f"{version}.*/bin/python"))), shutil.which(f"python{version}")]
        works = [path for path in named if path is not None and _is_python(path, version)]
        found.update({version: works[0]} if works else {})
    return found


def _is_python(path: str, version: str) -> bool:
    """Whether a program is this Python and can make environments."""
    code = "import sys, ensurepip, venv; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([path, "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip() == version


def pythons(folder: Path) -> Iterator[str]:
    """Types, demo and some tests on every other Python; those without a classifier may lack packages."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    address = wheel(folder)
    for version, python in interpreters().items():
        place = folder / version
        try:
            programs = environment(place, f"viewloom[dev] @ {address}", python=python)
        except SystemExit:
            if f"Programming Language :: Python :: {version}" in project["classifiers"]:
                raise
            yield f"{version}: packages cannot be had"
            continue
        run(programs / "mypy", "--cache-dir", place / "types", cwd=ROOT)
        run(programs / "viewloom", "demo", "--output", place / "demo", "--quiet", cwd=place)
        run(programs / "pytest", *SIDE_BY_SIDE, *QUICK, cwd=ROOT)
        yield f"{version}: types, demo and tests"


CHECKED: dict[str, Callable[[Path], Iterator[str]]] = {
    "archives": archives,
    "core": core,
    "extras": extras,
    "oldest": oldest,
    "pythons": pythons,
}


def main(names: list[str]) -> None:
    """Check what is asked for, or everything."""
    for name in names or CHECKED:
        with tempfile.TemporaryDirectory() as folder:
            began = time.perf_counter()
            for line in CHECKED[name](Path(folder)):
                print(f"{name:9} {time.perf_counter() - began:5.0f} s  {line}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
