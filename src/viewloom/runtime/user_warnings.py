"""Warnings that point at the line of the user's code that caused them."""

from __future__ import annotations

import warnings
from inspect import currentframe
from types import FrameType

LIBRARIES = ("viewloom", "sklearn", "joblib")  # pipelines and searches call estimators for the user


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning at the innermost line outside viewloom and scikit-learn."""
    warnings.warn(message, category, stacklevel=_user_level(currentframe()))


def _user_level(frame: FrameType | None) -> int:
    """The `stacklevel` of the first frame outside `LIBRARIES`, or of the outermost frame."""
    level = 1  # `warn_user` itself
    while frame is not None and _is_library(frame) and frame.f_back is not None:
        frame, level = frame.f_back, level + 1
    return level


def _is_library(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] in LIBRARIES
