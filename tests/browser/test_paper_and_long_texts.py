"""Printed pages are whole, and long texts are cut."""

import base64
import re

import pytest

from tests.api_data import COUNT, alert_id
from tests.browser.driver import Browser
from tests.browser.test_dashboard import ALERT, put_alert
from tests.served import Served

LONG = 900_000  # characters
# Whether an element hides a part of its content.
SCROLLING = (
    "return [...document.querySelectorAll('body *')].filter(e => e.clientHeight > 0 &&"
    " e.scrollHeight > e.clientHeight + 1 && getComputedStyle(e).overflowY !== 'visible')"
    ".map(e => e.tagName + '.' + e.className)"
)


@pytest.mark.slow
def test_long_summary_is_cut_and_shown_on_request(browser: Browser, served: Served) -> None:
    number = COUNT + 20
    alert = put_alert(served, number, "long " + "word " * (LONG // 5))
    try:
        browser.open("/", ".alert-list .entry")
        assert len(browser.text(".alert-list")) < 5_000
        browser.open(f"/alerts/{alert}")
        assert len(browser.text("h1")) < 500
        browser.press_button("Show the first 100,000 of 900,005 characters", "h1")
        browser.wait_for(lambda: len(browser.text("h1")) > 90_000)
        browser.press_button("Show less", "h1")
        browser.wait_for(lambda: len(browser.text("h1")) < 500)
    finally:
        served.connection.execute("DELETE FROM alerts WHERE id = %s", [alert_id(number)])
        served.connection.execute("DELETE FROM events WHERE key::text LIKE '%%long word%%'")


@pytest.mark.slow
def test_printed_alert_is_whole(browser: Browser) -> None:
    browser.open(ALERT, "article")
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        assert browser.run(SCROLLING) == []
        assert not browser.find(".actions").is_displayed()
    finally:
        browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    # A sheet of a fifth of A4: the page needs several.
    sheet = {"paperWidth": 6, "paperHeight": 4, "marginTop": 0.2, "marginBottom": 0.2}
    printed = browser.driver.execute_cdp_cmd("Page.printToPDF", sheet)
    pages = re.findall(rb"/Type\s*/Page\b", base64.b64decode(printed["data"]))
    assert len(pages) > 1
