"""Replay of SQL answers: equal after later rows and rewritten files, or a report of what is gone."""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pytest
from psycopg.types.json import Jsonb
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from archiver.chunks.maintenance import ChunkMaintenance
from archiver.ingest.writer import ArchiveWriter
from moirae.cli import app
from recall.query import sql_names
from recall.replay.outcome import ReplayedAnswer, replay
from recall.replay.sql_answers import SqlReplayer
from sql.archive import RelationGateway
from sql.events import ContextGateway, NewContextRow
from tests.integration.history import (
    COUNT,
    SCHEMA,
    START,
    History,
    history,
    no_relations,
    no_spark,
    run_until,
)
from tests.integration.test_late_rows import ROWS, ingest_rows, open_writer, run_maintenance

_GROUPS = (
    "SELECT h.host AS host, avg(h.v) AS mean, count(DISTINCT h.v) AS n FROM past h GROUP BY h.host"
)
_NEWEST = "SELECT h.v AS v, h.ts AS at FROM past h WHERE h.host = event.host LIMIT 5"


@pytest.fixture
def past() -> Iterator[History]:
    """Four full chunks and what follows them."""
    with history(5, ROWS) as new_history:
        yield new_history


def again(
    past: History,
    task: UUID,
    session: Callable[[], SparkSession] | None = None,
    relations: Callable[[str], pa.Table] = no_relations,
) -> ReplayedAnswer:
    """By Spark alone where there is a session."""
    choice, root = ("spark" if session else "auto"), Path(past.settings.archive)
    asks = SqlReplayer(past.connection, root, [SCHEMA], session or no_spark, relations, choice)  # type: ignore[arg-type]
    (replayed,) = replay(past.connection, task, {"sql": asks})
    return replayed


def command(past: History, task: UUID) -> int:
    """The exit code of `recalls repeat`."""
    workspace = str(Path(past.settings.home).parent / "moirae.yaml")
    return (
        CliRunner()
        .invoke(app, ["recalls", "repeat", str(task), "--workspace", workspace])
        .exit_code
    )


def answered(past: History, *sqls: str) -> list[UUID]:
    """Tasks that have come to their end."""
    tasks = [
        past.add_task(number, sql, rule=f"g/{sql}") for number, sql in enumerate(sqls, start=1)
    ]
    with past.manager() as manager:
        run_until(manager, lambda: all(past.task(task)["state"] == "done" for task in tasks))
    return tasks


def test_replayed_answer_is_unchanged_by_later_rows(past: History) -> None:
    """Late and new rows, clustered and vacuumed files; then in a new process."""
    writer = open_writer(past)
    tasks = answered(past, COUNT, _GROUPS)
    before = [past.revisions(task)[-1]["answer"] for task in tasks]
    read = set(writer.tables["past"].local_paths())
    for number in range(20):
        rows = [(350 + number, "h0", 1000), (450 + number, "h0", 1005), (3, "late", number)]
        ingest_rows(writer, f"late {number}", rows)
    replayed_answers = [again(past, task) for task in tasks]
    assert [(one.equal, one.why) for one in replayed_answers] == [(True, None)] * 2
    with rolled(past, writer, 10_000):
        _swept(read)
    later = answered(past, "SELECT count(*) AS n FROM past h")
    for task, expected in zip(tasks, before, strict=True):
        one = again(past, task)
        assert (one.equal, one.why, one.answer) == (True, None, expected)
        (appends,) = one.appends.values()
        assert appends == (5, 5)
    assert again(past, *later).answer == [{"n": len(past.rows) + 60}]


@contextmanager
def rolled(past: History, writer: ArchiveWriter, keep: int) -> Iterator[None]:
    """Chunks are closed, clustered and expired, `keep` seconds of event time; what is replaced
    leaves the disk.
    """
    roller = ChunkMaintenance(Path(past.settings.archive), [SCHEMA], 0.4)
    try:
        run_maintenance(past, writer, roller, keep)
        yield
    finally:
        roller.stop()


def _swept(files: set[str]) -> None:
    """Until the closed chunks have none of these files any more."""
    deadline = time.monotonic() + 60
    while any(Path(file).exists() for file in files if "chunk=4" not in file):
        assert time.monotonic() < deadline, "the files stay"
        time.sleep(0.1)


def test_replay_reads_each_piece_at_its_original_snapshot(past: History) -> None:
    """Rows appended between two pieces of one recall are in the second piece only."""
    writer, task = open_writer(past), past.add_task(1)
    with past.manager() as manager:
        run_until(manager, lambda: past.task(task)["next"] > 0)
        done = past.task(task)["next"]
        ingest_rows(writer, "late", [(3, "h0", 1), (len(past.rows) - 3, "h0", 1)])
        run_until(manager, lambda: past.task(task)["state"] == "done")
    pieces = len(past.task(task)["pieces"])
    assert 0 < done < pieces
    one = again(past, task)
    assert (one.equal, one.answer) == (
        True,
        [{"n": past.expected_answer()["n"] + 1, "total": past.expected_answer()["total"] + 1}],
    )
    assert one.appends == {"past": (5, 6)}


