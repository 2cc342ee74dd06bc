"""The pages of the dashboard: what an operator sees, does and hears about live.

One server and one browser serve all tests; those of special cases are slow.
"""

import time
from datetime import UTC, datetime
from functools import partial
from uuid import UUID

import httpx
import pytest
from psycopg.types.json import Jsonb
from selenium.webdriver.common.keys import Keys

from sql.similarity import JudgementGateway
from sql.stages import NewStageRow, RecalledEventGateway, RowRevisionGateway
from tests.api_data import COUNT, RULE, alert_id, event_id, put_revision, put_task, task_id
from tests.browser.driver import PHONE_WIDTH, Browser, open_browser
from tests.sampled import every
from tests.served import Served

SIMILAR = COUNT - 1  # the alert with a similar past event
ALERT = f"/alerts/{alert_id(SIMILAR)}"
PAGES = {
    "now": "/",
    "alert": ALERT,
    "compare": f"/compare/{event_id(SIMILAR)}/{event_id(0)}",
    "history": "/history",
    "rules": "/rules",
    "rule": "/rules/g/r",
    "system": "/system",
}
HOSTILE = '"><img src=x onerror="window.attacked=1"><script>window.attacked=1</script>{{1}}\u202e'


def put_alert(served: Served, number: int, host: str) -> UUID:
    """A copy of the first alert and its event that starts later."""
    values = {"number": number, "alert": alert_id(number), "eid": event_id(number), "host": host}
    served.connection.execute(
        "INSERT INTO events (eid, rule, version, ts, fingerprint, key, attributes, settled)"
        " SELECT %(eid)s, rule, version, ts + interval '1 day', %(eid)s::text,"
        " jsonb_build_object('host', %(host)s::text), attributes, true FROM events"
        " WHERE eid = %(first)s",
        {**values, "first": event_id(0)},
    )
    served.connection.execute(
        "INSERT INTO alerts (id, eid, rule, version, fingerprint, key, labels, annotations, state,"
        " starts_at, fired_at, last_at, events) SELECT %(alert)s, %(eid)s, rule, version,"
        " %(eid)s::text, jsonb_build_object('host', %(host)s::text), labels,"
        " jsonb_build_object('summary', %(host)s::text), 'firing', starts_at + interval '1 day',"
        " fired_at, last_at, 1 FROM alerts WHERE id = %(first)s",
        {**values, "first": alert_id(0)},
    )
    return alert_id(number)


def put_alerts(served: Served, count: int) -> None:
    """Firing alerts like the first one, each a second later."""
    served.connection.execute(
        "INSERT INTO alerts (id, eid, rule, version, fingerprint, key, labels, annotations, state,"
        " starts_at, fired_at, last_at, events) SELECT gen_random_uuid(), gen_random_uuid(), rule,"
        " version, 'storm ' || n, jsonb_build_object('host', n::text), labels,"
        " jsonb_build_object('summary', 'storm ' || n), 'firing',"
        " starts_at + n * interval '1 second', fired_at, last_at, 1"
        " FROM alerts, generate_series(1, %s) n WHERE id = %s",
        [count, alert_id(0)],
    )


def test_login_leads_back_to_the_page_that_needed_it(served: Served) -> None:
    with open_browser(served.url) as fresh:
        fresh.driver.get(served.url + "/history?text=host1")
        fresh.wait_for(lambda: fresh.find_all("#token"))
        fresh.find("#token").send_keys("moirae_wrong", Keys.ENTER)
        fresh.wait_for_text("not valid")
        fresh.find("#token").send_keys(served.tokens["viewer"], Keys.ENTER)
        fresh.wait_for_text("1 alert")
        assert fresh.driver.current_url.endswith("/history?text=host1")
        fresh.open(ALERT)
        assert "Acknowledge" not in fresh.text(), "a viewer cannot act"


@pytest.mark.slow
def test_code_in_the_fragment_opens_a_page(served: Served) -> None:
    code = served.ask("POST", "/api/v1/tokens/viewer/login-codes").json()["code"]
    with open_browser(served.url) as fresh:
        fresh.driver.get(f"{served.url}/login#code={code}&page={ALERT}")
        fresh.wait_for_text("The past of this alert")
        assert "code" not in fresh.driver.current_url


@pytest.mark.slow
def test_fragment_cannot_lead_to_another_site(served: Served) -> None:
    code = served.ask("POST", "/api/v1/tokens/viewer/login-codes").json()["code"]
    with open_browser(served.url) as fresh:
        fresh.driver.get(f"{served.url}/login#code={code}&page=//example.org/")
        fresh.wait_for_text("firing alerts")
        assert fresh.driver.current_url == served.url + "/"


@pytest.mark.parametrize("name", every(2, PAGES))
def test_page_shows_without_problem(browser: Browser, name: str) -> None:
    browser.problems()
    browser.open(PAGES[name])
    assert browser.problems() == []
    assert browser.find("h1").text


