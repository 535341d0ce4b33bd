"""Lines for study.toml that the problems of a study suggest, as changes of its keys."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from viewloom.study.config.editing import toml_value
from viewloom.study.config.positions import Where
from viewloom.study.config.schema import BLOCKS
from viewloom.study.config.toml import Study

# "set missing_codes = [-4], or missing_codes = [] if it is a value": messages quote lines as they are in TOML
VALUE = r"(?:\[[^\]]*\]|\{[^}]*\}|'[^']*'|\"[^\"]*\"|true|false|-?[\d.]+)"
LINE = re.compile(
    rf"(?:set|or|and) ([a-z_]+ = {VALUE}(?: and [a-z_]+ = {VALUE})*)(?: under \[([a-z]+)\])?([^;,.]*)"
)
VIEW = re.compile(r"view '([^']+)': ")
BELOW = ("participants", "views.<name>")  # blocks with the same keys: the message names the source


class Advice(NamedTuple):
    """A change that a message suggests.

    Attributes
    ----------
    changes : dict of tuple to object
        New values by key, for `editing.edited`.
    text : str
        The same as lines of study.toml.
    condition : str
        The rest of the sentence, such as "if it is a value"; may be empty.
    """

    changes: dict[Where, Any]
    text: str
    condition: str


def advice(message: str, study: Study) -> list[Advice]:
    """The lines that a problem or note suggests.

    Parameters
    ----------
    message : str
        From `Check.problems` or `Check.notes`.
    study : Study
        Its views are the blocks that a line may belong to.

    Examples
    --------
    >>> study = Study.model_validate({"views": {"mri": {}}})
    >>> line = "view 'mri': a.csv: -4; set missing_codes = [-4], or missing_codes = [] if it is a value."
    >>> [(one.text, one.condition) for one in advice(line, study)]
    [('missing_codes = [-4]', ''), ('missing_codes = []', 'if it is a value')]
    """
    return list(_advice(message, study))


def _advice(message: str, study: Study) -> Iterator[Advice]:
    for lines, block, condition in LINE.findall(message):
        settings = _parsed(re.split(r" and (?=[a-z_]+ = )", lines))
        where = _block(message, block, settings, study)
        if settings and where is not None:
            changes = {(*where, key): value for key, value in settings.items()}
            text = "\n".join(f"{key} = {toml_value(value)}" for key, value in settings.items())
            yield Advice(changes, text, condition.strip())


def _parsed(lines: Iterable[str]) -> dict[str, Any]:
    try:
        return tomllib.loads("\n".join(lines))
    except tomllib.TOMLDecodeError:
        return {}


def _block(message: str, named: str, settings: Iterable[str], study: Study) -> Where | None:
    """The block of some keys: the one that the message names, that of its source, or the only one."""
    if named:
        return (named,)
    homes = [name for name, model in BLOCKS.items() if all(key in model.model_fields for key in settings)]
    if found := VIEW.match(message):
        return ("views", found[1]) if "views.<name>" in homes and found[1] in study.views else _only(homes)
    if message.startswith("participants: ") and "participants" in homes:
        return ("participants",)
    return _only(homes)


def _only(homes: list[str]) -> Where | None:
    """The block that has these keys, unless several sources do."""
    found = [name for name in homes if name not in BELOW and "." not in name]
    return (found[0],) if len(found) == 1 else None
