"""A day of CPU use through the real processes, against an independent computation.

One day is generated and computed in plain Python. The other is a real one of PlanetLab, computed
by DuckDB; it lies beside the checkout, or where MOIRAE_DATA says; without it its tests are
skipped.
"""

import csv
import io
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol

import duckdb
import pytest

from tests import cpu_scenario
from tests.commands import Commands
from tests.cpu_scenario import ExpectedAlert, Sample, Times
from tests.similarity_scenario import ScenarioEvent, expected_answers

pytestmark = pytest.mark.slow

DATA = (
    Path(os.environ.get("MOIRAE_DATA", Path(__file__).parents[3] / "shared" / "data")) / "planetlab"
)
REAL_DAY = DATA / "cpu_20110303.csv.gz"

WORKSPACE = """
home: .moirae
streams:
  cpu:
    columns: {{ts: timestamp, host: string, slice: string, cpu_pct: int}}
    time: ts
    id: [host, slice]
    key: [host]
    source: {{files: "{file}"}}
chunks: {{rows: {chunk_rows}, age: 1h}}
rules: [rules.yaml]
"""
RULES = """
groups:
- name: planetlab
  derived:
  - stream: load
    expr: SELECT host, window.end AS ts, sum(cpu_pct) AS cpu FROM cpu GROUP BY host, window(ts, '15 minutes')
  rules:
  - alert: SliceBusy
    expr: SELECT host, slice, ts, cpu_pct FROM cpu WHERE cpu_pct >= 80
    for: 10m
    keep_firing_for: 7m
  - alert: NodeBusy
    expr: >-
      SELECT host, window.end AS ts, max(cpu) AS top FROM load
      GROUP BY host, window(ts, '1 hour') HAVING max(cpu) > 400
    keep_firing_for: 2h
"""
# What the generated day has besides: contexts and a similarity recall for SliceBusy.
GAP = timedelta(hours=1)
WITHIN = timedelta(minutes=15)
ABOVE = 15  # percent
RECALL = f"""
    keep_firing_for: 7m
    context:
      beside:
        sql: SELECT slice FROM cpu WHERE host = event.host AND slice <> event.slice AND cpu_pct > {ABOVE}
        within: 15m
    recall:
      similar: {{similar: {{k: 10, gap: 1h}}}}
"""

Events = set[tuple[str, ...]]
"""Key values and time of each event."""
Alerts = set[tuple[str, ...]]
"""Key values, start and end of each alert that has fired."""


class Day(Protocol):
    """A day of CPU use, and what the rules find in it by another computation."""

    file: Path
    chunk_rows: int
    rules: str
    least: tuple[int, int, int]
    """At least so many events of SliceBusy and of NodeBusy, and alerts of SliceBusy."""

    def rows(self) -> int: ...
    def events(self) -> tuple[Events, Events]:
        """Of SliceBusy and of NodeBusy."""

    def alerts(self) -> tuple[Alerts, Alerts]:
        """Of SliceBusy and of NodeBusy."""


class RealDay:
    """A day of PlanetLab, read by DuckDB."""

    file, chunk_rows, rules, least = REAL_DAY, 50_000, RULES, (1000, 10, 10)

    def rows(self) -> int:
        ((count,),) = duckdb.sql(f"SELECT count(*) FROM read_csv('{self.file}')").fetchall()
        return int(count)

    def events(self) -> tuple[Events, Events]:
        return _rows(SLICE_BUSY), _rows(NODE_BUSY)

    def alerts(self) -> tuple[Alerts, Alerts]:
        slices = _rows(_alerts(SLICE_BUSY, "host, slice", "7 minute", "10 minute"))
        return slices, _rows(_alerts(NODE_BUSY, "host", "2 hour", "0 minute"))


@dataclass
class GeneratedDay:
    """A day that is generated, its events and alerts computed in plain Python."""

    file: Path
    samples: list[Sample]
    chunk_rows: int = 2_000
    rules: str = RULES.replace("\n    keep_firing_for: 7m\n", RECALL)
    least: tuple[int, int, int] = (500, 50, 50)

    def rows(self) -> int:
        return len(self.samples)

    def events(self) -> tuple[Events, Events]:
        slices, nodes = cpu_scenario.slice_busy(self.samples), cpu_scenario.node_busy(self.samples)
        return _events_of(slices), _events_of(nodes)

    def alerts(self) -> tuple[Alerts, Alerts]:
        nodes = cpu_scenario.alerts(
            cpu_scenario.node_busy(self.samples), timedelta(hours=2), timedelta(0)
        )
        return _alerts_of(self.slice_alerts()), _alerts_of(nodes)

    def slice_alerts(self) -> list[ExpectedAlert]:
        events = cpu_scenario.slice_busy(self.samples)
        return cpu_scenario.alerts(events, timedelta(minutes=7), timedelta(minutes=10))

    def context(self, alert: ExpectedAlert) -> dict[str, int]:
        return cpu_scenario.slices_beside(self.samples, alert, WITHIN, ABOVE)


