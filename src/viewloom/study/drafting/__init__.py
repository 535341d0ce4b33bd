"""Draft a study.toml from the files of a folder."""
