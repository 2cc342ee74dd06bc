"""What pages show at a glance: answers of several alerts, occurrences, figures of rules."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from moirae.server.live.status import read_live_status
from tests.api_data import COUNT, RULE, RULES, WORKSPACE, alert_id, event_id, fill
from tests.served import Served, apply_rules, serve


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serve(WORKSPACE, RULES) as running:
        fill(running.connection)
        yield running


def get(served: Served, path: str, **query: Any) -> Any:
    answer = served.ask("GET", f"/api/v1{path}", "viewer", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.slow
def test_answers_of_several_events_have_hits_without_terms(served: Served) -> None:
    similar, missing = str(event_id(COUNT - 1)), "ffffffff-0000-0000-0000-000000000000"
    entries = get(served, "/overview/answers", event=[similar, str(event_id(0)), missing, similar])
    assert [entry["eid"] for entry in entries] == [similar, str(event_id(0)), missing]
    (hit,) = entries[0]["answers"][0]["hits"]
    assert hit["rank"] == 1 and hit["score"] == 0.75
    assert hit["past"]["annotations"]["summary"] == "host0 is <b>hot</b>"
    assert hit["shared"] == [] and hit["past"]["contexts"] is None
    assert entries[0]["attributes"]["cpu"] == 91.5
    assert entries[1]["answers"][0]["rows"] == [{"mean": 2.5}]
    assert entries[2]["answers"] == [] and entries[2]["attributes"] == {}


def test_event_without_a_comparison_says_why(served: Served) -> None:
    def explain() -> str:
        answer = served.ask("GET", f"/api/v1/events/{event_id(0)}/similar", "viewer")
        assert answer.status_code == 404
        return str(answer.json()["detail"])

    assert "its rule declares none" in explain()
    apply_rules(served)
    assert "the comparison begins when its alert fires and its context is settled" in explain()
    served.connection.execute("UPDATE events SET past = true WHERE eid = %s", [event_id(0)])
    assert "was found in history" in explain()
    served.connection.execute("UPDATE events SET past = false WHERE eid = %s", [event_id(0)])
    served.connection.execute("DELETE FROM rules")


def test_occurrences_count_events_without_an_alert_that_fired(served: Served) -> None:
    served.connection.execute(
        "UPDATE alerts SET history = 'withdrawn' WHERE id = %s", [alert_id(0)]
    )
    days = (datetime.now(UTC) - datetime(2026, 1, 1, tzinfo=UTC)).days + 2
    if days > 400:
        pytest.skip("the data is older than what can be counted")
    (row,) = get(served, "/overview/occurrences", days=days, rule="r")
    expected = {"rule": RULE, "day": "2026-01-01", "events": COUNT}
    assert row == {**expected, "fired": COUNT - 1, "without_alert": 1}
    assert get(served, "/overview/occurrences", days=days, rule="none") == []
    served.connection.execute("UPDATE alerts SET history = NULL WHERE id = %s", [alert_id(0)])


def test_worth_of_a_rule_counts_what_became_of_its_alerts(served: Served) -> None:
    def report(**query: object) -> list[dict[str, Any]]:
        return get(served, "/overview/report", **query)

    execute = served.connection.execute
    execute("UPDATE alerts SET raised_at = now(), ends_at = NULL, past = false")
    execute(
        "INSERT INTO alert_notes (alert_id, kind, author, text, tag, at) VALUES "
        "(%(first)s, 'ack', 'ada', '', NULL, now() + interval '3 minutes'), "
        "(%(second)s, 'resolution', 'ada', 'restarted', 'restart', now())",
        {"first": alert_id(0), "second": alert_id(1)},
    )
    (number,) = execute(
        "INSERT INTO notifications (receiver, group_key, cause, status, content, alert_count, state) "
        "VALUES ('ops', 'k', 'first', 'firing', '{}', 3, 'delivered') RETURNING id"
    ).fetchone()
    for position in range(3):
        execute(
            "INSERT INTO notification_alerts VALUES (%s, %s, 'firing')",
            [number, alert_id(position)],
        )
    (week,) = [row for row in report() if row["alerts"]]
    assert week["rule"] == RULE
    assert (week["alerts"], week["told"], week["acknowledged"], week["tagged"]) == (COUNT, 3, 1, 1)
    assert (week["for_nothing"], week["withdrawn"], week["flapping"]) == (1, 0, 0)
    assert week["minutes_to_acknowledge"] == pytest.approx(3, abs=0.01)
    assert report(rule="none") == []


def test_judgements_of_an_event_are_listed(served: Served) -> None:
    path = f"/events/{event_id(COUNT - 1)}/judgements"
    assert get(served, path) == []
    for helps in (True, False):
        body = {"past": str(event_id(0)), "helps": helps}
        assert served.ask("POST", f"/api/v1{path}", "operator", json=body).status_code == 200
    (judgement,) = get(served, path)
    assert judgement["past_eid"] == str(event_id(0))
    assert judgement["helps"] is False and judgement["author"] == "operator"


def test_timeline_says_what_is_missing(served: Served) -> None:
    timeline = get(served, f"/events/{event_id(0)}/timeline", before=600, after=600)
    assert timeline["start"] == "2025-12-31T23:50:00Z"
    assert timeline["series"] == []
    assert [entry["stream"] for entry in timeline["missing"]] == ["cpu"]


@pytest.mark.parametrize(
    ("change", "is_active"),
    [
        ("state = 'firing'", True),
        ("state = 'provisional'", True),
        ("state = 'provisional', fired_at = NULL", False),
        ("state = 'provisional', ends_at = last_at", False),
        ("state = 'pending', fired_at = NULL", False),
        ("history = 'waiting'", True),
        ("history = 'withdrawn'", False),
        ("past = true", False),
    ],
)
def test_alerts_that_fire_now_are_active(served: Served, change: str, is_active: bool) -> None:
    """Also fresh ones: an alert is provisional until its first event is settled."""
    with served.connection.transaction():
        before = served.connection.execute(
            "SELECT state, fired_at, ends_at, history, past FROM alerts WHERE id = %s",
            [alert_id(1)],
        ).fetchone()
        served.connection.execute(f"UPDATE alerts SET {change} WHERE id = %s", [alert_id(1)])
    try:
        listed = get(served, "/alerts", active=True, count=True)
        assert (str(alert_id(1)) in [row["id"] for row in listed["alerts"]]) is is_active
        assert listed["total"] == COUNT - 1 + is_active
        overview = get(served, "/overview")
        assert (str(alert_id(1)) in [row["alert"]["id"] for row in overview]) is is_active
        status = json.loads(read_live_status(served.connection))
        assert status["active_alerts"] == COUNT - 1 + is_active
    finally:
        assert before is not None
        served.connection.execute(
            "UPDATE alerts SET state = %s, fired_at = %s, ends_at = %s, history = %s, past = %s"
            " WHERE id = %s",
            [*before, alert_id(1)],
        )
