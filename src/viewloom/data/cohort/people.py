"""Participants of the simulated cohort: disease, demographics, clinical variables, missing views."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.special import betaincinv, betaln

from viewloom.data.cohort.facts import facts

# Own choice: Beta(a, b) law of the disease stage in [0, 1] for each course. The regional effects are solved
# from the published d given these laws, which are narrow enough that the SD of a region in AD stays within
# 1.4 times that of controls (published FDG: 0.13 against 0.12).
STAGE = {"healthy": (1.5, 12.0), "stable": (2.0, 10.0), "prodromal": (6.0, 6.0), "dementia": (12.0, 5.0)}

# Share of MCI on the way to AD: the mixture of HC and AD carriers of APOE e4 that gives the carriers of MCI,
# (0.54 - 0.27) / (0.66 - 0.27), figures from the facts.
PRODROMAL = 0.69

HAZARD_SLOPE = 5.0  # own choice: log hazard of conversion per unit of stage
FOLLOW_UP = (1.0, 4.0)  # own choice: years until an MCI participant is last seen
STAGE_COGNITION_R = 0.5  # own choice: correlation of stage and test score within a diagnosis
RATES = (0.08, 0.01)  # own choice: mean increase of the stage per year on the way to AD, and of others
MMSE_PER_STAGE, CDRSB_PER_STAGE = -25.0, 15.0  # own choice: change of the scores per unit of stage
MISSING_SLOPE = 2.0  # own choice: log weight of losing a view, per unit of stage


def draw_people(n_ad: int, n_mci: int, n_hc: int, n_sites: int, rng: np.random.Generator) -> pd.DataFrame:
    """Draw one row per participant, in random order, without measurements."""
    n = n_ad + n_mci + n_hc
    diagnosis = rng.permutation(np.repeat(["AD", "MCI", "HC"], [n_ad, n_mci, n_hc]))
    mci_course = np.where(rng.random(n) < PRODROMAL, "prodromal", "stable")
    course = np.select([diagnosis == "AD", diagnosis == "HC"], ["dementia", "healthy"], mci_course)
    a, b = np.array([STAGE[c] for c in course]).T
    male = rng.random(n) < _by_diagnosis(diagnosis, "male")
    people = pd.DataFrame({"diagnosis": diagnosis, "course": course, "stage": rng.beta(a, b)})
    subtype = rng.choice(list(subtype_shares()), size=n, p=list(subtype_shares().values()))
    people["subtype"] = np.where(on_pathway(people), subtype, "none")
    people["sex"] = np.where(male, "M", "F")
    people["age"] = _normal(diagnosis, "age", rng).clip(55, 91).round(1)
    people["education"] = _normal(diagnosis, "edu", rng).clip(6, 20).round().astype(int)
    people["icv"] = _draw_icv(male, rng)
    people["site"] = rng.integers(n_sites, size=n)
    return people


def _draw_icv(male: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    levels = facts()["levels"]["ICV_mm3"]
    mean, sd = np.where(male[:, None], levels["M"], levels["F"]).T
    return np.asarray((mean + sd * rng.standard_normal(len(male))).clip(1.0e6, 2.2e6).round())


def _by_diagnosis(diagnosis: np.ndarray, what: str) -> np.ndarray:
    """A value of the facts for each participant: (n,), or (n, 2) for mean and SD."""
    table = facts()["demographics"]
    return np.array([table[d][what] for d in diagnosis])


def _normal(diagnosis: np.ndarray, what: str, rng: np.random.Generator) -> np.ndarray:
    mean, sd = _by_diagnosis(diagnosis, what).T
    return np.asarray(mean + sd * rng.standard_normal(len(diagnosis)))


def on_pathway(people: pd.DataFrame) -> np.ndarray:
    """Mask of participants with AD genetics: dementia and prodromal MCI."""
    return people["course"].isin(["prodromal", "dementia"]).to_numpy()


def subtype_shares() -> dict[str, float]:
    """Share of each atrophy subtype: published frequencies, divided by their sum of 1.08."""
    published = facts()["subtypes"]
    return {name: share / sum(published.values()) for name, share in published.items()}


def stage_moment(course: str, power: np.ndarray) -> np.ndarray:
    """E[s ** power] of s ~ Beta(a, b): B(a + power, b) / B(a, b)."""
    a, b = STAGE[course]
    return np.asarray(np.exp(betaln(a + power, b) - betaln(a, b)))


def group_moments(power: np.ndarray, spread: np.ndarray) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Mean and variance of ``pattern * s ** power`` by diagnosis, where E[pattern^2] = spread in patients."""
    first = {course: stage_moment(course, power) for course in STAGE}
    second = {course: stage_moment(course, 2 * power) for course in STAGE}
    second["prodromal"], second["dementia"] = spread * second["prodromal"], spread * second["dementia"]
    for moments in (first, second):
        moments["mixed"] = PRODROMAL * moments["prodromal"] + (1 - PRODROMAL) * moments["stable"]
    courses = {"HC": "healthy", "MCI": "mixed", "AD": "dementia"}
    return {group: (first[c], second[c] - first[c] ** 2) for group, c in courses.items()}


