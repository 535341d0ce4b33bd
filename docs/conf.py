"""Sphinx configuration. Built by ``make docs``, without network."""

import viewloom

project = "viewloom"
author = "The viewloom developers"
copyright = "2026, the viewloom developers"
release = viewloom.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
]
myst_enable_extensions = ["dollarmath", "amsmath"]
autosummary_generate = True
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
templates_path = ["_templates"]
exclude_patterns = ["_build"]
html_theme = "pydata_sphinx_theme"
html_theme_options = {"navigation_with_keys": False, "show_toc_level": 2}
html_title = "viewloom"
suppress_warnings = ["myst.header"]
