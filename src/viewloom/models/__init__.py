"""Estimators, fitted models, and model files."""
