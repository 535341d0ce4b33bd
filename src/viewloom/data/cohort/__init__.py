"""The parts of the simulated cohort: facts, people, images, genes."""
