"""Tables with one row per feature and one column per subject, as omics matrices are written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from viewloom.data.naming import listed
from viewloom.study.errors import StudyError
from viewloom.study.notes import Note, count_note
from viewloom.study.readers import frames
from viewloom.study.readers.files import TableFile, TextFile, open_table
from viewloom.study.readers.formats import Sample
from viewloom.study.readers.frames import Codes, Patterns
from viewloom.study.readers.tables import filled_rows
from viewloom.study.readers.text import GCT, NAMED, open_text
from viewloom.study.wording import counted, folded

FEATURE = (  # names of the column of features, as `folded` writes them
    "geneid", "gene", "genes", "genename", "genesymbol", "hugosymbol", "ensemblid", "ensemblgeneid", "ensgid",
    "entrezgeneid", "probe", "probeid", "probesetid", "idref", "proteinid", "proteinids", "proteinname",
    "uniprot", "uniprotid", "compositeelementref", "cpg", "cpgid", "metabolite", "metaboliteid", "transcript",
    "transcriptid", "mirna", "mirnaid", "lipid", "peptide", "otuid", "featureid",
)  # fmt: skip
ANNOTATION = {  # columns that describe features
    *FEATURE, "chr", "chrom", "chromosome", "start", "end", "stop", "strand", "length", "genelength", "width",
    "description", "genedescription", "genebiotype", "biotype", "type", "band", "cytoband", "position", "pos",
    "mz", "rt", "retentiontime", "mass", "formula", "kegg", "hmdb", "pathway", "taxonomy", "fastaheaders",
    "majorityproteinids", "genenames", "proteinnames",
}  # fmt: skip
NAME = re.compile(  # of genes, transcripts, proteins, probes and CpG sites
    r"ENS[A-Z]{0,5}[EGTP]\d{6,}(?:\.\d+)?(?:\|.*)?|cg\d{8}|ILMN_\d+|\d+(?:_[xsagr])?_at|"
    r"(?i:hsa-(?:mir|let)-.+)|[NX][MRP]_\d{6,}(?:\.\d+)?|[OPQ]\d[A-Z\d]{3}\d(?:-\d+)?"
)
PERHAPS_SUBJECT = re.compile(r"[OPQ]\d{5}")  # some accessions of UniProt, but ids of subjects as well
SUBJECT = re.compile(r"TCGA[-.]\w{2}[-.]\w{4}(?:[-.].*)?|GTEX-\w+(?:-.*)?|GSM\d+")
COUNTED = re.compile(r"__\w+|N_(?:unmapped|multimapping|noFeature|ambiguous)")  # reads, in tables of counts
UNTOLD = (  # names of a first column of anything
    "rownames", "unnamed0", "column1", "x", "index", "id", "name", "names", "sample", "samples", "symbol",
    "feature", "features", "identifier", "accession",
)  # fmt: skip
RESULTS = {  # columns of results of tests
    "pvalue", "pval", "p", "padj", "pvalueadj", "adjpval", "fdr", "qvalue", "logfc", "log2foldchange",
    "basemean", "beta", "se", "lfcse", "tstat", "zscore", "effect", "effectweight", "oddsratio",
}  # fmt: skip
DESCRIBES_SUBJECTS = ("row that describes subjects", "rows that describe subjects")
REPEATED = ("row with the name of another", "rows with the name of another")
LEAST = 3  # columns of numbers, and names of features, for a table to be recognised
MOSTLY = 0.5  # share of names


class Annotation(NamedTuple):
    """Numbers of columns after the first that describe features, and of rows that describe subjects."""

    columns: int
    rows: int


def read_matrix(
    path: str | Path,
    *,
    name: str | None = None,
    subjects: Patterns = None,
    columns: Patterns = None,
    exclude: Patterns = None,
    missing_codes: Codes | None = None,
    repeats: str = "error",
    delimiter: str | None = None,
    decimal: str | None = None,
    thousands: str | None = None,
    encoding: str | None = None,
    sheet: str | int | None = None,
    object: str | None = None,
) -> pd.DataFrame:
    r"""Read a table with one row per feature and one column per subject, as of gene expression; also GCT.

    Parameters
    ----------
    path : str or Path
        A table of any kind; see `tables.read_table`.
    name : str, optional
        Column of the names of features; the first column by default.
    subjects : list of str, optional
        Shell patterns of the columns of subjects. By default all but texts and usual annotations of features,
        such as chromosome and length.
    columns, exclude : list of str, optional
        Shell patterns of the features to keep and to leave out.
    missing_codes : list, or dict of pattern of features to list, optional
        Missing codes other than blanks and NA.
    repeats : {"error", "mean"}
        How to handle several rows of one name.
    delimiter, decimal, thousands, encoding, sheet, object
        As in `tables.read_table`.

    Returns
    -------
    DataFrame indexed by ``id``
        One column per feature. Rows of text, and totals of reads as HTSeq and STAR write them, are left out.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "counts.csv")
    ...     _ = path.write_text("Geneid,Chr,S1,S2\nAPOE,19,5,7\nBIN1,2,0,3\n")
    ...     frame = read_matrix(path)
    >>> print(frame)
        APOE  BIN1
    id
    S1   5.0   0.0
    S2   7.0   3.0
    """
    path, notes = Path(path), list[Note]()
    given: Any = {"decimal": decimal, "thousands": thousands, "encoding": encoding, "delimiter": delimiter}
    file = open_table(path, candidates=NAMED.values(), options=True, sheet=sheet, object=object, **given)
    name = name or file.header[0]
    raw = filled_rows(file.load([name]), path, notes)
    notes = [*file.notes, *notes]
    frames.column(raw, name, path, "name")
    chosen = _subjects(raw, name, subjects, _annotation(file), path, notes)
    values = _without_texts(chosen, raw[name], path, notes)
    features = _named(raw[name][values.index], path)
    cells = values.T.set_axis(features, axis=1).infer_objects()
    _check_repeats(cells, repeats, path)
    kept = frames.select(cells.loc[:, ~cells.columns.duplicated()], columns, exclude, path, notes)
    cells = cells.loc[:, cells.columns.isin(kept.columns)]
    ids = frames.checked_ids(pd.Series(cells.index, name="header"), path, hint="rename the columns")
    numbers = [
        frames.numbers(one, missing_codes or (), path, notes, notation=file.notation) for one in _apart(cells)
    ]
    notes += count_note(cells.shape[1] - kept.shape[1], *REPEATED, "averaged", public=True)
    return frames.finish(_mean(numbers), ids, path, notes)


def _annotation(file: TableFile) -> Annotation | None:
    """Columns and rows of a GCT file that are no measurements; None for other files."""
    if not isinstance(file, TextFile) or not _is_gct(file.path):
        return None
    columns, rows = _sizes(file.path)
    return Annotation(columns, max(0, rows - len(file.dialect.below)))


def _is_gct(path: Path) -> bool:
    return ".gct" in [suffix.lower() for suffix in path.suffixes]


def _sizes(path: Path) -> tuple[int, int]:
    """Numbers of columns and rows of annotation, in the second line of a GCT file."""
    with open_text(path, encoding="utf-8", newline=None, errors="replace") as file:
        lines = [file.readline().rstrip() + "\n" for _ in range(2)]
    if not GCT.fullmatch("".join(lines)):
        raise StudyError(f"{path.name}: is not a GCT file of version 1.2 or 1.3; give it another ending.")
    sizes = lines[1].split()
    return (1, 0) if len(sizes) < 4 else (int(sizes[2]), int(sizes[3]))


def _subjects(
    raw: pd.DataFrame, name: str, patterns: Patterns, gct: Annotation | None, path: Path, notes: list[Note]
) -> pd.DataFrame:
    """The columns of subjects."""
    others = raw.loc[:, raw.columns != name]
    repeated = int(others.columns.duplicated().sum())
    if repeated:
        raise StudyError(f"{path.name}: {counted(repeated, 'column')} with the name of another; rename them.")
    if patterns is not None:
        return _matched(others, patterns, path)
    if gct is not None:
        notes += count_note(gct.rows, *DESCRIBES_SUBJECTS, public=True)
        return others.iloc[gct.rows :, gct.columns :]
    known = [one for one in others.columns if folded(str(one)) in ANNOTATION]
    texts = [one for one in others.columns if one not in known and _is_text(others[one])]
    if len(known) + len(texts) == others.shape[1]:
        raise StudyError(f"{path.name}: no column of numbers besides {name!r}; set subjects to their names.")
    what = f"of annotation left out: {listed([str(one) for one in known])}"
    notes += count_note(len(known), "column", text=what, public=True)
    notes += count_note(len(texts), "column", text="of text left out")  # perhaps named after subjects
    return others.loc[:, ~others.columns.isin([*known, *texts])]


def _matched(others: pd.DataFrame, patterns: Sequence[str], path: Path) -> pd.DataFrame:
    """The columns that patterns select; messages name no column, since these are subjects."""
    names = [str(one) for one in others.columns]
    for pattern in patterns:
        if not any(frames.matches(name, [pattern]) for name in names):
            raise StudyError(f"{path.name}: no column matches {pattern!r} of subjects.")
    return others.loc[:, [frames.matches(name, patterns) for name in names]]


def _is_text(cells: pd.Series) -> bool:
    """Whether a column has no number at all, but text."""
    if pd.api.types.is_numeric_dtype(cells):
        return False
    return bool(cells.notna().any()) and not frames.as_numbers(cells).notna().any()


def _without_texts(values: pd.DataFrame, names: pd.Series, path: Path, notes: list[Note]) -> pd.DataFrame:
    """Rows of measurements: without those of text, such as groups of subjects, and totals of reads."""
    totals = frames.as_text(names[values.index]).str.fullmatch(COUNTED).fillna(False).to_numpy(dtype=bool)
    texts = np.zeros(len(values), dtype=bool)
    plain = [pd.api.types.is_numeric_dtype(dtype) for dtype in values.dtypes]
    if not any(plain):
        numbers = values.apply(frames.as_numbers).notna().any(axis=1).to_numpy()
        texts = ~numbers & values.notna().any(axis=1).to_numpy()
    notes += count_note(int((texts & ~totals).sum()), *DESCRIBES_SUBJECTS, public=True)
    notes += count_note(int(totals.sum()), "row of totals of reads", "rows of totals of reads", public=True)
    kept = values[~(texts | totals)]
    if not len(kept):
        raise StudyError(f"{path.name}: no row of numbers; is this a table with one column per subject?")
    return kept


def _named(names: pd.Series, path: Path) -> list[str]:
    """Names of features; a blank one is an error."""
    text = frames.as_text(names)
    blank = int(text.isna().sum())
    if blank:
        raise StudyError(
            f"{path.name}: column {names.name!r} is blank in {blank} rows; fill in the names of features, or "
            "set name to another column."
        )
    return [str(one) for one in text]


def _check_repeats(cells: pd.DataFrame, repeats: str, path: Path) -> None:
    """Refuse several rows of one name, unless they are to be averaged."""
    if repeats not in ("error", "mean"):
        raise StudyError(f"repeats must be 'error' or 'mean', got {repeats!r}.")
    repeated = int(cells.columns.duplicated().sum())
    if repeated and repeats == "error":
        raise StudyError(
            f"{path.name}: {repeated} rows have the name of another row; set name to a column of unique "
            "names, or repeats = 'mean'."
        )


def _apart(cells: pd.DataFrame) -> list[pd.DataFrame]:
    """Tables with unique names: the first columns of all names, the second ones, and so on."""
    nth = pd.Series(range(cells.shape[1])).groupby(cells.columns.to_numpy()).cumcount().to_numpy()
    return [cells.loc[:, nth == n] for n in range(int(nth.max(initial=0)) + 1)]


def _mean(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """The mean of the values that are known, by column."""
    if len(parts) == 1:
        return parts[0]
    every = [part.reindex(columns=parts[0].columns).to_numpy() for part in parts]
    total = np.sum([np.nan_to_num(values) for values in every], axis=0)
    known = np.sum([~np.isnan(values) for values in every], axis=0)
    mean = np.divide(total, known, out=np.full(total.shape, np.nan), where=known > 0)
    return pd.DataFrame(mean, parts[0].index, parts[0].columns)


def is_matrix(sample: Sample) -> bool:
    """Whether rows are features, by their names, or columns are samples, by theirs."""
    if _is_gct(sample.path):
        return bool(sample.header)
    if not _may_be(sample) or RESULTS.intersection(map(folded, sample.header)):
        return False
    return annotates(sample) or _share(sample.header[1:], SUBJECT) > MOSTLY


def annotates(sample: Sample) -> bool:
    """Whether the rows of a table are features: measured ones, or ones with results of tests."""
    if not _may_be(sample):
        return False
    names = frames.as_text(sample.first_rows.iloc[:, 0]).dropna()
    known = folded(sample.header[0]) in FEATURE
    return len(names) >= LEAST and (_are_features(names) or (known and names.is_unique))


def _are_features(names: Iterable[str]) -> bool:
    """Whether most names are of features, and some of them cannot be ids of subjects."""
    certain = [name for name in names if NAME.fullmatch(name) and not PERHAPS_SUBJECT.fullmatch(name)]
    return len(certain) >= LEAST and _share(names, NAME) > MOSTLY


def _may_be(sample: Sample) -> bool:
    """Whether the first column may have names of features."""
    return len(sample.header) > LEAST and folded(sample.header[0]) in {*FEATURE, *UNTOLD}


def _share(names: Iterable[str], pattern: re.Pattern[str]) -> float:
    found = [pattern.fullmatch(name) is not None for name in names]
    return sum(found) / max(len(found), 1)


def by_subject(raw: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """One row per subject of a table, and the name of the column of ids."""
    path, name = Path("table"), str(raw.columns[0])
    values = _without_texts(_subjects(raw, name, None, None, path, []), raw[name], path, [])
    turned = values.T.set_axis(_named(raw[name][values.index], path), axis=1).infer_objects()
    turned = turned.loc[:, ~turned.columns.duplicated()].copy().rename_axis(index="subject", columns=None)
    return turned.reset_index(), "subject"
