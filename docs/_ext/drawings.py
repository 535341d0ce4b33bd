"""Drawings that are made while the site is built, so that they cannot go stale.

Both are SVG that stands in the page itself: its colours are the theme's, light or dark.

``architecture.svg``   the subpackages in the order of import-linter's layers, with every import
``landing.svg``        a fit: three views, their learned weights, and the memberships they agree on
"""

from __future__ import annotations

import ast
import tomllib
from html import escape
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[1]
ROOT = HERE.parent
PACKAGE = ROOT / "src" / "viewloom"
# the group of layers that begins with a package; everything else is read from pyproject.toml and the code
GROUPS = {
    "cli": "command line",
    "study": "studies",
    "plotting": "questions",
    "models": "models",
    "solver": "mathematics",
    "data": "data",
}
LINE, BAND_GAP, LEFT, NAME_X, TEXT_X, ARC_X, WIDTH = 24, 8, 126, 136, 262, 746, 900  # of the architecture
SIDE = 190  # of a view on the landing page


def setup(app: Any) -> dict[str, Any]:
    """Draw before pages are read."""
    app.connect("config-inited", lambda app, config: draw())
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def draw() -> None:
    """Write all drawings."""
    (HERE / "_generated").mkdir(exist_ok=True)
    for name, text in {"architecture": architecture(), "landing": landing()}.items():
        (HERE / "_generated" / f"{name}.svg").write_text(text, encoding="utf-8")


def layers() -> list[list[str]]:
    """Rooms in the order of the layers' contract, top first; those in no layer stand alone at the end."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contract = settings["tool"]["importlinter"]["contracts"][0]
    named = [
        [part.strip().removeprefix("viewloom.") for part in row.split("|")] for row in contract["layers"]
    ]
    rows = [[package for package in row if package in packages()] for row in named]
    return [*filter(None, rows), sorted(packages() - {package for row in rows for package in row})]


def packages() -> set[str]:
    """Modules and subpackages of the package."""
    found = {path.stem for path in PACKAGE.glob("*.py")} | {
        path.parent.name for path in PACKAGE.glob("*/__init__.py")
    }
    return found - {"__init__"}


def purpose(package: str) -> str:
    """First sentence of a package's docstring."""
    path = PACKAGE / f"{package}.py"
    path = path if path.exists() else PACKAGE / package / "__init__.py"
    doc = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return doc.split("\n")[0].rstrip(".").replace("`", "")


def imports() -> dict[str, list[str]]:
    """What each package of the layers imports of the others; modules that only pass names on are left out."""
    import grimp

    graph = grimp.build_graph("viewloom")
    below = {package for row in layers()[:-1] for package in row}
    for package in packages():
        graph.squash_module(f"viewloom.{package}")
    return {
        package: [
            other.removeprefix("viewloom.")
            for other in graph.find_modules_directly_imported_by(f"viewloom.{package}")
            if package in below and other.removeprefix("viewloom.") in below - {package}
        ]
        for package in packages()
    }


def architecture() -> str:
    """Bands of packages from top to foot, arcs from each package to what it imports."""
    rows, used = layers(), imports()
    tops = _tops(rows)
    y = {
        package: top + LINE * (i + 0.5)
        for row, top in zip(rows, tops, strict=True)
        for i, package in enumerate(row)
    }
    bands = [_band(top, len(row)) for row, top in zip(rows, tops, strict=True)]
    found = [_package(package, y, used[package]) for row in rows for package in row]
    foot = tops[-1] + LINE * len(rows[-1]) + BAND_GAP
    head = f'<text class="small" x="{WIDTH - 4}" y="14" text-anchor="end">imports, all downwards</text>'
    label = "The packages of viewloom, from the command line to the data; every import points down"
    return _svg(WIDTH, foot, "architecture", label, [head, *_groups(rows, tops, foot), *bands, *found])


def _tops(rows: list[list[str]]) -> list[float]:
    """Where each band begins; the last stands a little apart."""
    heights = [LINE * len(row) + BAND_GAP for row in rows]
    return [30 + sum(heights[:i]) + 18 * (i == len(rows) - 1) for i in range(len(rows))]


def _band(top: float, count: int) -> str:
    return _rect("band", LEFT, top, ARC_X - LEFT - 12, LINE * count)


def _groups(rows: list[list[str]], tops: list[float], foot: float) -> list[str]:
    """A bracket and a name for the bands of each group."""
    begun = [(GROUPS[row[0]], top) for row, top in zip(rows, tops, strict=True) if row[0] in GROUPS]
    begun.append(("on their own", tops[-1]))
    ends = [*(top for _, top in begun[1:-1]), tops[-1] - 18, foot]
    return [_group(name, top, end) for (name, top), end in zip(begun, ends, strict=True)]


