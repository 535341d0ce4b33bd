"""Views that are read a block of rows at a time."""

from viewloom.data.row_sources import *  # noqa: F403
from viewloom.data.row_sources import __all__ as __all__
