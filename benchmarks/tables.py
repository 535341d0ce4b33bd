"""Tables on the terminal."""

from __future__ import annotations

import numpy as np
import pandas as pd
import summary
from methods import DEFAULT, Method
from registry import REFERENCES
from rich.console import Console
from rich.table import Table
from scores import METRICS
from sets import BenchSet

WIDTH = 140  # where the output is not a terminal
TWO_DIGITS = ("rank", "seconds", "of equal", "share", "weights rho", "agreement rho")


def make_console() -> Console:
    """A console that does not squeeze tables when its output goes to a file."""
    console = Console()
    return console if console.is_terminal else Console(width=WIDTH)


def show(console: Console, title: str, frame: pd.DataFrame, index: str = "") -> None:
    """Print a data frame; its index becomes the first column where `index` names it."""
    table = Table(title=title, title_justify="left")
    if index:
        table.add_column(index, no_wrap=True)
    for name, column in frame.items():
        table.add_column(str(name), justify="right" if pd.api.types.is_numeric_dtype(column) else "left")
    names = [*([index] if index else []), *map(str, frame)]
    for row in frame.itertuples(index=bool(index), name=None):
        cells = [_cell(name, value) for name, value in zip(names, row, strict=True)]
        table.add_row(*cells, style="bold" if row[0] == DEFAULT else "")
    console.print(table)


def _cell(name: str, value: object) -> str:
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if not isinstance(value, float):
        return str(value)
    if pd.isna(value):
        return "-"
    return f"{value:.2f}" if name in TWO_DIGITS else f"{value:.3f}"


def show_set(console: Console, bench_set: BenchSet, frame: pd.DataFrame) -> None:
    """Scores of all methods on one set."""
    scores = summary.of_one_set(frame, bench_set.name)
    shown = pd.DataFrame(index=scores.index)
    for metric in METRICS:
        shown[metric] = [
            _with_spread(mean, spread)
            for mean, spread in zip(scores[metric], scores[f"{metric} spread"], strict=True)
        ]
    shown["seconds"] = scores["seconds"]
    title = (
        f"{bench_set.name}: {bench_set.n_samples} samples, {bench_set.n_views} views, "
        f"{bench_set.n_clusters} classes"
    )
    show(console, title, shown, "method")


def _with_spread(mean: float, spread: float) -> str:
    if pd.isna(mean):
        return "failed"
    return f"{mean:.3f}" if pd.isna(spread) else f"{mean:.3f} ± {spread:.3f}"


def show_group(console: Console, group: str, frame: pd.DataFrame) -> None:
    """Mean, rank and regret, survival, weights against single views, paired differences of one group."""
    part = frame[frame["group"] == group]
    run = [name for name in REFERENCES if name in set(part["method"])]
    title = f"{group}: means, ranks, and regret against the best of {', '.join(run)}"
    show(console, title, summary.standing(part), "method")
    if group == "simulated":
        title = "simulated: NMI of diagnosis and subtypes, eta squared of stage"
        show(console, title, summary.by_block(part), "method")
    if not (survival := summary.survival(part)).empty:
        title = f"{group}: survival of clusters that were found without it (C-index out of sample)"
        show(console, title, survival, "method")
    show_weights(console, group, part)
    show_paired(console, group, part)


def show_weights(console: Console, group: str, part: pd.DataFrame) -> None:
    """What weights and reported agreement say of single views."""
    table = summary.weights_against_views(part) if "single" in part else pd.DataFrame()
    if not table.empty:
        title = f"{group}: rank correlation with single-view NMI (three views or more)"
        show(console, title, table, "method")


def show_paired(console: Console, group: str, part: pd.DataFrame) -> None:
    """Differences of NMI to the default over the sets."""
    scores = summary.by_set(summary.clean(part), "NMI").dropna(how="all")
    if DEFAULT in scores and scores.shape[1] > 1:
        title = f"{group}: NMI less that of {DEFAULT}, 95 % bootstrap interval; sets that differ by 0.01"
        units = part.drop_duplicates("set").set_index("set")["unit"]
        show(console, title, summary.paired(scores, units), "method")


