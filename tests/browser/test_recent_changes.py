"""The card of an alert's page with what changed before."""

from collections.abc import Iterator

import pytest

from tests.api_data import COUNT, RULES, WORKSPACE, alert_id, fill
from tests.browser.driver import PHONE_WIDTH, Browser, open_browser
from tests.recent_changes import DECLARED, archive_changes
from tests.served import Served, apply_rules, serve

pytestmark = pytest.mark.services


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serve(WORKSPACE.replace("rules:", DECLARED, 1), RULES) as running:
        fill(running.connection)
        apply_rules(running)
        archive_changes(running)
        yield running


@pytest.fixture(scope="module")
def browser(served: Served) -> Iterator[Browser]:
    with open_browser(served.url) as opened:
        opened.log_in(served.tokens["viewer"])
        yield opened


@pytest.mark.slow
def test_alert_shows_what_changed_before_with_what_is_known_of_it(browser: Browser) -> None:
    browser.open(f"/alerts/{alert_id(COUNT - 1)}")
    card = "[aria-label='What changed before']"
    browser.wait_for_text("web 2.0", card)
    text = browser.text(card)
    assert "such a change came before 1 of the 1 most similar alerts" in text
    assert "1 step away" in text
    assert "everywhere" in text
    assert "flags: nothing is archived yet" in text
    assert "web 2.1" not in text
    assert browser.serious_findings() == []
    browser.resize(PHONE_WIDTH)
    assert browser.run("return document.documentElement.scrollWidth") <= PHONE_WIDTH
