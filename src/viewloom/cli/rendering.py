"""Output of the command line: tables and lines of text, without data on individual subjects."""

from __future__ import annotations

import errno
import json
import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from viewloom.runtime.errors import ViewloomError
from viewloom.runtime.progress import progress_bar, showing_parts
from viewloom.runtime.streams import encodes
from viewloom.runtime.visible import visible

if TYPE_CHECKING:
    import pandas as pd

    from viewloom.evaluation.comparison import Comparison
    from viewloom.evaluation.selection import ClusterNumber
    from viewloom.evaluation.solutions import Solutions
    from viewloom.study.check import Check
    from viewloom.study.notes import Note
    from viewloom.study.readers.catalogue import Entry
    from viewloom.study.replicated import StudyReplication
    from viewloom.study.run import Results


class Safe(Console):
    """A console that escapes control characters in text from files."""

    def render_str(self, text: str, *arguments: Any, **options: Any) -> Text:
        """Escape control characters; all text that is printed passes here, tables included."""
        return super().render_str(visible(text, keep="\n"), *arguments, **options)


console = Safe()
errors = Safe(stderr=True)
LEAST_WIDTH = 80  # on narrower terminals lines wrap, and numbers are not cut
BAR = 20  # characters of the longest bar
MOST_PATTERNS = 12  # combinations of views in a table
MOST_SITES = 20
MOST_COLUMNS = 15  # of a matrix: five characters each, in 80 columns
MOST_NOTES = 12
REFUSED = (
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EISDIR,
)  # errors that another path avoids
MOST_TYPES = 40  # columns with levels that are listed
MOST_ASIDE = 20  # columns
BAD_INPUT = (ValueError, TypeError, ImportError, FileNotFoundError)
if console.width < LEAST_WIDTH:
    console.width = LEAST_WIDTH
COLOURS = {
    "stable": "green",
    "reproducible": "yellow",
    "doubtful": "yellow",
    "unstable": "red",
    "not reproducible": "red",
}  # by the first word, or all of them


def table_of(title: str | None, *columns: str, text: int = 1) -> Table:
    """An empty table; the first `text` columns are text, the others numbers."""
    table = Table(
        title=title, title_justify="left", box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0)
    )
    for position, name in enumerate(columns):
        justify: Any = "left" if position < text else "right"
        table.add_column(_cell(name), justify=justify, no_wrap=position >= text)
    return table


def rows_of(table: Table, rows: Iterable[Sequence[Any]]) -> Table:
    """The table with rows; markup in names is escaped."""
    for row in rows:
        table.add_row(*map(_cell, row))
    return table


def _cell(value: Any) -> str:
    """A name from a file for a table: on one line, with markup escaped."""
    return escape(visible(value))


def bar(share: float) -> str:
    """A bar of blocks, at least one character wide.

    >>> bar(0.5), bar(0.01)
    ('██████████', '▏')
    """
    return "█" * round(BAR * share) or "▏"


def print_json(content: Any) -> None:
    """Print JSON to the standard output."""
    from viewloom.study.run.tables import plain

    text = json.dumps(plain(content), indent=1, ensure_ascii=False)
    print(_inert_json(text) if encodes(text, sys.stdout) else json.dumps(plain(content), indent=1))


def _inert_json(text: str) -> str:
    r"""The same JSON with invisible characters as escapes; see `visible`.

    >>> print(_inert_json('"ä\u202e"'))
    "ä\u202e"
    """
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)


def print_line(text: str, style: str | None = None) -> None:
    """Print a line without wrapping, so that paths can be copied."""
    console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)


def progress_wanted(quiet: bool) -> bool:
    """Whether to draw progress bars: only on a terminal."""
    return console.is_terminal and not quiet


@contextmanager
def working(title: str, quiet: bool) -> Iterator[None]:
    """Show the time of a task of unknown length, and its parts."""
    with progress_bar(title, 0, progress_wanted(quiet)), showing_parts():
        yield


def show(table: Table) -> None:
    """Print a table and a blank line."""
    console.print(table)
    console.print()


