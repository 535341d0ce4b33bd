"""Polygenic scores: weighted sums of dosages, with weights of the PGS Catalog or of a plain table."""

from __future__ import annotations

import io
import re
import zlib
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from viewloom.study.errors import StudyError, check_kind
from viewloom.study.notes import Note, count_note
from viewloom.study.readers.genotypes.matching import (
    EVIDENCE,
    LEAST_TO_TRUST,
    OTHER_STRAND,
    Match,
    Matching,
    oriented,
    same_strand_evidence,
)
from viewloom.study.readers.genotypes.panel import UNKNOWN, Panel
from viewloom.study.readers.genotypes.sources import Block, as_floats
from viewloom.study.readers.packed import open_bytes
from viewloom.study.wording import counted

Array = np.ndarray
NAMES = {  # column -> spellings in files, the first that is found
    "variant": ("hm_rsid", "rsid", "snp", "id", "variant_id", "marker", "markername", "variant"),
    "counted": ("effect_allele", "a1", "allele1", "allele", "ea", "effectallele", "alt"),
    "other": ("other_allele", "hm_inferotherallele", "a2", "allele2", "nea", "oa", "reference_allele", "ref"),
    "weight": ("effect_weight", "weight", "beta", "effect", "b", "score"),
    "chromosome": ("hm_chr", "chr_name", "chr", "chrom", "#chrom", "chromosome"),
    "position": ("hm_pos", "chr_position", "pos", "bp", "position"),
    "frequency": ("allelefrequency_effect", "eaf", "freq", "a1_freq"),
}
MODELS = ("is_interaction", "is_dominant", "is_recessive")  # columns of terms that are no plain sums
EFFECT = "effect_type"  # a column that names the model of each weight
SCORE = ("accession", "pgs_id")  # columns that tell scores of one file apart
LARGEST, CHUNK = 2**30, 2**20  # bytes of a file of weights, decompressed, and of a read
PGS_ID = re.compile(r"^#\s*pgs_id\s*=\s*(\S+)", re.MULTILINE)


@dataclass(frozen=True, eq=False)
class Weights:
    """A file of weights: its name, the variants with the allele that counts, and their weights."""

    name: str
    path: Path
    panel: Panel
    weight: Array


def load_weights(path: Path) -> Weights:
    """Weights from a scoring file of the PGS Catalog, or from a table of id, allele and weight."""
    text = _text(path)
    found = PGS_ID.search(text)
    lines = [line for line in text.splitlines() if line.strip() and not re.match(r"#(?!chrom)", line, re.I)]
    if not lines:
        raise StudyError(f"{path.name}: the file is empty.")
    table = _table(lines, path)
    weight = pd.to_numeric(table["weight"], errors="coerce").to_numpy(dtype=float)
    bad = int((~np.isfinite(weight)).sum())
    if bad:
        raise StudyError(
            f"{path.name}: {counted(bad, 'weight is', 'weights are')} not a number; correct them."
        )
    stem = re.sub(r"(?i)(_hmpos_grch\d+)?\.(txt|tsv|csv|score)?(\.gz)?$", "", path.name)
    return Weights(found[1] if found else stem, path, _panel(table, path), weight)


def _table(lines: list[str], path: Path) -> pd.DataFrame:
    """The columns that are used, under our names; a table without a header has id, allele and weight."""
    separator = "\t" if "\t" in lines[0] else ("," if "," in lines[0] else r"\s+")
    head = re.split(separator, lines[0].strip())
    plain = len(head) >= 3 and _is_number(head[2])
    try:
        table = pd.read_csv(
            io.StringIO("\n".join(lines)), sep=separator, header=None if plain else 0, dtype=str,
            keep_default_na=False, quoting=3,
        )  # fmt: skip
    except (pd.errors.ParserError, ValueError):
        raise StudyError(f"{path.name}: is not a table of weights.") from None
    if plain:
        return table.iloc[:, :3].set_axis(["variant", "counted", "weight"], axis=1)
    table.columns = [str(name).strip().strip('"').lower() for name in table.columns]
    table = table.apply(lambda cells: cells.str.strip().str.strip('"'))  # of R
    _check_terms(table, path)
    _check_single(table, path)
    columns = {ours: name for ours, names in NAMES.items() for name in [_first(names, table)] if name}
    absent = [name for name in ("counted", "weight") if name not in columns]
    if absent or not {"variant", "chromosome"} & set(columns):
        raise StudyError(
            f"{path.name}: needs columns of the variant (rsID, or chr_name and chr_position), effect_allele "
            "and effect_weight."
        )
    found = pd.DataFrame({ours: table[name] for ours, name in columns.items()})
    if {"hm_rsid", "rsid"} <= set(table):  # the first is blank where the PGS Catalog found no position
        found["variant"] = table["hm_rsid"].where(table["hm_rsid"] != "", table["rsid"])
    return found


def _check_single(table: pd.DataFrame, path: Path) -> None:
    """Refuse files of several scores, which would be added up."""
    for name in SCORE:
        count = table[name].nunique() if name in table else 1
        if count > 1:
            raise StudyError(f"{path.name}: has {count} scores (column {name}); write one file per score.")


def _check_terms(table: pd.DataFrame, path: Path) -> None:
    true = {name: table[name].str.lower().isin(["true", "1"]) for name in MODELS if name in table}
    if EFFECT in table:
        true[EFFECT] = ~table[EFFECT].str.lower().isin(["additive", ""])
    for name, terms in true.items():
        count = int(terms.sum())
        if count:
            raise StudyError(
                f"{path.name}: {counted(count, 'weight is', 'weights are')} of terms that are not additive "
                f"({name}); use an additive score."
            )


