"""Exceptions raised by viewloom. Their messages never contain ids or values of subjects."""

from __future__ import annotations


class ViewloomError(Exception):
    """Base class of all exceptions that viewloom raises deliberately.

    Examples
    --------
    >>> import viewloom as vl
    >>> issubclass(vl.InputError, ValueError), issubclass(vl.InputTypeError, TypeError)
    (True, True)
    """


class InputError(ViewloomError, ValueError):
    """Invalid data or parameters: a ValueError.

    Examples
    --------
    >>> from viewloom.study import StudyError
    >>> issubclass(StudyError, InputError)
    True
    """


class InputTypeError(ViewloomError, TypeError):
    """An argument of an invalid type: a TypeError.

    Examples
    --------
    >>> issubclass(InputTypeError, (ViewloomError, TypeError))
    True
    """


class MissingPackageError(ViewloomError, ImportError):
    """A required optional package is not installed: an ImportError."""


class MissingFileError(ViewloomError, FileNotFoundError):
    """A file does not exist: a FileNotFoundError."""


class WorkerError(ViewloomError, RuntimeError):
    """Workers of a cluster were lost and not restarted: a RuntimeError."""


class OutputError(ViewloomError, OSError):
    """A file cannot be written: an OSError, with its ``errno``.

    Examples
    --------
    >>> import errno
    >>> print(OutputError(errno.ENOSPC, "model.safetensors: cannot be written"))
    model.safetensors: cannot be written
    """

    def __str__(self) -> str:
        return str(self.args[-1]) if self.args else ""
