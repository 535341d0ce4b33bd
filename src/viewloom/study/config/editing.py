"""Changes of keys in the text of study.toml; comments and all other lines stay as they are."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from viewloom.study.config.positions import TOKEN, Where
from viewloom.study.errors import StudyError

BARE = re.compile(r"[A-Za-z0-9_-]+")
WIDTH = 100  # longest line of an array
REFUSED = "cannot be changed without rewriting other lines; change it in the text of the file."


@dataclass(frozen=True)
class Statement:
    """A header or a key with its value: its place in the text, the keys of its header, and its own."""

    begin: int
    end: int
    header: Where
    keys: Where | None  # None: a header

    @property
    def where(self) -> Where:
        """All keys from the outside in."""
        return (*self.header, *(self.keys or ()))


def edited(text: str, changes: Mapping[Where, Any]) -> str:
    r"""The text with some keys set to other values, or removed.

    Parameters
    ----------
    text : str
        A valid TOML file.
    changes : dict of tuple to object
        By keys from the outside in, the new value; None removes the key.

    Raises
    ------
    StudyError
        If a key cannot be changed by itself, such as one of several within an inline table. The new text is
        parsed, and returned only if it says what was asked for.

    Examples
    --------
    >>> print(edited("[model]\nseed = 1  # of the paper\n", {("model", "seed"): 2, ("model", "lam"): 1.5}))
    [model]
    seed = 2  # of the paper
    lam = 1.5
    """
    for where, value in changes.items():
        wanted = _changed(tomllib.loads(text), where, value)
        text = _edited(text, where, value)
        if _pruned(tomllib.loads(text)) != _pruned(wanted):
            raise StudyError(f"{'.'.join(map(str, where))}: {REFUSED}")
    return text


def _edited(text: str, where: Where, value: Any) -> str:
    statements = list(_statements(text))
    same = [one for one in statements if one.where == where]
    keys = [one for one in same if one.keys is not None]
    if value is None and same and not keys:
        return _without_block(text, statements, where)
    if value is None:
        return text[: keys[0].begin] + text[keys[0].end :].removeprefix("\n") if keys else text
    if keys:
        begin, end = keys[0].begin, keys[0].end
        return text[:begin] + _replaced(text[begin:end], value) + text[end:]
    return _inserted(text, statements, where, value)


def _without_block(text: str, statements: list[Statement], where: Where) -> str:
    """The text without a block and the blocks within it; remarks above its header go with it."""
    for one in reversed(statements):
        if one.where[: len(where)] == where:
            begin = _remarks_above(text, one.begin) if one.keys is None else one.begin
            text = text[:begin] + text[one.end :].removeprefix("\n")
    return text


def _remarks_above(text: str, begin: int) -> int:
    """Where the comments begin that stand directly above a place."""
    while begin > 0:
        line = text.rfind("\n", 0, begin - 1) + 1
        if not text[line:begin].startswith("#"):
            break
        begin = line
    return begin


def _replaced(statement: str, value: Any) -> str:
    """The statement with another value; its key and the comment behind it stay."""
    key = statement[: statement.index("=", _key_end(statement))].rstrip()
    marks = [token for token in TOKEN.finditer(statement) if token[0].startswith("#")]
    behind = _behind(statement, marks[-1].start()) if marks and "\n" not in statement else ""
    return f"{key} = {toml_value(value)}{behind}"


def _behind(statement: str, comment: int) -> str:
    """The comment behind a value, with the space before it."""
    return statement[len(statement[:comment].rstrip()) :]


def _key_end(statement: str) -> int:
    """The end of a quoted key, which may hold an equals sign; 0 for others."""
    found = re.match(r"""\s*("(?:\\.|[^"\\])*"|'[^']*')""", statement)
    return found.end() if found else 0