def test_alert_shows_its_past(browser: Browser) -> None:
    browser.open(ALERT, "article")
    past = browser.text(".past")
    assert "0.75" in past
    assert "cpu=91.5 100 %" in past
    assert "host0 is <b>hot</b>" in past
    assert "done" in browser.text(".coverage")


@pytest.mark.slow
def test_norm_is_shown_where_it_belongs_to_an_attribute(browser: Browser) -> None:
    browser.open(f"/alerts/{alert_id(1)}")
    assert "normally 2.5" in browser.text(".side")
    width = "return document.querySelector(arguments[0]).getBoundingClientRect().width"
    assert browser.run(width, ".past") > 650, "the width does not depend on the content"
    browser.wait_for_text("The comparison begins when the alert fires", ".past")
    assert "Its rule has no similarity recall" not in browser.text()


def test_actions_show_their_effect(browser: Browser, served: Served) -> None:
    browser.open(f"/alerts/{alert_id(2)}")
    browser.press_button("Acknowledge", ".actions")
    browser.run(
        "const real = window.fetch; window.fetch = async (...request) => {"
        " await real(...request); window.fetch = real; return new Response('', {status: 502}); }"
    )
    browser.press_button("Acknowledge", "[role=dialog]")
    browser.wait_for_text("The server answers 502. Try again", "[role=dialog]")
    browser.press_button("Acknowledge", "[role=dialog]")
    browser.wait_for_text("Acknowledged.", ".effect")
    browser.wait_for_text("operator acknowledged 2", ".notes")  # not acknowledged acknowledged
    browser.wait_for_text("acknowledged by operator", ".alert-head")
    browser.press_button("Assign", ".actions")
    browser.find("#assignee").send_keys("ada")
    browser.press_button("Assign", "[role=dialog]")
    browser.wait_for_text("assigned to ada", ".alert-head")
    browser.press_button("Resolve", ".actions")
    browser.find("#text").send_keys("restarted it")
    browser.find("#tag").send_keys("restart")
    assert "Tag (optional)" in browser.text("[role=dialog]")
    browser.press_button("Record the resolution", "[role=dialog]")
    browser.wait_for_text("restarted it", ".notes")
    assert "resolution by operator: restart" in browser.text(".alert-head")
    notes = served.ask("GET", f"/api/v1/alerts/{alert_id(2)}").json()["notes"]
    assert [note["kind"] for note in notes] == ["ack", "assign", "resolution"]
    assert {note["author"] for note in notes} == {"operator"}


@pytest.mark.slow
def test_command_is_submitted_and_waits_for_a_recall_process(
    browser: Browser, served: Served
) -> None:
    number = 1
    served.connection.execute("UPDATE tasks SET state = 'running' WHERE id = %s", [task_id(number)])
    browser.open(f"/alerts/{alert_id(number)}")
    browser.press_button("Accelerate", ".actions")
    browser.wait_for_text("waiting for a recall process", ".effect")
    statement = "SELECT id, command FROM commands"
    command = browser.wait_for(lambda: served.connection.execute(statement).fetchone())
    assert command[1] == "accelerate"
    effect = {
        "recalls": 1,
        "chunks_left": 3,
        "seconds_before": 100.0,
        "seconds_after": 20.0,
        "unanswered": 0,
    }
    served.connection.execute(
        "UPDATE commands SET effect = %s, done_at = now() WHERE id = %s",
        [Jsonb(effect), command[0]],
    )
    browser.wait_for_text("complete in about 20 s instead of 2 min", ".effect")

    browser.press_button("Accelerate", ".actions")
    command = browser.wait_for(
        lambda: served.connection.execute(statement + " WHERE done_at IS NULL").fetchone()
    )
    served.connection.execute(
        "UPDATE commands SET effect = %s, done_at = now() WHERE id = %s",
        [Jsonb({**effect, "seconds_before": 20.0}), command[0]],
    )
    browser.wait_for_text("complete in about 20 s, no sooner than before", ".effect")

    browser.press_button("Accelerate", ".actions")
    browser.press_button("Finalize", ".actions")
    statement = "SELECT id FROM commands WHERE command = %s AND done_at IS NULL"
    finalize = partial(served.connection.execute, statement, ["finalize"])
    browser.wait_for(lambda: finalize().fetchone())
    for verb in ("finalize", "accelerate"):
        command = served.connection.execute(statement, [verb]).fetchone()
        assert command is not None
        served.connection.execute(
            "UPDATE commands SET effect = %s, done_at = now() WHERE id = %s",
            [Jsonb(effect), command[0]],
        )
        browser.wait_for_text("Finalize: 1 recall, 3 chunks unread.", ".effect")
    time.sleep(1)  # longer than the interval at which a command is polled
    assert "Finalize: 1 recall" in browser.text(".effect"), "the effect of the last command stays"
    served.connection.execute("UPDATE tasks SET state = 'done' WHERE id = %s", [task_id(number)])


