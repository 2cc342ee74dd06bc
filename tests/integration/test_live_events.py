"""Server-sent events: order, resumption after a kill, slow clients, and rights."""

import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from psycopg.types.json import Jsonb

import sql
from archiver.times import to_micros
from moirae.services import tokens
from recall.ledger.row_revisions import EventOutput, RevisionStreams
from recall.revisions.changes import RowChange
from sql.access import TokenGateway
from sql.archive import RetentionGateway
from sql.stages import NewStageRow, RecalledEventGateway
from tests.api_data import RULES, WORKSPACE, alert_id, event_id, fill, put_revision, task_id
from tests.served import JSON, Served, serve

ALERT = str(alert_id(1))
EVENT = event_id(1)


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serve(WORKSPACE, RULES) as running:
        fill(running.connection)
        yield running


class Events:
    """The events of a client, as they arrive."""

    def __init__(self, response: httpx.Response) -> None:
        self.lines = response.iter_lines()
        self.last_id: str | None = None

    def next(self, *kinds: str) -> tuple[str, dict[str, Any]]:
        """The next event of some kinds."""
        kind, data = "", ""
        for line in self.lines:
            name, _, value = line.partition(": ")
            if name == "event":
                kind = value
            elif name == "data":
                data = value
            elif name == "id":
                self.last_id = value
            elif not line and data:
                if not kinds or kind in kinds:
                    return kind, json.loads(data)
                data = ""
        raise EOFError


@contextmanager
def follow(
    served: Served, role: str = "viewer", last_id: str | None = None, **params: Any
) -> Iterator[Events]:
    headers = {"Authorization": f"Bearer {served.tokens[role]}"}
    if last_id is not None:
        headers["Last-Event-ID"] = last_id
    url = f"{served.url}/api/v1/live"
    with httpx.stream("GET", url, headers=headers, params=params, timeout=30) as response:
        assert response.status_code == 200
        assert response.headers["Content-Type"].startswith("text/event-stream")
        yield Events(response)


def _note(served: Served, text: str) -> None:
    path = f"/api/v1/alerts/{ALERT}/ack"
    answer = served.ask("POST", path, headers=JSON, content=json.dumps({"text": text}))
    assert answer.status_code == 200


def _end(served: Served, state: str = "finalized") -> None:
    served.connection.execute("UPDATE tasks SET state = 'running' WHERE id = %s", (task_id(1),))
    served.connection.execute("UPDATE tasks SET state = %s WHERE id = %s", (state, task_id(1)))


def _put_stage(served: Served, state: str, rows: list[dict[str, Any]]) -> None:
    """Store the rows of a stage of the event, as the recall process does."""
    events = RecalledEventGateway(served.connection)
    key = {"rule": "g/r", "version": "v", "eid": EVENT}
    ts = datetime(2026, 1, 1, tzinfo=UTC)
    error = "too many rows" if state == "failed" else None
    with served.connection.transaction():
        served.connection.execute(
            "INSERT INTO recalled_events (rule, version, eid, ts, event, plan)"
            " VALUES (%s, %s, %s, %s, '{}', '{}') ON CONFLICT DO NOTHING",
            [*key.values(), ts],
        )
        changes = [RowChange("insert", row["host"], row) for row in rows]
        output = EventOutput("g/r", "v", "candidates", EVENT, to_micros(ts))
        RevisionStreams(served.connection).append(output, changes)
        row = NewStageRow(**key, name="candidates", state=state, error=error, has_changed=True)
        events.put_stages([row])


def test_changes_arrive_in_order(served: Served) -> None:
    with follow(served) as events:
        assert events.next("status")[1]["alerts"] == {"firing": 5}
        _note(served, "first")
        kind, alert = events.next("alert")
        assert (alert["id"], alert["acknowledged_by"]) == (ALERT, "admin")
        put_revision(served.connection, 1, 3, [{"mean": 3.5}])
        kind, revision = events.next("revision")
        assert (revision["number"], revision["rows"]) == (3, [{"mean": 3.5}])
        _end(served)
        kind, recall = events.next("recall", "boundary")
        assert (kind, recall["state"]) == ("recall", "finalized")
        with served.connection.transaction():
            _put_stage(served, "done", [{"host": "a"}])
            served.connection.execute("UPDATE recalled_events SET ended_at = now()")
        assert events.next("revision", "boundary")[1]["final"]
        kind, boundary = events.next("recall", "revision", "boundary")
        assert (kind, boundary["eid"], boundary["rule"]) == ("boundary", str(EVENT), "g/r")
        assert boundary["version"] == "v" and boundary["at"]


def test_rows_of_a_stage_are_sent_as_they_change(served: Served) -> None:
    served.connection.execute("DELETE FROM recalled_events")
    with follow(served, kind=["revision"], event=str(EVENT)) as events:
        _put_stage(served, "running", [{"host": "a"}])
        first = events.next()[1]
        _put_stage(served, "failed", [{"host": "a"}, {"host": "b"}])
        second = events.next()[1]
    assert (first["kind"], first["name"], first["recall"]) == ("stage", "candidates", None)
    assert (first["rows"], first["final"], first["error"]) == ([{"host": "a"}], False, None)
    assert [row["host"] for row in second["rows"]] == ["a", "b"]
    assert (second["number"], second["final"], second["error"]) == (2, True, "too many rows")


