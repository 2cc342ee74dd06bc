"""What is not as usual: cards of the page System, recalls that failed, rules without recalls."""

import re
from collections.abc import Iterator

import pytest

from tests.api_data import COUNT, alert_id, event_id, task_id
from tests.browser.driver import PHONE_WIDTH, Browser
from tests.browser.test_dashboard import ALERT, put_alert
from tests.served import Served

PLAIN = COUNT + 21  # an alert of a rule without recalls and contexts
_INSERTS = (
    "INSERT INTO lost_records (stream, topic, partition, first_offset, last_offset, reason) VALUES"
    " ('orders', 'shop.orders', '0', 12, 18, 'deleted'),"
    " ('orders', 'shop.orders', '1', 0, NULL, 'recreated')",
    "INSERT INTO source_errors (stream, kind, error) VALUES"
    " ('orders', 'away', 'the brokers do not answer: start them, or correct `servers`')",
    "INSERT INTO set_aside (kind, stream, name, reason, fingerprint, tries, first_failed_at,"
    " last_failed_at, set_aside_at) VALUES ('file', 'files', 'landing/a.jsonl', 'broken', 'f', 3,"
    " now(), now(), now()), ('file', 'files', 'landing/b.jsonl', 'busy', 'f', 1, now(), now(), NULL)",
    "INSERT INTO column_rewrites (stream, columns, state, steps_done, steps, bytes_needed) VALUES"
    " ('cpu', ARRAY['cpu'], 'rewriting', 12, 140, 987654321)",
    "INSERT INTO process_exits (role, epoch, pid, started_at, ended_at, signal) VALUES"
    " ('live', 9001, 1, now() - interval '1 hour', now(), 9)",
    "INSERT INTO unread_input (stream, oldest_at, checked_at) VALUES"
    " ('orders', now() - interval '90 seconds', now())",
)
_TABLES = (
    "lost_records",
    "source_errors",
    "set_aside",
    "column_rewrites",
    "process_exits",
    "unread_input",
)


@pytest.fixture
def conditions(served: Served) -> Iterator[None]:
    """Something on each card of the page System."""
    for statement in _INSERTS:
        served.connection.execute(statement)
    yield
    for table in _TABLES:
        served.connection.execute(f"DELETE FROM {table}")


@pytest.mark.slow
@pytest.mark.usefixtures("conditions")
def test_system_shows_each_condition(browser: Browser) -> None:
    browser.open("/system")
    browser.wait_for_text("killed by signal 9 now", "[aria-label=Restarts]")
    text = browser.text("main")
    assert "run moirae set-aside retry" in text
    losses = browser.text("[aria-label='Lost records']")
    assert "12 to 18 deleted from the topic, as by its retention" in losses
    assert "from 0 on, number unknown deleted with the topic, which was made again" in losses
    failed = browser.text("[aria-label='Set aside']")
    assert "file landing/a.jsonl of stream files set aside 3" in failed
    assert "file landing/b.jsonl of stream files tried again 1" in failed
    assert "cpu: files are rewritten for changed columns (cpu), 12 of 140 steps, 988 MB" in text
    assert "orders: the oldest unread input arrived 2 min ago" in text
    assert "`" not in browser.text(".problems")


@pytest.mark.slow
@pytest.mark.usefixtures("conditions")
def test_alerts_are_on_the_first_screen_of_a_phone_beside_problems(browser: Browser) -> None:
    browser.resize(PHONE_WIDTH)
    try:
        browser.open("/", ".alert-list .entry")
        browser.wait_for_text("problems", ".problems")
        top = browser.run(
            "return document.querySelector('.alert-list .entry').getBoundingClientRect().top"
        )
        assert top < browser.run("return innerHeight")
    finally:
        browser.resize(1280)


@pytest.fixture
def plain_alert(served: Served) -> Iterator[str]:
    """The page of an alert of a rule without recalls and contexts."""
    alert = put_alert(served, PLAIN, "plain")
    for table, column in (("alerts", "id"), ("events", "eid")):
        key = alert if table == "alerts" else event_id(PLAIN)
        statement = f"UPDATE {table} SET rule = 'g/plain' WHERE {column} = %s"
        served.connection.execute(statement, [key])
    yield f"/alerts/{alert}"
    served.connection.execute("DELETE FROM alerts WHERE id = %s", [alert])
    served.connection.execute("DELETE FROM events WHERE eid = %s", [event_id(PLAIN)])


@pytest.mark.slow
def test_rule_without_recalls_says_so(browser: Browser, plain_alert: str) -> None:
    browser.open(plain_alert)
    browser.wait_for_text("The rule of this alert has no recall.", ".side")
    browser.wait_for_text("The rule of this alert has no context.", ".side")
    assert "Its rule has no similarity recall" in browser.text(".verdict")
    assert "No recall yet" not in browser.text()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("state", "retry", "expected"),
    [
        ("waiting", "30 minutes", "The last query failed and is tried again in 30 min: too slow"),
        ("failed", None, "too slow"),
    ],
)
def test_last_reason_of_a_recall_is_shown(
    browser: Browser, served: Served, state: str, retry: str | None, expected: str
) -> None:
    served.connection.execute(
        "UPDATE tasks SET state = %s, error = 'too slow', retry_at = now() + %s::interval"
        " WHERE id = %s",
        [state, retry, task_id(2)],
    )
    browser.open(f"/alerts/{alert_id(2)}")
    browser.wait_for_text(expected, ".coverage")
    served.connection.execute(
        "UPDATE tasks SET state = 'done', error = NULL, retry_at = NULL WHERE id = %s", [task_id(2)]
    )


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 3])
def test_axis_of_a_chart_spans_the_selected_range(browser: Browser, count: int) -> None:
    """Measured by the pointer: a drag over half of the chart selects half of the range."""
    browser.open(ALERT, ".chart-span")
    browser.run(
        "const real = window.fetch;"
        "window.fetch = async (url, options) => {"
        "  if (!String(url).includes('/timeline')) return real(url, options);"
        "  const ts = '2026-01-01T12:00:00Z', start = Date.parse(ts);"
        f"  const times = Array.from({{length: {count}}}, (_, i) =>"
        "    new Date(start - i * 60000).toISOString()).reverse();"
        "  const values = times.map(() => 95);"
        "  const series = [{stream: 'cpu', column: 'cpu', times, lowest: values, mean: values,"
        f"    highest: values, rows: {count}}}];"
        "  const body = {ts, start: times[0], end: ts, missing: [], series};"
        "  return new Response(JSON.stringify(body),"
        "    {headers: {'content-type': 'application/json'}}); }"
    )
    browser.press_button("± 6 h", ".chart-span")
    browser.wait_for(lambda: browser.find_all(".chart canvas"))
    assert "Shown from 2026-01-01 06:00:00 UTC to 2026-01-01 18:00:00 UTC" in _label(browser)
    browser.drag(".chart .u-over", 0.25, 0.75)
    browser.wait_for_text("Show the whole range", ".chart-zoom")
    start, end = re.findall(r"\d\d:\d\d:\d\d", _label(browser).partition("Shown from")[2])
    assert "08:50:00" <= start <= "09:10:00"
    assert "14:50:00" <= end <= "15:10:00"


def _label(browser: Browser) -> str:
    return str(browser.find(".chart [role=img]").get_attribute("aria-label"))  # type: ignore[no-untyped-call]