def test_button_that_can_do_nothing_says_why(browser: Browser) -> None:
    browser.open(f"/alerts/{alert_id(2)}")
    buttons = browser.find_all(".recall-actions button")
    assert [button.text for button in buttons] == ["Accelerate", "Refine", "Finalize", "Cancel"]
    for button in buttons:
        assert button.get_attribute("aria-disabled") == "true"  # type: ignore[no-untyped-call]
        reason = button.get_attribute("aria-describedby")  # type: ignore[no-untyped-call]
        assert browser.text(f"#{reason}") == (
            "No recall is running: nothing to accelerate, refine, finalize or cancel."
        )


@pytest.mark.slow
def test_cancel_asks_before_it_discards_answers(browser: Browser, served: Served) -> None:
    number = 1
    statement = "UPDATE tasks SET state = %s WHERE id = %s"
    served.connection.execute(statement, ["running", task_id(number)])
    browser.open(f"/alerts/{alert_id(number)}")
    assert "Refine: no recall waits" in browser.text(".recall-reasons")
    browser.press_button("Cancel", ".actions")
    browser.wait_for_text("answers are discarded", "[role=dialog]")
    browser.press_button("Keep reading", "[role=dialog]")
    browser.wait_for(lambda: not browser.find_all("[role=dialog]"))
    row = served.connection.execute(
        "SELECT count(*) FROM commands WHERE command = 'cancel'"
    ).fetchone()
    assert row == (0,)
    served.connection.execute(statement, ["done", task_id(number)])


@pytest.mark.slow
def test_text_survives_a_server_that_is_away_and_is_stored_once(
    browser: Browser, served: Served
) -> None:
    browser.open(f"/alerts/{alert_id(4)}")
    browser.press_button("Note", ".actions")
    browser.find("#text").send_keys("written once")
    browser.set_offline(True)
    try:
        browser.press_button("Add the note", "[role=dialog]")
        browser.wait_for_text("the server does not answer", "[role=dialog]")
    finally:
        browser.set_offline(False)
    browser.press_button("Add the note", "[role=dialog]")
    browser.wait_for_text("The note is stored", ".effect")
    notes = served.ask("GET", f"/api/v1/alerts/{alert_id(4)}").json()["notes"]
    assert [note["text"] for note in notes] == ["written once"]


@pytest.mark.slow
def test_refused_action_says_that_it_is_not_allowed(browser: Browser, served: Served) -> None:
    """The role of the session's token is taken away while the page is open."""
    browser.open(f"/alerts/{alert_id(4)}")
    statement = "UPDATE tokens SET role = %s WHERE name = 'operator'"
    served.connection.execute(statement, ["viewer"])
    try:
        browser.press_button("Note", ".actions")
        browser.find("#text").send_keys("not allowed")
        browser.press_button("Add the note", "[role=dialog]")
        browser.wait_for_text("Add a note: not allowed.", "[role=dialog]")
    finally:
        served.connection.execute(statement, ["operator"])


@pytest.mark.slow
def test_missing_alert_is_said_without_its_id(browser: Browser) -> None:
    missing = alert_id(77)
    browser.open(f"/alerts/{missing}")
    browser.wait_for_text("There is no such alert", "h1")
    assert str(missing) not in browser.text()


@pytest.mark.slow
def test_phone_shows_the_past_before_the_progress_of_recalls(browser: Browser) -> None:
    browser.resize(PHONE_WIDTH)
    try:
        browser.open(ALERT, "article")
        assert browser.run(
            "const top = s => document.querySelector(s).getBoundingClientRect().top;"
            "return top('.verdict') < top('article') && top('article') < top('.coverage')"
        )
    finally:
        browser.resize(1280)


@pytest.mark.slow
def test_judgement_is_stored_and_shown_again(browser: Browser) -> None:
    browser.open(ALERT, "article")
    browser.press_button("Disagree", "article")
    browser.wait_for_text("operator disagrees", "article")
    browser.open(ALERT, "article")
    browser.wait_for_text("operator disagrees", "article")
    browser.press_button("Disagree", "article")
    browser.wait_for(lambda: "operator disagrees" not in browser.text("article"))


