"""Read and check study.toml before any data is read.

Every error is one line of a `StudyError`: file, line, key, the problem, and the closest valid value.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from viewloom.study import readers
from viewloom.study.cluster_names import name_problems
from viewloom.study.config.fields import Format, Kernel
from viewloom.study.config.positions import Problem, Where, in_data, messages
from viewloom.study.config.repeated import conversion_problems, followup_problems
from viewloom.study.config.schema import BLOCKS, Block, Participants, Source, Study, View, extended
from viewloom.study.errors import StudyError, check_kind
from viewloom.study.preparation.plan import contradictions
from viewloom.study.readers.files import misplaced
from viewloom.study.wording import CONTROL, nearest, quoted

__all__ = [
    "Format",
    "Kernel",
    "Participants",
    "Study",
    "View",
    "examined",
    "json_schema",
    "parse_study",
    "read_study",
    "study_text",
]

VIEW_NAME = re.compile(r"\w[\w .+-]{0,63}")  # names of views become parts of file names
LARGEST, MOST_DOTS = 2**17, 500  # bytes of a study file, and dots on one of its lines
MOST_ERRORS = 50
NO_VIEWS = "; add a block [views.<name>] with a path"
SYNTAX_HINTS = {  # pattern in a line that is not TOML -> hint
    "[\u201c\u201d\u201e\u2018\u2019]": "use straight quotes",
    r"\\": "write paths with / or between single quotes",
    r"=\s*[^\W\d]": "text needs quotes",
}


def json_schema() -> dict[str, Any]:
    """The JSON schema of study.toml, for editors."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Study.model_json_schema()}


def read_study(path: str | Path) -> Study:
    """Read study.toml and check everything that does not need the data.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    Study
        With resolved paths and known formats.

    Raises
    ------
    StudyError
        With one line per error.

    Examples
    --------
    >>> import tempfile
    >>> from viewloom import study
    >>> folder = tempfile.mkdtemp()
    >>> files = study.write_example(folder)
    >>> described = study.read_study(files[0])
    >>> list(described.views)
    ['vbm', 'freesurfer', 'fdg', 'snp']
    """
    return parse_study(study_text(Path(path)), Path(path).resolve())


def parse_study(text: str, path: Path) -> Study:
    """Parse the text of a study file; relative paths start at the folder of `path`. See `read_study`."""
    study, problems = examined(text, path)
    if problems or study is None:
        raise StudyError(messages(problems, text, path))
    return study


def examined(text: str, path: Path) -> tuple[Study | None, list[Problem]]:
    """The study of a text and its errors, each with its keys; the study is None where it cannot be made.

    Text that is not TOML is a `StudyError`. See `parse_study`.
    """
    if len(text.encode()) > LARGEST:
        raise StudyError(
            f"{path.name}: more than {LARGEST // 1024} KiB, which is too large for a study file."
        )
    data = _parsed(text, path)
    study, problems = _validated(data, path)
    if study is not None:
        checks = (
            _view_problems, _model_problems, _preparation_problems, _cluster_problems, _name_problems,
            followup_problems, conversion_problems,
        )  # fmt: skip
        found = chain.from_iterable(check(study) for check in checks)
        problems = list(islice(found, MOST_ERRORS))
    return study, problems


def study_text(path: Path) -> str:
    """The text of a study file; `StudyError` if there is none."""
    if CONTROL.search(str(path)):
        raise StudyError("The path of the study file has line breaks or other control characters; rename it.")
    check_kind(path)
    try:
        if path.stat().st_size > LARGEST:
            raise StudyError(
                f"{path.name}: more than {LARGEST // 1024} KiB, which is too large for a study file."
            )
        return path.read_text(encoding="utf-8-sig")
    except IsADirectoryError:
        raise StudyError(f"{path}: is a folder; give the study file in it.") from None
    except PermissionError:
        raise StudyError(f"{path}: permission denied.") from None
    except OSError:
        raise StudyError(f"{path}: no such study file; `viewloom init` writes one.") from None
    except UnicodeDecodeError:
        raise StudyError(f"{path.name}: not UTF-8; save it with the encoding UTF-8.") from None


