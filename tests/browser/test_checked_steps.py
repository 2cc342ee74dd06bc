"""Steps that were checked to find the cause of an alert, and what agents propose, on pages of alerts."""

import pytest
from selenium.webdriver.support.ui import Select

from moirae.alerts import add_note
from sql.alerts import NewAlertNote
from tests.api_data import COUNT, alert_id
from tests.browser.driver import Browser
from tests.served import Served

pytestmark = pytest.mark.slow


def test_checked_step_is_recorded_and_shown(browser: Browser, served: Served) -> None:
    browser.problems()
    browser.open(f"/alerts/{alert_id(2)}")
    browser.press_button("Checked", ".actions")
    browser.find("#step").send_keys("df -h /")
    browser.find("#text").send_keys("91 % <b>used</b>")
    Select(browser.find("#outcome")).select_by_value("ruled out")
    browser.press_button("Record the step", "[role=dialog]")
    browser.wait_for_text("df -h /", ".notes")
    shown = browser.text(".notes")
    assert "operator checked" in shown
    assert "91 % <b>used</b>" in shown and "ruled out" in shown
    (note,) = served.ask("GET", f"/api/v1/alerts/{alert_id(2)}").json()["notes"]
    assert (note["kind"], note["text"], note["outcome"]) == ("checked", "df -h /", "ruled out")
    assert browser.problems() == []


def test_similar_alert_shows_what_was_checked_then(browser: Browser, served: Served) -> None:
    step = NewAlertNote(
        kind="checked",
        text="SELECT max(cpu) FROM cpu",
        author="agent",
        result="97 <script>",
        outcome="confirmed",
    )
    add_note(served.connection, alert_id(0), step)
    browser.open(f"/alerts/{alert_id(COUNT - 1)}", "article")
    browser.press_button("Checked then (1)", ".past")
    browser.wait_for_text("SELECT max(cpu) FROM cpu", ".past")
    shown = browser.text(".past")
    assert "97 <script>" in shown and "confirmed" in shown


def test_proposal_of_an_agent_is_confirmed(browser: Browser, served: Served) -> None:
    proposal = NewAlertNote(kind="proposal", text="moved the job", author="bot (agent)", tag="move")
    add_note(served.connection, alert_id(3), proposal)
    browser.open(f"/alerts/{alert_id(3)}")
    browser.wait_for_text("bot (agent) proposes that this fixed it", ".notes")
    assert "resolution by" not in browser.text(".alert-head")
    browser.press_button("Confirm", ".notes")
    browser.wait_for_text("resolution by operator: move", ".alert-head")
    alert = served.ask("GET", f"/api/v1/alerts/{alert_id(3)}").json()
    assert (alert["resolution"], alert["tag"]) == ("moved the job", "move")