@pytest.mark.slow
def test_two_people_judge_the_same_hit(browser: Browser, served: Served) -> None:
    actions = "article .similar-actions"
    differ = "Opinions differ: nothing is learned from them."
    with open_browser(served.url) as other:
        other.log_in(served.tokens["admin"])
        browser.open(ALERT, "article")
        other.open(ALERT, "article")
        browser.press_button("Agree", "article")
        other.wait_for_text("operator agrees", actions)
        other.press_button("Disagree", "article")
        other.wait_for_text(differ, actions)
        browser.wait_for_text(differ, actions)
        assert JudgementGateway(served.connection).list_of_rule(RULE) == [], "people disagree"
        browser.press_button("Disagree", "article")
        browser.wait_for_text("operator disagrees", actions)
        assert differ not in browser.text(actions), "one judgement per person"
        (judgement,) = JudgementGateway(served.connection).list_of_rule(RULE)
        assert not judgement.helps
        browser.press_button("Disagree", "article")
        browser.wait_for(lambda: "operator" not in browser.text(actions))
        assert "admin disagrees" in browser.text(actions), "others' judgements stay"
        other.press_button("Disagree", "article")
        other.wait_for(lambda: "disagrees" not in other.text(actions))


def test_new_alert_and_its_end_appear_live(browser: Browser, served: Served) -> None:
    browser.open("/", ".alert-list .entry")
    assert len(browser.find_all(".alert-list .entry")) == COUNT
    # Not at the first one: the message that the live process does not run moves the list down.
    browser.point_at(".alert-list li:last-child")
    first = browser.text(".alert-list li:first-child strong")
    alert = put_alert(served, 8, "later")
    browser.wait_for_text("Show 1 new alert", ".now-head")
    assert browser.text(".alert-list li:first-child strong") == first, "the list holds still"
    browser.point_at_nothing()
    browser.wait_for_text("later", ".alert-list li:first-child")
    browser.wait_for_text("Not compared yet", ".alert-list")
    served.connection.execute(
        "UPDATE alerts SET state = 'resolved', ends_at = last_at WHERE id = %s", [alert]
    )
    browser.wait_for(lambda: len(browser.find_all(".alert-list .entry")) == COUNT)


def test_revisions_appear_live_and_in_order(browser: Browser, served: Served) -> None:
    number = 9
    put_alert(served, number, "growing")
    put_task(served.connection, number, "running")
    browser.open(f"/alerts/{alert_id(number)}")
    browser.run(
        "window.seen = []; const note = () => window.seen.push(document.querySelector('.norm')"
        "?.innerText); new MutationObserver(note).observe(document.querySelector('.side'),"
        " {subtree: true, childList: true, characterData: true})"
    )
    for revision in range(3, 8):
        put_revision(served.connection, number, revision, [{"mean": revision + 0.25}])
    browser.wait_for_text("normally 7.25", ".norm")
    seen = [text for text in browser.run("return window.seen") if text]
    means = [float(text.rpartition(" ")[2]) for text in seen]
    assert means == sorted(means)

    few = {"mean": 80.0, "sd": 20.0, "lowest": 50.0, "highest": 99.0, "samples": 4}
    put_revision(served.connection, number, 8, [few])
    browser.wait_for_text("Too little history has been read to judge.", ".norm-card")
    put_revision(served.connection, number, 9, [{**few, "samples": 40}])
    judgement = "So far: normal, 0.6 standard deviations above the mean."
    browser.wait_for_text(judgement, ".norm-card")
    bar = browser.find(".norm-bar").get_attribute("aria-label")  # type: ignore[no-untyped-call]
    assert bar == "Usual range 50 to 99, value 91.5", "only what was seen is usual"


@pytest.mark.slow
def test_forecast_says_what_an_alert_probably_is(browser: Browser, served: Served) -> None:
    forecast = {"tags": [["restart", 0.75], ["add-memory", 0.15]], "new_tag": 0.1}
    statement = "UPDATE revisions SET forecast = %s WHERE task = %s AND number = 2"
    served.connection.execute(statement, [Jsonb(forecast), task_id(SIMILAR)])
    browser.open(ALERT, ".forecast")
    lines = [item.text.replace("\n", " ") for item in browser.find_all(".forecast li")]
    assert lines == ["restart 75 %", "add-memory 15 %", "none of these 10 %"]
    browser.press_button("Resolve", ".actions")
    browser.find("#tag")
    options = "return [...document.querySelectorAll('#tags option')].map(({value}) => value)"
    assert browser.run(options) == ["restart", "add-memory"]
    browser.open("/", ".alert-list .entry")
    browser.wait_for_text("probably restart 75 %", ".alert-list")

    # Finalized after two of five chunks: the forecast stays, with what it rests on.
    forecast = {"tags": [["restart", 0.1]], "new_tag": 0.9}
    served.connection.execute(statement, [Jsonb(forecast), task_id(SIMILAR)])
    change = "UPDATE revisions SET comparable = %s, coverage = coverage || %s WHERE task = %s"
    part = Jsonb({"left": 3, "partial": True})
    served.connection.execute(change, [0.1, part, task_id(SIMILAR)])
    browser.open(ALERT, ".forecast")
    assert "Probably something new" in browser.text(".verdict")
    assert "From a part of the history: 2 of 5 chunks read" in browser.text(".verdict")
    whole = Jsonb({"left": 0, "partial": False})
    served.connection.execute(change, [None, whole, task_id(SIMILAR)])
    served.connection.execute(statement, [None, task_id(SIMILAR)])


