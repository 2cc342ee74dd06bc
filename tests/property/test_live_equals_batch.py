"""What is found live, in whatever batches and after whatever crashes, is what one look at the whole archive finds.

A story is random files of two streams with silences, restarts and crashes in between. It is played through the real
archive and judge, and once more in other batches. A model of a few lines says what must be archived; Spark in one
batch, and DuckDB, say what events that makes; a fold of these says what alerts.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg import Connection
from psycopg.rows import dict_row
from pyspark.sql import SparkSession

from archiver import ingest
from archiver.chunk import CutPolicy
from archiver.ingest import Archive, Unit
from archiver.lifecycle import to_close
from archiver.table import EventTable, StreamTable
from archiver.times import from_micros, to_micros
from moirae import database
from moirae.alerts.lifecycle import Occurrence, Timing, state
from moirae.deployments.registry import Registry
from moirae.live.idle import Idle
from moirae.live.judge import Judge
from moirae.live.outbox import Outbox
from moirae.live.relations import Relations
from moirae.live.schemas import schema
from moirae.rules.check import check
from moirae.rules.definition import Definition
from moirae.rules.parse import parse_rules
from moirae.settings import Settings, load_settings
from tests.property.test_alert_lifecycle import reference

pytestmark = [pytest.mark.spark, pytest.mark.timeout(3600)]

SECOND = 1_000_000
START = to_micros(datetime(2026, 1, 31, 12, tzinfo=UTC))
CLOCK = START + 3600 * SECOND
LATENESS = {"load": 3 * SECOND, "ping": SECOND}
TIMES = {"load": "ts", "ping": "at"}
HOSTS = ["a", "b", "ü", None]
# Each line: host, site, and from when on, in seconds after the start.
SITES = [("a", "north", 0), ("a", "south", 15), ("b", "east", 7)]

WORKSPACE = """
streams:
  load:
    columns: {host: string, ts: timestamp, n: int, cpu: double}
    time: ts
    id: [host, n]
    key: [host]
    lateness: 3s
    source: {files: load/*.jsonl}
  ping:
    columns: {at: timestamp, host: string, rtt: bigint}
    time: at
    lateness: 1s
    source: {files: ping/*.jsonl}
relations:
  hosts:
    columns: {host: string, site: string, since: timestamp}
    key: [host]
    valid_from: since
    source: {file: hosts.csv}
"""


@dataclass(frozen=True)
class Case:
    """A rule, and the same question asked otherwise.

    `batch`: for Spark, where it is not `expr` itself; `duck`: for DuckDB, where all times are microseconds. The table
    `sites` has the sites with the times between which they hold; `{newest}` is the newest time of all rows.
    """

    expr: str
    key: tuple[str, ...] = ("host",)
    id: tuple[str, ...] = ("host",)
    batch: str | None = None
    duck: str | None = None
    absent: str | None = None


MEANS = "SELECT host, window.end AS ts, avg(cpu) AS cpu FROM load GROUP BY host, window(ts, '5 seconds')"
AS_OF = "ON l.host = s.host AND l.ts >= s.since AND l.ts < s.until"
SILENT = """
    SELECT host, {time} + {gap} AS ts FROM (SELECT host, {time}, lead({time}) OVER
    (PARTITION BY host ORDER BY {time}) AS later FROM {table})
    WHERE coalesce(later > {time} + {gap}, true) AND {time} + {gap} <= {{newest}}
"""
CASES = {
    "High": Case(
        "SELECT host, n, ts, cpu FROM load WHERE cpu > 60",
        id=("host", "n"),
        duck="SELECT host, n, ts, cpu FROM load WHERE cpu > 60",
    ),
    # Rows that differ in n only are one event: the smallest.
    "Spelled": Case(
        "SELECT l.ts, l.n, upper(l.host) AS host, l.cpu * 2 AS twice FROM load l WHERE l.cpu IS NULL OR l.cpu >= 80",
        duck="SELECT ts, n, upper(host) AS host, cpu * 2 AS twice FROM load WHERE cpu IS NULL OR cpu >= 80",
    ),
    "Renamed": Case("SELECT at AS ts, host, rtt AS cpu, rtt > 3 AS slow FROM ping WHERE NOT rtt = 2"),
    "Sited": Case(
        "SELECT l.host, l.n, l.ts, h.site FROM load l JOIN hosts h ON l.host = h.host WHERE l.cpu > 20",
        key=("site",),
        id=("host", "n"),
        batch=f"SELECT l.host, l.n, l.ts, s.site FROM load l JOIN sites s {AS_OF} WHERE l.cpu > 20",
        duck=f"SELECT l.host, l.n, l.ts, s.site FROM load l JOIN sites s {AS_OF} WHERE l.cpu > 20",
    ),
    "Homeless": Case(
        "SELECT p.host, p.at AS ts FROM ping p LEFT JOIN hosts h ON p.host = h.host WHERE h.site IS NULL",
        batch=f"SELECT l.host, l.at AS ts FROM ping l LEFT JOIN sites s {AS_OF.replace('l.ts', 'l.at')} "
        "WHERE s.site IS NULL",
    ),
    "Either": Case(
        "SELECT host, ts FROM load WHERE cpu > 60 UNION SELECT host, at AS ts FROM ping WHERE rtt > 3",
        duck="SELECT host, ts FROM load WHERE cpu > 60 UNION SELECT host, at AS ts FROM ping WHERE rtt > 3",
    ),
    "Mean": Case(
        "SELECT host, window.end AS ts, avg(rtt) AS rtt, count(*) AS rows FROM ping "
        "GROUP BY host, window(at, '4 seconds') HAVING count(*) > 1",
        duck="SELECT host, (at // 4000000 + 1) * 4000000 AS ts, avg(rtt) AS rtt, count(*) AS rows FROM ping "
        "GROUP BY host, at // 4000000 HAVING count(*) > 1",
    ),
    "Began": Case(
        "SELECT window.start AS ts, max(cpu) AS cpu FROM load "
        "GROUP BY window(ts, '6 seconds', '6 seconds', '1 second')",
        key=(),
        id=(),
        duck="SELECT (ts - 1000000) // 6000000 * 6000000 + 1000000 AS ts, max(cpu) AS cpu FROM load "
        "GROUP BY (ts - 1000000) // 6000000",
    ),
    "Sliding": Case(
        "SELECT host, window.end AS ts, sum(n) AS n FROM load GROUP BY host, window(ts, '6 seconds', '2 seconds')"
    ),
    "Within": Case("SELECT host, max(at) AS ts, count(*) AS rows FROM ping GROUP BY host, window(at, '3 seconds')"),
    "Nested": Case(
        "SELECT window.end AS ts, max(cpu) AS cpu FROM means GROUP BY window(ts, '10 seconds')",
        key=(),
        id=(),
        batch=f"SELECT window.end AS ts, max(cpu) AS cpu FROM ({MEANS}) GROUP BY window(ts, '10 seconds')",
        duck="SELECT (ts // 10000000 + 1) * 10000000 AS ts, max(cpu) AS cpu FROM (SELECT avg(cpu) AS cpu, "
        "(ts // 5000000 + 1) * 5000000 AS ts FROM load GROUP BY host, ts // 5000000) GROUP BY ts // 10000000",
    ),
    "MeanOf": Case(
        "SELECT m.host, m.ts, m.cpu, h.site FROM means m JOIN hosts h ON m.host = h.host WHERE m.cpu > 30",
        batch=f"SELECT l.host, l.ts, l.cpu, s.site FROM ({MEANS}) l JOIN sites s {AS_OF} WHERE l.cpu > 30",
    ),
    "Silent": Case(
        "ping",
        absent="4s",
        batch=SILENT.format(time="at", gap="INTERVAL '4' SECOND", table="ping"),
        duck=SILENT.format(time="at", gap="4000000", table="ping"),
    ),
    "SilentMeans": Case(
        "means", absent="8s", batch=SILENT.format(time="ts", gap="INTERVAL '8' SECOND", table=f"({MEANS})")
    ),
}


def rule_file() -> str:
    """The cases as rules of one group."""
    rules = [
        {
            "alert": name,
            **({"absent": case.absent, "stream": case.expr} if case.absent else {"expr": case.expr}),
            "key": list(case.key),
            "id": list(case.id),
            "annotations": {"text": "{{ labels.alertname }} at {{ event.ts }}"},
        }
        for name, case in CASES.items()
    ]
    derived = [{"stream": "means", "expr": MEANS}]
    return json.dumps({"groups": [{"name": "g", "derived": derived, "rules": rules}]})


# Stories


@dataclass(frozen=True)
class File:
    """A source unit."""

    stream: str
    name: str
    lines: tuple[str, ...]

    def unit(self) -> Unit:
        raw = [line.encode() for line in self.lines]
        return Unit(self.stream, self.name, "jsonl", lambda: iter(raw))


@dataclass(frozen=True)
class Step:
    """A micro-batch and what happens about it. `falls`: at which of the moments at which the process may fall."""

    files: tuple[File, ...]
    silence: bool
    at_once: bool
    tidy: bool
    restart: bool
    falls: int | None


@dataclass(frozen=True)
class Limits:
    """Sizes that are large in earnest: rows of a slice, rows indexed, bytes kept in memory, rows of a chunk."""

    slice_rows: int
    indexed: int
    recent_bytes: int
    chunk_rows: int


@dataclass(frozen=True)
class Story:
    """What arrives, which rules there are, with their `for` and `keep_firing_for` in seconds."""

    steps: tuple[Step, ...]
    rules: Mapping[str, tuple[int, int]]
    limits: Limits
    other_limits: Limits

    @property
    def files(self) -> list[File]:
        return [file for step in self.steps for file in step.files]

    def in_other_batches(self) -> "Story":
        """The same files with as few batches as silences allow, nothing else in between."""
        steps: list[Step] = []
        waiting: tuple[File, ...] = ()
        for step in self.steps:
            waiting += step.files
            if step.silence or step is self.steps[-1]:
                by_stream = tuple(sorted(waiting, key=lambda file: file.stream))
                steps.append(Step(by_stream, step.silence, False, False, False, None))
                waiting = ()
        return replace(self, steps=tuple(steps), limits=self.other_limits)


BROKEN = ["{", "[]", '{"host": "a"}', '{"ts": "2999-01-01T00:00:00Z", "at": "2999-01-01T00:00:00Z"}']
# Seconds beside the file's own time: within lateness, beyond it, ahead.
offsets = st.sampled_from([0, 0, 0, 1, 2, 3, 4, 5, -1, -2, -3, -4, -6, -9])
fractions = st.sampled_from([0, 0, 0, 0, 1, 500_000, 999_999])
hosts = st.sampled_from(HOSTS)
load_rows = st.fixed_dictionaries(
    {"host": hosts, "n": st.integers(0, 1), "cpu": st.sampled_from([None, 10.5, 50.0, 70.25, 90.0])}
)
ping_rows = st.fixed_dictionaries({"host": hosts, "rtt": st.sampled_from([None, 1, 2, 4])})


@st.composite
def files(draw: st.DrawFn, stream: str, name: str, base: int) -> File:
    """A file of a stream about a time, in seconds after the start."""
    rows = st.tuples(offsets, fractions, load_rows if stream == "load" else ping_rows)
    drawn = draw(st.lists(st.one_of(*[rows] * 11, st.sampled_from(BROKEN)), max_size=9))
    return File(stream, name, tuple(one if isinstance(one, str) else line(stream, base, *one) for one in drawn))


def line(stream: str, base: int, offset: int, fraction: int, row: dict[str, Any]) -> str:
    ts = from_micros(START + (base + offset) * SECOND + fraction)
    return json.dumps({TIMES[stream]: ts.isoformat(), **row})


@st.composite
def steps(draw: st.DrawFn) -> tuple[Step, ...]:
    times = {"load": 10, "ping": 10}
    found = []
    for number in range(draw(st.integers(1, 4))):
        arriving = []
        for place, stream in enumerate(draw(st.lists(st.sampled_from(["load", "ping"]), max_size=4))):
            times[stream] += draw(st.integers(0, 7))
            arriving.append(draw(files(stream, f"{number}-{place}", times[stream])))
        falls = draw(st.one_of(st.none(), st.none(), st.integers(0, 12)))
        silence, restart = (draw(st.sampled_from([False, False, True])) for _ in range(2))
        found.append(Step(tuple(arriving), silence, draw(st.booleans()), draw(st.booleans()), restart, falls))
    return tuple(found)


limits = st.builds(
    Limits,
    slice_rows=st.sampled_from([1, 3, 1000]),
    indexed=st.sampled_from([0, 5, 1000]),
    recent_bytes=st.sampled_from([0, 300, 1 << 20]),
    chunk_rows=st.sampled_from([3, 8, 25, 1000]),
)
timings = st.sampled_from([(0, 0), (0, 3), (2, 2), (3, 10), (0, 300)])
stories = st.builds(
    Story,
    steps=steps(),
    rules=st.dictionaries(st.sampled_from(list(CASES)), timings, min_size=3, max_size=5),
    limits=limits,
    other_limits=limits,
)


# What must be


@dataclass
class Model:
    """Which rows of a story are archived, and which of them are on time, by the words of the design."""

    newest: dict[str, int] = field(default_factory=dict)
    advanced: dict[str, int] = field(default_factory=dict)
    held: dict[tuple[Any, ...], dict[str, Any]] = field(default_factory=dict)
    late: set[tuple[Any, ...]] = field(default_factory=set)
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)

    @classmethod
    def of(cls, story: Story) -> "Model":
        model = cls()
        for step in story.steps:
            for file in step.files:
                model._read(file)
            if step.silence:
                model._silence()
        return model

    def watermark(self, stream: str) -> int | None:
        marks = [self.newest[stream] - LATENESS[stream]] if stream in self.newest else []
        return max([*marks, *([self.advanced[stream]] if stream in self.advanced else [])], default=None)

    def _read(self, file: File) -> None:
        bound = self.watermark(file.stream)
        times = []
        for text in file.lines:
            self.counts[file.stream, "read"] += 1
            row = parsed(file.stream, text)
            ts = None if row is None else row[TIMES[file.stream]]
            if row is None or ts is None or ts > CLOCK:
                self.counts[file.stream, "malformed" if ts is None else "quarantined"] += 1
                continue
            times.append(ts)
            self._hold(file.stream, row, is_late=bound is not None and ts < bound)
        if times:
            self.newest[file.stream] = max(self.newest.get(file.stream, times[0]), *times)

    def _hold(self, stream: str, row: dict[str, Any], is_late: bool) -> None:
        identity = (stream, row["ts"], row["host"], row["n"]) if stream == "load" else (stream, *row.items())
        before = self.held.setdefault(identity, row)
        if before is row:
            self.counts[stream, "archived"] += 1
            if is_late:
                self.late.add(identity)
                self.counts[stream, "late"] += 1
        else:
            self.counts[stream, "duplicates" if before == row else "conflicts"] += 1

    def _silence(self) -> None:
        marks = {stream: self.watermark(stream) for stream in LATENESS}
        furthest = max((mark for mark in marks.values() if mark is not None), default=None)
        for stream, mark in marks.items():
            if furthest is not None and (mark is None or mark < furthest):
                self.advanced[stream] = furthest

    def rows(self, stream: str, late: bool) -> list[dict[str, Any]]:
        return [row for key, row in self.held.items() if key[0] == stream and (key in self.late) == late]


def parsed(stream: str, text: str) -> dict[str, Any] | None:
    """The row of a line with its time in microseconds (None: it has none), or None where it is not an object."""
    try:
        row = json.loads(text)
    except ValueError:
        return None
    if not isinstance(row, dict):
        return None
    time = TIMES[stream]
    ts = None if time not in row else to_micros(datetime.fromisoformat(row[time]))
    names = ("host", "ts", "n", "cpu") if stream == "load" else ("at", "host", "rtt")
    return {name: ts if name == time else row.get(name) for name in names}


Found = dict[str, list[dict[str, Any]]]


def on_time(model: Model) -> dict[str, pa.Table]:
    """The rows that events are made of, times in microseconds; and the sites."""
    kinds = {"n": pa.int32(), "cpu": pa.float64(), "rtt": pa.int64(), "host": pa.string()}
    tables = {}
    for stream, names in (("load", ["host", "ts", "n", "cpu"]), ("ping", ["at", "host", "rtt"])):
        rows = model.rows(stream, late=False)
        tables[stream] = pa.table(
            {name: pa.array([row[name] for row in rows], kinds.get(name, pa.int64())) for name in names}
        )
    since = [START + seconds * SECOND for _, _, seconds in SITES]
    until = [START + 15 * SECOND, CLOCK, CLOCK]
    columns = {"host": [s[0] for s in SITES], "site": [s[1] for s in SITES], "since": since, "until": until}
    return tables | {"sites": pa.table(columns)}


def by_spark(spark: SparkSession, tables: Mapping[str, pa.Table], rules: Sequence[str], newest: int) -> Found:
    """One run over everything."""
    for name, table in tables.items():
        times = [n for n in table.column_names if n in ("ts", "at", "since", "until")]
        for column in times:
            moments = table[column].cast(pa.timestamp("us", tz="UTC"))
            table = table.set_column(table.column_names.index(column), column, moments)
        spark.createDataFrame(table).createOrReplaceTempView(name)
    found = {}
    for name in rules:
        # A window of a derived stream that ends just behind the newest row is complete, too.
        last = newest + (1 if CASES[name].expr == "means" else 0)
        query = (CASES[name].batch or CASES[name].expr).replace("{newest}", f"timestamp_micros({last})")
        table = spark.sql(query).toArrow()
        moments = table["ts"].cast(pa.int64())
        found[name] = table.set_column(table.column_names.index("ts"), "ts", moments).to_pylist()
    for name in tables:
        spark.catalog.dropTempView(name)
    return found


def by_duckdb(tables: Mapping[str, pa.Table], rules: Sequence[str], newest: int) -> Found:
    """The same by another engine, for rules that are written for it."""
    found = {}
    with duckdb.connect() as connection:
        for name, table in tables.items():
            connection.register(name, table)
        for name in rules:
            query = CASES[name].duck
            if query is not None:
                result = connection.execute(query.replace("{newest}", str(newest)))
                names = [column[0] for column in result.description or ()]
                found[name] = [dict(zip(names, row, strict=True)) for row in result.fetchall()]
    return found


@dataclass(frozen=True)
class Event:
    """A settled event, comparable."""

    ts: int
    key: tuple[Any, ...]
    attributes: tuple[tuple[str, Any], ...]


def distinct(name: str, rows: Sequence[dict[str, Any]]) -> set[Event]:
    """Of rows equal in id and ts, the smallest in column order."""
    case = CASES[name]

    def identity(row: dict[str, Any]) -> list[tuple[bool, Any]]:
        return [ordered(row[column]) for column in (*case.id, "ts")]

    def content(row: dict[str, Any]) -> list[tuple[bool, Any]]:
        return [ordered(value) for column, value in row.items() if column != "ts"]

    best = [min(group, key=content) for _, group in groupby(sorted(rows, key=identity), key=identity)]
    return {
        Event(row["ts"], tuple(row[k] for k in case.key), tuple(sorted((k, v) for k, v in row.items() if k != "ts")))
        for row in best
    }


def ordered(value: Any) -> tuple[bool, Any]:
    return (value is not None, value if value is not None else 0)


# What is


class Fallen(Exception):
    """The process falls."""


@dataclass(frozen=True, repr=False)
class Bench:
    """What all worlds share."""

    spark: SparkSession
    settings: Settings
    connection: Connection[Any]
    definitions: Mapping[str, Definition]
    folder: Callable[[], Path]


class World:
    """A live process without its loop: archive and judge over one database and one folder, both empty at first."""

    def __init__(self, bench: Bench, story: Story, check_each: Callable[["World"], None]) -> None:
        self.bench = bench
        self.root = bench.folder()
        self.schemas = [schema(name, declared) for name, declared in bench.settings.streams.items()]
        self.policy = CutPolicy(story.limits.chunk_rows, 10 * SECOND)
        self.moments_left: int | None = None
        self._check_each = check_each
        empty(bench.connection)
        Registry(bench.connection).apply([timed(bench.definitions[n], *t) for n, t in story.rules.items()])
        self.open()

    def open(self) -> None:
        """As a process starts, on whatever the one before left."""
        self.moments_left = None
        connection = self.bench.connection
        self.archive = Archive(self.root, self.schemas, self.policy, connection, self._moment)
        relations = Relations(connection, self.bench.settings.relations)
        self.judge = Judge(self.bench.spark, self.archive, connection, relations)
        self.outbox = Outbox(connection, self.root)
        self.idle = Idle(dict.fromkeys(LATENESS, timedelta(seconds=10)))
        self.idle.heard(set(LATENESS), 0.0)
        self.judge.reload(from_micros(START))
        self.judge.detect_unsettled()
        self._check_each(self)

    def _moment(self) -> None:
        """Where another process may have taken over, this one may fall as well."""
        if self.moments_left is not None:
            self.moments_left -= 1
            if self.moments_left < 0:
                raise Fallen

    def play(self, story: Story) -> None:
        for step in story.steps:
            if step.falls is not None:
                self.moments_left = step.falls
                with suppress(Fallen):
                    self._step(step)
                self.open()
            self._step(step)
            if step.restart:
                self.open()
        self._end_of_time()
        self._tidy()

    def _step(self, step: Step) -> None:
        ingested = self.archive.ingest([file.unit() for file in step.files], CLOCK)
        left = self.judge.detect(ingested.on_time)
        self._check_each(self)
        self.judge.settle(at_once=left or step.at_once)
        self._check_each(self)
        if step.silence:
            points = self.idle.advances(self.judge.watermarks(), 60.0, lambda _: False)
            if points:
                self.archive.advance(points)
            self.judge.settle(at_once=True)
        if step.tidy:
            self._tidy()
        self._check_each(self)

    def _tidy(self) -> None:
        """Chunks close and are clustered; settled events go to the archive."""
        marks = list(self.judge.watermarks().values())
        known = [mark for mark in marks if mark is not None]
        closing = to_close(self.archive.chunks, min(known) if len(known) == len(marks) else None)
        self.archive.close_chunks(closing)
        for chunk in closing:
            for one in self.schemas:
                table = StreamTable(self.root, one)
                if chunk.id in table.chunks():
                    table.cluster(chunk.id)
            self.archive.clustered(chunk.id)
        self.outbox.flush(self.archive.chunks)

    def _end_of_time(self) -> None:
        newest = [p.newest for p in self.archive.progress.values() if p.newest is not None]
        if newest:
            end = max(newest) + self.judge.reach() + 1
            self.archive.advance(dict.fromkeys(self.archive.tables, end))
            self.judge.settle_to_end(max(newest) + 1, end)

    def select(self, query: str) -> list[dict[str, Any]]:
        with self.bench.connection.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(query).fetchall()


def empty(connection: Connection[Any]) -> None:
    kept = ("schema_version", "rules_revision")
    query = "SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> ALL(%s)"
    names = [row[0] for row in connection.execute(query, (list(kept),))]
    connection.execute(f"TRUNCATE {', '.join(names)} RESTART IDENTITY CASCADE")


def timed(definition: Definition, wait: int, keep: int) -> Definition:
    spec = definition.rule.spec.model_copy(
        update={"for_": timedelta(seconds=wait), "keep_firing_for": timedelta(seconds=keep)}
    )
    return replace(definition, rule=replace(definition.rule, spec=spec))


# Checks


def check_accounts(world: World, model: Model) -> None:
    for account in world.archive.catalog.accounting():
        stream = account["stream"]
        words = ("read", "archived", "late", "duplicates", "malformed", "quarantined", "conflicts")
        assert {w: account[w] for w in words} == {w: model.counts[stream, w] for w in words}
        dead = sum(account[w] for w in ("malformed", "quarantined", "conflicts"))
        assert account["read"] == account["archived"] + account["duplicates"] + dead
        assert world.archive.catalog.dead_letter_counts().get(stream, 0) == dead
        assert account["open_units"] == 0


def check_archive(world: World, model: Model) -> None:
    """Each row once, late or not as the model says, in the chunk of its time."""
    chunks = {chunk.id: chunk for chunk in world.archive.chunks}
    for stream in LATENESS:
        table = StreamTable(world.root, world.archive.tables[stream].schema)
        time = TIMES[stream]
        found = []
        for number in table.chunks():
            rows = table.read([*table.schema.columns, "_late"], number)
            rows = rows.set_column(rows.column_names.index(time), time, rows[time].cast(pa.int64()))
            found += rows.to_pylist()
            chunk = chunks[number]
            for ts in rows[time].to_pylist():
                assert chunk.from_ts is None or chunk.from_ts <= ts
                assert chunk.to_ts is None or ts < chunk.to_ts
        expected = [{**row, "_late": late} for late in (False, True) for row in model.rows(stream, late)]
        assert sorted(map(repr, found)) == sorted(map(repr, expected))


def check_events(world: World, expected: Mapping[str, set[Event]]) -> None:
    rows = world.select("SELECT rule, ts, key, attributes, settled FROM events")
    assert all(row["settled"] for row in rows)
    found: dict[str, list[Event]] = {name: [] for name in expected}
    for row in rows:
        attributes = tuple(sorted(row["attributes"].items()))
        found[row["rule"].removeprefix("g/")].append(
            Event(to_micros(row["ts"]), tuple(row["key"][k] for k in CASES[row["rule"][2:]].key), attributes)
        )
    for name, events in expected.items():
        assert set(found[name]) == events, name
        assert len(found[name]) == len(events)


def check_alerts(world: World, story: Story) -> None:
    """Alerts are a fold of the settled events."""
    expected = []
    for (rule, fingerprint), events in events_by_alert(world).items():
        wait, keep = story.rules[rule.removeprefix("g/")]
        for life in reference([o for o, _ in events], Timing(wait * SECOND, keep * SECOND), 2 * CLOCK):
            shown = (life.starts, life.fired, life.last, life.ended, life.events, life.eid, state(life, True))
            expected.append((rule, fingerprint, *shown))
    times = "starts_at, fired_at, last_at, ends_at"
    query = f"SELECT rule, fingerprint, {times}, events, eid, state FROM alerts WHERE state <> 'withdrawn'"
    found = [
        tuple(to_micros(value) if isinstance(value, datetime) else value for value in row.values())
        for row in world.select(query)
    ]
    assert sorted(found, key=repr) == sorted(expected, key=repr)


def check_shown(world: World, story: Story) -> None:
    """At any moment: alerts are a fold of settled and detected events, and provisional as long as none is settled."""
    shown = world.select("SELECT rule, fingerprint, state, starts_at, last_at, ends_at, events, eid FROM alerts")
    shown = [row for row in shown if row["state"] != "withdrawn"]
    expected = []
    for (rule, fingerprint), events in events_by_alert(world).items():
        wait, keep = story.rules[rule.removeprefix("g/")]
        settled = {o.eid for o, is_settled in events if is_settled}
        lives = reference([o for o, _ in events], Timing(wait * SECOND, keep * SECOND), None)
        for life in lives:
            has_settled = any(o.eid in settled for o, _ in events if life.starts <= o.ts <= life.last)
            expected.append((rule, fingerprint, life.starts, life.last, life.events, life.eid, not has_settled))
    found = [
        (
            row["rule"],
            row["fingerprint"],
            to_micros(row["starts_at"]),
            to_micros(row["last_at"]),
            row["events"],
            row["eid"],
            row["state"] == "provisional",
        )
        for row in shown
    ]
    assert sorted(found, key=repr) == sorted(expected, key=repr)
    open_settled = Counter(
        (row["rule"], row["fingerprint"]) for row in shown if row["ends_at"] is None and row["state"] != "provisional"
    )
    assert all(count == 1 for count in open_settled.values())


def events_by_alert(world: World) -> dict[tuple[str, str], list[tuple[Occurrence, bool]]]:
    """Events by rule and fingerprint, and whether each is settled."""
    found: dict[tuple[str, str], list[tuple[Occurrence, bool]]] = {}
    for row in world.select("SELECT rule, fingerprint, ts, eid, settled FROM events ORDER BY ts, eid"):
        event = (Occurrence(to_micros(row["ts"]), row["eid"]), row["settled"])
        found.setdefault((row["rule"], row["fingerprint"]), []).append(event)
    return found


def check_outbox(world: World) -> None:
    """The archive has each settled event once, in the chunk of its time."""
    table = EventTable(world.root).read()
    settled = {str(row["eid"]) for row in world.select("SELECT eid FROM events WHERE settled")}
    assert sorted(table["eid"].to_pylist()) == sorted(settled)
    chunks = {chunk.id: chunk for chunk in world.archive.chunks}
    for ts, number in zip(table["ts"].cast(pa.int64()).to_pylist(), table["chunk"].to_pylist(), strict=True):
        assert chunks[number].from_ts is None or chunks[number].from_ts <= ts
        assert chunks[number].to_ts is None or ts < chunks[number].to_ts


def names_of_events(world: World) -> set[tuple[str, UUID, datetime]]:
    return {(row["rule"], row["eid"], row["ts"]) for row in world.select("SELECT rule, eid, ts FROM events")}


# The property


@pytest.fixture(scope="module")
def bench(spark: SparkSession, public_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    file = public_folder / "moirae.yaml"
    file.write_text(WORKSPACE)
    rows = [f"{host},{site},{from_micros(START + since * SECOND).isoformat()}\n" for host, site, since in SITES]
    (public_folder / "hosts.csv").write_text("host,site,since\n" + "".join(rows), encoding="utf-8")
    workspace = load_settings(file, {})
    rules, problems = parse_rules("rules.yaml", rule_file(), workspace.table_names)
    assert not problems
    definitions, problems = check(spark, workspace, rules)
    assert not problems
    with database.connect(workspace, "tests") as connection:
        connection.execute("SET synchronous_commit = off")
        by_name = {d.rule.spec.alert: d for d in definitions}
        yield Bench(spark, workspace, connection, by_name, lambda: tmp_path_factory.mktemp("archive"))


@settings(max_examples=max(8, settings.default.max_examples // 8) if settings.default else 8)
@given(story=stories)
def test_live_equals_batch(bench: Bench, monkeypatch_limits: Callable[[Limits], None], story: Story) -> None:
    model = Model.of(story)
    newest = max(model.newest.values(), default=0)
    tables = on_time(model)
    expected = {n: distinct(n, rows) for n, rows in by_spark(bench.spark, tables, [*story.rules], newest).items()}
    for name, rows in by_duckdb(tables, [*story.rules], newest).items():
        assert distinct(name, rows) == expected[name], name

    found = []
    for told in (story, story.in_other_batches()):
        monkeypatch_limits(told.limits)
        world = World(bench, told, lambda world: check_shown(world, story))
        world.play(told)
        check_accounts(world, model)
        check_archive(world, model)
        check_events(world, expected)
        check_alerts(world, told)
        check_shown(world, told)
        check_outbox(world)
        found.append(names_of_events(world))
    assert found[0] == found[1]


@pytest.fixture
def monkeypatch_limits(monkeypatch: pytest.MonkeyPatch) -> Callable[[Limits], None]:
    """Sets the sizes, for what is made afterwards."""

    def set_all(limits: Limits) -> None:
        monkeypatch.setattr(ingest, "_SLICE", limits.slice_rows)
        monkeypatch.setattr(ingest, "_INDEXED_ROWS", limits.indexed)
        monkeypatch.setattr(ingest, "_RECENT_BYTES", limits.recent_bytes)

    return set_all