def print_error_line(text: str) -> None:
    """Print an error to the standard error."""
    errors.print(f"[bold red]Error:[/bold red] {escape(text)}", highlight=False, soft_wrap=True)


def print_error(error: BaseException, debug: bool) -> int:
    """Print an error on one line and return the exit code: 2 for invalid input, 1 otherwise.

    Messages of other libraries may quote data and are not shown; a traceback shows lines of code only.
    """
    if debug:
        errors.print("".join(traceback.format_tb(error.__traceback__)), markup=False, soft_wrap=True)
    if isinstance(error, ViewloomError):
        for line in str(error).split("\n"):
            print_error_line(line)
        return 2 if isinstance(error, BAD_INPUT) or getattr(error, "errno", None) in REFUSED else 1
    cause = error.strerror if isinstance(error, OSError) and error.strerror else "the program failed"
    print_error_line(f"{cause} ({type(error).__name__}); --debug shows where.")
    return 2 if isinstance(error, (FileNotFoundError, PermissionError)) else 1


def print_check(check: Check) -> None:
    """Print views, subjects and covariates of a study, and the notes on its data."""
    print_line(f"{visible(check.name)} · {check.n_subjects} subjects\n", "bold")
    if len(check.groups):
        show(_groups(check))
    views = table_of("Views", "view", "format", "subjects", "features", "missing cells", "constant", text=2)
    rows = (
        (name, v["format"], v["subjects"], v["features"], _missing(v), v["constant"])
        for name, v in check.views.iterrows()
    )
    show(rows_of(views, rows))
    if len(check.types):
        show(_types(check))
    if check.aside:
        show(_aside(check))
    if len(check.views) > 1 and len(check.overlaps):
        show(_overlaps(check))
    if check.diagnoses:
        show(rows_of(table_of("Diagnoses", "diagnosis", "subjects"), check.diagnoses.items()))
    if len(check.covariates):
        show(_covariates(check))
    if len(check.sites):
        show(_sites(check))
    print_notes("Notes", check.notes)


def _groups(check: Check) -> Table:
    """Who is clustered, who is reference and who is left out, by diagnosis."""
    columns = ["diagnosis", *map(str, check.groups.columns)]
    rows = [(name, *counts) for name, *counts in check.groups.itertuples()]
    table = rows_of(table_of("Who is clustered", *columns), rows)
    return rows_of(table, [("all", *check.groups.sum().tolist())] if len(rows) > 1 else [])


def _missing(view: pd.Series) -> str:
    return f"{view['missing']} ({view['missing_share']:.1%})"


def _types(check: Check) -> Table:
    """Columns of views that have levels, and where their types come from."""
    table = table_of(
        "Columns with levels", "view", "column", "type", "levels", "type from", "missing", text=5
    )
    rest = len(check.types) - MOST_TYPES
    if rest > 0:
        table.caption = f"{rest} more columns"
    shown = check.types[:MOST_TYPES].to_dict("records")
    keys = ("view", "column", "type", "levels", "source", "missing")
    return rows_of(table, [tuple(row[key] for key in keys) for row in shown])


def _aside(check: Check) -> Table:
    """Columns that are not features, and the reasons."""
    table = table_of("Columns set aside", "view", "column", "reason", text=3)
    rows = [(view, name, why) for view, found in check.aside.items() for name, why in found.items()]
    if len(rows) > MOST_ASIDE:
        table.caption = f"{len(rows) - MOST_ASIDE} more columns; --json shows all"
    return rows_of(table, rows[:MOST_ASIDE])


def _covariates(check: Check) -> Table:
    """The columns of the participants, by type."""
    table = table_of("Participants", "column", "role", "type", "levels or range", "missing", text=4)
    rows = (
        (name, row["role"], row["type"], _levels_or_range(row), row["missing"])
        for name, row in check.covariates.iterrows()
    )
    return rows_of(table, rows)


def _levels_or_range(row: pd.Series) -> str:
    if isinstance(row["levels"], str):
        return row["levels"]
    if row["lowest"] != row["lowest"]:  # NaN
        return "too few values to show"
    if row["lowest"] == row["highest"]:
        return f"most are {row['lowest']:g}"
    return f"most from {row['lowest']:g} to {row['highest']:g}, in steps of {row['step']:g}"


