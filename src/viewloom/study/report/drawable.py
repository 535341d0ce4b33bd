"""Whether the packages that reports need are installed."""

from __future__ import annotations

from viewloom.runtime.errors import InputError, MissingPackageError


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
