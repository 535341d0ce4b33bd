"""The report of a run: one HTML file with the findings and the cautions that apply to them.

Results become a plain dict (`summarize`), the dict lists `figures`, and both become a page (`to_html`).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from viewloom.runtime.files import PRIVATE, atomic_write
from viewloom.study.report.drawings import figure_data
from viewloom.study.report.figures import figures, inline_figures, write_figure
from viewloom.study.report.html import to_html
from viewloom.study.report.summarize import summarize, unnamed_summary

if TYPE_CHECKING:
    from viewloom.study.results import Results

__all__ = [
    "figure_data",
    "figures",
    "inline_figures",
    "summarize",
    "to_html",
    "unnamed_summary",
    "write_figure",
    "write_report",
]


def write_report(results: Results, path: str | os.PathLike[str], *, subjects: bool = False) -> Path:
    """Write the report of a run.

    Parameters
    ----------
    results : Results
    path : path
        The HTML file.
    subjects : bool, default=False
        Also list every subject by id, under a notice. Such a report must not be shared, and the file can be
        read by its owner only.

    Returns
    -------
    Path
    """
    summary = summarize(results, subjects=subjects)
    page = to_html(summary, figures(results, summary))
    with atomic_write(path, PRIVATE if subjects else 0o666) as part:
        part.write_text(page, encoding="utf-8")
    return Path(path)
