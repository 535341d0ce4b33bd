"""Simulated data with known clusters: an ADNI-like cohort and toy data."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from viewloom.data.cohort.facts import IMAGING_VIEWS, feature_notes, region_table
from viewloom.data.cohort.genes import draw_genotypes, snp_panel
from viewloom.data.cohort.images import draw_images, later_images
from viewloom.data.cohort.people import (
    draw_missing,
    draw_people,
    draw_rates,
    later_participants,
    later_people,
    on_pathway,
    participant_table,
)
from viewloom.data.views import Views
from viewloom.runtime.errors import InputError

__all__ = [
    "Cohort", "CohortVisit", "Truth", "adni_like", "adni_like_visits", "blobs_views", "feature_notes",
    "rings", "three_kinds",
]  # fmt: skip

Seed = int | np.random.Generator | None
DIAGNOSES = ("HC", "MCI", "AD")  # the codes 0, 1, 2 of Truth.y
DROP_OUT = 0.1  # own choice: share of participants who are lost every year
MOST_MISSING = 0.75  # every participant keeps one of four views


@dataclass(frozen=True, eq=False)
class Truth:
    """Ground truth of a simulated cohort.

    Attributes
    ----------
    y : (n,) int array
        Diagnosis: 0 for HC, 1 for MCI, 2 for AD.
    stage : (n,) array
        Disease stage in [0, 1].
    course : (n,) str array
        "healthy", "stable" or "prodromal" (both MCI), "dementia".
    subtype : (n,) str array
        Atrophy subtype of participants with a prodromal or dementia course, "none" for others.
    features : DataFrame
        One row per feature, in the order of the views: ``view``, ``feature``, ``role`` ("effect"; "tag",
        linked to an effect SNP; "null"), published ``d_mci`` and ``d_ad`` of regions (positive: lower in
        disease), ``odds_ratio`` of SNPs, ``tags``, and ``block`` of linkage.
    """

    y: np.ndarray
    stage: np.ndarray
    course: np.ndarray
    subtype: np.ndarray
    features: pd.DataFrame

    def informative(self, view: str, min_effect: float = 0.0) -> list[str]:
        """Names of the features of a view with a direct disease effect.

        Parameters
        ----------
        view : str
        min_effect : float, default=0.0
            Minimum ``|d|`` between AD and HC for regions. Almost all regions have an effect; 1 selects the
            strong ones.

        Examples
        --------
        >>> "rs3818361" in adni_like(random_state=0).truth.informative("snp")
        True
        """
        chosen = (self.features["view"] == view) & (self.features["role"] == "effect")
        chosen &= ~(self.features["d_ad"].abs() < min_effect)  # SNPs have none
        return self.features.loc[chosen, "feature"].tolist()


@dataclass(frozen=True, eq=False)
class Cohort:
    """A simulated cohort.

    Attributes
    ----------
    views : Views
        ``vbm``, ``freesurfer``, ``fdg`` and ``snp``; rows of NaN for missing views.
    participants : DataFrame indexed by participant id, rows as in `views`
        ``diagnosis``, ``age``, ``sex``, ``education``, ``icv``, ``site``, ``apoe``, ``mmse``, ``cdrsb``; for
        MCI also ``conversion_time`` in years and ``conversion_event`` (1 converted, 0 last seen without).
    truth : Truth
    """

    views: Views
    participants: pd.DataFrame
    truth: Truth


def adni_like(
    n_ad: int = 88,
    n_mci: int = 174,
    n_hc: int = 83,
    *,
    missing: float = 0.0,
    n_sites: int = 12,
    random_state: Seed = None,
) -> Cohort:
    """Simulate a cohort like that of Liu & Cao: four views of AD, MCI and healthy controls.

    Parameters
    ----------
    n_ad, n_mci, n_hc : int
        Number of participants by diagnosis; the defaults are those of the paper.
    missing : float, default=0
        Share of pairs of participant and view that are missing, at most 0.75. They are random, more
        likely at later stages, and every participant keeps at least one view. The cohort of the paper is
        complete.
    n_sites : int, default=12
        Number of scanner sites, to which participants are assigned at random.
    random_state : int, Generator or None
        The same seed gives the same data. Participants do not change with `missing`.

    Returns
    -------
    Cohort

    Notes
    -----
    *Disease.* Each participant has a stage in [0, 1]; stages of different diagnoses overlap. MCI is a
    mixture: 69 % are prodromal and have the genetics of AD, the share that explains the published frequency
    of APOE e4 carriers; the others are stable. Patients have one of four atrophy subtypes (frequencies:
    Ferreira 2020).

    *Imaging.* A region loses ``amplitude * pattern[subtype] * stage ** power`` standard deviations. Amplitude
    and power of each region are chosen to reproduce the published Cohen's d of MCI and AD against HC. These
    d are rounded values from the ADNI literature (see `feature_notes`), not the table of a single paper.
    They include the spread by stage and subtype within a diagnosis, and apply at equal age and head size:
    controls are a year older and less often male than MCI, which lowers d by up to 0.15. Further effects are
    age (r = -0.4 for hippocampus and amygdala, -0.25 elsewhere), intracranial volume (r = 0.45 for volumes,
    which is also the effect of sex), site (shift 0.35 SD, scale 0.9-1.1), and noise with correlation 0.3
    within a view, 0.5 within a lobe, and 0.7 (thickness) or 0.85 between homologues. Levels are those of
    published controls: grey matter density, mm^3 and mm, SUVR; all are non-negative.

    *Genes.* Dosages of 1224 SNPs. 532 ids are documented, the others (``sim_chr7_00412``) are synthetic.
    APOE follows the genotype odds ratios of Farrer 1997; other odds ratios are those of Jun 2010, Lambert
    2013 and Kunkle 2019. Allele odds of cases are those of controls times the odds ratio, so controls are
    in Hardy-Weinberg equilibrium. Linkage is modelled by a Gaussian chain in blocks, thresholded at the
    allele frequency; six pairs have their documented r^2, and the odds ratio of the second SNP follows from
    that of the first. All other SNPs have no effect. Population structure is not modelled.

    *Clinical variables.* Demographics, MMSE and CDR-SB are those of ADNI-1 by diagnosis (Petersen 2010). The
    hazard of conversion of MCI increases with stage, and the mean risk in the first year is 16.5 % (same
    source).

    *Confidence.* The odds ratios and the conversion rate were taken from their sources. Levels,
    demographics, subtype and allele frequencies, linkage, and the correlations with age, head size and
    between regions are rounded and were not checked against a source. ``data/cohort/facts.json`` in the
    package records source or confidence of each value.

    *Assumptions* without a published value: the Beta distributions of the stage, the subtype patterns,
    half of the global and lobe factors shared by the two MRI views, age effects outside hippocampus and
    cortex, equal levels of regions if only one level is known, half of the variance of a site's shift
    common to its regions, the number of sites, the slopes of hazard, cognition and missing views on stage,
    the follow-up of 1 to 4 years. They were chosen for plausible levels and spreads, not to influence the
    result of a clustering.

    Examples
    --------
    >>> cohort = adni_like(random_state=0)
    >>> cohort.views
    Views(345 samples; vbm: 86 features, freesurfer: 56 features, fdg: 26 features, snp: 1224 features)
    >>> cohort.participants["diagnosis"].value_counts().to_dict()
    {'MCI': 174, 'AD': 88, 'HC': 83}
    >>> adni_like(missing=0.1, random_state=0).views.present.mean().round(2).item()
    0.9
    """
    return _drawn((n_ad, n_mci, n_hc), n_sites, missing, np.random.default_rng(random_state))[0]


def _drawn(
    sizes: tuple[int, int, int], n_sites: int, missing: float, rng: np.random.Generator
) -> tuple[Cohort, pd.DataFrame]:
    """A cohort, and its people as `draw_people` describes them."""
    _check_sizes(*sizes, n_sites, missing)
    people_rng, image_rng, gene_rng, clinic_rng, missing_rng = rng.spawn(5)
    people = draw_people(*sizes, n_sites, people_rng)
    dosage, apoe = draw_genotypes(snp_panel(), on_pathway(people), gene_rng)
    blocks = {**draw_images(people, n_sites, image_rng), "snp": dosage}
    lost = draw_missing(people["stage"].to_numpy(), len(blocks), missing, missing_rng)
    participants = participant_table(people, apoe, clinic_rng)
    cohort = Cohort(_as_views(blocks, lost, participants.index), participants, _truth(people))
    return cohort, people


@dataclass(frozen=True, eq=False)
class CohortVisit:
    """A visit of a simulated cohort; see `adni_like_visits`.

    Attributes
    ----------
    name : str
        "bl", "m12", "m24", ...
    cohort : Cohort
        The participants who were seen, with the values of the visit. The truth is that of the visit, too.
    dates : DataFrame
        Dates ``exam`` and ``scan`` of the participants.
    """

    name: str
    cohort: Cohort
    dates: pd.DataFrame


def adni_like_visits(
    n_ad: int = 88,
    n_mci: int = 174,
    n_hc: int = 83,
    *,
    visits: int = 3,
    missing: float = 0.0,
    n_sites: int = 12,
    random_state: Seed = None,
) -> list[CohortVisit]:
    """Simulate a cohort that is seen every year.

    Parameters
    ----------
    n_ad, n_mci, n_hc, missing, n_sites, random_state
        As in `adni_like`, whose cohort is the first visit.
    visits : int, default=3
        Number of visits.

    Returns
    -------
    list of CohortVisit

    Notes
    -----
    The stage increases linearly, by 0.08 a year on average in participants with a prodromal or dementia
    course and by 0.01 in others; the SD of the rate is half of its mean. Regions follow the stage and the
    age, with noise of 0.2 SD. The MMSE changes by -25 and the CDR-SB by 15 per unit of stage, so that slopes
    differ between participants: about -2 points of the MMSE a year in AD. Participants with MCI have AD from
    their conversion on. One in ten participants drops out each year. Exams are up to 30 days from their
    month, and scans up to 60 days from the exam. These are assumptions, without a published value.

    Examples
    --------
    >>> visits = adni_like_visits(random_state=0)
    >>> [(visit.name, len(visit.cohort.views)) for visit in visits]
    [('bl', 345), ('m12', 310), ('m24', 279)]
    """
    if visits < 1:
        raise InputError(f"visits must be at least 1, got {visits}.")
    root = np.random.default_rng(random_state)
    first, people = _drawn((n_ad, n_mci, n_hc), n_sites, missing, root)
    rng = root.spawn(1)[0]
    rate = draw_rates(people, rng)
    days = pd.Timestamp("2006-01-01") + pd.to_timedelta(rng.integers(0, 1000, len(people)), unit="D")
    seen, found = np.arange(len(people)), list[CohortVisit]()
    for years in range(visits):
        if years:
            seen = np.sort(rng.choice(seen, size=round((1 - DROP_OUT) * len(seen)), replace=False))
        cohort = first if not years else _later(first, people, rate, years, seen, rng)
        dates = _visit_dates(days[seen], years, cohort.participants.index, rng)
        found.append(CohortVisit(f"m{12 * years}" if years else "bl", cohort, dates))
    return found


def _later(
    first: Cohort,
    people: pd.DataFrame,
    rate: np.ndarray,
    years: int,
    seen: np.ndarray,
    rng: np.random.Generator,
) -> Cohort:
    """The cohort some years later, without those who dropped out."""
    image_rng, clinic_rng = rng.spawn(2)
    after = later_people(people, float(years), rate)
    images = later_images({view: first.views[view] for view in IMAGING_VIEWS}, people, after, image_rng)
    blocks = {**images, "snp": first.views["snp"]}
    table = later_participants(first.participants, rate, float(years), clinic_rng)
    views = _as_views(blocks, ~first.views.present, table.index)
    truth = _truth(after)
    rows = {name: getattr(truth, name)[seen] for name in ("y", "stage", "course", "subtype")}
    return Cohort(views[seen], table.iloc[seen], replace(truth, **rows))


def _visit_dates(
    start: pd.DatetimeIndex, years: int, ids: pd.Index, rng: np.random.Generator
) -> pd.DataFrame:
    """Dates of exams and scans; those of the first visit are not moved."""
    moved = rng.integers(-30, 31, len(start)) if years else np.zeros(len(start))
    exam = start + pd.to_timedelta(moved + round(365.25 * years), unit="D")
    scan = exam + pd.to_timedelta(rng.integers(-60, 61, len(start)), unit="D")
    return pd.DataFrame({"exam": exam.strftime("%Y-%m-%d"), "scan": scan.strftime("%Y-%m-%d")}, index=ids)


def _check_sizes(n_ad: int, n_mci: int, n_hc: int, n_sites: int, missing: float) -> None:
    if min(n_ad, n_mci, n_hc) < 0 or n_ad + n_mci + n_hc == 0:
        raise InputError(
            f"Group sizes must be 0 or more, and not all 0; got n_ad={n_ad}, n_mci={n_mci}, n_hc={n_hc}."
        )
    if n_sites < 1:
        raise InputError(f"n_sites must be at least 1, got {n_sites}.")
    if not 0 <= missing <= MOST_MISSING:
        raise InputError(f"missing must be between 0 and {MOST_MISSING}, got {missing}.")


def _as_views(blocks: dict[str, np.ndarray], lost: np.ndarray, ids: pd.Index) -> Views:
    frames = {}
    for (view, X), absent in zip(blocks.items(), lost.T, strict=True):
        names = snp_panel().index if view == "snp" else region_table(view).index
        frames[view] = pd.DataFrame(np.where(absent[:, None], np.nan, X), index=ids, columns=names)
    return Views(frames, ids=ids.to_list())


def _truth(people: pd.DataFrame) -> Truth:
    return Truth(
        y=pd.Index(DIAGNOSES).get_indexer(pd.Index(people["diagnosis"])),
        stage=people["stage"].to_numpy(),
        course=people["course"].to_numpy(dtype=str),
        subtype=people["subtype"].to_numpy(dtype=str),
        features=_feature_table(),
    )


def _feature_table() -> pd.DataFrame:
    tables = []
    for view in IMAGING_VIEWS:
        regions = region_table(view)[["d_mci", "d_ad"]].reset_index(names="feature")
        tables.append(regions.assign(view=view, role="effect", tags="", block=-1))
    snps = snp_panel()[["odds_ratio", "tags", "block"]].reset_index(names="feature")
    own = snps["tags"] == snps["feature"]
    role = np.select([own, snps["tags"] != ""], ["effect", "tag"], "null")
    tables.append(snps.assign(view="snp", role=role))
    columns = ["view", "feature", "role", "d_mci", "d_ad", "odds_ratio", "tags", "block"]
    return pd.concat(tables, ignore_index=True)[columns]


def three_kinds(n_per_cluster: int = 150, *, random_state: Seed = None) -> tuple[Views, np.ndarray]:
    """Simulate three clusters in three views of different kinds: blobs, concentric rings, and noise.

    Parameters
    ----------
    n_per_cluster : int, default=150
    random_state : int, Generator or None

    Returns
    -------
    views : Views
        ``blobs`` (3 features), ``rings`` (2) and ``noise`` (5).
    y : (n,) int array
        Cluster of each sample.

    Examples
    --------
    >>> views, y = three_kinds(20, random_state=0)
    >>> views
    Views(60 samples; blobs: 3 features, rings: 2 features, noise: 5 features)
    """
    rng = np.random.default_rng(random_state)
    y = rng.permutation(np.repeat(np.arange(3), n_per_cluster))
    data = {
        "blobs": _blobs(y, n_features=3, separation=4.0, rng=rng),
        "rings": _rings(y, noise=0.05, rng=rng),
        "noise": rng.standard_normal((len(y), 5)),
    }
    return Views(data), y


def blobs_views(
    n_samples: int = 150,
    n_views: int = 3,
    n_clusters: int = 3,
    *,
    noise_views: int = 0,
    n_features: int = 5,
    separation: float = 4.0,
    random_state: Seed = None,
) -> tuple[Views, np.ndarray]:
    """Simulate Gaussian clusters in several views, with optional views of noise.

    Parameters
    ----------
    n_samples, n_views, n_clusters : int
        `n_views` is the number of informative views; cluster sizes differ by at most one sample.
    noise_views : int, default=0
        Number of views of standard Gaussian noise, added after the informative ones.
    n_features : int, default=5
        Number of features of every view.
    separation : float, default=4
        Distance between cluster centres in units of the noise: for every pair, or as root mean square if
        there are more clusters than features.
    random_state : int, Generator or None

    Returns
    -------
    views : Views
        ``blobs0``, ``blobs1``, ..., ``noise0``, ...
    y : (n,) int array

    Examples
    --------
    >>> views, y = blobs_views(90, n_views=2, noise_views=1, random_state=0)
    >>> views.names
    ['blobs0', 'blobs1', 'noise0']
    """
    rng = np.random.default_rng(random_state)
    y = rng.permutation(np.arange(n_samples) % n_clusters)
    data = {f"blobs{a}": _blobs(y, n_features, separation, rng) for a in range(n_views)}
    data |= {f"noise{a}": rng.standard_normal((n_samples, n_features)) for a in range(noise_views)}
    return Views(data), y


def rings(
    n_per_ring: int = 100, n_rings: int = 2, *, noise: float = 0.1, random_state: Seed = None
) -> tuple[Views, np.ndarray]:
    """Simulate concentric rings of radius 1, 2, ...: one view that linear methods cannot separate.

    Parameters
    ----------
    n_per_ring, n_rings : int
    noise : float, default=0.1
        Standard deviation of both coordinates.
    random_state : int, Generator or None

    Returns
    -------
    views : Views
        ``rings`` (2 features).
    y : (n,) int array
        Ring of each sample, counted from the inside.

    Examples
    --------
    >>> views, y = rings(50, noise=0.0, random_state=0)
    >>> radius = np.hypot(*views["rings"].T)
    >>> bool(np.allclose(radius, y + 1))
    True
    """
    rng = np.random.default_rng(random_state)
    y = rng.permutation(np.repeat(np.arange(n_rings), n_per_ring))
    return Views({"rings": _rings(y, noise, rng)}), y


def _blobs(y: np.ndarray, n_features: int, separation: float, rng: np.random.Generator) -> np.ndarray:
    """Unit Gaussians around centres at distance `separation`, a random regular simplex if possible."""
    n_clusters = int(y.max()) + 1
    centres = rng.standard_normal((n_clusters, n_features))
    if n_clusters <= n_features:
        centres = np.linalg.qr(centres.T)[0].T  # orthonormal rows
    centres -= centres.mean(axis=0)
    # the mean of |c_i - c_j|^2 over pairs is 2 sum |c_i|^2 / (k - 1) for centred c
    distance = np.sqrt(2 * (centres**2).sum() / max(n_clusters - 1, 1))
    centres *= separation / distance if distance > 0 else 1.0
    return np.asarray(centres[y] + rng.standard_normal((len(y), n_features)))


def _rings(y: np.ndarray, noise: float, rng: np.random.Generator) -> np.ndarray:
    angle = rng.uniform(0, 2 * np.pi, len(y))
    circle = np.column_stack([np.cos(angle), np.sin(angle)])
    return np.asarray((y[:, None] + 1) * circle + noise * rng.standard_normal((len(y), 2)))
