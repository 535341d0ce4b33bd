"""The blocks of study.toml and their keys."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PrivateAttr,
    SerializeAsAny,
    Tag,
    ValidationInfo,
    create_model,
    field_validator,
    model_validator,
)
from pydantic_core import CoreSchema, core_schema

from viewloom.study import readers
from viewloom.study.config.fields import (
    Code,
    Codes,
    CodesPerColumn,
    ColumnType,
    Condition,
    File,
    Format,
    Graph,
    KernelPerView,
    Match,
    Membership,
    Names,
    ParticipantsFormat,
    Pruning,
    Rules,
    ScalePerView,
    Share,
    Text,
    Visit,
    VisitList,
    Weight,
    WeightPerView,
    id_shape,
    matching_files,
    mistake,
)
from viewloom.study.config.rules import Rule, rules_of
from viewloom.study.ids import pattern_problem
from viewloom.study.wording import quoted

SCHEDULER = re.compile(r"(?:tcp|tls|ws|wss|ucx)://\S+:\d+")
MEMORY = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]i?B)", re.IGNORECASE)
UNITS = {
    f"{letter}{kind}b": base**power
    for power, letter in enumerate("kmgt", start=1)
    for kind, base in (("", 1000), ("i", 1024))
}
COMMON = re.compile(r"common(:[1-9])?")  # instead of a column of severity: common components of the views
NOT_OPTIONS = {
    "path", "paths", "format", "transform", "diagnosis", "covariates", "site", "outcomes", "survival",
    "categorical", "levels", "columns_from",
}  # fmt: skip


S = TypeVar("S", bound="Source")


class Block(BaseModel):
    """A block of study.toml; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class About(Block):
    """``[study]``."""

    name: str = Field(default="study", description="Title of the report.")


class IdPattern(Block):
    r"""``id = { column = "...", pattern = "sub-(OAS\\d+)" }``."""

    column: str | None = Field(default=None, description="Column of ids; for formats without one, left out.")
    pattern: str = Field(description="Regular expression; its group is the id, (?P<visit>...) the visit.")

    @field_validator("pattern")
    @classmethod
    def _valid(cls, value: str) -> str:
        problem = pattern_problem(value)
        if problem:
            raise mistake(problem)
        return value


IdColumn = Annotated[
    Annotated[str, Tag("(one)")] | Annotated[IdPattern, Tag("(each)")], Discriminator(id_shape)
]


class Source(Block):
    """How to read a table. Each format has the keys that its reader accepts."""

    id: IdColumn | None = Field(
        default=None,
        description="Column of the subject's id, or { column = '...', pattern = 'sub-(OAS\\d+)' }.",
    )
    visit: Visit | None = Field(
        default=None,
        description="Visit to keep: 'bl', 'first', 'last', 'nearest:<date column>', or "
        "{ months = 0, within = 6 }.",
    )
    visit_column: str | None = Field(default=None, description="Column that names the visit.")
    date: str | None = Field(
        default=None, description="Column of the date of the visit, or of days since the entry."
    )
    missing_codes: CodesPerColumn | None = Field(
        default=None,
        description="Values that mean missing: [-4], or { 'ST*' = [-4], ... }; [] declares none.",
    )
    delimiter: str | None = Field(default=None, description="Detected by default.")
    decimal: Literal[".", ","] | None = Field(default=None, description="Detected by default.")
    thousands: Literal[".", ",", " ", "'"] | None = Field(
        default=None, description="Thousands separator; none by default."
    )
    encoding: str | None = Field(default=None, description="Such as 'cp1252'; detected by default.")
    subjects: list[str] | None = Field(
        default=None, description="matrix: patterns of the columns of subjects; by default all of numbers."
    )
    sheet: str | int | None = Field(
        default=None, description="Workbooks: name of the sheet, or its number from 1."
    )
    object: str | None = Field(default=None, description="RData: name of the data frame.")
    rows: Condition | None = Field(
        default=None, description="Rows to keep, such as \"QC == 'Pass' and AGE >= 55\"."
    )
    rename: dict[str, str] | None = Field(
        default=None, description="New names of columns: { 'name in the file' = 'new name' }."
    )
    dictionary: File | None = Field(
        default=None, description="UCSFFSX, ukb, muse: the table that names codes, fields or regions."
    )
    instance: Annotated[int, Field(ge=0, le=99)] | None = Field(
        default=None, description="ukb: instance to keep, such as 2 for the first imaging visit."
    )
    arrays: Literal["error", "drop", "mean", "first", "all"] | None = Field(
        default=None, description="ukb: what to do with fields of several array elements."
    )

    @property
    def options(self) -> dict[str, Any]:
        """Options for the reader: the keys that are set, except those of the study itself."""
        given = [key for key in type(self).model_fields if key in self.model_fields_set - NOT_OPTIONS]
        found = {key: getattr(self, key) for key in given}
        if isinstance(self.id, IdPattern):
            found["id"] = self.id.column
        return {key: value for key, value in found.items() if value is not None or key != "id"}

    @property
    def id_pattern(self) -> str | None:
        """The pattern of ids."""
        return self.id.pattern if isinstance(self.id, IdPattern) else None

    @property
    def part(self) -> dict[str, Any]:
        """What chooses one of several tables of a file."""
        return {"sheet": self.sheet, "object": self.object}


