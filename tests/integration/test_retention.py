"""Retention in the database: deleted records are kept as sums and in the archive, all others are
unchanged.

On a real PostgreSQL, archive, chunk maintenance and corpora.
"""

import random
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import UUID

import orjson
import psycopg
import pytest
from psycopg import Connection
from psycopg.types.json import Jsonb

from archiver.chunks.chunk import CutPolicy
from archiver.chunks.lifecycle import LifecyclePolicy
from archiver.chunks.maintenance import ChunkMaintenance
from archiver.formats import JSONL
from archiver.ingest.ledger import Catalog
from archiver.ingest.source_units import SourceUnit
from archiver.ingest.writer import ArchiveWriter
from archiver.time_range import TimeRange
from archiver.times import duration_to_micros, from_micros
from moirae.config import EXTERNAL_ALERTS
from moirae.config.incidents import AlertSettings
from moirae.config.settings import Settings, load_settings_from_environment
from moirae.config.table_schemas import stream_schema
from moirae.inspect.accounting import is_balanced, sum_accounting
from moirae.inspect.doctor import run_checks
from moirae.live import retention
from moirae.live.outbox import Outbox, open_outboxes
from moirae.live.retention import Retention
from moirae.runtime import database
from recall.corpora import Corpora
from recall.requests import SimilarQuestion
from sql.archive import UnitGateway
from sql.events import ContextGateway, RecallNeeds, RecallOfVersion
from tests.workspaces import one_stream, write_workspace

WORKSPACE = one_stream(rows=100, keep="1s")
START = 1_767_225_600_000_000
ROWS, UNITS = 20, 100
NEVER = timedelta(0)
QUESTION = SimilarQuestion(None, 0.0, "newest", contexts=("own",), k=5, measure="tfidf", gap=0)


@dataclass
class RetentionWorkspace:
    """A workspace with a history of chunks that have expired, but for the last ones: row n happens
    at n·10 ms.
    """

    settings: Settings
    connection: Connection[Any]
    archive: ArchiveWriter
    outboxes: dict[str, Outbox]

    def retention(self, least: timedelta = NEVER) -> Retention:
        return Retention(
            self.connection, self.settings, self.outboxes, lambda _: set(), least, NEVER
        )

    def retain(self, **options: Any) -> None:
        retention = self.retention(**options)
        while retention.run_once(self.archive):
            pass

    def ingest(self, units: range) -> None:
        source_units = [
            SourceUnit("s", f"landing/{number}.jsonl", JSONL, partial(lines, number))
            for number in units
        ]
        self.archive.ingest(source_units, 1 << 57)

    def maintain_chunks(self, stream_keep: int | None = None) -> None:
        """Run the maintenance of chunks until no task is due.

        `stream_keep`: microseconds after which the rows of the stream end.
        """
        maintenance = ChunkMaintenance(
            Path(self.settings.archive), [self.archive.tables["s"].schema], 0.1
        )
        policy = LifecyclePolicy(
            2,
            None if stream_keep else duration_to_micros(self.settings.chunks.keep or timedelta(0)),
            0.0,
            {"s": stream_keep} if stream_keep else {},
        )
        try:
            while work := self.archive.update_chunk_states(
                policy, maintenance.requirements, [self.archive.watermark("s")], set
            ):
                maintenance.submit(work)
                maintenance.wait()
                self.archive.record_results(maintenance.collect_results())
        finally:
            maintenance.stop()

    def failed_checks(self) -> list[str]:
        findings = run_checks(self.settings, self.connection)
        return [finding.check for finding in findings if finding.problems]

    def stream_counts(self) -> dict[str, Any]:
        sums = UnitGateway(self.connection).sum_by_stream()
        (counts,) = (counts for counts in sums if counts.stream != EXTERNAL_ALERTS)
        assert is_balanced(sum_accounting([counts]))
        return asdict(counts)

    def value(self, query: str) -> Any:
        row = self.connection.execute(query.encode()).fetchone()
        assert row is not None
        return row[0]


