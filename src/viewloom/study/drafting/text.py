"""A plan as the text of study.toml, and as lines for the command line."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from viewloom.study.drafting.plan import Block, Plan
from viewloom.study.wording import counted

WIDTH = 100
SHOWN = 8  # files of one kind that are listed individually
EXAMPLES = 3  # files that are listed of a larger group
HINTS = {
    "table": ('# transform = "log"  # or "log1p", "sqrt"', "# missing_codes = [-4]"),
    "long": ("# missing_codes = [-4]",),
}
SUBJECTS = re.compile(r"((?:sub|ses)-)[0-9A-Za-z]+")  # ids are not shown
NUMBERS = re.compile(r"()\d+")
ROLES = ("diagnosis", "site", "covariates", "outcomes")


def study_text(plan: Plan) -> str:
    """The study file: blocks with remarks, and at the end the files that are not used."""
    people = [_no_people()] if plan.people is None else [_people_text(plan.people)]
    views = [_view_text(view) for view in [*plan.active, *(view for view in plan.views if view.off)]]
    passed = list(passed_lines(plan))
    foot = "\n".join(["# Files that are not used:", *(f"# - {comment(line)}" for line in passed), ""])
    return "\n".join([_head(plan), *people, *views, _foot(plan), *([foot] if passed else [])])


def used_lines(plan: Plan) -> Iterator[str]:
    """How each file is used."""
    if plan.people is not None and not plan.people.off:
        remarks = "; ".join([*plan.people.remarks, *_named(plan.people)])
        yield f"{_label(plan.people)}: participants; {remarks}"
    for view in plan.active:
        yield f"{_label(view)}: view {view.name!r}; {'; '.join(view.remarks)}"


def _named(people: Block) -> list[str]:
    """The columns of participants that were recognised."""
    given = {key: people.settings.get(key) for key in ROLES}
    names = [
        f"{key} {', '.join(map(repr, [value] if isinstance(value, str) else value))}"
        for key, value in given.items()
        if value
    ]
    return [", ".join(names)] if names else ["no diagnosis, covariate, site or outcome recognised"]


def passed_lines(plan: Plan) -> Iterator[str]:
    """Files that are not used: one line each, or a few lines and the number of similar files."""
    yield from dict.fromkeys(_off_lines(plan))
    groups: dict[str, list[tuple[str, str, int]]] = defaultdict(list)
    for label, why, count in plan.passed:
        groups[re.sub(r"\d+|'[^']*'", "#", why)].append((label, why, count))
    for alike in groups.values():
        yield from _lines(alike)


def _off_lines(plan: Plan) -> Iterator[str]:
    """Sources that were recognised but cannot be used, except files with another use."""
    blocks = [block for block in [plan.people, *plan.views] if block is not None]
    used = {_label(block) for block in blocks if not block.off} if plan.active else set()
    for block in blocks:
        if block.off and _label(block) not in used:
            remarks = f"{block.remarks[0]}; " if block.remarks else ""
            yield f"{_label(block)}: {remarks}{'left as a comment: ' if plan.active else ''}{block.off}"


def _lines(alike: Sequence[tuple[str, str, int]]) -> Iterator[str]:
    """Files that are skipped for one reason; names that differ in subjects or numbers are merged."""
    merged = _merged(alike, SUBJECTS)
    merged = merged if len(merged) <= SHOWN else _merged(merged, NUMBERS)
    shown = merged if len(merged) <= SHOWN else merged[:EXAMPLES]
    for label, why, count in shown:
        times = f" ({counted(count, 'file')})" if count > 1 else ""
        yield f"{label}{times}: {why}"
    left = sum(count for _, _, count in merged[len(shown) :])
    if left:
        yield f"{left} similar files"


def _merged(alike: Sequence[tuple[str, str, int]], varying: re.Pattern[str]) -> list[tuple[str, str, int]]:
    """Files whose names are equal except for the varying part, with their counts."""
    found: dict[str, tuple[str, str, int]] = {}
    for label, why, count in alike:
        plain = varying.sub(r"\1*", label)
        _, first, before = found.get(plain, ("", why, 0))
        found[plain] = (plain, first, before + count)
    return list(found.values())


def _label(block: Block) -> str:
    """A short description of the files of a block."""
    paths = block.settings.get("paths") or [block.settings["path"]]
    shown = ["this folder" if path == "." else path for path in paths[:SHOWN]]
    ends = sorted({path.suffix for path in block.files} - {Path(path).suffix for path in paths})
    part = block.settings.get("sheet") or block.settings.get("object")
    beside = f" with {' and '.join(ends)}" if ends else f" ({part})" if part else ""
    return ", ".join(shown) + (f" and {len(paths) - SHOWN} more" if len(paths) > SHOWN else "") + beside


def _head(plan: Plan) -> str:
    return f"""# Drafted from the files of this folder; review it before use.
