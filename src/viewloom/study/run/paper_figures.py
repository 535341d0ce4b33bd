"""The figures of a run as files for a paper, drawn from what its folder stores."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from viewloom.runtime.files import atomic_write, writing
from viewloom.runtime.progress import stage, with_progress
from viewloom.runtime.visible import visible
from viewloom.study.errors import StudyError
from viewloom.study.run.run_folder import damaged, stored
from viewloom.study.run.tables import file_names
from viewloom.study.wording import nearest, quoted

FORMATS = ("png", "pdf", "svg")


def write_figures(
    folder: str | os.PathLike[str],
    output: str | os.PathLike[str] | None = None,
    *,
    formats: Sequence[str] = ("png",),
    dpi: int = 300,
    only: Sequence[str] = (),
) -> list[Path]:
    r"""Write the figures of a report to files, without new computing.

    Parameters
    ----------
    folder : path
        A run folder.
    output : path, optional
        Folder for the files, created if necessary; by default ``<run folder>-figures``.
    formats : sequence of {"png", "pdf", "svg"}, default=("png",)
    dpi : int, default=300
        Resolution of PNG files.
    only : sequence of str
        Figures to write, such as ``weights``, ``importance`` (of every view) or ``importance_fdg``; by
        default all.

    Returns
    -------
    list of Path

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import pandas as pd
    >>> import viewloom as vl
    >>> from viewloom import runs, study
    >>> folder = Path(tempfile.mkdtemp())
    >>> views, _ = vl.simulate.blobs_views(60, n_views=2, random_state=0)
    >>> for name, X in views.items():
    ...     pd.DataFrame(X).rename_axis("id").add_prefix("x").to_csv(folder / f"{name}.csv")
    >>> text = "".join(f'[views.{name}]\npath = "{name}.csv"\nid = "id"\n' for name in views.names)
    >>> _ = (folder / "study.toml").write_text(text + '[model]\nkernel = "linear"\n')
    >>> _ = runs.run_study(study.read_study(folder / "study.toml"), folder / "results")
    >>> files = runs.write_figures(folder / "results", formats=["pdf", "svg"], only=["weights"])
    >>> [path.name for path in files]
    ['weights.pdf', 'weights.svg']
    """
    unknown = [name for name in formats if name not in FORMATS]
    if unknown or not formats:
        raise StudyError(f"figures are written as {quoted(FORMATS)}, not {quoted(unknown) or 'nothing'}.")
    content = stored(folder)
    with damaged(folder):
        names = [str(name) for name in content["summary"].get("cluster_names", [])]
        parts = named_figures(content.get("drawings", {}))
    if not parts:
        raise StudyError(
            f"{visible(folder)}: written by an earlier version, which stored no data of figures; run "
            "`viewloom fit` again."
        )
    chosen = _chosen(parts, only)
    target = _folder(folder, output)
    files = [(name, format) for name in chosen for format in dict.fromkeys(formats)]
    with stage("Figures", len(files)) as advance:
        write = with_progress(_write, advance)
        return [write(parts[name], names, target / f"{name}.{format}", format, dpi) for name, format in files]


def named_figures(drawings: dict[str, Any]) -> dict[str, Any]:
    """Figures by the names of their files: the kind, and the view of those that are about one.

    >>> list(named_figures({"a-1": {"kind": "a", "view": "x/y"}, "b": {"kind": "b", "view": None}}))
    ['a_x_y', 'b']
    """
    views = list(dict.fromkeys(part["view"] for part in drawings.values() if part["view"] is not None))
    written = dict(zip(views, file_names(views), strict=True))
    return {
        part["kind"] if part["view"] is None else f"{part['kind']}_{written[part['view']]}": part
        for part in drawings.values()
    }


def _chosen(parts: dict[str, Any], only: Sequence[str]) -> list[str]:
    """Names of the wanted figures, in the order of the report."""
    known = list(dict.fromkeys([*parts, *(part["kind"] for part in parts.values())]))
    for name in only:
        if name not in known:
            hint = nearest(name, known) or f"; this run has {quoted(list(parts))}"
            raise StudyError(f"there is no figure {visible(name[:60])!r}{hint}.")
    return [name for name, part in parts.items() if not only or {name, part["kind"]} & set(only)]


def _folder(folder: str | os.PathLike[str], output: str | os.PathLike[str] | None) -> Path:
    run = Path(os.path.abspath(folder))
    target = run.with_name(f"{run.name}-figures") if output is None else Path(output)
    if target.exists() and not target.is_dir():
        raise StudyError(f"{visible(target)}: is a file; set another --output.")
    with writing(target):
        target.mkdir(parents=True, exist_ok=True)
    return target


def _write(part: Any, names: list[str], path: Path, format: str, dpi: int) -> Path:
    from viewloom.study import report

    with atomic_write(path) as hidden, damaged(path.parent):
        report.write_figure(part, names, hidden, format, dpi)
    return path