def _sniffed(path: Path, info: ValidationInfo) -> str | None:
    return readers.sniff(path, {key: info.data.get(key) for key in ("sheet", "object")})


class Survival(Block):
    """``survival = { time = "...", event = "..." }``."""

    time: str = Field(description="Column of the follow-up time.")
    event: str = Field(description="Column of the event: 1 if observed, 0 if censored.")

    @property
    def columns(self) -> tuple[str, str]:
        """Columns of the time and of the event."""
        return self.time, self.event


class Conversion(Block):
    """``survival = { converts_to = "AD", among = "MCI" }``: derived from the diagnoses at all visits."""

    converts_to: Codes = Field(min_length=1, description="Diagnosis of the event, or several diagnoses.")
    among: Codes = Field(
        default=[], description="Diagnoses at the start; by default all others than converts_to."
    )

    @property
    def columns(self) -> tuple[str, str]:
        """Columns of the time and of the event, which are added to the participants."""
        event = f"conversion to {' or '.join(self.converts_to)}"
        return f"years to {event}", event


def _kind_of_survival(value: Any) -> str:
    derived = "converts_to" in value if isinstance(value, dict) else isinstance(value, Conversion)
    return "(derived)" if derived else "(columns)"


class Participants(Source):
    """``[participants]``: diagnosis, covariates and outcomes, one row per subject."""

    path: File = Field(description="The table, relative to study.toml.")
    format: ParticipantsFormat = Field(
        default=None, validate_default=True, description="Detected by default."
    )
    diagnosis: str | None = Field(default=None, description="Column of the diagnosis.")
    covariates: Names = Field(default=[], description="Columns such as age, sex, education and ICV.")
    site: str | None = Field(default=None, description="Column of the site or scanner.")
    outcomes: Names = Field(default=[], description="Columns that clusters are compared on.")
    survival: (
        Annotated[
            Annotated[Survival, Tag("(columns)")] | Annotated[Conversion, Tag("(derived)")],
            Discriminator(_kind_of_survival),
        ]
        | None
    ) = Field(default=None, description="Time to an event, such as conversion.")
    categorical: Names = Field(
        default=[], description="Columns that are categorical even if their cells are numbers."
    )
    levels: dict[str, dict[str, list[Code]]] = Field(
        default={}, description="Spellings of one level: { sex = { M = ['m', 'Male'] } }."
    )
    _of_cluster: tuple[tuple[str, str], ...] = PrivateAttr(())  # columns that [cluster] names, with their key

    @field_validator("format", mode="before")
    @classmethod
    def _guess(cls, value: Any, info: ValidationInfo) -> Any:
        """Detect the format; by default a table."""
        found = _sniffed(info.data["path"], info) if value is None and "path" in info.data else value
        return found if value is not None or found in readers.participants_formats() else "table"

    @property
    def inputs(self) -> list[Path]:
        """Input files."""
        return [path for path in (self.path, self.dictionary) if path is not None]

    @property
    def named_columns(self) -> list[tuple[str, str]]:
        """Pairs of key and column, for every column that the study names."""
        pairs = [("diagnosis", self.diagnosis), ("site", self.site)]
        pairs += [("covariates", name) for name in self.covariates]
        pairs += [("outcomes", name) for name in self.outcomes]
        if isinstance(self.survival, Survival):
            pairs += [("survival", name) for name in self.survival.columns]
        named = [name for _, name in pairs]
        pairs += [(key, name) for key, name in self._of_cluster if name not in named]
        return [(key, name) for key, name in pairs if name is not None]


