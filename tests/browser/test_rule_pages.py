"""Try a change of a rule, Query, Worth of rules and why an alert fired, with a recall process."""

import time
from collections.abc import Iterator

import pytest

from moirae.deployments import RuleRegistry
from tests.api_data import alert_id, fill
from tests.browser.driver import PHONE_WIDTH, Browser, open_browser
from tests.served import Served, apply_rules
from tests.served_archive import SLOW, serve_with_archive

pytestmark = pytest.mark.slow
SET_VALUE = """
const [selector, from, to] = arguments;
const field = document.querySelector(selector);
const set = Object.getOwnPropertyDescriptor(HTMLTextAreaElement.prototype, 'value').set;
set.call(field, from ? field.value.replace(from, to) : to);
field.dispatchEvent(new Event('input', {bubbles: true}));
"""


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serve_with_archive() as running:
        fill(running.connection)
        apply_rules(running)
        yield running


@pytest.fixture(scope="module")
def browser(served: Served) -> Iterator[Browser]:
    with open_browser(served.url) as opened:
        opened.log_in(served.tokens["admin"])
        yield opened


def wait_long(browser: Browser, text: str, selector: str) -> None:
    deadline = time.monotonic() + SLOW
    while text not in browser.text(selector):
        assert time.monotonic() < deadline, browser.text(selector)
        time.sleep(0.2)


def test_rule_is_changed_tried_and_applied(browser: Browser, served: Served) -> None:
    browser.open("/rules/g/r")
    browser.find("a[href='/try/g/r']").click()
    browser.find("#draft")
    assert "cpu > 90" in str(browser.find("#draft").get_property("value"))  # type: ignore[no-untyped-call]
    browser.run(SET_VALUE, "#draft", "key:", "kee:")
    browser.wait_for_text("unknown key 'kee', did you mean 'key'?", ".problem-list")
    assert browser.find_all(".mark-error")
    browser.run(SET_VALUE, "#draft", "kee:", "key:")
    browser.run(SET_VALUE, "#draft", "cpu > 90", "cpux > 80")
    wait_long(browser, "unknown column 'cpux'", ".problem-list")
    browser.run(SET_VALUE, "#draft", "cpux > 80", "cpu > 80")
    wait_long(browser, "The rule is valid.", ".try-grid")
    browser.press_button("Back-test", ".backtest")
    wait_long(browser, "Complete.", ".backtest")
    text = browser.text(".backtest")
    assert "7 new" in text and "8 unchanged" in text and "0 gone" in text
    assert len(browser.find_all(".strip-new")) == 7
    assert len(browser.find_all(".strip-unchanged")) == 16
    assert "+ new" in browser.text("[aria-label='Alerts that differ']")
    assert browser.serious_findings() == []
    assert browser.problems() == []
    browser.find("#comment").send_keys("fires too late")
    browser.press_button("Apply", ".try-grid")
    wait_long(browser, "g/r is applied: change", ".try-grid")
    (definition,) = RuleRegistry(served.connection).desired_rules()
    assert definition.spec.expr is not None and "cpu > 80" in definition.spec.expr


def test_pages_fit_a_phone(browser: Browser) -> None:
    browser.resize(PHONE_WIDTH)
    try:
        for path in ("/try/g/r", "/query", "/report", f"/alerts/{alert_id(0)}"):
            browser.open(path)
            assert browser.run("return document.documentElement.scrollWidth") <= PHONE_WIDTH, path
    finally:
        browser.resize(1280)


def test_query_is_answered_drawn_and_made_a_rule(browser: Browser) -> None:
    browser.open("/query", "#sql")
    browser.run(SET_VALUE, "#sql", "", "SELECT nonsense FROM cpu")
    browser.press_button("Run", "form")
    wait_long(browser, "nonsense", "[role=alert]")
    browser.problems()  # the refused request
    sql = "SELECT ts, host, cpu FROM cpu WHERE cpu > 60"
    browser.run(SET_VALUE, "#sql", "", sql)
    browser.press_button("Run", "form")
    wait_long(browser, "15 rows", ".query-answer")
    wait_long(browser, "complete", ".query-answer")
    assert browser.find_all(".query-answer .chart canvas")
    assert "95" in browser.text("[aria-label='Rows of the answer']")
    assert browser.serious_findings() == []
    assert browser.problems() == []
    browser.press_button("Make this a rule", "form")
    browser.find("#draft")
    assert sql in str(browser.find("#draft").get_property("value"))  # type: ignore[no-untyped-call]
    wait_long(browser, "The rule is valid.", ".try-grid")


def test_worth_of_rules_is_a_picture_and_a_table(browser: Browser, served: Served) -> None:
    served.connection.execute("UPDATE alerts SET raised_at = now()")
    browser.open("/report", "[aria-label='Worth of rules']")
    assert "g/r" in browser.text(".bars")
    assert browser.serious_findings() == []


def test_alert_is_explained_also_at_a_point_of_a_chart(browser: Browser) -> None:
    browser.open(f"/alerts/{alert_id(0)}", ".why-card")
    browser.press_button("Why did this fire?", ".why-card")
    wait_long(browser, "It does not fire at 2026-01-01 00:00:00 UTC", ".why-card")
    assert "cpu > 80" in browser.text("[aria-label^='Conditions of']")
    browser.find(".chart .u-over").click()
    browser.wait_for(lambda: browser.find(".why-card input").get_property("value"))  # type: ignore[no-untyped-call]
    chosen = str(browser.find(".why-card input").get_property("value"))  # type: ignore[no-untyped-call]
    browser.press_button("Why not here?", ".why-card")
    wait_long(browser, f"It does not fire at {chosen.replace('T', ' ')}", ".why-card")
    assert browser.serious_findings() == []


def test_viewer_is_told_which_role_is_needed(served: Served) -> None:
    with open_browser(served.url) as opened:
        opened.log_in(served.tokens["viewer"])
        for path in ("/try/g/r", "/query"):
            opened.open(path)
            opened.wait_for_text("log in with a token of the role operator")
