"""A first study.toml, drafted by looking at the files of a folder."""
