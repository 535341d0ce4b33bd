"""Views of samples, where their rows come from, and cohorts to try things on."""
