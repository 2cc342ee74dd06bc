"""Rows that another program appends to a stream's table: history without events, not accounted."""

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import ColumnProperties, DeltaTable, WriterProperties, write_deltalake

from tests.faults.harness import workspace

WORKSPACE = """
home: .moirae
streams:
  cpu:
    columns: {ts: timestamp, host: string, cpu: double}
    time: ts
    key: [host]
    source: {files: landing/*.jsonl}
rules: [rules.yaml]
"""
RULES = """
groups:
- name: g
  rules:
  - alert: High
    expr: SELECT host, ts, cpu FROM cpu WHERE cpu > 85
    key: [host]
    recall:
      earlier: {sql: "SELECT count(*) AS n FROM cpu h"}
"""


def _moirae(root: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "moirae", *arguments, "--workspace", str(root / "moirae.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, (arguments, done.stdout, done.stderr)
    return done.stdout


def _land(root: Path, day: int) -> None:
    """Ten rows, of which one is an event."""
    lines = []
    for n in range(10):
        row = {"ts": f"2026-01-{day:02}T{n:02}:00:00Z", "host": f"h{n}", "cpu": 81.0 + n / 2}
        lines.append(json.dumps(row))
    (root / "landing").mkdir(exist_ok=True)
    (root / "landing" / f"{day}.jsonl").write_text("\n".join(lines))


def _append_others(folder: Path, host: str, *, stats: bool) -> None:
    """Rows that the rule would take for events."""
    schema = pa.schema(DeltaTable(folder).schema().to_arrow())
    row = {"ts": datetime(2026, 1, 1, 5, tzinfo=UTC), "host": host, "cpu": 99.0, "chunk": 0}
    properties = None
    if not stats:
        columns = ColumnProperties(statistics_enabled="NONE")
        properties = WriterProperties(default_column_properties=columns)
    rows = pa.Table.from_pylist([row, row, row], schema)
    write_deltalake(folder, rows, mode="append", writer_properties=properties)


def _findings(root: Path) -> dict[str, dict[str, Any]]:
    return {one["check"]: one for one in json.loads(_moirae(root, "doctor", "-o", "json"))}


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_foreign_rows_are_listed_and_stop_nothing() -> None:
    with workspace(WORKSPACE, RULES) as root:
        _land(root, 1)
        _moirae(root, "up", "--drain")
        folder = root / ".moirae" / "archive" / "streams" / "cpu"
        _append_others(folder, "with statistics", stats=True)
        _append_others(folder, "without statistics", stats=False)
        _land(root, 3)
        _moirae(root, "up", "--drain")
        findings = _findings(root)
        foreign = findings["cpu: rows appended by other programs, not accounted"]
        assert foreign["summary"].startswith("6 rows in ")
        accounting = json.loads(_moirae(root, "status", "-o", "json"))["accounting"]
        assert accounting["read"] == accounting["archived"] == 20
        events = _moirae(root, "export", "events", "--format", "jsonl").splitlines()
        assert {json.loads(event)["key"]["host"] for event in events} == {"h9"}
        recalls = _moirae(root, "export", "recalls", "--format", "jsonl").splitlines()
        answers = [json.loads(recall)["answer"] for recall in recalls]
        # The second event is after all other rows, of which six are of another program.
        assert sorted(row["n"] for answer in answers for row in answer) == [9, 25]
