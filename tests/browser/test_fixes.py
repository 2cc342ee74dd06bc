"""What became of fixes on pages of alerts, and resolutions of several alerts on the page History."""

import pytest
from selenium.webdriver.support.ui import Select

from tests.api_data import COUNT, alert_id
from tests.browser.driver import Browser
from tests.served import Served

pytestmark = pytest.mark.slow


def test_several_alerts_are_resolved_and_later_one_again(browser: Browser, served: Served) -> None:
    browser.problems()
    browser.open("/history", ".alert-list .entry")
    browser.press_button("Resolve several", "section")
    for number in (0, 1):
        browser.find(f"#select-{alert_id(number)}").click()
    browser.press_button("Resolve 2 alerts", ".bulk")
    browser.find("#text").send_keys("restarted the collector")
    browser.find("#tag").send_keys("restart")
    browser.find("#link").send_keys("https://wiki.example.org/42")
    browser.press_button("Record the resolution", "[role=dialog]")
    browser.wait_for_text("The resolution of 2 alerts is stored.", "section")
    assert browser.text(".alert-list").count("restart") >= 2

    browser.open(f"/alerts/{alert_id(1)}")
    browser.press_button("Resolve", ".actions")
    assert browser.find("#tag").get_property("value") == "restart"  # type: ignore[no-untyped-call]
    browser.find("#text").send_keys("again: ")
    Select(browser.find("#effect")).select_by_value("superseded")
    browser.find("#superseded-by").send_keys("more-files")
    browser.press_button("Record the resolution", "[role=dialog]")
    browser.wait_for_text("superseded by more-files", ".notes")
    shown = browser.text(".notes")
    assert "again: restarted the collector" in shown and "post-mortem or ticket" in shown
    assert "(superseded by more-files)" in browser.text(".alert-head")
    assert browser.serious_findings() == []
    assert browser.problems() == []


def test_similar_alert_shows_its_fix_and_what_to_check_first(
    browser: Browser, served: Served
) -> None:
    served.connection.execute("DELETE FROM alert_notes")
    served.connection.execute(
        "UPDATE alerts SET ends_at = starts_at + interval '1 minute' WHERE id = %s", [alert_id(0)]
    )
    path = f"/api/v1/alerts/{alert_id(0)}"
    for step, outcome in (("ping", "ruled out"), ("df -h", "confirmed")):
        body = {"step": step, "outcome": outcome, "result": "100 % used"}
        served.ask("POST", f"{path}/checked", "operator", json=body).raise_for_status()
    body = {"text": "restarted", "tag": "reboot", "link": "https://wiki.example.org/42"}
    served.ask("POST", f"{path}/resolve", "operator", json=body).raise_for_status()
    body = {"tag": "reboot", "name": "restart"}
    served.ask("POST", "/api/v1/tags/rename", "operator", json=body).raise_for_status()
    browser.open(f"/alerts/{alert_id(COUNT - 1)}", "article")
    browser.wait_for_text("worked 1 of 1 time", "article")
    shown = browser.text("article")
    assert "restart" in shown and "recorded as reboot" in shown
    assert browser.find("article a[href='https://wiki.example.org/42']")
    browser.wait_for_text("df -h found the cause 1 of 1 time", "[aria-label='What to check first']")
    assert browser.serious_findings() == []