class View(Source):
    """``[views.<name>]``: one table of features."""

    path: File | None = Field(default=None, description="File or folder, relative to study.toml.")
    paths: list[File] | None = Field(
        default=None, min_length=1, description="Several files, instead of path."
    )
    format: Format = Field(
        default=None, validate_default=True, description="Detected from the file by default."
    )
    transform: Literal["none", "log", "log1p", "sqrt"] = Field(
        default="none", description="Transformation of all values."
    )
    columns: Names | None = Field(
        default=None, description="Columns to keep: names, or patterns such as 'ST*'."
    )
    exclude: Names | None = Field(default=None, description="Columns to leave out: names or patterns.")
    columns_from: File | None = Field(
        default=None,
        description="Run folder, model or study file whose names of columns are used; case and punctuation "
        "may differ.",
    )
    types: dict[str, ColumnType] | None = Field(
        default=None,
        description="Types of columns: { apoe = 'ordinal', grade = ['low', 'high'], 'hx_*' = 'nominal', "
        "smoker = { yes = ['Y', 'ja'] } }; 'continuous', 'ordinal', 'nominal', 'binary', levels from low to "
        "high, or spellings of levels.",
    )
    name: Names | None = Field(default=None, description="Long tables: column(s) of the feature's name.")
    value: str | None = Field(default=None, description="Long tables, fdg: column of the value.")
    code: str | None = Field(default=None, description="codes: column of the code, such as a diagnosis.")
    digits: int | None = Field(
        default=None, ge=1, description="codes: number of characters to which codes are cut."
    )
    repeats: Literal["error", "mean"] | None = Field(
        default=None, description="Long tables: what to do with several values of one feature."
    )
    atlas: str | None = Field(
        default=None, description="FreeSurfer, CAT12: such as 'aparc' or 'neuromorphometrics'."
    )
    measures: Names | None = Field(
        default=None, description="FreeSurfer, UCSFFSX, CAT12, adni-pet: such as ['thickness'], ['Vgm']."
    )
    hemispheres: Names | None = Field(default=None, description="FreeSurfer: such as ['lh', 'rh'].")
    longitudinal: bool | None = Field(default=None, description="FreeSurfer: read the longitudinal runs.")
    global_measures: bool | None = Field(
        default=None, description="FreeSurfer, CAT12: include global measures such as eTIV."
    )
    require_qc: bool | None = Field(
        default=None, description="UCSFFSX, adni-pet: keep only runs that passed quality control."
    )
    tracer: str | None = Field(default=None, description="adni-pet: tracer to keep, such as 'FBP'.")
    reference_region: str | None = Field(
        default=None, description="adni-pet: region by which SUVR are divided, such as 'COMPOSITE_REF'."
    )
    rois: Literal["single", "derived", "all"] | None = Field(
        default=None, description="muse: single regions, or derived ones, which are sums of them."
    )
    statistics: dict[str, str] | None = Field(
        default=None,
        description="caps, clinica-merge: which to read, such as { pipeline = 'pet', atlas = 'AAL2' }.",
    )
    statistic: Literal["mean", "median", "sum"] | None = Field(
        default=None, description="nifti: value of a region; the sum is that of volumes, in ml."
    )
    files: str | None = Field(
        default=None, description="nifti: pattern of names of maps, such as 'mwp1*.nii'."
    )
    resample: bool | None = Field(
        default=None, description="nifti: put the atlas on the grid of maps that have another one."
    )
    cache: bool | None = Field(
        default=None, description="nifti: keep the values of maps, by a hash of map and atlas."
    )
    atlas_image: File | None = Field(
        default=None, description="nifti: label atlas, in the space of the maps."
    )
    atlas_labels: File | None = Field(
        default=None, description="nifti: numbers and names of the regions of the atlas."
    )
    min_maf: Annotated[float, Field(ge=0, le=0.5)] | None = Field(
        default=None, description="Genotypes: minimum minor allele frequency."
    )
    min_call_rate: Share | None = Field(default=None, description="Genotypes: minimum call rate.")
    min_info: Share | None = Field(default=None, description="Genotypes: minimum quality of imputation.")
    variants: Names | None = Field(default=None, description="Genotypes: variants to keep.")
    variants_from: File | None = Field(
        default=None, description="Genotypes: file with the names of the variants to keep, one per line."
    )
    regions: Names | None = Field(
        default=None, description="Genotypes: regions to keep, such as '19:44905000-44910000'."
    )
    regions_from: File | None = Field(default=None, description="Genotypes: BED file of regions to keep.")
    genes: Names | None = Field(
        default=None, description="Genotypes: genes to keep, the fourth column of regions_from."
    )
    ld_prune: Pruning | None = Field(
        default=None, description="Genotypes: prune as plink --indep-pairwise: { window, step, r2 }."
    )
    scores: list[File] | None = Field(
        default=None, min_length=1, description="Genotypes: files of weights of polygenic scores."
    )
    max_absent: Share | None = Field(
        default=None, description="Genotypes: share of a model's or score's variants that may be absent."
    )
    sample: File | None = Field(default=None, description="BGEN: .sample file with the ids.")
    field: Literal["GT", "DS"] | None = Field(default=None, description="VCF: calls or dosages.")
    modality: str | None = Field(default=None, description="h5mu: name of the modality.")
    layer: str | None = Field(default=None, description="h5ad, h5mu: layer to read instead of X.")

    @field_validator("paths", mode="before")
    @classmethod
    def _expanded(cls, value: Any, info: ValidationInfo) -> Any:
        """Files that match a pattern, such as 'chr*.pgen' or 'chr{chr}.pgen'."""
        return matching_files(value, info)

    @field_validator("format", mode="before")
    @classmethod
    def _guess(cls, value: Any, info: ValidationInfo) -> Any:
        """Detect the format."""
        files = [info.data.get("path"), *(info.data.get("paths") or [])]
        given = [path for path in files if path is not None]
        if value is not None or not given:  # no path is an error of its own
            return "table" if value is None else value
        found = _sniffed(given[0], info)
        if found is None:
            raise mistake(f"is missing and cannot be guessed; set it to one of {quoted(readers.FORMATS)}")
        return found

    @property
    def source(self) -> Path | list[Path]:
        """The path, or the list of paths."""
        return list(self.paths or []) if self.path is None else self.path

    @property
    def inputs(self) -> list[Path]:
        """Input files and folders."""
        beside = (self.dictionary, self.variants_from, self.regions_from, *(self.scores or []), self.sample)
        beside = (*beside, self.atlas_image, self.atlas_labels)
        return [path for path in (self.path, *(self.paths or []), *beside) if path is not None]

    @property
    def counts_alleles(self) -> bool:
        """Whether values are allele counts: of genotypes, but not of their scores."""
        return readers.FORMATS[self.format].genotypes and not self.scores


