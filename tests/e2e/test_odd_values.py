"""Valid but unusual values stop no process."""

import json

import pytest

from moirae.config.settings import load_settings
from moirae.runtime import database
from tests.commands import Commands
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
# The last three are no events.
ROWS = [
    ("h1", 1e20),
    ("nul\0host", 1e300),
    ("\ud83d\ude00", 90.0),
    ("h1", 1.0),
    ("nul\0host", -1e308),
    ("\ud83d\ude00", 1.0),
]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_unusual_values_stop_no_process() -> None:
    with workspace(WORKSPACE, RULES) as root, Commands(root) as commands:
        (root / "landing").mkdir()
        lines = [
            json.dumps({"ts": f"2026-01-01T{n:02}:00:00Z", "host": host, "cpu": cpu})
            for n, (host, cpu) in enumerate(ROWS)
        ]
        (root / "landing" / "rows.jsonl").write_text("\n".join(lines))
        drained = commands.run("up", "--drain")
        assert "6 records read: 6 archived" in drained.stdout, drained.stderr
        assert drained.stderr.count("process exited") == 0
        assert "drain_progress" in drained.stderr
        with database.connect_database(
            load_settings(root / "moirae.yaml", {}), "test"
        ) as connection:
            stored = connection.execute(
                "SELECT attributes->'cpu' FROM events ORDER BY ts"
            ).fetchall()
            assert [row[0] for row in stored] == [1e20, 1e300, 90.0]
        rules = {rule["rule"]: rule["error"] for rule in commands.json("rules", "list")}
        assert "CAST_INVALID_INPUT" in rules["g/Fails"]
        events = commands.exported("events")
        assert sorted(event["attributes"]["cpu"] for event in events) == [90.0, 1e20, 1e300]
        recalls = commands.exported("recalls")
        newest = [
            recall["answer"]
            for recall in recalls
            if recall["recall"] == "newest" and recall["answer"]
        ]
        assert {"last": {"ts": "2026-01-01T01:00:00.000000Z", "cpu": 1e300}} in [
            rows[0] for rows in newest
        ]
        shown = commands.output("recalls", "show", recalls[-1]["eid"])
        assert "DIVIDE_BY_ZERO" in shown
