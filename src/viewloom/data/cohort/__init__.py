"""Parts of the simulated cohort: published facts, people, images, genes."""