def lines(unit: int) -> Iterator[bytes]:
    """Each tenth has a line that is none; each fifth repeats a row."""
    for n in range(unit * ROWS, (unit + 1) * ROWS):
        row = orjson.dumps(
            {"ts": from_micros(START + n * 10_000).isoformat(), "n": n, "host": f"h{n % 3}"}
        )
        yield row
        if n % 100 == 0:
            yield row
    if unit % 10 == 0:
        yield b"no row"


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[RetentionWorkspace]:
    settings = load_settings_from_environment(write_workspace(tmp_path, WORKSPACE))
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing" / ".keep").touch()
    with database.connect_database(settings, "test") as connection:
        declared = [stream_schema(name, stream) for name, stream in settings.streams.items()]
        policy = CutPolicy(settings.chunks.rows, duration_to_micros(settings.chunks.age))
        archive = ArchiveWriter(Path(settings.archive), declared, policy, connection, lambda: None)
        new_workspace = RetentionWorkspace(
            settings, connection, archive, open_outboxes(connection, Path(settings.archive))
        )
        new_workspace.ingest(range(UNITS))
        yield new_workspace


def test_rows_of_a_stream_end_and_stay_accounted_for(workspace: RetentionWorkspace) -> None:
    """Chunks stay, as other streams may have rows there; rows that come later are refused."""
    before = workspace.stream_counts()
    workspace.maintain_chunks(stream_keep=10_000_000)
    end = workspace.archive.catalog.stream_ends()["s"]
    newest = workspace.archive.progress["s"].newest
    assert newest is not None and newest - 12_000_000 < end <= newest - 10_000_000
    table = workspace.archive.tables["s"]
    assert min(file.oldest for file in table.data_files(TimeRange(None))) >= end
    assert workspace.failed_checks() == []
    assert workspace.stream_counts() == {**before, "deleted": workspace.stream_counts()["deleted"]}
    workspace.ingest(range(1_000, 1_001))
    late = b'{"ts": "2026-01-01T00:00:00.005Z", "n": 99999, "host": "h1"}'
    workspace.archive.ingest([SourceUnit("s", "late", JSONL, lambda: iter([late]))], 1 << 57)
    assert workspace.stream_counts()["expired"] == 1
    # The chunk expires as a whole, and no row is counted twice.
    workspace.maintain_chunks()
    assert workspace.failed_checks() == []


@pytest.mark.slow
def test_compacted_units_keep_every_record_accounted_for(workspace: RetentionWorkspace) -> None:
    """Before and after chunks expire; units that may be read again or have dead letters are not
    compacted.
    """
    (workspace.settings.file.parent / "landing" / "3.jsonl").touch()
    workspace.maintain_chunks()
    before = workspace.stream_counts()
    assert workspace.failed_checks() == []
    workspace.retain()
    assert workspace.stream_counts() == before
    assert workspace.failed_checks() == []
    remaining = {
        name for (name,) in workspace.connection.execute("SELECT unit FROM units WHERE unit <> ''")
    }
    dead = {f"landing/{unit}.jsonl" for unit in range(0, UNITS, 10)}
    assert remaining >= dead | {"landing/3.jsonl"}
    assert len(remaining) < UNITS / 3
    # More comes; rows of folded units leave with their chunks, and are counted as theirs.
    workspace.ingest(range(UNITS, UNITS + 50))
    workspace.maintain_chunks()
    workspace.retain()
    after = workspace.stream_counts()
    assert after["read"] == before["read"] + 50 * ROWS + 15
    assert after["deleted"] > before["deleted"]
    assert after["units"] == UNITS + 50
    assert workspace.failed_checks() == []
    # Dead letters of long ago are dropped, and counted.
    workspace.connection.execute("UPDATE dead_letters SET at = at - interval '2 hours'")
    workspace.retain()
    workspace.retain()
    assert workspace.value("SELECT count(*) FROM dead_letters") == 0
    assert workspace.stream_counts() == after
    assert workspace.failed_checks() == []


@pytest.mark.slow
def test_units_of_removed_streams_are_compacted(workspace: RetentionWorkspace) -> None:
    workspace.maintain_chunks()
    before = workspace.stream_counts()
    removed = workspace.settings.model_copy(update={"streams": {}})
    retention = replace(workspace, settings=removed).retention()
    while retention.run_once(workspace.archive):
        pass
    assert workspace.value("SELECT count(*) FROM units") < UNITS / 3
    assert workspace.stream_counts() == before
    assert workspace.failed_checks() == []