def _events_of(times: Times) -> Events:
    return {(*key, _text(ts)) for key, event_times in times.items() for ts in event_times}


def _alerts_of(alerts: list[ExpectedAlert]) -> Alerts:
    return {(*alert.key, _text(alert.starts), _text(alert.ends)) for alert in alerts}


def _text(ts: datetime) -> str:
    return f"{ts:%Y-%m-%d %H:%M:%S}"


@pytest.fixture(scope="module", params=["generated", "real"])
def day(request: pytest.FixtureRequest) -> Iterator[Day]:
    if request.param == "real":
        if not REAL_DAY.is_file():
            pytest.skip(
                f"no PlanetLab data at {DATA}; MOIRAE_DATA names the folder that holds `planetlab`"
            )
        yield RealDay()
        return
    with tempfile.TemporaryDirectory(prefix="moirae-day-") as folder:
        generated = GeneratedDay(Path(folder) / "cpu_20260101.csv.gz", cpu_scenario.samples(1))
        cpu_scenario.write_csv(generated.file, generated.samples)
        yield generated


generated_only = pytest.mark.parametrize("day", ["generated"], indirect=True)


@pytest.fixture(scope="module")
def drained(day: Day) -> Iterator[Commands]:
    root = Path(tempfile.mkdtemp(prefix="moirae-planetlab-"))
    root.chmod(0o755)
    (root / "moirae.yaml").write_text(WORKSPACE.format(file=day.file, chunk_rows=day.chunk_rows))
    (root / "rules.yaml").write_text(day.rules)
    with Commands(root) as commands:
        commands.output("up", "--drain")
        yield commands
    shutil.rmtree(root, ignore_errors=True)


SLICE_BUSY = (
    f"SELECT host, slice, ts::timestamp AS ts FROM read_csv('{REAL_DAY}') WHERE cpu_pct >= 80"
)
NODE_BUSY = f"""
WITH load AS (
  SELECT host, time_bucket(INTERVAL 15 minute, ts::timestamp) + INTERVAL 15 minute AS ts, sum(cpu_pct) AS cpu
  FROM read_csv('{REAL_DAY}') GROUP BY ALL
)
SELECT host, time_bucket(INTERVAL 1 hour, ts) + INTERVAL 1 hour AS ts FROM load GROUP BY ALL HAVING max(cpu) > 400
"""


def _alerts(events: str, keys: str, keep: str, wait: str) -> str:
    """Consecutive events by gaps and islands: an independent form of the alert's life."""
    return f"""
WITH events AS ({events}),
gaps AS (SELECT *, ts - lag(ts) OVER (PARTITION BY {keys} ORDER BY ts) > INTERVAL {keep} AS gap FROM events),
islands AS (SELECT *, count(*) FILTER (WHERE gap) OVER (PARTITION BY {keys} ORDER BY ts) AS island FROM gaps)
SELECT {keys}, min(ts) AS starts, max(ts) + INTERVAL {keep} AS ends FROM islands GROUP BY {keys}, island
HAVING max(ts) - min(ts) >= INTERVAL {wait}
"""


def _rows(query: str) -> set[tuple[str, ...]]:
    return {tuple(str(value) for value in row) for row in duckdb.sql(query).fetchall()}


def _time(text: str) -> str:
    return text.replace("T", " ").removesuffix("Z").removesuffix("+00:00")


def test_events_equal_an_independent_computation(day: Day, drained: Commands) -> None:
    events = drained.exported("events")
    assert len({event["eid"] for event in events}) == len(events)
    busy = {
        (e["key"]["host"], e["key"]["slice"], _time(e["ts"]))
        for e in events
        if e["rule"].endswith("SliceBusy")
    }
    nodes = {(e["key"]["host"], _time(e["ts"])) for e in events if e["rule"].endswith("NodeBusy")}
    expected_busy, expected_nodes = day.events()
    assert busy == expected_busy
    assert nodes == expected_nodes
    assert len(busy) > day.least[0]
    assert len(nodes) > day.least[1]


def test_alerts_equal_an_independent_computation(day: Day, drained: Commands) -> None:
    alerts = [alert for alert in drained.exported("alerts") if alert["state"] == "resolved"]
    slices = {
        (a["key"]["host"], a["key"]["slice"], _time(a["starts_at"]), _time(a["ends_at"]))
        for a in alerts
        if a["rule"].endswith("SliceBusy")
    }
    nodes = {
        (a["key"]["host"], _time(a["starts_at"]), _time(a["ends_at"]))
        for a in alerts
        if a["rule"].endswith("NodeBusy")
    }
    expected_slices, expected_nodes = day.alerts()
    assert slices == expected_slices
    assert nodes == expected_nodes
    assert len(slices) > day.least[2]


