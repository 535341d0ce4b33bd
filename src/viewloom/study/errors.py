"""Errors in the files or settings of a study."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from viewloom.runtime.errors import InputError
from viewloom.runtime.files import special
from viewloom.runtime.visible import visible


@dataclass(frozen=True)
class Suggestion:
    """Settings of study.toml that solve a problem.

    Attributes
    ----------
    settings : dict of str to object
        Keys of one block and their new values.
    condition : str
        When they are right, such as "if it is a value"; empty if always.
    block : tuple of str
        The block of study.toml; () is that of the file that the message is about.
    """

    settings: Mapping[str, Any]
    condition: str = ""
    block: tuple[str, ...] = ()


class Message(str):
    """A line of a message, with what it suggests as data.

    Parameters
    ----------
    text : str
    *given : Suggestion or str
        Suggestions, or lines whose suggestions are taken over.

    Examples
    --------
    >>> line = Message("-4 in 3 cells; set missing_codes = [-4]", Suggestion({"missing_codes": [-4]}))
    >>> Message(f"a.csv: {line}", line).within("views", "mri").suggestions[0].block
    ('views', 'mri')
    """

    suggestions: tuple[Suggestion, ...]

    def __new__(cls, text: str, *given: Suggestion | str) -> Message:
        """Text that knows its suggestions."""
        line = super().__new__(cls, text)
        line.suggestions = tuple(
            found
            for one in given
            for found in ([one] if isinstance(one, Suggestion) else getattr(one, "suggestions", ()))
        )
        return line

    def within(self, *block: str) -> Message:
        """The line about the file of a block; suggestions for another block stay."""
        return Message(self, *(replace(one, block=one.block or block) for one in self.suggestions))


class StudyError(InputError):
    """An error in the files or settings of a study: lines with the problem and the solution.

    Parameters
    ----------
    *lines : str
        Text of one line or several; `Message` where there are suggestions.
    """

    @property
    def lines(self) -> list[Message]:
        """The lines with their suggestions."""
        texts = [text for text in self.args if isinstance(text, str)]
        return [
            text if isinstance(text, Message) else Message(part)
            for text in texts
            for part in ([text] if isinstance(text, Message) else text.split("\n"))
        ]

    def __str__(self) -> str:
        return "\n".join(map(str, self.args))


def check_readable(path: Path) -> None:
    """Raise an error for what is not a file, or not there."""
    check_kind(path)
    if not path.is_file():
        raise StudyError(f"{path.name}: {'is a folder, not a file' if path.is_dir() else 'no such file'}.")


def check_kind(path: Path) -> None:
    """Refuse pipes, sockets and devices before they are opened."""
    if kind := special(path):
        raise StudyError(f"{visible(path.name)}: is {kind}; only files and folders are read.")
