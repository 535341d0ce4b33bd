"""Evaluation of models: comparison, inspection, and selection of parameters without labels."""
