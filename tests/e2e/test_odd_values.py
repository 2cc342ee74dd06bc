"""Valid but unusual values stop no process."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from moirae.config.settings import load_settings
from moirae.runtime import database
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
      newest: {sql: "SELECT max(struct(h.ts, h.cpu)) AS last FROM cpu h"}
      never: {sql: "SELECT sum(h.cpu) / (count(*) - count(*)) AS x FROM cpu h"}
  - alert: Fails
    expr: SELECT host, ts, CAST(substr(host, 2) AS INT) AS number FROM cpu WHERE cpu > 85
    key: [host]
"""
ROWS = [
    (host, cpu)
    for host in ("h1", "nul\0host", "\ud83d\ude00")
    for cpu in (1e20, -1e308, 1e300, 90.0, 1.0)
]


def _moirae(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "moirae", *arguments, "--workspace", str(root / "moirae.yaml")]
    return subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)


@pytest.mark.timeout(300)
def test_unusual_values_stop_no_process() -> None:
    with workspace(WORKSPACE, RULES) as root:
        (root / "landing").mkdir()
        lines = [
            json.dumps({"ts": f"2026-01-01T{n:02}:00:00Z", "host": host, "cpu": cpu})
            for n, (host, cpu) in enumerate(ROWS)
        ]
        (root / "landing" / "rows.jsonl").write_text("\n".join(lines))
        drained = _moirae(root, "up", "--drain")
        assert "15 records read: 15 archived" in drained.stdout, drained.stderr
        assert drained.stderr.count("process exited") == 0
        assert "drain_progress" in drained.stderr
        with database.connect_database(
            load_settings(root / "moirae.yaml", {}), "test"
        ) as connection:
            stored = connection.execute(
                "SELECT attributes->'cpu' FROM events ORDER BY ts"
            ).fetchall()
            assert [row[0] for row in stored] == [1e20, 1e300, 90.0] * 3
        rules = json.loads(_moirae(root, "rules", "list", "-o", "json").stdout)
        assert "CAST_INVALID_INPUT" in {rule["rule"]: rule["error"] for rule in rules}["g/Fails"]
        exported = _moirae(root, "export", "events", "--format", "jsonl").stdout.splitlines()
        assert (
            sorted(json.loads(line)["attributes"]["cpu"] for line in exported)
            == [90.0] * 3 + [1e20] * 3 + [1e300] * 3
        )
        recalls = [
            json.loads(line)
            for line in _moirae(root, "export", "recalls", "--format", "jsonl").stdout.splitlines()
        ]
        newest = [
            recall["answer"]
            for recall in recalls
            if recall["recall"] == "newest" and recall["answer"]
        ]
        assert {"last": {"ts": "2026-01-01T12:00:00.000000Z", "cpu": 1e300}} in [
            rows[0] for rows in newest
        ]
        shown = _moirae(root, "recalls", "show", recalls[-1]["eid"]).stdout
        assert "DIVIDE_BY_ZERO" in shown
