"""Changes of study.toml that the problems and notes of a check suggest."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from viewloom.study.config.editing import toml_value
from viewloom.study.config.positions import Where
from viewloom.study.errors import Suggestion
from viewloom.study.notes import Note


@dataclass(frozen=True)
class Advice:
    """A change that a message suggests.

    Attributes
    ----------
    block : list of str
        Names of the block of study.toml.
    settings : dict of str to object
        New values by key.
    text : str
        The same as lines of study.toml.
    condition : str
        When it is right, such as "if it is a value"; may be empty.
    """

    block: list[str]
    settings: dict[str, Any]
    text: str
    condition: str

    @property
    def changes(self) -> dict[Where, Any]:
        """New values by key, for `editing.edited`."""
        return {(*self.block, key): value for key, value in self.settings.items()}


def advice(messages: Iterable[str | Note]) -> dict[str, list[Advice]]:
    """What messages suggest, by their text.

    Parameters
    ----------
    messages : iterable of str or Note
        `Check.problems` and `Check.notes`; those without a suggestion are left out.

    Examples
    --------
    >>> from viewloom.study.errors import Message
    >>> line = Message("a.csv: -4; set missing_codes = [-4].", Suggestion({"missing_codes": [-4]}))
    >>> [(one.block, one.text) for one in advice([line.within("views", "mri")])[line]]
    [(['views', 'mri'], 'missing_codes = [-4]')]
    """
    found = {str(message): _advice(getattr(message, "suggestions", ())) for message in messages}
    return {message: lines for message, lines in found.items() if lines}


def _advice(suggestions: Iterable[Suggestion]) -> list[Advice]:
    """Suggestions whose block is known."""
    return [
        Advice(list(one.block), dict(one.settings), _text(one.settings), one.condition)
        for one in suggestions
        if one.block
    ]


def _text(settings: Any) -> str:
    return "\n".join(f"{key} = {toml_value(value)}" for key, value in settings.items())
