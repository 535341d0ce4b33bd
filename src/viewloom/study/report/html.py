"""From a summary and its figures to one HTML file that needs nothing else.

Style and script are inline, and the content security policy admits them by their hashes only: the page makes
no requests, and no script in a name from a file can run.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from viewloom.runtime.errors import InputError, MissingPackageError
from viewloom.study.cluster_names import resolved

TEMPLATE, CSS, SCRIPT = "report.html.j2", "report.css", "report.js"


def to_html(summary: Mapping[str, Any], figures: Mapping[str, str], template: str = TEMPLATE) -> str:
    """The report as HTML.

    Parameters
    ----------
    summary : dict
        From `summarize`.
    figures : dict of str to str
        From `figures`. They are trusted, unlike the text of the summary, which is escaped.
    template : str
        Name of the template; by default that of the report of a run.

    Raises
    ------
    ValueError
        If parts of the summary are missing.
    """
    try:
        from jinja2 import Environment, FunctionLoader, StrictUndefined, TemplateError
    except ImportError as error:
        raise MissingPackageError(
            "Reports need matplotlib and jinja2: pip install viewloom[study]"
        ) from error
    pages = Environment(
        loader=FunctionLoader(_asset),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    css, script = _asset(CSS), _asset(SCRIPT)
    page = pages.get_template(template)
    try:
        content = resolved(dict(summary), summary.get("cluster_names", []))
        return page.render(content, drawn=figures, css=css, script=script, policy=policy(css, script))
    except TemplateError as error:
        raise InputError(f"This is not the summary of a run: {error}") from error


def policy(css: str, script: str) -> str:
    """Content security policy that allows this style, this script and inline images only.

    >>> policy("", "").split("; ")[0]
    "default-src 'none'"
    """
    parts = [
        "default-src 'none'",
        f"style-src '{_digest(css)}'",
        f"script-src '{_digest(script)}'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    return "; ".join(parts)


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _asset(name: str) -> str:
    return files("viewloom.study.report").joinpath("templates", name).read_text(encoding="utf-8")
