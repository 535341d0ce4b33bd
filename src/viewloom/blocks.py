"""Views that are read in blocks of rows."""

from viewloom.data.row_sources import *  # noqa: F403
from viewloom.data.row_sources import __all__ as __all__
