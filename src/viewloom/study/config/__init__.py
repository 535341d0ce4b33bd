"""study.toml: its blocks and keys, read and checked before any data is."""
