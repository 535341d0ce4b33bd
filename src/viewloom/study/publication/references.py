"""References that a paper made with viewloom needs: only those of methods that a run used."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Reference:
    """A reference.

    Attributes
    ----------
    kind : str
        Of BibTeX, such as "article".
    short : str
        How it is cited in text, such as "Holm 1979".
    fields : dict of str to str
        Of BibTeX.
    """

    kind: str
    short: str
    fields: dict[str, str]

    def bibtex(self, key: str) -> str:
        """The entry of a BibTeX file."""
        lines = [f"  {name} = {{{value}}}," for name, value in self.fields.items()]
        return "\n".join([f"@{self.kind}{{{key},", *lines, "}"])

    def text(self) -> str:
        """The reference as one line of plain text."""
        given = self.fields
        where = given.get("journal") or given.get("booktitle") or given.get("note", "")
        pages = given.get("pages", "").replace("--", "\N{EN DASH}")
        volume = " ".join(part for part in (given.get("volume", ""), pages and f": {pages}") if part)
        parts = [given["author"].replace(" and ", "; "), f"({given['year']})", f"{given['title']}.", where]
        end = f" https://doi.org/{given['doi']}" if "doi" in given else ""
        return _unmarked(" ".join(part for part in [*parts, volume.replace(" :", ":")] if part) + "." + end)


def _unmarked(text: str) -> str:
    r"""Text without the marks of BibTeX.

    >>> _unmarked("{ComBat} of {\\'E}lise")
    'ComBat of Élise'
    """
    for mark, letter in ACCENTS.items():
        text = text.replace(mark, letter)
    return text.replace("{", "").replace("}", "")


def bibtex(keys: Iterable[str], version: str, year: str) -> str:
    """A BibTeX file with these references, in the order of `REFERENCES`."""
    wanted = set(keys)
    known = {**REFERENCES, "viewloom": software(version, year)}
    return "\n\n".join(known[key].bibtex(key) for key in known if key in wanted) + "\n"


def software(version: str, year: str) -> Reference:
    """The reference of viewloom itself, as in CITATION.cff, with the version of the run."""
    return Reference(
        "misc",
        f"viewloom {version}",
        {
            "author": "{The viewloom developers}",
            "title": "{viewloom}",
            "year": year,
            "note": f"Software, version {version}",
        },
    )


def _article(short: str, author: str, title: str, journal: str, where: str, year: str, doi: str) -> Reference:
    """An article; `where` is "volume:pages", and the DOI may be empty."""
    volume, _, pages = where.partition(":")
    fields = {"author": author, "title": title, "journal": journal, "year": year, "volume": volume}
    fields |= {"pages": pages.replace("-", "--")} if pages else {}
    return Reference("article", short, fields | ({"doi": doi} if doi else {}))


ACCENTS = {"{\\'e}": "é", '{\\"e}': "ë", "{\\'E}": "É", '{\\"u}': "ü", "{\\'c}": "ć", "{\\v{s}}": "š"}
REFERENCES: dict[str, Reference] = {
    "viewloom": software("", ""),
    "liu2023": Reference(
        "misc",
        "Liu and Cao 2023",
        {
            "author": "Liu, Kai and Cao, Yarui",
            "title": "Adaptive Weighted Multiview Kernel Matrix Factorization with its application in "
            "{Alzheimer}'s Disease Analysis -- A clustering Perspective",
            "year": "2023",
            "note": "arXiv:2303.04154; in print: Analytics 3(4), 439--448 (2024)",
            "doi": "10.3390/analytics3040024",
        },
    ),
    "pedregosa2011": _article(
        "Pedregosa et al. 2011",
        'Pedregosa, Fabian and Varoquaux, Ga{\\"e}l and Gramfort, Alexandre and others',
        "Scikit-learn: Machine Learning in {Python}",
        "Journal of Machine Learning Research",
        "12:2825-2830",
        "2011",
        "",
    ),
    "harris2020": _article(
        "Harris et al. 2020",
        "Harris, Charles R. and Millman, K. Jarrod and van der Walt, St{\\'e}fan J. and others",
        "Array programming with {NumPy}",
        "Nature",
        "585:357-362",
        "2020",
        "10.1038/s41586-020-2649-2",
    ),
    "virtanen2020": _article(
        "Virtanen et al. 2020",
        "Virtanen, Pauli and Gommers, Ralf and Oliphant, Travis E. and others",
        "{SciPy} 1.0: fundamental algorithms for scientific computing in {Python}",
        "Nature Methods",
        "17:261-272",
        "2020",
        "10.1038/s41592-019-0686-2",
    ),
    "hubert1985": _article(
        "Hubert and Arabie 1985",
        "Hubert, Lawrence and Arabie, Phipps",
        "Comparing partitions",
        "Journal of Classification",
        "2:193-218",
        "1985",
        "10.1007/BF01908075",
    ),
    "hennig2007": _article(
        "Hennig 2007",
        "Hennig, Christian",
        "Cluster-wise assessment of cluster stability",
        "Computational Statistics \\& Data Analysis",
        "52:258-271",
        "2007",
        "10.1016/j.csda.2006.11.025",
    ),
    "tibshirani2005": _article(
        "Tibshirani and Walther 2005",
        "Tibshirani, Robert and Walther, Guenther",
        "Cluster Validation by Prediction Strength",
        "Journal of Computational and Graphical Statistics",
        "14:511-528",
        "2005",
        "10.1198/106186005X59243",
    ),
    "troyanskaya2001": _article(
        "Troyanskaya et al. 2001",
        "Troyanskaya, Olga and Cantor, Michael and Sherlock, Gavin and others",
        "Missing value estimation methods for {DNA} microarrays",
        "Bioinformatics",
        "17:520-525",
        "2001",
        "10.1093/bioinformatics/17.6.520",
    ),
    "johnson2007": _article(
        "Johnson et al. 2007",
        "Johnson, W. Evan and Li, Cheng and Rabinovic, Ariel",
        "Adjusting batch effects in microarray expression data using empirical {Bayes} methods",
        "Biostatistics",
        "8:118-127",
        "2007",
        "10.1093/biostatistics/kxj037",
    ),
    "fortin2018": _article(
        "Fortin et al. 2018",
        "Fortin, Jean-Philippe and Cullen, Nicholas and Sheline, Yvette I. and others",
        "Harmonization of cortical thickness measurements across scanners and sites",
        "NeuroImage",
        "167:104-120",
        "2018",
        "10.1016/j.neuroimage.2017.11.024",
    ),
    "lajoie2012": _article(
        "La Joie et al. 2012",
        "La Joie, Renaud and Perrotin, Audrey and Barr{\\'e}, Louisa and others",
        "Region-specific hierarchy between atrophy, hypometabolism, and beta-amyloid load in "
        "{Alzheimer}'s disease dementia",
        "Journal of Neuroscience",
        "32:16265-16273",
        "2012",
        "10.1523/JNEUROSCI.2170-12.2012",
    ),
    "kruskal1952": _article(
        "Kruskal and Wallis 1952",
        "Kruskal, William H. and Wallis, W. Allen",
        "Use of ranks in one-criterion variance analysis",
        "Journal of the American Statistical Association",
        "47:583-621",
        "1952",
        "10.1080/01621459.1952.10483441",
    ),
    "benjamini1995": _article(
        "Benjamini and Hochberg 1995",
        "Benjamini, Yoav and Hochberg, Yosef",
        "Controlling the False Discovery Rate: a practical and powerful approach to multiple testing",
        "Journal of the Royal Statistical Society: Series B",
        "57:289-300",
        "1995",
        "10.1111/j.2517-6161.1995.tb02031.x",
    ),
    "holm1979": _article(
        "Holm 1979",
        "Holm, Sture",
        "A simple sequentially rejective multiple test procedure",
        "Scandinavian Journal of Statistics",
        "6:65-70",
        "1979",
        "",
    ),
    "kaplan1958": _article(
        "Kaplan and Meier 1958",
        "Kaplan, E. L. and Meier, Paul",
        "Nonparametric Estimation from Incomplete Observations",
        "Journal of the American Statistical Association",
        "53:457-481",
        "1958",
        "10.1080/01621459.1958.10501452",
    ),
    "laird1982": _article(
        "Laird and Ware 1982",
        "Laird, Nan M. and Ware, James H.",
        "Random-Effects Models for Longitudinal Data",
        "Biometrics",
        "38:963-974",
        "1982",
        "10.2307/2529876",
    ),
    "cox1972": _article(
        "Cox 1972",
        "Cox, D. R.",
        "Regression Models and Life-Tables",
        "Journal of the Royal Statistical Society: Series B",
        "34:187-202",
        "1972",
        "10.1111/j.2517-6161.1972.tb00899.x",
    ),
    "grambsch1994": _article(
        "Grambsch and Therneau 1994",
        "Grambsch, Patricia M. and Therneau, Terry M.",
        "Proportional hazards tests and diagnostics based on weighted residuals",
        "Biometrika",
        "81:515-526",
        "1994",
        "10.1093/biomet/81.3.515",
    ),
    "liu2020": _article(
        "Liu and Xie 2020",
        "Liu, Yaowu and Xie, Jun",
        "Cauchy Combination Test: A Powerful Test With Analytic p-Value Calculation Under Arbitrary "
        "Dependency Structures",
        "Journal of the American Statistical Association",
        "115:393-402",
        "2020",
        "10.1080/01621459.2018.1554485",
    ),
    "seabold2010": Reference(
        "inproceedings",
        "Seabold and Perktold 2010",
        {
            "author": "Seabold, Skipper and Perktold, Josef",
            "title": "statsmodels: Econometric and statistical modeling with {Python}",
            "booktitle": "Proceedings of the 9th Python in Science Conference",
            "year": "2010",
        },
    ),
    "desikan2006": _article(
        "Desikan et al. 2006",
        "Desikan, Rahul S. and S{\\'e}gonne, Florent and Fischl, Bruce and others",
        "An automated labeling system for subdividing the human cerebral cortex on {MRI} scans into gyral "
        "based regions of interest",
        "NeuroImage",
        "31:968-980",
        "2006",
        "10.1016/j.neuroimage.2006.01.021",
    ),
    "tzourio2002": _article(
        "Tzourio-Mazoyer et al. 2002",
        "Tzourio-Mazoyer, N. and Landeau, B. and Papathanassiou, D. and others",
        "Automated anatomical labeling of activations in {SPM} using a macroscopic anatomical parcellation "
        "of the {MNI} {MRI} single-subject brain",
        "NeuroImage",
        "15:273-289",
        "2002",
        "10.1006/nimg.2001.0978",
    ),
    "lisik2025": _article(
        "Lisik et al. 2025",
        "Lisik, Daniil and Shah, Syed Ahmar and Basna, Rani and others",
        "Protocol for development of a checklist and guideline for transparent reporting of cluster analyses "
        "({TRoCA})",
        "BMJ Open",
        "15(8)",
        "2025",
        "",
    ),
    "mitchell2019": Reference(
        "inproceedings",
        "Mitchell et al. 2019",
        {
            "author": "Mitchell, Margaret and Wu, Simone and Zaldivar, Andrew and others",
            "title": "Model Cards for Model Reporting",
            "booktitle": "Proceedings of the Conference on Fairness, Accountability, and Transparency",
            "year": "2019",
            "pages": "220--229",
            "doi": "10.1145/3287560.3287596",
        },
    ),
}