def _inserted(text: str, statements: list[Statement], where: Where, value: Any) -> str:
    """The text with a new key at the end of its block, or with a new block at the end."""
    *block, key = where
    if isinstance(value, dict) and len(where) == 2 and where[0] == "views":
        lines = [f"{toml_key(name)} = {toml_value(one)}" for name, one in value.items()]
        return _with_block(text, where, lines)
    line = f"{toml_key(key)} = {toml_value(value)}"
    own = [one for one in statements if one.header == tuple(block)]
    if not own:
        return _with_block(text, tuple(block), [line])
    end = own[-1].end
    return f"{text[:end]}\n{line}{text[end:]}"


def _with_block(text: str, where: Where, lines: list[str]) -> str:
    header = f"[{'.'.join(map(toml_key, where))}]"
    return "\n".join([text.rstrip("\n"), *([""] if text.strip() else []), header, *lines, ""]).lstrip("\n")


def _changed(data: dict[Any, Any], where: Where, value: Any) -> dict[str, Any]:
    """The content with one key changed."""
    data = deepcopy(data)
    inner: Any = data
    for part in where[:-1]:
        inner = inner.setdefault(part, {}) if value is not None else inner.get(part, {})
        if not isinstance(inner, dict):
            raise StudyError(f"{'.'.join(map(str, where))}: {REFUSED}")
    if value is None:
        inner.pop(where[-1], None)
    else:
        inner[where[-1]] = value
    return data


def _pruned(data: Any) -> Any:
    """The content without empty tables, which a header may stand for."""
    if not isinstance(data, dict):
        return data
    inner = {key: _pruned(value) for key, value in data.items()}
    return {key: value for key, value in inner.items() if value != {}}


def _statements(text: str) -> Iterator[Statement]:
    """Statements with their places; a statement ends with the line, unless a bracket or text is open."""
    begin, depth, header = 0, 0, tuple[str | int, ...]()
    for token in TOKEN.finditer(f"{text}\n"):
        depth += (token[0] in "[{") - (token[0] in "]}")
        if token[0] != "\n" or depth:
            continue
        piece = text[begin : token.start()]
        inside = piece.lstrip()
        if inside and not inside.startswith("#"):
            start, end = begin + len(piece) - len(inside), begin + len(piece.rstrip())
            keys = _keys(inside)
            header = keys if inside.startswith("[") else header
            yield Statement(start, end, header, None if inside.startswith("[") else keys)
        begin = token.end()


def _keys(statement: str) -> Where:
    """The keys that a header or an assignment names."""
    keys, data = list[str | int](), tomllib.loads(statement)
    depth = _depth(statement)
    while isinstance(data, dict) and len(data) == 1 and len(keys) < depth:
        [(key, data)] = data.items()
        keys.append(key)
    return tuple(keys)


def _depth(statement: str) -> int:
    """The number of dotted keys of a statement."""
    head = statement.strip().strip("[") if statement.startswith("[") else statement
    count, place = 0, 0
    part = re.compile(r"""\s*("(?:\\.|[^"\\])*"|'[^']*'|[A-Za-z0-9_-]+)\s*""")
    while found := part.match(head, place):
        count, place = count + 1, found.end()
        if head[place : place + 1] != ".":
            break
        place += 1
    return count


def toml_key(key: object) -> str:
    """A key, in quotes where it needs them.

    >>> toml_key("mri"), toml_key("a b")
    ('mri', '"a b"')
    """
    return str(key) if BARE.fullmatch(str(key)) else toml_text(str(key))


def toml_text(text: str) -> str:
    """Text in quotes, on one line."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def toml_value(value: Any) -> str:
    """A value as TOML.

    >>> toml_value({"min": 55.0}), toml_value(["AD", 1, True])
    ('{ min = 55.0 }', '["AD", 1, true]')
    """
    if isinstance(value, dict):
        inner = ", ".join(f"{toml_key(key)} = {toml_value(one)}" for key, one in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list):
        items = [toml_value(item) for item in value]
        line = f"[{', '.join(items)}]"
        return line if len(line) <= WIDTH else "\n".join(["[", *(f"    {item}," for item in items), "]"])
    return toml_text(value) if isinstance(value, str) else json.dumps(value)