def _sites(check: Check) -> Table:
    """Subjects of the largest sites."""
    order = (-check.sites.iloc[:, 0].to_numpy()).argsort(kind="stable")
    sites = check.sites.iloc[order]
    table = table_of("Subjects per site", "site", *map(str, sites.columns))
    rest = sites.iloc[MOST_SITES:]
    if len(rest):
        table.caption = f"{len(rest)} more sites with {rest.iloc[:, 0].sum()} subjects"
    return rows_of(table, sites.iloc[:MOST_SITES].itertuples())


def _overlaps(check: Check) -> Table:
    """Combinations of views with their counts as bars."""
    names = [str(name) for name in check.views.index]
    numbered = sum(len(name) + 2 for name in names) + len("subjects") > console.width
    heads = [str(number) for number in range(1, len(names) + 1)] if numbered else names
    title = "Subjects by available views" + ", numbered in their order above" * numbered
    table = table_of(title, *heads, "", "subjects", text=len(names) + 1)
    shown = check.overlaps.iloc[:MOST_PATTERNS]
    for pattern, count in zip(shown.index, shown, strict=True):
        dots = ["●" if has else "[dim]·[/dim]" for has in pattern]
        table.add_row(*dots, f"[cyan]{bar(count / shown.max())}[/cyan]", str(count))
    rest = check.overlaps.iloc[MOST_PATTERNS:]
    if len(rest):
        table.caption = f"{len(rest)} more combinations with {rest.sum()} subjects"
    return table


def print_notes(title: str, notes: Sequence[Note]) -> None:
    """Print notes with exact counts."""
    if notes:
        console.print(f"[italic]{title}[/italic]")
    for note in notes[:MOST_NOTES]:
        console.print(f"  • {_cell(note)}", highlight=False)
    if len(notes) > MOST_NOTES:
        console.print(f"  • and {len(notes) - MOST_NOTES} more; --json shows all")


def check_as_dict(check: Check) -> dict[str, Any]:
    """A check as a dict for JSON."""
    from viewloom.study.advice import advice

    patterns = [
        {"views": [name for name, has in zip(check.views.index, pattern, strict=True) if has], "subjects": n}
        for pattern, n in zip(check.overlaps.index, check.overlaps, strict=True)
    ]
    names = list(check.views.index)
    sites = {
        site: {"subjects": total, "per_view": dict(zip(names, counts, strict=True))}
        for site, total, *counts in check.sites.itertuples()
    }
    return {
        "name": check.name,
        "ok": check.ok,
        "subjects": check.n_subjects,
        "views": check.views.to_dict("index"),
        "overlaps": patterns,
        "constant": check.constant,
        "aside": check.aside,
        "sites": sites,
        "diagnoses": check.diagnoses,
        "groups": {role: counts.to_dict() for role, counts in check.groups.items()},
        "participants": check.covariates.to_dict("index"),
        "types": check.types.to_dict("records"),
        "notes": [str(note) for note in check.notes],
        "problems": check.problems,
        "suggestions": {
            message: [asdict(one) for one in found]
            for message, found in advice([*check.problems, *check.notes]).items()
        },
    }


def print_results(results: Results) -> None:
    """Print the results of a fit: clusters, weights, stability and notes."""
    from viewloom.study.report.evidence import evidence_sentence

    views = results.views
    print_line(f"\n{visible(results.name)} · {len(views)} subjects · {views.n_views} views\n", "bold")
    show(_clusters(results))
    show(_weights(results))
    print_line(f"Stability: refits on subsamples agree with an ARI of {results.stability.overall:.2f}.")
    print_line(evidence_sentence(results))
    found = results.agreement
    if found is not None:
        scores = f"accuracy {found['Acc']:.2f}, ARI {found['ARI']:.2f}, NMI {found['NMI']:.2f}"
        print_line(f"Agreement with {results.roles.diagnosis!r}: {scores}.")
    for sentence in _design(results):
        print_line(sentence)
    if results.comparison is not None:
        console.print()
        show(comparison_table(results.comparison))
        print_agreement(results.comparison)
    if results.solutions is not None:
        print_solutions(results.solutions)
    if results.numbers is not None:
        print_number(results.numbers)
    print_notes("Notes", results.notes)


