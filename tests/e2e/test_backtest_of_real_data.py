"""A back-test of real data has the alerts that live detection raised: IDs, times, states, labels.

PlanetLab's five days and the log of Blue Gene/L; without the data the tests are skipped. Two versions
of a rule are compared by a computation of its own.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.commands import Commands

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3000)]

DATA = Path(os.environ.get("MOIRAE_DATA", Path(__file__).parents[3] / "shared" / "data"))
WORKSPACE = """
home: .moirae
streams:
  {stream}:
    columns: {{{columns}}}
    time: ts
    id: [{identity}]
    key: [host]
    lateness: 1m
    source: {{files: "{file}"}}
relations:
  sites: {{columns: {{host: string, site: string}}, key: [host], source: {{file: sites.csv}}}}
chunks: {{rows: 100_000, age: 1h}}
rules: [rules.yaml]
"""
PLANETLAB: dict[str, Any] = {
    "stream": "cpu",
    "columns": "ts: timestamp, host: string, slice: string, cpu_pct: int",
    "identity": "host, slice",
    "file": DATA / "planetlab" / "cpu_*.csv.gz",
}
PLANETLAB_RULES = """
groups:
- name: g
  derived:
  - stream: load
    expr: SELECT host, window.end AS ts, sum(cpu_pct) AS cpu FROM cpu GROUP BY host, window(ts, '15 minutes')
  rules:
  - {alert: Busy, expr: "SELECT host, slice, ts, cpu_pct FROM cpu WHERE cpu_pct >= 90", for: 10m, keep_firing_for: 7m}
  - alert: Window
    expr: >-
      SELECT host, window.end AS ts, max(cpu) AS top FROM load
      GROUP BY host, window(ts, '1 hour') HAVING max(cpu) > 400
    keep_firing_for: 2h
  - alert: OfSite
    expr: SELECT c.host, c.ts, s.site FROM cpu c JOIN sites s ON s.host = c.host WHERE c.cpu_pct >= 85
    key: [host]
  - alert: Joined
    expr: >-
      SELECT a.host, a.slice, a.ts FROM cpu a JOIN load l ON l.host = a.host
      AND l.ts BETWEEN a.ts - INTERVAL 15 MINUTES AND a.ts WHERE a.cpu_pct >= 85 AND l.cpu > 300
    key: [host]
  - {alert: Gone, absent: 30m, stream: cpu, key: [host]}
  - alert: BusyHosts
    expr: SELECT window.end AS ts, count(DISTINCT host) AS hosts FROM events.Busy GROUP BY window(ts, '1 hour')
    keep_firing_for: 2h
  - {alert: Peak, expr: "SELECT ts, hosts FROM events.BusyHosts WHERE hosts > 20", keep_firing_for: 0s}
  - alert: Unusual
    expr: SELECT host, window.end AS ts, avg(cpu_pct) AS mean FROM cpu GROUP BY host, window(ts, '1 hour') HAVING avg(cpu_pct) > 45
    key: [host]
    keep_firing_for: 2h
    recall: {norm: {sql: "SELECT avg(h.cpu_pct) AS mean FROM cpu h WHERE h.host = event.host", range: 1d}}
    where: event.mean > norm.mean * 1.2
    then: [{stream: candidates, sql: "SELECT n.host, n.mean FROM norm n", within: 1m}]
"""
BGL: dict[str, Any] = {
    "stream": "log",
    "columns": "ts: timestamp, host: string, rack: string, component: string, level: string, "
    "template_id: string, message: string",
    "identity": "host, template_id",
    "file": DATA / "bgl" / "events.jsonl.gz",
}
BGL_RULES = """
groups:
- name: g
  rules:
  - {alert: Failure, expr: "SELECT host, ts, template_id FROM log WHERE level = 'FAILURE'", key: [host]}
  - alert: Burst
    expr: SELECT rack, window.end AS ts, count(*) AS n FROM log GROUP BY rack, window(ts, '10 minutes') HAVING count(*) > 200
    key: [rack]
    keep_firing_for: 30m
  - alert: OfSite
    expr: SELECT l.host, l.ts, s.site FROM log l JOIN sites s ON s.host = l.host WHERE l.component = 'KERNEL'
    key: [host]
    for: 1m
  - {alert: Quiet, absent: 12h, stream: log, key: [rack]}
  - alert: Unusual
    expr: SELECT rack, window.end AS ts, count(*) AS n FROM log GROUP BY rack, window(ts, '1 hour') HAVING count(*) > 300
    key: [rack]
    keep_firing_for: 2h
    recall: {norm: {sql: "SELECT count(*) AS n FROM log h WHERE h.rack = event.rack", range: 1d}}
    where: norm.n < 2000
