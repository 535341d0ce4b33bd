"""A whole study in a real browser, from an empty folder to new subjects, with a look at every screen.

``VIEWLOOM_PICTURES=docs/_static pytest tests/app/test_app_browser.py`` writes the pictures of the docs.
"""

import base64
import json
import os
import shutil
import time
from contextlib import closing, suppress
from pathlib import Path

import pytest
from chromium import OUTSIDE, VIOLATIONS, WITHOUT, axe_core, chromium, requested
from local_page import PATIENCE, Page

from viewloom.app.context import digest
from viewloom.app.jobs import Jobs

if WITHOUT:
    pytest.skip("VIEWLOOM_NO_BROWSER is set", allow_module_level=True)

PICTURES = os.environ.get("VIEWLOOM_PICTURES")
SCREENS = ((390, "dark"), (1920, "light"))
WIDTH = 1180  # of pictures
NUMBERS = {"stability": (0.71, 0.9, 0.62), "twin_stability": (0.7, 0.64, 0.6), "z": (0.4, 4.1, 1.1)}
ANSWERS = (  # as if these had been asked, which takes minutes
    ("select", "number", {
        "recommended": 3,
        "reasons": ["k = 3: two subsamples agree with a mean ARI of 0.90 (single cloud: 0.64)."],
        "table": [{"k": k + 2, **{name: row[k] for name, row in NUMBERS.items()}} for k in range(3)],
    }),
    ("compare", "methods", {"table": [{"method": "KMNMF", "NMI": 0.31}, {"method": "NMF", "NMI": 0.2}]}),
)  # fmt: skip