@generated_only
def test_contexts_and_similar_events_equal_an_independent_computation(
    day: GeneratedDay, drained: Commands
) -> None:
    """E and C_k count the first events of alerts that have fired, up to and including the query's,
    in (ts, eid) order; equal scores go to the newer event.
    """
    eids = {
        (event["key"]["host"], event["key"]["slice"], _time(event["ts"])): event["eid"]
        for event in drained.exported("events")
        if event["rule"].endswith("SliceBusy")
    }
    corpus = [
        ScenarioEvent(
            eids[*alert.key, _text(alert.starts)], "SliceBusy", alert.starts, day.context(alert)
        )
        for alert in day.slice_alerts()
    ]
    corpus.sort(key=lambda event: (event.ts, event.event_id))

    contexts = {row["eid"]: row["contexts"]["beside"] for row in drained.exported("contexts")}
    terms = {eid: sorted(f"slice={row['slice']}" for row in rows) for eid, rows in contexts.items()}
    assert terms == {event.event_id: sorted(_repeated(event.facts)) for event in corpus}

    expected, _ = expected_answers(corpus, GAP, 10)
    hits_by_event: dict[str, list[tuple[str, float]]] = {event.event_id: [] for event in corpus}
    for row in csv.DictReader(io.StringIO(drained.output("export", "similar", "--format", "csv"))):
        hits_by_event[row["query"]].append((row["event"], float(row["score"])))
        assert len(hits_by_event[row["query"]]) == int(row["rank"])
    assert sum(len(hits) == 10 for hits in expected.values()) > 30
    assert any(len(hits) < 10 for hits in expected.values())
    for query, hits in expected.items():
        assert [event for event, _ in hits_by_event[query]] == [event for event, _ in hits], query
        assert [score for _, score in hits_by_event[query]] == pytest.approx(
            [score for _, score in hits], abs=1e-9
        ), query


def _repeated(facts: dict[str, int]) -> list[str]:
    """Each term as often as it occurs."""
    return [term for term, count in facts.items() for _ in range(count)]


def test_read_records_equal_archived_duplicates_and_dead_letters(
    day: Day, drained: Commands
) -> None:
    status = drained.json("status")
    account = status["accounting"]
    assert account["read"] == day.rows()
    assert account["read"] == account["archived"] + account["duplicates"] + account["dead_lettered"]
    drained.output("doctor")


def test_chunks_are_listed_with_their_rows(drained: Commands) -> None:
    archived = drained.json("status")["accounting"]["archived"]
    chunks = drained.json("chunks", "list")
    assert sum(chunk["rows"] for chunk in chunks) == archived
    assert [chunk["id"] for chunk in chunks] == sorted(chunk["id"] for chunk in chunks)
    assert {"present", "recent"} <= {chunk["state"] for chunk in chunks}
    fullest = max(chunks, key=lambda chunk: chunk["rows"])
    shown = drained.json("chunks", "show", str(fullest["id"]))
    assert (shown["id"], shown["rows"], shown["bytes"]) == (
        fullest["id"],
        fullest["rows"],
        fullest["bytes"],
    )
    (stream,) = drained.json("streams", "list")
    assert (stream["stream"], stream["archived"]) == ("cpu", archived)
    assert stream["bytes"] == sum(chunk["bytes"] for chunk in chunks) > 0
    explained = drained.json("rules", "explain", "planetlab/NodeBusy")
    assert explained["reads"]["streams"] == ["cpu"]


@generated_only
def test_rules_diff_shows_changes_before_apply(day: Day, drained: Commands) -> None:
    """With `diff` and `apply --dry-run`; an invalid file changes nothing."""
    before = drained.json("rules", "list")
    assert {step["action"] for step in drained.json("rules", "diff")} <= {"stay"}
    (drained.root / "rules.yaml").write_text(day.rules.replace(">= 80", ">= 90"))
    try:
        for command, code in ((("diff",), 3), (("apply", "--dry-run"), 0)):
            changed = [
                step
                for step in drained.json("rules", *command, code=code)
                if step["action"] != "stay"
            ]
            assert [(step["action"], step["rule"]) for step in changed] == [
                ("change", "planetlab/SliceBusy")
            ]
        (drained.root / "rules.yaml").write_text(
            day.rules.replace("cpu_pct >= 80", "nothing >= 80")
        )
        drained.output("rules", "diff", code=1)
        drained.output("rules", "apply", code=1)
    finally:
        (drained.root / "rules.yaml").write_text(day.rules)
    assert drained.json("rules", "list") == before
