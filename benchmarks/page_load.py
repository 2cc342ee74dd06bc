"""A2, A3: how fast the dashboard shows an alert, in headless Chromium. Needs chromium and
chromedriver.

A2 is the first contentful paint of an alert's page; the browser's cache is empty. A3 is the time
from the commit of a revision until its value is on the screen. Each with 10,000 firing alerts.
"""

import shutil
import sys
import time
from uuid import UUID

from psycopg import Connection

from benchmarks.results import BenchmarkResult, make_result, rounded_median
from benchmarks.timing import time_noise_kernel
from tests.api_data import COUNT, RULES, WORKSPACE, alert_id, fill, put_revision, put_task
from tests.browser.driver import Browser, open_browser
from tests.served import serve

_REPETITIONS = 20
_ALERTS = 10_000
_OPEN_ALERT = 1  # whose recall has an SQL answer
_FIRST_REVISION = 3
_PAINT = "return performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
# Notes when the text of the norm contains a value; the clock is that of this machine.
_WATCH = """
window.shownAt = null;
const check = () => {
  if (window.shownAt === null && document.querySelector('.norm')?.innerText.includes(arguments[0])) {
    window.shownAt = Date.now();
  }
};
window.watcher?.disconnect();
window.watcher = new MutationObserver(check);
window.watcher.observe(document.querySelector('.side'), {subtree: true, childList: true, characterData: true});
"""


def run() -> list[BenchmarkResult]:
    """Measure both; nothing without a browser."""
    if shutil.which("chromium") is None or shutil.which("chromedriver") is None:
        print("A2, A3: chromium and chromedriver are not installed", file=sys.stderr)
        return []
    with serve(WORKSPACE, RULES) as served:
        fill(served.connection)
        _put_alerts(served.connection, _ALERTS)
        with open_browser(served.url) as browser:
            browser.log_in(served.tokens["operator"])
            loads, now_loads, noise = _measure_loads(browser)
            updates = _measure_updates(browser, served.connection)
    details = {
        "alerts": float(_ALERTS),
        "alert page complete, ms": rounded_median(loads[1], 0),
        "first paint of Now, ms": rounded_median(now_loads, 0),
    }
    return [
        make_result(
            "A2",
            "first contentful paint of an alert's page, ms",
            loads[0],
            target="≤ 1000",
            details=details,
            noise=noise,
        ),
        make_result(
            "A3",
            "from the commit of a revision to the screen, ms",
            updates,
            target="≤ 1000",
            details={"alerts": float(_ALERTS)},
            noise=noise,
        ),
    ]


def _measure_loads(
    browser: Browser,
) -> tuple[tuple[list[float], list[float]], list[float], list[float]]:
    """Milliseconds: paints and complete loads of an alert's page, paints of Now; and the noise."""
    paints: list[float] = []
    complete: list[float] = []
    now_paints: list[float] = []
    noise: list[float] = []
    for _ in range(_REPETITIONS):
        noise.append(time_noise_kernel())
        browser.driver.execute_cdp_cmd("Network.clearBrowserCache", {})
        started_at = time.monotonic()
        browser.open(f"/alerts/{alert_id(COUNT - 1)}", "article")
        complete.append((time.monotonic() - started_at) * 1_000)
        paints.append(float(browser.wait_for(lambda: browser.run(_PAINT))))
        browser.driver.execute_cdp_cmd("Network.clearBrowserCache", {})
        browser.open("/", ".alert-list .entry")
        now_paints.append(float(browser.wait_for(lambda: browser.run(_PAINT))))
    return (paints, complete), now_paints, noise


def _measure_updates(browser: Browser, connection: Connection[tuple[object, ...]]) -> list[float]:
    """Milliseconds from the commit of each revision until the page shows it."""
    connection.execute(
        "DELETE FROM tasks WHERE eid = (SELECT eid FROM alerts WHERE id = %s)", [_id()]
    )
    put_task(connection, _OPEN_ALERT, "running")
    browser.open(f"/alerts/{_id()}", ".norm")
    delays: list[float] = []
    for number in range(_FIRST_REVISION, _FIRST_REVISION + _REPETITIONS):
        value = number + 0.5
        browser.run(_WATCH, f"normally {value}")
        put_revision(connection, _OPEN_ALERT, number, [{"mean": value}])
        committed_at = time.time() * 1_000
        shown_at = browser.wait_for(lambda: browser.run("return window.shownAt"))
        delays.append(max(0.0, float(shown_at) - committed_at))
    return delays


def _id() -> UUID:
    return alert_id(_OPEN_ALERT)


def _put_alerts(connection: Connection[tuple[object, ...]], count: int) -> None:
    """Firing alerts like the first one, each a second later."""
    connection.execute(
        "INSERT INTO alerts (id, eid, rule, version, fingerprint, key, labels, annotations, state,"
        " starts_at, fired_at, last_at, events) SELECT gen_random_uuid(), gen_random_uuid(), rule,"
        " version, 'storm ' || n, jsonb_build_object('host', n::text), labels,"
        " jsonb_build_object('summary', 'storm ' || n), 'firing',"
        " starts_at + n * interval '1 second', fired_at, last_at, 1"
        " FROM alerts, generate_series(1, %s) n WHERE id = %s",
        [count, alert_id(0)],
    )
