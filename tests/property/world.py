"""A small workspace for properties of detection: random rows in random units, processed by the real
archive and evaluator.
"""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from psycopg import Connection
from pyspark.sql import SparkSession

from archiver.chunks.chunk import CutPolicy
from archiver.executors import ExecutorIngest
from archiver.formats import JSONL
from archiver.ingest.engines import EngineMode, EnginePolicy
from archiver.ingest.source_units import SourceUnit
from archiver.ingest.writer import ArchiveWriter
from archiver.times import duration_to_micros, to_micros
from moirae.config.settings import Settings, load_settings
from moirae.config.table_schemas import stream_schema
from moirae.deployments.registry import RuleRegistry
from moirae.evaluation import ExecutorRules, RuleEngines
from moirae.evaluation.guard import Guard
from moirae.live.composition import build_detection
from moirae.live.event_time import get_watermarks
from moirae.live.relations import Relations
from moirae.live.sources.files import make_unit
from moirae.rules.checks.check import check_rules
from moirae.rules.checks.stored_rules import RuleAdmission
from moirae.rules.definition import Definition
from moirae.rules.parse import parse_rules
from recall.engines.routing import EngineChoice
from tests.inline_jobs import InlineJobs
from tests.workspaces import write_workspace

START = datetime(2026, 1, 1, tzinfo=UTC)
NOW = to_micros(START + timedelta(days=30))
HOSTS = ("h0", "h1", "h2")

WORKSPACE = """
home: .moirae
streams:
  a:
    columns: {ts: timestamp, host: string, v: double, n: bigint}
    time: ts
    id: [host, n]
    key: [host]
    lateness: 30s
    source: {files: a/*.jsonl}
    punctuation: closed
  b:
    columns: {at: timestamp, host: string, w: int}
    time: at
    key: [host]
    lateness: 0s
    source: {files: b/*.jsonl}
relations:
  hosts:
    columns: {host: string, site: string, since: timestamp}
    key: [host]
    valid_from: since
    source: {file: hosts.csv}
  inventory: {columns: {host: string}, key: [host], source: {file: inventory.csv}}
"""
# Host, site, and from when to when it is there. One host moves, one is not known from the start,
# one never is; of one there are no rows.
STAYS = (
    ("h0", "site h0", START - timedelta(days=1), START + timedelta(seconds=200)),
    ("h0", "site h9", START + timedelta(seconds=200), None),
    ("h1", "site h1", START + timedelta(seconds=100), None),
    ("h9", "site h9", START + timedelta(seconds=150), None),
)
INVENTORY = ("h0", "h8")

