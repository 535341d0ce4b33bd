"""Views that are read in blocks of rows."""

from viewloom.data.row_sources import Blocks

__all__ = ["Blocks"]
