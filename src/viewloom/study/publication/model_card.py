"""A model card: what the model of a run was made from, what it is for, and what its clusters are not."""

from __future__ import annotations

from viewloom.study.publication import methods_text
from viewloom.study.publication.blocks import Block, Bullets, Grid, Heading, Paragraph, Statement, paragraph
from viewloom.study.publication.record import Record
from viewloom.study.report.sentences import joined


def model_card(record: Record) -> list[Block]:
    """The model card as blocks."""
    return [
        Heading(f"Model card: {record.title}"),
        paragraph(Statement("Sections follow model cards for model reporting", "mitchell2019")),
        Heading("Model", 2),
        Bullets(_model(record)),
        Heading("Data", 2),
        Paragraph(tuple(methods_text.participants(record))),
        Heading("Preparation", 2),
        *_preparation(record),
        Heading("Evaluation", 2),
        Bullets(tuple(str(text) for text in record.summary["in_short"])),
        *_clusters(record),
        Heading("Intended use", 2),
        Bullets(INTENDED),
        Heading("What the clusters are not", 2),
        Bullets(NOT),
        Heading("Limits", 2),
        Bullets(_limits(record)),
        Heading("Privacy", 2),
        Bullets(_privacy(record)),
        Heading("To be completed by the authors", 2),
        Bullets(TO_COMPLETE),
    ]


def _model(record: Record) -> tuple[str, ...]:
    found = record.methods
    views = joined(view["name"] for view in found["views"])
    return (
        f"Multi-view kernel matrix factorisation of viewloom {record.versions.get('viewloom', '')}, fitted "
        f"on {record.finished}.",
        f"Input: {views}; subjects may lack views. Output: membership in each of {found['clusters']} "
        "clusters.",
        f"Random seed {found['seed']}.",
    )


def _preparation(record: Record) -> list[Block]:
    statements = tuple(methods_text.preparation(record))
    return [Paragraph(statements)] if statements else [paragraph("The values were used as they are")]


def _clusters(record: Record) -> list[Block]:
    """Size, stability and verdict of each cluster, as in the report."""
    table = record.table("clusters")
    if table is None:
        return []
    wanted = [i for i, column in enumerate(table["columns"]) if not column["label"].startswith("without ")]
    columns = tuple(table["columns"][i]["label"] for i in wanted)
    rows = tuple(tuple(row[i]["text"] for i in wanted) for row in table["rows"])
    return [Grid(columns, rows)]


def _limits(record: Record) -> tuple[str, ...]:
    cautions = [f"{one['heading']}: {one['text']}" for one in record.summary["cautions"]]
    return (*(str(text) for text in record.summary["limits"]), *cautions)


def _privacy(record: Record) -> tuple[str, ...]:
    least = record.methods["min_cell"]
    return (
        f"This card shows no counts below {least}, and nothing about single subjects.",
        "model.safetensors of the run folder may hold rows of training subjects: do not share it before you "
        "have checked that you may.",
    )


INTENDED = (
    "Research on groups of subjects that resemble those of the study: description, and hypotheses for other "
    "cohorts.",
    "Assignment of new subjects with the same measurements and preparation (viewloom predict), with the "
    "flag for subjects who are far from the training data.",
)
NOT = (
    "They are not diagnoses, and no basis for decisions on single patients.",
    "They are not proof that distinct diseases exist: a clustering method returns clusters for any data.",
    "They are not stages, unless severity was removed and change over time was followed.",
    "They are not valid for populations, scanners or measurements that the study did not have.",
)
TO_COMPLETE = (
    "Owner, contact and licence of the model.",
    "Ethics approval, consent, and terms of the data.",
    "Groups in whom the model was not tested.",
)
