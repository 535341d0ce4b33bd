"""Imaging views of the simulated cohort: disease, covariates, site and correlated noise of each region."""

from __future__ import annotations

import numpy as np
import pandas as pd

from viewloom.data.cohort.facts import IMAGING_VIEWS, facts, region_table
from viewloom.data.cohort.people import group_moments, stage_moment, subtype_shares

# Own choice after the definitions of the subtypes (Murray 2011, Ferreira 2020): relative atrophy of limbic
# regions, association cortex, and everything else. Rescaled so that the mean over patients is 1.
SUBTYPE_PATTERN = {
    "typical": (1.0, 1.0, 1.0),
    "limbic_predominant": (1.2, 0.6, 0.8),
    "hippocampal_sparing": (0.5, 1.2, 1.0),
    "minimal_atrophy": (0.5, 0.5, 0.5),
}
ASSOCIATION = ("temporal", "parietal", "cingulate", "frontal")  # lobes; "limbic" is its own class

# Mean and SD over the three groups in the paper's proportions, from the facts' figures by group and by sex.
AGE_SCALE = (75.2, 6.9)  # years
ICV_SCALE = (1.556e6, 0.165e6)  # mm^3
SITE_SD = 0.35  # middle of the facts' range 0.2-0.5, in SD of the feature
RETEST_SD = 0.2  # own choice: noise of a second measurement, in SD of the feature
SHARED_MRI = 0.5  # own choice: part of the global and lobe factors that VBM and FreeSurfer, one scan, share
POWERS = np.linspace(0.3, 4.0, 371)  # candidates for the shape of a region's response to the stage


