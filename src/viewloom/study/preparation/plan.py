"""The settings of the preparation of views."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from viewloom.data.naming import listed
from viewloom.study.errors import StudyError

CHOICES = {
    "impute": ("median", "knn"),
    "residualise_on": ("controls", "all"),
    "harmonise": ("none", "combat"),
    "harmonise_on": ("all", "controls"),
    "new_sites": ("error", "average", "adapt"),
}
TWICE = "excludes residualise, since both remove the effects of covariates; use one of them"
ALWAYS_CONTROLS = "is relative to controls; leave residualise_on = 'all' out"
ADAPT = (
    "'adapt' needs harmonise = 'combat' and harmonise_on = 'controls', since a new site is compared with "
    "the controls of training"
)


@dataclass(frozen=True)
class Plan:
    """The settings of a `Preparation`.

    The names are those of ``[preparation]`` in study.toml; diagnosis and site are under ``[participants]``.

    Parameters
    ----------
    impute : {"median", "knn"}
        How missing cells of observed rows are imputed. "knn" uses the mean of the nearest training subjects,
        like `sklearn.impute.KNNImputer` on standardised features, and stores training rows.
    n_neighbors : int, default=5
    genotypes : sequence of str
        Views of allele counts (0 to 2). Missing calls are replaced by the mean dosage, and these views are
        not harmonised, residualised or made into w-scores.
    residualise : sequence of str
        Columns of the participants whose linear effect is removed. Text is coded by category. Missing values
        and categories that are not in the training data are replaced by the mean or the most frequent value
        of the subjects in whom the effects are estimated.
    residualise_on : {"controls", "all"}
        Subjects in whom these effects are estimated.
    w_scores : sequence of str
        Columns of the participants, instead of `residualise`. Each feature becomes its deviation from what
        controls with the same values of these columns have, in standard deviations of the controls: the
        residual of a regression that is fitted on controls, divided by their residual standard deviation
        (n - p - 1 degrees of freedom). Cells that are missing in the controls are not used for it. Features
        that are constant in controls are divided by the standard deviation of all training subjects.
    splines : sequence of str
        Numeric columns of `residualise` or `w_scores` whose effect is a natural cubic spline, with knots at
        the quantiles 0.05, 0.35, 0.65 and 0.95 of the subjects in whom it is estimated; linear beyond.
    diagnosis, controls : str, optional
        Column of the diagnosis, and its value for controls; `controls` may be a list.
    harmonise : {"none", "combat"}
        ComBat between sites. The effects of `residualise` or `w_scores` are kept by ComBat, and removed
        afterwards.
    harmonise_on : {"all", "controls"}
        Subjects in whom the effects of sites are estimated. With "controls", sites may differ in their share
        of patients.
    site : str, optional
        Column of the site or scanner.
    min_site : int, default=5
        Subjects of smaller sites, and those without a site, are not harmonised, and are counted in the notes.
        With ``harmonise_on="controls"`` it is the number of controls.
    new_sites : {"error", "average", "adapt"}
        How to handle new subjects of sites that are not in the training data: raise an error, do not
        harmonise them, or estimate the effects of the site in its controls, of whom at least 10 are needed
        (more if `min_site` is); it is an error if there are fewer. "adapt" needs
        ``harmonise_on="controls"``.
    standardise : bool, default=False
        Scale features to zero mean and unit variance. The model does this by default.
    remove_severity : str, optional
        A numeric column of the participants, such as "mmse", whose linear effect is removed from every view
        but genotypes, after all other steps; or "common", the first common component of these views
        ("common:3": the first three). The effect is estimated in the subjects who are clustered. Where there
        are reference controls, what is common among them is removed before a common component.

    Examples
    --------
    >>> Plan(residualise=["age", "sex"], diagnosis="DX", controls="CN").residualise
    ('age', 'sex')
    >>> Plan(w_scores=["age", "sex"], splines="age", diagnosis="DX", controls="CN").covariates
    ('age', 'sex')
    """

    impute: str = "median"
    n_neighbors: int = 5
    genotypes: Sequence[str] = ()
    residualise: Sequence[str] = ()
    residualise_on: str = "controls"
    diagnosis: str | None = None
    controls: str | Sequence[str] | None = None
    harmonise: str = "none"
    site: str | None = None
    min_site: int = 5
    new_sites: str = "error"
    standardise: bool = False
    w_scores: Sequence[str] = ()
    splines: Sequence[str] = ()
    harmonise_on: str = "all"
    remove_severity: str | None = None

    def __post_init__(self) -> None:
        for name, known in CHOICES.items():
            if getattr(self, name) not in known:
                raise StudyError(f"{name} must be one of {listed(known)}, got {getattr(self, name)!r}.")
        for name in ("genotypes", "residualise", "controls", "w_scores", "splines"):
            object.__setattr__(self, name, _several(getattr(self, name)))
        for name, least in (("n_neighbors", 1), ("min_site", 2)):
            if getattr(self, name) < least:
                raise StudyError(f"{name} must be at least {least}, got {getattr(self, name)}.")
        for name, why in contradictions(asdict(self)):
            raise StudyError(f"{name}: {why}.")

    @property
    def covariates(self) -> tuple[str, ...]:
        """Columns of the participants whose effects are estimated."""
        return tuple(self.w_scores or self.residualise)

    @property
    def on_controls(self) -> bool:
        """Whether the effects of covariates are estimated in controls only."""
        return bool(self.w_scores) or (bool(self.residualise) and self.residualise_on == "controls")


def contradictions(given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Pairs of a setting and why it cannot be used with the others, which are those of `Plan`."""
    known = bool(given["diagnosis"] and given["controls"])
    lacking = "needs diagnosis of [participants] (a column) and controls (its value for them)"
    combat, on_controls = given["harmonise"] != "none", given["harmonise_on"] == "controls"
    covariates = [*given["w_scores"], *given["residualise"]]
    loose = [name for name in given["splines"] if name not in covariates]
    rules = (
        (given["w_scores"] and given["residualise"], "w_scores", TWICE),
        (given["w_scores"] and given["residualise_on"] == "all", "w_scores", ALWAYS_CONTROLS),
        (given["w_scores"] and not known, "w_scores", lacking),
        (
            given["residualise"] and given["residualise_on"] == "controls" and not known,
            "residualise",
            f"estimating effects in controls {lacking}; or set residualise_on = 'all'",
        ),
        (loose, "splines", f"{listed(loose)} must be among w_scores or residualise"),
        (combat and not given["site"], "harmonise", f"{given['harmonise']!r} needs site of [participants]"),
        (combat and on_controls and not known, "harmonise_on", f"'controls' {lacking}"),
        (given["new_sites"] == "adapt" and not (combat and on_controls), "new_sites", ADAPT),
    )
    return ((name, why) for wrong, name, why in rules if wrong)


def _several(value: Any) -> tuple[str, ...]:
    """One name or several, as a tuple of text."""
    if value is None:
        return ()
    return (value,) if isinstance(value, str) else tuple(str(name) for name in value)
