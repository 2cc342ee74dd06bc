"""Shown forecasts are compared with resolutions; worse ones are replaced by frequencies."""

import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid5

import pytest
from psycopg import Connection
from psycopg.types.json import Jsonb

from moirae.config.settings import load_settings
from moirae.deployments.registry import RuleRegistry
from moirae.feedback.forecast_records import update_forecast_records
from moirae.live.worse_forecasts import WORSE_FORECASTS_RULE, WorseForecastsMonitor
from moirae.rules.definition import Definition
from moirae.rules.model import Group
from moirae.rules.rule_set import build_rules
from moirae.runtime import database
from sql.alerts import AlertGateway
from sql.recalls import RevisionGateway
from sql.similarity import ForecastGateway
from tests.workspaces import write_workspace

START = datetime(2026, 1, 1, tzinfo=UTC)
SPACE = UUID(int=9)
RULE = {
    "name": "g",
    "rules": [
        {
            "alert": "Slow",
            "expr": "SELECT host, ts FROM cpu",
            "key": ["host"],
            "context": {"why": {"sql": "SELECT msg FROM logs", "within": "1m"}},
            "recall": {"similar": {"similar": {"k": 5, "measure": "learned"}}},
        }
    ],
}
FORECAST = {
    "tags": [["disk", 0.9]],
    "new_tag": 0.05,
    "episodes": 40,
    "intervals": [[0.8, 0.95]],
    "new_tag_interval": [0.0, 0.1],
    "withheld": False,
    "frequencies": {
        "tags": [["disk", 0.5], ["cpu", 0.4]],
        "new_tag": 0.1,
        "intervals": [[0.3, 0.7], [0.2, 0.6]],
        "new_tag_interval": [0.0, 0.2],
    },
}


@pytest.fixture(scope="module")
def deployed() -> Iterator[tuple[Connection[Any], tuple[str, str, str]]]:
    with tempfile.TemporaryDirectory(prefix="moirae-shown-", ignore_cleanup_errors=True) as folder:
        root = Path(folder)
        root.chmod(0o755)
        write_workspace(root, "home: .moirae\nstreams: {}\n")
        connection = database.connect_database(load_settings(root / "moirae.yaml", {}), "test")
        rule = build_rules(Group.model_validate(RULE))[0]
        definition = Definition(rule, {"host": "string"}, ("host",), ("host",))
        RuleRegistry(connection).apply([definition])
        connection.execute(
            "INSERT INTO deployments (rule, version, state) VALUES (%s, %s, 'running')",
            (definition.name, definition.version),
        )
        yield connection, (definition.name, definition.version, "similar")
        connection.close()


def _add_event(connection: Connection[Any], recall: tuple[str, str, str], number: int) -> UUID:
    values = {
        "eid": uuid5(SPACE, str(number)),
        "alert": uuid5(SPACE, f"alert {number}"),
        "rule": recall[0],
        "version": recall[1],
        "ts": START + timedelta(hours=number),
    }
    connection.execute(
        "INSERT INTO events (eid, rule, version, ts, fingerprint, key, attributes, settled) VALUES"
        " (%(eid)s, %(rule)s, %(version)s, %(ts)s, 'f', '{}', '{}', true)",
        values,
    )
    connection.execute(
        "INSERT INTO alerts (id, eid, rule, version, fingerprint, key, labels, annotations, state,"
        " starts_at, last_at, events) VALUES (%(alert)s, %(eid)s, %(rule)s, %(version)s, 'f', '{}',"
        " '{}', '{}', 'resolved', %(ts)s, %(ts)s, 1)",
        values,
    )
    return uuid5(SPACE, str(number))


def _resolve(connection: Connection[Any], number: int, tag: str) -> None:
    connection.execute(
        "INSERT INTO alert_notes (alert_id, kind, author, text, tag)"
        " VALUES (%s, 'resolution', 'ops', 'done', %s)",
        (uuid5(SPACE, f"alert {number}"), tag),
    )