def show_all_groups(console: Console, frame: pd.DataFrame) -> None:
    """All sets together: the figures to bring down."""
    title = "all groups: means, ranks and regret over all sets with known classes"
    show(console, title, summary.standing(frame), "method")
    show_weights(console, "all groups", frame)
    show_paired(console, "all groups", frame)


def show_overall(console: Console, frame: pd.DataFrame) -> None:
    """Means, ranks and wins, what was published, speed, and who failed where."""
    n_sets = summary.clean(frame)["set"].nunique()
    table = summary.overall(frame)
    show(console, f"Means over {n_sets} sets; rank and wins by NMI", table, "method")
    console.print(
        "Means are over the sets that a method finished (last column); a set without a result counts as the "
        "last rank. No fit sees a label, but viewloom's default constants were compared by score on the sets "
        "of the default folder during its development, the peers' were not: read a lead with that in mind."
    )
    if len(table) > 1 and n_sets > 1:
        difference = summary.critical_difference(len(table), n_sets)
        console.print(f"Critical difference of mean ranks (Nemenyi, 5 %): {difference:.2f}")
    if DEFAULT in table.index:
        show_published(console, frame)
        console.print(summary.speed(frame))


def show_published(console: Console, frame: pd.DataFrame) -> None:
    """The best published figures beside ours, and how often they are reached."""
    table = summary.against_published(frame)
    if table.empty:
        return
    show(console, "Beside the best published figures (most of them tuned on the labels)", table, "set")
    both = (table["Acc reached"] & table["NMI reached"]).sum()
    console.print(
        f"At or above the published figure on {table['Acc reached'].sum()} (Acc), "
        f"{table['NMI reached'].sum()} (NMI), {both} (both) of {len(table)} sets."
    )


def show_ablation(console: Console, frame: pd.DataFrame) -> None:
    """The default with one idea off at a time."""
    show(
        console,
        "One idea off at a time: change of NMI, sets better and worse by 0.01, NMI of each group",
        summary.ablation(frame),
        "form",
    )


def show_hostile(console: Console, frame: pd.DataFrame) -> None:
    """What harmful views cost, and whether their weight is the least."""
    title = "A harmful view added: loss of NMI, weight, weight over equal share, how often it is the least"
    show(console, title, summary.hostile(frame))
    title = "A view of signal beside one of noise: NMI, and the weight of the signal view"
    show(console, title, summary.signal_and_noise(frame), "method")
    if DEFAULT in set(frame["method"]):
        show(console, f"NMI of {DEFAULT} with each harmful view", summary.hostile_by_set(frame), "set")


def show_missing(console: Console, frame: pd.DataFrame) -> None:
    """Using all subjects against dropping the incomplete ones."""
    title = "A share of subjects lacks the same view: NMI"
    show(console, title, summary.one_view_missing(frame), "method")
    show(console, "A share of subjects lacks one random view: NMI", summary.missing(frame))
    console.print(
        "Complete case: fitted on whole subjects only and scored on all, the dropped ones as one cluster of "
        "their own, or predicted. whole: scored on the subjects with all views."
    )


def show_failures(console: Console, frame: pd.DataFrame) -> None:
    """Footnotes: every failure with its reason."""
    if lines := summary.failures(frame):
        console.print("[bold]Without result:[/bold]")
        for line in lines:
            console.print(line, markup=False, highlight=False)


def show_absent(console: Console, methods: list[Method]) -> None:
    """Peers that are not installed."""
    packages = sorted({method.package for method in methods if not method.installed})
    if packages:
        console.print(f"Not installed: {', '.join(packages)}. For all peers: pip install -e '.\\[bench]'")