def _first(names: tuple[str, ...], table: pd.DataFrame) -> str | None:
    return next((name for name in names if name in table.columns and (table[name] != "").any()), None)


def _panel(table: pd.DataFrame, path: Path) -> Panel:
    blank = pd.Series("", index=table.index, dtype=object)
    rows = pd.DataFrame(
        {name: table.get(name, blank).astype(object) for name in ("chromosome", "counted", "other")}
    )
    position = pd.to_numeric(table.get("position", blank), errors="coerce")
    rows["position"] = position.fillna(UNKNOWN).clip(UNKNOWN, 2**40).astype(np.int64)
    place = rows["chromosome"] + ":" + rows["position"].astype(str)
    names = table.get("variant", blank).astype(object)
    rows["variant"] = names.mask(names.isin(["", ".", "NA"]), place)
    rows["frequency"] = pd.to_numeric(table.get("frequency", blank), errors="coerce").to_numpy(dtype=float)
    rows["other"] = rows["other"].where(~rows["other"].str.contains("/", regex=False), "")
    if (rows["counted"] == "").any():
        raise StudyError(f"{path.name}: some weights have no effect allele; correct them.")
    return Panel([str(j) for j in range(len(rows))], rows.reset_index(drop=True))


@dataclass
class Score:
    """The sum of a score over the variants of a file, block by block."""

    weights: Weights
    n: int
    seen: set[int] = field(default_factory=set)
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("sure", "flipped"), 0))

    def __post_init__(self) -> None:
        self.matching = Matching(self.weights.panel)
        self._frequency = self.weights.panel.rows["frequency"].to_numpy(dtype=float)
        self._sums = {kind: np.zeros(self.n) for kind in ("sure", "same", "turned", "unknown")}
        self._of: dict[str, set[int]] = {kind: set() for kind in self._sums}

    def add(self, block: Block) -> None:
        """Add the variants of a block; of a variant that occurs twice, the first."""
        for match in self.matching.of(block.rows):
            if match.of not in self.seen:
                self.seen.add(match.of)
                self._add(match, oriented(block, match))

    def _add(self, match: Match, row: Array) -> None:
        dosage, weight = as_floats(row, np.float64), self.weights.weight[match.of]
        f = self._frequency[match.of]
        mean = float(np.nanmean(dosage)) if not np.isnan(dosage).all() else 2.0 * float(np.nan_to_num(f))
        dosage = np.where(np.isnan(dosage), mean, dosage)
        kind = "sure"
        if match.ambiguous:
            evidence = 0.0 if np.isnan(f) else float(same_strand_evidence(row[None], np.array([f]))[0])
            kind = "same" if evidence > EVIDENCE else "turned" if evidence < -EVIDENCE else "unknown"
        self.counts["sure"] += not match.ambiguous
        self.counts["flipped"] += not match.ambiguous and match.how in OTHER_STRAND
        self._sums[kind] += weight * (2.0 - dosage if kind == "turned" else dosage)
        self._of[kind].add(match.of)

    def finish(self, max_absent: float) -> tuple[Array, list[Note]]:
        """The score (n,), and what was left out; absent variants count with their mean where it is known."""
        trusted = self.counts["sure"] >= LEAST_TO_TRUST and not self.counts["flipped"]
        kinds = ("sure", "same", "unknown") if trusted else ("sure", "same", "turned")
        used = set().union(*(self._of[kind] for kind in kinds))
        total, absent = len(self.weights.panel), len(self.weights.panel) - len(used)
        if absent > max_absent * total:
            raise StudyError(
                f"{self.weights.path.name}: {absent} of {total} variants are absent from the genotypes, more "
                f"than max_absent = {max_absent:g} allows; use imputed genotypes, check names and genome "
                "build, or raise max_absent."
            )
        rest = np.array(sorted(set(range(total)) - used), dtype=int)
        mean = float((self.weights.weight[rest] * 2.0 * np.nan_to_num(self._frequency[rest])).sum())
        strands = len(self.seen) - len(used)
        score = np.sum([self._sums[kind] for kind in kinds], axis=0) + mean
        return score, self._notes(len(used), total, absent, strands)

    def _notes(self, used: int, total: int, absent: int, strands: int) -> list[Note]:
        name = self.weights.name
        text = f"of {total} of score {name!r} used"
        return [
            *count_note(used, "variant", text=text, public=True),
            *_about(self.counts["flipped"], f"of score {name!r} on the other strand turned"),
            *_about(strands, f"of score {name!r} with alleles A/T or C/G and of unknown strand left out"),
            *_about(absent - strands, f"of score {name!r} absent"),
        ]


def _about(count: int, text: str) -> list[Note]:
    return count_note(count, "variant", text=text, public=True)


def _is_number(text: str) -> bool:
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False


def _text(path: Path) -> str:
    """The text of a file, which may be compressed; see `packed.open_bytes`."""
    check_kind(path)
    content = bytearray()
    try:
        with open_bytes(path) as file:
            while chunk := file.read(CHUNK):  # a read of as many bytes as are allowed would reserve them
                content += chunk
                if len(content) > LARGEST:
                    raise StudyError(f"{path.name}: larger than {LARGEST >> 20} MiB; use fewer variants.")
        return content.decode("utf-8-sig")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise StudyError(f"{path.name}: cannot be read as text ({type(error).__name__}).") from None
