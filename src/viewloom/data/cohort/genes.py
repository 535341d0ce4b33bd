"""SNPs of the simulated population, and genotypes drawn from it.

Frequencies and blocks without a documented source are drawn with one fixed seed, so that all cohorts come
from the same population.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtri

from viewloom.data.cohort.facts import facts

N_SNPS = 1224  # as in the paper
PANEL_SEED = 1224  # of the undocumented part of the population, independent of the seed of the cohort
BLOCK_LENGTH = 7.5  # middle of the 3-12 SNPs that the facts give for an LD block
RHO = (0.6, 0.9)  # latent correlation of neighbours in a block (facts: ld_block_model)
FREQUENCY = (0.05, 0.5)  # of undocumented minor alleles (facts: ld_block_model)
APOE_SNPS = {"rs429358": "e4", "rs7412": "e2"}  # the allele that each of the two defines


@cache
def snp_panel() -> pd.DataFrame:
    """The SNPs of the simulated population, gene by gene.

    Returns
    -------
    DataFrame indexed by SNP id
        ``gene``; ``kind``: "chain" (part of an LD block), "apoe" (read off the APOE genotype) or "proxy"
        (a documented correlation with another SNP); ``block`` and ``position`` of a chain, ``rho`` to its
        neighbour; ``frequency`` in controls; ``odds_ratio`` per allele, 1 where null and NaN where it follows
        from linkage; ``tags``, the effect SNP it is linked to or "", and ``r``, the haplotype correlation.

    Examples
    --------
    >>> panel = snp_panel()
    >>> len(panel), int(panel.index.str.startswith("rs").sum())
    (1224, 532)
    >>> print(panel.loc[["rs3818361"], ["gene", "odds_ratio"]])
              gene  odds_ratio
    snp
    rs3818361  CR1        1.14
    """
    rng = np.random.default_rng(PANEL_SEED)
    rows = [row for gene, snps in _loci().items() for row in _locus(gene, snps, rng)]
    panel = pd.DataFrame(rows).set_index("snp")
    chained = panel["kind"] == "chain"
    panel["block"] = ((panel["position"] == 0).cumsum() - 1).where(chained, -1)
    return panel


def _loci() -> dict[str, list[str]]:
    """SNP ids by gene: first documented genes, then one synthetic locus per chromosome."""
    loci = {gene: list(snps) for gene, snps in facts()["genes"].items()}
    for snp, fact in facts()["snps"].items():
        members = loci.setdefault(fact["gene"], [])
        members.extend([snp] if snp not in members else [])
    n_synthetic = N_SNPS - sum(map(len, loci.values()))
    for chromosome, numbers in enumerate(np.array_split(np.arange(1, n_synthetic + 1), 22), start=1):
        loci[f"sim_chr{chromosome}"] = [f"sim_chr{chromosome}_{number:05d}" for number in numbers]
    return loci


def _locus(gene: str, snps: list[str], rng: np.random.Generator) -> Iterator[dict[str, Any]]:
    """Rows of one gene: its LD blocks, each starting with an effect SNP if any is left, then other SNPs."""
    known, index = facts()["snps"], _proxies()
    chained = [snp for snp in snps if snp not in index and snp not in APOE_SNPS]
    heads = [snp for snp in chained if snp in known]
    followers = [snp for snp in chained if snp not in known]
    n_blocks = max(len(heads), round(len(chained) / BLOCK_LENGTH), 1)
    for b, members in enumerate(np.array_split(np.array(followers, dtype=object), n_blocks)):
        yield from _block(gene, heads[b : b + 1] + list(members), rng)
    for snp in snps:
        if snp in APOE_SNPS:
            frequency = facts()["apoe"]["frequency"][APOE_SNPS[snp]]
            yield _snp(snp, gene, kind="apoe", frequency=frequency, tags=snp)
        elif snp in index:
            tagged, r = index[snp]
            frequency = known.get(snp, known[tagged])["frequency"]
            yield _snp(snp, gene, kind="proxy", frequency=frequency, tags=tagged, r=r)


def _block(gene: str, members: list[str], rng: np.random.Generator) -> Iterator[dict[str, Any]]:
    """Rows of one LD block; if its first SNP has an effect, the others tag it."""
    rho, drawn = rng.uniform(*RHO), rng.uniform(*FREQUENCY, size=len(members))
    led = any(snp in facts()["snps"] for snp in members[:1])
    for position, snp in enumerate(members):
        fact = facts()["snps"].get(snp, {"frequency": drawn[position], "odds_ratio": np.nan if led else 1.0})
        yield _snp(
            snp,
            gene,
            position=position,
            rho=rho,
            frequency=fact["frequency"],
            odds_ratio=fact["odds_ratio"],
            tags=members[0] if led else "",
        )


def _snp(snp: str, gene: str, **known: Any) -> dict[str, Any]:
    unknown = {"kind": "chain", "position": -1, "rho": np.nan, "odds_ratio": np.nan, "tags": "", "r": np.nan}
    return {"snp": snp, "gene": gene, **unknown, **known}


def _proxies() -> dict[str, tuple[str, float]]:
    """SNPs with a documented r^2 to another: the SNP they follow, and r."""
    return {snp: (tagged, float(np.sqrt(r2))) for tagged, snp, r2 in facts()["ld_r2"]}


def draw_genotypes(
    panel: pd.DataFrame, case: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Draw dosages (n, d) of the SNPs of a panel, and APOE genotypes (n,)."""
    chain_rng, apoe_rng, proxy_rng = rng.spawn(3)
    alleles = np.zeros((2, len(case), len(panel)), dtype=bool)  # two haplotypes
    chained = np.flatnonzero(panel["kind"] == "chain")
    alleles[:, :, chained] = _draw_chains(panel.iloc[chained], case, chain_rng)
    apoe = _draw_apoe(case, apoe_rng)
    for snp, allele in APOE_SNPS.items():
        alleles[:, :, panel.index.get_loc(snp)] = apoe == allele
    frequency, r = panel["frequency"].to_numpy(), panel["r"].to_numpy()
    tagged = panel.index.get_indexer(pd.Index(panel["tags"]))
    for j in np.flatnonzero(panel["kind"] == "proxy"):
        of = tagged[j]
        alleles[:, :, j] = _draw_proxy(alleles[:, :, of], frequency[of], frequency[j], r[j], proxy_rng)
    return alleles.sum(axis=0, dtype=float), np.char.add(np.char.add(apoe[0], "/"), apoe[1])


