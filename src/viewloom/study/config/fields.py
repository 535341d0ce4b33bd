"""What the keys of study.toml may hold."""

from __future__ import annotations

import glob
import math
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import translate
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Discriminator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    Tag,
    ValidationInfo,
)
from pydantic_core import CoreSchema, PydanticCustomError, PydanticKnownError, core_schema

from viewloom.clinical import as_categories
from viewloom.kernels.graphs import GRAPHS
from viewloom.kernels.pairwise import Precomputed
from viewloom.kernels.registry import KERNELS
from viewloom.runtime.files import special
from viewloom.solver.updates import PROJECTIONS
from viewloom.study import readers
from viewloom.study.ids import STYLES
from viewloom.study.readers.expressions import ConditionError
from viewloom.study.readers.expressions import parse as parse_condition
from viewloom.study.readers.visits import NEAREST
from viewloom.study.wording import CONTROL, nearest

PATTERN = re.compile(r"[*?\[]|{chr}")  # of several files


@dataclass(frozen=True)
class OneOf:
    """A text that must be one of the names of a registry, as it is when the text is checked."""

    names: Callable[[], Iterable[str]]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self._checked)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"type": "string", "enum": list(self.names())}

    def _checked(self, value: Any) -> str:
        known = list(self.names())
        if not isinstance(value, str) or value not in known:
            raise PydanticKnownError("literal_error", {"expected": ", ".join(map(repr, known))})
        return value


def _kernels() -> list[str]:
    """Kernels of tables; a study has no kernel matrices."""
    return [name for name, kernel in KERNELS.items() if kernel is not Precomputed]


Format = Annotated[str, OneOf(lambda: readers.FORMATS)]
ParticipantsFormat = Annotated[str, OneOf(readers.participants_formats)]
Kernel = Annotated[str, OneOf(_kernels)]
Graph = Annotated[str, OneOf(lambda: GRAPHS)]
Membership = Annotated[str, OneOf(lambda: PROJECTIONS)]
Match = Annotated[str, OneOf(lambda: STYLES)]


def mistake(text: str) -> PydanticCustomError:
    """An error for pydantic to collect with its place, in our words."""
    return PydanticCustomError("study", "{text}", {"text": text})


def _as_list(value: Any) -> Any:
    """A single name where several are allowed."""
    return [value] if isinstance(value, str) else value


def _as_text(value: Any) -> Any:
    """Codes such as ``controls = 0`` are text, as in a table."""
    return str(value) if type(value) is int else value


def _as_codes(value: Any) -> Any:
    """One or several codes, as text."""
    return [_as_code(code) for code in (value if isinstance(value, list) else [value])]


def _as_code(value: Any) -> Any:
    """A code as text; numbers are spelled as in tables, where 1.0 is 1."""
    return as_categories([value])[0] if isinstance(value, float) else _as_text(value)


def _checked_codes(codes: list[str]) -> list[str]:
    """Codes of a rule, at least one."""
    if not codes:
        raise mistake("names no group; list the groups, or leave the rule out")
    return codes


def _checked_range(ends: dict[str, float]) -> dict[str, float]:
    """A range with an end, whose ends are in order."""
    if not ends:
        raise mistake("needs min or max")
    if ends.get("min", -math.inf) > ends.get("max", math.inf):
        raise mistake(f"min is above max: {ends['min']:g} and {ends['max']:g}")
    return ends


def _existing(value: Any, info: ValidationInfo) -> Path:
    """A path relative to the study file; it must exist."""
    if not isinstance(value, str | Path) or not str(value).strip():
        raise mistake("must be a path in quotes")
    if CONTROL.search(str(value)):
        raise mistake("a path must not hold line breaks or other control characters; rename the file")
    path = os.path.realpath(Path((info.context or {}).get("folder", ""), value))
    if not os.path.exists(path):
        folder, name = os.path.split(path)
        siblings = os.listdir(folder) if os.access(folder, os.R_OK) else []
        hint = "; a pattern belongs under paths" if PATTERN.search(name) else nearest(name, siblings, 0.8)
        raise mistake(f"no such file or folder: {value}{hint}")
    if kind := special(path):
        raise mistake(f"{value} is {kind}; only files and folders are read")
    return Path(path)


def matching_files(value: Any, info: ValidationInfo) -> Any:
    """Paths, with patterns replaced by the files that match them, in the order of their numbers."""
    found = list[Any]()
    for entry in [value] if isinstance(value, str) else value if isinstance(value, list) else [value]:
        folder = Path((info.context or {}).get("folder", ""))
        if not isinstance(entry, str) or not PATTERN.search(entry) or (folder / entry).exists():
            found.append(entry)
            continue
        files = [path for path in _glob(folder, entry) if _of_chromosome(path, entry)]
        if not files:
            raise mistake(f"no file matches {entry}")
        found += sorted(files, key=_by_number)
    return found if isinstance(value, str | list) else value


def _glob(folder: Path, pattern: str) -> list[str]:
    whole = os.path.join(glob.escape(str(folder)), pattern.replace("{chr}", "*"))
    return [os.path.relpath(path, folder) for path in glob.glob(whole) if os.path.isfile(path)]


