"""From the input of a form to changes of study.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from viewloom.app.forms import Field, shown
from viewloom.runtime.errors import InputError
from viewloom.study.config.positions import Problem, Where

Form = Mapping[str, Sequence[str]]


def changes(form: Form, fields: Sequence[Field]) -> tuple[dict[Where, Any], list[Problem]]:
    """The keys that a form sets to other values than it was shown with, and input that cannot be read.

    Parameters
    ----------
    form : dict of str to list of str
        What was sent. Fields that were not sent are not changed.
    fields : sequence of Field
        What the form was made of.
    """
    found: dict[Where, Any] = {}
    problems: list[Problem] = []
    for one in fields:
        if f"{one.name}!" not in form:  # the field was in the page
            continue
        try:
            value = parsed(one, form)
        except ValueError as error:
            problems.append(Problem(one.where, str(error)))
            continue
        if shown(one.kind, value) != one.value:
            found[one.where] = value
    return found, problems


def parsed(one: Field, form: Form) -> Any:
    """The value of a field; None where it is empty. `ValueError` if it cannot be read."""
    if one.kind == "rules":
        return _rules(one, form) or None
    given = form.get(one.name, [])
    if one.kind == "boxes":
        before = [name for name in one.value if name in given]  # in the order of the file
        return [*before, *(name for name in given if name not in before)] or None
    text = (given[0] if given else "").replace("\r\n", "\n").strip()
    return PARSERS[one.kind](text) if text else None


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text.replace(",", "."))
    except ValueError:
        raise InputError("must be a number") from None


def _code(text: str) -> int | float | str:
    try:
        return _number(text)
    except ValueError:
        return text


def _toml(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}\n")["value"]
    except (tomllib.TOMLDecodeError, KeyError):
        raise InputError("cannot be read; text needs quotes, lists [ ], tables { key = value }") from None


def _names(text: str) -> list[str]:
    return [line.strip() for line in text.split("\n") if line.strip()]


def _codes(text: str) -> list[Any]:
    return [] if text == "[]" else [_code(part.strip()) for part in text.split(",") if part.strip()]


def _rules(one: Field, form: Form) -> dict[str, Any]:
    """Rules from their rows; a row without a column is empty."""
    columns = {end: form.get(f"{one.name}.{end}", []) for end in ("column", "groups", "min", "max")}
    found: dict[str, Any] = {}
    for i, column in enumerate(columns["column"]):
        row = {end: texts[i].strip() if i < len(texts) else "" for end, texts in columns.items()}
        if not row["column"]:
            continue
        ends = {end: _number(row[end]) for end in ("min", "max") if row[end]}
        groups = [part.strip() for part in row["groups"].split(",") if part.strip()]
        if ends and groups:
            raise InputError(f"{column}: give either groups or a range")
        if not ends and not groups:
            raise InputError(f"{column}: give groups, or a range")
        found[row["column"]] = ends or groups
    return found


PARSERS: dict[str, Any] = {
    "text": str,
    "choice": str,
    "number": _number,
    "yesno": lambda text: text == "true",
    "names": _names,
    "codes": _codes,
    "toml": _toml,
}