RULES = """
groups:
- name: g
  derived:
  - stream: load
    expr: SELECT host, window.end AS ts, avg(v) AS v FROM a GROUP BY host, window(ts, '1 minute')
  - stream: long
    expr: >-
      SELECT host, window.end AS ts, max(n) AS top, count(DISTINCT n) AS d FROM a
      WHERE v IS NOT NULL GROUP BY host, window(ts, '10 minutes', '1 minute', '5 seconds')
  rules:
  - alert: Filter
    expr: SELECT host, n, ts, v * 2 AS double FROM a WHERE v > 70
    id: [host, n]
    key: [host]
    for: 40s
    keep_firing_for: 1m
  - alert: Star
    expr: SELECT at AS ts, host, w FROM b WHERE w IS NULL OR w > 5
    keep_firing_for: 30s
  - alert: Site
    expr: SELECT a.host, a.n, a.ts, h.site FROM a JOIN hosts h ON a.host = h.host WHERE a.v < 40
    id: [host, n]
    key: [site]
  - alert: End
    expr: >-
      SELECT host, window.end AS ts, count(*) AS c FROM a
      GROUP BY host, window(ts, '1 minute') HAVING count(*) > 2
    for: 1m
    early: true
  - alert: Start
    expr: SELECT window.start AS ts, max(w) AS m FROM b GROUP BY window(at, '2 minutes')
    keep_firing_for: 0s
    early: true
  - alert: Slide
    expr: SELECT host, window.end AS ts, sum(n) AS s FROM a GROUP BY host, window(ts, '3 minutes', '1 minute')
  - alert: Inside
    expr: SELECT host, max(ts) AS ts, min(v) AS m FROM a GROUP BY host, window(ts, '90 seconds')
  - alert: Twice
    expr: SELECT window.end AS ts, max(v) AS m FROM load GROUP BY window(ts, '3 minutes')
  - alert: Wide
    expr: >-
      SELECT window.start AS ts, count(*) AS c, min(n) AS m, avg(n) AS s FROM a WHERE n < 30
      GROUP BY window(ts, '5 minutes', '40 seconds') HAVING count(v) > 3
  - alert: Long
    expr: SELECT host, ts, top FROM long WHERE d > 2
    early: true
  - alert: Both
    expr: SELECT host, ts FROM a WHERE v > 90 UNION ALL SELECT host, at AS ts FROM b WHERE w > 8
  - alert: Near
    expr: >-
      SELECT a.host, a.n, a.ts, b.w FROM a JOIN b ON b.host = a.host
      AND b.at BETWEEN a.ts - INTERVAL 40 SECONDS AND a.ts + INTERVAL '20' SECOND WHERE a.v > 50
    id: [host, n, w]
    key: [host]
  - alert: Alone
    expr: >-
      SELECT a.host, a.n, a.ts FROM a LEFT JOIN b ON b.host = a.host AND b.at >= a.ts - INTERVAL '30 seconds'
      AND a.ts > b.at WHERE b.at IS NULL
    id: [host, n]
    key: [host]
  - alert: Meet
    expr: >-
      SELECT a.host, window.end AS ts, count(*) AS c FROM load l JOIN a ON a.host = l.host AND a.ts <= l.ts
      AND a.ts > l.ts - INTERVAL 1 MINUTE GROUP BY a.host, window(a.ts, '2 minutes')
  - alert: Hot
    expr: SELECT host, n, ts, double FROM events.Filter WHERE double > 160
    id: [host, n]
    key: [host]
  - alert: Heavy
    expr: SELECT e.host, e.ts, e.w FROM events.`g/Star` e WHERE e.w > 6
  - alert: Often
    expr: >-
      SELECT host, window.end AS ts, count(*) AS c FROM events.filter
      GROUP BY host, window(ts, '2 minutes') HAVING count(*) > 1
    early: true
  - alert: Storm
    expr: SELECT window.end AS ts, count(*) AS hosts, sum(c) AS c FROM events.Often GROUP BY window(ts, '4 minutes')
  - alert: Rush
    expr: >-
      SELECT window.end AS ts, count(*) AS c, max(n) AS m FROM a WHERE host <> 'h2'
      GROUP BY window(ts, since('01:02', 'Europe/Rome'), '7 minutes') HAVING count(*) > 2
  - alert: Silent
    absent: 2m
    stream: b
    key: [host]
    keep_firing_for: 1m
  - alert: Missing
    absent: 2m
    stream: b
    key: [host]
    expected: hosts
  - alert: NeverSeen
    absent: 90s
    stream: b
    key: [host]
    expected: inventory
"""