def participant_table(people: pd.DataFrame, apoe: np.ndarray, rng: np.random.Generator) -> pd.DataFrame:
    """Participants table of a study, indexed by participant id."""
    ids = pd.Index([f"sub-{i:04d}" for i in range(1, len(people) + 1)], name="participant_id")
    table = people[["diagnosis", "age", "sex", "education", "icv", "site"]].set_axis(ids)
    table["site"] = [f"site-{site + 1:02d}" for site in people["site"]]
    table["apoe"] = apoe
    table["mmse"] = _score(people, "mmse", -1, rng).clip(0, 30).round().astype(int)
    table["cdrsb"] = (2 * _score(people, "cdrsb", 1, rng)).clip(0, 36).round() / 2  # in halves
    table["conversion_time"], table["conversion_event"] = _draw_conversion(people, rng)
    return table


def later_people(people: pd.DataFrame, years: float, rate: np.ndarray) -> pd.DataFrame:
    """The same people some years later: older, and at a later stage."""
    stage = (people["stage"].to_numpy() + rate * years).clip(max=1.0)
    return people.assign(stage=stage, age=(people["age"] + years).round(1))


def draw_rates(people: pd.DataFrame, rng: np.random.Generator) -> np.ndarray:
    """Increase of the stage per year: larger in those on the way to AD."""
    mean = np.where(on_pathway(people), *RATES)
    return np.asarray(mean * rng.gamma(4.0, 0.25, size=len(people)))


def later_participants(
    table: pd.DataFrame, rate: np.ndarray, years: float, rng: np.random.Generator
) -> pd.DataFrame:
    """The participants some years later: scores follow the stage, and those who have converted have AD."""
    own = rng.standard_normal((2, len(table)))
    mmse = table["mmse"] + MMSE_PER_STAGE * rate * years + 0.7 * own[0]
    cdrsb = table["cdrsb"] + CDRSB_PER_STAGE * rate * years + 0.3 * own[1]
    converted = (table["conversion_event"] == 1) & (table["conversion_time"] <= years)
    return table.assign(
        diagnosis=table["diagnosis"].mask(converted, "AD"),
        age=(table["age"] + years).round(1),
        mmse=mmse.clip(0, 30).round().astype(int),
        cdrsb=(2 * cdrsb).clip(0, 36).round() / 2,
    )


def _score(people: pd.DataFrame, what: str, sign: int, rng: np.random.Generator) -> np.ndarray:
    """A test score with the published mean and SD of the diagnosis, correlated with stage within it."""
    groups = group_moments(np.array(1.0), np.array(1.0))
    diagnosis = people["diagnosis"].to_numpy()
    centre, variance = np.array([groups[d] for d in diagnosis]).T
    z = (people["stage"].to_numpy() - centre) / np.sqrt(variance)
    noise = np.sqrt(1 - STAGE_COGNITION_R**2) * rng.standard_normal(len(people))
    mean, sd = _by_diagnosis(diagnosis, what).T
    return np.asarray(mean + sd * (sign * STAGE_COGNITION_R * z + noise))


def _draw_conversion(people: pd.DataFrame, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Years to conversion or to the last visit, and whether conversion occurred; NaN except for MCI."""
    hazard = _baseline_hazard() * np.exp(HAZARD_SLOPE * people["stage"].to_numpy())
    converts = rng.exponential(1 / hazard)
    last_seen = rng.uniform(*FOLLOW_UP, size=len(people))
    mci = people["diagnosis"].to_numpy() == "MCI"
    time = np.where(mci, np.minimum(converts, last_seen), np.nan)
    return time, np.where(mci, converts <= last_seen, np.nan)


@cache
def _baseline_hazard() -> float:
    """Hazard at stage 0 for which the mean one-year risk of MCI is the published 16.5 %."""
    quantiles = (np.arange(1000) + 0.5) / 1000
    stages = {course: betaincinv(*STAGE[course], quantiles) for course in ("prodromal", "stable")}

    def excess(hazard: float) -> float:
        risk = {c: np.mean(1 - np.exp(-hazard * np.exp(HAZARD_SLOPE * s))) for c, s in stages.items()}
        mixed = PRODROMAL * risk["prodromal"] + (1 - PRODROMAL) * risk["stable"]
        return float(mixed - facts()["demographics"]["mci_conversion_per_year"])

    return float(brentq(excess, 1e-6, 1.0))


def draw_missing(stage: np.ndarray, n_views: int, share: float, rng: np.random.Generator) -> np.ndarray:
    """Mask (n, v) of missing views: the exact share, drawn with weights exp(slope * stage)."""
    key = MISSING_SLOPE * stage[:, None] + rng.gumbel(size=(len(stage), n_views))  # Gumbel top-k
    kept = rng.integers(n_views, size=len(stage))
    key[np.arange(len(stage)), kept] = -np.inf
    lost = np.zeros(key.size, dtype=bool)
    lost[np.argsort(-key, axis=None)[: round(share * key.size)]] = True
    return lost.reshape(key.shape)