# `viewloom check study.toml` checks the data, `viewloom fit study.toml` runs the study.

[study]
name = {quoted(plan.folder.name or "study")}
"""


def _no_people() -> str:
    return '# No table of participants was found.\n# [participants]\n# path = "..."\n# id = "..."\n'


def _people_text(people: Block) -> str:
    lines = [
        "[participants]",
        *_settings({k: v for k, v in people.settings.items() if k not in ROLES}, people),
    ]
    for key in ROLES:
        given = people.settings.get(key)
        lists = key in ("covariates", "outcomes")
        absent = f'# {key} = ["..."]' if lists else f'# {key} = "..."'
        lines += _settings({key: given}, people) if given else [absent]
    lines.append('# survival = { time = "...", event = "..." }')
    return _finished(people, lines)


def _view_text(view: Block) -> str:
    key = _key(view.name)
    hints = [hint for hint in HINTS.get(view.settings["format"], ()) if not view.off]
    settings = {name: value for name, value in view.settings.items() if name != "types"}
    types = view.settings.get("types", {})
    below = [f"[views.{key}.types]", *(f"{_key(name)} = {quoted(kind)}" for name, kind in types.items())]
    lines = [f"[views.{key}]", *_settings(settings, view), *hints, *(below if types else [])]
    return _finished(view, lines)


def _key(name: str) -> str:
    """A key of TOML, in quotes where needed."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else quoted(name)


def _finished(block: Block, lines: Sequence[str]) -> str:
    """Remarks and block; all of it is a comment if the block is disabled."""
    remarks = [
        f"# {comment(text)}" for text in ([f"Not used: {block.off}"] if block.off else []) + block.remarks
    ]
    body = [f"# {line}" if block.off else line for line in lines]
    return "\n".join([*remarks, *body, ""])


def _settings(settings: dict[str, Any], block: Block) -> Iterator[str]:
    """Lines of keys and values; alternative values follow as a comment."""
    for key, value in settings.items():
        others = block.others.get(key, [])
        behind = f"  # or {comment(', '.join(map(quoted, others)))}" if others else ""
        behind += VISIT_HINT if key == "visit" and value == "first" else ""
        first, *more = f"{key} = {_value(value)}".split("\n")
        yield first + behind if not more else first
        yield from more


VISIT_HINT = "  # the first visit of each subject"


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{key} = {_value(one)}' for key, one in value.items())} }}"
    if isinstance(value, list):
        return _list([quoted(item) for item in value])
    return quoted(value) if isinstance(value, str) else json.dumps(value)


def _list(items: Sequence[str]) -> str:
    """An array, on several lines where it is long."""
    line = f"[{', '.join(items)}]"
    return line if len(line) <= WIDTH else "\n".join(["[", *(f"    {item}," for item in items), "]"])


def _foot(plan: Plan) -> str:
    """Settings for all views."""
    return f"""[preparation]
impute = "median"  # or "knn"
# residualise = ["..."]  # covariates whose effect is removed
# controls = "..."  # the diagnosis of controls
# residualise_on = "controls"  # or "all"
# w_scores = ["..."]  # instead of residualise: deviations from controls with the same covariates
# harmonise = "combat"  # between sites

[model]
n_clusters = {plan.n_clusters}  # `viewloom fit --choose-k` estimates it
seed = 0

[ids]
match = "{plan.match}"  # "adni": PTID, RID and BIDS ids match; "bids": sub-01, 01 and 1 match
"""


def quoted(value: Any) -> str:
    """Text in quotes, on one line."""
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")


def comment(text: str) -> str:
    """Text for a comment or the command line: one line, without control characters."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