@pytest.mark.slow
def test_wrong_sum_is_detected(workspace: RetentionWorkspace) -> None:
    workspace.maintain_chunks()
    workspace.retain()
    assert workspace.failed_checks() == []
    for falsified, check in (
        (("archived", "read"), "s: table and ledger agree, per source unit"),
        (("read",), "s: read = archived + duplicates + dead letters, per source unit"),
        (("dropped",), "s: all dead letters are stored"),
    ):
        for change, failed_checks in (("+ 1", [check]), ("- 1", [])):
            values = ", ".join(f"{name} = {name} {change}" for name in falsified)
            workspace.connection.execute(f"UPDATE units SET {values} WHERE unit = ''".encode())
            assert workspace.failed_checks() == failed_checks


def test_files_of_an_empty_folder_do_not_count_as_gone(workspace: RetentionWorkspace) -> None:
    (workspace.settings.file.parent / "landing" / ".keep").unlink()
    workspace.maintain_chunks()
    workspace.retain()
    assert workspace.value("SELECT count(*) FROM units WHERE unit = ''") == 0


def test_present_files_do_not_count_as_gone(workspace: RetentionWorkspace) -> None:
    """Also files beside the workspace file, removed folders, and posted batches."""
    (workspace.settings.file.parent / "cpu.jsonl").touch()
    gone = workspace.retention()._make_gone_test("s")
    assert not gone("cpu.jsonl")
    assert all(map(gone, ("push-1", "landing/3.jsonl", "landing/day/3.jsonl")))


def test_deleted_chunks_are_merged_into_one(workspace: RetentionWorkspace) -> None:
    """Chunks still cover all time, and rows for expired chunks are still refused."""
    workspace.maintain_chunks()
    before = Catalog(workspace.connection).chunks()
    gone = [chunk for chunk in before if chunk.state == "expired"]
    assert len(gone) > 2
    workspace.retain()
    assert workspace.archive.chunks == Catalog(workspace.connection).chunks()
    assert [chunk.id for chunk in workspace.archive.chunks] == [
        chunk.id for chunk in before[len(gone) - 1 :]
    ]
    assert workspace.failed_checks() == []
    workspace.ingest(range(UNITS, UNITS + 1))
    old = orjson.dumps({"ts": from_micros(START).isoformat(), "n": -1, "host": "h"})
    workspace.archive.ingest([SourceUnit("s", "late", JSONL, lambda: iter([old]))], 1 << 57)
    assert workspace.stream_counts()["expired"] == 1


# What is about events


def events(workspace: RetentionWorkspace, numbers: range) -> None:
    """Events with their alerts, ended recalls with their answers, and contexts, every 100 ms of
    event time.
    """
    rng = random.Random(numbers.start)
    for n in numbers:
        eid, ts = UUID(int=n + 1), from_micros(START + n * 100_000)
        values = {"eid": eid, "ts": ts, "f": f"f{n}", "micros": START + n * 100_000}
        values |= {
            "words": Jsonb({"own": [{"t": f"w{rng.randrange(6)}"} for _ in range(3)]}),
            "n": n + 1,
        }
        for query in (
            "INSERT INTO events (eid, rule, version, ts, fingerprint, key, attributes, settled)"
            " VALUES (%(eid)s, 'g/r', '1', %(ts)s, %(f)s, '{}', '{}', true)",
            "INSERT INTO alerts (id, eid, rule, version, fingerprint, key, labels, annotations, state, starts_at,"
            " fired_at, last_at, ends_at, events) VALUES (%(eid)s, %(eid)s, 'g/r', '1', %(f)s, '{}', '{}', '{}',"
            " 'resolved', %(ts)s, %(ts)s, %(ts)s, %(ts)s, 1)",
            "INSERT INTO contexts (rule, version, eid, ts, contexts, surroundings, settled, corpus)"
            " VALUES ('g/r', '1', %(eid)s, %(ts)s, %(words)s, '{}', true, %(n)s)",
            "INSERT INTO tasks (id, eid, rule, version, recall, request, event, state, tickets, revision, ended_at)"
            " VALUES (%(eid)s, %(eid)s, 'g/r', '1', 'norm', '{\"kind\": \"sql\"}',"
            " jsonb_build_object('ts', %(micros)s::bigint), 'done', 1, 1, clock_timestamp())",
            "INSERT INTO revisions VALUES (%(eid)s, 1, true, '{}', '[]')",
        ):
            workspace.connection.execute(query.encode(), values)


