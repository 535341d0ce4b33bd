"""Errors that viewloom raises on purpose: their messages name no subject and quote no value of one."""

from __future__ import annotations


class ViewloomError(Exception):
    """Base of all errors that viewloom raises on purpose.

    Examples
    --------
    >>> import viewloom as vl
    >>> issubclass(vl.InputError, ValueError), issubclass(vl.InputTypeError, TypeError)
    (True, True)
    """


class InputError(ViewloomError, ValueError):
    """Data or settings that cannot be used: a ValueError.

    Examples
    --------
    >>> from viewloom.study import StudyError
    >>> issubclass(StudyError, InputError)
    True
    """


class InputTypeError(ViewloomError, TypeError):
    """An argument of a type that cannot be used: a TypeError.

    Examples
    --------
    >>> issubclass(InputTypeError, (ViewloomError, TypeError))
    True
    """


class MissingPackageError(ViewloomError, ImportError):
    """An optional package that is needed here and is not installed: an ImportError."""


class MissingFileError(ViewloomError, FileNotFoundError):
    """A file that is not there: a FileNotFoundError."""


class WorkerError(ViewloomError, RuntimeError):
    """Workers of a cluster that were lost and did not come back: a RuntimeError."""


class OutputError(ViewloomError, OSError):
    """A file that cannot be written: an OSError, with its ``errno``.

    Examples
    --------
    >>> import errno
    >>> print(OutputError(errno.ENOSPC, "model.safetensors: cannot be written"))
    model.safetensors: cannot be written
    """

    def __str__(self) -> str:
        return str(self.args[-1]) if self.args else ""
