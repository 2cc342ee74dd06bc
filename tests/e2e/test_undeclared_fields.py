"""Fields that no column declares: SQL names them as `_extra`, in both engines; `*` has none of them."""

import json

import pytest

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
relations:
  hosts: {columns: {host: string, site: string}, key: [host], source: {file: hosts.csv}}
rules: [rules.yaml]
engine: ENGINE
recall: {engine: ENGINE}
"""
RULES = """
groups:
- name: g
  derived:
  - stream: zones
    expr: SELECT *, get_json_object(_extra, '$.k8s.zone') AS zone FROM cpu
  rules:
  - alert: All
    expr: SELECT * FROM cpu WHERE cpu > 85
    key: [host]
  - alert: Zone
    expr: >
      SELECT *, get_json_object(_extra, '$.k8s.zone') AS zone, get_json_object(_extra, '$.n') AS n
      FROM cpu WHERE cpu > 85 AND get_json_object(_extra, "$['k8s']['pods'][1]") = 'p1'
    key: [host]
    recall_on: every
    context:
      texts: {sql: "SELECT _extra AS text FROM cpu WHERE host = event.host", within: 1h}
      seen_zones: {sql: "SELECT DISTINCT get_json_object(_extra, '$.k8s.zone') AS zone FROM cpu WHERE host = event.host", within: 1h}
      whole: {sql: "SELECT * FROM cpu c WHERE c.host = event.host AND c._extra IS NOT NULL", within: 1h}
    recall:
      counts:
        sql: >
          SELECT get_json_object(c._extra, '$.k8s.zone') AS zone, count(*) AS n FROM cpu c
          WHERE c.host = event.host GROUP BY 1
    then:
    - stream: at_hand
      sql: >
        SELECT c.host, get_json_object(c._extra, '$.k8s.zone') AS zone, r.n FROM cpu c
        JOIN counts r ON r.zone = get_json_object(c._extra, '$.k8s.zone') WHERE c.host = event.host
      within: 1h
  - alert: Windows
    expr: >
      SELECT host, window.end AS ts, count(*) AS n, max(get_json_object(_extra, '$.k8s.zone')) AS zone
      FROM cpu WHERE _extra LIKE '%zone%' GROUP BY host, window(ts, '10 minutes')
    key: [host]
  - alert: Joined
    expr: SELECT c.*, h.site, c._extra AS extra FROM cpu c JOIN hosts h ON h.host = c.host WHERE cpu > 85
    key: [host]
  - alert: Derived
    expr: SELECT * FROM zones WHERE cpu > 85
    key: [host]
"""
FIELDS = [
    {"k8s": {"zone": "z1", "pods": ["p0", "p1"]}, "n": 1e16, "m": 2.50},
    {"k8s": {"zone": "z\u00e9\n", "pods": ["p0", "p1"]}, "n": 7},
    {},
]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("engine", ["local", "spark"])
def test_sql_names_undeclared_fields(engine: str) -> None:
    with workspace(WORKSPACE.replace("ENGINE", engine), RULES) as root, Commands(root) as commands:
        (root / "hosts.csv").write_text("host,site\na,s1\n")
        (root / "landing").mkdir()
        lines = [
            json.dumps({"ts": f"2026-01-01T00:0{n}:00Z", "host": "a", "cpu": 90.0 + n} | fields)
            for n, fields in enumerate(FIELDS)
        ]
        (root / "landing" / "rows.jsonl").write_text("\n".join(lines))
        drained = commands.run("up", "--drain")
        assert drained.returncode == 0, drained.stderr
        events: dict[str, list[dict[str, object]]] = {}
        for event in commands.exported("events"):
            events.setdefault(event["rule"], []).append(event["attributes"])
        everything = [{"host": "a", "cpu": 90.0 + number} for number in range(3)]
        assert events["g/All"] == everything
        assert events["g/Zone"] == [
            everything[0] | {"zone": "z1", "n": "1.0E16"},
            everything[1] | {"zone": "z\u00e9\n", "n": "7"},
        ]
        assert events["g/Windows"] == [{"host": "a", "n": 2, "zone": "z\u00e9\n"}]
        assert [event["zone"] for event in events["g/Derived"]] == ["z1", "z\u00e9\n", None]
        assert [event["extra"] for event in events["g/Joined"]][2] is None
        assert all(event.keys() == {"host", "cpu", "site", "extra"} for event in events["g/Joined"])
        contexts = {row["ts"]: row["contexts"] for row in commands.exported("contexts")}
        first = contexts["2026-01-01T00:00:00Z"]
        assert json.loads(first["texts"][0]["text"]) == FIELDS[0]
        assert first["seen_zones"] == [{"zone": "z1"}]
        assert [row.keys() for row in first["whole"]] == [{"ts", "host", "cpu"}]
        answers = {
            (row["recall"], row["eid"]): row["answer"] for row in commands.exported("recalls")
        }
        assert [{"zone": "z1", "n": 1}] in answers.values()
        assert [{"host": "a", "zone": "z1", "n": 1}] in answers.values()
        rows = commands.json(
            "query", "SELECT get_json_object(_extra, '$.k8s.zone') AS zone, _extra AS x FROM cpu"
        )["rows"]
        assert [row["zone"] for row in rows] == [None, "z\u00e9\n", "z1"]
        (row, *_) = commands.json("query", "SELECT * FROM cpu")["rows"]
        assert row.keys() == {"ts", "host", "cpu"}