def numbers_in(workspace: RetentionWorkspace, table: str) -> set[int]:
    return {
        eid.int - 1 for (eid,) in workspace.connection.execute(f"SELECT eid FROM {table}".encode())
    }


def requested_rows(workspace: RetentionWorkspace) -> list[Any]:
    """The contexts and recalls that live would request for the stored events."""
    gateway = ContextGateway(workspace.connection)
    missing = gateway.list_missing("g/r", "1", every_event=True, since=None, limit=1000)
    unrequested = gateway.list_unrequested(
        RecallOfVersion("g/r", "1", "norm"),
        every_event=True,
        needs=RecallNeeds(context=False, settled=False),
        background_before=from_micros(START),
        since=None,
        limit=1000,
    )
    return [*missing, *unrequested]


def test_rows_about_deleted_chunks_are_deleted(workspace: RetentionWorkspace) -> None:
    """Except those with notes, unfinished, not archived, or stored today; no recall is requested
    again.
    """
    events(workspace, range(190))
    chunks = workspace.archive.chunks
    for query in (
        "INSERT INTO alert_notes (alert_id, kind, author, text)"
        " SELECT id, 'note', 'ada', 'x' FROM alerts ORDER BY starts_at LIMIT 1 OFFSET 5",
        "UPDATE tasks SET state = 'suspended', ended_at = NULL WHERE id = '00000000-0000-0000-0000-000000000007'",
        "INSERT INTO judgements VALUES ('00000000-0000-0000-0000-000000000009',"
        " '00000000-0000-0000-0000-00000000000a', true, 'ada')",
        "UPDATE alerts SET ends_at = NULL, state = 'firing' WHERE id = '00000000-0000-0000-0000-00000000000c'",
    ):
        workspace.connection.execute(query.encode())
    words = {5, 6, 8, 9, 11}
    workspace.maintain_chunks()
    horizon = next(
        c.from_ts for c in Catalog(workspace.connection).chunks() if c.state != "expired"
    )
    young = {n for n in range(190) if START + n * 100_000 >= (horizon or 0)}
    assert len(young) < 190 - 20
    workspace.retain(least=timedelta(days=1))
    assert numbers_in(workspace, "events") == numbers_in(workspace, "tasks") == set(range(190)), (
        "nothing is deleted on its first day"
    )
    workspace.retain()
    assert (
        numbers_in(workspace, "events") == numbers_in(workspace, "contexts") == set(range(190))
    ), "nothing that is not archived"
    assert numbers_in(workspace, "alerts") == numbers_in(workspace, "tasks") == young | words
    assert requested_rows(workspace) == []
    for outbox in workspace.outboxes.values():
        outbox.flush(chunks)
    workspace.retain()
    for table in ("events", "contexts", "alerts", "tasks"):
        assert numbers_in(workspace, table) == young | words, table
    assert workspace.value("SELECT count(*) FROM revisions") == len(young | words)
    assert requested_rows(workspace) == []
    assert workspace.failed_checks() == []
    workspace.connection.execute(
        "DELETE FROM events WHERE eid = '00000000-0000-0000-0000-0000000000be'"
    )
    assert workspace.failed_checks() == ["settled events are archived exactly once"]


