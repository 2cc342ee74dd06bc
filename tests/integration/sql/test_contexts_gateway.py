"""Contexts in the database: which are stored, exported and truncated."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

import sql
from moirae.config.settings import load_settings_from_environment
from moirae.runtime import connect_database
from sql.events import ContextGateway, NewContextRow, OutboxGateway, RecallNeeds, RecallOfVersion
from sql.similarity import CorpusGateway
from tests.workspaces import write_workspace

_START = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def database(public_folder: Path) -> Iterator[sql.Connection]:
    workspace = public_folder / "moirae.yaml"
    write_workspace(workspace.parent, "home: .moirae\nrules: []\n")
    with connect_database(load_settings_from_environment(workspace), "test") as connection:
        yield connection


@pytest.fixture
def connection(database: sql.Connection) -> Iterator[sql.Connection]:
    """A connection whose changes are rolled back."""
    with database.transaction(force_rollback=True):
        yield database


def _context(number: int, **values: Any) -> NewContextRow:
    columns = {
        "rule": "g/r",
        "version": "1",
        "eid": UUID(int=number),
        "ts": _START + timedelta(seconds=number),
        "contexts": {"c": [{"n": number}]},
        "surroundings": {},
        "cut": {},
        "settled": True,
    }
    return NewContextRow(**{**columns, **values})


def test_settled_contexts_are_exported_oldest_first(connection: sql.Connection) -> None:
    gateway = ContextGateway(connection)
    gateway.put([_context(2), _context(1), _context(3, settled=False)])
    exported = list(gateway.export())
    assert [row.eid.int for row in exported] == [1, 2]
    assert exported[0].contexts == {"c": [{"n": 1}]}
    assert exported[0].ts == _START + timedelta(seconds=1)


def test_settled_context_does_not_change(connection: sql.Connection) -> None:
    gateway = ContextGateway(connection)
    gateway.put([_context(1, settled=False)])
    gateway.put([_context(1, contexts={"c": ["a\x00b"]})])
    gateway.put([_context(1, contexts={})])
    stored = gateway.get("g/r", "1", UUID(int=1))
    assert stored is not None and stored.settled and stored.contexts == {"c": ["a␀b"]}
    assert gateway.list_settled_ids("g/r", "1", [UUID(int=1), UUID(int=2)]) == {UUID(int=1)}
    assert gateway.get("g/r", "2", UUID(int=1)) is None


def test_rows_of_truncated_contexts_are_counted(connection: sql.Connection) -> None:
    gateway = ContextGateway(connection)
    gateway.put([_context(1), _context(2, cut={"c": 5000}), _context(3, rule="g/s", cut={"c": 1})])
    assert gateway.count_truncated() == {"g/r": 1, "g/s": 1}
    assert gateway.get_row_counts("g/r", "1", UUID(int=2)) == {"c": 5000}
    assert gateway.get_row_counts("g/r", "1", UUID(int=1)) == {}


def test_corpus_is_numbered_in_event_order(connection: sql.Connection) -> None:
    contexts, corpus = ContextGateway(connection), CorpusGateway(connection)
    contexts.put([_context(2), _context(1), _context(3, settled=False)])
    start = corpus.numbers().last
    eids = [UUID(int=number) for number in (3, 2, 1)]
    with connection.transaction():
        corpus.lock_numbering()
        corpus.add_past("g/r", "1", eids)
    events = corpus.list_after("g/r", "1", start)
    assert [event.eid.int for event in events] == [1, 2]
    assert corpus.numbers().last == events[-1].number
    first, last = events[0].number, _START + timedelta(seconds=9)
    assert corpus.has_later("g/r", "1", number=first, before=last)
    assert not corpus.has_later("g/r", "1", number=first, before=_START + timedelta(seconds=2))
    counts = corpus.count_indexed("g/r", "1", number=first, before=last)
    assert (counts.events, counts.indexed) == (2, 1)
    assert corpus.count_indexed("g/r", "1", number=first, before=None).events == 0


def test_pending_rows_of_the_outbox_are_counted_to_a_limit(connection: sql.Connection) -> None:
    contexts, corpus = ContextGateway(connection), CorpusGateway(connection)
    contexts.put([_context(number) for number in range(1, 4)])
    start = corpus.numbers().last
    corpus.add_past("g/r", "1", [UUID(int=number) for number in range(1, 4)])
    outbox = OutboxGateway(connection)
    rows = outbox.list_contexts(start, 2)
    assert [row.eid.int for row in rows] == [1, 2]
    assert all(row.seq == row.number for row in rows)
    counts = outbox.count_contexts(start, 2, _START + timedelta(seconds=2))
    assert (counts.pending, counts.has_closed) == (2, True)
    counts = outbox.count_contexts(rows[-1].seq, 2, None)
    assert (counts.pending, counts.has_closed) == (1, False)


def _add_alert(
    connection: sql.Connection, number: int, first: int, last: int, state: str = "firing"
) -> None:
    """An alert of key `a` and its first event, `first` to `last` seconds after the start."""
    starts, ends = (_START + timedelta(seconds=second) for second in (first, last))
    connection.execute(
        "INSERT INTO events (eid, rule, version, ts, fingerprint, key, attributes, settled) "
        "VALUES (%s, 'g/r', '1', %s, 'a', '{}', '{}', true)",
        (UUID(int=number), starts),
    )
    fired = None if state == "pending" else starts
    connection.execute(
        "INSERT INTO alerts (id, eid, rule, version, fingerprint, key, labels, annotations, state, "
        "starts_at, fired_at, last_at, events) VALUES (%s, %s, 'g/r', '1', 'a', '{}', '{}', '{}', %s, "
        "%s, %s, %s, 1)",
        (UUID(int=number), UUID(int=number), state, starts, fired, ends),
    )


@pytest.mark.parametrize("needs_previous", [True, False])
def test_events_are_requested_with_the_alert_before(
    connection: sql.Connection, needs_previous: bool
) -> None:
    _add_alert(connection, 1, 0, 30, "resolved")
    _add_alert(connection, 2, 40, 50, "pending")
    _add_alert(connection, 3, 60, 70, "withdrawn")
    _add_alert(connection, 4, 80, 100)
    rows = ContextGateway(connection).list_unrequested(
        RecallOfVersion("g/r", "1", "norm"),
        every_event=False,
        needs=RecallNeeds(context=False, settled=False, previous=needs_previous),
        background_before=_START,
        since=None,
        limit=10,
    )
    last = int(_START.timestamp() + 30) * 1_000_000
    expected = [(1, None), (4, last if needs_previous else None)]
    assert [(row.eid.int, row.previous) for row in rows] == expected
