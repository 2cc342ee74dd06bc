"""The pages with ten thousand rules, of which many are in quarantine."""

from collections.abc import Iterator

import pytest

from moirae.inspect.incomplete_rules import list_incomplete_rules
from tests.api_data import WORKSPACE
from tests.browser.driver import PHONE_WIDTH, Browser, open_browser
from tests.browser.test_rule_pages import SET_VALUE
from tests.served import Served, apply_rules, serve

pytestmark = pytest.mark.slow
COUNT = 10_000
_FILE_RULES = 5_000
_MAX_BYTES = 50_000  # of what pages ask for at intervals
_CHOOSE = """
const [selector, value] = arguments;
const field = document.querySelector(selector);
Object.getOwnPropertyDescriptor(HTMLSelectElement.prototype, 'value').set.call(field, value);
field.dispatchEvent(new Event('change', {bubbles: true}));
"""
_TYPE = SET_VALUE.replace("TextArea", "Input")


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    workspace = WORKSPACE.replace("rules.yaml", '"*rules.yaml"')
    with serve(workspace, _write_rules(0)) as running:
        for start in range(_FILE_RULES, COUNT, _FILE_RULES):
            file = running.settings.file.with_name(f"{start}-rules.yaml")
            file.write_text(_write_rules(start))
        apply_rules(running)
        _deploy(running)
        yield running


def _write_rules(start: int) -> str:
    text = f"groups:\n- name: g{start}\n  rules:\n"
    for number in range(start, start + _FILE_RULES):
        text += f"  - {{alert: rule_{number:05}, expr: 'SELECT host, ts, cpu FROM cpu "
        text += f"WHERE cpu > {number}', key: [host]}}\n"
    return text


def _deploy(served: Served) -> None:
    """Rules that run; the first thousand failed or are in quarantine, each with a long error."""
    served.connection.execute(
        "INSERT INTO deployments (rule, version, settled_to, state, error)"
        " SELECT rule, version, '2026-01-01T00:00:00Z',"
        " CASE WHEN n % 2 = 0 AND n < 1000 THEN 'quarantined' ELSE 'running' END,"
        " CASE WHEN n < 1000 THEN repeat('an error ', 20) END"
        " FROM (SELECT *, row_number() OVER (ORDER BY split_part(rule, '/', 2)) - 1 AS n FROM rules) AS numbered"
    )
    served.connection.execute(
        "INSERT INTO rule_candidates (rule, since, candidates, matches, seconds)"
        " SELECT rule, clock_timestamp(), 100, 1, n * 0.001"
        " FROM (SELECT *, row_number() OVER (ORDER BY split_part(rule, '/', 2)) AS n FROM rules) AS numbered"
    )
    served.connection.execute(
        "INSERT INTO lost_verdicts (rule, version, stream, ts, row_hash, row, reason)"
        " SELECT rule, version, 'cpu', '2026-01-01T00:00:00Z', n::text, '{}', 'too many steps'"
        " FROM rules, generate_series(1, 3) n WHERE split_part(rule, '/', 2) < 'rule_00100'"
    )


@pytest.fixture(scope="module")
def browser(served: Served) -> Iterator[Browser]:
    with open_browser(served.url) as opened:
        opened.log_in(served.tokens["operator"])
        yield opened


def test_pages_ask_for_little(served: Served, browser: Browser) -> None:
    for path in ("/", "/system", "/rules"):
        browser.open(path)
        sizes = browser.run(
            "return performance.getEntriesByType('resource')"
            ".filter(entry => entry.name.includes('/api/'))"
            ".map(entry => [entry.name, entry.decodedBodySize])"
        )
        assert sizes
        assert [entry for entry in sizes if entry[1] > _MAX_BYTES] == []
    assert browser.problems() == []


def test_status_lists_all_rules_where_they_are_asked_for(served: Served) -> None:
    status = served.ask("GET", "/api/v1/status").json()
    assert (len(status["rules"]), len(status["incomplete_rules"])) == (COUNT, 1000)
    short = served.ask("GET", "/api/v1/status?brief=true")
    assert (len(short.json()["rules"]), len(short.json()["incomplete_rules"])) == (0, 20)
    assert short.json()["problems"] == status["problems"]
    assert len(short.content) < _MAX_BYTES
    assert len(list_incomplete_rules(status["rules"])) == 1000


def test_now_says_which_rules_are_not_complete(browser: Browser) -> None:
    browser.open("/", ".problems")
    text = browser.text(".problems")
    assert "rules in quarantine: g0/rule_00000 (not evaluated from 2026-01-01" in text
    assert "rules that failed: g0/rule_00001" in text
    browser.wait_for_text("without a verdict over some rows")
    assert browser.find("a[href='/rules/g0/rule_00000']")


def test_rules_are_found_by_name_state_and_cost(browser: Browser) -> None:
    browser.open("/rules", "table")
    assert len(browser.find_all("tbody tr")) == 100
    assert "Rules 1 to 100" in browser.text()
    browser.press_button("Next rules")
    browser.wait_for_text("Rules 101 to 200")
    browser.wait_for_text("g0/rule_00199", "table")
    browser.run(_TYPE, "input[type=search]", "", "RULE_0777")
    browser.wait_for(lambda: len(browser.find_all("tbody tr")) == 10)
    browser.run(_TYPE, "input[type=search]", "", "")
    browser.run(_CHOOSE, "select[aria-label=Order]", "cost")
    browser.wait_for(lambda: browser.text("tbody tr").startswith(f"g5000/rule_{COUNT - 1:05}"))
    assert "10 s" in browser.text("tbody tr")
    browser.run(_CHOOSE, "select[aria-label=State]", "quarantined")
    browser.wait_for_text("g0/rule_00998", "table")
    assert "Not evaluated from" in browser.text("tbody tr")
    assert browser.serious_findings() == []
    browser.resize(PHONE_WIDTH)
    assert browser.run("return document.documentElement.scrollWidth") <= PHONE_WIDTH


def test_page_of_one_of_many_rules(browser: Browser) -> None:
    browser.open("/rules/g5000/rule_05000", "dl")
    browser.wait_for_text("How it is executed")
    browser.wait_for_text("shared_with")
    assert browser.problems() == []


def test_metrics_have_series_of_some_rules_only(served: Served) -> None:
    text = served.ask("GET", "/metrics").text
    series = [line for line in text.splitlines() if 'rule="g' in line]
    assert 0 < len(series) <= 300
    assert 'moirae_rules{state="quarantined"} 500.0' in text


def test_export_says_how_many_rules_are_not_complete(served: Served) -> None:
    response = served.ask("GET", "/api/v1/export/events")
    assert (response.status_code, response.headers["Moirae-Incomplete-Rules"]) == (200, "1000")