def _design(results: Results) -> list[str]:
    """What the report says on who was clustered, and on severity."""
    from viewloom.study.report.design import design_section
    from viewloom.study.report.disclosed import disclosed

    section = design_section(results, disclosed(results).precision)
    return [] if section is None else section["sentences"]


def _clusters(results: Results) -> Table:
    table = table_of("Clusters", "cluster", "subjects", "share", "stability", "")
    rows = zip(results.cluster_names, results.sizes, results.cluster_stability, strict=True)
    for j, (name, size, stable) in enumerate(rows):
        share = f"{size / len(results.views):.0%}"
        table.add_row(_cell(name), str(size), share, f"{stable:.2f}", _verdict(results, j))
    return table


def _weights(results: Results) -> Table:
    from viewloom.study.run.tables import weights_table

    table = table_of("View weights", "view", "", "weight", "subjects", "features", text=2)
    rows = weights_table(results)
    for view, weight, n, d in rows.itertuples(index=False):
        blocks = f"[cyan]{bar(weight / rows['weight'].max())}[/cyan]"
        table.add_row(_cell(view), blocks, f"{weight:.3f}", str(n), str(d))
    return table


def _verdict(results: Results, j: int) -> str:
    """What a cluster is, in colour."""
    from viewloom.study.report.evidence import cluster_words

    found = cluster_words(results, j)
    colour = COLOURS.get(found, COLOURS.get(found.split()[0]))
    return f"[{colour}]{found}[/]" if colour else found


def print_formats(entries: Sequence[Entry], title: str) -> None:
    """Print formats, or kinds of files: what each is, its options, and a block of study.toml."""
    print_line(title, style="bold")
    for one in entries:
        needs = f"  (pip install viewloom[{one.extra}])" if one.extra else ""
        print_line(f"\n{one.name}: {one.about}{needs}")
        for label, names in (("names end with", one.ends), ("options", one.options)):
            print_line(f"  {label}: {', '.join(names)}") if names else None
        print_line("".join(f"    {line}\n" for line in one.example.split("\n")).rstrip("\n"))
    print_line("")


def print_number(number: ClusterNumber) -> None:
    """Print the recommended number of clusters and the reasons."""
    columns = ["k", "stability", "twin_stability", "pac", "gap", "prediction_strength"]
    show(frame_table("Stability against the number of clusters", number.table[columns]))
    console.print(f"Recommended: {number.recommended or 'no clear clusters'}")
    for reason in number.reasons:
        console.print(reason)


def frame_table(title: str, frame: pd.DataFrame) -> Table:
    """A data frame of numbers."""
    table = table_of(title, *(str(name).replace("_", " ") for name in frame.columns), text=0)
    rows = ([_number(value) for value in row] for row in frame.itertuples(index=False))
    return rows_of(table, rows)


