"""What is asked of the preparation of views."""

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
    """What is asked of a `Preparation`.

    The names are those of ``[preparation]`` in study.toml; diagnosis and site stand under ``[participants]``
    there.

    Parameters
    ----------
    impute : {"median", "knn"}
        How missing cells of observed rows are filled. "knn" takes the mean of the nearest training subjects,
        as scikit-learn's `KNNImputer` does on standardised features, and so has to store training rows.
    n_neighbors : int, default=5
    genotypes : sequence of str
        Views of allele counts (0 to 2): missing calls get the mean dosage; such views are neither harmonised
        nor residualised.
    residualise : sequence of str
        Columns of the participants table whose linear effect is taken out. Text is coded by category. A
        subject without a value, or with a category not seen in training, gets the mean or the commonest.
    residualise_on : {"controls", "all"}
        Whose data tells that effect.
    diagnosis, controls : str, optional
        The column and its value that make a control; `controls` may be a list of values.
    harmonise : {"none", "combat"}
        ComBat between sites, which keeps what `residualise` explains (and then takes it out).
    site : str, optional
        Column of the site or scanner.
    min_site : int, default=5
        Subjects of smaller sites, and those without a site, are left as they are, and counted in the notes.
    new_sites : {"error", "average"}
        What to do with new subjects of sites not seen in training, whose effect nobody can know: refuse
        them, or leave them as they are, as if theirs were an average site.
    standardise : bool, default=False
        Mean zero and variance one. The model does this itself unless told otherwise.

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
            raise StudyError(f"harmonise = {self.harmonise!r} needs the column of the site; set site.")
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
