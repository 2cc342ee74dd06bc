"""A source closes event time for one key: its windows close at once, and its absence is known."""

import json
from datetime import timedelta

import pytest

from archiver.formats import JSONL
from archiver.ingest.source_units import SourceUnit
from tests.property.world import START, World

pytestmark = pytest.mark.services

RULES = """
groups:
- name: g
  derived:
  - stream: loads
    expr: SELECT host, window.end AS ts, count(*) AS c FROM a GROUP BY host, window(ts, '30 seconds')
  rules:
  - alert: Busy
    expr: SELECT host, window.end AS ts, avg(v) AS v FROM a GROUP BY host, window(ts, '1 minute')
  - alert: Loaded
    expr: SELECT host, window.end AS ts, sum(c) AS v FROM loads GROUP BY host, window(ts, '1 minute')
  - alert: Total
    expr: SELECT max(host) AS host, window.end AS ts, sum(v) AS v FROM a GROUP BY window(ts, '1 minute')
  - {alert: Silent, absent: 1m, stream: a, key: [host]}
"""


def ingest(world: World, *records: tuple[int, str] | tuple[int, str, float]) -> None:
    """A batch: rows of second, host and v, and closed times of second and host."""
    count = world.connection.execute("SELECT count(*) FROM units").fetchone()
    assert count is not None
    lines = []
    for number, (second, host, *v) in enumerate(records):
        ts = (START + timedelta(seconds=second)).isoformat()
        record = {"ts": ts, "v": v[0], "n": 100 * count[0] + number} if v else {"closed": ts}
        lines.append(json.dumps({"host": host, **record}).encode())
    unit = SourceUnit("a", f"u{count[0]}", JSONL, lambda: iter(lines))
    world.ingest([unit], at_once=True)


def events(world: World, settled: bool | None = None) -> list[tuple[str, str, int]]:
    """Rule, host and second of events, detected ones too."""
    query = "SELECT rule, key->>'host', ts FROM events WHERE settled = %s OR %s::bool IS NULL"
    rows = world.connection.execute(query, (settled, settled)).fetchall()
    return sorted((rule, host, int((ts - START).total_seconds())) for rule, host, ts in rows)


COMPLETE = [("g/Busy", "h0", 60), ("g/Loaded", "h0", 60), ("g/Silent", "h0", 70)]


def test_windows_of_a_closed_key_close_at_once(world: World) -> None:
    ingest(world, (10, "h0", 80.0), (15, "h1", 1.0))
    ingest(world, (20, "h0", 40.0))
    assert events(world) == []
    ingest(world, (60, "h0"))
    assert events(world) == COMPLETE[:2]
    values = world.connection.execute("SELECT attributes->>'v' FROM events ORDER BY rule")
    assert [float(v) for (v,) in values.fetchall()] == [60.0, 2.0]
    states = world.connection.execute("SELECT DISTINCT state, key->>'host' FROM alerts")
    assert states.fetchall() == [("provisional", "h0")]


def test_absence_of_a_closed_key_is_known_at_once(world: World) -> None:
    ingest(world, (10, "h0", 80.0), (15, "h1", 1.0))
    ingest(world, (70, "h0"))
    assert events(world) == COMPLETE[:2]
    ingest(world, (71, "h0"))
    assert events(world) == COMPLETE


def test_rows_before_the_closed_time_of_their_key_are_late(world: World) -> None:
    ingest(world, (10, "h0", 80.0), (15, "h1", 1.0))
    ingest(world, (71, "h0"))
    ingest(world, (30, "h0", 0.0), (31, "h1", 1.0), (71, "h0", 5.0))
    rows = world.rows("a").to_pylist()
    late = {(int((row["ts"] - START).total_seconds()), row["host"]) for row in rows if row["_late"]}
    assert late == {(30, "h0")}
    counted = world.connection.execute("SELECT sum(late), sum(punctuations) FROM units").fetchone()
    assert counted == (1, 1)
    assert events(world) == COMPLETE
    ingest(world, (200, "h2", 1.0))  # the watermark passes: what was detected is settled
    assert set(COMPLETE) <= set(events(world, settled=True))
    assert world.connection.execute("SELECT count(*) FROM closed_keys").fetchone() == (0,)


def test_closed_keys_are_known_after_a_restart(world: World) -> None:
    ingest(world, (10, "h0", 80.0), (15, "h1", 1.0))
    ingest(world, (71, "h0"))
    world.connection.execute("DELETE FROM events")
    world.reopen()
    assert events(world) == COMPLETE
    ingest(world, (30, "h0", 0.0), (31, "h1", 1.0))
    assert world.connection.execute("SELECT sum(late) FROM units").fetchone() == (1,)