def test_revision_has_the_forecast(served: Served) -> None:
    forecast = {"tags": [["restart", 0.75]], "new_tag": 0.25}
    with follow(served, kind=["revision"], event=str(EVENT)) as events:
        with served.connection.transaction():
            put_revision(served.connection, 1, 100, [])
            served.connection.execute(
                "UPDATE revisions SET forecast = %s WHERE number = 100", [Jsonb(forecast)]
            )
        assert events.next()[1]["forecast"] == forecast
    served.connection.execute("DELETE FROM revisions WHERE number = 100")


def test_client_selects_kinds_and_an_event(served: Served) -> None:
    with follow(served, kind=["revision"], event=str(EVENT)) as events:
        put_revision(served.connection, 0, 3, [])
        _note(served, "not sent")
        put_revision(served.connection, 1, 4, [])
        assert events.next()[1]["number"] == 4


def test_cancelled_answer_is_not_sent(served: Served) -> None:
    with follow(served, kind=["revision"]) as events:
        with served.connection.transaction():
            put_revision(served.connection, 2, 3, [])
            served.connection.execute("DELETE FROM revisions WHERE task = %s", (task_id(2),))
        put_revision(served.connection, 1, 5, [])
        revision = events.next()[1]
        assert (revision["recall"], revision["number"]) == (str(task_id(1)), 5)


def test_uncommitted_change_holds_back_later_ones(served: Served) -> None:
    with (
        sql.connect(served.connection.info.dsn, application_name="tests") as other,
        follow(served, kind=["revision"]) as events,
    ):
        with other.transaction():
            put_revision(other, 1, 6, [])
            put_revision(served.connection, 0, 4, [])
            time.sleep(1)
        received = [events.next()[1] for _ in range(2)]
        assert [(row["recall"], row["number"]) for row in received] == [
            (str(task_id(1)), 6),
            (str(task_id(0)), 4),
        ]


def test_client_resumes_after_a_kill_and_gets_each_revision_once_in_order(
    served: Served,
) -> None:
    numbers = []
    with follow(served, kind=["revision"], event=str(EVENT)) as events:
        for number in range(7, 12):
            put_revision(served.connection, 1, number, [{"mean": number}])
        while len(numbers) < 3:
            numbers.append(events.next()[1]["number"])
        last_id = events.last_id
        served.process.kill()
    for number in range(12, 15):
        put_revision(served.connection, 1, number, [{"mean": number}])
    served.restart()
    with follow(served, last_id=last_id, kind=["revision"], event=str(EVENT)) as events:
        put_revision(served.connection, 1, 15, [])
        while numbers[-1] < 15:
            numbers.append(events.next()[1]["number"])
    assert numbers == list(range(7, 16))


def test_unknown_position_is_reset(served: Served) -> None:
    for last_id in ("1-1", f"{(1 << 62)}-1", "garbage"):
        with follow(served, last_id=last_id) as events:
            assert events.next()[0] == "reset"
            _note(served, "after the reset")
            assert events.next("alert")[1]["id"] == ALERT


def test_quiet_client_resumes_after_old_changes_were_deleted(served: Served) -> None:
    with follow(served) as events:
        _note(served, "the last change for days")
        events.next("alert")
    assert RetentionGateway(served.connection).delete_changes(timedelta(0), 100_000) > 0
    with follow(served, last_id=events.last_id) as events:
        assert events.next()[0] == "status"


@pytest.mark.slow
def test_revoked_token_ends_the_stream(served: Served) -> None:
    served.tokens["passing"] = tokens.create_token(served.connection, "passing", "viewer")
    with follow(served, "passing") as events:
        events.next("status")
        TokenGateway(served.connection).revoke("passing")
        started_at = time.monotonic()
        with pytest.raises((EOFError, httpx.RemoteProtocolError)):
            events.next("never")
        assert time.monotonic() - started_at < 25


@pytest.mark.slow
def test_client_that_never_reads_costs_the_others_nothing_and_bounded_memory(
    served: Served,
) -> None:
    host, _, port = served.url.removeprefix("http://").partition(":")
    with socket.socket() as silent:
        silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        silent.connect((host, int(port)))
        token = served.tokens["viewer"]
        silent.sendall(
            f"GET /api/v1/live HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
        )
        with follow(served, kind=["revision"], event=str(EVENT)) as events:
            before = served.process.memory_info().rss
            large = [{"mean": "x" * 100_000}]
            for number in range(16, 76):
                put_revision(served.connection, 1, number, large)
                received = events.next()[1]
                assert (received["number"], received["rows"]) == (number, large)
            assert served.process.memory_info().rss - before < 64 << 20


def test_answer_that_is_too_large_is_left_out(served: Served) -> None:
    with follow(served, kind=["revision"], event=str(EVENT)) as events:
        put_revision(served.connection, 1, 80, [{"mean": "x" * 300_000}])
        revision = events.next()[1]
        assert (revision["number"], revision["omitted"], "rows" in revision) == (80, True, False)