def _parsed(text: str, path: Path) -> dict[str, Any]:
    _check_lines(text, path)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        reason, _, place = str(error).partition(" (at ")
        lines = text.split("\n")
        number = int(found.group(1)) if (found := re.match(r"line (\d+)", place)) else len(lines)
        hints = (hint for sign, hint in SYNTAX_HINTS.items() if re.search(sign, lines[number - 1]))
        hint = "".join(f"; {hint}" for hint in list(hints)[:1])
        raise StudyError(f"{path.name}, line {number}: not valid TOML: {reason}{hint}.") from None
    except (ValueError, RecursionError):
        raise StudyError(
            f"{path.name}: not valid TOML: a number is too large, or lists are nested too deeply."
        ) from None


def _check_lines(text: str, path: Path) -> None:
    """Refuse keys of very many parts, which take very long to parse."""
    for number, line in enumerate(text.split("\n"), start=1):
        if line.count(".") > MOST_DOTS:
            raise StudyError(f"{path.name}, line {number}: more than {MOST_DOTS} dots; break the line.")


def _validated(data: dict[str, Any], path: Path) -> tuple[Study | None, list[Problem]]:
    """The study, or the errors in its data."""
    try:
        return Study.model_validate(data, context={"path": path, "folder": path.parent}), []
    except ValidationError as error:
        problems = [_problem(found, data) for found in error.errors()[:MOST_ERRORS]]
        return None, list({problem.where: problem for problem in reversed(problems)}.values())


def _problem(error: Any, data: dict[str, Any]) -> Problem:
    """An error of pydantic in terms of study.toml."""
    where, kind, given = in_data(error["loc"], data), error["type"], error["input"]
    if kind == "missing":
        return Problem((*where, error["loc"][-1]), "is missing" + NO_VIEWS * (error["loc"] == ("views",)))
    if kind == "extra_forbidden":
        return Problem(where, f"unknown key{_instead(where)}")
    if kind == "literal_error":
        known = re.findall(r"'([^']*)'", error["ctx"]["expected"])
        return Problem(where, f"must be one of {quoted(known)}, got {given!r}{nearest(given, known)}")
    if kind == "study":
        # the key may be absent: a format that cannot be guessed; alternatives are in parentheses
        where = tuple(part for part in error["loc"] if not str(part).startswith("("))
    return Problem(where, error["msg"].replace("Input should", "should"))


def _instead(where: Where) -> str:
    """A suggestion for an unknown key: a similar key, or the block where it belongs."""
    keys = list(_block(where[:-1]).model_fields)
    hint = nearest(where[-1], keys)
    homes = [block for block, model in BLOCKS.items() if where[-1] in model.model_fields]
    elsewhere = f"; it belongs to [{homes[0]}]" if homes else f"; known are {quoted(keys)}"
    return hint or elsewhere


def _block(where: Where) -> type[Block]:
    """The model of a block."""
    name = ".".join(["views.<name>", *map(str, where[2:])] if where[:1] == ("views",) else map(str, where))
    block = BLOCKS.get(name, Study)
    return extended(block) if issubclass(block, Source) else block


def _view_problems(study: Study) -> Iterator[Problem]:
    """Errors in the blocks of views and participants."""
    if not study.views:
        yield Problem(("views",), f"there are none{NO_VIEWS}")
    if study.participants is not None:
        yield from _option_problems(study.participants, study.participants.format, ("participants",))
    for name, view in study.views.items():
        where = ("views", name)
        if not VIEW_NAME.fullmatch(name):
            yield Problem(where, "names of views are up to 64 letters, digits, spaces and . + - _ only")
        if sum(name.casefold() == other.casefold() for other in study.views) > 1:
            yield Problem(where, "another view has the same name, ignoring case")
        if (view.path is None) == (view.paths is None):
            yield Problem(where, "needs either path or paths")
        yield from _option_problems(view, view.format, where)