@pytest.mark.slow
def test_resolution_is_sure_only_if_nothing_contradicts_it(
    browser: Browser, served: Served
) -> None:
    body = {"text": "restarted the service", "tag": "restart"}
    answer = served.ask("POST", f"/api/v1/alerts/{alert_id(0)}/resolve", json=body)
    assert answer.status_code == 200
    browser.open(ALERT, ".verdict")
    assert "Seen before. What fixed it: restarted the service" in browser.text(".verdict")
    browser.open("/", ".alert-list .entry")
    browser.wait_for_text("What fixed it: restarted the service", ".alert-list")
    browser.open("/history", ".alert-list .entry")
    assert "restart restarted the service" in browser.text(".alert-list")

    change = "UPDATE revisions SET coverage = coverage || %s WHERE task = %s"
    part = Jsonb({"left": 3, "partial": True, "hopeful": 2})
    served.connection.execute(change, [part, task_id(SIMILAR)])
    browser.open(ALERT, ".verdict")
    assert "The most similar, and what fixed it: restarted" in browser.text(".verdict")

    statement = "SELECT answer FROM revisions WHERE task = %s AND number = 2"
    row = served.connection.execute(statement, [task_id(SIMILAR)]).fetchone()
    assert row is not None
    (hit,) = row[0]
    other = {**hit, "past_eid": str(event_id(3)), "rank": 2, "score": 0.6}
    another = {**hit, "past_eid": str(event_id(4)), "rank": 3, "score": 0.5}
    whole = Jsonb({"left": 0, "partial": False, "hopeful": None})
    for number in (3, 4):
        body = {"text": "added memory", "tag": "add-memory"}
        served.ask("POST", f"/api/v1/alerts/{alert_id(number)}/resolve", json=body)
    served.connection.execute(change, [whole, task_id(SIMILAR)])
    replace = "UPDATE revisions SET answer = %s WHERE task = %s AND number = 2"
    served.connection.execute(replace, [Jsonb([hit, other, another]), task_id(SIMILAR)])
    browser.open(ALERT, ".verdict")
    verdict = browser.text(".verdict")
    assert "The most similar, and what fixed it: restarted the service" in verdict
    counts = "Different resolutions of the 3 similar alerts: restart 1, add-memory 2."
    assert counts in verdict
    browser.open("/", ".alert-list .entry")
    browser.wait_for_text("What fixed the most similar: restarted the service", ".alert-list")
    served.connection.execute(replace, [Jsonb([hit]), task_id(SIMILAR)])
    served.connection.execute("DELETE FROM alert_notes WHERE kind = 'resolution'")


@pytest.mark.slow
def test_charts_are_zoomed_together_and_by_keyboard(browser: Browser) -> None:
    """The server has no rows of the stream: its answer is replaced."""
    browser.open(ALERT, ".chart-span")
    browser.run(
        "const real = window.fetch; window.asked = [];"
        "window.fetch = async (url, options) => {"
        "  if (!String(url).includes('/timeline')) return real(url, options);"
        "  window.asked.push(String(url));"
        "  const ts = '2026-01-01T12:00:00Z', start = Date.parse(ts);"
        "  const times = Array.from({length: 121}, (_, i) =>"
        "    new Date(start + (i - 60) * 60000).toISOString());"
        "  const values = times.map((_, i) => i);"
        "  const series = column => ({stream: 'cpu', column, times, lowest: values, mean: values,"
        "    highest: values, rows: 121});"
        "  const body = {ts, start: times[0], end: times[120], missing: [],"
        "    series: [series('cpu'), series('other')]};"
        "  return new Response(JSON.stringify(body),"
        "    {headers: {'content-type': 'application/json'}}); }"
    )
    # By keyboard: another range is loaded.
    browser.run("document.querySelectorAll('.chart-span button')[2].focus()")
    browser.press(Keys.ENTER)
    browser.wait_for(lambda: browser.find_all(".chart canvas"))
    assert "before=21600" in browser.run("return window.asked[0]")
    browser.press_button("Show 1 more chart", ".side")
    browser.wait_for(lambda: len(browser.find_all(".chart canvas")) == 2)

    # By the pointer: a part of both charts is enlarged; the values at the pointer are shown.
    browser.drag(".chart .u-over", 0.25, 0.5)
    browser.wait_for_text("Show the whole range", ".chart-zoom")
    browser.wait_for_text(" UTC: ", ".chart-values")
    texts = [entry.text for entry in browser.find_all(".chart-values")]
    assert len(set(texts)) == 1, "both charts show the same time"
    browser.press_button("Show the whole range", ".chart-zoom")
    browser.wait_for(lambda: "Show the whole range" not in browser.text(".side"))