def extended(block: type[S]) -> type[S]:
    """A block of a source with the options that only some readers have; formats may be added at any time."""
    names = readers.participants_formats() if block is Participants else readers.FORMATS
    known = {*View.model_fields, *Participants.model_fields}
    own: dict[str, readers.Format] = {}
    for format in map(readers.FORMATS.__getitem__, names):
        own |= {option: format for option in format.own_options(known) if option not in own}
    return _with_options(block, tuple(own.items())) if own else block


@lru_cache(maxsize=16)
def _with_options(block: type[S], options: tuple[tuple[str, readers.Format], ...]) -> type[S]:
    """The model of a block with more keys, each with the type that its reader gives it."""
    fields: dict[str, Any] = {name: (format.own_options(())[name] | None, None) for name, format in options}
    return create_model(block.__name__, __base__=block, **fields)


@dataclass(frozen=True)
class Extended:
    """Checks a block by the `extended` model of the moment."""

    block: type[Source]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.with_info_wrap_validator_function(self._checked, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        model = extended(self.block)
        return handler(schema if model is self.block else model.__pydantic_core_schema__)

    def _checked(self, value: Any, plain: Callable[[Any], Source], info: ValidationInfo) -> Source:
        model = extended(self.block)
        return plain(value) if model is self.block else model.model_validate(value, context=info.context)


class Preparation(Block):
    """``[preparation]``: fitted on training subjects and stored with the model."""

    impute: Literal["median", "knn"] = Field(
        default="median", description="How missing cells of observed rows are imputed."
    )
    n_neighbors: int = Field(default=5, ge=1, description="Number of neighbors for knn.")
    genotypes: Names = Field(
        default=[], description="Views of allele counts (0 to 2), besides those read from PLINK."
    )
    residualise: Names = Field(default=[], description="Covariates whose effect is removed from every view.")
    residualise_on: Literal["controls", "all"] = Field(
        default="controls", description="Subjects in whom these effects are estimated."
    )
    w_scores: Names = Field(
        default=[],
        description="Covariates; every feature becomes its deviation from controls with the same covariates, "
        "in their standard deviations.",
    )
    splines: Names = Field(
        default=[], description="Numeric covariates whose effect is a spline instead of linear."
    )
    controls: Codes = Field(default=[], description="Diagnosis of the controls, or several diagnoses.")
    harmonise: Literal["none", "combat"] = Field(default="none", description="Harmonisation between sites.")
    harmonise_on: Literal["all", "controls"] = Field(
        default="all", description="Subjects in whom the effects of sites are estimated."
    )
    min_site: int = Field(
        default=5, ge=2, description="Minimum number of subjects; smaller sites are not harmonised."
    )
    new_sites: Literal["error", "average", "adapt"] = Field(
        default="error", description="For new subjects from sites that are not in the training data."
    )
    standardise: bool = Field(
        default=False, description="Scale features to unit variance; scale of [model] does so, too."
    )


class Cluster(Block):
    """``[cluster]``: who is clustered, and how clusters are named."""

    include: Rules = Field(
        default={}, description="Subjects to cluster: { diagnosis = ['AD', 'MCI'], age = { min = 55 } }."
    )
    exclude: Rules = Field(default={}, description="Subjects to leave out; rules as for include.")
    remove_severity: Text | None = Field(
        default=None,
        description="Column of severity, such as 'mmse', or 'common' for the first common component; its "
        "effect is removed from every view.",
    )
    sensitivity: list[Literal["with-controls"]] = Field(
        default=[], description="Further fits that the report compares with the main one."
    )
    leave: Literal["site"] | None = Field(
        default=None, description="Fit without each site in turn, and compare its clusters."
    )
    names: list[str] = Field(default=[], description="Names of the clusters, in their order.")
    order: Literal["size", "severity"] = Field(
        default="size", description="Order of the clusters: the largest first, or the least severe first."
    )

    @property
    def severity_column(self) -> str | None:
        """The column of the participants whose effect is removed, if it is one."""
        given = self.remove_severity
        return None if given is None or COMMON.fullmatch(given) else given


class Model(Block):
    """``[model]``: settings of `viewloom.KernelMultiviewNMF`; the defaults are its own."""

    n_clusters: int = Field(default=3, ge=2)
    kernel: KernelPerView = Field(default="diffusion", description="One, or { view = kernel, ... }.")
    lam: WeightPerView = Field(
        default=10.0, description="Weight of the consensus; one, or { view = number, ... }."
    )
    theta: WeightPerView = Field(default=0.01, description="Smoothness; one, or { view = number, ... }.")
    gamma: Weight = Field(default=2.0, description="Larger values make the weights of views more equal.")
    graph: Graph = "knn"
    membership: Membership = "simplex"
    sharpness: Share = 0.5
    calibrate: bool = True
    normalize: bool = True
    scale: ScalePerView = Field(
        default="auto",
        description="One, or { view = scale, ... }; with w_scores 'centre' by default, except for genotypes.",
    )
    init: Literal["kkmeans", "random"] = "kkmeans"
    n_init: int = Field(default=1, ge=1, description="Number of starts.")
    inner_iter: int = Field(default=10, ge=1)
    max_iter: int = Field(default=200, ge=1)
    tol: Weight = 1e-4
    seed: int = Field(default=0, ge=0, lt=2**32, description="Random seed.")

    @property
    def settings(self) -> dict[str, Any]:
        """Parameters of `KernelMultiviewNMF`."""
        given = self.model_dump(exclude={"seed"})
        return {**given, "scale": _scale(self.scale), "random_state": self.seed}


def _scale(given: str | Mapping[str, str]) -> Any:
    """The scale, or that of each view; None instead of 'none'."""
    if isinstance(given, str):
        return None if given == "none" else given
    return {view: _scale(one) for view, one in given.items()}


class Compute(Block):
    """``[compute]``: how, and on which machines, the model is fitted; the results hardly depend on it."""

    factored: bool | int | Literal["auto"] = Field(
        default="auto",
        description="Whether subjects are compared with landmarks instead of each other: 'auto' (beyond "
        "20 000 subjects), true, false, or the number of landmarks.",
    )
    backend: Literal["auto", "threads", "dask"] = Field(
        default="auto", description="'dask' fits on a cluster; 'auto' does so if scheduler is given."
    )
    scheduler: str | None = Field(
        default=None, description="Address of a Dask scheduler, such as 'tcp://10.0.0.5:8786'."
    )
    memory: str | None = Field(
        default=None,
        description="Memory that may be used, such as '8GB': exact kernels and parallel fits that need more "
        "are not used.",
    )

    @field_validator("factored", mode="before")
    @classmethod
    def _several(cls, value: Any) -> Any:
        """A single landmark is no model."""
        if value != "auto" and not isinstance(value, int):
            raise mistake("must be 'auto', true, false, or the number of landmarks")
        if not isinstance(value, (bool, str)) and value < 2:
            raise mistake("too few landmarks; give 2 or more, or true for the default number")
        return value

    @field_validator("scheduler")
    @classmethod
    def _address(cls, value: str | None) -> str | None:
        if value is not None and not SCHEDULER.fullmatch(value):
            raise mistake("must be the address of a Dask scheduler, such as 'tcp://10.0.0.5:8786'")
        return value

    @field_validator("memory", mode="before")
    @classmethod
    def _size(cls, value: Any) -> Any:
        found = MEMORY.fullmatch(value) if isinstance(value, str) else None
        if value is not None and (found is None or not float(found[1])):
            raise mistake("must be a number with its unit, such as '8GB' or '500 MiB'")
        return value

    @model_validator(mode="after")
    def _agree(self) -> Compute:
        if self.settings["backend"] == "dask" and self.factored is False:
            raise mistake(
                "exact kernels (factored = false) are not fitted on a cluster; leave out one of them"
            )
        return self

    @property
    def bytes(self) -> int | None:
        """The memory that may be used."""
        found = None if self.memory is None else MEMORY.fullmatch(self.memory)
        return None if found is None else int(float(found[1]) * UNITS[found[2].lower()])

    @property
    def settings(self) -> dict[str, Any]:
        """Parameters of `KernelMultiviewNMF`."""
        backend = "dask" if self.backend == "auto" and self.scheduler is not None else self.backend
        factored = True if self.factored == "auto" and backend == "dask" else self.factored
        return {"factored": factored, "backend": backend}


class Followup(Block):
    """``[followup]``: later visits, which are placed by the model of the first one."""

    visits: VisitList = Field(
        default=[],
        description="Later visits, such as ['m12', 'm24'] or [{ months = 12, within = 3 }]; 'all'.",
    )


class Ids(Block):
    """``[ids]``."""

    match: Match = Field(
        default="exact",
        description="adni: PTID, RID and BIDS ids of a subject match; bids: sub-01, 01 and 1 match.",
    )


def twins_problem(count: int) -> str | None:
    """What is wrong with a number of twins.

    >>> twins_problem(0), twins_problem(2)
    (None, 'give 0 for none, or 3 or more, to tell how much they differ.')
    """
    from viewloom.evaluation.selection.evidence import LEAST_TWINS  # imports all of scikit-learn that is used

    enough = count == 0 or count >= LEAST_TWINS
    return None if enough else f"give 0 for none, or {LEAST_TWINS} or more, to tell how much they differ."


class Report(Block):
    """``[report]``."""

    min_cell: int = Field(default=11, ge=1, description="Counts below this are not shown.")
    splits: int = Field(
        default=0,
        ge=0,
        description="Random halves for tests of features on subjects who are placed without their view.",
    )
    twins: int | None = Field(
        default=None,
        ge=0,
        description="Simulated data sets without clusters to compare with: 10 by default, 0 for none.",
    )

    @field_validator("twins")
    @classmethod
    def _enough(cls, value: int | None) -> int | None:
        problem = None if value is None else twins_problem(value)
        if problem:
            raise mistake(problem)
        return value


class Study(Block):
    """The content of study.toml.

    Examples
    --------
    >>> Study.model_validate({"views": {}}).model.settings["n_clusters"]
    3
    """

    study: About = About()
    participants: SerializeAsAny[Annotated[Participants, Extended(Participants)]] | None = None
    views: dict[str, SerializeAsAny[Annotated[View, Extended(View)]]]
    preparation: Preparation = Preparation()
    cluster: Cluster = Cluster()
    model: Model = Model()
    compute: Compute = Compute()
    followup: Followup = Followup()
    ids: Ids = Ids()
    report: Report = Report()
    _path: Path = PrivateAttr(Path("study.toml"))

    def model_post_init(self, context: Any) -> None:
        """Store the path, columns of the participants that rules name, and a scale where there is none."""
        self._path = (context or {}).get("path", self._path)
        if self.participants is not None:
            named = [(rule.where, rule.column) for rule in self.rules if rule.view is None]
            column = self.cluster.severity_column
            named += [] if column is None else [("cluster.remove_severity", column)]
            self.participants._of_cluster = tuple(dict.fromkeys(named))
        if self.preparation.w_scores and "scale" not in self.model.model_fields_set:
            self.__dict__["model"] = self.model.model_copy(update={"scale": self._scale_of_w_scores()})

    def _scale_of_w_scores(self) -> str | dict[str, str]:
        """W-scores have common units, in which the size of a deviation matters; genotypes do not."""
        genotypes = self.plan["genotypes"]
        if not genotypes:
            return "centre"
        return {name: "auto" if name in genotypes else "centre" for name in self.views}

    @property
    def path(self) -> Path:
        """The study file."""
        return self._path

    @property
    def rules(self) -> list[Rule]:
        """The rules on who is clustered."""
        return rules_of(self.cluster.include, self.cluster.exclude, self.views)

    @property
    def name(self) -> str:
        """Title of the study."""
        return self.study.name

    @property
    def plan(self) -> dict[str, Any]:
        """Parameters of `preparation.Plan`, from the block, the participants and the views."""
        people, named = self.participants, self.preparation.genotypes
        counted = [name for name, view in self.views.items() if name in named or view.counts_alleles]
        return {
            **self.preparation.model_dump(),
            "remove_severity": self.cluster.remove_severity,
            "diagnosis": people and people.diagnosis,
            "site": people and people.site,
            "genotypes": counted,
        }


BLOCKS: dict[str, type[Block]] = {
    "study": About,
    "participants": Participants,
    "participants.survival": Survival,
    "participants.survival (derived)": Conversion,
    "participants.id": IdPattern,
    "views.<name>": View,
    "views.<name>.id": IdPattern,
    "preparation": Preparation,
    "cluster": Cluster,
    "model": Model,
    "compute": Compute,
    "followup": Followup,
    "ids": Ids,
    "report": Report,
}