def _option_problems(source: Source, format: str, where: Where) -> Iterator[Problem]:
    """Options that the reader of a format does not have, and required options that are missing."""
    known = readers.FORMATS[format].options
    for option in source.options:
        if option not in known:
            homes = [name for name in readers.FORMATS if readers.takes(name, option)]
            belongs = f"; it belongs to {quoted(homes)}" if homes else ""
            yield Problem((*where, option), f"not an option of format {format!r}{belongs}")
    paths = [getattr(source, "path", None), *(getattr(source, "paths", None) or [])]
    for path in paths if {"sheet", "object"} <= set(known) else []:
        for option, why in misplaced(path, source.options).items() if path else ():
            yield Problem((*where, option), f"not an option of {why}")
    for option in readers.FORMATS[format].required:
        if option not in source.options:
            yield Problem((*where, option), f"is missing; format {format!r} needs it")


def _model_problems(study: Study) -> Iterator[Problem]:
    """Settings per view that do not match the views of the study."""
    for key in ("kernel", "lam", "theta", "scale"):
        setting = getattr(study.model, key)
        if isinstance(setting, dict):
            yield from _per_view_problems(setting, study.views, ("model", key))


def _per_view_problems(setting: dict[str, Any], views: Iterable[str], where: Where) -> Iterator[Problem]:
    for name in setting:
        if name not in views:
            yield Problem((*where, name), f"there is no such view{nearest(name, views)}")
    absent = [name for name in views if name not in setting]
    if absent:
        yield Problem(where, f"has no entry for view {quoted(absent)}")


def _preparation_problems(study: Study) -> Iterator[Problem]:
    """Preparation that needs columns that [participants] does not name."""
    preparation, people = study.preparation, study.participants
    covariates = people.covariates if people else []
    for key in ("residualise", "w_scores"):
        for name in getattr(preparation, key):
            if name not in covariates:
                hint = nearest(name, covariates) or "; list it there"
                yield Problem(("preparation", key), f"{name!r} is not among participants.covariates{hint}")
    for name in preparation.genotypes:
        if name not in study.views:
            hint = nearest(name, study.views)
            yield Problem(("preparation", "genotypes"), f"there is no view {name!r}{hint}")
    for key, why in contradictions(study.plan):
        yield Problem(("preparation", key), why)


def _cluster_problems(study: Study) -> Iterator[Problem]:
    """Rules and settings of [cluster] that need what the study does not have."""
    people, cluster = study.participants, study.cluster
    for rule in study.rules:
        if rule.view is None and people is None:
            hint = nearest(rule.name, [f"{view}." for view in study.views]) if "." in rule.name else ""
            needs = hint or "; write view.column for a column of a view, or add [participants]"
            yield Problem(("cluster", rule.key, rule.name), f"there are no participants{needs}")
    column = cluster.severity_column
    if column is not None and people is None:
        yield Problem(
            ("cluster", "remove_severity"), f"column {column!r} needs [participants]; or set it to 'common'"
        )
    if cluster.sensitivity and not (people and people.diagnosis and study.preparation.controls):
        needs = "preparation.controls and participants.diagnosis"
        yield Problem(("cluster", "sensitivity"), f"'with-controls' needs {needs}")
    elif cluster.sensitivity and not study.rules:
        yield Problem(
            ("cluster", "sensitivity"),
            "'with-controls' needs rules: without include or exclude the controls are clustered already",
        )


def _name_problems(study: Study) -> Iterator[Problem]:
    """Names of clusters that cannot be used."""
    if study.cluster.names:
        for problem in name_problems(study.cluster.names, study.model.n_clusters):
            yield Problem(("cluster", "names"), problem)
