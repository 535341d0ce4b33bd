"""Errors, files, processes, threads and progress: what every room may use."""