LOAD = "(SELECT host, window.end AS ts, avg(v) AS v FROM a GROUP BY host, window(ts, '1 minute'))"
SILENT = (
    "SELECT host, at + INTERVAL '{gap}' SECOND AS ts FROM (SELECT host, at, lead(at) OVER (PARTITION BY host "
    "ORDER BY at) AS later FROM b) WHERE (later IS NULL OR later > at + INTERVAL '{gap}' SECOND) "
    "AND at + INTERVAL '{gap}' SECOND <= {newest}"
)
# `{start}`: since when each expected host is silent if no row of it came.
UNSEEN = (
    " UNION SELECT host, start + INTERVAL '{gap}' SECOND FROM ({start}) AS e WHERE NOT EXISTS (SELECT 1 "
    "FROM b WHERE b.host = e.host AND at BETWEEN start - INTERVAL '{gap}' SECOND AND start + INTERVAL '{gap}' "
    "SECOND) AND start + INTERVAL '{gap}' SECOND <= {newest}"
)
SINCE = (
    "SELECT host, greatest(min(since), (SELECT min(at) FROM b)) AS start FROM hosts GROUP BY host"
)
FROM_THE_FIRST_ROW = "SELECT h.host, b.start FROM (SELECT min(at) AS start FROM b) b, inventory h"
# The same rules over whole tables, written out by hand: one run over all on-time rows.
BATCH = {
    "Filter": "SELECT host, n, ts, v * 2 AS double FROM a WHERE v > 70",
    # Of rows of one host and time the smallest is the event.
    "Star": "SELECT at AS ts, host, CASE WHEN count(w) = count(*) THEN min(w) END AS w FROM b "
    "WHERE w IS NULL OR w > 5 GROUP BY at, host",
    "Site": "SELECT a.host, a.n, a.ts, h.site FROM a JOIN hosts h ON a.host = h.host AND h.since <= a.ts "
    "AND (h.until IS NULL OR a.ts < h.until) WHERE a.v < 40",
    "End": "SELECT host, window.end AS ts, count(*) AS c FROM a GROUP BY host, window(ts, '1 minute') "
    "HAVING count(*) > 2",
    "Start": "SELECT window.start AS ts, max(w) AS m FROM b GROUP BY window(at, '2 minutes')",
    "Slide": "SELECT host, window.end AS ts, sum(n) AS s FROM a GROUP BY host, window(ts, '3 minutes', '1 minute')",
    "Wide": "SELECT window.start AS ts, count(*) AS c, min(n) AS m, avg(n) AS s FROM a WHERE n < 30 "
    "GROUP BY window(ts, '5 minutes', '40 seconds') HAVING count(v) > 3",
    "Long": "SELECT host, window.end AS ts, max(n) AS top FROM a WHERE v IS NOT NULL "
    "GROUP BY host, window(ts, '10 minutes', '1 minute', '5 seconds') HAVING count(DISTINCT n) > 2",
    "Inside": "SELECT host, max(ts) AS ts, min(v) AS m FROM a GROUP BY host, window(ts, '90 seconds')",
    "Twice": f"SELECT window.end AS ts, max(v) AS m FROM {LOAD} GROUP BY window(ts, '3 minutes')",
    "Both": "SELECT DISTINCT host, ts FROM (SELECT host, ts FROM a WHERE v > 90 "
    "UNION ALL SELECT host, at AS ts FROM b WHERE w > 8)",
    "Near": "SELECT a.host, a.n, a.ts, b.w FROM a JOIN b ON b.host = a.host AND b.at >= a.ts - INTERVAL 40 SECONDS "
    "AND b.at <= a.ts + INTERVAL 20 SECONDS WHERE a.v > 50",
    "Alone": "SELECT a.host, a.n, a.ts FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.host = a.host "
    "AND b.at >= a.ts - INTERVAL 30 SECONDS AND b.at < a.ts)",
    "Meet": f"SELECT a.host, window.end AS ts, count(*) AS c FROM {LOAD} l JOIN a ON a.host = l.host "
    "AND a.ts <= l.ts AND a.ts > l.ts - INTERVAL 1 MINUTE GROUP BY a.host, window(a.ts, '2 "
    "minutes')",
    "Silent": SILENT.replace("{gap}", "120"),
    "Missing": (SILENT + UNSEEN).replace("{gap}", "120").replace("{start}", SINCE),
    "NeverSeen": (SILENT + UNSEEN).replace("{gap}", "90").replace("{start}", FROM_THE_FIRST_ROW),
}


