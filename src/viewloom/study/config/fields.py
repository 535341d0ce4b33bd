"""What the keys of study.toml may hold."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
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
from viewloom.study.readers.visits import NEAREST
from viewloom.study.wording import CONTROL, nearest


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
        raise mistake(f"no such file or folder: {value}{nearest(name, siblings, 0.8)}")
    if kind := special(path):
        raise mistake(f"{value} is {kind}; only files and folders are read")
    return Path(path)


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


def _shape(value: Any) -> str:
    """Whether a setting is one for all views or columns, or a table with one for each."""
    return "(each)" if isinstance(value, dict) else "(one)"


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
VisitList = Annotated[list[Visit], BeforeValidator(_as_visits)]
CodesPerColumn = Annotated[
    Annotated[list[Code], Tag("(one)")] | Annotated[dict[str, list[Code]], Tag("(each)")],
    Discriminator(_shape),
]