def test_replay_reports_expired_inputs_with_time(past: History) -> None:
    older, newest = past.add_task(1), past.add_task(2, rule="g/r2")
    past.connection.execute(
        "UPDATE tasks SET request = request || '{\"range\": 150000000}' WHERE id = %s", (newest,)
    )
    with past.manager() as manager:
        run_until(
            manager, lambda: all(past.task(task)["state"] == "done" for task in (older, newest))
        )
    with rolled(past, open_writer(past), 200):
        one = again(past, older)
        assert one.equal is None and one.why is not None
        assert re.fullmatch(
            r"chunk 0 \(event time up to 2026-01-01 00:01:39Z\) expired at \d{4}-.*Z", one.why
        )
        assert command(past, older) == 3
        assert again(past, newest).equal is True and command(past, newest) == 0
    past.connection.execute("DELETE FROM chunks WHERE id = 0")
    assert again(past, older).why == "chunk 0 has expired and its record was removed"
    past.connection.execute("UPDATE tasks SET seen = '[]' WHERE id = %s", (newest,))
    assert (
        again(past, newest).why
        == "it was answered by a version that did not record which rows it read"
    )


def test_replay_reports_a_different_answer(past: History) -> None:
    (task,) = answered(past, COUNT)
    past.connection.execute("""UPDATE revisions SET answer = '[{"n": 1, "total": 2}]'""")
    one = again(past, task)
    assert (
        one.equal is False and one.why == f"row 1: n was 1, now it is {past.expected_answer()['n']}"
    )
    assert command(past, task) == 1


@pytest.mark.slow
@pytest.mark.services
def test_replay_in_spark_gives_the_recorded_answer(past: History, spark: SparkSession) -> None:
    """Over files that were clustered with later rows; and rows without aggregates, which only Spark
    reads.
    """
    writer, tasks = open_writer(past), answered(past, COUNT, _GROUPS)
    plain = past.add_task(9, _NEWEST, rule="g/r9")
    with past.manager(session=spark.newSession) as manager:
        run_until(manager, lambda: past.task(plain)["state"] == "done")
    for number in range(20):
        ingest_rows(writer, f"late {number}", [(350, "h0", number), (450, "h0", number)])
    with rolled(past, writer, 10_000):
        for task in (*tasks, plain):
            one = again(past, task, spark.newSession)
            assert (one.equal, one.why) == (True, None)
    assert len(one.answer) == 5


@pytest.mark.slow
@pytest.mark.services
def test_replay_attributes_a_difference_to_changed_inputs(
    past: History, spark: SparkSession
) -> None:
    """An answer that used contexts of the event or a relation is not called different if these
    changed.
    """
    own = "SELECT sum(h.v) AS n FROM past h JOIN who w ON w.host = h.host"
    related = "SELECT sum(h.v) AS n FROM past h JOIN sites s ON s.host = h.host"

    def put(host: str, settled: bool) -> None:
        """As live does."""
        context = NewContextRow(
            rule="g/own",
            version="1",
            eid=UUID(int=1),
            ts=START,
            contexts={"who": [{"host": host}]},
            surroundings={},
            cut={},
            settled=settled,
        )
        ContextGateway(past.connection).put([context])

    def relate(host: str) -> None:
        RelationGateway(past.connection).put_version(
            "sites", ["a"], row={"host": host}, valid_from=START
        )

    def relations(_: str) -> pa.Table:
        host_rows = past.connection.execute("SELECT row->>'host' FROM relation_versions").fetchall()
        moments = {sql_names.VALID_FROM: [START], sql_names.VALID_TO: [START + timedelta(days=9)]}
        return pa.table({"host": pa.array([host for (host,) in host_rows]), **moments})

    put("h0", settled=False)
    relate("h1")
    tasks = [past.add_task(1, own, rule="g/own"), past.add_task(2, related, rule="g/related")]
    further = [{"own": {"who": {"host": "string"}}}, {"relations": ["sites"]}]
    for task, condition in zip(tasks, further, strict=True):
        past.connection.execute(
            "UPDATE tasks SET request = request || %s WHERE id = %s", (Jsonb(condition), task)
        )
    with past.manager(session=spark.newSession, relations=relations) as manager:
        run_until(manager, lambda: all(past.task(task)["state"] == "done" for task in tasks))
    assert past.revisions(tasks[0])[-1]["answer"] == [{"n": past.expected_answer(0)["total"]}]
    assert past.revisions(tasks[1])[-1]["answer"] == [{"n": past.expected_answer(1)["total"]}]
    put("h0", settled=False)
    relate("h1")
    assert [again(past, task, spark.newSession, relations).equal for task in tasks] == [True, True]
    put("h2", settled=True)
    relate("h2")
    first, second = (again(past, task, spark.newSession, relations) for task in tasks)
    assert first.equal is None and first.why is not None
    assert first.why.startswith("the event's contexts changed at 20")
    assert second.equal is None and second.why is not None
    assert second.why.startswith("the relation sites changed for the event's time at 20")
