"""A real browser for tests of pages."""

import importlib.util
import json
import os
import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-background-networking",
    "disable-component-update", "disable-sync",
)  # fmt: skip
PATIENCE = 300  # seconds; axe-core takes long on a busy machine
WITHOUT = bool(os.environ.get("VIEWLOOM_NO_BROWSER"))
HELP = "run scripts/install-chromium.sh, or set VIEWLOOM_NO_BROWSER=1 to go without"
# boxes that stick out of the screen, other than those in a part that scrolls by itself
OUTSIDE = """
const clips = (element) => element && (['auto', 'hidden'].includes(getComputedStyle(element).overflowX)
  || clips(element.parentElement));
return [...document.querySelectorAll('main *, header *')].filter((element) => !clips(element.parentElement)
  && !element.closest('.unseen') && element.getBoundingClientRect().right > innerWidth + 1)
  .map((element) => element.outerHTML.slice(0, 80));
"""
VIOLATIONS = """
const done = arguments[arguments.length - 1];
axe.run({ runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa'] })
  .then((found) => done(found.violations.map((rule) => [rule.id, rule.nodes.map((node) => node.html)])));
"""


@contextmanager
def chromium(profile):
    """A headless Chromium that is driven by selenium."""
    program = next(filter(None, map(shutil.which, CHROMIUM)), None)
    driver = shutil.which("chromedriver")
    if not program or not driver:
        pytest.fail(f"There is no chromium with its chromedriver: {HELP}.")
    try:
        from selenium import webdriver
    except ImportError:
        pytest.fail(f"There is no selenium: pip install viewloom[dev]; {HELP}.")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for flag in (*FLAGS, f"user-data-dir={profile}"):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    browser = webdriver.Chrome(options, webdriver.ChromeService(driver))
    browser.set_script_timeout(PATIENCE)
    browser.command_executor.client_config.timeout = 2 * PATIENCE  # or selenium gives up after 120 seconds
    browser.get("about:blank")
    requested(browser)  # what the browser's own first page asked for
    try:
        yield browser
    finally:
        browser.quit()


def axe_core():
    """The script of axe-core, as packaged for Python."""
    package = importlib.util.find_spec("axe_playwright_python")
    if package is None:
        pytest.fail("There is no axe-core: make test installs it; see the Makefile.")
    return Path(package.origin).with_name("axe.min.js").read_text(encoding="utf-8")


def requested(browser):
    """Addresses that were asked for since last time."""
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    return [
        event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
    ]
