"""Mistakes that the user can mend."""

from __future__ import annotations


class StudyError(ValueError):
    """A mistake in a study's files or settings: one line that names it and the way out."""
