"""A workspace with its archive in object storage, from input to answers of recalls."""

import json
import shutil
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from tests.faults.harness import WORKSPACE, Stage, workspace
from tests.store import put_object

START = datetime(2026, 1, 1, tzinfo=UTC)
HOSTS, ROWS, FILES = 3, 200, 6
CHUNKS = "chunks: {rows: 300, age: 1d}"
RULES = """
groups:
- name: g
  derived:
  - {stream: high, expr: "SELECT ts, host, cpu FROM cpu WHERE cpu > 90", archive: true}
  rules:
  - alert: High
    expr: SELECT host, n, ts, cpu FROM cpu WHERE cpu > 99
    key: [host]
    id: [n]
    keep_firing_for: 1s
    context:
      around: {sql: "SELECT n FROM cpu WHERE host = event.host", within: 3s}
    recall:
      norm: {sql: "SELECT count(*) AS n, sum(h.n) AS total FROM cpu h WHERE h.host = event.host"}
      similar: {similar: {contexts: [around], k: 3}}
"""


def rows(numbers: range) -> list[dict[str, Any]]:
    """A second apart; one of each file is out of the ordinary."""
    return [
        {
            "ts": (START + timedelta(seconds=n)).isoformat(),
            "host": f"h{n % HOSTS}",
            "n": n,
            "cpu": 99.5 if n % ROWS == ROWS - 1 else float(n % 97),
        }
        for n in numbers
    ]


def moirae(root: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "moirae", *arguments, "--workspace", str(root / "moirae.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def land(root: Path, files: range) -> None:
    for number in files:
        lines = rows(range(number * ROWS, (number + 1) * ROWS))
        (root / "landing" / "cpu" / f"{number:03d}.jsonl").write_text(
            "".join(json.dumps(line) + "\n" for line in lines)
        )


def answers(root: Path) -> dict[tuple[int, str], dict[str, Any]]:
    """By the event's number and the recall's name."""
    lines = {
        what: moirae(root, "export", what, "--format", "jsonl").splitlines()
        for what in ("events", "recalls")
    }
    events = {event["eid"]: event["attributes"]["n"] for event in map(json.loads, lines["events"])}
    return {(events[one["eid"]], one["recall"]): one for one in map(json.loads, lines["recalls"])}


@pytest.mark.slow
def test_archive_in_object_storage_answers_recalls(bucket: str) -> None:
    settings = WORKSPACE.replace("chunks: {rows: 3000, age: 10s}", CHUNKS)
    assert CHUNKS in settings
    with workspace(f"{settings}archive: {bucket}\narchive_cache: 1\n", RULES) as root:
        (root / "landing" / "cpu").mkdir(parents=True)
        land(root, range(FILES // 2))
        moirae(root, "up", "--drain")
        shutil.rmtree(root / ".moirae" / "cache")  # as on another machine
        land(root, range(FILES // 2, FILES))
        moirae(root, "up", "--drain")
        assert "FAIL" not in moirae(root, "doctor")
        assert not (root / ".moirae" / "archive" / "streams").exists()
        table = DeltaTable(f"{bucket}/streams/cpu", storage_options={"allow_http": "true"})
        assert sorted(table.to_pyarrow_table()["n"].to_pylist()) == list(range(FILES * ROWS))
        archive_answers = answers(root)
    for number in range(ROWS - 1, FILES * ROWS, ROWS):
        past = [n for n in range(number) if n % HOSTS == number % HOSTS]
        assert archive_answers[number, "norm"]["answer"] == [
            {"n": len(past), "total": sum(past)}
        ], archive_answers[number, "norm"]
        assert archive_answers[number, "similar"]["state"] == "done"


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["local", "spark"])
def test_source_files_in_object_storage_are_ingested_once_and_soon(
    bucket: str, engine: str
) -> None:
    """By a drain, and by processes that have waited for a new file."""
    source = f"{bucket}/in/*.jsonl"
    settings = WORKSPACE.replace("landing/cpu/*.jsonl", f'"{source}"') + f"engine: {engine}\n"
    assert source in settings
    with workspace(settings, RULES) as root:
        for number in range(3):
            _put(bucket, number)
        moirae(root, "up", "--drain")
        assert len(_archived(root)) == 3 * ROWS
        moirae(root, "up", "--drain")
        stage = Stage(root, seed=0)
        try:
            stage.up()
            stage.wait(lambda: "live" in stage.alive(), 120)
            time.sleep(8)  # sources are idle
            _put(bucket, 3)
            started_at = time.monotonic()
            stage.wait(lambda: stage.archived_units() == 4, 60)
            delay = time.monotonic() - started_at
            print(f"{engine}: archived {delay:.2f} s after the file appeared", flush=True)
            assert stage.down() < 60
        finally:
            stage.end()
        assert _archived(root) == list(range(4 * ROWS))
        assert "FAIL" not in moirae(root, "doctor")
    assert delay < 10


def _put(bucket: str, number: int) -> None:
    lines = rows(range(number * ROWS, (number + 1) * ROWS))
    content = "".join(json.dumps(line) + "\n" for line in lines)
    put_object(f"{bucket}/in/{number:03d}.jsonl", content.encode())


def _archived(root: Path) -> list[int]:
    table = DeltaTable(root / ".moirae" / "archive" / "streams" / "cpu").to_pyarrow_table()
    return sorted(table["n"].to_pylist())
