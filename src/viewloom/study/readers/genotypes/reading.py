"""From one or several files of genotypes to one row per subject: chosen, filtered, harmonised or scored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Collection as Names
from dataclasses import dataclass, fields, replace
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from viewloom.runtime.progress import stage
from viewloom.study.errors import StudyError
from viewloom.study.notes import Note, count_note
from viewloom.study.readers import frames
from viewloom.study.readers.files import with_parameters
from viewloom.study.readers.genotypes.choice import Choice, chosen
from viewloom.study.readers.genotypes.collecting import Collection
from viewloom.study.readers.genotypes.filters import Filters
from viewloom.study.readers.genotypes.harmonising import Harmonised
from viewloom.study.readers.genotypes.panel import COLUMNS, Panel, feature_names
from viewloom.study.readers.genotypes.pruning import LD
from viewloom.study.readers.genotypes.scores import Score, load_weights
from viewloom.study.readers.genotypes.sources import Block, Chooser, Source
from viewloom.study.wording import counted

Array = np.ndarray
Paths = str | Path | Sequence[str | Path]
LEAST_COMMON = 0.5  # share of subjects that all files must have
MAX_ABSENT = 0.25  # share of variants of a model or score that may be absent
PANEL = "variants"  # name of the panel among the attributes of a frame


@dataclass(frozen=True)
class Options:
    """What a view asks of genotypes; see `readers.plink.read_bed`."""

    variants: Sequence[str] | None = None
    variants_from: str | Path | None = None
    regions: Sequence[str] | None = None
    regions_from: str | Path | None = None
    genes: Sequence[str] | None = None
    min_maf: float = 0.0
    min_call_rate: float = 0.0
    min_info: float = 0.0
    ld_prune: Mapping[str, float] | None = None
    scores: Sequence[str | Path] | None = None
    max_absent: float = MAX_ABSENT
    needed: Names[str] | None = None

    @property
    def choice(self) -> Choice:
        """Which variants to read."""
        return chosen(self.variants, self.variants_from, self.regions, self.regions_from, self.genes)

    @property
    def filters(self) -> Filters:
        """Limits of call rate, allele frequency and quality."""
        return Filters(self.min_maf, self.min_call_rate, self.min_info)

    @property
    def ld(self) -> LD | None:
        """How to prune."""
        if self.ld_prune is None:
            return None
        window, step = int(self.ld_prune.get("window", 50)), int(self.ld_prune.get("step", 5))
        return LD(window, min(step, window), float(self.ld_prune.get("r2", 0.2)))


def with_options(read: Callable[..., pd.DataFrame]) -> Callable[..., pd.DataFrame]:
    """Give a reader the `Options` as keyword-only parameters, in place of ``**options``."""
    names = signature(read).parameters
    shared = [
        Parameter(option.name, Parameter.KEYWORD_ONLY, default=option.default, annotation=option.type)
        for option in fields(Options)
        if option.name not in names and (option.name != "min_info" or "min_info" in names)
    ]
    return with_parameters(read, shared)


def genotypes(paths: Paths, source: Callable[[Path], Source], **options: Any) -> pd.DataFrame:
    """One row per subject and one column per variant, or per score.

    Parameters
    ----------
    paths : path or list of paths
        Files with other variants of the same subjects, as one per chromosome; or with the same variants of
        other subjects.
    source : callable
        Opens a file.
    **options
        See `Options`.

    Returns
    -------
    DataFrame indexed by ``id``
        ``attrs["variants"]`` has the `Panel` of its columns.
    """
    asked = Options(**options)
    several = [Path(path) for path in ([paths] if isinstance(paths, str | Path) else paths)]
    groups = _groups([source(path) for path in several])
    if asked.scores is not None:
        return _only(groups, "scores").scores(asked)
    if asked.needed is not None:
        found = [group.harmonised(_as_panel(asked.needed), asked) for group in groups]
        return _rows_together(found)
    if len(groups) == 1:
        return groups[0].frame(asked)
    return _pooled(groups, asked)


@dataclass(frozen=True, eq=False)
class Files:
    """Files of the same subjects.

    Attributes
    ----------
    sources : list of Source
    ids : Index
        Subjects that all of them have, in the order of the first.
    lost : int
        Subjects that some of them lack.
    """

    sources: list[Source]
    ids: pd.Index
    lost: int = 0

    @property
    def path(self) -> Path:
        """The first file, for messages."""
        return self.sources[0].path

    @property
    def notes(self) -> list[Note]:
        """What was left out while reading."""
        lost = count_note(self.lost, "subject", text="who are not in all files left out")
        return [*lost, *(note for source in self.sources for note in source.notes), *self._unusable]

    @property
    def _unusable(self) -> list[Note]:
        """Chosen variants that have no counts, by reason."""
        skipped: Counter[str] = Counter()
        for source in self.sources:
            skipped.update(source.skipped)
        return [
            note
            for why, count in skipped.items()
            for note in count_note(count, "variant", text=why, public=True)
        ]

    def _nothing(self, choice: Choice) -> StudyError:
        """The error that there is no variant."""
        if self._unusable:
            why = "; ".join(str(note) for note in self._unusable)
            return StudyError(f"{self.path.name}: no variant can be read: {why}.")
        return (
            StudyError(f"{self.path.name}: has no variants.")
            if choice.everything
            else choice.nothing(self.path)
        )

    def blocks(self, choose: Chooser, kept: Collection | None = None) -> Iterator[Block]:
        """The chosen variants of all files, with subjects in the order of `ids`.

        Variants that `kept` would leave out may be left out already.
        """
        for source in self.sources:
            order = None if source.ids.equals(self.ids) else source.ids.get_indexer(self.ids)
            with stage(f"Reading {source.path.name}", source.size) as advance:
                chosen_here = (
                    choose
                    if kept is None or order is not None
                    else kept.choosing(source, choose, alone=len(self.sources) == 1)
                )
                for block in source.blocks(chosen_here):
                    advance(block.seen)
                    if len(block.rows):
                        yield block if order is None else replace(block, calls=block.calls[:, order])

    def frame(self, asked: Options) -> pd.DataFrame:
        """The chosen variants that pass the filters."""
        choice, kept = asked.choice, Collection(len(self.ids), asked.filters, asked.ld)
        for block in self.blocks(choice, kept):
            kept.add(block)
        return self._finished(kept, choice)

    def _finished(self, kept: Collection, choice: Choice) -> pd.DataFrame:
        rows, values = kept.finish()
        if not kept.chosen:
            raise self._nothing(choice)
        if not len(rows):
            raise StudyError(f"{self.path.name}: no variant is left; lower min_maf and min_call_rate.")
        notes = [*self.notes, *kept.notes]
        panel = Panel(feature_names(rows, self.path), rows[[*COLUMNS, "frequency"]])
        empty = np.isnan(rows["frequency"].to_numpy(dtype=float))  # no call to count
        return _as_frame(values, panel, self.ids, self.path, notes, empty)

    def harmonised(self, panel: Panel, asked: Options) -> pd.DataFrame:
        """The variants of a stored model, counted as there."""
        kept = Harmonised(panel, len(self.ids))
        for block in self.blocks(kept.matching):
            kept.add(block)
        values, notes = kept.finish(asked.max_absent, self.path)
        return _as_frame(values, panel, self.ids, self.path, [*self.notes, *notes])

    def scores(self, asked: Options) -> pd.DataFrame:
        """One column per file of weights."""
        _check_plain(asked, self.path)
        found = [Score(load_weights(Path(path)), len(self.ids)) for path in asked.scores or ()]
        names = [score.weights.name for score in found]
        if len(set(names)) < len(names):
            raise StudyError(f"{self.path.name}: two files of scores have the same name; rename one.")
        matchings = [score.matching for score in found]
        for block in self.blocks(lambda rows: np.any([matching(rows) for matching in matchings], axis=0)):
            for score in found:
                score.add(block)
        sums, said = zip(*(score.finish(asked.max_absent) for score in found), strict=True)
        frame = pd.DataFrame(dict(zip(names, sums, strict=True)))
        return frames.finish(
            frame, self.ids, self.path, [*self.notes, *(note for notes in said for note in notes)]
        )

    def whole(self, asked: Options) -> tuple[Panel, Array]:
        """The chosen variants without filters."""
        choice, kept = asked.choice, Collection(len(self.ids), Filters())
        for block in self.blocks(choice):
            kept.add(block)
        frame = self._finished(kept, choice)
        return frame.attrs[PANEL], frame.to_numpy().T


def _pooled(groups: Sequence[Files], asked: Options) -> pd.DataFrame:
    """Files of other subjects: the variants of the first that all have, counted alike, filtered together."""
    panel, first = groups[0].whole(asked)
    parts, notes = [first], [note for group in groups for note in group.notes]
    for group in groups[1:]:
        other = Harmonised(panel, len(group.ids))
        for block in group.blocks(other.matching):
            other.add(block)
        values, said = other.finish(1.0, group.path)
        parts.append(values)
        notes += [note.about(group.path.name) for note in said]
    common = ~np.any([np.isnan(part).all(axis=1) for part in parts], axis=0)
    lost = count_note(int((~common).sum()), "variant", text="that not all files have left out", public=True)
    if not common.any():
        raise StudyError(
            f"{groups[0].path.name}: its subjects and variants are others than in the other files."
        )
    values = np.hstack(parts)[common].astype(np.float32)
    ids = pd.Index([id for group in groups for id in group.ids], dtype=str, name="id")
    kept = Collection(len(ids), asked.filters, asked.ld)
    kept.add(Block(panel.rows[common].drop(columns="frequency"), values, len(values)))
    together = Files(groups[0].sources, ids)
    frame = together._finished(kept, asked.choice)
    frame.attrs["notes"] = [*notes, *lost, *kept.notes]
    return frame


def _groups(sources: Sequence[Source]) -> list[Files]:
    """Sources by their subjects: all the same, or none in common."""
    groups: list[list[Source]] = []
    for source in sources:
        home = next((group for group in groups if len(group[0].ids.intersection(source.ids))), None)
        if home is None:
            groups.append([source])
        else:
            home.append(source)
    return [_same_subjects(group) for group in groups]


def _same_subjects(sources: list[Source]) -> Files:
    """Files of which some may lack a few subjects, who are left out."""
    ids, everyone = sources[0].ids, set(sources[0].ids)
    for source in sources[1:]:
        ids, everyone = ids[ids.isin(source.ids)], everyone | set(source.ids)
    if len(ids) < LEAST_COMMON * len(everyone):
        lacking = [source.path.name for source in sources if len(source.ids) < len(everyone)]
        raise StudyError(
            f"{sources[0].path.name}: only {len(ids)} of {counted(len(everyone), 'subject')} are in all "
            f"{len(sources)} files of the view; {len(lacking)} of them lack some; do they belong together?"
        )
    return Files(sources, ids.rename("id"), len(everyone) - len(ids))


def _as_frame(
    values: Array, panel: Panel, ids: pd.Index, path: Path, notes: list[Note], empty: Array | None = None
) -> pd.DataFrame:
    """The result of a reader, as `frames.finish` makes it, without comparing every value once more.

    `empty` are the variants without any call, where they are known.
    """
    if empty is None:
        empty = np.isnan(values.min(axis=1))
        empty[empty] = np.isnan(values[empty]).all(axis=1)
    if empty.all():
        return frames.finish(pd.DataFrame(values.T, columns=panel.features), ids, path, notes)
    names = pd.Index(panel.features, dtype=object)
    kept = values if not empty.any() else values[~empty]
    frame = pd.DataFrame(kept.T, index=ids, columns=names[~empty], copy=False)
    frame.attrs = {"notes": notes, "empty": names[empty].tolist(), "faults": {}, PANEL: panel}
    return frame


def _rows_together(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Frames of the same variants and other subjects."""
    if len(parts) == 1:
        return parts[0]
    features = list(parts[0].attrs[PANEL])
    bare = [part.reindex(columns=features).set_axis(features, axis=1) for part in parts]
    for part in bare:
        part.attrs = {}
    whole = pd.concat(bare)
    empty = [name for name in features if whole[name].isna().all()]
    whole = whole.drop(columns=empty)
    notes = [note for part in parts for note in part.attrs["notes"]]
    whole.attrs = {**parts[0].attrs, "notes": notes, "empty": empty}
    return whole


def _only(groups: Sequence[Files], option: str) -> Files:
    if len(groups) > 1:
        raise StudyError(
            f"{groups[0].path.name}: {option} needs files of the same subjects; some have others."
        )
    return groups[0]


def _as_panel(needed: Names[str]) -> Panel:
    return needed if isinstance(needed, Panel) else Panel.of_names(needed)


def _check_plain(asked: Options, path: Path) -> None:
    """Refuse options that would make scores depend on the subjects."""
    plain = Options(scores=asked.scores, max_absent=asked.max_absent, needed=asked.needed)
    if asked != plain:
        raise StudyError(
            f"{path.name}: scores use all variants of the weights; remove other options that choose variants."
        )
