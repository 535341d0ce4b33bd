"""Judging models: comparison, inspection, and choosing parameters without labels."""
