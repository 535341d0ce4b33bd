"""Mistakes that the user can mend."""

from __future__ import annotations

from viewloom.errors import InputError


class StudyError(InputError):
    """A mistake in a study's files or settings: one line that names it and the way out."""
