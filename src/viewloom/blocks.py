"""Views that are read a block of rows at a time."""

from viewloom.data.row_sources import Blocks

__all__ = ["Blocks"]
