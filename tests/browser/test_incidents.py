"""The pages of incidents, and the card on the page of an alert."""

from collections.abc import Iterator

import pytest

from moirae.services.operations.alerts import ResolutionBody
from tests.api_data import RULES, START, WORKSPACE, fill
from tests.browser.driver import PHONE_WIDTH, Browser, open_browser
from tests.integration.test_incidents import alert_id, place, put_alert
from tests.served import Served, apply_rules, serve

pytestmark = pytest.mark.slow

DAY = 1_440  # minutes


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serve(WORKSPACE, RULES) as running:
        fill(running.connection)
        apply_rules(running)
        yield running


@pytest.fixture(autouse=True)
def incidents(served: Served) -> None:
    """A failure today, one like it some days ago that was resolved, and another one between."""
    connection = served.connection
    for table in ("alert_notes", "alerts", "contexts", "incidents", "incident_decisions"):
        connection.execute(f"DELETE FROM {table}")  # type: ignore[arg-type]
    for first, days, cause in (
        (10, -9, "disk"),
        (20, -6, "net"),
        (30, -3, "mail"),
        (40, 0, "disk"),
    ):
        for number, rule in enumerate(("g/plain", "g/r", "g/s")):
            put_alert(
                connection,
                first + number,
                rule=rule,
                host=f"h{number}",
                minutes=days * DAY + number,
                context={"cause": cause, "kind": cause},
            )
    place(connection)
    connection.execute(
        "UPDATE alerts SET state = 'resolved', ends_at = starts_at + interval '20 minutes'"
        " WHERE starts_at < %s",
        [START],
    )
    body = ResolutionBody(text="grew the volume", tag="grow").model_dump()
    path = f"/api/v1/incidents/{alert_id(10)}/resolve"
    served.ask("POST", path, "operator", json=body).raise_for_status()


@pytest.fixture(scope="module")
def browser(served: Served) -> Iterator[Browser]:
    with open_browser(served.url) as opened:
        opened.log_in(served.tokens["operator"])
        yield opened


@pytest.fixture
def viewer(served: Served) -> Iterator[Browser]:
    with open_browser(served.url) as opened:
        opened.log_in(served.tokens["viewer"])
        yield opened


def check_page(browser: Browser) -> None:
    assert browser.serious_findings() == []
    browser.resize(PHONE_WIDTH)
    assert browser.run("return document.documentElement.scrollWidth") <= PHONE_WIDTH
    assert browser.serious_findings() == []
    browser.resize(1280)


def test_incidents_are_listed_and_filtered(browser: Browser) -> None:
    browser.problems()
    browser.open("/incidents", ".alert-list .entry")
    assert browser.text("#incidents-title") == "4 incidents"
    browser.find("#unresolved").click()
    browser.wait_for_text("3 incidents", "#incidents-title")
    browser.find("#active").click()
    browser.wait_for_text("1 incident", "#incidents-title")
    browser.open("/incidents?unresolved=true", ".alert-list .entry")
    assert browser.text("#incidents-title") == "3 incidents", "the address keeps filters"
    check_page(browser)
    assert browser.problems() == []


def test_alert_leads_to_its_incident_and_to_what_fixed_a_similar_one(browser: Browser) -> None:
    browser.problems()
    browser.open(f"/alerts/{alert_id(41)}", "[aria-label='Incident'] .members li")
    card = browser.text("[aria-label='Incident']")
    assert "With 2 other alerts" in card
    assert "Why: 1 min after the alert before it; 2 terms of the context in common" in card
    check_page(browser)
    browser.find("[aria-label='Incident'] a").click()
    browser.wait_for_text("grew the volume", "article")
    similar = browser.text("article")
    assert "noted by" in similar and "for 3 alerts" in similar and "cause=disk" in similar
    assert browser.text(".members").count("terms of the context in common") == 2
    check_page(browser)
    assert browser.problems() == []


def test_operator_confirms_splits_merges_and_resolves(browser: Browser) -> None:
    browser.problems()
    browser.open(f"/incidents/{alert_id(40)}", ".members li")
    browser.press_button("Confirm", ".actions")
    browser.find("#comment").send_keys("one full disk")
    assert browser.serious_findings() == []
    browser.press_button("Confirm", "[role=dialog]")
    browser.wait_for_text("confirmed", ".badges")
    browser.wait_for_text("one full disk", ".notes")

    first = browser.driver.current_url
    browser.find(f"#select-{alert_id(42)}").click()
    browser.press_button("Split off 1 alert", ".actions")
    browser.press_button("Split", "[role=dialog]")
    browser.wait_for(lambda: browser.driver.current_url != first)
    browser.wait_for_text("1 alert since", ".alert-head")
    assert len(browser.find_all(".members li")) == 1

    browser.open(f"/incidents/{alert_id(40)}", ".members li")
    assert len(browser.find_all(".members li")) == 2
    browser.press_button("Merge", ".actions")
    browser.find("#other").send_keys("ffff")
    browser.press_button("Merge", "[role=dialog]")
    browser.wait_for_text("Merge: not done. no incident 'ffff'", "[role=dialog]")
    browser.find("#other").clear()
    browser.find("#other").send_keys(str(alert_id(42)))
    browser.press_button("Merge", "[role=dialog]")
    browser.wait_for_text("Merged: 3 alerts now.", ".effect")
    browser.wait_for(lambda: len(browser.find_all(".members li")) == 3)

    browser.press_button("Resolve", ".actions")
    browser.find("#text").send_keys("grew it again")
    browser.press_button("Record the resolution", "[role=dialog]")
    browser.wait_for_text("The resolution of all alerts is stored.", ".effect")
    browser.wait_for(lambda: "not resolved" not in browser.text(".badges"))
    assert browser.serious_findings() == []
    refused = [problem for problem in browser.problems() if "404" not in problem]
    assert refused == []


def test_viewer_reads_only(viewer: Browser) -> None:
    viewer.open(f"/incidents/{alert_id(40)}", ".members li")
    assert not viewer.find_all(".actions")
    assert not viewer.find_all(".members input")
    assert "You can read only" in viewer.text(".viewer-note")
    assert viewer.serious_findings() == []
    viewer.open("/incidents/ffffffff")
    assert viewer.text("h1") == "There is no such incident"