def _draw_chains(panel: pd.DataFrame, case: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Alleles (2, n, d): a latent Gaussian AR(1) chain in each block, thresholded at the allele frequency."""
    frequency, rho = panel["frequency"].to_numpy(), panel["rho"].to_numpy()
    position = panel["position"].to_numpy()
    latent = rng.standard_normal((2, len(case), len(panel)))
    heads = position == 0
    latent[:, :, heads] = _draw_heads(frequency[heads], panel["odds_ratio"].to_numpy()[heads], case, rng)
    for step in range(1, position.max() + 1):
        at = np.flatnonzero(position == step)  # column at - 1 is the neighbour in the block
        latent[:, :, at] = rho[at] * latent[:, :, at - 1] + np.sqrt(1 - rho[at] ** 2) * latent[:, :, at]
    return np.asarray(latent > ndtri(1 - frequency))


def _draw_heads(
    frequency: np.ndarray, odds_ratio: np.ndarray, case: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Latent Gaussians (2, n, d) of the first SNP of each block.

    An allele is drawn with its frequency in cases or controls, then the Gaussian on the corresponding side
    of the threshold: ``P(haplotype | case) ~ P(haplotype | control) * odds_ratio ** allele``.
    """
    odds = frequency / (1 - frequency) * np.where(case[:, None], odds_ratio, 1.0)
    p = odds / (1 + odds)
    u = rng.random((2, *p.shape))
    rank = np.where(u < p, 1 - frequency * u / p, (1 - frequency) * (1 - u) / (1 - p))
    return np.asarray(ndtri(rank.clip(1e-12, 1 - 1e-12)))


def _draw_apoe(case: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """APOE alleles (2, n), the lower one first: controls in equilibrium, cases weighted by odds ratio."""
    odds_ratio, frequency = facts()["apoe"]["odds_ratio"], facts()["apoe"]["frequency"]
    pairs = np.array([genotype.split("/") for genotype in odds_ratio])
    expected = np.array([(1 + (a != b)) * frequency[a] * frequency[b] for a, b in pairs])
    weights = np.vstack([expected, expected * list(odds_ratio.values())])  # controls, cases
    cumulative = np.cumsum(weights / weights.sum(axis=1, keepdims=True), axis=1)
    drawn = (rng.random((len(case), 1)) > cumulative[case.astype(int), :-1]).sum(axis=1)
    return np.asarray(pairs[drawn].T)


def _draw_proxy(tagged: np.ndarray, p: float, q: float, r: float, rng: np.random.Generator) -> np.ndarray:
    """Alleles of frequency q that have correlation r with the tagged alleles of frequency p."""
    slope = r * np.sqrt(q * (1 - q) / (p * (1 - p)))
    return np.asarray(rng.random(tagged.shape) < q + slope * (tagged - p))