def _number(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def comparison_table(result: Comparison) -> Table:
    """The comparison as in the paper: per cent, mean over seeds, standard deviation of the first scores."""
    from viewloom.evaluation.comparison import SCORES

    table = table_of("Agreement with the classes (%)", "method", *SCORES, "largest", "sec", "iter")
    several = len(set(result.runs["seed"])) > 1
    for name, row in result.table.iterrows():
        spread = [
            f"{100 * row[score]:.1f}" + f"±{100 * row[f'{score}_sd']:.1f}" * several for score in SCORES[:3]
        ]
        means = [f"{100 * row[score]:.1f}" for score in SCORES[3:]]
        iterations = "" if row["iterations"] != row["iterations"] else f"{row['iterations']:.0f}"
        largest = "" if "largest" not in row else f"{100 * row['largest']:.0f}"
        table.add_row(_cell(name), *spread, *means, largest, f"{row['seconds']:.1f}", iterations)
    drawn = "" if result.rows is None else f" In {len(result.rows)} subjects, drawn at random."
    oracle = " oracle: chosen with the labels." * any("oracle" in str(name) for name in result.table.index)
    scale = "MI: Mirkin distance, 100 - RI, lower is better. largest: samples in the largest cluster."
    table.caption = f"{scale}{oracle}{drawn}"
    return table


def print_agreement(result: Comparison) -> None:
    """Print the agreement between methods, and the methods that found no clusters.

    Rows are numbered, and columns have the numbers; names are listed above, so that 15 methods fit in 80
    columns. Further methods follow in further tables.
    """
    matrix = result.agreement
    print_line("Agreement between methods (100 x adjusted Rand index; diagonal: between seeds)")
    for i, name in enumerate(matrix.index, 1):
        print_line(f"{i:4d} {visible(name)}")
    rows = [[str(round(100 * value)) for value in row] for row in matrix.to_numpy()]
    for start in range(0, len(rows), MOST_COLUMNS):
        shown = range(start, min(start + MOST_COLUMNS, len(rows)))
        print_line("     " + "".join(f"{j + 1:5d}" for j in shown))
        for i, row in enumerate(rows):
            print_line(f"{i + 1:5d}" + "".join(f"{row[j]:>5}" for j in shown))
    if result.collapsed:
        names = "; ".join(visible(name) for name in result.collapsed)
        print_line(f"Nearly all samples in one cluster, so no clusters were found: {names}")


def print_solutions(found: Solutions) -> None:
    """Print which settings give the same clusters, and which choices matter."""
    from viewloom.evaluation.solutions import SAME

    settings = table_of("Settings that differ in one choice", "setting", "group", "agreement", "largest")
    rows = (
        (name, row["group"], f"{row['agreement']:.2f}", f"{row['largest']:.0%}")
        for name, row in found.settings.iterrows()
    )
    show(rows_of(settings, rows))
    choices = table_of("Choices, the most influential first", "choice", "tried", "lowest", "mean", "", text=2)
    lines = (
        (
            name,
            row["values"],
            f"{row['lowest']:.2f}",
            f"{row['mean']:.2f}",
            "same" if row["same"] else "other",
        )
        for name, row in found.choices.iterrows()
    )
    show(rows_of(choices, lines))
    print_line(
        f"Settings of one group give the same clusters (adjusted Rand index of {SAME:g} or more in the mean)."
    )


def print_replication(results: StudyReplication) -> None:
    """Print the verdict on each cluster, clinical associations, cautions and notes."""
    found, names = results.found, results.cluster_names
    print_line(f"\n{visible(results.first)} in {visible(results.second)}: {found.verdict}\n", "bold")
    columns = ("cluster", "verdict", "transferred", "refitted", "Jaccard", "in-group", "profile")
    table = table_of("Clusters", *columns, text=2)
    for j, row in enumerate(found.clusters.to_dict("records")):
        counts = [str(row["transferred"]), str(row["refitted"])]
        values = [f"{row[name]:.2f}" for name in ("jaccard", "in_group", "profile")]
        table.add_row(_cell(names[j]), row["verdict"], *counts, *values)
    show(table)
    overall = found.overall
    print_line(
        f"Agreement of transferred and refitted clusters: ARI {overall['ari']:.2f}, p {overall['p']:.3f}."
    )
    tested = results.clinical[results.clinical["confirmed"] != "not tested"]
    if len(tested):
        confirmed = int((tested["confirmed"] == "yes").sum())
        print_line(f"Clinical associations confirmed: {confirmed} of {len(tested)}.")
    for caution in found.cautions:
        print_line(f"Caution: {caution}")
    print_notes("Notes", results.notes)


def print_predictions(table: pd.DataFrame) -> None:
    """Print the number of subjects in each cluster, and how many are far from the training data."""
    counts = (table["far"] == "yes").groupby([table["label"], table["cluster"]]).agg(["size", "sum"])
    shown = table_of("Predicted clusters", "cluster", "subjects", "far from training data")
    show(rows_of(shown, ((name, *row) for (_, name), *row in counts.itertuples())))
    print_notes("Notes", table.attrs["notes"])