@pytest.mark.slow
def test_calendar_reaches_back_a_year(browser: Browser, served: Served) -> None:
    """A month is chosen of those with alerts; its days and alerts are listed."""
    alert = put_alert(served, 15, "months ago")
    row = served.connection.execute(
        "UPDATE alerts SET starts_at = now() - interval '100 days', fired_at = now() - interval"
        " '100 days', last_at = now() - interval '100 days', ends_at = now() - interval '100 days',"
        " state = 'resolved' WHERE id = %s RETURNING to_char(starts_at AT TIME ZONE 'UTC', 'YYYY-MM')",
        [alert],
    ).fetchone()
    served.connection.execute(
        "UPDATE events SET ts = now() - interval '100 days' WHERE eid = %s", [event_id(15)]
    )
    assert row is not None
    (month,) = row
    browser.open("/history", ".months button")
    names = browser.run("return [...document.querySelectorAll('.months button')].map(b => b.title)")
    (name,) = [text for text in names if text.startswith(month)]
    assert name.startswith(f"{month}: 1 alert, ")
    browser.run('document.querySelector(`.months [title="${arguments[0]}"]`).focus()', name)
    browser.press(Keys.ENTER)
    browser.wait_for_text(f"Occurrences in {month}")
    browser.wait_for_text(f"in {month}", "#results-title")
    assert f"month={month}" in browser.driver.current_url
    browser.wait_for_text("months ago", ".alert-list")
    days = browser.run(
        "return [...document.querySelectorAll('.calendar button:enabled')].map(b => b.title)"
    )
    assert all(day.startswith(month) for day in days)
    assert sum(": 1 alert" in day for day in days) == 1
    browser.press_button("All days", "main")
    browser.wait_for_text("Occurrences of the last 35 days")
    browser.open("/history?month=2026-99")
    assert "Occurrences of the last 35 days" in browser.text(), "no such month"
    served.connection.execute("DELETE FROM alerts WHERE id = %s", [alert])
    served.connection.execute("DELETE FROM events WHERE eid = %s", [event_id(15)])


@pytest.mark.slow
def test_system_shows_engine_and_load(browser: Browser, served: Served) -> None:
    ingest = {"batch": 7, "engine": "spark", "rows_per_second": 1234.5, "tasks": 4, "executors": 2}
    served.connection.execute(
        "INSERT INTO processes (role, epoch, pid, state, ingest) VALUES"
        " ('live', 1, 1, 'running', %s), ('recall', 1, 2, 'running, 1 of 2 history queries', NULL)",
        [Jsonb({**ingest, "batches": {"local": 5, "spark": 2}})],
    )
    browser.open("/system")
    expected = "batch 7 by engine spark, 1,235 rows/s, 4 tasks on 2 executors"
    browser.wait_for_text(f"Ingest: {expected} (batches: 5 local, 2 spark)")
    assert "1 of 2 history queries" in browser.text()
    served.connection.execute("DELETE FROM processes WHERE role IN ('live', 'recall')")


@pytest.mark.slow
def test_rows_of_a_stage_appear_live(browser: Browser, served: Served) -> None:
    key = ["g/r", "v", event_id(1)]
    browser.open(f"/alerts/{alert_id(1)}")
    with served.connection.transaction():
        served.connection.execute(
            "INSERT INTO recalled_events (rule, version, eid, ts, event, plan)"
            " VALUES (%s, %s, %s, now(), '{}', '{}')",
            key,
        )
        changes = [["insert", "a", {"target": "idle-host"}]]
        ts = datetime(2026, 1, 1, tzinfo=UTC).isoformat()
        stored = [(str(event_id(1)), "v", ts, *change, None) for change in changes]
        RowRevisionGateway(served.connection).append("g/r", "candidates", stored)
        row = NewStageRow(
            rule="g/r",
            version="v",
            eid=event_id(1),
            name="candidates",
            state="running",
            error=None,
            has_changed=True,
        )
        RecalledEventGateway(served.connection).put_stages([row])
    browser.wait_for_text("candidates running", ".side")
    browser.wait_for_text("idle-host", ".side")
    served.connection.execute("DELETE FROM recalled_events")


