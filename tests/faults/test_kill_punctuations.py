"""kill -9 of the live process while a source closes event time, of the stream and of single keys:
which rows are late follows from the units before them, however often a unit is read.
"""

import json
import os
import random
import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest
from deltalake import DeltaTable

from tests.faults.harness import HOSTS, RULES, WORKSPACE, Producer, Stage, kill, workspace

SEED = int(os.environ.get("MOIRAE_FAULT_SEED", "1"))
KILLS = int(os.environ.get("MOIRAE_FAULT_KILLS", "4"))
LATENESS = timedelta(seconds=2)
SETTINGS = WORKSPACE.replace(
    "    lateness: 2s\n", "    lateness: 2s\n    idle: 1h\n    punctuation: closed\n"
)


class ClosingProducer(Producer):
    """Closes time, and writes some rows from before it."""

    def _row(self, rng: random.Random, now: datetime, number: int, i: int) -> dict[str, Any]:
        if rng.random() < 0.05:
            now -= timedelta(seconds=rng.uniform(0, 3))
        return super()._row(rng, now, number, i)

    def _further_records(self, rng: random.Random, now: datetime) -> Sequence[dict[str, Any]]:
        records: list[dict[str, Any]] = []
        if rng.random() < 0.1:
            closed = now - timedelta(seconds=rng.uniform(0.2, 1.5))
            records.append({"closed": closed.isoformat()})
        for host in rng.sample(range(HOSTS), rng.choice([0, 0, 1, 2])):
            records.append({"closed": now.isoformat(), "host": f"h{host}"})
        return records


@pytest.mark.faults
@pytest.mark.timeout(120 + 60 * KILLS)
@pytest.mark.parametrize("engine", ["local", "spark"])
def test_late_rows_are_the_same_when_units_are_read_again(engine: str) -> None:
    print(f"seed {SEED}")
    rng = random.Random(SEED)
    with workspace(f"{SETTINGS}engine: {engine}\n", RULES) as root:
        system = Stage(root, SEED)
        system.producer = ClosingProducer(root / "landing" / "cpu", 500, SEED)
        try:
            system.up()
            system.producer.start()
            for _ in range(KILLS):
                before = system.archived_units()
                system.wait(lambda n=before: system.archived_units() > n, 120)  # type: ignore[misc]
                time.sleep(rng.uniform(0, 2))
                system.wait(lambda: kill(system.process("live")), 60)
            system.producer.stop()
            assert system.down() < 60
            system.drain()
            figures = system.check()
            expected = expected_late_rows(system)
            table = DeltaTable(root / ".moirae" / "archive" / "streams" / "cpu").to_pyarrow_table()
            late = {(row["host"], row["n"]) for row in table.to_pylist() if row["_late"]}
            assert late == expected
            assert expected, "some rows are late"
            query = "SELECT sum(late), sum(punctuations) FROM units"
            counted = system.connection.execute(query).fetchone()
            assert counted is not None and counted[0] == len(expected) and counted[1]
            print(f"{figures}, {counted[1]} records that close time")
        finally:
            system.end()


def expected_late_rows(system: Stage) -> set[tuple[str, int]]:
    """Rows that are late compared with the units before theirs, in the order of the ledger."""
    late: set[tuple[str, int]] = set()
    newest = closed = datetime.fromisoformat("1970-01-01T00:00:00Z")
    closed_keys: dict[str, datetime] = {}
    for (unit,) in system.connection.execute("SELECT unit FROM units ORDER BY id").fetchall():
        lines = (system.root / "landing" / "cpu" / unit.rpartition("/")[2]).read_text().splitlines()
        records = list(map(json.loads, lines))
        bound = max(newest - LATENESS, closed)
        for row in records:
            if "ts" in row:
                ts = datetime.fromisoformat(row["ts"])
                if ts < max(bound, closed_keys.get(row["host"], bound)):
                    late.add((row["host"], row["n"]))
        for record in records:
            if "ts" in record:
                newest = max(newest, datetime.fromisoformat(record["ts"]))
            elif "host" in record:
                ts = datetime.fromisoformat(record["closed"])
                closed_keys[record["host"]] = max(ts, closed_keys.get(record["host"], ts))
            else:
                closed = max(closed, datetime.fromisoformat(record["closed"]))
    return late
