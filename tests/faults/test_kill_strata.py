"""kill -9 of the live process while rules read the events and alerts of other rules: each event is
found once, and what is settled follows from the settled events and alerts of the rules below.
"""

import os
import random
import time
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.faults.harness import Stage, kill, stage

SEED = int(os.environ.get("MOIRAE_FAULT_SEED", "1"))
KILLS = int(os.environ.get("MOIRAE_STRATA_KILLS", "5"))
RULES = """
groups:
- name: g
  rules:
  - {alert: High, expr: "SELECT host, n, ts, cpu FROM cpu WHERE cpu > 97", key: [host, n], keep_firing_for: 1s}
  - {alert: Highest, expr: "SELECT host, n, ts FROM events.High WHERE cpu > 99", key: [host, n], keep_firing_for: 1s}
  - alert: Often
    expr: SELECT host, window.end AS ts, count(*) AS c FROM events.Highest GROUP BY host, window(ts, '2 seconds')
    keep_firing_for: 1s
  - alert: Storm
    expr: SELECT window.end AS ts, sum(c) AS c FROM events.Often GROUP BY window(ts, '4 seconds')
    keep_firing_for: 1s
  - alert: Fired
    expr: SELECT ts, key['host'] AS host FROM alerts WHERE rule IN ('g/Often', 'g/Storm') AND state = 'firing'
    keep_firing_for: 1s
"""
ROWS_PER_SECOND = 500


@pytest.mark.faults
@pytest.mark.timeout(60 + 120 * KILLS)
def test_each_event_is_found_once_in_all_strata() -> None:
    print(f"seed {SEED}")
    rng = random.Random(SEED)
    with stage(SEED, ROWS_PER_SECOND, rules=RULES) as system:
        system.up()
        system.producer.start()
        for number in range(KILLS):
            before = len(events(system, "Fired", settled=False))
            system.wait(lambda n=before: len(events(system, "Fired", settled=False)) > n, 240)
            time.sleep(rng.uniform(0, 2.5))
            system.wait(lambda: kill(system.process("live")), 240)
            print(f"kill {number + 1}: {before} events over alerts before", flush=True)
        system.producer.stop()
        assert system.down() < 60
        system.drain()
        high = events(system, "High")
        expected = {(row["host"], row["n"]) for row in system.producer.rows if row["cpu"] > 97}
        late = len(expected) - len(high)
        assert {(row["host"], row["n"]) for _, row in high} <= expected
        assert late < len(expected) / 2, "most rows are on time"
        highest = sorted((ts, row["host"]) for ts, row in high if row["cpu"] > 99)
        assert sorted((ts, row["host"]) for ts, row in events(system, "Highest")) == highest
        often = Counter((_end(ts, 2), host) for ts, host in highest)
        found = {(ts, row["host"]): row["c"] for ts, row in events(system, "Often")}
        assert found == often
        storm: Counter[datetime] = Counter()
        for (ts, _), count in often.items():
            storm[_end(ts, 4)] += count
        assert {ts: row["c"] for ts, row in events(system, "Storm")} == storm
        fired = system.connection.execute(
            "SELECT DISTINCT fired_at, key->>'host' FROM alerts WHERE rule IN ('g/Often', 'g/Storm')"
            " AND fired_at IS NOT NULL AND state <> 'withdrawn'"
        ).fetchall()
        over_alerts = [(ts, row["host"]) for ts, row in events(system, "Fired")]
        assert sorted(over_alerts, key=str) == sorted(fired, key=str)
        print(f"{len(high)} events, {len(found)} windows, {len(storm)} storms, {late} late")


def events(system: Stage, alert: str, settled: bool = True) -> list[tuple[datetime, Any]]:
    """Times and attributes of the events of a rule, oldest first."""
    query = "SELECT ts, attributes FROM events WHERE rule = %s AND settled >= %s ORDER BY ts, eid"
    rows = system.connection.execute(query, (f"g/{alert}", settled)).fetchall()
    assert len(rows) == len({(ts, str(sorted(row.items(), key=str))) for ts, row in rows})
    return rows


def _end(ts: datetime, seconds: int) -> datetime:
    """The end of the window that has a time."""
    return datetime.fromtimestamp((int(ts.timestamp()) // seconds + 1) * seconds, UTC)
