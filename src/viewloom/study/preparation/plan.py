"""The settings of the preparation of views."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from viewloom.data.naming import listed
from viewloom.study.errors import StudyError

CHOICES = {
    "impute": ("median", "knn"),
    "residualise_on": ("controls", "all"),
    "harmonise": ("none", "combat"),
    "new_sites": ("error", "average"),
}


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
        neither harmonised nor residualised.
    residualise : sequence of str
        Columns of the participants whose linear effect is removed. Text is coded by category. Missing values
        and categories that are not in the training data are replaced by the mean or the most frequent value.
    residualise_on : {"controls", "all"}
        Subjects in whom these effects are estimated.
    diagnosis, controls : str, optional
        Column of the diagnosis, and its value for controls; `controls` may be a list.
    harmonise : {"none", "combat"}
        ComBat between sites. The effects of `residualise` are kept by ComBat, and removed afterwards.
    site : str, optional
        Column of the site or scanner.
    min_site : int, default=5
        Subjects of smaller sites, and those without a site, are not harmonised, and are counted in the notes.
    new_sites : {"error", "average"}
        How to handle new subjects of sites that are not in the training data: raise an error, or do not
        harmonise them.
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
    remove_severity: str | None = None

    def __post_init__(self) -> None:
        for name, known in CHOICES.items():
            if getattr(self, name) not in known:
                raise StudyError(f"{name} must be one of {listed(known)}, got {getattr(self, name)!r}.")
        for name in ("genotypes", "residualise", "controls"):
            object.__setattr__(self, name, _several(getattr(self, name)))
        for name, least in (("n_neighbors", 1), ("min_site", 2)):
            if getattr(self, name) < least:
                raise StudyError(f"{name} must be at least {least}, got {getattr(self, name)}.")
        if self.harmonise != "none" and self.site is None:
            raise StudyError(f"harmonise = {self.harmonise!r} needs the site column; set site.")
        if self.residualise and self.residualise_on == "controls" and not (self.diagnosis and self.controls):
            raise StudyError(
                "Residualisation on controls needs diagnosis (a column) and controls (its value for them); "
                "or set residualise_on = 'all'."
            )


def _several(value: Any) -> tuple[str, ...]:
    """One name or several, as a tuple of text."""
    if value is None:
        return ()
    return (value,) if isinstance(value, str) else tuple(str(name) for name in value)
