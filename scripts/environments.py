"""Install viewloom as its users do, and see whether it works there.

    python scripts/environments.py [archives] [core] [extras] [oldest]      (all of them by default)

archives
    Wheel and source archive, built twice, are the same bytes; the wheel of the source archive, too.
core
    Only what the wheel asks for: the Python of the README, and the command line.
extras
    Every extra alone, each with something that needs it; those for developers are resolved only.
oldest
    The oldest versions that pyproject.toml allows, and the whole test suite (the newest versions
    are what ``make test`` installs).

Everything is made in a temporary folder, by uv.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TESTED_WITH = ["hypothesis>=6.100", "pytest>=8.3", "pytest-xdist>=3.6", "selenium>=4.25"]
NEED_NEWER = ["tests/test_docs.py", "tests/test_benchmarks.py"]  # about the sources, not the library

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
    "data": "import viewloom as vl; print(vl.datasets.load_ad_csf().views)",
}  # fmt: skip


def run(*command: object, cwd: Path, **environment: str) -> None:
    """Run a command, and say what it printed where it fails."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**os.environ, "OMP_NUM_THREADS": "1", "NO_COLOR": "1", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{done.stdout[-8000:]}\n{' '.join(map(str, command))[:400]} failed.")


def uv(*arguments: object, cwd: Path) -> None:
    """Run uv, which stands beside the Python that runs this."""
    run(sys.executable, "-m", "uv", *arguments, cwd=cwd)


def environment(folder: Path, *packages: object, resolution: str = "highest") -> Path:
    """A new environment with some packages; its folder of programs."""
    uv("venv", "--quiet", "--python", sys.executable, folder / "venv", cwd=folder)
    python = folder / "venv" / "bin" / "python"
    uv("pip", "install", "--quiet", "--python", python, "--resolution", resolution, *packages, cwd=folder)
    return python.parent


def build(folder: Path, source: Path = ROOT) -> Path:
    """Source archive and wheel; the path of the wheel."""
    uv("build", "--quiet", "--out-dir", folder, source, cwd=folder)
    return next(folder.glob("*.whl"))


def digests(folder: Path) -> dict[str, str]:
    """SHA-256 of each archive."""
    archives = [*folder.glob("*.whl"), *folder.glob("*.tar.gz")]
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in archives}


def archives(folder: Path) -> Iterator[str]:
    """Two builds, byte by byte; ``uv build`` makes the wheel of the source archive, here also of the sources."""
    found = []
    for name in ("first", "second"):
        place = folder / name
        place.mkdir()
        build(place)
        found.append(digests(place))
    direct = folder / "direct"
    direct.mkdir()
    uv("build", "--quiet", "--wheel", "--out-dir", direct, ROOT, cwd=folder)
    same = found[0] == found[1] and digests(direct).items() <= found[0].items()
    if not same:
        raise SystemExit(f"Builds differ: {found}, {digests(direct)}")
    yield from (f"{name}  {digest[:16]}" for name, digest in found[0].items())


def core(folder: Path) -> Iterator[str]:
    """The README's Python without any extra, and the command line."""
    programs = environment(folder, build(folder))
    block = re.search(r"## Ten lines of Python\n\n```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    assert block is not None
    run(programs / "python", "-W", "error", "-c", block[1], cwd=folder)
    run(programs / "viewloom", "--version", cwd=folder)
    run(programs / "viewloom", "fit", "--help", cwd=folder)
    yield "README and command line"


def extras(folder: Path) -> Iterator[str]:
    """Each extra on its own."""
    wheel = build(folder)
    for extra, code in CHECKS.items():
        place = folder / extra
        place.mkdir()
        programs = environment(place, f"viewloom[{extra}] @ {wheel.as_uri()}")
        (place / "check.py").write_text(code)
        run(programs / "python", "check.py", cwd=place)
        yield extra
    for extra in ("bench", "docs", "dev"):
        uv("pip", "compile", "--quiet", "--extra", extra, "--output-file", folder / extra, ROOT / "pyproject.toml", cwd=folder)
        yield f"{extra} (resolved)"


def oldest(folder: Path) -> Iterator[str]:
    """The test suite on the oldest versions allowed."""
    packages = [f"viewloom[study,dask,data] @ {build(folder).as_uri()}", *TESTED_WITH]
    programs = environment(folder, *packages, resolution="lowest-direct")
    ignored = [f"--ignore={name}" for name in NEED_NEWER]
    tests = [programs / "pytest", "-n", "2", "--dist", "loadfile", "-p", "no:cacheprovider", *ignored, "tests"]
    run(*tests, cwd=ROOT, VIEWLOOM_INSTALLED="1")
    yield "test suite"


CHECKED: dict[str, Callable[[Path], Iterator[str]]] = {
    "archives": archives,
    "core": core,
    "extras": extras,
    "oldest": oldest,
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
