"""A browser, and a server with the data of `tests.api_data`."""

import shutil
from collections.abc import Iterator

import pytest

from moirae.deployments import RuleRegistry
from moirae.rules import Definition, read_rule_files
from tests.api_data import RULES, WORKSPACE, fill
from tests.browser.driver import Browser, open_browser
from tests.served import Served, serve

if shutil.which("chromium") is None or shutil.which("chromedriver") is None:
    collect_ignore_glob = ["test_*"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One process of pytest-xdist has the server and the browser."""
    for item in items:
        if "tests/browser/" in item.nodeid:
            item.add_marker(pytest.mark.timeout(600))


def apply_rules(served: Served) -> None:
    """Apply the rule of the data, without a check by Spark."""
    rules, problems = read_rule_files(
        served.settings.find_rule_files(), served.settings.table_names
    )
    assert not problems
    key = ("host",)
    definitions = [
        Definition(rule, {"host": "string", "cpu": "double"}, key, key) for rule in rules.rules
    ]
    RuleRegistry(served.connection).apply(definitions)


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serve(WORKSPACE, RULES) as running:
        fill(running.connection)
        apply_rules(running)
        yield running


@pytest.fixture(scope="module")
def browser(served: Served) -> Iterator[Browser]:
    """A browser with a session of an operator."""
    with open_browser(served.url) as opened:
        opened.log_in(served.tokens["operator"])
        yield opened
