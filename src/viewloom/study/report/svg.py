"""Figures as inline SVG for a page with a strict content security policy.

The output of matplotlib is rebuilt from known elements and attributes only. Styles become attributes, so that
the style sheet of the page can recolour them for dark mode.
"""

from __future__ import annotations

import re
from io import StringIO
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK = "#15181c"  # colour of text and axes, which the page replaces on dark screens
COLOURED = (
    "text.color",
    "axes.labelcolor",
    "axes.titlecolor",
    "axes.edgecolor",
    "xtick.color",
    "ytick.color",
)
STYLE: Any = {"svg.fonttype": "none", "svg.hashsalt": "viewloom", **dict.fromkeys(COLOURED, INK)}
ELEMENTS = {
    "circle", "clipPath", "defs", "g", "image", "line", "path", "pattern", "rect", "svg", "text", "use",
}  # fmt: skip
ATTRIBUTES = {
    "clip-path", "clip-rule", "cx", "cy", "d", "fill", "fill-opacity", "fill-rule", "font-size", "font-style",
    "font-weight", "height", "href", "id", "image-rendering", "opacity", "patternUnits", "r", "stroke",
    "preserveAspectRatio", "stroke-dasharray", "stroke-dashoffset", "stroke-linecap", "stroke-linejoin",
    "stroke-opacity", "stroke-width", "text-anchor", "transform", "viewBox", "width", "x", "x1", "x2", "y",
    "y1", "y2",
}  # fmt: skip
POSITIONS = {"d", "cx", "cy", "height", "r", "transform", "width", "x", "x1", "x2", "y", "y1", "y2"}
DIGITS = 2  # decimals of positions
LONG = re.compile(r"-?\d+\.\d{3,}")
FONT = re.compile(r"(?P<words>[\w ]*?)(?P<size>\d+(?:\.\d+)?)px")
REFERENCE = re.compile(r"(?<=url\(#)[^)]*(?=\))")


def inline_svg(figure: Figure, prefix: str) -> str:
    """A figure as an ``<svg>`` element for HTML.

    Parameters
    ----------
    figure : Figure
    prefix : str
        Begins all ids, which must differ between the figures of a page.
    """
    file = StringIO()
    figure.savefig(file, format="svg", transparent=True, metadata=NO_DATE)
    root = ElementTree.fromstring(file.getvalue())
    inert = _cleaned(root, prefix)
    inert.set("aria-hidden", "true")
    inert.set("focusable", "false")
    return ElementTree.tostring(inert, encoding="unicode")


def _cleaned(element: ElementTree.Element, prefix: str) -> ElementTree.Element:
    """The element with its known children and attributes only, without namespaces."""
    copy = ElementTree.Element(_local(element.tag), _attributes(element, prefix))
    copy.text = element.text if copy.tag == "text" else None
    copy.extend(_cleaned(child, prefix) for child in element if _local(child.tag) in ELEMENTS)
    if copy.tag == "g":
        copy.attrib.pop("id", None)  # nothing refers to groups
    for marker in copy if copy.tag == "defs" else ():
        marker.attrib.pop("fill", None)  # where it is used it has colours, and the page can see them there
        marker.attrib.pop("stroke", None)
    return copy


def _attributes(element: ElementTree.Element, prefix: str) -> dict[str, str]:
    given = {_local(name): value for name, value in element.attrib.items()}
    given |= _declarations(given.pop("style", ""))
    known = {name: value for name, value in given.items() if name in ATTRIBUTES and _is_local(name, value)}
    for name in ("id", "href"):
        if name in known and not known[name].startswith("data:"):
            known[name] = re.sub(r"^#?", lambda mark: f"{mark[0]}{prefix}-", known[name], count=1)
    known |= {name: _shortened(known[name]) for name in POSITIONS & set(known)}
    return {name: REFERENCE.sub(lambda found: f"{prefix}-{found[0]}", value) for name, value in known.items()}


def _shortened(value: str) -> str:
    """Positions without more decimals than a screen shows.

    >>> _shortened("M 12.345678 -0.001 L 3.5 7")
    'M 12.35 -0.0 L 3.5 7'
    """
    return LONG.sub(lambda found: str(round(float(found[0]), DIGITS)), value)


def _declarations(style: str) -> dict[str, str]:
    """Declarations of a style attribute as attributes; of a font its size, slant and weight."""
    pairs = (part.split(":", 1) for part in style.split(";") if ":" in part)
    found = {name.strip(): value.strip() for name, value in pairs}
    font = FONT.match(found.pop("font", ""))
    if font:
        found["font-size"] = font["size"]
        words = font["words"].split()
        found |= {"font-style": "italic"} if "italic" in words else {}
        found |= {"font-weight": "bold"} if {"bold", "700"} & set(words) else {}
    return found


def _is_local(name: str, value: str) -> bool:
    """Whether a reference stays inside the figure."""
    return name != "href" or value.startswith(("#", "data:image/png;base64,"))


def _local(name: Any) -> str:
    """A name without its namespace; comments have none."""
    return str(name).rsplit("}", 1)[-1]


NO_DATE = {"Date": None, "Creator": None, "Format": None, "Type": None}
