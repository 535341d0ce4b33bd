"""The methods section: one statement for each thing that was done, and none for what was not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from viewloom.evaluation.selection.evidence import VERDICTS
from viewloom.study.publication.blocks import Block, Bullets, Heading, Paragraph, Statement
from viewloom.study.publication.record import Record
from viewloom.study.report.privacy import id_columns, names_ids, plain
from viewloom.study.report.sentences import joined
from viewloom.study.wording import counted

MOST_CODES = 12  # values of a rule that are listed
KERNELS = {
    "diffusion": "a diffusion kernel along graphs of nearest neighbours",
    "linear": "a linear kernel",
    "cosine": "a cosine kernel",
    "gaussian": "a Gaussian kernel",
    "rbf": "a Gaussian kernel",
    "polynomial": "a polynomial kernel",
}
OURS, SINGLE = "ours, ", "factorisation of single views (SV)"
BASELINES = {
    "CNMF": "non-negative matrix factorisation of the concatenated views (CNMF)",
    "MNMF": "multi-view non-negative matrix factorisation (MNMF)",
    "AWMNMF": "the same with learned weights (AWMNMF)",
    "published settings": "the method of Liu and Cao in its published form",
    "k-means": "k-means of the concatenated views",
}
IMPORTANCE = {
    "permutation": "the mean change of the memberships when the values of a feature are permuted",
    "F = X^T P": "the loadings F of the factorisation, of standardised features on clusters",
}
SCALES = {
    "standard": "features were scaled to zero mean and unit variance",
    "centre": "features were centred and kept their units",
    "unit": "subjects were scaled to unit length",
    "root": "square roots were taken and subjects scaled to unit length",
}
TESTS = {
    "Kruskal-Wallis": Statement("the Kruskal-Wallis test for numeric variables", "kruskal1952"),
    "chi-square": Statement("the chi-square test for categorical variables"),
    "Fisher exact": Statement("Fisher's exact test where expected counts were small"),
}


def methods_blocks(record: Record) -> list[Block]:
    """The section as blocks."""
    parts: list[Block] = [Heading("Methods")]
    for heading, make in SECTIONS.items():
        statements = tuple(make(record))
        if statements:
            parts += [Heading(heading, 2), Paragraph(statements)]
    notes = [str(note) for note in record.summary["notes"]]
    if notes:
        parts += [Heading("Notes of the run on the data", 2), Bullets(tuple(notes))]
    return parts


def participants(record: Record) -> Iterator[Statement]:
    """Who was clustered, by which rules, and in which views."""
    found = record.methods
    yield from (Statement(text) for text in found["who"])
    yield from rules(record)
    views = [
        f"{view['name']} ({counted(view['features'], 'feature')}, {view['subjects']} subjects)"
        for view in found["views"]
    ]
    number = counted(len(views), "view")
    yield Statement(f"They were described by {number}: {joined(views)}")
    if any(view["subjects"] != str(found["subjects"]) for view in found["views"]):
        yield Statement("Subjects without some of the views were included, by the views that they had")


def rules(record: Record) -> Iterator[Statement]:
    """The rules of inclusion and exclusion."""
    given, ids = record.settings.get("cluster", {}), id_columns(record.settings)
    for key, verb in (("include", "Included were subjects with"), ("exclude", "Excluded were subjects with")):
        texts = [_rule(name, value, ids) for name, value in given.get(key, {}).items()]
        if texts:
            yield Statement(f"{verb} {joined(texts)}")


def _rule(name: str, value: Mapping[str, float] | Sequence[str], ids: set[str]) -> str:
    """A rule in words; subjects are never named.

    >>> _rule("age", {"min": 55}, set()), _rule("sex", ["F"], set()), _rule("id", ["S1", "S2"], {"id"})
    ('age of at least 55', 'sex F', '2 values of id')
    """
    shown = plain(name, 40)
    if isinstance(value, Mapping) and names_ids(name, ids):
        return f"a range of {shown}"
    if isinstance(value, Mapping):
        words = {"min": "at least", "max": "at most"}
        return f"{shown} of {joined(f'{words[key]} {number:g}' for key, number in value.items())}"
    if len(value) > MOST_CODES or names_ids(name, ids):
        return f"{counted(len(value), 'value')} of {shown}"
    return f"{shown} {' or '.join(plain(code, 40) for code in value)}"


def preparation(record: Record) -> Iterator[Statement]:
    """The steps that views went through, in their order."""
    found = record.methods["preparation"]
    transforms: dict[str, list[str]] = {}
    steps: Mapping[str, list[str]] = found["steps"]
    for view in record.methods["views"]:
        if view["transform"] != "none":
            transforms.setdefault(view["transform"], []).append(view["name"])
    for name, views in transforms.items():
        yield Statement(f"Values of {joined(views)} were transformed ({name})")
    if "median" in steps:
        yield Statement(
            f"Missing cells of {joined(steps['median'])} were replaced by the median of the feature"
        )
    if "knn" in steps:
        yield Statement(
            f"Missing cells of {joined(steps['knn'])} were replaced by the mean of the "
            f"{counted(found['neighbours'], 'nearest subject')}",
            "troyanskaya2001",
        )
    if "dosage" in steps:
        yield Statement(f"Missing genotypes of {joined(steps['dosage'])} were replaced by the mean dosage")
    if "combat" in steps:
        yield from _combat(found)
    if "residualise" in steps:
        yield _residualised(found)
    if "w_scores" in steps:
        yield Statement(
            f"Features of {joined(steps['w_scores'])} were converted to w-scores: deviations from the values "
            f"expected in controls with the same {joined(found['covariates'])}{_splines(found)}, in standard "
            "deviations of the residuals of controls",
            "lajoie2012",
        )
    if "standardise" in steps:
        yield Statement(f"Features of {joined(steps['standardise'])} were scaled to unit variance")
    yield from (_severity(one) for one in found["severity"])
    for scale, text in SCALES.items():
        views = [view["name"] for view in record.methods["views"] if view["scale"] == scale]
        if views:
            yield Statement(f"By the model, {text} in {joined(views)}")


def _combat(found: Mapping[str, Any]) -> Iterator[Statement]:
    sites = f"the {counted(found['sites'], 'site')} of {found['site']}"
    among = " controls only" if found["harmonise_on"] == "controls" else " all subjects"
    yield Statement(
        f"Differences between {sites} were removed from {joined(found['steps']['combat'])} with ComBat, "
        f"estimated in{among}",
        "johnson2007",
        "fortin2018",
    )
    if found["covariates"]:
        yield Statement(f"The effects of {joined(found['covariates'])} were kept by ComBat")


def _residualised(found: Mapping[str, Any]) -> Statement:
    among = f"controls ({joined(found['controls'])})" if found["on_controls"] else "all subjects"
    return Statement(
        f"The effects of {joined(found['covariates'])}{_splines(found)} were removed from "
        f"{joined(found['steps']['residualise'])} by linear regression, estimated in {among}"
    )


def _splines(found: Mapping[str, Any]) -> str:
    names = found["splines"]
    return f" ({joined(names)} as a natural cubic spline)" if names else ""


def _severity(one: Mapping[str, Any]) -> Statement:
    what = {
        "common": "the first common component of the views",
        "common among controls": "a common component of the views of controls (normal variation)",
    }.get(one["what"], f"the linear effect of {one['what']}")
    return Statement(f"As a measure of severity, {what} was removed from {joined(one['views'])}")


def clustering(record: Record) -> Iterator[Statement]:
    """The method, its settings, and how the number of clusters was chosen."""
    found = record.methods
    version = record.versions.get("viewloom", "")
    yield Statement(
        "Subjects were clustered by multi-view kernel matrix factorisation, which learns a weight for each "
        f"view, with viewloom {version}, an implementation of the method of Liu and Cao in a modified form",
        "viewloom",
        "liu2023",
    )
    yield Statement(f"Similarity of subjects was measured by {_kernels(found['views'])}")
    yield Statement(
        f"Settings were lambda {_value(found['lam'])} (weight of the consensus), theta "
        f"{_value(found['theta'])} (smoothness along graphs) and gamma {found['gamma']:g} (evenness of the "
        "weights)"
    )
    yield from number_of_clusters(record)
    end = "converged" if found["converged"] else "did not converge"
    starts = counted(found["starts"], "start")
    yield Statement(
        f"With random seed {found['seed']} and {starts}, the algorithm {end} "
        f"{'after' if found['converged'] else 'within'} {counted(found['iterations'], 'iteration')}"
    )


def _kernels(views: Sequence[Mapping[str, Any]]) -> str:
    by_kernel: dict[str, list[str]] = {}
    for view in views:
        by_kernel.setdefault(view["kernel"], []).append(view["name"])
    named = {KERNELS.get(kernel, f"the kernel {kernel}"): names for kernel, names in by_kernel.items()}
    if len(named) == 1:
        return next(iter(named))
    return joined(f"{kernel} for {joined(names)}" for kernel, names in named.items())


def _value(value: Any) -> str:
    """A setting, or those of the views.

    >>> _value(10.0), _value({"a": 1.0, "b": 2.5})
    ('10', '1 for a and 2.5 for b')
    """
    if isinstance(value, Mapping):
        return joined(f"{number:g} for {name}" for name, number in value.items())
    return joined(f"{number:g}" for number in value) if isinstance(value, list) else f"{value:g}"


def number_of_clusters(record: Record) -> Iterator[Statement]:
    """How the number of clusters came about."""
    found = record.methods
    yield Statement(
        f"The number of clusters, {found['clusters']}, was set by the authors"
        + ("" if found["candidates"] else " and not estimated from the data")
    )
    if found["candidates"]:
        low, high = min(found["candidates"]), max(found["candidates"])
        clear = "no number was clearly better than chance"
        if found["recommended"] is not None:
            clear = f"{found['recommended']} was recommended"
        yield Statement(
            f"Numbers from {low} to {high} were compared by the agreement of clusterings of random "
            f"subsamples and by prediction strength, with data without clusters as reference; {clear}",
            "tibshirani2005",
        )


def stability(record: Record) -> Iterator[Statement]:
    """Refits, sites that were left out, and the comparison with other methods."""
    found = record.methods["stability"]
    if found["refits"]:
        agreement = "" if found["agreement"] is None else f" ({found['agreement']:.2f})"
        yield Statement(
            f"Stability was assessed by {counted(found['refits'], 'refit')} on random subsamples of "
            f"{found['share']:.0%} of the subjects: overall by the mean adjusted Rand index of pairs of "
            f"refits{agreement}",
            "hubert1985",
        )
        yield Statement(
            "The stability of each cluster is its mean Jaccard similarity with the most similar cluster of a "
            "refit",
            "hennig2007",
        )
    twins = record.methods["twins"]
    if twins:
        data_sets = counted(twins["number"], "simulated data set")
        yield Statement(
            f"The clustering was compared with that of {data_sets} with the same margins and correlations "
            f"and no clusters (twins); the verdict was: {VERDICTS.get(twins['verdict'], 'not assessed')}"
        )
    sites = record.methods["left_out_sites"]
    if sites:
        yield Statement(
            f"Each of {counted(sites, 'site')} was also left out in turn, and its subjects were assigned by "
            "a model of the others"
        )
    compared = record.methods["comparison"]
    if compared:
        seeds = counted(compared["seeds"], "random seed")
        yield Statement(
            f"For comparison, the subjects were also clustered by {joined(described(compared['methods']))}, "
            f"with {seeds} each, and all clusterings were compared with the diagnosis"
        )


def described(methods: Iterable[str]) -> list[str]:
    """Methods of a comparison in words, with our own together.

    >>> described(["SV mri", "SV pet", "SV (mean)", "k-means", "ours, linear", "ours, diffusion"])[::2]
    ['factorisation of single views (SV)', 'the method of this study with other kernels (linear, diffusion)']
    """
    methods = list(methods)
    ours = ", ".join(name.removeprefix(OURS) for name in methods if name.startswith(OURS))
    others = (name for name in methods if not name.startswith(OURS))
    words = [SINGLE if name.startswith("SV ") else BASELINES.get(name, name) for name in others]
    own = [f"the method of this study with other kernels ({ours})"] if ours else []
    return [*dict.fromkeys(words), *own]


def tests(record: Record) -> Iterator[Statement]:
    """Importance of features, tests of clinical variables, and corrections."""
    for method, names in _by_importance(record).items():
        yield Statement(f"The importance of features of {joined(names)} is {IMPORTANCE.get(method, method)}")
    found = record.methods["tests"]
    if found["variables"]:
        order = [*(name for name in TESTS if name in found["tests"]), *found["tests"]]
        used = [TESTS.get(name, Statement(name)) for name in dict.fromkeys(order)]
        cites = [key for statement in used for key in statement.cites]
        number = counted(found["variables"], "clinical variable was", "clinical variables were")
        yield Statement(
            f"{number} compared between clusters by {joined(one.text for one in used)}; p-values were "
            "corrected for the number of variables by the method of Benjamini and Hochberg (q)",
            *cites,
            "benjamini1995",
        )
    if found["pairs"]:
        yield Statement(
            "Variables with q below 0.05 were compared between pairs of clusters "
            f"({joined(found['pairs'])}), with Holm's correction for the number of pairs",
            "holm1979",
        )
    if found["survival"]:
        yield Statement(
            "Time to the event was described by Kaplan-Meier curves and compared by the log-rank test",
            "kaplan1958",
        )
    yield from _models(found)
    yield from _followup(found)
    yield from _valid(found)
    if found["variables"] or found["survival"]:
        yield Statement(
            "Clusters were formed and compared in the same subjects; p-values of variables that are related "
            "to the views are exploratory"
        )


def _models(found: Mapping[str, Any]) -> Iterator[Statement]:
    """Regressions that compare each cluster with all other subjects."""
    names = found.get("covariates", [])
    given = f", adjusted for {joined(names)}" if names else ""
    models = found.get("adjusted", [])
    if models:
        yield Statement(
            f"Each cluster was compared with all other subjects by {joined(models)} regression{given} "
            "(statsmodels), with Holm's correction for the number of clusters",
            "seabold2010",
            "holm1979",
        )
    if found.get("cox"):
        yield Statement(
            f"Hazards of the clusters were compared by Cox regression{given}, and proportional hazards were "
            "checked by Schoenfeld residuals",
            "cox1972",
            "grambsch1994",
        )


def _valid(found: Mapping[str, Any]) -> Iterator[Statement]:
    """What was used for clustering, and tests by clusters that are assigned without it."""
    used, tests = found.get("used", 0), found.get("held_out")
    if used:
        number = counted(used, "variable was", "variables were")
        yield Statement(
            f"{number} used for clustering, as a feature or a close correlate of one, and not compared "
            "between the clusters, since no p-value would be valid"
        )
    if tests and tests["features"]:
        also = counted(tests["variables"], "such variable")
        what = counted(tests["features"], "feature") + (f" and {also}" if tests["variables"] else "")
        yield Statement(
            f"{'Instead, ' if used else ''}{what} were compared between clusters of the other views, "
            "without the view in question"
        )
    if tests and tests["splits"]:
        yield Statement(
            f"They were also compared in subjects who did not form the clusters, in {tests['splits']} random "
            "splits in halves: the second half was assigned by a model of the first, without the view in "
            "question, and p-values were combined by the Cauchy combination test",
            "liu2020",
        )


def _by_importance(record: Record) -> dict[str, list[str]]:
    by_method: dict[str, list[str]] = {}
    for view in record.methods["views"]:
        if view["importance"]:
            by_method.setdefault(view["importance"], []).append(view["name"])
    return by_method


def _followup(found: Mapping[str, Any]) -> Iterator[Statement]:
    if found["visits"]:
        visits = counted(found["visits"], "later visit was", "later visits were")
        yield Statement(f"Data of {visits} prepared as those of the first, and assigned by its model")
    if found["slopes"]:
        outcomes = counted(found["slopes"], "outcome")
        yield Statement(
            f"Change over time of {outcomes} was compared between clusters by linear mixed models with "
            "random effects of subjects, fitted by restricted maximum likelihood (statsmodels)",
            "laird1982",
            "seabold2010",
        )


def software(record: Record) -> Iterator[Statement]:
    """Versions of the software, and what was not shown."""
    versions = [f"{name} {version}" for name, version in record.versions.items()]
    yield Statement(
        f"The software was {joined(versions)}", "viewloom", "pedregosa2011", "harris2020", "virtanen2020"
    )
    if record.atlases:
        cites = {"Desikan-Killiany": "desikan2006", "AAL": "tzourio2002"}
        yield Statement(
            "Brain pictures are schematic drawings of the regions of the "
            f"{'atlas' if len(record.atlases) == 1 else 'atlases'} {joined(record.atlases)}",
            *(cites[name] for name in record.atlases if name in cites),
        )
    least = record.methods["min_cell"]
    if least > 1:
        yield Statement(f"Counts below {least}, and counts from which they could be derived, are not shown")


SECTIONS = {
    "Participants and data": participants,
    "Preparation": preparation,
    "Clustering": clustering,
    "Stability and validation": stability,
    "Description of the clusters": tests,
    "Software": software,
}
