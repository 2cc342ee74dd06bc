"""Ends of processes are stored by `moirae up` and by successors, and shown by status and probes."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import pytest
from typer.testing import CliRunner

import sql
from moirae.cli import app
from moirae.config.settings import Settings, load_settings_from_environment
from moirae.inspect import collect_state
from moirae.runtime import Role, connect_database, record_failure
from moirae.runtime.supervisor import ChildExit, ExitRecorder
from moirae.server.routes.metrics import collect_metrics
from sql.archive import UnreadInputGateway
from sql.processes import ProcessExitGateway, ProcessExitRow
from tests.workspaces import workspace

WORKSPACE = """
home: .moirae
streams:
  m: {columns: {ts: timestamp}, time: ts, source: {files: m/*.jsonl}}
"""

_PIDS = count(100_000)


@pytest.fixture(scope="module")
def root() -> Iterator[Path]:
    with workspace(WORKSPACE, "groups: []\n") as folder:
        yield folder


@pytest.fixture
def settings(root: Path) -> Settings:
    return load_settings_from_environment(root / "moirae.yaml")


@pytest.fixture
def connection(settings: Settings) -> Iterator[sql.Connection]:
    with connect_database(settings, "tests") as connection:
        connection.execute("TRUNCATE processes, process_exits")
        yield connection


def _list_exits(connection: sql.Connection) -> list[ProcessExitRow]:
    since = datetime.now(UTC) - timedelta(hours=1)
    return ProcessExitGateway(connection).list_recent(since)


def _run_process(settings: Settings, error: Exception | None, *, role: str = "live") -> int:
    """A process that takes its role and ends by an error, or is killed; returns its ID."""
    with connect_database(settings, "tests") as connection:
        taken = Role(connection, role, 5.0)
        taken.heartbeat("running")
        if error is not None:
            with pytest.raises(type(error)), record_failure(taken):
                raise error
        pid = next(_PIDS)  # all are of this process
        connection.execute("UPDATE processes SET pid = %s WHERE role = %s", (pid, role))
    return pid


def _child_exit(pid: int, code: int, name: str = "live") -> ChildExit:
    return ChildExit(
        name=name, pid=pid, age=timedelta(seconds=5), ended_at=datetime.now(UTC), code=code
    )


def _status(root: Path) -> tuple[int, dict[str, object]]:
    command = ["status", "-o", "json", "--workspace", str(root / "moirae.yaml")]
    result = CliRunner().invoke(app, command)
    return result.exit_code, json.loads(result.stdout)


def test_any_error_of_a_process_is_stored_with_its_exit_code(
    settings: Settings, connection: sql.Connection
) -> None:
    recorder = ExitRecorder()
    recorder.add(_child_exit(_run_process(settings, ValueError("broken\nmore")), 70))
    recorder.store(connection)
    _run_process(settings, None)  # its successor finds that the end is stored
    (process_exit,) = _list_exits(connection)
    assert (process_exit.role, process_exit.epoch, process_exit.exit_code) == ("live", 1, 70)
    assert process_exit.error == "ValueError: broken"


def test_successor_stores_an_end_that_nobody_saw(
    settings: Settings, connection: sql.Connection
) -> None:
    pid = _run_process(settings, None)  # killed
    _run_process(settings, None)
    (process_exit,) = _list_exits(connection)
    assert (process_exit.exit_code, process_exit.signal, process_exit.error) == (None, None, None)
    recorder = ExitRecorder()  # `moirae up` could not reach the database before
    recorder.add(_child_exit(pid, -9))
    recorder.store(connection)
    (process_exit,) = _list_exits(connection)
    assert (process_exit.epoch, process_exit.signal) == (1, 9)


def test_process_that_ends_in_order_leaves_no_exit(
    settings: Settings, connection: sql.Connection
) -> None:
    with connect_database(settings, "tests") as other:
        Role(other, "live", 5.0).heartbeat("ended")
    _run_process(settings, None)
    assert _list_exits(connection) == []


def test_end_before_a_role_was_taken_is_stored(connection: sql.Connection) -> None:
    recorder = ExitRecorder()
    recorder.add(_child_exit(999_999, 1, "recall"))
    recorder.store(connection)
    (process_exit,) = _list_exits(connection)
    assert (process_exit.role, process_exit.epoch, process_exit.exit_code) == ("recall", None, 1)


def test_numbered_process_is_found_by_its_id(
    settings: Settings, connection: sql.Connection
) -> None:
    recorder = ExitRecorder()
    recorder.add(_child_exit(_run_process(settings, None, role="recall 2"), -11, "recall"))
    recorder.store(connection)
    (process_exit,) = _list_exits(connection)
    assert (process_exit.role, process_exit.signal) == ("recall 2", 11)


def test_processes_killed_at_the_end_of_a_stop_have_ended_in_order(
    settings: Settings, connection: sql.Connection
) -> None:
    ProcessExitGateway(connection).mark_stopped([_run_process(settings, None)])
    _run_process(settings, None)
    assert _list_exits(connection) == []


def test_crash_loop_is_a_problem_everywhere(
    root: Path, settings: Settings, connection: sql.Connection
) -> None:
    for _ in range(3):
        _run_process(settings, ValueError("broken"))
    with connect_database(settings, "tests") as other:
        Role(other, "live", 5.0).heartbeat("running")
        code, status = _status(root)
        assert code == 1
        (problem,) = status["problems"]  # type: ignore[misc]
        assert problem.startswith(
            "the live process ended by an error 3 times within an hour, last at "
        )
        assert "Z: ValueError: broken: check its log; status is OK again at " in problem
        state = collect_state(connection)
        assert state["state"] == "problem"
        assert "ValueError: broken" in state["problems"][0]
        values = {
            metric.name: [sample.value for sample in metric.samples]
            for metric in collect_metrics(connection)
        }
        assert values["moirae_process_failures"] == [3]
        assert values["moirae_process_crash_loop"] == [1]
        assert values["moirae_process_starts"] == [4]


def test_status_names_input_that_waits_while_no_live_process_runs(
    root: Path, connection: sql.Connection
) -> None:
    folder = root / "m"
    folder.mkdir(exist_ok=True)
    (folder / "1.jsonl").write_text('{"ts": "2026-01-01T00:00:00Z"}\n')
    _, status = _status(root)
    (unread,) = status["unread_input"]  # type: ignore[misc]
    assert unread["stream"] == "m"
    assert 0 <= unread["waiting_seconds"] < 60
    # What a live process stored last may be archived by now.
    UnreadInputGateway(connection).put("m", datetime.now(UTC) - timedelta(hours=1))
    _, status = _status(root)
    (unread,) = status["unread_input"]  # type: ignore[misc]
    assert 0 <= unread["waiting_seconds"] < 60
    values = {metric.name: metric.samples for metric in collect_metrics(connection)}
    assert collect_state(connection)["unread_input"][0]["stream"] == "m"
    assert "moirae_unread_input_seconds" in values
