"""The page with the network as a picture: five rules, and a thousand."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.browser.driver import PHONE_WIDTH, Browser, open_browser
from tests.network_data import WORKSPACE, count_flows, write_rules
from tests.served import apply_rules, serve

pytestmark = pytest.mark.services
_ARCS = "g.arc"


@contextmanager
def _open(count: int) -> Iterator[Browser]:
    with serve(WORKSPACE, write_rules(count)) as running:
        apply_rules(running)
        count_flows(running.connection, count)
        with open_browser(running.url) as browser:
            browser.log_in(running.tokens["viewer"])
            yield browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with _open(5) as opened:
        yield opened


def test_few_rules_are_shown_with_what_flows_between_them(browser: Browser) -> None:
    browser.open("/network", _ARCS)
    labels = [arc.get_attribute("aria-label") for arc in browser.find_all(_ARCS)]
    (label,) = [label for label in labels if label.startswith("stream cpu → rule g0/Rule0")]
    assert "/s" in label and "cores" in label and "MB" in label and "12 s behind" in label
    assert any(label.startswith("derived g0/load_0 → rule g0/Rule1") for label in labels)
    assert any(label.startswith("context g0/Rule1/others → recall") for label in labels)
    assert browser.serious_findings() == []
    browser.run("document.documentElement.classList.add('pf-v6-theme-dark')")
    browser.wait_for(lambda: browser.serious_findings() == [])  # colours change in steps
    assert browser.problems() == []


def test_arc_shows_its_last_rows(browser: Browser) -> None:
    """By the keyboard: an arc is a button."""
    browser.open("/network", _ARCS)
    browser.run("document.querySelector('g.arc').focus()")
    browser.press("\ue007")
    browser.wait_for_text("No rows yet")
    assert browser.find("g.arc.selected")


@pytest.mark.slow
def test_groups_are_closed_and_opened(browser: Browser) -> None:
    browser.open("/network", _ARCS)
    browser.press_button("Close g0")
    browser.wait_for(lambda: len(browser.find_all("g.box.group")) == 1)
    assert (
        browser.find("g.box.group")
        .get_attribute("aria-label")
        .startswith("Open group g0: 5 rules, 5 contexts, 10 recalls, 1 derived")
    )
    browser.run("document.querySelector('g.box.group').focus()")
    browser.press("\ue007")
    browser.wait_for(lambda: len(browser.find_all("g.box.rule")) == 5)


@pytest.mark.slow
def test_page_fits_a_phone(browser: Browser) -> None:
    browser.resize(PHONE_WIDTH)
    browser.open("/network", _ARCS)
    assert browser.run("return document.documentElement.scrollWidth") <= PHONE_WIDTH
    assert browser.serious_findings() == []


@pytest.mark.slow
def test_thousand_rules_open_by_group() -> None:
    """Prints the time until the picture is there; goal of the design: 2 s."""
    with _open(1_000) as browser:
        for attempt in ("first", "second", "third"):
            started_at = time.perf_counter()
            browser.open("/network", "g.box.group")
            print(f"{attempt}: {time.perf_counter() - started_at:.2f} s")
        assert len(browser.find_all("g.box.group")) == 50
        assert browser.problems() == []
        browser.run(
            "document.querySelectorAll('g.box.group')[0].dispatchEvent("
            "new MouseEvent('click', {bubbles: true}))"
        )
        browser.wait_for(lambda: len(browser.find_all("g.box.rule")) == 20)