def test_alerts_have_a_retention_of_their_own(workspace: RetentionWorkspace) -> None:
    """Shorter than that of rows: events and contexts stay; longer: alerts stay without their rows.

    An alert that fires, or has an open recall, stays.
    """
    events(workspace, range(190))
    for query in (
        "INSERT INTO alert_notes (alert_id, kind, author, text) SELECT id, 'note', 'ada', 'x' FROM alerts",
        "INSERT INTO judgements SELECT id, '00000000-0000-0000-0000-000000000064', true, 'ada' FROM alerts",
        "UPDATE tasks SET state = 'suspended', ended_at = NULL WHERE id = '00000000-0000-0000-0000-000000000007'",
        "UPDATE alerts SET ends_at = NULL, state = 'firing' WHERE id = '00000000-0000-0000-0000-00000000000c'",
    ):
        workspace.connection.execute(query.encode())
    # The hits of a later event of an alert may be judged, too.
    workspace.connection.execute(
        "UPDATE alerts SET events = 2, last_at = %s WHERE eid = %s",
        (from_micros(START + 50_000), UUID(int=1)),
    )
    workspace.connection.execute(
        "INSERT INTO events (eid, rule, version, ts, fingerprint, key, attributes, settled)"
        " VALUES (%s, 'g/r', '1', %s, 'f0', '{}', '{}', true)",
        (UUID(int=1001), from_micros(START + 50_000)),
    )
    workspace.connection.execute(
        "INSERT INTO judgements VALUES (%s, %s, true, 'ada')", (UUID(int=1001), UUID(int=100))
    )
    # Two messages: of alerts 0 and 180, and of alert 0 alone.
    for message, numbers in ((1, (0, 180)), (2, (0,))):
        workspace.connection.execute(
            "INSERT INTO notifications (id, receiver, group_key, cause, status, content, alert_count, state)"
            " OVERRIDING SYSTEM VALUE VALUES (%s, 'r', 'g', 'new', 'firing', '{}', 1, 'delivered')",
            (message,),
        )
        for number in numbers:
            workspace.connection.execute(
                "INSERT INTO notification_alerts VALUES (%s, %s, 'firing')",
                (message, UUID(int=number + 1)),
            )
    everything = set(range(190))
    newest = workspace.archive.watermark("s")
    assert newest is not None
    keep = timedelta(seconds=5)
    young = {n for n in everything if START + n * 100_000 >= newest - 5_000_000} | {6, 11}
    assert 2 < len(young) < 100
    limited = replace(workspace, settings=_with_alerts_kept(workspace.settings, keep))
    limited.retain(least=timedelta(days=1))
    assert numbers_in(workspace, "alerts") == everything, "nothing is deleted on its first day"
    retention = workspace.retention()  # which another workspace file has been read for since
    assert not retention.run_once(workspace.archive)
    assert numbers_in(workspace, "alerts") == everything, "the file has no retention of alerts"
    retention.keep_alerts(keep)
    while retention.run_once(workspace.archive):
        pass
    for table in ("alerts", "tasks", "judgements"):
        assert numbers_in(workspace, table) == young, table
    assert workspace.value("SELECT count(*) FROM alert_notes") == len(young)
    assert numbers_in(workspace, "events") == everything | {1000}
    assert numbers_in(workspace, "contexts") == everything
    assert [id_ for (id_,) in workspace.connection.execute("SELECT id FROM notifications")] == [1]
    assert requested_rows(workspace) == []
    workspace.maintain_chunks()
    for outbox in workspace.outboxes.values():
        outbox.flush(workspace.archive.chunks)
    replace(workspace, settings=_with_alerts_kept(workspace.settings, timedelta(days=1))).retain()
    assert numbers_in(workspace, "alerts") == young, "their rows are gone"
    assert min(numbers_in(workspace, "events") - {6, 11, 99}) > 20
    assert workspace.failed_checks() == []


def _with_alerts_kept(settings: Settings, keep: timedelta) -> Settings:
    return settings.model_copy(update={"alerts": AlertSettings(keep=keep)})


def counts(corpora: Corpora) -> tuple[int, dict[str, float]]:
    """E, and C_k of each word."""
    index = corpora.load_index("g/r", "1", QUESTION)
    words = [f"t=w{n}" for n in range(6)]
    return len(index), dict(
        zip(
            words,
            index._document_frequencies[index.vocabulary.encode_terms(words)].tolist(),
            strict=True,
        )
    )


