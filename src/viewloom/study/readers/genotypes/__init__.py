"""Genotypes in blocks of variants: sources, choice, filters, pruning, alleles of a stored model, scores."""