@pytest.mark.slow
def test_decision_of_history_is_shown_with_its_reason(browser: Browser, served: Served) -> None:
    alert, eid = alert_id(3), event_id(3)
    for history, reason in (("waiting", "recalls requested"), ("no_history", "no row")):
        served.connection.execute(
            "UPDATE alerts SET history = %s, history_final = %s WHERE id = %s",
            [history, history != "waiting", alert],
        )
        served.connection.execute(
            "INSERT INTO alert_history (alert_id, eid, history, final, reason)"
            " VALUES (%s, %s, %s, %s, %s)",
            [alert, eid, history, history != "waiting", reason],
        )
    browser.open(f"/alerts/{alert}")
    browser.wait_for_text("no history", ".badges")
    browser.wait_for_text("no row", ".decisions")
    decisions = browser.text(".decisions")
    assert "waiting for its history recalls requested" in decisions
    assert "no history no row final" in decisions
    browser.open("/", ".alert-list .entry")
    browser.wait_for_text("no history", ".alert-list")
    served.connection.execute(
        "UPDATE alerts SET history = NULL, history_final = false WHERE id = %s", [alert]
    )
    served.connection.execute("DELETE FROM alert_history")


@pytest.mark.slow
def test_fresh_alert_is_shown_while_it_is_provisional(browser: Browser, served: Served) -> None:
    browser.open("/", ".alert-list .entry")
    alert = put_alert(served, 13, "fresh")
    served.connection.execute("UPDATE alerts SET state = 'provisional' WHERE id = %s", [alert])
    browser.wait_for_text("fresh provisional", ".alert-list")
    browser.open("/", ".alert-list .entry")
    assert "fresh provisional" in browser.text(".alert-list")
    served.connection.execute("DELETE FROM alerts WHERE id = %s", [alert])


@pytest.mark.slow
def test_missing_live_process_is_reported(browser: Browser, served: Served) -> None:
    browser.open("/", ".alert-list .entry")
    browser.wait_for_text("The live process does not run")
    served.connection.execute(
        "INSERT INTO processes (role, epoch, pid, state) VALUES ('live', 1, 1, 'running')"
    )
    browser.wait_for(lambda: "The live process does not run" not in browser.text())
    served.connection.execute("DELETE FROM processes WHERE role = 'live'")


@pytest.mark.slow
def test_page_catches_up_after_a_restart_of_the_server(browser: Browser, served: Served) -> None:
    browser.open("/", ".alert-list .entry")
    served.process.kill()
    browser.wait_for_text("Reconnecting", ".header-tools")
    alert = put_alert(served, 10, "missed")
    served.restart()
    browser.wait_for_text("missed", ".alert-list")
    browser.wait_for_text("Connected", ".header-tools")
    served.connection.execute("DELETE FROM alerts WHERE id = %s", [alert])


@pytest.mark.slow
def test_many_tabs_are_open_and_the_one_in_front_is_up_to_date(
    browser: Browser, served: Served
) -> None:
    """A browser opens at most six connections to a server."""
    first = browser.driver.current_window_handle
    browser.open("/", ".alert-list .entry")
    try:
        for _ in range(8):
            browser.driver.switch_to.new_window("tab")
            browser.open(ALERT, "article")
            browser.wait_for_text("Connected", ".header-tools")
        alert = put_alert(served, 14, "behind the tabs")
    finally:
        for handle in browser.driver.window_handles:
            if handle != first:
                browser.driver.switch_to.window(handle)
                browser.driver.close()
        browser.driver.switch_to.window(first)
    browser.wait_for_text("behind the tabs", ".alert-list")
    served.connection.execute("DELETE FROM alerts WHERE id = %s", [alert])


@pytest.mark.slow
def test_keyboard_alone_is_enough(browser: Browser, served: Served) -> None:
    browser.open("/history", ".alert-list .entry")
    browser.press("/", *"host1", Keys.ENTER)
    browser.wait_for_text("1 alert", "#results-title")
    browser.press("g", "n")
    browser.wait_for(lambda: browser.driver.current_url == served.url + "/")
    browser.find(".alert-list .entry")
    browser.press("j", "j", "k")
    assert browser.run("return document.activeElement.matches('li:first-child .entry')")
    browser.press(Keys.ENTER)
    browser.wait_for_text("The past of this alert")
    browser.press("n")
    browser.find("#text")
    browser.wait_for(lambda: browser.run("return document.activeElement.id") == "text")
    browser.press("by keyboard g n", Keys.TAB, Keys.ENTER)
    browser.wait_for_text("by keyboard g n", ".notes")
    browser.press("?")
    browser.wait_for_text("Alert: acknowledge", "[role=dialog]")
    browser.press(Keys.ESCAPE)
    browser.wait_for(lambda: not browser.find_all("[role=dialog]"))
    browser.run("window.fetch = () => new Promise(() => undefined)")
    browser.press("a")
    browser.find("#text")
    browser.press_button("Acknowledge", "[role=dialog]")
    browser.press(Keys.ESCAPE)
    assert browser.find_all("[role=dialog]"), "a dialog stays while its content is saved"


