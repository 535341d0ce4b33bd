"""Errors, files, processes, threads and progress: shared by all packages."""