# All windows of the days of 24 hours that begin at 00:02 UTC.
RUSH = (
    "SELECT end AS ts, count(*) AS c, max(n) AS m FROM (SELECT since, n, explode(array_append("
    "filter(sequence(since, since + INTERVAL 1 DAY, INTERVAL 7 MINUTES), e -> e > ts AND e < since + "
    "INTERVAL 1 DAY), since + INTERVAL 1 DAY)) AS end FROM (SELECT n, ts, date_trunc('day', ts - "
    "INTERVAL 2 MINUTES) + INTERVAL 2 MINUTES AS since FROM a WHERE host <> 'h2')) "
    "GROUP BY since, end HAVING count(*) > 2"
)
OFTEN = (
    f"SELECT host, window.end AS ts, count(*) AS c FROM ({BATCH['Filter']}) "
    "GROUP BY host, window(ts, '2 minutes') HAVING count(*) > 1"
)
BATCH |= {
    "Rush": RUSH,
    "Hot": f"SELECT * FROM ({BATCH['Filter']}) WHERE double > 160",
    "Heavy": f"SELECT host, ts, w FROM ({BATCH['Star']}) WHERE w > 6",
    "Often": OFTEN,
    "Storm": f"SELECT window.end AS ts, count(*) AS hosts, sum(c) AS c FROM ({OFTEN}) "
    "GROUP BY window(ts, '4 minutes')",
}


@dataclass
class Plan:
    """Random input: batches of units, each the lines of one stream's file. `lines`: in all.
    `clocks`: of each batch, a clock that some of its rows are ahead of."""

    seed: int
    batches: list[list[SourceUnit]] = field(default_factory=list)
    clocks: list[int] = field(default_factory=list)
    lines: int = 0

    @classmethod
    def draw(cls, seed: int) -> "Plan":
        """Rows in rising disorder, some twice, some in conflict, some broken, some far behind."""
        rng, lag_rng, plan = random.Random(seed), random.Random(seed + 1), cls(seed)
        clock = {"a": 0.0, "b": 0.0}
        sent: dict[str, list[str]] = {"a": [], "b": []}
        for number in range(rng.randint(3, 7)):
            batch = []
            for stream in rng.sample(["a", "b"], rng.randint(1, 2)):
                for part in range(rng.randint(1, 3)):
                    lines = [
                        _line(rng, stream, clock, sent[stream]) for _ in range(rng.randint(0, 15))
                    ]
                    plan.lines += sum('"closed"' not in line for line in lines)
                    batch.append(_unit(stream, f"{number}-{part}", lines))
            plan.batches.append(sorted(batch, key=lambda unit: unit.stream))
            seconds = max(clock.values()) - lag_rng.uniform(-20, 200)
            plan.clocks.append(to_micros(START + timedelta(seconds=seconds)))
        return plan


def _line(rng: random.Random, stream: str, clock: dict[str, float], sent: list[str]) -> str:
    kind = rng.random()
    if sent and kind < 0.06:
        return rng.choice(sent)
    if kind < 0.09:
        ahead = '{"ts": "2999-01-01T00:00:00Z", "at": "2999-01-01T00:00:00Z", "host": "h1"}'
        return rng.choice(['{"ts": 1', "[]", "nonsense", '{"host": "h1"}', ahead])
    if kind < 0.11 and stream == "a":
        # A source that closes time too early makes its own rows late.
        closed = START + timedelta(seconds=clock[stream] + rng.uniform(-40, 5))
        of_key = {"host": rng.choice(HOSTS)} if rng.random() < 0.5 else {}
        return json.dumps({"closed": closed.isoformat(), **of_key})
    clock[stream] += rng.expovariate(1 / 9) if rng.random() < 0.97 else rng.uniform(100, 400)
    back = rng.choice([0, 0, 0, rng.uniform(0, 25), rng.uniform(0, 120)])
    ts = (
        START + timedelta(seconds=round(max(0.0, clock[stream] - back), rng.choice([0, 0, 3])))
    ).isoformat()
    row: dict[str, Any]
    if stream == "a":
        row = {
            "ts": ts,
            "host": rng.choice(HOSTS),
            "v": rng.choice([None, round(rng.uniform(0, 100), 1)]),
        }
        row["n"] = rng.randrange(40)
    else:
        row = {"at": ts, "host": rng.choice(HOSTS), "w": rng.choice([None, *range(10)])}
    sent.append(json.dumps(row))
    return sent[-1]


