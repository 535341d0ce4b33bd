"""Preparation of views: fitted on training subjects, stored with the model, applied to new subjects."""

from viewloom.study.preparation.fitted import Preparation
from viewloom.study.preparation.plan import Plan

__all__ = ["Plan", "Preparation"]
