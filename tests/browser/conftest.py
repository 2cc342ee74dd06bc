"""A browser, and a server with the data of `tests.api_data`."""

import shutil
from collections.abc import Iterator

import pytest

from tests.api_data import RULES, WORKSPACE, fill
from tests.browser.driver import Browser, open_browser
from tests.served import Served, apply_rules, serve

if shutil.which("chromium") is None or shutil.which("chromedriver") is None:
    collect_ignore_glob = ["test_*"]


_NORM = 'norm: {sql: "SELECT avg(h.cpu) AS mean FROM cpu h"}'
_PLAIN_RULE = """
  - alert: plain  # without recalls and contexts
    expr: SELECT host, ts, cpu FROM cpu WHERE cpu > 99
    key: [host]
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One process of pytest-xdist has the server and the browser."""
    for item in items:
        if "tests/browser/" in item.nodeid:
            item.add_marker(pytest.mark.timeout(600))


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    rules = RULES.replace("recall: {", f"recall: {{{_NORM}, ").rstrip() + _PLAIN_RULE
    with serve(WORKSPACE, rules) as running:
        fill(running.connection)
        apply_rules(running)
        yield running


@pytest.fixture(scope="module")
def browser(served: Served) -> Iterator[Browser]:
    """A browser with a session of an operator."""
    with open_browser(served.url) as opened:
        opened.log_in(served.tokens["operator"])
        yield opened
