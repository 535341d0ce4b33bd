"""The report in a real browser, opened from a file as out of a mail."""

import base64
import re

import pytest
from chromium import OUTSIDE, PATIENCE, VIOLATIONS, WITHOUT, axe_core, chromium, requested

FEATURES = "#t-features-0"
# contrast of all text in figures with the card behind it, but for numbers on heat maps
FAINT = """
const light = (colour) => colour.match(/[0-9.]+/g).slice(0, 3).map((part) => part / 255)
  .map((part) => (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
  .reduce((sum, part, i) => sum + part * [0.2126, 0.7152, 0.0722][i], 0);
const ratio = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
return [...document.querySelectorAll('.drawing text')]
  .filter((text) => !['#ffffff', '#010101'].includes(text.getAttribute('fill')))
  .map((text) => [text.textContent, getComputedStyle(text).fill,
    getComputedStyle(text.closest('.card')).backgroundColor])
  .filter(([, ink, ground]) => ratio(light(ink), light(ground)) < 4.5);
"""
MOST_PAGES = 12  # of the printed report
PAPER = 793 - 91  # CSS pixels of A4 between its margins
# cells and figures that stick out of their place on paper: they would be printed over their neighbours
OVER = """
return [...document.querySelectorAll('td, th, figure')].filter((box) => box.scrollWidth > box.clientWidth + 1
  && getComputedStyle(box).display !== 'inline').map((box) => box.outerHTML.slice(0, 80));
"""

