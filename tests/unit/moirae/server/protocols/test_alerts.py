"""Bodies of `/api/v2/alerts`."""

import tracemalloc
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from moirae.errors import RequestRejected
from moirae.server.protocols.alerts import convert_alerts

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def _convert(*alerts: Any) -> tuple[list[dict[str, Any]], list[str]]:
    rows = convert_alerts(orjson.dumps(alerts), NOW)
    return list(map(orjson.loads, rows.lines.splitlines())), rows.errors


def test_alert_of_prometheus_becomes_a_row() -> None:
    (row,), errors = _convert(
        {
            "labels": {"job": "node", "alertname": "Up", "empty": ""},
            "annotations": {"summary": "é"},
            "startsAt": "2026-01-02T03:00:00.123456789Z",
            "endsAt": "2026-01-02T04:08:05+01:00",
            "generatorURL": "http://prometheus/graph",
        }
    )
    assert errors == []
    assert row.pop("digest")
    assert row == {
        "ts": "2026-01-02T03:04:05Z",
        "alertname": "Up",
        "labels": '{"alertname":"Up","job":"node"}',
        "starts_at": "2026-01-02T03:00:00.123456Z",
        "ends_at": "2026-01-02T03:08:05Z",
        "annotations": '{"summary":"é"}',
        "generator_url": "http://prometheus/graph",
    }


@pytest.mark.parametrize("start", [{}, {"startsAt": ""}, {"startsAt": "0001-01-01T00:00:00Z"}])
def test_missing_start_is_the_time_of_the_post(start: dict[str, str]) -> None:
    (row,), _ = _convert({"labels": {"a": "b"}, **start})
    assert (row["starts_at"], row["ends_at"], row["alertname"]) == (row["ts"], None, "")


@pytest.mark.parametrize(
    "alert",
    [
        7,
        {},
        {"labels": {"a": ""}},
        {"labels": ["a"]},
        {"labels": {"a": 1}},
        {"labels": {"": "x"}},
        {"labels": {"a\0": "x"}},
        {"labels": {"x" * 257: "x"}},
        {"labels": {"a": "x" * 200_000}},
        {"labels": {str(number): "x" for number in range(201)}},
        {"labels": {"a": "b"}, "annotations": {"s": None}},
        {"labels": {"a": "b"}, "startsAt": "yesterday"},
        {"labels": {"a": "b"}, "startsAt": "2026-01-02"},
        {"labels": {"a": "b"}, "startsAt": 12},
        {"labels": {"a": "b"}, "startsAt": "0001-01-01T00:00:00+14:00"},
        {
            "labels": {"a": "b"},
            "startsAt": "2026-01-02T00:00:00Z",
            "endsAt": "2026-01-01T00:00:00Z",
        },
        {"labels": {"a": "b"}, "generatorURL": []},
    ],
)
def test_invalid_alert_is_refused_and_others_are_not(alert: Any) -> None:
    rows, errors = _convert({"labels": {"ok": "1"}}, alert)
    assert [row["labels"] for row in rows] == ['{"ok":"1"}']
    assert len(errors) == 1
    assert errors[0].startswith("alert 1: ")
    assert len(errors[0]) < 500


def _notify(*alerts: Any) -> tuple[list[dict[str, Any]], list[str]]:
    """The rows of a notification of Alertmanager's webhook."""
    body = {"version": "4", "status": "firing", "truncatedAlerts": 0, "alerts": alerts}
    rows = convert_alerts(orjson.dumps(body), NOW)
    return list(map(orjson.loads, rows.lines.splitlines())), rows.errors


def test_notified_alert_fires_until_it_is_resolved() -> None:
    alert = {"labels": {"alertname": "Up"}, "startsAt": "2026-01-02T03:00:00Z"}
    (firing, resolved, undated), errors = _notify(
        {**alert, "status": "firing", "endsAt": "0001-01-01T00:00:00Z"},
        {**alert, "status": "resolved", "endsAt": "2026-01-02T03:04:00Z"},
        {**alert, "status": "resolved", "endsAt": "0001-01-01T00:00:00Z"},
    )
    assert not errors
    assert {row["starts_at"] for row in (firing, resolved, undated)} == {"2026-01-02T03:00:00Z"}
    assert firing["ends_at"] == "2026-01-03T03:04:05Z"
    assert resolved["ends_at"] == "2026-01-02T03:04:00Z"
    assert undated["ends_at"] == undated["ts"]


@pytest.mark.parametrize("alert", [7, {"labels": {"a": "b"}}, {"labels": {"a": "b"}, "status": 1}])
def test_notified_alert_without_a_status_is_refused_and_others_are_not(alert: Any) -> None:
    rows, errors = _notify(alert, {"labels": {"ok": "1"}, "status": "firing"})
    assert [row["labels"] for row in rows] == ['{"ok":"1"}']
    assert len(errors) == 1 and errors[0].startswith("alert 0: ")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"{}",
        b'{"alerts":{}}',
        b'{"alerts":null}',
        b"null",
        b'"a"',
        b"[" * 100_000,
        b'[{"labels":{"a":"\xff"}}]',
    ],
)
def test_body_that_is_no_list_is_refused(body: bytes) -> None:
    with pytest.raises(RequestRejected) as rejected:
        convert_alerts(body, NOW)
    assert rejected.value.status == 400


@pytest.mark.slow
def test_million_labels_take_little_memory() -> None:
    labels = ",".join(f'"l{number}":"x"' for number in range(400_000))
    body = f'[{{"labels":{{{labels}}}}}]'.encode()
    tracemalloc.start()
    rows = convert_alerts(body, NOW)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert rows.errors == ["alert 0: too many labels: limit 200"]
    assert peak < 40 * len(body)
