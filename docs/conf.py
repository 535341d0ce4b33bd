"""Sphinx configuration. Built by ``make docs``, without network; the site makes no requests."""

import os
import sys
import tempfile
from pathlib import Path
from shutil import copyfile

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))
# programs that the gallery and the notebook start keep no cache
os.environ.setdefault("MPLCONFIGDIR", tempfile.mkdtemp(prefix="viewloom-docs-"))

import viewloom  # noqa: E402

project = "viewloom"
author = "The viewloom developers"
copyright = "2026, the viewloom developers"
release = viewloom.__version__

extensions = [
    "myst_nb",  # pages in Markdown, and the notebook
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "drawings",
    "mathml",
]
templates_path = ["_templates"]
exclude_patterns = [
    "_build",
    "_templates",
    "gallery/**/*.ipynb",
    "gallery/*.ipynb",
    "**/sg_execution_times.rst",
]
suppress_warnings = ["config.cache"]  # the order of the gallery is a function

# Markdown and the notebook, which is shown as it was executed (tests/test_docs.py executes it again)
myst_enable_extensions = ["amsmath", "attrs_inline", "colon_fence", "dollarmath"]
myst_heading_anchors = 3
nb_execution_mode = "off"
nb_merge_streams = True

# reference
autosummary_generate = True
autodoc_typehints = "none"  # numpydoc writes them
toc_object_entries_show_parents = "hide"
default_role = "py:obj"  # `name` in docstrings is a link where there is something to link to
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

# gallery
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "within_subsection_order": "FileNameSortKey",
    "backreferences_dir": "_generated/backreferences",
    "doc_module": ("viewloom",),
    "reference_url": {"viewloom": None},
    "image_srcset": ["2x"],
    "ignore_repr_types": r"matplotlib",
    "min_reported_time": 1e9,
    "write_computation_times": False,
    "download_all_examples": False,
    "show_signature": False,
    "abort_on_example_error": True,
    "remove_config_comments": True,
}

# page
html_theme = "pydata_sphinx_theme"
html_title = "viewloom"
html_static_path = ["_static"]
html_css_files = ["viewloom.css"]
html_show_sourcelink = False
html_copy_source = False
html_sidebars = {"index": [], "start": []}
html_theme_options = {
    "logo": {"text": "viewloom"},
    "navigation_with_keys": False,
    "header_links_before_dropdown": 7,
    "show_toc_level": 2,
    "footer_start": ["copyright"],
    "footer_end": [],
    "article_footer_items": [],
    "secondary_sidebar_items": ["page-toc"],
}

(HERE / "_generated").mkdir(exist_ok=True)
copyfile(HERE.parent / "examples" / "first_clusters.ipynb", HERE / "_generated" / "first_clusters.ipynb")


def of_others(app, what, name, member, skip, options):
    """Leave out what classes inherit from scikit-learn, whose documentation it is."""
    origin = getattr(getattr(member, "fget", member), "__module__", None) or ""
    return True if origin.startswith("sklearn") or name.endswith("_request") else None


def setup(app):
    """Hooks of this file."""
    app.connect("autodoc-skip-member", of_others)
