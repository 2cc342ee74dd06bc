"""Lists of alerts, events and recalls on the command line. No Spark."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch
from uuid import UUID

import pytest
from psycopg import Connection
from psycopg.types.json import Jsonb
from typer.testing import CliRunner, Result

from archiver.time_range import TimeRange
from moirae.alerts.event import Event
from moirae.alerts.lookup import IdMatch, find_event, find_event_or_recall
from moirae.cli import app
from moirae.cli import recall_control as control
from moirae.cli.options import OutputFormat, print_omitted_count
from moirae.config.settings import load_settings_from_environment
from moirae.errors import UsageError
from moirae.evaluation.contexts import ContextEvaluator, EventContexts
from moirae.evaluation.plan import ActiveRule
from moirae.history.plan import ViewTask
from moirae.history.store import ViewStore
from moirae.live.alert_contexts import AlertContexts
from moirae.rules.definition import Definition
from moirae.rules.model import AlertSpec
from moirae.rules.rule_set import Rule
from moirae.runtime import database
from sql.alerts import AlertGateway
from sql.alerts.alerts import AlertDelaysRow
from tests.workspaces import workspace

START = datetime(2026, 1, 1, tzinfo=UTC)
COUNT = 5
WORKSPACE = """
home: .moirae
streams:
  cpu: {columns: {ts: timestamp}, time: ts, source: {files: x/*.jsonl}}
"""


def event_id(number: int) -> UUID:
    return UUID(int=(0xE0 + number) << 120)


def alert_id(number: int) -> UUID:
    return UUID(int=(0xA0 + number) << 120)


def task_id(number: int) -> UUID:
    return UUID(int=(0xC0 + number) << 120)


@pytest.fixture(scope="module")
def root() -> Iterator[Path]:
    """A workspace with some events, each of an alert and with a recall."""
    with workspace(WORKSPACE, "groups: []\n") as folder:
        with database.connect_database(
            load_settings_from_environment(folder / "moirae.yaml"), "tests"
        ) as connection:
            for number in range(COUNT):
                _put(connection, number)
        yield folder


def _put(connection: Connection[Any], number: int) -> None:
    values = {
        "eid": event_id(number),
        "alert": alert_id(number),
        "task": task_id(number),
        "ts": START + timedelta(minutes=number),
        "json": Jsonb({}),
    }
    connection.execute(
        "INSERT INTO events (eid, rule, version, ts, fingerprint, key, attributes, settled)"
        " VALUES (%(eid)s, 'g/r', 'v', %(ts)s, 'f', %(json)s, %(json)s, true)",
        values,
    )
    connection.execute(
        "INSERT INTO alerts (id, eid, rule, version, fingerprint, key, labels, annotations, "
        "state, starts_at, last_at,"
        " events) VALUES (%(alert)s, %(eid)s, 'g/r', 'v', 'f', %(json)s, %(json)s, %(json)s, "
        "'firing', %(ts)s,"
        " %(ts)s, 1)",
        values,
    )
    connection.execute(
        "INSERT INTO tasks (id, eid, rule, version, recall, request, event, state, tickets)"
        " VALUES (%(task)s, %(eid)s, 'g/r', 'v', 'norm', %(json)s, %(json)s, 'done', 1)",
        values,
    )


@pytest.fixture
def connection(root: Path) -> Iterator[Connection[Any]]:
    with database.connect_database(
        load_settings_from_environment(root / "moirae.yaml"), "tests"
    ) as new_connection:
        yield new_connection


def run(root: Path, *arguments: str) -> Result:
    result = CliRunner().invoke(app, [*arguments, "--workspace", str(root / "moirae.yaml")])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_alert_shows_its_last_acknowledgement(root: Path, connection: Connection[Any]) -> None:
    for author in ("ada", "grace"):
        run(root, "alerts", "ack", str(alert_id(2)), "--author", author)
    by_id = {
        row["id"]: row["acknowledged_by"]
        for row in json.loads(run(root, "alerts", "list", "-o", "json").stdout)
    }
    assert by_id == {
        str(alert_id(number)): "grace" if number == 2 else None for number in range(COUNT)
    }
    table = run(root, "alerts", "list").stdout
    assert "acknowledged by" in table and table.count("grace") == 1
    connection.execute("DELETE FROM alert_notes")


def test_active_alerts_include_provisional_ones_that_fire(
    root: Path, connection: Connection[Any]
) -> None:
    values = ((1, "provisional", True), (2, "firing", True), (3, "provisional", False))
    for number, state, has_fired in values:
        connection.execute(
            "UPDATE alerts SET state = %s, fired_at = CASE WHEN %s THEN starts_at END"
            " WHERE id = %s",
            (state, has_fired, alert_id(number)),
        )
    rows = json.loads(run(root, "alerts", "list", "--active", "-o", "json").stdout)
    assert [(row["id"], row["state"]) for row in rows] == [
        (str(alert_id(2)), "firing"),
        (str(alert_id(1)), "provisional"),
    ]
    connection.execute("UPDATE alerts SET state = 'firing', fired_at = NULL")


# What an ID means


def test_event_is_found_by_id_of_event_alert_or_recall(
    connection: Connection[Any],
) -> None:
    for number in (1, 4):
        for searched_id in (event_id(number), alert_id(number), task_id(number)):
            assert find_event(connection, str(searched_id)) == event_id(number)
            assert find_event(connection, str(searched_id)[:2].upper()) == event_id(number)
            assert find_event(connection, str(searched_id)[:9]) == event_id(number)


def test_prefix_selects_an_event_or_a_recall(connection: Connection[Any]) -> None:
    assert find_event_or_recall(connection, "a3") == IdMatch("event", event_id(3))
    assert find_event_or_recall(connection, "e3") == IdMatch("event", event_id(3))
    assert find_event_or_recall(connection, "c3") == IdMatch("recall", task_id(3))


def test_deleted_event_is_found_by_its_recalls(connection: Connection[Any]) -> None:
    with connection.transaction(force_rollback=True):
        connection.execute("DELETE FROM alerts")
        connection.execute("DELETE FROM events")
        for prefix in ("e2", "c2"):
            assert find_event(connection, prefix) == event_id(2)
        assert find_event_or_recall(connection, "e2") == IdMatch("event", event_id(2))


def test_ambiguous_prefix_is_rejected(connection: Connection[Any]) -> None:
    for find in (find_event, find_event_or_recall):
        for prefix in ("a", "e", "c"):
            with pytest.raises(UsageError, match=f"ambiguous: '{prefix}' matches several"):
                find(connection, prefix)


@pytest.mark.parametrize("length", [1 + len("e3000000"), len("e3000000-0000-0"), 36])
def test_prefix_may_end_at_any_character(connection: Connection[Any], length: int) -> None:
    assert find_event(connection, str(event_id(3))[:length]) == event_id(3)


@pytest.mark.parametrize(
    "prefix", ["", "f", "zz", "e-3", "e3%", "e_", f"{event_id(3)}0", "e3000000--", "é"]
)
def test_text_that_is_no_id_matches_nothing(connection: Connection[Any], prefix: str) -> None:
    for find in (find_event, find_event_or_recall):
        with pytest.raises(UsageError, match="no event"):
            find(connection, prefix)


def test_every_command_accepts_an_event_known_from_recalls_only(
    root: Path, connection: Connection[Any]
) -> None:
    only = UUID(int=0xD0 << 120)
    connection.execute(
        "INSERT INTO tasks (id, eid, rule, version, recall, request, event, state, tickets)"
        " VALUES (%s, %s, 'g/r', 'v', 'norm', %s, '{}', 'waiting', 1)",
        (UUID(int=0xD8 << 120), only, Jsonb({"kind": "sql", "sql": ""})),
    )
    listed = json.loads(run(root, "recalls", "list", "--event", "d0", "-o", "json").stdout)
    assert [row["eid"] for row in listed] == [str(only)]
    shown = json.loads(run(root, "recalls", "show", "d0", "-o", "json").stdout)
    assert [answer["state"] for answer in shown] == ["waiting"]
    with pytest.raises(UsageError, match=f"see `moirae recalls show {only}`"):
        run(root, "events", "show", "d0")
    with patch.object(control, "_COMMAND_TIMEOUT", 0.0):
        target = json.loads(run(root, "refine", "d0", "-o", "json").stdout)["target"]
    assert target == {"eid": str(only)}
    connection.execute("DELETE FROM commands")
    connection.execute("DELETE FROM tasks WHERE eid = %s", (only,))


# Lists that are cut

LISTS = [["alerts", "list"], ["events", "list"], ["recalls", "list"], ["dead-letters", "list"]]


@pytest.fixture
def refused(connection: Connection[Any]) -> Iterator[None]:
    """As many dead letters as there are events."""
    connection.execute("INSERT INTO units (stream, unit) VALUES ('cpu', 'x')")
    connection.execute(
        "INSERT INTO dead_letters (unit_id, line, reason, detail, raw)"
        " SELECT id, line, 'malformed', '', '' FROM units, generate_series(1, %s) line",
        (COUNT,),
    )
    yield
    connection.execute("DELETE FROM units")


@pytest.mark.parametrize("command", LISTS)
def test_truncated_list_reports_the_number_of_omitted_rows(
    root: Path, refused: None, command: list[str]
) -> None:
    cut = run(root, *command, "--limit", "2", "-o", "json")
    assert len(json.loads(cut.stdout)) == 2
    assert cut.stderr == f"… and {COUNT - 2} more (use --limit {COUNT})\n"
    table = run(root, *command, "--limit", "2")
    assert table.stderr == cut.stderr and "more" not in table.stdout
    for limit in (COUNT, COUNT + 1):
        assert run(root, *command, "--limit", str(limit), "-o", "json").stderr == ""


def test_omitted_rows_count_only_matching_rows(root: Path, refused: None) -> None:
    assert run(root, "alerts", "list", "--limit", "1", "--state", "resolved").stderr == ""
    assert run(root, "recalls", "list", "--limit", "1", "--event", str(event_id(1))).stderr == ""
    assert run(root, "dead-letters", "list", "--limit", "1", "--reason", "expired").stderr == ""
    assert run(root, "events", "list", "--limit", "1", "--rule", "other").stderr == ""


def test_note_of_a_truncated_list_is_its_last_line_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    print_omitted_count(1_000, 50, OutputFormat.TABLE)
    print_omitted_count(1_000, 50, OutputFormat.JSON)
    print_omitted_count(1_000_000, 50, OutputFormat.TABLE)
    print_omitted_count(0, 50, OutputFormat.TABLE)
    shown = capsys.readouterr()
    assert (
        shown.out
        == "… and 1,000 more (use --limit 1050)\n… and 1,000,000 more (use --limit 100000)\n"
    )
    assert shown.err == "… and 1,000 more (use --limit 1050)\n"


# Contexts that are cut


def _contexts_with_row_counts(cut: dict[str, int]) -> EventContexts:
    return EventContexts({"near": [{"cpu": "1"}] * 3}, {"around": []}, cut)


def test_events_show_reports_a_truncated_context_with_its_row_count(
    root: Path, connection: Connection[Any]
) -> None:
    work = ViewTask("g/r", "v", 1, TimeRange(None, 0), 0, False)
    events = [Event(event_id(number), 0, {}, "f", {}) for number in (1, 2)]
    contexts_by_event = {
        event_id(1): _contexts_with_row_counts({"near": 2_345}),
        event_id(2): _contexts_with_row_counts({}),
    }
    ViewStore(connection).put_contexts(work, events, contexts_by_event)
    shown = json.loads(run(root, "events", "show", "e1", "-o", "json").stdout)
    assert (shown["contexts"], shown["truncated"]) == (
        {"near": [{"cpu": "1"}] * 3},
        {"near": 2_345},
    )
    assert "truncated: 3 of 2,345 rows are stored" in run(root, "events", "show", "e1").stdout
    assert json.loads(run(root, "events", "show", "e2", "-o", "json").stdout)["truncated"] == {}
    assert "truncated:" not in run(root, "events", "show", "e2").stdout
    assert json.loads(run(root, "status", "-o", "json").stdout)["truncated_contexts"] == {"g/r": 1}
    assert "contexts of g/r: 1 truncated at 2,000 rows" in run(root, "status").stdout
    connection.execute("DELETE FROM contexts")


def test_live_process_stores_the_row_count_of_a_truncated_context(
    connection: Connection[Any],
) -> None:
    spec = AlertSpec.model_validate({"alert": "r", "expr": "SELECT host, ts FROM cpu"})
    definition = Definition(Rule("g", spec), {"host": "string"}, ("host",), ("host",))
    running = ActiveRule.create(definition, {"cpu": "ts"}, frozenset())
    context_evaluator = Mock(spec=ContextEvaluator)
    context_evaluator.context_horizon.return_value = None
    context_evaluator.compute.return_value = {
        ("g/r", event_id(1)): _contexts_with_row_counts({"near": 2_345})
    }
    context_evaluator.parse_contexts.return_value = _contexts_with_row_counts({})
    with connection.transaction(force_rollback=True):
        for table in ("events", "alerts"):
            connection.execute(f"UPDATE {table} SET version = %s".encode(), (definition.version,))
        connection.execute("UPDATE alerts SET fired_at = starts_at")
        AlertContexts(context_evaluator, connection).compute_missing([running], {}, None)
        cut = connection.execute(
            "SELECT eid, cut FROM contexts WHERE eid = ANY(%s)", ([event_id(1), event_id(2)],)
        )
        assert dict(cut.fetchall()) == {event_id(1): {"near": 2_345}, event_id(2): None}


# Exports


@pytest.mark.timeout(30)
def test_export_ends_when_its_reader_has_gone(root: Path) -> None:
    def write_one_row(rows: Iterator[dict[str, Any]], *_: object) -> None:
        next(rows)
        raise BrokenPipeError

    with patch("moirae.cli.export.write_rows", write_one_row):
        result = CliRunner().invoke(
            app, ["export", "events", "--workspace", str(root / "moirae.yaml")]
        )
    assert isinstance(result.exception, (BrokenPipeError, SystemExit))


def test_events_and_alerts_are_exported_oldest_first(
    root: Path, connection: Connection[Any]
) -> None:
    event_columns = ["eid", "rule", "ts", "key", "attributes"]
    alert_columns = ["id", "eid", "rule", "key", "labels", "state", "starts_at", "ends_at"]
    alert_columns += ["history", "history_final"]
    connection.execute(
        "UPDATE alerts SET history = 'withdrawn' WHERE id = %(id)s", {"id": alert_id(1)}
    )
    events = [json.loads(line) for line in run(root, "export", "events").stdout.splitlines()]
    assert [list(event) for event in events] == [event_columns] * COUNT
    assert [event["eid"] for event in events] == [str(event_id(n)) for n in range(COUNT)]
    assert events[1]["ts"] == "2026-01-01T00:01:00Z"
    header, *lines = run(root, "export", "alerts", "--format", "csv").stdout.splitlines()
    assert header.split(",") == alert_columns
    assert [line.split(",")[5] for line in lines] == ["firing", "withdrawn"] + ["firing"] * 3
    assert lines[0].split(",")[0] == str(alert_id(0))
    connection.execute("UPDATE alerts SET history = NULL")


# Figures of alerts


def test_alerts_that_fired_are_listed_with_their_delay(connection: Connection[Any]) -> None:
    gateway = AlertGateway(connection)
    assert gateway.delays(START) == AlertDelaysRow(alerts=0, p50=None, p99=None)
    connection.execute(
        "UPDATE alerts SET fired_at = starts_at, raised_at = starts_at + interval '250 ms'"
        " WHERE id = ANY(%s)",
        ([alert_id(1), alert_id(3)],),
    )
    assert gateway.delays(START) == AlertDelaysRow(alerts=2, p50=250.0, p99=250.0)
    raised = gateway.list_raised(START)
    assert [alert.id for alert in raised] == [alert_id(1), alert_id(3)]
    assert gateway.list_raised(raised[0].raised_at) == raised[1:]
    connection.execute("UPDATE alerts SET fired_at = NULL, raised_at = NULL")
