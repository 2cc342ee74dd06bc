"""kill -9 of the live and the recall process while rules read the stream of a recall: each revision
is seen once, and what is settled follows from the final rows.
"""

import os
import random
import time
from typing import Any

import pytest

from tests.faults.harness import Stage, kill, stage

SEED = int(os.environ.get("MOIRAE_FAULT_SEED", "1"))
RULES = """
groups:
- name: g
  derived:
  - {stream: usual, expr: "SELECT ts, host, n, mean FROM means WHERE mean >= 50"}
  rules:
  - alert: High
    expr: SELECT host, n, ts, cpu FROM cpu WHERE cpu > 99
    key: [host, n]
    keep_firing_for: 1s
    recall:
      norm:
        sql: SELECT avg(h.cpu) AS mean, count(*) AS rows FROM cpu h WHERE h.host = event.host
        range: 1h
        every: 100ms
        stream: means
  - alert: Usual
    expr: SELECT ts, host, n, mean FROM usual
    key: [host, n]
    keep_firing_for: 1s
  - alert: Revised
    expr: SELECT ts, host, n, seq, op FROM means_revisions WHERE op <> 'boundary'
    key: [host, n]
    id: [seq]
"""
ROWS_PER_SECOND = 200  # about two events a second
_REVISIONS = """
SELECT r.seq, r.op FROM row_revisions r JOIN revision_streams s ON s.id = r.stream
WHERE s.rule = 'g/High' AND s.name = 'norm' AND r.op <> 'boundary' ORDER BY r.seq
"""
_REVISIONS_SEEN = """
SELECT (attributes->>'seq')::bigint, attributes->>'op' FROM events
WHERE rule = 'g/Revised' AND settled ORDER BY 1
"""
_FINAL_MEANS = """
SELECT e.event->'key'->>'n', (r.row->>'mean')::float8 FROM (
    SELECT DISTINCT ON (r.eid, r.row_key) r.eid, r.op, r.row FROM row_revisions r
    JOIN revision_streams s ON s.id = r.stream AND s.rule = 'g/High' AND s.name = 'norm'
    WHERE r.op <> 'boundary' ORDER BY r.eid, r.row_key, r.seq DESC) r
JOIN recalled_events e ON e.eid = r.eid AND e.rule = 'g/High'
WHERE r.op <> 'delete' AND (r.row->>'mean')::float8 >= 50 ORDER BY 1
"""
_MEANS_SEEN = """
SELECT key->>'n', (attributes->>'mean')::float8 FROM events
WHERE rule = 'g/Usual' AND settled ORDER BY 1
"""


def _rows(system: Stage, query: str) -> list[tuple[Any, ...]]:
    return system.connection.execute(query.encode()).fetchall()


@pytest.mark.faults
@pytest.mark.timeout(2400)
def test_each_revision_is_seen_once() -> None:
    print(f"seed {SEED}")
    rng = random.Random(SEED)
    with stage(SEED, ROWS_PER_SECOND, rules=RULES) as system:
        system.up()
        system.producer.start()
        for number in range(10):
            before = len(_rows(system, _REVISIONS))
            system.wait(lambda before=before: len(_rows(system, _REVISIONS)) > before, 240)
            time.sleep(rng.uniform(0, 2.5))
            role = ("recall", "live")[number % 2]
            system.wait(lambda role=role: kill(system.process(role)), 240)
            print(f"kill {number + 1} of {role}: {before} revisions before", flush=True)
        before = len(_rows(system, _REVISIONS))
        system.wait(lambda: len(_rows(system, _REVISIONS)) > before, 240)
        system.producer.stop()
        assert system.down() < 60
        system.drain()
        revisions = _rows(system, _REVISIONS)
        assert {op for _, op in revisions} >= {"insert", "update"}
        assert _rows(system, _REVISIONS_SEEN) == revisions
        means = _rows(system, _FINAL_MEANS)
        assert means
        assert _rows(system, _MEANS_SEEN) == means
        print(f"{len(revisions)} revisions, {len(means)} events of the final rows")