class Screen:
    """A browser that is looked at."""

    def __init__(self, browser, page):
        self.browser, self.page, self.seen = browser, page, {}

    def size(self, width, scheme="light"):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "screen", "features": features})
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def look(self, name):
        """See that a screen can be used by everybody, at every width, in both schemes."""
        self.browser.execute_script(axe_core())
        for width, scheme in SCREENS:
            self.size(width, scheme)
            assert self.browser.execute_script("return document.documentElement.scrollWidth") <= width
            assert self.browser.execute_script(OUTSIDE) == []
            found = self.browser.execute_async_script(VIOLATIONS)
            assert found == [], (name, width, scheme)
        self.size(WIDTH)
        self.seen[name] = self.browser.current_url
        if PICTURES and name not in ("fit", "folder", "answers"):  # which the documentation does not show
            self.picture(Path(PICTURES) / f"app-{name}.png")

    def picture(self, path, height=780):
        tall = self.browser.execute_script("return document.documentElement.scrollHeight")
        clip = {"x": 0, "y": 0, "width": WIDTH, "height": min(height, tall), "scale": 1}
        shot = self.browser.execute_cdp_cmd(
            "Page.captureScreenshot", {"clip": clip, "captureBeyondViewport": True}
        )
        path.write_bytes(base64.b64decode(shot["data"]))

    def find(self, css):
        return self.browser.find_element("css selector", css)

    def type(self, css, text):
        field = self.find(css)
        field.clear()
        field.send_keys(text)

    def press(self, label):
        """Press the button or follow the link with a label."""
        path = f"//button[normalize-space()='{label}'] | //a[normalize-space()='{label}']"
        element = self.browser.find_element("xpath", path)
        self.browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
        element.click()

    def until(self, title):
        """Wait for a page with a heading."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            heading = self.browser.execute_script("return document.querySelector('h1')?.textContent || ''")
            if heading.startswith(title):
                return
            time.sleep(0.1)
        raise AssertionError(f"{title} does not come: {self.find('main').text}")


@pytest.fixture(scope="module")
def screen(tmp_path_factory):
    """An empty folder, a server in it, and a browser."""
    root = tmp_path_factory.mktemp("my studies")
    with chromium(tmp_path_factory.mktemp("profile")) as browser, closing(Page(root)) as page:
        browser.set_script_timeout(PATIENCE)
        browser.set_page_load_timeout(PATIENCE)
        found = Screen(browser, page)
        found.root = root
        yield found


def opened_from_a_file(screen, folder):
    """Open the link as `viewloom app` does, by a file: the way in for which the cookie must be set."""
    from viewloom.app.server import REDIRECT

    (folder / "open.html").write_text(REDIRECT.format(screen.page.link))
    screen.browser.get((folder / "open.html").as_uri())


def test_a_whole_study(screen, tmp_path):
    opened_from_a_file(screen, tmp_path)
    screen.until("Start a study")
    assert "token" not in screen.browser.current_url
    assert screen.browser.execute_script("return document.cookie") == ""  # no script reads the session
    screen.look("first")
    screen.press("Try the simulated cohort")
    screen.until("Study")
    make_small(screen.root / "example")
    screen.browser.refresh()
    edit_the_study(screen)
    screen.look("study")
    screen.press("Save and check")
    screen.until("Check example")
    assert "subjects can be clustered" in screen.find("main").text
    screen.look("check")
    screen.press("Go on to the fit")
    screen.until("Fit")
    screen.look("fit")
    settings(screen)
    fit(screen)
    screen.look("results")
    look_into_the_report(screen)
    rename(screen)
    second_run(screen)
    new_subjects(screen)
    folder_and_preview(screen)
    quiet(screen)


def make_small(folder):
    """Fewer subjects and views, for speed."""
    text = (folder / "study.toml").read_text()
    blocks = text.split("\n\n")
    kept = [block for block in blocks if "[views.snp]" not in block and "[views.freesurfer]" not in block]
    kept = [block.replace("n_clusters = 3", 'n_clusters = 3\nkernel = "linear"') for block in kept]
    kept.append('[report]\ntwins = 0\n[compute]\nmemory = "300 KB"\n')  # for one fit at a time
    (folder / "study.toml").write_text("\n\n".join(kept))
    for name in ("participants.csv", "vbm.csv", "fdg.csv"):
        head, *lines = (folder / name).read_text().splitlines(keepends=True)
        place = head.split(",").index("participant_id")
        some = [line for line in lines if int(line.split(",")[place][-3:]) % 4 == 1]
        (folder / name).write_text("".join([head, *some]))


def edit_the_study(screen):
    """What is typed into the form shows in the text at once, errors at the field; comments stay."""
    from viewloom.app.forms import element_id

    file = screen.root / "example" / "study.toml"
    before = file.read_text()
    clusters = f"#{element_id(('model', 'n_clusters'))}"
    screen.type(clusters, "1")
    until(lambda: "greater than or equal to 2" in screen.find(f"{clusters}-error").text)
    screen.type(clusters, "2")
    until(lambda: "n_clusters = 2" in screen.find("#text").get_property("value"))
    assert screen.find(f"{clusters}-error").text == ""
    assert file.read_text() == before  # until it is saved
    screen.type(f"#{element_id(('study', 'name'))}", 'My "first" study')
    screen.press("Save")
    until(lambda: "Saved." in screen.find("main").text)
    after = file.read_text()
    assert 'name = "My \\"first\\" study"' in after
    assert [line for line in before.split("\n") if "#" in line and "name" not in line] == [
        line for line in after.split("\n") if "#" in line and "name" not in line
    ]
    file.write_text(after.replace("My ", "Our "))  # what is written in the file shows in the page
    screen.browser.refresh()
    assert screen.find(f"#{element_id(('study', 'name'))}").get_property("value") == 'Our "first" study'


def settings(screen):
    """The screen of searches and comparisons, without and with answers."""
    screen.press("search settings, and compare methods")
    screen.until("Settings and methods")
    screen.look("settings")
    jobs = Jobs(screen.root, warm=False)
    file = "example/study.toml"
    for command, kind, content in ANSWERS:
        folder = jobs.folder(file, command)
        folder.mkdir(parents=True)
        about = {"kind": kind, "digest": digest((screen.root / file).read_text())}
        job = {"arguments": [command], "next": "", "about": about, "began": time.time()}
        (folder / "job.json").write_text(json.dumps(job))
        (folder / "output.txt").write_text(json.dumps(content))
        (folder / "exit.json").write_text("0")
    screen.browser.refresh()
    assert "3 clusters" in screen.find("main").text
    screen.look("answers")
    screen.press("Fit")
    screen.until("Fit")


def fit(screen):
    screen.press("Start")
    screen.until("Clustering the subjects")
    until(lambda: screen.find("#stage").text not in ("", "Starting"))
    until(lambda: "Step" in screen.find("#detail").text)
    if PICTURES:
        until(lambda: "clusters of" in screen.find("#said").text)
        screen.size(WIDTH)
        screen.picture(Path(PICTURES) / "app-progress.png", 500)
    screen.until("Results")


def look_into_the_report(screen):
    """The report is inside, can be used, and cannot reach out of its frame."""
    browser = screen.browser
    browser.switch_to.frame(screen.find("iframe.report"))
    until(lambda: browser.find_elements("css selector", "thead button"))
    assert browser.find_element("tag name", "h1").text == 'Our "first" study'
    browser.switch_to.default_content()
    blocked = browser.execute_script(
        "try { return document.querySelector('iframe').contentDocument === null } catch (e) { return true }"
    )
    assert blocked


def rename(screen):
    screen.type("#name-0", "limbic")
    screen.press("Rename")
    until(lambda: "new names" in screen.find("main").text)
    names = json.loads((screen.root / "example/study-results/run.json").read_text())["cluster_names"]
    assert names == ["limbic", "2"]


def second_run(screen):
    """Two runs side by side."""
    shutil.copytree(screen.root / "example/study-results", screen.root / "example/other")
    screen.browser.refresh()
    screen.press("Compare")
    screen.until("Two runs")
    assert "Adjusted Rand index 1.00" in screen.find("main").text
    screen.look("compare")


def new_subjects(screen):
    screen.press("New subjects")
    screen.until("New subjects")
    screen.press("Assign them to clusters")
    until(lambda: "far from everything in training" in screen.find("main").text)
    screen.look("subjects")
    assert (screen.root / "example" / "predictions.csv").stat().st_mode & 0o777 == 0o600


def folder_and_preview(screen):
    screen.press("Folder")
    screen.until("Studies and results")
    screen.look("folder")
    screen.press("example/vbm.csv")
    screen.until("example/vbm.csv")
    assert len(screen.browser.find_elements("css selector", "table.values thead th")) == 10
    screen.look("preview")


def quiet(screen):
    """No complaint of the browser, and nobody else was asked for anything."""
    assert [entry for entry in screen.browser.get_log("browser") if entry["level"] == "SEVERE"] == []
    ours = (f"http://{screen.page.host}/", "data:", "file:", "about:", "chrome")
    assert [address for address in requested(screen.browser) if not address.startswith(ours)] == []


def until(true):
    """Wait; an element of a page that was just left does not count."""
    from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException

    end = time.monotonic() + PATIENCE
    while True:
        with suppress(NoSuchElementException, StaleElementReferenceException):
            if true():
                return
        assert time.monotonic() < end
        time.sleep(0.1)
