"""The command line."""

from viewloom.cli.app import app

__all__ = ["app"]
