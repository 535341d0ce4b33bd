"""Views of samples, sources of their rows, and example cohorts."""