def _of_chromosome(path: str, pattern: str) -> bool:
    """Whether what stands for {chr} is a chromosome."""
    if "{chr}" not in pattern:
        return True
    parts = [translate(part).removeprefix("(?s:").removesuffix(r")\Z") for part in pattern.split("{chr}")]
    return re.fullmatch(r"(\d{1,2}|X|Y|XY|MT?)".join(parts), path) is not None


def _by_number(path: str) -> list[tuple[int, str]]:
    """chr2 before chr10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.findall(r"\d+|\D+", path)]


def _pruning(value: dict[str, float]) -> dict[str, float]:
    """The settings of pruning."""
    unknown = set(value) - {"window", "step", "r2"}
    if unknown:
        raise mistake(f"unknown key {min(unknown)}; it has window, step and r2")
    whole = all(value.get(key, 1) >= 1 and value.get(key, 1) % 1 == 0 for key in ("window", "step"))
    if not whole or not 0 < value.get("r2", 0.2) <= 1 or value.get("window", 50) > 10_000:
        raise mistake("needs whole numbers for window (in variants, up to 10000) and step, and r2 up to 1")
    return value


def _as_visits(value: Any) -> Any:
    """A single visit where several are allowed."""
    return value if isinstance(value, list) else [value]


def _month(value: dict[Any, float]) -> dict[Any, float]:
    """Months with their tolerance."""
    if set(value) != {"months", "within"} or not value["within"] >= 0:
        raise mistake("needs months, and within, which must not be negative: { months = 12, within = 3 }")
    return value


def _rule(value: str) -> str:
    """A visit that can be chosen."""
    if value.startswith(NEAREST) and not value.removeprefix(NEAREST).strip():
        raise mistake("needs a column of dates: 'nearest:EXAMDATE'")
    return value


def _condition(value: str) -> str:
    """A condition on rows that can be parsed."""
    try:
        parse_condition(value)
    except ConditionError as error:
        raise mistake(str(error)) from None
    return value


def id_shape(value: Any) -> str:
    """Whether ids are given by a column, or by a table with a pattern."""
    return "(one)" if isinstance(value, str) or not isinstance(value, dict | BaseModel) else "(each)"


def type_shape(value: Any) -> str:
    """Whether the type of a column is a word, a list of levels, or a table of their spellings."""
    return "(each)" if isinstance(value, dict) else "(levels)" if isinstance(value, list) else "(one)"


def _levels(value: list[Any]) -> list[Any]:
    """Levels in order, each once, at least two."""
    if len(value) < 2 or len({str(level) for level in value}) < len(value):
        raise mistake("needs at least two different levels, from low to high")
    return value


def _shape(value: Any) -> str:
    """Whether a setting is one for all views or columns, or a table with one for each."""
    return "(each)" if isinstance(value, dict) else "(one)"


Condition = Annotated[str, AfterValidator(_condition)]
Names = Annotated[list[str], BeforeValidator(_as_list)]
Code = int | float | str
Codes = Annotated[list[str], BeforeValidator(_as_codes)]
Text = Annotated[str, BeforeValidator(_as_text)]
File = Annotated[Path, BeforeValidator(_existing)]
Share = Annotated[float, Field(ge=0, le=1)]
Weight = Annotated[float, Field(ge=0)]
KernelPerView = Annotated[
    Annotated[Kernel, Tag("(one)")] | Annotated[dict[str, Kernel], Tag("(each)")], Discriminator(_shape)
]
Scale = Literal["auto", "standard", "centre", "unit", "none"]
ScalePerView = Annotated[
    Annotated[Scale, Tag("(one)")] | Annotated[dict[str, Scale], Tag("(each)")], Discriminator(_shape)
]
WeightPerView = Annotated[
    Annotated[Weight, Tag("(one)")] | Annotated[dict[str, Weight], Tag("(each)")], Discriminator(_shape)
]
Groups = Annotated[list[str], BeforeValidator(_as_codes), AfterValidator(_checked_codes)]
Range = Annotated[dict[Literal["min", "max"], float], AfterValidator(_checked_range)]
Rules = dict[
    str, Annotated[Annotated[Groups, Tag("(one)")] | Annotated[Range, Tag("(each)")], Discriminator(_shape)]
]
Month = Annotated[dict[str, float], AfterValidator(_month)]
Visit = Annotated[
    Annotated[Annotated[Text, AfterValidator(_rule)], Tag("(one)")] | Annotated[Month, Tag("(each)")],
    Discriminator(_shape),
]
Pruning = Annotated[dict[str, float], AfterValidator(_pruning)]
VisitList = Annotated[list[Visit], BeforeValidator(_as_visits)]
CodesPerColumn = Annotated[
    Annotated[list[Code], Tag("(one)")] | Annotated[dict[str, list[Code]], Tag("(each)")],
    Discriminator(_shape),
]
ColumnType = Annotated[
    Annotated[Literal["continuous", "ordinal", "nominal", "binary"], Tag("(one)")]
    | Annotated[list[Code], AfterValidator(_levels), Tag("(levels)")]
    | Annotated[dict[str, list[Code]], Tag("(each)")],
    Discriminator(type_shape),
]
