"""kill -9 of the recall process during its tasks: the answers are those of an undisturbed run."""

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from moirae.config.settings import load_settings
from moirae.runtime import database
from tests.faults import harness
from tests.faults.recalling import Recaller

SEED = int(os.environ.get("MOIRAE_FAULT_SEED", "1"))
START = datetime(2026, 1, 1, tzinfo=UTC)

# Small chunks, and Spark for all of it: a task takes long, so that it is killed in its midst.
WORKSPACE = """
home: .moirae
streams:
  cpu:
    columns: {ts: timestamp, host: string, slice: string, cpu: double}
    time: ts
    key: [host]
    source: {files: landing/cpu/*.jsonl}
chunks: {rows: 1600, age: 1h}
recall: {history_queries: 2, engine: spark}
rules: [rules.yaml]
"""
RULES = """
groups:
- name: g
  rules:
  - alert: Hot
    expr: SELECT host, ts, cpu FROM cpu WHERE cpu > 97
    key: [host]
    context:
      running: {sql: SELECT slice FROM cpu WHERE host = event.host, within: 10m}
    recall:
      norm: {sql: "SELECT avg(h.cpu) AS mean, stddev(h.cpu) AS sd, count(*) AS n FROM cpu h WHERE h.host = event.host"}
      busy: {sql: "SELECT h.slice AS slice, count(*) AS n FROM cpu h GROUP BY h.slice HAVING count(*) > 1"}
      similar: {similar: {k: 5}}
"""
ROWS_PER_EVENT = 700
RECALLS = 3  # of each event


@contextmanager
def _workspace(events: int) -> Iterator[Path]:
    """Rows of six hours for each event, archived and evaluated; the recalls wait."""
    with harness.workspace(WORKSPACE, RULES) as root:
        (root / "landing" / "cpu").mkdir(parents=True)
        rng = random.Random(SEED)
        rows = [
            {
                "ts": (START + timedelta(seconds=30 * n)).isoformat(),
                "host": f"h{n % 4}",
                "slice": f"s{rng.randrange(n // 600 + 2)}",
                "cpu": 99.0 if n % ROWS_PER_EVENT == 650 else round(rng.uniform(5, 90), 3),
            }
            for n in range(ROWS_PER_EVENT * events)
        ]
        (root / "landing" / "cpu" / "all.jsonl").write_text(
            "".join(json.dumps(row) + "\n" for row in rows)
        )
        command = [sys.executable, "-m", "moirae", "run", "live", "--drain", "--apply-rules"]
        subprocess.run(
            [*command, "--workspace", str(root / "moirae.yaml")], check=True, timeout=600
        )
        yield root


def _standing(connection: Connection[Any]) -> tuple[int, int]:
    """Pieces read so far over all SQL tasks, and tasks that go on."""
    row = connection.execute(
        "SELECT coalesce(sum(next) FILTER (WHERE request->>'kind' = 'sql'), 0), "
        "count(*) FILTER (WHERE state IN ('waiting', 'running')) FROM tasks"
    ).fetchone()
    assert row is not None
    return int(row[0]), int(row[1])


def _answers(connection: Connection[Any]) -> dict[tuple[str, str], Any]:
    rows = connection.execute(
        "SELECT t.eid::text, t.recall, t.state, r.number, r.final, r.coverage, r.answer, "
        "t.revision, "
        "(SELECT count(*) FROM revisions WHERE task = t.id) FROM tasks t "
        "JOIN revisions r ON r.task = t.id AND r.number = t.revision"
    ).fetchall()
    answers = {}
    for eid, recall, state, number, final, coverage, answer, revision, count in rows:
        assert (state, final, number) == ("done", True, revision), recall
        assert count == revision, "revisions have no gap"
        answers[eid, recall] = (coverage, answer)
    return answers


def _finish(root: Path, connection: Connection[Any]) -> dict[tuple[str, str], Any]:
    process = Recaller(root / "moirae.yaml")
    deadline = time.monotonic() + 600
    while _standing(connection)[1] and time.monotonic() < deadline:
        process.look()
        time.sleep(0.2)
    process.end()
    assert _standing(connection)[1] == 0
    lost = "SELECT recall, eid::text, state, next, fence, error FROM tasks WHERE state <> 'done'"
    assert connection.execute(lost).fetchall() == []
    return _answers(connection)


@pytest.mark.parametrize(
    ("kills", "events"),
    [
        pytest.param(2, 3, marks=pytest.mark.slow),
        pytest.param(10, 8, marks=pytest.mark.faults),
    ],
)
@pytest.mark.timeout(3000)
def test_killed_recall_process_changes_no_answer(kills: int, events: int) -> None:
    rng = random.Random(SEED)
    with (
        _workspace(events) as workspace,
        database.connect_database(
            load_settings(workspace / "moirae.yaml", {}), "test"
        ) as connection,
    ):
        connection.execute("UPDATE tasks SET level = 0")
        undisturbed = _finish(workspace, connection)
        assert len(undisturbed) == RECALLS * events
        connection.execute("DELETE FROM revisions")
        connection.execute(
            "UPDATE tasks SET state = 'waiting', level = 0, pieces = NULL, corpus = NULL, next = "
            "0, failed = 0, "
            "held = NULL, revision = 0, rows = 0, first_at = NULL, ended_at = NULL, lease = "
            "NULL, tries = 0"
        )
        in_midst = 0
        for number in range(kills):
            before = _standing(connection)[0]
            process = Recaller(workspace / "moirae.yaml")
            deadline = time.monotonic() + 300
            # So often that no task is killed over its first piece three times, as a new process
            # begins with it.
            while _standing(connection)[0] <= before + 2 and _standing(connection)[1]:
                assert time.monotonic() < deadline, "nothing is read"
                time.sleep(0.05)
            time.sleep(rng.uniform(0, 0.5))
            process.kill()
            read, open_ = _standing(connection)
            in_midst += read > before and open_ > 0
            print(
                f"kill {number + 1}: {read - before} more pieces read, {open_} tasks go on",
                flush=True,
            )
        assert in_midst > kills // 2, "few kills met tasks that went on"
        assert _finish(workspace, connection) == undisturbed
        counted = connection.execute(
            "SELECT sum((r.answer->0->>'n')::int), count(*) FROM tasks t JOIN revisions r ON "
            "r.task = t.id "
            "AND r.number = t.revision WHERE t.recall = 'norm'"
        ).fetchone()
        print(
            f"{kills} kills, {in_midst} while tasks went on; {len(undisturbed)} answers equal; "
            f"norm counted {counted}"
        )