def test_event_counts_include_deleted_corpus_entries(workspace: RetentionWorkspace) -> None:
    """For a recall process that ran, was suspended, or starts with or without files: E and C_k are
    equal.
    """
    root = Path(workspace.settings.archive)
    events(workspace, range(60))
    sleeping, following = Corpora(workspace.connection, root), Corpora(workspace.connection, root)
    with patch("recall.corpora._SAVE_MIN_EVENTS", 1):
        assert counts(sleeping)[0] == 60
    events(workspace, range(60, 190))
    everything = counts(following)
    assert everything[0] == 190
    for outbox in workspace.outboxes.values():
        outbox.flush(workspace.archive.chunks)
    workspace.maintain_chunks()
    workspace.retain()
    assert workspace.value("SELECT number FROM corpus_forgotten") > 60
    assert workspace.value("SELECT max(corpus) FROM contexts") == 190
    stored, fresh = Corpora(workspace.connection, root), Corpora(workspace.connection, root)
    for corpora in (following, sleeping, stored):
        assert counts(corpora) == everything
    shutil.rmtree(root / "indexes")
    assert counts(fresh) == everything


def test_replaced_versions_are_deleted(workspace: RetentionWorkspace) -> None:
    """Rows of relations that were valid at no remaining time, and rules stopped long ago."""
    for at in (-(10**12), 0, 4_000_000, 10**12):
        workspace.connection.execute(
            "INSERT INTO relation_versions VALUES ('hosts', '[\"a\"]', %s, '{}')",
            (from_micros(START + at),),
        )
    for version, state, stopped in (
        ("1", "running", None),
        ("2", "stopped", 9),
        ("3", "stopped", 2),
    ):
        values = {"version": version, "state": state, "stopped": stopped}
        for query in (
            "INSERT INTO deployments (rule, version, state, stopped_at) VALUES ('g/r', %(version)s, %(state)s,"
            " clock_timestamp() - make_interval(days => %(stopped)s))",
            "INSERT INTO views (rule, version, chunk) SELECT 'g/r', %(version)s, id FROM generate_series(0, 200) id",
            "INSERT INTO calibrations VALUES ('g/r', %(version)s, 'norm', '{}')",
        ):
            workspace.connection.execute(query.encode(), values)
    workspace.connection.execute(
        "INSERT INTO commands (key, command, target, author, done_at) SELECT 'k' || d, 'refine', '{}', 'ada',"
        " clock_timestamp() - make_interval(days => d) FROM generate_series(1, 20) d"
    )
    workspace.maintain_chunks()
    gone = [
        chunk.id for chunk in Catalog(workspace.connection).chunks() if chunk.state == "expired"
    ]
    workspace.retain()

    def found(query: str) -> list[Any]:
        return [row[0] for row in workspace.connection.execute(query.encode()).fetchall()]

    assert found("SELECT valid_from FROM relation_versions ORDER BY 1") == [
        from_micros(START + 4_000_000),
        from_micros(START + 10**12),
    ]
    views = "SELECT chunk FROM views WHERE version = '{}' ORDER BY 1"
    assert found(views.format(1)) == found(views.format(3)) == list(range(gone[-1] + 1, 201))
    assert found(views.format(2)) == []
    for table in ("calibrations", "deployments"):
        assert found(f"SELECT version FROM {table} ORDER BY 1") == ["1", "3"]
    assert len(found("SELECT key FROM commands")) == 7 - 1


def test_interrupted_retention_is_completed_by_the_next_run(workspace: RetentionWorkspace) -> None:
    """Interrupted after each statement."""
    events(workspace, range(190))
    for outbox in workspace.outboxes.values():
        outbox.flush(workspace.archive.chunks)
    workspace.maintain_chunks()
    account = workspace.stream_counts()
    for at in range(0, 60, 2):
        with (
            patch.object(retention, "_BATCH_ROWS", 7),
            falling(at),
            suppress(psycopg.OperationalError),
        ):
            workspace.retention().run_once(workspace.archive)
        assert workspace.stream_counts() == account
        assert requested_rows(workspace) == []
    workspace.retain()
    assert workspace.failed_checks() == []
    assert len(numbers_in(workspace, "events")) < 100


@contextmanager
def falling(at: int) -> Iterator[None]:
    """PostgreSQL goes away after so many statements."""
    original_execute, done = Connection.execute, 0

    def execute(self: Any, *values: Any, **named: Any) -> Any:
        nonlocal done
        done += 1
        if done > at:
            raise psycopg.OperationalError("away")
        return original_execute(self, *values, **named)

    with patch.object(Connection, "execute", execute):
        yield
