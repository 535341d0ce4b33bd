"""Write the list of formats into docs/formats.md: ``python scripts/formats_page.py``."""

from __future__ import annotations

import re
from pathlib import Path

from viewloom.study.readers.catalogue import markdown

PAGE = Path(__file__).parents[1] / "docs" / "formats.md"
START, END = (
    "<!-- the following is the output of `viewloom formats --markdown` -->",
    "<!-- end of the output -->",
)


def main() -> None:
    """Replace what is between the marks."""
    text = PAGE.read_text(encoding="utf-8")
    part = re.compile(f"(?s)(?<={re.escape(START)}).*(?={re.escape(END)})")
    PAGE.write_text(part.sub(lambda _: f"\n\n{markdown()}\n\n", text), encoding="utf-8")


if __name__ == "__main__":
    main()
