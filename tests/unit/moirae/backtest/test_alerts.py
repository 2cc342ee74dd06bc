"""Alerts of back-tests: their labels, versions and incidents."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import pytest

from moirae.alerts.alerting_rule import AlertingRule
from moirae.alerts.event import Event
from moirae.alerts.folding import fold_alerts
from moirae.alerts.lifecycle import AlertTiming
from moirae.backtest.alerts import BacktestAlert, make_backtest_alert
from moirae.backtest.reports.incidents import find_caught, read_incidents
from moirae.errors import ProblemsError

START = datetime(2026, 1, 1, tzinfo=UTC)


def make_alert(minute: int, host: str = "a", hidden: bool = False) -> BacktestAlert:
    moment = START + timedelta(minutes=minute)
    return BacktestAlert(
        id=UUID(int=minute),
        eid=UUID(int=minute),
        rule="g/r",
        state="resolved",
        labels={"alertname": "r", "host": host},
        annotations={},
        attributes={},
        starts_at=moment,
        fired_at=moment,
        last_at=moment,
        ends_at=moment + timedelta(minutes=5),
        events=1,
        is_hidden=hidden,
    )


def test_alert_has_the_labels_that_receivers_get_and_its_state_at_the_end() -> None:
    rule = AlertingRule("g/r", "v", AlertTiming(0, 10), {"alertname": "r"}, lambda event: {})
    events = [Event(UUID(int=ts), ts, {"host": "a"}, "a", {"host": "a"}) for ts in (1, 50)]
    alerts = [
        make_backtest_alert(rule, alert.first_event, alert.lifetime)
        for alert in fold_alerts(events, rule.timing, 55)
    ]
    assert [(alert.state, alert.labels["host"]) for alert in alerts] == [
        ("resolved", "a"),
        ("firing", "a"),
    ]


INCIDENTS = """id,starts_at,ends_at,host
one,2026-01-01T00:03:00Z,2026-01-01T00:20:00Z,a
two,2026-01-01T00:03:00Z,2026-01-01T00:20:00Z,b
three,2026-01-01 01:00,2026-01-01 02:00,
"""


def test_incidents_are_caught_by_alerts_that_overlap_and_have_their_labels(tmp_path: Path) -> None:
    path = tmp_path / "incidents.csv"
    path.write_text(INCIDENTS)
    alerts = [make_alert(0), make_alert(10), make_alert(63, "c"), make_alert(500)]
    report = find_caught(read_incidents(path), alerts)
    caught = [
        (row.incident.id, len(row.alerts), row.delay.total_seconds()) for row in report.caught
    ]
    assert caught == [("one", 2, -180.0), ("three", 1, 180.0)]
    assert report.caught[0].lead == timedelta(minutes=20)
    assert [incident.id for incident in report.missed] == ["two"]
    assert report.false_alerts == [alerts[3]]


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("i.csv", "id,starts_at,ends_at\na,soon,later\n", "i.csv:2: starts_at is not a time"),
        (
            "i.csv",
            "id;starts_at;ends_at\na;2026-01-01;2026-01-02\n",
            "i.csv:1: no column id; columns are: id;starts_at;ends_at",
        ),
        ("i.jsonl", '{"id": 1}\n', "i.jsonl:1: starts_at is not a time"),
        ("i.jsonl", "\n[]\n", "i.jsonl:2: is not a JSON object"),
        ("i.csv", "id,starts_at,ends_at\n", "i.csv:1: has no incidents"),
        ("i.jsonl", "", "i.jsonl:1: has no incidents"),
        (
            "i.csv",
            "id,starts_at,ends_at\na,2026-01-01,2026-01-02\nb,2026-01-01,2026-01-02\n"
            "a,2026-02-01,2026-02-02\n",
            "i.csv:4: duplicate id 'a', first in line 2",
        ),
        (
            "i.jsonl",
            '{"id": 1, "starts_at": "2026-01-02", "ends_at": "2026-01-01"}\n',
            "i.jsonl:1: ends_at is before starts_at",
        ),
    ],
)
def test_invalid_incidents_are_refused_with_their_line(
    tmp_path: Path, name: str, text: str, problem: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ProblemsError) as caught:
        read_incidents(tmp_path / name)
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("i.csv", '\ufeffid, starts_at, ends_at, text\r\n"a", {0}, {0}, "x\n\u2028""y"""\r\n'),
        (
            "i.jsonl",
            '\ufeff{{"id": "a", "starts_at": "{0}", "ends_at": "{0}", "text": "x\\n\u2028\\"y\\""}}\n',
        ),
    ],
)
def test_incidents_keep_zones_and_line_ends_of_their_texts(
    tmp_path: Path, name: str, text: str
) -> None:
    path = tmp_path / name
    path.write_text(text.format("2026-03-05T09:00:00+05:30"), newline="")
    (incident,) = read_incidents(path)
    assert incident.starts_at == datetime(2026, 3, 5, 3, 30, tzinfo=UTC)
    assert incident.labels == {"text": 'x\n\u2028"y"'}
