"""`moirae set-aside`, and where else the user sees what is set aside."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import sql
from archiver.ingest import Counters
from moirae.cli import app
from moirae.config.settings import Settings, load_settings_from_environment
from moirae.errors import NotFound, UsageError
from moirae.inspect.doctor import run_checks
from moirae.inspect.status import collect_status, find_drain_problems
from moirae.live.set_aside import SetAside
from moirae.runtime import connect_database
from moirae.runtime.storage import open_storage
from moirae.server.routes.metrics import collect_metrics
from sql.archive import FinishedUnitRow, SetAsideGateway, Subject, UnitGateway
from tests.workspaces import workspace

WORKSPACE = """
home: .moirae
streams:
  m: {columns: {ts: timestamp}, time: ts, source: {files: m/*.jsonl}}
"""
FILE = Subject("file", "m/a.jsonl", "m")
RELATION = Subject("relation", "hosts")
START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def root() -> Iterator[Path]:
    with workspace(WORKSPACE, "groups: []\n") as folder:
        yield folder


@pytest.fixture
def settings(root: Path) -> Settings:
    return load_settings_from_environment(root / "moirae.yaml")


@pytest.fixture
def connection(settings: Settings) -> Iterator[sql.Connection]:
    """A file is set aside, and a relation has failed once."""
    with connect_database(settings, "tests") as connection:
        connection.execute("TRUNCATE set_aside, units CASCADE")
        set_aside = SetAside(SetAsideGateway(connection))
        for seconds in (0, 30, 60):
            now = START + timedelta(seconds=seconds)
            set_aside.record_failure(FILE, "ArrowInvalid: broken\nmore", "1", now)
        set_aside.record_failure(RELATION, "cannot be parsed", "1", START)
        yield connection


def _run(root: Path, *arguments: str) -> tuple[int, str]:
    command = [*arguments, "--workspace", str(root / "moirae.yaml")]
    result = CliRunner().invoke(app, command)
    return result.exit_code, result.output


def _run_json(root: Path, *arguments: str) -> tuple[int, Any]:
    code, text = _run(root, *arguments, "-o", "json")
    return code, json.loads(text)


def test_status_names_what_is_set_aside_with_its_reason(
    root: Path, connection: sql.Connection
) -> None:
    code, status = _run_json(root, "status")
    assert code == 1
    (problem,) = status["problems"]
    assert problem == (
        "set aside after 3 tries: file m/a.jsonl of stream m: ArrowInvalid: broken: "
        "correct it, or run `moirae set-aside retry`"
    )
    (subject,) = status["set_aside"]
    assert (subject["name"], subject["tries"]) == ("m/a.jsonl", 3)
    (retrying,) = status["retrying"]
    assert (retrying["kind"], retrying["name"]) == ("relation", "hosts")
    code, text = _run(root, "status")
    assert text.startswith(f"PROBLEM: {problem}")


def test_doctor_metrics_and_drain_count_what_is_set_aside(
    settings: Settings, connection: sql.Connection
) -> None:
    (finding,) = [
        finding
        for finding in run_checks(settings, connection)
        if finding.check == "nothing is set aside"
    ]
    assert finding.problems == ["file m/a.jsonl of stream m: ArrowInvalid: broken\nmore"]
    (metric,) = [
        metric for metric in collect_metrics(connection) if metric.name == "moirae_set_aside"
    ]
    values = {sample.labels["kind"]: sample.value for sample in metric.samples}
    assert values == {"file": 1, "stream": 0, "relation": 0, "rule": 0, "topic": 0}
    status = collect_status(connection, open_storage(settings))
    (problem,) = find_drain_problems(status)
    assert "file m/a.jsonl of stream m" in problem
    assert "and 1 more" in problem


def test_list_shows_what_is_set_aside_and_what_is_tried_again(
    root: Path, connection: sql.Connection
) -> None:
    code, text = _run(root, "set-aside", "list")
    assert code == 0
    assert "set aside" in text
    assert "tried again" in text
    code, subjects = _run_json(root, "set-aside", "list")
    assert [subject["is_set_aside"] for subject in subjects] == [True, False]


def test_retry_is_queued_without_a_live_process(root: Path, connection: sql.Connection) -> None:
    code, text = _run(root, "set-aside", "retry", "m/a.jsonl")
    assert code == 0
    assert text == "file m/a.jsonl of stream m: queued, it is read while `moirae up` runs\n"
    assert [row.retry_requested for row in SetAsideGateway(connection).list_all()] == [True, False]


def test_retry_needs_a_selection_that_something_matches(
    root: Path, connection: sql.Connection
) -> None:
    for arguments, error in (((), UsageError), (("m/b.jsonl",), NotFound)):
        command = ["set-aside", "retry", *arguments, "--workspace", str(root / "moirae.yaml")]
        with pytest.raises(error):
            CliRunner().invoke(app, command, catch_exceptions=False)
    assert not any(row.retry_requested for row in SetAsideGateway(connection).list_all())


def test_outcome_of_a_retry_names_the_late_rows(root: Path, connection: sql.Connection) -> None:
    from moirae.services.operations.set_aside import SetAsideSubjects, show_retries
    from moirae.services.workspace import LocalWorkspace

    settings = load_settings_from_environment(root / "moirae.yaml")
    SetAsideGateway(connection).delete(FILE)
    units = UnitGateway(connection)
    connection.execute("INSERT INTO streams VALUES ('m') ON CONFLICT DO NOTHING")
    unit = units.open("m", "m/a.jsonl", clock=START)
    counters = vars(Counters(read=5, archived=5, late=2))
    units.finish([FinishedUnitRow(unit.id, counters, newest=START)])
    workspace = LocalWorkspace(settings=settings, connection=connection, author="a", via="cli")
    body = SetAsideSubjects.model_validate(
        {"subjects": [{"kind": "file", "name": "m/a.jsonl", "stream": "m"}]}
    )
    (outcome,) = show_retries(workspace, body).outcomes
    assert (outcome.state, outcome.records, outcome.late) == ("read", 5, 2)
