"""Sites that are left out in turn, in the report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from viewloom.clinical import Hidden, shown_counts
from viewloom.study.report.privacy import plain
from viewloom.study.report.table_cells import Cell, Table, number, shown, table_of, text

if TYPE_CHECKING:
    from viewloom.study.left_out import LeftOutSites
    from viewloom.study.results import Results


def sites_table(results: Results) -> list[Table]:
    """A row per site: subjects, agreement, and the predicted clusters."""
    found = results.left_out_sites
    if found is None:
        return []
    counts = shown_counts(pd.DataFrame(found.counts), results.min_cell).to_numpy()
    refitted = bool(np.isfinite(found.refit).any())  # sites are often too small for a model of their own
    rows = [
        [
            text(plain(site)),
            number(found.sizes[i], 0),
            number(found.agreement[i]),
            *map(shown, counts[i]),
            *(_refit_cells(found, counts, i) if refitted else []),
        ]
        for i, site in enumerate(found.sites)
    ]
    names = [plain(name, 30) for name in results.cluster_names]
    columns = [("site", 0), ("subjects", 1), ("agreement", 1), *((f"cluster {name}", 1) for name in names)]
    if refitted:
        columns += [("agreement of refit", 1), *((f"overlap {name}", 1) for name in names)]
    about = f"{SITES} {REFIT if refitted else NO_REFIT}"
    return [table_of("sites", "Sites left out in turn", about, columns, rows)]


def _refit_cells(found: LeftOutSites, counts: Any, i: int) -> list[Cell]:
    """Agreement of a site with the model of the site alone, without clusters whose size is hidden."""
    hidden = [isinstance(count, Hidden) for count in counts[i]]
    overlap = np.where(hidden, np.nan, found.overlap[i])
    return [number(found.refit[i]), *map(number, overlap)]


def sites_sentence(results: Results) -> str:
    """The range of the agreement over sites; empty if no sites were left out."""
    found = results.left_out_sites
    if found is None or np.isnan(found.agreement).all():
        return ""
    low, middle, high = (number(x)["text"] for x in np.nanquantile(found.agreement, (0.0, 0.5, 1.0)))
    return (
        f"When each of {len(found.sites)} sites is left out and its subjects are placed by a model of the "
        f"other sites, the agreement with the clusters of all sites is {middle} in the median, from {low} to "
        f"{high} (adjusted Rand index; 1 is perfect, 0 is chance)."
    )


SITES = (
    "Each site is predicted by a model of the other sites; views are as prepared for all sites. Agreement: "
    "adjusted Rand index with the clusters of the model of all sites, which varies much for small sites. "
    "Clusters: subjects predicted."
)
REFIT = (
    "Agreement of refit: with the clusters of a model of the site alone, for sites with enough subjects. "
    "Overlap: Jaccard index of a predicted cluster and its match in the model of the site alone."
)
NO_REFIT = "No site has enough subjects for a model of its own."
