"""Where the user sees what was lost before it was read, and which topics cannot be read."""

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

import sql
from moirae.cli import app
from moirae.config.settings import Settings, load_settings_from_environment
from moirae.errors import NotFound
from moirae.inspect.doctor import run_checks
from moirae.inspect.status import collect_status, find_drain_problems
from moirae.live.lost_input import LOST_INPUT_RULE, LostInputMonitor
from moirae.runtime import connect_database
from moirae.runtime.storage import open_storage
from moirae.server.readiness import list_readiness_problems
from moirae.server.routes.metrics import collect_metrics
from sql.alerts import AlertGateway
from sql.topics import LostRecordsGateway, SourceErrorGateway
from tests.workspaces import workspace

WORKSPACE = """
home: .moirae
streams:
  x:
    columns: {ts: timestamp}
    time: ts
    source: {kafka: {servers: "localhost:1", topic: t}}
"""
AWAY = "the Kafka brokers localhost:1 do not answer"


@pytest.fixture(scope="module")
def root() -> Iterator[Path]:
    with workspace(WORKSPACE, "groups: []\n") as folder:
        yield folder


@pytest.fixture
def settings(root: Path) -> Settings:
    return load_settings_from_environment(root / "moirae.yaml")


@pytest.fixture
def connection(settings: Settings) -> Iterator[sql.Connection]:
    """Two ranges are lost."""
    with connect_database(settings, "tests") as connection:
        connection.execute("TRUNCATE lost_records, source_errors, audit, alerts CASCADE")
        gateway = LostRecordsGateway(connection)
        for first, last in ((100, 149), (400, None)):
            gateway.insert(
                "x",
                topic="t",
                partition="0",
                first_offset=first,
                last_offset=last,
                reason="deleted" if last else "recreated",
            )
        yield connection


def _run(root: Path, *arguments: str) -> tuple[int, str]:
    command = [*arguments, "--workspace", str(root / "moirae.yaml")]
    result = CliRunner().invoke(app, command)
    return result.exit_code, result.output


def _run_json(root: Path, *arguments: str) -> tuple[int, Any]:
    code, text = _run(root, *arguments, "-o", "json")
    return code, json.loads(text)


def test_losses_are_a_problem_until_they_are_acknowledged(
    root: Path, settings: Settings, connection: sql.Connection
) -> None:
    def find_losses() -> list[str]:
        (finding,) = [
            finding
            for finding in run_checks(settings, connection)
            if finding.check == "x: losses of unread records are acknowledged"
        ]
        assert finding.summary == "50 records known to be lost"
        return list(finding.problems)

    code, status = _run_json(root, "status")
    assert code == 1
    deleted, recreated = status["problems"]
    assert deleted.startswith(
        "stream x: topic t deleted records before they were read: partition 0 offsets 100 to 149"
    )
    assert "partition 0 from offset 400 on" in recreated
    assert find_drain_problems(status) == status["problems"]
    assert len(find_losses()) == 2

    code, text = _run(root, "streams", "acknowledge", "x")
    assert (code, text) == (0, "2 losses of stream x acknowledged\n")
    code, status = _run_json(root, "status")
    assert (code, status["problems"], status["lost_records"]) == (0, [], [])
    assert find_losses() == []
    code, losses = _run_json(root, "streams", "losses")
    assert [(loss["first_offset"], loss["last_offset"]) for loss in losses] == [
        (400, None),
        (100, 149),
    ]
    code, text = _run(root, "streams", "losses", "x")
    assert code == 0
    assert "unknown" in text
    code, changes = _run_json(root, "audit")
    assert [change["operation"] for change in changes] == ["lost_records.acknowledge_losses"]


def test_stream_without_losses_is_acknowledged_and_an_unknown_one_is_refused(
    root: Path, connection: sql.Connection
) -> None:
    _run(root, "streams", "acknowledge", "x")
    assert _run(root, "streams", "acknowledge", "x") == (0, "0 losses of stream x acknowledged\n")
    for command in (["acknowledge", "y"], ["losses", "y"]):
        arguments = ["streams", *command, "--workspace", str(root / "moirae.yaml")]
        with pytest.raises(NotFound):
            CliRunner().invoke(app, arguments, catch_exceptions=False)


def test_alert_fires_until_the_losses_are_acknowledged(
    root: Path, connection: sql.Connection
) -> None:
    monitor = LostInputMonitor(AlertGateway(connection), LostRecordsGateway(connection))
    monitor.run_once()
    monitor.run_once()
    rows = "SELECT state, key FROM alerts WHERE rule = %s"
    assert connection.execute(rows, [LOST_INPUT_RULE]).fetchall() == [("firing", {"stream": "x"})]
    _run(root, "streams", "acknowledge", "x")
    monitor.run_once()
    assert connection.execute(rows, [LOST_INPUT_RULE]).fetchall() == [("resolved", {"stream": "x"})]


def test_brokers_that_are_away_are_a_problem_and_the_server_is_not_ready(
    root: Path, settings: Settings, connection: sql.Connection
) -> None:
    def list_problems() -> list[str]:
        pool: Any = SimpleNamespace(connection=lambda: connect_database(settings, "tests"))
        handler: Any = SimpleNamespace(disk_is_full=lambda: False)
        return list_readiness_problems(pool, handler)

    connection.execute("TRUNCATE lost_records")
    gateway = SourceErrorGateway(connection)
    gateway.put("x", "away", AWAY)
    (since,) = [row.since for row in gateway.list_all()]
    gateway.put("x", "away", f"{AWAY}!")
    assert [(row.error, row.since) for row in gateway.list_all()] == [(f"{AWAY}!", since)]
    code, status = _run_json(root, "status")
    assert code == 1
    assert any(AWAY in problem for problem in status["problems"])
    assert any(AWAY in problem for problem in list_problems())
    status = collect_status(connection, open_storage(settings))
    assert any(AWAY in problem for problem in find_drain_problems(status))
    gateway.put("x", "missing", "topic t does not exist")
    assert not any("topic t" in problem for problem in list_problems())
    gateway.delete_others(["x"])
    assert len(gateway.list_all()) == 1
    gateway.delete_others([])
    assert gateway.list_all() == []


def test_metrics_count_losses_and_topics_that_cannot_be_read(connection: sql.Connection) -> None:
    SourceErrorGateway(connection).put("x", "away", AWAY)
    values = {
        (sample.name, sample.labels.get("reason")): sample.value
        for metric in collect_metrics(connection)
        for sample in metric.samples
        if sample.labels.get("stream") == "x"
    }
    assert values["moirae_topic_unreadable", "away"] == 1
    assert values["moirae_lost_records_total", "deleted"] == 50
    assert values["moirae_lost_records_total", "recreated"] == 0
    assert values["moirae_unacknowledged_losses", "recreated"] == 1
    SourceErrorGateway(connection).delete("x")