def _unit(stream: str, name: str, lines: Sequence[str]) -> SourceUnit:
    raw = [line.encode() for line in lines]
    return SourceUnit(stream, name, JSONL, lambda: iter(raw))


class World:
    """A new archive and an emptied database; `reopen` does what a restart does.

    `engine`: `spark` archives and evaluates in tasks, which run in this process.
    """

    def __init__(
        self,
        spark: SparkSession,
        connection: Connection[Any],
        settings: Settings,
        definitions: Sequence[Definition],
        root: Path,
        engine: EngineMode = "local",
    ) -> None:
        self.spark, self.connection, self.settings, self.root = spark, connection, settings, root
        self._engine, self.now = engine, NOW
        tables = "units, closed_keys, dead_letters, chunks, streams, relation_versions, rules, deployments, rule_errors, events, alerts, lost_verdicts"
        further_tables = "alert_notes, contexts, views, derived_chunks, tasks, revisions"
        connection.execute(f"TRUNCATE {tables}, {further_tables} RESTART IDENTITY CASCADE")
        RuleRegistry(connection).apply(definitions)
        self.admission = RuleAdmission(lambda: spark, settings)
        self.guard = Guard(spark, settings, connection)
        self.reopen()

    def reopen(self) -> None:
        """New objects over what is on disk and in the database."""
        schemas = [
            stream_schema(name, declared) for name, declared in self.settings.streams.items()
        ]
        policy = CutPolicy(40, duration_to_micros(timedelta(minutes=5)))
        self.archive = ArchiveWriter(self.root, schemas, policy, self.connection, lambda: None)
        engines = RuleEngines()
        if self._engine == "spark":
            jobs = InlineJobs()
            self.archive.engines.executors = ExecutorIngest(jobs, self.archive.engines.sizes)
            self.archive.engines.policy = EnginePolicy("spark")
            engines = RuleEngines(EngineChoice("spark"), ExecutorRules(jobs, time_limit=60.0))
        relations = Relations(self.connection, self.settings.relations, stable_after=0)
        self.detector, self.follow_up = build_detection(
            spark=self.spark,
            archive=self.archive,
            connection=self.connection,
            relations=relations,
            admission=self.admission,
            guard=self.guard,
            engines=engines,
        )
        self.detector.reload(START)
        self.detector.detect_unsettled(self.detector.active_rules)

    def ingest(self, units: Sequence[SourceUnit], at_once: bool) -> None:
        """Process a micro-batch as `moirae.live.ingest.Ingest` does."""
        if self._engine == "spark":
            units = list(map(self._write_unit, units))
        ingested = self.archive.ingest(units, self.now)
        self.detector.detect_and_settle(ingested, include_filters=at_once)
        self.detector.detect_early(ingested.streams_on_time)

    def _write_unit(self, unit: SourceUnit) -> SourceUnit:
        """The unit as a file: tasks read no others."""
        path = self.root / "landing" / f"{unit.stream}-{unit.name}.jsonl"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"".join(line + b"\n" for line in unit.read()))
        return make_unit(unit.stream, unit.name, JSONL, path, path.stat().st_size)

    def advance_idle(self) -> None:
        """Advance all streams to the furthest, as if they were silent."""
        marks = {n: mark for n, mark in get_watermarks(self.archive).items() if mark is not None}
        if marks:
            furthest = max(marks.values())
            behind = {
                n: furthest for n in self.archive.tables if marks.get(n, furthest - 1) < furthest
            }
            self.archive.advance(behind)
            self.detector.settle(include_filters=True)

    def follow_rows_ahead(self) -> None:
        """Let the watermarks follow rows ahead of the clock, as if no others had come for long."""
        for name, progress in self.archive.progress.items():
            clock, lateness = self.archive.clock(name, self.now), self.archive.lateness(name)
            event_time = progress.follow_rows_ahead(lateness, clock, is_silent=True)
            if event_time is not None:
                self.archive.advance({name: event_time}, ahead=True)
        self.detector.settle(include_filters=True)

    def end_input(self) -> None:
        """End the input, as `moirae.live.end_of_input` does."""
        newest = [p.newest for p in self.archive.progress.values() if p.newest is not None]
        if newest:
            end = max(newest) + self.detector.reach() + 1
            self.archive.advance(dict.fromkeys(self.archive.tables, end))
            self.detector.settle_to_end(max(newest) + 1, end)

    def events(self) -> dict[str, list[tuple[Any, ...]]]:
        """Settled events by rule: time and attributes."""
        events: dict[str, list[tuple[Any, ...]]] = {name: [] for name in BATCH}
        query = "SELECT rule, ts, attributes FROM events WHERE settled"
        for rule, ts, attributes in self.connection.execute(query):
            events[rule.split("/")[1]].append(
                (ts, *sorted((k, _plain(v)) for k, v in attributes.items()))
            )
        return {name: sorted(rows, key=repr) for name, rows in events.items()}

    def batch_events(self) -> dict[str, list[tuple[Any, ...]]]:
        """The events of one run over all on-time rows of the archive, by rule."""
        for name in self.archive.tables:
            rows = self.rows(name)
            self.spark.createDataFrame(
                rows.filter(pa.compute.invert(rows["_late"]))
            ).createOrReplaceTempView(name)
        kinds = "host string, site string, since timestamp, until timestamp"
        self.spark.createDataFrame(STAYS, kinds).createOrReplaceTempView("hosts")
        inventory = [(host,) for host in INVENTORY]
        self.spark.createDataFrame(inventory, "host string").createOrReplaceTempView("inventory")
        newest = max(
            (p.newest for p in self.archive.progress.values() if p.newest is not None), default=0
        )
        events = {}
        for name, text in BATCH.items():
            rows = (
                self.spark.sql(text.replace("{newest}", f"timestamp_micros({newest})"))
                .toArrow()
                .to_pylist()
            )
            events[name] = sorted(
                {
                    (
                        row["ts"].astimezone(UTC),
                        *sorted((k, _plain(v)) for k, v in row.items() if k != "ts"),
                    )
                    for row in rows
                },
                key=repr,
            )
        return events

    def rows(self, stream: str) -> pa.Table:
        """All archived rows of a stream."""
        table = self.archive.tables[stream]
        return table.read([*table.schema.columns, "_late"])


def _plain(value: Any) -> Any:
    """Numbers as floats of 12 digits: the last ones depend on the order in which rows are summed."""
    return float(f"{value:.12g}") if isinstance(value, int | float) else value


def definitions(spark: SparkSession, settings: Settings, text: str = RULES) -> list[Definition]:
    """The rules, checked."""
    rules, problems = parse_rules("rules.yaml", text, settings.table_names)
    assert not problems, problems
    checked, check_problems = check_rules(lambda: spark, settings, rules)
    assert not check_problems, check_problems
    return checked


def workspace(folder: Path) -> Settings:
    """Its files in a folder."""
    write_workspace(folder, WORKSPACE)
    stays = "".join(f"{host},{site},{since.isoformat()}\n" for host, site, since, _ in STAYS)
    (folder / "hosts.csv").write_text(f"host,site,since\n{stays}")
    (folder / "inventory.csv").write_text("host\n" + "".join(f"{host}\n" for host in INVENTORY))
    return load_settings(folder / "moirae.yaml", {})
