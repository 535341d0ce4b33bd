"""Sites that are left out in turn, in the report."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from viewloom.clinical import Hidden, shown_counts
from viewloom.study.report.privacy import plain
from viewloom.study.report.table_cells import Table, number, shown, table_of, text

if TYPE_CHECKING:
    from viewloom.study.results import Results


def sites_table(results: Results) -> list[Table]:
    """A row per site: subjects, agreement, and the predicted clusters."""
    found = results.left_out_sites
    if found is None:
        return []
    counts = shown_counts(pd.DataFrame(found.counts), results.min_cell).to_numpy()
    rows = []
    for i, site in enumerate(found.sites):
        overlap = [
            number(np.nan if isinstance(counts[i, j], Hidden) else found.overlap[i, j])
            for j in range(counts.shape[1])
        ]
        cells = [text(plain(site)), number(found.sizes[i], 0), number(found.agreement[i])]
        rows.append([*cells, number(found.refit[i]), *map(shown, counts[i]), *overlap])
    names = [plain(name, 30) for name in results.cluster_names]
    columns = [("site", 0), ("subjects", 1), ("agreement", 1), ("agreement of refit", 1)]
    columns += [(f"cluster {name}", 1) for name in names]
    columns += [(f"overlap {name}", 1) for name in names]
    return [table_of("sites", "Sites left out in turn", SITES, columns, rows)]


def sites_sentence(results: Results) -> str:
    """The range of the agreement over sites; empty if no sites were left out."""
    found = results.left_out_sites
    if found is None or np.isnan(found.agreement).all():
        return ""
    low, high = np.nanmin(found.agreement), np.nanmax(found.agreement)
    return (
        f"Models without one of {len(found.sites)} sites place its subjects as the model of all sites does "
        f"with an adjusted Rand index of {low:.2f} to {high:.2f} (1 is perfect agreement, 0 is chance)."
    )


SITES = (
    "Each site is predicted by a model of the other sites; views are as prepared for all sites. Agreement: "
    "adjusted Rand index with the clusters of the model of all sites. Agreement of refit: with the clusters "
    "of a model of the site alone, for sites with enough subjects. Clusters: subjects predicted. Overlap: "
    "Jaccard index of a predicted cluster and its match in the model of the site alone. Small counts, and "
    "counts from which they could be derived, are not shown."
)