def _group(name: str, top: float, end: float) -> str:
    return (
        f'<path class="bracket" d="M{LEFT - 8} {top + 2} h-6 V{end - BAND_GAP - 2} h6"/>'
        f'<text class="group" x="{LEFT - 22}" y="{top + LINE / 2}" text-anchor="end">{escape(name)}</text>'
    )


def _package(package: str, y: dict[str, float], used: list[str]) -> str:
    arcs = "".join(_arc(y[package], y[other]) for other in used)
    listed = ", ".join(sorted(used, key=y.__getitem__)) or "no other package"
    return (
        f'<g class="package"><title>{escape(package)} imports {escape(listed)}</title>{arcs}'
        + _rect("hit", LEFT, y[package] - LINE / 2, ARC_X - LEFT - 12, LINE)
        + f'<text class="name" x="{NAME_X}" y="{y[package]}">{escape(package)}</text>'
        f'<text class="small" x="{TEXT_X}" y="{y[package]}">{escape(_shortened(purpose(package)))}</text></g>'
    )


def _shortened(text: str, most: int = 70) -> str:
    return text if len(text) <= most else text[:most].rsplit(" ", 1)[0].rstrip(",;:") + " …"


def _arc(start: float, end: float) -> str:
    reach = ARC_X + 12 + 0.16 * abs(end - start)
    curve = f"M{ARC_X - 12} {start} C{reach:.0f} {start} {reach:.0f} {end} {ARC_X - 12} {end}"
    return f'<path class="arc" d="{curve}"/>'


def landing() -> str:
    """Three views in the colours of the clusters that were found, and the memberships of all subjects."""
    import viewloom as vl

    views, _ = vl.simulate.three_kinds(random_state=0)
    model = vl.KernelMultiviewNMF(3, random_state=0).fit(views)
    weights = dict(zip(views.names, model.view_weights_, strict=True))
    panels = [
        _panel(20 + 225 * a, name, views[name], model.labels_, w)
        for a, (name, w) in enumerate(weights.items())
    ]
    label = "Three views of the same subjects, woven into one clustering; weights: "
    label += ", ".join(f"{name} {weight:.2f}" for name, weight in weights.items())
    below = '<text class="small" x="340" y="394" text-anchor="middle">memberships of every subject</text>'
    return _svg(680, 406, "landing", label, [*panels, *_strip(model.memberships_), below])


def _panel(left: float, name: str, X: Any, labels: Any, weight: float) -> str:
    """A view in its two main directions, and a thread as thick as its weight."""
    from sklearn.decomposition import PCA

    X, middle = PCA(2).fit_transform(X), left + SIDE / 2
    X = 12 + (SIDE - 24) * (X - X.min(axis=0)) / (X.max(axis=0) - X.min(axis=0))
    thread = f"M{middle} 246 C{middle} 286 340 274 340 316"
    return (
        _rect("band", left, 24, SIDE, SIDE)
        + "".join(
            f'<circle class="c{j}" cx="{left + x:.0f}" cy="{24 + z:.0f}" r="2"/>'
            for (x, z), j in zip(X, labels, strict=True)
        )
        + f'<text class="name" x="{middle}" y="12" text-anchor="middle">{escape(name)}</text>'
        f'<text class="small" x="{middle}" y="231" text-anchor="middle">weight {weight:.2f}</text>'
        f'<path class="thread" style="stroke-width:{44 * weight:.1f}" d="{thread}"/>'
    )


def _strip(memberships: Any) -> list[str]:
    """One column per subject, as high in each colour as its membership."""
    import numpy as np

    order = np.lexsort((-memberships.max(axis=1), memberships.argmax(axis=1)))
    width, ends = 640 / len(order), 60 * np.cumsum(memberships[order], axis=1)
    return [
        _rect(f"c{j}", 20 + i * width, 318 + end - 60 * share, width + 0.3, 60 * share, corner=0)
        for i, (row, U) in enumerate(zip(ends, memberships[order], strict=True))
        for j, (end, share) in enumerate(zip(row, U, strict=True))
        if share > 0.004
    ]


def _rect(kind: str, x: float, y: float, width: float, height: float, corner: float = 4) -> str:
    size = f'x="{x:.4g}" y="{y:.4g}" width="{width:.4g}" height="{height:.4g}"'
    return f'<rect class="{kind}" {size} rx="{corner:g}"/>'


def _svg(width: float, height: float, name: str, label: str, parts: list[str]) -> str:
    return (
        f'<svg class="drawing {name}" role="img" aria-label="{escape(label)}" '
        f'viewBox="0 0 {width:g} {height:g}" xmlns="http://www.w3.org/2000/svg">\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )
