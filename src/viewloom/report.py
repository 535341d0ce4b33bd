"""The report of a run: one HTML file."""

from viewloom.study.report import figures, summarize, to_html, write_report

__all__ = ["figures", "summarize", "to_html", "write_report"]