"""
CASES = {"planetlab": (PLANETLAB, PLANETLAB_RULES, "cpu_pct >= 90", "cpu_pct >= 95")}
CASES["bgl"] = (BGL, BGL_RULES, "count(*) > 200", "count(*) > 400")


@pytest.fixture(scope="module", params=list(CASES))
def drained(request: pytest.FixtureRequest) -> Iterator[tuple[Commands, str]]:
    stream, rules, _, _ = CASES[request.param]
    if not Path(stream["file"]).parent.is_dir():
        pytest.skip(f"no data at {DATA}; MOIRAE_DATA names its folder")
    root = Path(tempfile.mkdtemp(prefix="moirae-backtest-"))
    root.chmod(0o755)
    (root / "moirae.yaml").write_text(WORKSPACE.format(**stream))
    (root / "rules.yaml").write_text(rules)
    (root / "sites.csv").write_text("host,site\n" + _make_sites(stream["file"]))
    with Commands(root) as commands:
        commands.output("up", "--drain")
        yield commands, request.param
    shutil.rmtree(root, ignore_errors=True)


def _make_sites(file: Path) -> str:
    """Every second host is at a site."""
    rows = duckdb.sql(f"SELECT DISTINCT host FROM '{file}' ORDER BY host").fetchall()
    return "".join(f"{host},s{number % 5}\n" for number, (host,) in enumerate(rows) if number % 2)


def read_time(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def run_backtest(commands: Commands, *options: str) -> Mapping[str, Mapping[str, Any]]:
    output = commands.output("rules", "backtest", "--last", "4000d", "-o", "json", *options)
    report = json.loads(output)
    assert report["complete"], [rule["notes"] for rule in report["rules"]]
    return {rule["rule"]: rule for rule in report["rules"]}


def test_alerts_are_those_of_live_detection(drained: tuple[Commands, str]) -> None:
    """An alert that settling made begin earlier keeps the ID of the event for which it fired."""
    commands, _ = drained
    live: dict[str, set[Any]] = {}
    ids: dict[str, str] = {}
    moved = 0
    for line in commands.output("export", "alerts", "--format", "jsonl").splitlines():
        alert = json.loads(line)
        ends_at = None if alert["ends_at"] is None else read_time(alert["ends_at"])
        state = alert["state"]
        row = (alert["eid"], state, read_time(alert["starts_at"]), ends_at)
        ids[alert["eid"]] = alert["id"]
        key = {name: value for name, value in alert["key"].items() if value not in (None, "")}
        labels = {**key, **alert["labels"]}  # stored apart
        live.setdefault(alert["rule"], set()).add((*row, tuple(sorted(labels.items()))))
    reports = run_backtest(commands)
    assert reports.keys() >= live.keys() - {"moirae/NoInput"}
    for rule, report in reports.items():
        tested = set()
        for alert in report["alerts"]:
            state = "withdrawn" if alert["is_hidden"] else alert["state"]
            state = "pending" if state == "ended" else state
            ends_at = None if alert["ends_at"] is None else read_time(alert["ends_at"])
            row = (alert["eid"], state, read_time(alert["starts_at"]), ends_at)
            moved += ids.get(alert["eid"]) != alert["id"]
            tested.add((*row, tuple(sorted(alert["labels"].items()))))
        expected = live.get(rule, set())
        print(f"{rule}: {len(expected)} alerts, {report['hidden']} hidden")
        assert tested == expected, rule
    assert sum(map(len, live.values())) > 100
    assert moved < 0.05 * len(ids)


def test_two_versions_are_compared_as_by_their_sets_of_alerts(
    drained: tuple[Commands, str],
) -> None:
    """Alerts of the same labels are the same if they overlap, one of each version."""
    commands, case = drained
    _, rules, condition, changed = CASES[case]
    name = "g/Busy" if case == "planetlab" else "g/Burst"
    (commands.root / "before.yaml").write_text(rules)
    (commands.root / "after.yaml").write_text(rules.replace(condition, changed))
    options = ("--rule", name.removeprefix("g/"))
    before = run_backtest(commands, str(commands.root / "before.yaml"), *options)[name]
    report = run_backtest(
        commands,
        str(commands.root / "after.yaml"),
        "--baseline",
        str(commands.root / "before.yaml"),
        *options,
    )[name]
    versions = [[_read(alert) for alert in entry["alerts"]] for entry in (before, report)]
    fired = [[alert for alert in version if alert[3]] for version in versions]
    unpaired = sorted(fired[0], key=itemgetter(1))
    pairs = []
    for alert in sorted(fired[1], key=itemgetter(1)):
        for other in unpaired:
            if _is_same(alert, other):
                unpaired.remove(other)
                pairs.append((alert, other))
                break
    change = report["change"]
    assert len(change["new"]) == len(fired[1]) - len(pairs)
    assert change["unchanged"] == sum(alert == other for alert, other in pairs)
    assert len(change["moved"]) == len(pairs) - change["unchanged"]
    assert len(change["gone"]) == len(unpaired)
    assert len(change["gone"]) + len(change["moved"]) > 10


def _read(alert: Mapping[str, Any]) -> tuple[Any, ...]:
    times = (read_time(alert["starts_at"]), read_time(alert["ends_at"]))
    return (json.dumps(alert["labels"], sort_keys=True), *times, alert["fired_at"])


def _is_same(alert: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    return bool(alert[0] == other[0] and alert[1] <= other[2] and other[1] <= alert[2])
