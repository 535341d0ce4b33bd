"""Readers of imputed and sequenced genotypes: PLINK 2, BGEN, VCF and BCF."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from viewloom.study.readers.formats import Sample
from viewloom.study.readers.genotypes import bgen, pgen, vcf
from viewloom.study.readers.genotypes.reading import Paths, genotypes, with_options


@with_options
def read_pgen(path: Paths, *, min_info: float = 0.0, **options: Any) -> pd.DataFrame:
    """Read PLINK 2 genotypes: calls or dosages.

    Parameters
    ----------
    path : path or list of paths
        The ``.pgen`` file, with its ``.pvar`` or ``.pvar.zst`` and its ``.psam`` in the same folder; or
        several, as one per chromosome.
    min_info : float, default=0
        Minimum quality of imputation: of the INFO column (R2, INFO, DR2, ...), else computed from dosages.
    **options
        As of `plink.read_bed`.

    Returns
    -------
    DataFrame indexed by ``id``, the IID
        Column ``rs429358_C`` counts allele C, which is ALT.
    """
    return genotypes(path, pgen.PgenSource, min_info=min_info, **options)


@with_options
def read_bgen(
    path: Paths, *, min_info: float = 0.0, sample: str | Path | None = None, **options: Any
) -> pd.DataFrame:
    """Read expected counts from the genotype probabilities of BGEN files.

    Parameters
    ----------
    path : path or list of paths
    min_info : float, default=0
        Minimum quality of imputation, computed from dosages.
    sample : path, optional
        The ``.sample`` file with the ids, one for all files; by default the one with the name of the
        ``.bgen``, else the ids in the file itself.
    **options
        As of `plink.read_bed`.

    Returns
    -------
    DataFrame indexed by ``id``
        Column ``rs429358_C`` counts allele C, which is the second one.
    """
    source = partial(bgen.BgenSource, sample=None if sample is None else Path(sample))
    return genotypes(path, source, min_info=min_info, **options)


@with_options
def read_vcf(path: Paths, *, min_info: float = 0.0, field: str | None = None, **options: Any) -> pd.DataFrame:
    """Read calls or dosages of VCF and BCF files.

    Parameters
    ----------
    path : path or list of paths
    min_info : float, default=0
        Minimum quality of imputation: INFO fields R2, INFO or DR2, else computed from dosages.
    field : {"GT", "DS"}, optional
        Calls or dosages; by default dosages where the header declares them.
    **options
        As of `plink.read_bed`.

    Returns
    -------
    DataFrame indexed by ``id``
        Column ``rs429358_C`` counts allele C, which is ALT.
    """
    return genotypes(path, partial(vcf.VcfSource, field=field), min_info=min_info, **options)


def is_pgen(sample: Sample) -> bool:
    """Whether a file is a ``.pgen``."""
    return sample.path.is_file() and pgen.is_pgen(sample.path)


def is_bgen(sample: Sample) -> bool:
    """Whether a file is a ``.bgen``."""
    return sample.path.is_file() and bgen.is_bgen(sample.path)
