"""kill -9 of the server and of the live process while rows are posted: acknowledged rows are
archived once.
"""

import json
import os
import random
import subprocess
import sys
import time
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from moirae.server import tokens
from tests.faults.harness import RULES, Stage, kill
from tests.faults.posting import posted

SEED = int(os.environ.get("MOIRAE_FAULT_SEED", "1"))


def _posted(system: Stage) -> int:
    row = system.connection.execute(
        "SELECT count(*) FROM units WHERE done AND unit LIKE 'push-%'"
    ).fetchone()
    assert row is not None
    return int(row[0])


def _moirae(system: Stage, *arguments: str) -> tuple[int, Any]:
    """A command's exit code and what it printed."""
    command = [
        sys.executable,
        "-m",
        "moirae",
        *arguments,
        "-o",
        "json",
        "--workspace",
        str(system.root / "moirae.yaml"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250, check=False)
    return done.returncode, json.loads(done.stdout)


def _hand_over(system: Stage) -> None:
    """Rows by `moirae ingest`, one of them not sound; it is retried, in vain."""
    rng, now = random.Random(SEED), datetime.now(UTC)
    rows = [system.producer._row(rng, now, 0, i) for i in range(20)]
    file = system.root / "more.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows) + "{broken\n")
    code, report = _moirae(system, "ingest", "cpu", str(file), "--wait")
    assert (code, report["accounting"]) == (
        0,
        {"read": 21, "archived": 20, "duplicates": 0, "dead_lettered": 1},
    )
    system.producer.rows += rows
    assert _moirae(system, "dead-letters", "retry", "--all") == (
        1,
        {"requested": 1, "pending": 0, "rejected": 1},
    )
    code, status = _moirae(system, "status")
    assert status["streams"]["cpu"]["accounting"]["dead_lettered"] == 1


def _reload(system: Stage, address: str) -> None:
    """The server has the live process look at the rule files: bad ones change nothing."""
    headers = {
        "Authorization": f"Bearer {tokens.create_token(system.connection, 'admin', 'admin')}"
    }
    file = system.root / "rules.yaml"
    for text, status in (
        (RULES.replace("keep_firing_for: 3s", "keep_fring_for: 3s"), 422),
        (RULES, 200),
    ):
        file.write_text(text)
        before = system.connection.execute(
            "SELECT rule, version FROM deployments ORDER BY 1"
        ).fetchall()
        answer = httpx.post(f"http://{address}/-/reload", headers=headers, timeout=120)
        assert answer.status_code == status, answer.text
        assert (
            system.connection.execute("SELECT rule, version FROM deployments ORDER BY 1").fetchall()
            == before
        )
        if status == 422:
            assert "keep_fring_for" in answer.json()["problems"][0]


@pytest.mark.parametrize(
    "kills", [pytest.param(2, marks=pytest.mark.slow), pytest.param(20, marks=pytest.mark.faults)]
)
@pytest.mark.timeout(1200)
def test_acknowledged_rows_are_archived_and_evaluated_once(kills: int) -> None:
    print(f"seed {SEED}")
    with posted(SEED, RULES) as (system, producer, address):
        system.up()
        producer.start()
        rng = random.Random(SEED)
        for number in range(kills):
            before = _posted(system)
            system.wait(lambda before=before: _posted(system) > before, 240)
            time.sleep(rng.uniform(0, 2))
            victim = system.live if number % 2 else lambda: system.process("server")
            system.wait(lambda victim=victim: kill(victim()), 240)
            print(f"kill {number + 1}: {len(producer.rows)} rows answered", flush=True)
        before = _posted(system)
        system.wait(lambda: _posted(system) > before, 240)
        producer.stop()
        _hand_over(system)
        _reload(system, address)
        system.down()
        system.drain()
        figures = system.check()
        print(f"{kills} kills, {producer.retries} tries in vain: {figures}")
        assert producer.retries > 0
        assert figures["events"] > 0
        assert list((system.root / ".moirae" / "landing" / "cpu").iterdir()) == []
