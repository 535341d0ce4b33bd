"""The command line."""

from viewloom.cli.commands import app

__all__ = ["app"]