def test_hostile_text_stays_text(browser: Browser, served: Served) -> None:
    number = 11
    put_alert(served, number, HOSTILE)
    annotations = {HOSTILE: HOSTILE, "summary": HOSTILE, "runbook_url": "javascript:attacked=1"}
    served.connection.execute(
        "UPDATE alerts SET annotations = %s, labels = %s, rule = %s WHERE id = %s",
        [
            Jsonb(annotations),
            Jsonb({HOSTILE: HOSTILE, "severity": HOSTILE}),
            "g/" + HOSTILE,
            alert_id(number),
        ],
    )
    rows = Jsonb({HOSTILE: [{HOSTILE: HOSTILE}]})
    served.connection.execute(
        "INSERT INTO contexts (rule, version, eid, ts, contexts, surroundings, settled, corpus)"
        " SELECT rule, version, eid, ts, %s, %s, true, nextval('corpus_numbers') FROM events"
        " WHERE eid = %s",
        [rows, rows, event_id(number)],
    )
    put_task(served.connection, number, "failed")
    served.connection.execute(
        "UPDATE tasks SET error = %s WHERE id = %s", [HOSTILE, task_id(number)]
    )
    put_revision(served.connection, number, 3, [{"mean": HOSTILE, HOSTILE: HOSTILE}])
    for kind in ("notes", "resolve"):
        body = {"text": HOSTILE} | ({"tag": HOSTILE} if kind == "resolve" else {})
        url = f"/api/v1/alerts/{alert_id(number)}/{kind}"
        assert served.ask("POST", url, json=body).status_code == 200
    served.connection.execute("UPDATE dead_letters SET raw = %s, detail = %s", [HOSTILE, HOSTILE])
    for path in (
        f"/alerts/{alert_id(number)}",
        "/",
        "/history",
        "/system",
        f"/history?text={HOSTILE}",
    ):
        browser.problems()
        browser.open(path)
        assert "onerror" in browser.text(), path
        assert browser.run("return window.attacked === undefined")
        assert not browser.find_all("img[src=x]")
        assert not browser.find_all("a[href^='javascript']")
    served.connection.execute("DELETE FROM alerts WHERE id = %s", [alert_id(number)])


def test_other_sites_cannot_use_the_session(browser: Browser, served: Served) -> None:
    cookies = {cookie["name"]: cookie for cookie in browser.driver.get_cookies()}
    session = cookies["moirae_session"]
    assert session["httpOnly"] and session["sameSite"] == "Strict"
    url = f"{served.url}/api/v1/alerts/{alert_id(0)}/ack"
    jar = {"moirae_session": session["value"]}
    assert httpx.post(url, json={}, cookies=jar).status_code == 403


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", every(2, PAGES))
def test_axe_has_no_serious_finding(browser: Browser, name: str, theme: str) -> None:
    browser.run("localStorage.setItem('moirae.theme', arguments[0])", theme)
    browser.open(PAGES[name])
    assert browser.serious_findings() == []
    browser.run("localStorage.removeItem('moirae.theme')")


@pytest.mark.slow
@pytest.mark.parametrize("name", every(2, PAGES))
def test_page_fits_a_phone(browser: Browser, name: str) -> None:
    browser.resize(PHONE_WIDTH)
    try:
        browser.open(PAGES[name])
        width = browser.run("return document.documentElement.scrollWidth")
        assert width <= PHONE_WIDTH
        too_wide = browser.run(
            "return [...document.querySelectorAll('main *')].filter(e => e.getBoundingClientRect()"
            ".right > innerWidth + 1 && !e.closest('svg, canvas')).map(e => e.outerHTML.slice(0, 80))"
        )
        assert too_wide == []
    finally:
        browser.resize(1280)


@pytest.mark.slow
def test_ten_thousand_alerts_stay_usable(browser: Browser, served: Served) -> None:
    """The page shows some of them, loads more on demand, and follows a storm of changes."""
    put_alerts(served, 10_000)
    firing = "SELECT count(*) FROM alerts WHERE state = 'firing' AND history IS DISTINCT FROM 'withdrawn'"
    row = served.connection.execute(firing).fetchone()
    assert row is not None
    total = f"{row[0]:,}"
    try:
        browser.open("/", ".alert-list .entry")
        browser.wait_for_text(f"{total} firing alerts", "h1")
        assert len(browser.find_all(".alert-list .entry")) == 50
        browser.press_button(f"Show more of {total}")
        browser.wait_for(lambda: len(browser.find_all(".alert-list .entry")) == 250)
        served.connection.execute(
            "UPDATE alerts SET updated_at = now(), events = 2 WHERE annotations->>'summary' LIKE 'storm 99%'"
        )
        alert = put_alert(served, 12, "after the storm")
        browser.wait_for_text("after the storm", ".alert-list")
        served.connection.execute("DELETE FROM alerts WHERE id = %s", [alert])
        browser.open("/history", ".alert-list .entry")
        browser.wait_for_text("alerts", "#results-title")
    finally:
        served.connection.execute("DELETE FROM alerts WHERE annotations->>'summary' LIKE 'storm %'")
