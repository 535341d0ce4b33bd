"""Estimators, what they share, and models in files."""
