"""Fuzzing of everything that reads a file: targets, seeds, mutations, and the process that runs them."""
