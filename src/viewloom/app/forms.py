"""Forms of study.toml, generated from its JSON schema."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from viewloom.study import readers
from viewloom.study.config.editing import toml_value
from viewloom.study.config.positions import Problem, Where
from viewloom.study.config.toml import json_schema

MOST_BOXES = 300  # columns that are offered as boxes to tick
BLANK_RULES = 1  # empty rows below the rules
TITLES = {
    "study": "Title",
    "participants": "Participants",
    "views": "Views",
    "cluster": "Who is clustered",
    "preparation": "Preparation",
    "model": "Model",
    "followup": "Later visits",
    "ids": "Ids",
    "report": "Report",
}
MAIN = {  # keys that are shown at once; the others are below "More settings"
    "study": ("name",),
    "participants": ("path", "id", "diagnosis", "covariates", "site", "outcomes"),
    "views": ("path", "paths", "format", "id", "columns"),
    "cluster": ("include", "exclude", "remove_severity", "names"),
    "preparation": ("controls", "residualise", "w_scores", "harmonise", "impute"),
    "model": ("n_clusters", "seed"),
    "followup": ("visits",),
    "ids": ("match",),
    "report": ("min_cell",),
}
OF_SOURCE = ("path", "paths", "format", "transform", "columns", "exclude", "columns_from", "id")
OWN_COLUMN = ("id", "diagnosis", "site", "visit_column", "date", "value")
COLUMNS = ("covariates", "outcomes", "categorical")
COVARIATES = ("residualise", "w_scores", "splines")
GROUPS = ("controls",)
LABELS = {"n_clusters": "Number of clusters", "id": "Column of ids", "path": "File", "paths": "Files"}
EXPLAINED = {  # keys whose name says it all in Python, where the schema has no description
    "n_clusters": "How many clusters are looked for.",
    "graph": "How the similarity graph of a view is built.",
    "membership": "Constraint on memberships.",
    "sharpness": "How much soft memberships cost, from 0 to 1.",
    "calibrate": "Whether the losses of views are made comparable.",
    "normalize": "Whether kernels have a unit diagonal.",
    "init": "How memberships are initialised.",
    "inner_iter": "Steps on the memberships in each iteration.",
    "max_iter": "Largest number of iterations.",
    "tol": "Change of the objective at which the iteration ends.",
}


def element_id(where: Where) -> str:
    """A key as an identifier in the page; names of views may have any letters.

    >>> element_id(("views", "a b", "path"))
    'key-7669657773-612062-70617468'
    """
    return "-".join(["key", *(str(part).encode().hex() for part in where)])


@dataclass(frozen=True)
class Choices:
    """What can be chosen in some fields: columns of a table, covariates, groups of the diagnosis, views."""

    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)  # by view; "" for participants
    groups: Sequence[str] = ()

    def of(self, where: Where, data: Mapping[str, Any]) -> list[str]:
        """The values that a key may have."""
        block, key = where[0], str(where[-1])
        own = self.columns.get(str(where[1]) if block == "views" else "", ())
        if key in COLUMNS or (key in OWN_COLUMN and block in ("views", "participants")):
            return list(own)
        if key in COVARIATES:
            return list((data.get("participants") or {}).get("covariates") or [])
        if key == "genotypes":
            return list(data.get("views") or {})
        return list(self.groups) if key in GROUPS else []


@dataclass(frozen=True)
class Field:
    """An input of the form.

    Attributes
    ----------
    where : tuple
        Keys from the outside in.
    kind : str
        text, number, yesno, choice, names (one per line), boxes, codes, rules or toml.
    label, help : str
    value : object
        What is shown: text, a list for boxes, or rows of rules.
    choices : list of str
    default : str
        Shown where the key is not set.
    errors : list of str
    main : bool
        Whether it is shown at once.
    """

    where: Where
    kind: str
    label: str
    help: str
    value: Any
    choices: list[str]
    default: str
    errors: list[str]
    main: bool

    @property
    def name(self) -> str:
        """Name of the input."""
        return json.dumps(list(self.where), ensure_ascii=True)

    @property
    def id(self) -> str:
        """Identifier in the page."""
        return element_id(self.where)


@dataclass(frozen=True)
class Section:
    """A block of study.toml."""

    where: Where
    title: str
    help: str
    fields: list[Field]
    errors: list[str]

    @property
    def id(self) -> str:
        """Identifier in the page."""
        return f"block-{element_id(self.where)}"

    @property
    def main(self) -> list[Field]:
        """Fields that are shown at once."""
        return [one for one in self.fields if one.main]

    @property
    def more(self) -> list[Field]:
        """The others."""
        return [one for one in self.fields if not one.main]


def sections(data: Mapping[str, Any], problems: Sequence[Problem], choices: Choices) -> list[Section]:
    """The form of a study.

    Parameters
    ----------
    data : dict
        The content of study.toml.
    problems : sequence of Problem
    choices : Choices
    """
    schema = json_schema()
    return [_section(where, schema, data, problems, choices) for where in _blocks(data)]


def _blocks(data: Mapping[str, Any]) -> Iterator[Where]:
    """The blocks in the order of the form."""
    for block in TITLES:
        if block == "views":
            yield from (
                ("views", str(name))
                for name, view in (data.get("views") or {}).items()
                if isinstance(view, dict)
            )
        else:
            yield (block,)


def _section(
    where: Where,
    schema: dict[str, Any],
    data: Mapping[str, Any],
    problems: Sequence[Problem],
    choices: Choices,
) -> Section:
    model = _model(schema, str(where[0]))
    given = _at(data, where)
    fields = [
        _field((*where, key), rule, schema, data, given.get(key), problems, choices)
        for key, rule in _ordered(str(where[0]), model["properties"])
        if _belongs(where, key, given)
    ]
    title = f"View {where[1]}" if len(where) > 1 else TITLES[str(where[0])]
    taken = {one.where for one in fields}
    own = [p.message for p in problems if p.where[: len(where)] == where and not _owner(p.where, taken)]
    return Section(where, title, "", fields, own)


def _model(schema: dict[str, Any], block: str) -> dict[str, Any]:
    """The schema of a block."""
    rule = schema["properties"][block]
    rule = rule.get("additionalProperties", rule)
    kinds = rule.get("anyOf") or rule.get("allOf") or [rule]  # allOf: references of pydantic before 2.9
    rule = next((one for one in kinds if "$ref" in one), rule)
    return dict(schema["$defs"][rule["$ref"].rpartition("/")[2]])


def _ordered(block: str, properties: dict[str, Any]) -> list[tuple[str, Any]]:
    """The keys of a block, those that are shown at once first."""
    main = [key for key in MAIN[block] if key in properties]
    return [(key, properties[key]) for key in [*main, *(key for key in properties if key not in main)]]


def _belongs(where: Where, key: str, given: Mapping[str, Any]) -> bool:
    """Whether a view of some format has a key; keys that are set are always shown."""
    if where[0] != "views" or key in given:
        return True
    if key in ("path", "paths"):
        return ("paths" if key == "path" else "path") not in given
    format = given.get("format")
    known = readers.FORMATS[format].options if format in readers.FORMATS else readers.FORMATS["table"].options
    return key in OF_SOURCE or key in known


def _field(
    where: Where,
    rule: dict[str, Any],
    schema: dict[str, Any],
    data: Mapping[str, Any],
    value: Any,
    problems: Sequence[Problem],
    choices: Choices,
) -> Field:
    key, offered = str(where[-1]), choices.of(where, data)
    kind, fixed = _kind(rule, key, value, offered)
    errors = [problem.message for problem in problems if problem.where[: len(where)] == where]
    default = rule.get("default")
    return Field(
        where,
        kind,
        LABELS.get(key, key.replace("_", " ").capitalize()),
        rule.get("description") or EXPLAINED.get(key, ""),
        shown(kind, value),
        fixed or offered,
        "" if default in (None, [], {}) else _plain(default),
        errors,
        key in MAIN[str(where[0])] or bool(errors) or value is not None,
    )


def _kind(rule: dict[str, Any], key: str, value: Any, offered: Sequence[str]) -> tuple[str, list[str]]:
    """The kind of input for a rule of the schema, and the values that it allows."""
    rules = [one for one in rule.get("anyOf", [rule]) if one.get("type") != "null"]
    rule = rules[0] if rules else rule
    if key in ("include", "exclude") and rule.get("type") == "object":
        return "rules", []
    if "oneOf" in rule:
        rule = rule["oneOf"][0]
        if isinstance(value, dict) or "type" not in rule:
            return "toml", []
    if "enum" in rule or "const" in rule:
        return "choice", [_plain(one) for one in rule.get("enum", [rule.get("const")])]
    kind = rule.get("type")
    if kind == "boolean":
        return "yesno", []
    if kind in ("integer", "number"):
        return "number", []
    if kind == "string":
        return ("choice" if key in OWN_COLUMN and _listed(offered, [value] if value else []) else "text"), []
    items = rule.get("items", {})
    if kind == "array" and "const" in items:
        return "boxes", [items["const"]]
    if kind == "array" and items.get("type") == "string":
        names = value if isinstance(value, list) else [value] if isinstance(value, str) else []
        return ("boxes" if _listed(offered, names) else "names"), []
    if kind == "array" and "anyOf" in items and not isinstance(value, dict):
        return "codes", []
    return "toml", []


def _listed(offered: Sequence[str], given: Sequence[Any]) -> bool:
    """Whether all that is given can be chosen from a list."""
    return 0 < len(offered) <= MOST_BOXES and all(one in offered for one in given)


def shown(kind: str, value: Any) -> Any:
    r"""A value as its input shows it.

    >>> shown("names", ["age", "sex"]), shown("yesno", True), shown("number", None)
    ('age\nsex', 'true', '')
    """
    if kind == "boxes":
        return [value] if isinstance(value, str) else [str(one) for one in value or []]
    if kind == "rules":
        return [*_rule_rows(value), *[{}] * BLANK_RULES]
    if value is None:
        return ""
    if kind == "names":
        return value if isinstance(value, str) else "\n".join(map(str, value))
    if kind == "codes":
        return ", ".join(map(_plain, value if isinstance(value, list) else [value])) or "[]"
    return toml_value(value) if kind == "toml" else _plain(value)


def _rule_rows(value: Any) -> list[dict[str, str]]:
    """Rules as rows of column, groups, and the ends of a range."""
    rows = []
    for column, rule in (value or {}).items() if isinstance(value, dict) else ():
        if isinstance(rule, dict):
            rows.append(
                {"column": column, **{end: _plain(rule[end]) for end in ("min", "max") if end in rule}}
            )
        else:
            groups = rule if isinstance(rule, list) else [rule]
            rows.append({"column": column, "groups": ", ".join(map(_plain, groups))})
    return rows


def _plain(value: Any) -> str:
    """A value as text."""
    return json.dumps(value) if isinstance(value, bool) else str(value)


def _at(data: Mapping[str, Any], where: Where) -> Mapping[str, Any]:
    inner: Any = data
    for part in where:
        inner = inner.get(part, {}) if isinstance(inner, dict) else {}
    return inner if isinstance(inner, dict) else {}


def _owner(where: Where, fields: set[Where]) -> bool:
    return any(where[: len(one)] == one for one in fields)
