"""A plan as the text of study.toml, and as lines for the console."""

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
SHOWN = 8  # files of one kind that are told one by one
EXAMPLES = 3  # files that are told of more
HINTS = {
    "table": ('# transform = "log"  # or "log1p", "sqrt"', "# missing_codes = [-4]"),
    "long": ("# missing_codes = [-4]",),
}
SUBJECTS = re.compile(r"((?:sub|ses)-)[0-9A-Za-z]+")  # ids are never told
NUMBERS = re.compile(r"()\d+")
ROLES = ("diagnosis", "site", "covariates", "outcomes")


def study_text(plan: Plan) -> str:
    """The study file: blocks below what was decided, and at the foot the files that are not used."""
    people = [_no_people()] if plan.people is None else [_people_text(plan.people)]
    views = [_view_text(view) for view in [*plan.active, *(view for view in plan.views if view.off)]]
    passed = list(passed_lines(plan))
    foot = "\n".join(["# Files that were passed over:", *(f"# - {comment(line)}" for line in passed), ""])
    return "\n".join([_head(plan), *people, *views, _foot(plan), *([foot] if passed else [])])


def used_lines(plan: Plan) -> Iterator[str]:
    """What is used as what."""
    if plan.people is not None and not plan.people.off:
        yield f"{_label(plan.people)}: participants; {'; '.join([*plan.people.said, *_named(plan.people)])}"
    for view in plan.active:
        yield f"{_label(view)}: view {view.name!r}; {'; '.join(view.said)}"


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
    """Files that are not used: one line each, or a few and how many more are like them."""
    yield from dict.fromkeys(_off_lines(plan))
    told: dict[str, list[tuple[str, str, int]]] = defaultdict(list)
    for label, why, count in plan.passed:
        told[re.sub(r"\d+|'[^']*'", "#", why)].append((label, why, count))
    for alike in told.values():
        yield from _told(alike)


def _off_lines(plan: Plan) -> Iterator[str]:
    """Sources that were recognised and cannot be used, apart from files that are used as something else."""
    blocks = [block for block in [plan.people, *plan.views] if block is not None]
    used = {_label(block) for block in blocks if not block.off} if plan.active else set()
    for block in blocks:
        if block.off and _label(block) not in used:
            said = f"{block.said[0]}; " if block.said else ""
            yield f"{_label(block)}: {said}{'left as a comment: ' if plan.active else ''}{block.off}"


def _told(alike: Sequence[tuple[str, str, int]]) -> Iterator[str]:
    """Files passed over for one reason; names that differ in subjects or numbers count as one."""
    merged = _merged(alike, SUBJECTS)
    merged = merged if len(merged) <= SHOWN else _merged(merged, NUMBERS)
    shown = merged if len(merged) <= SHOWN else merged[:EXAMPLES]
    for label, why, count in shown:
        times = f" ({counted(count, 'file')})" if count > 1 else ""
        yield f"{label}{times}: {why}"
    left = sum(count for _, _, count in merged[len(shown) :])
    if left:
        yield f"{left} more like this"


def _merged(alike: Sequence[tuple[str, str, int]], varying: re.Pattern[str]) -> list[tuple[str, str, int]]:
    """Files whose names are the same but for what varies, counted."""
    found: dict[str, tuple[str, str, int]] = {}
    for label, why, count in alike:
        plain = varying.sub(r"\1*", label)
        _, first, before = found.get(plain, ("", why, 0))
        found[plain] = (plain, first, before + count)
    return list(found.values())


def _label(block: Block) -> str:
    """The file or files of a block, in a few words."""
    paths = block.settings.get("paths") or [block.settings["path"]]
    shown = ["this folder" if path == "." else path for path in paths[:SHOWN]]
    ends = sorted({path.suffix for path in block.files} - {Path(path).suffix for path in paths})
    beside = f" with {' and '.join(ends)}" if ends else ""
    return ", ".join(shown) + (f" and {len(paths) - SHOWN} more" if len(paths) > SHOWN else "") + beside


def _head(plan: Plan) -> str:
    return f"""# Drafted by looking at the files of this folder; read it through.
# `viewloom check study.toml` shows who has what, `viewloom fit study.toml` runs it.

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
    key = view.name if re.fullmatch(r"[A-Za-z0-9_-]+", view.name) else quoted(view.name)
    hints = [hint for hint in HINTS.get(view.settings["format"], ()) if not view.off]
    return _finished(view, [f"[views.{key}]", *_settings(view.settings, view), *hints])


def _finished(block: Block, lines: Sequence[str]) -> str:
    """What was said, then the block, all a comment where it is switched off."""
    said = [f"# {comment(text)}" for text in ([f"Not used: {block.off}"] if block.off else []) + block.said]
    body = [f"# {line}" if block.off else line for line in lines]
    return "\n".join([*said, *body, ""])


def _settings(settings: dict[str, Any], block: Block) -> Iterator[str]:
    """Lines of keys and values; other values that a key might have follow as a comment."""
    for key, value in settings.items():
        others = block.others.get(key, [])
        behind = f"  # or {comment(', '.join(map(quoted, others)))}" if others else ""
        behind += VISIT_HINT if key == "visit" and value == "first" else ""
        first, *more = f"{key} = {_value(value)}".split("\n")
        yield first + behind if not more else first
        yield from more


VISIT_HINT = "  # the first visit of each subject"


def _value(value: Any) -> str:
    if isinstance(value, list):
        return _list([quoted(item) for item in value])
    return quoted(value) if isinstance(value, str) else json.dumps(value)


def _list(items: Sequence[str]) -> str:
    """An array, on several lines where it is long."""
    line = f"[{', '.join(items)}]"
    return line if len(line) <= WIDTH else "\n".join(["[", *(f"    {item}," for item in items), "]"])


def _foot(plan: Plan) -> str:
    """Settings that hold for all views."""
    return f"""[preparation]
impute = "median"  # or "knn"
# residualise = ["..."]  # covariates whose effect is to be taken out
# controls = "..."  # the value of diagnosis that controls have
# residualise_on = "controls"  # or "all"
# harmonise = "combat"  # between sites

[model]
n_clusters = {plan.n_clusters}
seed = 0

[ids]
match = "{plan.match}"  # "adni": PTID, RID and BIDS spellings are one subject; "bids": sub-01, 01 and 1 are
"""


def quoted(value: Any) -> str:
    """Text between quotes; whatever a name holds, it stays on its line."""
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")


def comment(text: str) -> str:
    """Text for a comment or the console: one line, without control characters."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
