"""What figures of reports need: installed packages, and text that stays legible on dark screens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from viewloom.runtime.errors import InputError, MissingPackageError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLACK = "#010101"  # text on heat maps, which stays black on dark screens


def check_installed() -> None:
    """Raise an error before a long computation if its report cannot be made.

    matplotlib fails when it is imported if ``MPLBACKEND`` names no backend.
    """
    try:
        import jinja2  # noqa: F401
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise MissingPackageError(
            "Reports need matplotlib and jinja2: pip install viewloom[study]"
        ) from error
    except ValueError as error:
        raise InputError(
            "matplotlib cannot be imported; is MPLBACKEND set to one of its backends?"
        ) from error


def fixed_text(ax: Axes) -> None:
    """Keep black numbers on a heat map black in dark mode."""
    for text in ax.texts:
        if text.get_color() == "black":
            text.set_color(BLACK)
