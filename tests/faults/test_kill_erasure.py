"""Erasures are killed at any moment, while rows arrive, are evaluated and recalled: once one has
ended, no byte of the erased values is in any file, and everything else is as it was.
"""

import json
import os
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from tests.faults.commands import kill_command, run_command
from tests.faults.harness import Stage, workspace
from tests.integration.test_erasure import files_with
from tests.landing import put_file

SEED = int(os.environ.get("MOIRAE_FAULT_SEED", "1"))
KILLS = int(os.environ.get("MOIRAE_FAULT_KILLS", "20"))
LONGEST = 12.0  # seconds until a kill
PAST_ROWS = 800
WORKSPACE = """
home: .moirae
server: {listen: "127.0.0.1:0"}
streams:
  cpu:
    columns: {ts: timestamp, host: string, n: bigint, cpu: double, user: string, text: string}
    time: ts
    id: [host, n]
    key: [host]
    lateness: 2s
    source: {files: landing/cpu/*.jsonl}
chunks: {rows: 400, age: 10m}
recall: {engine: local}
rules: [rules.yaml]
"""
RULES = """
groups:
- name: load
  rules:
  - alert: Denied
    expr: SELECT host, n, ts, user, text FROM cpu WHERE cpu > 98
    key: [host, user]
    id: [n]
    keep_firing_for: 3s
    annotations: {summary: "denied: {{ event.user }}"}
    context:
      texts: {sql: "SELECT c.text FROM cpu c WHERE c.host = event.host", within: 2s}
    recall:
      before: {sql: "SELECT h.user, count(*) AS n FROM cpu h WHERE h.host = event.host GROUP BY h.user", range: 1h}
      alike: {similar: {contexts: [texts], k: 3}}
"""

pytestmark = [pytest.mark.faults, pytest.mark.timeout(3600)]


def secret(number: int) -> str:
    return f"erase-me-{number:03d}-7f3a91"


def past_rows() -> list[dict[str, Any]]:
    """Rows of half an hour, of all chunks; each secret is in several of them, some with an event."""
    start = datetime.now(UTC) - timedelta(minutes=30)
    rows: list[dict[str, Any]] = []
    for number in range(PAST_ROWS):
        user = f"user {number % 7}"
        if number % 5 == 0:
            user = secret(number // 5 % KILLS)
        rows.append(
            {
                "ts": (start + timedelta(milliseconds=900 * number)).isoformat(),
                "host": f"h{number % 4}",
                "n": -number - 1,
                "cpu": 99.0 if number % 25 == 0 else 20.0,
                "user": user,
                "text": f"login of {user} as {number}",
            }
        )
    return rows


def archived(root: Path) -> dict[int, str]:
    table = DeltaTable(root / ".moirae" / "archive" / "streams" / "cpu").to_pyarrow_table(
        columns=["n", "user"]
    )
    rows = table.to_pylist()
    assert len({row["n"] for row in rows}) == len(rows), "a row is archived twice"
    return {row["n"]: row["user"] for row in rows}


def test_erasures_are_killed_and_finished(tmp_path: Path) -> None:
    print(f"seed {SEED}")
    rng = random.Random(SEED)
    rows = past_rows()
    with workspace(WORKSPACE, RULES) as root:
        folder = root / "landing" / "cpu"
        folder.mkdir(parents=True)
        for start in range(0, PAST_ROWS, 100):
            lines = "".join(json.dumps(row) + "\n" for row in rows[start : start + 100])
            put_file(folder / f"00000000-{start:05d}.jsonl", lines)
        system = Stage(root, SEED, rate=15)
        try:
            system.drain()
            assert files_with(root / ".moirae", secret(0))
            system.up()
            system.producer.start()
            ended = 0
            for number in range(KILLS):
                where = ("--where", f"user = '{secret(number)}'")
                ended += kill_command(root, rng.uniform(0.5, LONGEST), "archive", "erase", *where)
                # What was begun is finished; what was not is chosen again.
                run_command(root, "archive", "erase", *where)
            system.producer.stop()
            system.down()
            system.connection.close()
            # Each erasure has begun open recalls again: most of them end only here.
            run_command(root, "up", "--drain", timeout=1_800)
            left = [files_with(root / ".moirae", secret(number)) for number in range(KILLS)]
            assert left == [[]] * KILLS
            assert files_with(root / ".moirae", "erase-me") == []
            expected = {row["n"]: row["user"] for row in rows if "erase-me" not in row["user"]}
            expected |= {row["n"]: None for row in system.producer.rows}
            assert archived(root) == expected
            run_command(root, "doctor")
            status = json.loads(run_command(root, "status", "-o", "json"))
            assert status["problems"] == []
            counts = status["streams"]["cpu"]
            assert counts["erased"] == sum("erase-me" in row["user"] for row in rows)
            assert counts["accounting"]["read"] == len(rows) + len(system.producer.rows)
            print(f"{ended} of {KILLS} erasures ended before they were killed")
        finally:
            system.end()
