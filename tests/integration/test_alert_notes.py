"""Notes of alerts: the demo records them like an operator."""

import json
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from psycopg import Connection
from typer.testing import CliRunner

from moirae.alerts.notes import add_note
from moirae.cli import app
from moirae.config.settings import load_settings
from moirae.demo.failures import SimulatedFailure
from moirae.demo.resolutions import RULES_BY_KIND, record_resolutions
from moirae.errors import UsageError
from moirae.runtime import database
from sql.alerts import AlertNoteGateway, NewAlertNote
from tests.workspaces import write_workspace

START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def workspace() -> Iterator[tuple[Path, Connection[Any]]]:
    # The database server ends, and writes, a moment after its last connection.
    with tempfile.TemporaryDirectory(prefix="moirae-notes-", ignore_cleanup_errors=True) as folder:
        root = Path(folder)
        root.chmod(0o755)
        write_workspace(root, "home: .moirae\nstreams: {}\n")
        connection = database.connect_database(load_settings(root / "moirae.yaml", {}), "test")
        yield root / "moirae.yaml", connection
        connection.close()


@pytest.fixture
def connection(workspace: tuple[Path, Connection[Any]]) -> Iterator[Connection[Any]]:
    yield workspace[1]
    workspace[1].execute("DELETE FROM alerts")


def add_alert(connection: Connection[Any], number: int, host: str, at: datetime, rule: str) -> UUID:
    alert_id = UUID(int=number << 96)
    connection.execute(
        "INSERT INTO alerts (id, eid, rule, version, fingerprint, key, labels, annotations, "
        "state, starts_at, last_at,"
        " events) "
        "VALUES (%s, %s, %s, 'v', %s, jsonb_build_object('host', %s::text), '{}', '{}', "
        "'resolved', %s, %s, 1)",
        (alert_id, UUID(int=number), rule, host, host, at, at),
    )
    return alert_id


def shown_notes(workspace: tuple[Path, Connection[Any]], alert_id: UUID) -> list[dict[str, Any]]:
    arguments = ["alerts", "show", str(alert_id), "-o", "json", "--workspace", str(workspace[0])]
    notes: list[dict[str, Any]] = json.loads(
        CliRunner().invoke(app, arguments, catch_exceptions=False).stdout
    )["notes"]
    return notes


def failure(host: str, hours: int, resolution: str) -> SimulatedFailure:
    starts = START + timedelta(hours=hours)
    return SimulatedFailure(
        "f",
        "overload",
        "key-sweep",
        host,
        starts,
        starts + timedelta(minutes=30),
        resolution,
        "ada",
    )


def test_demo_records_resolutions_like_an_operator(
    workspace: tuple[Path, Connection[Any]], connection: Connection[Any]
) -> None:
    rule = RULES_BY_KIND["overload"]
    by_demo = add_alert(connection, 1, "n1", START + timedelta(minutes=5), rule)
    by_operator = add_alert(connection, 2, "n2", START, rule)
    assert record_resolutions(connection, (failure("n1", 0, "Lowered it."),)) == 1
    resolve = [
        "alerts",
        "resolve",
        str(by_operator),
        "Lowered it.",
        "--tag",
        "lower-priority",
        "--author",
        "ada",
    ]
    CliRunner().invoke(app, [*resolve, "--workspace", str(workspace[0])], catch_exceptions=False)
    (one,), (other,) = shown_notes(workspace, by_demo), shown_notes(workspace, by_operator)
    compared = ("kind", "author", "text", "tag")
    assert [one[name] for name in compared] == [other[name] for name in compared]
    assert [one[name] for name in compared] == [
        "resolution",
        "ada",
        "Lowered it.",
        "lower-priority",
    ]


def test_demo_resolves_only_the_first_alert_of_a_failure(connection: Connection[Any]) -> None:
    rule = RULES_BY_KIND["overload"]
    alerts = [
        add_alert(connection, 1, "n1", START - timedelta(minutes=1), rule),
        add_alert(connection, 2, "n1", START + timedelta(minutes=40), rule),
        add_alert(connection, 3, "n1", START + timedelta(minutes=20), rule),
        add_alert(connection, 4, "n2", START + timedelta(minutes=10), rule),
        add_alert(connection, 5, "n1", START + timedelta(minutes=10), RULES_BY_KIND["memory"]),
    ]
    failures = (
        failure("n1", 0, "Lowered it."),
        failure("n2", 0, ""),
        failure("n3", 0, "Not detected."),
    )
    assert record_resolutions(connection, failures) == 1
    notes = AlertNoteGateway(connection).list_by_alerts(alerts)
    assert [note.alert_id for note in notes] == [alerts[2]]


@pytest.mark.parametrize("text", ["", " \n"])
def test_note_without_text_is_rejected(connection: Connection[Any], text: str) -> None:
    alert_id = add_alert(connection, 1, "n1", START, "g/r")
    with pytest.raises(UsageError, match="the text of the note must not be empty"):
        add_note(connection, alert_id, NewAlertNote(kind="note", text=text, author="ada"))
    assert AlertNoteGateway(connection).list_by_alerts([alert_id]) == []
