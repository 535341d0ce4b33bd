"""A checklist for the report of a cluster analysis: what the run answers, and what is left to the authors.

TRoCA (Transparent Reporting of Cluster Analyses) is being developed; BMJ Open published its protocol in 2025.
The items here are in our own words, on what such a checklist asks for, and are not the wording of TRoCA.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from viewloom.study.publication import methods_text
from viewloom.study.publication.blocks import Block, Grid, Heading, Statement, paragraph
from viewloom.study.publication.record import Record
from viewloom.study.report.sentences import joined

ANSWERED, PARTLY, OPEN = "answered by the run", "partly answered", "left to the authors"
Answer = Callable[[Record], str]


@dataclass(frozen=True)
class Item:
    """An item of the checklist.

    Attributes
    ----------
    part : str
        Part of the paper.
    text : str
    answer : callable or None
        What the run answers, as text; empty where it does not. None for items that no run can answer.
    open : str
        What the authors have to add.
    """

    part: str
    text: str
    answer: Answer | None
    open: str = ""


@dataclass(frozen=True)
class Filled:
    """An item with its answer and its status."""

    number: int
    item: Item
    status: str
    answer: str


def filled(record: Record) -> list[Filled]:
    """All items with what the run answers."""
    return [_filled(number, item, record) for number, item in enumerate(ITEMS, 1)]


def _filled(number: int, item: Item, record: Record) -> Filled:
    found = item.answer(record) if item.answer is not None else ""
    if not found:
        return Filled(number, item, OPEN, f"To write: {item.open}" if item.open else "To write.")
    if item.open:
        return Filled(number, item, PARTLY, f"{found} To add: {item.open}")
    return Filled(number, item, ANSWERED, found)


def checklist_blocks(record: Record) -> list[Block]:
    """The checklist as blocks."""
    items = filled(record)
    counts = {status: sum(one.status == status for one in items) for status in (ANSWERED, PARTLY, OPEN)}
    rows = tuple((str(one.number), one.item.part, one.item.text, one.status, one.answer) for one in items)
    return [
        Heading("Checklist for reporting a cluster analysis"),
        paragraph(
            Statement(
                "Items after TRoCA (Transparent Reporting of Cluster Analyses), whose protocol was published "
                "in 2025; they are in our own words, and not the wording of TRoCA",
                "lisik2025",
            ),
            "Compare them with the published checklist before submission",
            f"Of {len(items)} items, {counts[ANSWERED]} are {ANSWERED}, {counts[PARTLY]} {PARTLY}, and "
            f"{counts[OPEN]} {OPEN}",
        ),
        Grid(("", "part", "item", "status", "answer"), rows),
    ]


def _said(make: Callable[[Record], Iterable[Statement]]) -> Answer:
    """The answer in the statements of a section of the methods."""
    return lambda record: " ".join(f"{statement.text}." for statement in make(record))


def _variables(record: Record) -> str:
    views = [f"{view['name']} ({view['features']} features)" for view in record.methods["views"]]
    return f"Views: {joined(views)}. All features are listed in the run folder."


def _missing(record: Record) -> str:
    steps = record.methods["preparation"]["steps"]
    texts = [
        f"{statement.text}."
        for statement in methods_text.preparation(record)
        if statement.text.startswith("Missing") and ({"median", "knn", "dosage"} & set(steps))
    ]
    whole = "Subjects without a view are assigned by the views they have."
    return " ".join([*texts, whole, _table_note(record, "patterns", "Combinations of missing views")])


def _table_note(record: Record, table: str, what: str) -> str:
    return f"{what}: table in the report." if record.table(table) is not None else ""


def _software(record: Record) -> str:
    return f"{joined(f'{name} {version}' for name, version in record.versions.items())}."


def _seed(record: Record) -> str:
    found = record.methods
    inputs = len(record.summary["inputs"])
    return (
        f"Random seed {found['seed']}; the same inputs and seed give the same clusters. SHA-256 of {inputs} "
        "input files, and all settings, are in run.json."
    )


def _sizes(record: Record) -> str:
    sizes = [f"cluster {card['cluster']}: {card['size']}" for card in record.summary["clusters"]]
    return f"{record.methods['subjects']} subjects; {', '.join(sizes)}."


def _cluster_stability(record: Record) -> str:
    known = [
        f"cluster {card['cluster']}: {card['stability']:.2f}"
        for card in record.summary["clusters"]
        if isinstance(card.get("stability"), float)
    ]
    overall = record.methods["stability"]["agreement"]
    head = [] if overall is None else [f"Mean adjusted Rand index of refits {overall:.2f}."]
    return " ".join([*head, *([f"Jaccard: {', '.join(known)}."] if known else [])])


def _certainty(record: Record) -> str:
    drawn = any(figure["kind"] == "certainty" for figure in record.summary["figures"])
    return "Memberships are between 0 and 1; figure of their certainty by cluster." if drawn else ""


def _characteristics(record: Record) -> str:
    if record.table("profile") is None:
        return "Mean z-scores of features by cluster, in the report; no clinical variables were given."
    return "Table 1, and mean z-scores of features by cluster in the report."


def _cautions(record: Record) -> str:
    found = [str(caution["heading"]) for caution in record.summary["cautions"]]
    said = f"Cautions of the report: {'; '.join(found)}." if found else "The report has no cautions."
    return f"{said} Limits that always apply are in the model card."


def _sites(record: Record) -> str:
    number = record.methods["left_out_sites"]
    return f"Each of {number} sites was predicted by a model of the others." if number else ""


def _comparison(record: Record) -> str:
    found = record.methods["comparison"]
    said = f"Compared with {joined(methods_text.described(found['methods']))}." if found else ""
    drawn = any(figure["kind"] == "solutions" for figure in record.summary["figures"])
    settings = "Clusters of other settings: figure of the dependence on settings." if drawn else ""
    return " ".join(filter(None, (said, settings)))


def _sensitivity(record: Record) -> str:
    asked = record.settings.get("cluster", {}).get("sensitivity", [])
    return f"Further fits: {joined(asked)}." if asked else ""


TITLE, INTRO, DATA = "title and abstract", "introduction", "methods: data"
CLUSTERING, VALIDATION, RESULTS = "methods: clustering", "methods: validation", "results"
DISCUSSION, OTHER = "discussion", "other information"
ITEMS = (
    Item(TITLE, "Name the study as a cluster analysis, with data and population.", None),
    Item(TITLE, "Summarise data, method, number of clusters, their stability and main limits.", None),
    Item(INTRO, "Explain why groups are expected, and whether the analysis is exploratory.", None),
    Item(INTRO, "State the aims, and what the clusters are to be used for.", None),
    Item(
        DATA, "Describe source, setting and dates of the data.", None, "cohort, sites, dates of collection."
    ),
    Item(
        DATA,
        "Give eligibility criteria and the flow of participants.",
        _said(methods_text.participants),
        "criteria of the cohort itself.",
    ),
    Item(DATA, "List the variables that were clustered, and why they were chosen.", _variables,
         "reasons for the choice."),
    Item(DATA, "Describe how missing data were handled.", _missing),
    Item(DATA, "Describe transformation, scaling, adjustment and harmonisation.",
         _said(methods_text.preparation)),
    Item(DATA, "Justify the sample size.", None, "reasons for the number of subjects."),
    Item(CLUSTERING, "Name the algorithm, similarity measure and all settings.",
         _said(methods_text.clustering)),
    Item(CLUSTERING, "Explain the choice of the algorithm.", None, "reasons for this method."),
    Item(CLUSTERING, "Explain how the number of clusters was chosen.",
         _said(methods_text.number_of_clusters), "reasons for the number."),
    Item(CLUSTERING, "Report initialisation, random seed and what is needed to repeat the analysis.", _seed),
    Item(CLUSTERING, "Report software and versions.", _software),
    Item(VALIDATION, "Describe how stability was assessed.", _said(methods_text.stability)),
    Item(VALIDATION, "Compare with other methods or settings.", _comparison,
         "other methods or settings that matter (viewloom compare --settings)."),
    Item(VALIDATION, "Describe sensitivity analyses.", _sensitivity, "analyses beyond the run."),
    Item(VALIDATION, "Validate in data that were not used: other sites or another cohort.", _sites,
         "another cohort (viewloom replicate)."),
    Item(VALIDATION, "Describe statistical tests, and the correction for their number.",
         _said(methods_text.tests)),
    Item(RESULTS, "Give the number of subjects and the size of every cluster.", _sizes),
    Item(RESULTS, "Report stability of the solution and of every cluster.", _cluster_stability),
    Item(RESULTS, "Report how certain assignments are.", _certainty),
    Item(RESULTS, "Describe the clusters by the variables that formed them, and by others.",
         _characteristics),
    Item(RESULTS, "Interpret and name the clusters.", None, "names and interpretation."),
    Item(DISCUSSION, "Discuss limits, including whether there are clusters or a continuum.", _cautions,
         "the discussion."),
    Item(DISCUSSION, "Discuss generalisability and the intended use of the clusters.", None,
         "the discussion; the model card has a draft."),
    Item(OTHER, "State registration and protocol.", None),
    Item(OTHER, "State ethics approval and consent.", None),
    Item(OTHER, "State where data, code and the fitted model are available.", None,
         "availability of data, study.toml and model."),
    Item(OTHER, "State funding and conflicts of interest.", None),
)  # fmt: skip
