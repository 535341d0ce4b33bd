"""Write the publication kit of a run: a folder that is complete, or not there."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from viewloom.runtime.errors import MissingPackageError
from viewloom.runtime.files import sync, writing
from viewloom.study.publication.blocks import Block, Bullets, Heading, cited, to_markdown, write_docx
from viewloom.study.publication.checklist import checklist_blocks
from viewloom.study.publication.methods_text import methods_blocks
from viewloom.study.publication.model_card import model_card
from viewloom.study.publication.record import Record, read_record
from viewloom.study.publication.references import REFERENCES, Reference, bibtex, software
from viewloom.study.publication.table_one import (
    TableOne,
    write_table_csv,
    write_table_docx,
    write_table_xlsx,
)
from viewloom.study.report.figures import NO_DATE
from viewloom.study.run.paper_figures import write_figures
from viewloom.study.run.staging import check_replaceable, publish, workplace
from viewloom.study.run.tables import write_json
from viewloom.study.wording import folded

if TYPE_CHECKING:
    from collections.abc import Mapping

FORMAT = 1  # of paper.json
INDEX = "paper.json"  # identifies a kit
NEEDED = ("docx", "openpyxl")
NAMES = {"methods": methods_blocks, "checklist": checklist_blocks, "model_card": model_card}


def write_paper(
    folder: str | os.PathLike[str],
    output: str | os.PathLike[str] | None = None,
    *,
    formats: Sequence[str] = ("png",),
    dpi: int = 300,
) -> list[Path]:
    """Write text, tables and figures for a paper, from what a run folder stores.

    Parameters
    ----------
    folder : path
        A run folder.
    output : path, optional
        Folder for the files; by default ``<run folder>-paper``. An earlier kit is replaced at the end; a
        folder with other files is refused.
    formats : sequence of {"png", "pdf", "svg"}, default=("png",)
        Of figures.
    dpi : int, default=300
        Resolution of PNG files.

    Returns
    -------
    list of Path
        ``methods``, ``checklist`` and ``model_card`` (``.md`` and ``.docx``), ``references.bib``, ``table1``
        (``.csv``, ``.xlsx`` and ``.docx``), figures, and ``paper.json``, the list of files.

    Raises
    ------
    StudyError
        If the folder is no run folder, or was written by an earlier version.
    MissingPackageError
        Without python-docx or openpyxl (``pip install viewloom[paper]``).

    Examples
    --------
    >>> write_paper("not a run")
    Traceback (most recent call last):
    viewloom.study.errors.StudyError: not a run: not a run folder, since it has no summary.json; ...
    """
    check_installed()
    record = read_record(folder)
    run = Path(os.path.abspath(folder))
    target = run.with_name(f"{run.name}-paper") if output is None else Path(output)
    with workplace(target, check=partial(check_replaceable, index=INDEX)) as place:
        with writing(place.target):
            place.new.mkdir()
            _write_documents(record, place.new)
            _write_figures(record, run, place.new, formats, dpi)
            names = sorted(path.name for path in place.new.iterdir())
            write_json({"format": FORMAT, "run": record.title, "files": names}, place.new / INDEX)
            for path in [*place.new.iterdir(), place.new]:
                sync(path)
        return publish(place)


def check_installed() -> None:
    """Raise an error if Word and Excel files cannot be written."""
    if any(find_spec(name) is None for name in NEEDED):
        raise MissingPackageError(
            "The publication kit needs python-docx and openpyxl: pip install viewloom[paper]"
        )


def _write_documents(record: Record, folder: Path) -> None:
    """Write text, references and Table 1."""
    known = references(record)
    short = {key: reference.short for key, reference in known.items()}
    used: list[str] = []
    for name, make in NAMES.items():
        blocks = make(record)
        used += cited(blocks)
        (folder / f"{name}.md").write_text(to_markdown(blocks), encoding="utf-8")
        write_docx([*blocks, *_listed(blocks, known)], folder / f"{name}.docx", short)
    text = bibtex(used, record.versions.get("viewloom", ""), record.finished[:4])
    (folder / "references.bib").write_text(text, encoding="utf-8")
    table = TableOne.of(record)
    write_table_csv(table, folder / "table1.csv")
    write_table_xlsx(table, folder / "table1.xlsx")
    write_table_docx(table, folder / "table1.docx")


def references(record: Record) -> dict[str, Reference]:
    """All known references, with the version of viewloom of the run."""
    own = software(record.versions.get("viewloom", ""), record.finished[:4])
    return {**REFERENCES, "viewloom": own}


def _listed(blocks: Sequence[Block], known: Mapping[str, Reference]) -> list[Block]:
    """The list of references at the end of a Word file."""
    texts = tuple(known[key].text() for key in sorted(cited(blocks)))
    return [Heading("References", 2), Bullets(texts)] if texts else []


def _write_figures(record: Record, run: Path, folder: Path, formats: Sequence[str], dpi: int) -> None:
    """Write the figures of the report, and the key of each atlas."""
    for path in write_figures(run, folder, formats=formats, dpi=dpi):
        path.rename(path.with_name(f"figure_{path.name}"))
    if record.atlases:
        from viewloom.plotting import brain_key
        from viewloom.plotting.style import for_files

        with for_files():
            for atlas in record.atlases:
                figure: Any = brain_key(atlas).figure
                for format in dict.fromkeys(formats):
                    path = folder / f"figure_brain_key_{folded(atlas)}.{format}"
                    figure.savefig(path, dpi=dpi, metadata=NO_DATE[format])
