"""XML of other programs, read without entities and within limits."""

from __future__ import annotations

from pathlib import Path
from xml.parsers import expat

from viewloom.study.errors import StudyError, check_readable

LARGEST = 1 << 26  # bytes
DEEPEST = 64


class _Refused(Exception):
    """Why a file is not read."""


class Element:
    """An element: its name, text and children."""

    __slots__ = ("children", "name", "text")

    def __init__(self, name: str) -> None:
        self.name = name
        self.text = ""
        self.children: list[Element] = []

    def find(self, *names: str) -> Element | None:
        """The first element below by the names on the way to it."""
        here: Element | None = self
        for name in names:
            here = next((child for child in here.children if child.name == name), None) if here else None
        return here


def load_xml(path: Path) -> Element:
    """The root of a file; a document type, entities, and what is large, deep or damaged are refused.

    Raises
    ------
    StudyError
        The error does not name the file, which may be named by a subject.
    """
    check_readable(path)
    if path.stat().st_size > LARGEST:
        raise StudyError(f"an XML file of more than {LARGEST >> 20} MiB")
    try:
        return parse_xml(path.read_bytes())
    except (expat.ExpatError, UnicodeError, LookupError, _Refused):
        raise StudyError("an XML file that is damaged, or has a document type") from None


def parse_xml(content: bytes) -> Element:
    """The root element of a document."""
    parser = expat.ParserCreate()
    root = Element("")
    path = [root]

    def start(name: str, attributes: dict[str, str]) -> None:
        if len(path) > DEEPEST:
            raise _Refused
        path[-1].children.append(Element(name))
        path.append(path[-1].children[-1])

    def end(name: str) -> None:
        done = path.pop()
        done.text = done.text.strip()

    def text(data: str) -> None:
        if len(path[-1].children) == 0:
            path[-1].text += data

    def refuse(*_: object) -> None:
        raise _Refused

    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = start, end, text
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = refuse
    parser.Parse(content, True)
    return root.children[0]
