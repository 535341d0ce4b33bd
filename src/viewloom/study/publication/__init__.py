"""The publication kit: text, tables, checklist, model card and figures for a paper, from a finished run.

Nothing is computed: everything comes from what the run folder stores and may be shared.
"""

from __future__ import annotations

from viewloom.study.publication.kit import write_paper

__all__ = ["write_paper"]
