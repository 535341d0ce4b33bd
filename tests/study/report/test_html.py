"""The page: its structure, its policy, and that names stay text."""

import base64
import hashlib
import re
import stat
from collections import defaultdict
from html.parser import HTMLParser
from importlib.resources import files
from itertools import pairwise

import pytest
from study.report.conftest import HOSTILE

from viewloom.study import report
from viewloom.study.report import figures, write_report

VOID = {"meta", "input", "br", "img", "link"}
LOCAL = re.compile(r"#|data:image/png;base64,")


class Page(HTMLParser):
    """Elements of a page, in order: tag, attributes, text."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.open = [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs), []))
        if tag not in VOID:
            self.open.append(self.elements[-1])

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs), []))

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        for _, _, text in self.open:
            text.append(data)

    def all(self, *tags):
        return [(attrs, "".join(text).strip()) for tag, attrs, text in self.elements if tag in tags]


@pytest.fixture(scope="module", params=["page", "hostile_page"])
def parsed(request):
    return Page(request.getfixturevalue(request.param))


class TestStructure:
    def test_headings_go_down_one_level_at_a_time(self, parsed):
        levels = [int(tag[1]) for tag, _, _ in parsed.elements if re.fullmatch("h[1-6]", tag)]
        assert levels.count(1) == 1
        assert levels[0] == 1
        assert all(below <= above + 1 for above, below in pairwise(levels))
        assert all(text for _, text in parsed.all("h1", "h2", "h3"))

    def test_can_be_read_aloud(self, parsed):
        assert parsed.all("html")[0][0]["lang"] == "en"
        assert all(attrs.get("scope") in ("row", "col") for attrs, _ in parsed.all("th"))
        assert len(parsed.all("caption")) == len(parsed.all("table"))
        drawings = [attrs for attrs, _ in parsed.all("div") if attrs.get("role") == "img"]
        assert len(drawings) == len(parsed.all("figure")) == len(parsed.all("svg"))
        assert all(len(attrs["aria-label"]) > 20 for attrs in drawings)
        assert parsed.all("a")[0][0]["href"] == "#main"

    def test_references_lead_somewhere_in_the_page(self, parsed):
        ids = [attrs["id"] for _, attrs, _ in parsed.elements if "id" in attrs]
        assert len(ids) == len(set(ids))
        named = [
            attrs.get(key, "")
            for _, attrs, _ in parsed.elements
            for key in ("aria-labelledby", "aria-describedby")
        ]
        links = [attrs["href"][1:] for attrs, _ in parsed.all("a", "use")]
        assert {*links, *" ".join(named).split()} <= set(ids)

    def test_says_what_it_holds(self, page, hostile_page):
        assert "no ids and no data on individual subjects" in page
        assert "Contains data on individual subjects." not in page
        assert hostile_page.count("Contains data on individual subjects.") == 2


class TestSafety:
    def test_policy_admits_this_style_and_script_alone(self, page):
        policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1].replace("&#39;", "'")
        for tag, kind in (("style", "style-src"), ("script", "script-src")):
            digest = hashlib.sha256(re.search(rf"<{tag}>(.*?)</{tag}>", page, re.S)[1].encode()).digest()
            assert f"{kind} 'sha256-{base64.b64encode(digest).decode()}'" in policy
        assert policy.startswith("default-src 'none';")
        assert "unsafe" not in policy

    def test_nothing_from_elsewhere_and_nothing_that_runs(self, parsed):
        assert {tag for tag, _, _ in parsed.elements} <= TAGS
        assert len(parsed.all("script")) == len(parsed.all("style")) == 1
        for _, attrs, _ in parsed.elements:
            assert not [
                name
                for name in attrs
                if name.startswith("on") or name in ("style", "src", "srcset", "action")
            ]
            assert all(LOCAL.match(attrs[name]) for name in attrs if name.endswith("href"))
        assert "url(" not in parsed.all("style")[0][1]

    def test_harmful_names_are_shown_as_they_are(self, hostile_page):
        parsed = Page(hostile_page)
        names = {text for _, text in parsed.all("bdi")}
        assert {name[:80] for name in HOSTILE[:7]} <= names
        assert parsed.all("h1")[0][1] == HOSTILE[1]

    def test_the_same_results_give_the_same_figures(self, results, summary, page):
        again = figures(results, {"figures": summary["figures"][:3]})
        assert len(again) == 3
        assert all(svg in page for svg in again.values())


class TestFile:
    def test_is_small_and_whole(self, page):
        assert len(page.encode()) < 1_000_000
        assert page.startswith("<!doctype html>")
        assert page.rstrip().endswith("</html>")

    def test_with_subjects_only_its_owner_reads_it(self, results, tmp_path, monkeypatch):
        monkeypatch.setattr(report, "figures", lambda results, summary: defaultdict(str))
        path = tmp_path / "report.html"
        write_report(results, path)
        assert stat.S_IMODE(path.stat().st_mode) != 0o600
        write_report(results, path, subjects=True)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_contrast(scheme):
    """Text on all its grounds, in both schemes, at 4.5 to 1 or more."""
    css = files("viewloom.study.report").joinpath("templates", "report.css").read_text(encoding="utf-8")
    colours = dict(re.findall(r"--([\w-]+): (#\w{6})", re.findall(r":root \{(.*?)\}", css, re.S)[scheme]))
    for ink in ("ink", "quiet", "link", *(name for name in colours if name.startswith("text-"))):
        for ground in ("page", "card", "head"):
            assert contrast(colours[ink], colours[ground]) >= (
                4.5 if ground != "head" or ink in ("ink", "quiet") else 0
            )
    for ground in ("warn", "alarm"):
        assert contrast(colours["ink"], colours[ground]) >= 4.5


def contrast(one, other):
    """Ratio of relative luminances, as WCAG has it."""
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour):
    parts = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


TAGS = {
    "html", "head", "meta", "title", "style", "body", "a", "header", "p", "strong", "nav", "ul", "li", "main",
    "section", "h1", "h2", "h3", "bdi", "div", "article", "span", "figure", "figcaption", "table", "caption",
    "thead", "tbody", "tr", "th", "td", "dl", "dt", "dd", "script",
    "svg", "g", "path", "text", "image", "defs", "clippath", "rect", "use", "pattern",
}  # fmt: skip


def test_the_headline_is_first_and_every_sentence_links_to_its_source(page, summary):
    parsed = Page(page)
    anchors = {attrs["id"] for _, attrs, _ in parsed.elements if "id" in attrs}
    assert len(summary["sources"]) == len(summary["in_short"])
    assert set(summary["sources"]) <= anchors
    links = [attrs["href"][1:] for attrs, text in parsed.all("a") if text == "source"]
    headline = summary["evidence"]["headline"]
    listed = [not sentence.startswith(headline) for sentence in summary["in_short"]]
    assert links == [source for source, kept in zip(summary["sources"], listed, strict=True) if kept]
    assert page.index(headline) < page.index(summary["in_short"][0][:20])