if WITHOUT:
    pytest.skip("VIEWLOOM_NO_BROWSER is set", allow_module_level=True)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with chromium(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture(scope="module")
def addresses(tmp_path_factory, page, hostile_page):
    folder = tmp_path_factory.mktemp("mail, with ä blank")
    for name, text in (("page", page), ("hostile", hostile_page)):
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return {name: (folder / f"{name}.html").as_uri() for name in ("page", "hostile")}


@pytest.fixture
def show(browser, addresses):
    """Open a page; afterwards see that it had nothing to complain of and asked nobody for anything."""
    from selenium.webdriver.support.ui import WebDriverWait

    def opened(name="page", width=1200, media="screen", scheme="light"):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        browser.get(addresses[name])
        loaded = f"return document.readyState === 'complete' && location.pathname.endsWith('/{name}.html')"
        WebDriverWait(browser, PATIENCE).until(lambda one: one.execute_script(loaded))
        return browser

    yield opened
    assert browser.get_log("browser") == []
    assert [address for address in requested(browser) if not address.startswith(("file:", "data:"))] == []


def column(browser, number, table=FEATURES):
    """Texts of the visible cells of a column."""
    script = (
        f"return [...document.querySelectorAll('{table} tbody tr')].filter((row) => !row.hidden)"
        f".map((row) => row.cells[{number}].textContent)"
    )
    return browser.execute_script(script)


def button(browser, label, table=FEATURES):
    """The button that shows a label, once it is drawn."""
    from selenium.webdriver.support.ui import WebDriverWait

    def drawn(browser):
        buttons = browser.find_elements("css selector", f"{table} thead button")
        return next((found for found in buttons if found.text == label), None)

    return WebDriverWait(browser, PATIENCE).until(drawn)


def sorting(browser, table=FEATURES):
    """Headings that say they sort."""
    script = (
        f"return [...document.querySelectorAll('{table} th[aria-sort]')]"
        ".map((head) => [head.textContent, head.getAttribute('aria-sort')])"
    )
    return browser.execute_script(script)


@pytest.mark.parametrize("name", ["page", "hostile"])
def test_opens_from_a_file(show, name):
    browser = show(name)
    assert browser.execute_script("return document.querySelectorAll('.drawing svg').length") >= 15
    assert len(browser.find_elements("css selector", "thead button")) > 20
    heights = browser.execute_script(
        "return [...document.querySelectorAll('.drawing svg')].map((svg) => "
        "svg.getBoundingClientRect().height)"
    )
    assert min(heights) > 80


class TestTables:
    def test_sort_by_mouse(self, show):
        browser = show()
        ranks = column(browser, 2)  # after feature and region
        assert ranks == [str(i + 1) for i in range(45)]
        button(browser, "rank").click()
        button(browser, "rank").click()
        assert column(browser, 2) == ranks[::-1]
        assert sorting(browser) == [["rank", "descending"]]
        button(browser, "feature").click()
        names = column(browser, 0)
        assert names == sorted(names, key=str.lower)
        assert sorting(browser) == [["feature", "ascending"]]

    def test_sort_by_keyboard(self, show):
        from selenium.webdriver.common.keys import Keys

        browser = show()
        region = browser.find_element("css selector", f"[role=region]:has({FEATURES})")
        browser.execute_script("arguments[0].focus()", region)
        for key in (Keys.TAB, Keys.TAB, Keys.TAB, Keys.TAB, Keys.ENTER):  # feature, region, rank, importance
            browser.switch_to.active_element.send_keys(key)
        values = [float(text) for text in column(browser, 3)]
        assert values == sorted(values)
        assert values != sorted(values, reverse=True)
        browser.switch_to.active_element.send_keys(Keys.SPACE)
        assert sorting(browser) == [["importance", "descending"]]

    def test_small_p_values_and_hidden_counts_sort_by_size(self, show):
        browser = show()
        button(browser, "p", "#t-associations").click()
        shown = column(browser, 5, "#t-associations")
        small = [text for text in shown if text == "<0.001"]
        assert shown[: len(small)] == small
        rest = shown[len(small) :]
        numbers = [float(text) for text in rest if text != "\N{EN DASH}"]  # a dash: not shown, and last
        assert numbers == sorted(numbers)
        assert all(text == "\N{EN DASH}" for text in rest[len(numbers) :])
        button(browser, "subjects", "#t-patterns").click()
        counts = column(browser, 1, "#t-patterns")
        assert counts == sorted(counts, key=lambda text: 0 if text.startswith("<") else int(text.strip("≥")))

    def test_filter(self, show):
        browser = show()
        field = browser.find_element("css selector", f"input[aria-controls={FEATURES[1:]}]")
        wanted = column(browser, 0)[3]
        field.send_keys(wanted.lower())
        assert wanted in column(browser, 0)
        assert len(column(browser, 0)) < 45
        status = browser.find_element("css selector", f".filter:has(+ .scroll {FEATURES}) [role=status]")
        assert status.text == f"{len(column(browser, 0))} of 45 rows"
        field.clear()
        field.send_keys("nothing of this name")
        assert column(browser, 0) == []


class TestNames:
    def test_stay_inert(self, show):
        browser = show("hostile")
        assert browser.execute_script("return window.harmed") is None
        assert browser.execute_script("return document.scripts.length") == 1
        assert browser.execute_script("return document.images.length") == 0
        assert browser.find_element("tag name", "h1").text.startswith("</script></style><img src=x")
        assert "<script>window.harmed = 1</script>" in browser.find_element("tag name", "main").text

    def test_do_not_turn_the_line(self, show):
        browser = show("hostile")
        assert (
            browser.execute_script(
                "return /[\\u202a-\\u202e\\u2066-\\u2069]/.test(document.body.textContent)"
            )
            is False
        )

    def test_a_script_that_got_in_would_not_run(self, browser, addresses, show):
        """The policy stops what is put into the page, and the console says so."""
        show()
        browser.execute_script(
            "const bad = document.createElement('div'); bad.innerHTML = '<img src=x "
            'onerror="window.harmed = 1">\';'
            "document.body.append(bad)"
        )
        assert browser.execute_script("return window.harmed") is None
        assert "Content Security Policy" in browser.get_log("browser")[0]["message"]


@pytest.mark.parametrize("name", ["page", "hostile"])
@pytest.mark.parametrize("width", [390, 320])
def test_fits_a_phone(show, name, width):
    browser = show(name, width)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert browser.execute_script(OUTSIDE) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_figures_can_be_read_in_both_schemes(show, scheme):
    browser = show(scheme=scheme)
    assert browser.execute_script(FAINT) == []
    ground = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", ground))) < 150) == (scheme == "dark")


def test_prints_in_black_on_white_even_where_screens_are_dark(show):
    browser = show(media="print", scheme="dark")
    ink = browser.execute_script("return getComputedStyle(document.body).color")
    assert sum(map(int, re.findall(r"\d+", ink))) < 150
    shown = "return getComputedStyle(document.querySelector(arguments[0])).display"
    assert browser.execute_script(shown, "nav") == "none"
    assert browser.execute_script(shown, f"{FEATURES} tbody tr:nth-child(12)") == "table-row"
    assert browser.execute_script(shown, f"{FEATURES} tbody tr:nth-child(13)") == "none"
    pdf = browser.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"]
    assert 1 <= base64.b64decode(pdf).count(b"/Type /Page\n") <= MOST_PAGES


def test_nothing_is_wider_than_paper(show):
    """Otherwise the browser would shrink all pages to fit the widest."""
    browser = show("page", PAPER, media="print")
    assert browser.execute_script("return document.documentElement.scrollWidth") <= PAPER
    assert browser.execute_script(OVER) == []


@pytest.mark.parametrize(
    ("name", "width", "scheme"), [("page", 1200, "light"), ("page", 390, "dark"), ("hostile", 1200, "dark")]
)
def test_accessible(show, name, width, scheme):
    """No violation of WCAG 2.1 AA that axe-core can find."""
    browser = show(name, width, scheme=scheme)
    browser.execute_script(axe_core())
    assert browser.execute_async_script(VIOLATIONS) == []


def test_the_first_key_skips_to_the_report(show):
    from selenium.webdriver.common.keys import Keys

    browser = show()
    browser.find_element("tag name", "body").send_keys(Keys.TAB)
    assert browser.switch_to.active_element.text == "Skip to the report"
    browser.switch_to.active_element.send_keys(Keys.ENTER)
    assert browser.switch_to.active_element.tag_name == "main"