def draw_images(people: pd.DataFrame, n_sites: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Draw measurements (n, d) of the three imaging views."""
    brain_rng, *view_rngs = rng.spawn(1 + len(IMAGING_VIEWS))
    lobes = sorted({lobe for _, lobe in facts()["regions"].values()})
    brain = brain_rng.standard_normal((len(people), 1 + len(lobes)))  # global factor, then one per lobe
    shared = {"vbm": SHARED_MRI, "freesurfer": SHARED_MRI, "fdg": 0.0}
    images = {}
    for view, view_rng in zip(IMAGING_VIEWS, view_rngs, strict=True):
        regions = region_table(view)
        own = view_rng.standard_normal(brain.shape)
        factors = np.sqrt(shared[view]) * brain + np.sqrt(1 - shared[view]) * own
        noise = _correlated_noise(regions, factors, lobes, view_rng)
        images[view] = _measure(regions, people, noise, n_sites, view_rng)
    return images


def later_images(
    images: dict[str, np.ndarray], before: pd.DataFrame, after: pd.DataFrame, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Measurements of the same people at a later stage and age, with new noise."""
    years = after["age"].to_numpy(dtype=float) - before["age"].to_numpy(dtype=float)
    found = {}
    for (view, X), own in zip(images.items(), rng.spawn(len(images)), strict=True):
        regions = region_table(view)
        z = _disease(regions, before) - _disease(regions, after)
        z += np.outer(years / AGE_SCALE[1], regions["age_r"].to_numpy())
        z += RETEST_SD * own.standard_normal(X.shape)
        found[view] = np.asarray((X + regions["sd"].to_numpy() * z).clip(min=0))
    return found


def _correlated_noise(
    regions: pd.DataFrame, factors: np.ndarray, lobes: list[str], rng: np.random.Generator
) -> np.ndarray:
    """Unit-variance noise (n, d): correlated 0.3 in general, 0.5 within a lobe, `lr_r` across sides."""
    global_r, lobe_r = facts()["covariates"]["global_r"], facts()["covariates"]["within_lobe_r"]
    lr_r = regions["lr_r"].to_numpy()
    lobe = factors[:, 1 + np.array([lobes.index(name) for name in regions["lobe"]])]
    n, d = lobe.shape
    pair = np.tile(rng.standard_normal((n, d // 2)), 2)  # left and right blocks are in the same order
    return np.asarray(
        np.sqrt(global_r) * factors[:, :1]
        + np.sqrt(lobe_r - global_r) * lobe
        + np.sqrt(lr_r - lobe_r) * pair
        + np.sqrt(1 - lr_r) * rng.standard_normal((n, d))
    )


def _measure(
    regions: pd.DataFrame, people: pd.DataFrame, noise: np.ndarray, n_sites: int, rng: np.random.Generator
) -> np.ndarray:
    """Values in the units of the region: level + SD * (covariates + site + noise - disease)."""
    age = _standardised(people["age"], AGE_SCALE)
    icv = _standardised(people["icv"], ICV_SCALE)
    age_r, icv_r = regions["age_r"].to_numpy(), regions["icv_r"].to_numpy()
    shift, scale = _draw_sites(n_sites, len(regions), rng)
    site = people["site"].to_numpy()
    left = 1 - age_r**2 - icv_r**2 - SITE_SD**2  # of a total variance of 1
    z = np.outer(age, age_r) + np.outer(icv, icv_r) + shift[site]
    z += scale[site, None] * np.sqrt(left) * noise - _disease(regions, people)
    return np.asarray((regions["mean"].to_numpy() + regions["sd"].to_numpy() * z).clip(min=0))


def _standardised(values: pd.Series, scale: tuple[float, float]) -> np.ndarray:
    return np.asarray((values.to_numpy(dtype=float) - scale[0]) / scale[1])


def _draw_sites(n_sites: int, d: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Shift (n_sites, d), half of its variance common to all regions, and scale (n_sites,)."""
    common, own = rng.standard_normal((n_sites, 1)), rng.standard_normal((n_sites, d))
    low, high = facts()["covariates"]["site_scale"]
    return SITE_SD * (common + own) / np.sqrt(2), rng.uniform(low, high, n_sites)


def _disease(regions: pd.DataFrame, people: pd.DataFrame) -> np.ndarray:
    """Loss in SD (n, d), 0 on average in healthy controls."""
    kind = _pattern_class(regions)
    amplitude, power = _responses(regions["d_mci"].to_numpy(), regions["d_ad"].to_numpy(), kind)
    pattern = np.vstack([_subtype_patterns(), np.ones(3)])  # the last row for people without a subtype
    codes = pd.Index([*SUBTYPE_PATTERN, "none"]).get_indexer(pd.Index(people["subtype"]))
    effect = pattern[codes][:, kind] * people["stage"].to_numpy()[:, None] ** power
    return np.asarray(amplitude * (effect - stage_moment("healthy", power)))


def _pattern_class(regions: pd.DataFrame) -> np.ndarray:
    """Column of SUBTYPE_PATTERN for each region: 0 limbic, 1 association cortex, 2 other."""
    lobe = regions["lobe"].to_numpy()
    return np.select([lobe == "limbic", np.isin(lobe, ASSOCIATION)], [0, 1], 2)


def _subtype_patterns() -> np.ndarray:
    """Subtypes x classes of region, with mean 1 over patients."""
    raw = np.array(list(SUBTYPE_PATTERN.values()))
    return np.asarray(raw / (_shares() @ raw))


def _shares() -> np.ndarray:
    return np.array([subtype_shares()[name] for name in SUBTYPE_PATTERN])


def _responses(d_mci: np.ndarray, d_ad: np.ndarray, kind: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Amplitude A and power p of each region from its two Cohen's d.

    With mean difference D(p) to controls and mean variance V(p) of the two groups, both for A = 1, and noise
    of unit variance, ``d = A D / sqrt(1 + A^2 V)``. For AD this gives A at every p; the p with the closest
    d of MCI is used.
    """
    spread = (_shares() @ _subtype_patterns() ** 2)[kind][:, None]
    groups = group_moments(POWERS, spread)
    (m_hc, v_hc), (m_mci, v_mci), (m_ad, v_ad) = (groups[name] for name in ("HC", "MCI", "AD"))
    target = d_ad[:, None]
    inverse_square = ((m_ad - m_hc) / target) ** 2 - (v_ad + v_hc) / 2
    amplitude = 1 / np.sqrt(np.where(inverse_square > 0, inverse_square, np.inf))  # 0: this p cannot reach d
    reached = amplitude * (m_mci - m_hc) / np.sqrt(1 + amplitude**2 * (v_mci + v_hc) / 2)
    best = np.abs(reached - d_mci[:, None]).argmin(axis=1)
    return amplitude[np.arange(len(best)), best], POWERS[best]