def _show_and_resolve(
    connection: Connection[Any], recall: tuple[str, str, str], numbers: range, tag: str
) -> None:
    """Forecasts that say "disk" with certainty, and the tag that came."""
    forecasts = ForecastGateway(connection)
    shares = {
        "tags": {"disk": [0.98, 0.5], "cpu": [0.01, 0.4], "\0": [0.0, 0.0]},
        "new_tag": [0.01, 0.1],
        "withheld": False,
    }
    for number in numbers:
        event = _add_event(connection, recall, number)
        forecasts.put_shown(recall, event, START + timedelta(hours=number), shares)
        _resolve(connection, number, tag)
        # What is computed when the resolution is known tells nothing.
        known = {"tags": {tag: [1.0, 0.5]}, "new_tag": [0.0, 0.1], "withheld": False}
        forecasts.put_shown(recall, event, START + timedelta(hours=number), known)


def _add_answer(connection: Connection[Any], recall: tuple[str, str, str], event: UUID) -> None:
    task = uuid5(SPACE, "task")
    connection.execute(
        "INSERT INTO tasks (id, rule, version, recall, eid, event, request, state, level, tickets,"
        " revision) VALUES (%s, %s, %s, %s, %s, '{}', '{\"kind\": \"similar\"}', 'done', 0, 1, 1)",
        (task, *recall, event),
    )
    connection.execute(
        "INSERT INTO revisions (task, number, final, coverage, answer, comparable, forecast)"
        " VALUES (%s, 1, true, '{}', '[]', 0.95, %s)",
        (task, Jsonb(FORECAST)),
    )


def test_worse_forecasts_raise_an_alert_and_are_replaced_until_they_are_not_worse(
    deployed: tuple[Connection[Any], tuple[str, str, str]],
) -> None:
    connection, recall = deployed
    gateway = ForecastGateway(connection)
    event = _add_event(connection, recall, 1_000)
    _add_answer(connection, recall, event)
    monitor = WorseForecastsMonitor(AlertGateway(connection), gateway)

    def read() -> tuple[float | None, Any]:
        update_forecast_records(connection)
        monitor.run_once()
        [answer] = RevisionGateway(connection).list_last_of_event(event)
        return answer.comparable, answer.forecast

    def count_alerts() -> int:
        return len(AlertGateway(connection).list_open(WORSE_FORECASTS_RULE))

    shown = {name: value for name, value in FORECAST.items() if name != "frequencies"}
    assert read() == (0.95, shown)
    [record] = gateway.list_records()
    assert record.episodes == 0 and record.reason is None

    _show_and_resolve(connection, recall, range(25), "cpu")
    comparable, forecast = read()
    [record] = gateway.list_records()
    assert record.episodes == 25
    assert record.excess_low is not None and record.excess_low > 0
    assert forecast["by"] == "frequencies"
    assert forecast["reason"] == record.reason == gateway.get_reason(recall)
    assert forecast["tags"] == [["disk", 0.5], ["cpu", 0.4]]
    assert comparable == pytest.approx(0.9)
    assert count_alerts() == 1
    worse_since = record.worse_since
    read()
    [record] = gateway.list_records()
    assert record.worse_since == worse_since
    assert count_alerts() == 1

    _show_and_resolve(connection, recall, range(30, 90), "disk")
    assert read() == (0.95, shown)
    [record] = gateway.list_records()
    assert record.episodes == 50 and record.reason is None
    assert count_alerts() == 0


def test_only_newest_forecasts_and_desired_recalls_are_kept(
    deployed: tuple[Connection[Any], tuple[str, str, str]],
) -> None:
    connection, recall = deployed
    gateway = ForecastGateway(connection)
    _show_and_resolve(connection, recall, range(100, 120), "disk")
    gateway.delete_oldest(recall, 10)
    assert len(gateway.list_resolved(recall)) == 10
    gateway.delete_other_records([(recall[0], recall[1], "other")])
    assert gateway.list_records() == []
