"""Hostile source files, and what an archive makes of them, for comparisons of ingest engines."""

import csv
import gzip
import io
import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from psycopg import Connection

from archiver.chunks.chunk import CutPolicy
from archiver.delta.schema import StreamSchema
from archiver.formats import CSV, JSONL, PARQUET
from archiver.ingest.engines import EngineMode, EnginePolicy
from archiver.ingest.ledger import TopicIdentity
from archiver.ingest.source_units import OffsetRange, SourceUnit
from archiver.ingest.watermarks import PartitionProgress
from archiver.ingest.writer import ArchiveWriter
from archiver.storage import StorageRoot
from archiver.times import to_micros
from moirae.config.streams import Stream
from moirae.live.sources import files
from moirae.live.sources.topics.units import make_topic_records, make_units

START = datetime(2026, 1, 1, tzinfo=UTC)
NOW = START + timedelta(days=1)
COLUMNS = {"ts": "timestamp", "host": "string", "n": "bigint", "v": "double"}
SCHEMAS = [
    StreamSchema(
        "a",
        COLUMNS,
        "ts",
        ("host", "n"),
        ("host",),
        timedelta(minutes=1),
        timedelta(minutes=5),
        punctuation="closed",
    ),
    # The whole row is the identity.
    StreamSchema(
        "b", COLUMNS, "ts", None, (), timedelta(0), timedelta(minutes=5), punctuation="closed"
    ),
]


@dataclass(frozen=True)
class Sizes:
    """How large the files of a scenario are."""

    batches: int
    files: int
    rows: int


def write_batches(folder: Path, seed: int, sizes: Sizes) -> list[list[SourceUnit]]:
    """Batches of files of all formats with repeated, conflicting, late, future and broken lines."""
    rng = random.Random(seed)
    recent: dict[str, list[dict[str, Any]]] = {"a": [], "b": []}
    batches: list[list[SourceUnit]] = []
    clock = START
    for batch in range(sizes.batches):
        units: list[SourceUnit] = []
        for stream in ("a", "b"):
            for number in range(rng.randint(0, sizes.files)):
                rows = [_row(rng, clock, recent[stream]) for _ in range(rng.randint(0, sizes.rows))]
                clock += timedelta(seconds=rng.choice((0, 5, 60)))
                name = f"{stream}-{batch}-{number}"
                units.append(_write_file(rng, folder / stream, stream, name, rows))
        batches.append(units)
    return batches


def _row(rng: random.Random, clock: datetime, recent: list[dict[str, Any]]) -> dict[str, Any]:
    kind = rng.random()
    if recent and kind < 0.15:
        return dict(rng.choice(recent))
    if recent and kind < 0.2:
        return {**rng.choice(recent), "v": rng.random()}
    age = timedelta(seconds=rng.uniform(0, 10))
    if kind < 0.3:
        age = timedelta(minutes=rng.uniform(0, 60))
    elif kind < 0.32:
        age = -timedelta(days=2)
    row = {
        "ts": (clock - age).isoformat().replace("+00:00", "Z"),
        "host": f"h{rng.randrange(5)}",
        "n": rng.randrange(50),
        "v": rng.choice((None, rng.random())),
    }
    recent.append(row)
    del recent[:-500]
    return row


def _write_file(
    rng: random.Random, folder: Path, stream: str, name: str, rows: Sequence[dict[str, Any]]
) -> SourceUnit:
    folder.mkdir(parents=True, exist_ok=True)
    kind = rng.choice(("jsonl", "jsonl", "jsonl.gz", "csv", "csv.gz", "parquet", "damaged"))
    if kind == "parquet":
        path = folder / f"{name}.parquet"
        columns = {column: [row[column] for row in rows] for column in COLUMNS}
        columns["ts"] = [datetime.fromisoformat(text) for text in columns["ts"]]
        types = pa.schema(
            [
                ("ts", pa.timestamp("us", "UTC")),
                ("host", pa.string()),
                ("n", pa.int64()),
                ("v", "f8"),
            ]
        )
        pq.write_table(pa.table(columns, schema=types), path)
        return files.make_unit(stream, path.name, PARQUET, path, path.stat().st_size)
    is_csv = kind.startswith("csv")
    content = _csv(rng, rows) if is_csv else _json_lines(rng, rows)
    if rng.random() < 0.2:
        content = b"\xef\xbb\xbf" + content
    path = folder / f"{name}.{kind}"
    if kind.endswith("gz"):
        content = gzip.compress(content, mtime=0)
    if kind == "damaged":
        path = folder / f"{name}.jsonl.gz"
        content = gzip.compress(content, mtime=0)[:-10]
    path.write_bytes(content)
    if rng.random() < 0.05:
        path.unlink()
    record_format = CSV if is_csv else JSONL
    return files.make_unit(stream, path.name, record_format, path, len(content))


def _json_lines(rng: random.Random, rows: Sequence[dict[str, Any]]) -> bytes:
    lines: list[bytes] = []
    for row in rows:
        line = json.dumps({**row, **({"more": 1} if rng.random() < 0.1 else {})}).encode()
        if rng.random() < 0.03:
            line = rng.choice((b"{", b"[]", b"\xff", b'{"ts": "x"}', line[:-4]))
        lines.append(line)
        if row["n"] == 49 and row["v"] is None:
            closed = datetime.fromisoformat(row["ts"]) - timedelta(minutes=30)
            further = {"h0": closed.isoformat(), "h1": "2099-01-01T00:00:00Z", "h2": "soon"}
            lines.append(json.dumps({"closed": further.get(row["host"])}).encode())
        if row["n"] == 48:
            lines.append(json.dumps({"closed": row["ts"], "host": row["host"]}).encode())
    return _join(rng, lines)


def _csv(rng: random.Random, rows: Sequence[dict[str, Any]]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(COLUMNS), lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow(row)
        if rng.random() < 0.03:
            text.write("too,few\n")
    return _join(rng, text.getvalue().encode().splitlines())


def _join(rng: random.Random, lines: Sequence[bytes]) -> bytes:
    """The lines with blank ones among them, and now and then without an end of the last."""
    parts: list[bytes] = []
    for line in lines:
        parts.append(line + rng.choice((b"\n", b"\n", b"\r\n")))
        if rng.random() < 0.05:
            parts.append(rng.choice((b"\n", b"  \n", b"\r\n")))
    content = b"".join(parts)
    return content.rstrip(b"\r\n") if rng.random() < 0.3 else content


def open_writer(
    root: StorageRoot, connection: Connection[Any], mode: EngineMode, chunk_rows: int
) -> ArchiveWriter:
    """An archive; the caller sets its executors."""
    policy = CutPolicy(chunk_rows, 600_000_000)
    writer = ArchiveWriter(root, SCHEMAS, policy, connection, lambda: None)
    writer.engines.policy = EnginePolicy(mode, large_batch=500)
    return writer


def ingest(writer: ArchiveWriter, batches: Sequence[Sequence[SourceUnit]]) -> None:
    """Ingest batches at one time of the clock."""
    for units in batches:
        writer.ingest(units, to_micros(NOW))


def outcome(writer: ArchiveWriter, connection: Connection[Any]) -> dict[str, Any]:
    """Everything that must not depend on the engine."""
    unit_names = dict(connection.execute("SELECT id, unit FROM units").fetchall())
    archive = {}
    for stream, table in writer.tables.items():
        columns = [*COLUMNS, "_extra", "_late", "_id", "_hash", "_unit", "_line"]
        rows = []
        for chunk in table.files_by_chunk():
            for row in table.read(columns, chunk).to_pylist():
                rows.append({**row, "_unit": unit_names[row["_unit"]], "chunk": chunk})
        archive[stream] = sorted(rows, key=lambda row: (row["_unit"], row["_line"]))
    counters = connection.execute(
        "SELECT unit, stream, read, archived, late, duplicates, malformed, quarantined, conflicts,"
        " expired, tombstones, punctuations, newest, fields, done FROM units ORDER BY id"
    ).fetchall()
    dead_letters = connection.execute(
        "SELECT unit, line, reason, detail, raw FROM dead_letters JOIN units ON id = unit_id"
        " ORDER BY 1, 2"
    ).fetchall()
    chunks = connection.execute("SELECT id, from_ts, to_ts, version FROM chunks ORDER BY id")
    closed_keys = connection.execute(
        "SELECT stream, partition, columns, key, closed FROM closed_keys ORDER BY 1, 2, 4"
    )
    return {
        "archive": archive,
        "counters": counters,
        "dead letters": dead_letters,
        "chunks": chunks.fetchall(),
        "partitions": writer.partitions,
        "closed keys": closed_keys.fetchall(),
        "watermarks": {stream: writer.watermark(stream) for stream in writer.tables},
        "newest chunk": vars(writer._cutter._newest_stats),
    }


def assert_equal(actual: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    """Each part of an outcome is as expected; the error names the part."""
    for name, value in expected.items():
        assert actual[name] == value, name


def write_large_file(path: Path, rows: int) -> SourceUnit:
    """A file of stream a in order of time, with some repeated and some conflicting rows.

    Files of any format have the same rows.
    """
    lines: list[str] = []
    is_csv = path.suffix == ".csv"
    if is_csv:
        lines.append(",".join(COLUMNS))
    first = to_micros(START)
    for number in range(rows):
        row = number if number % 10 else number // 2
        ts = (first + row * 10_000) / 1e6
        value = 0.5 if number % 1_000 else 0.25
        host = f"h{row % 7}"
        if is_csv:
            text = START + timedelta(microseconds=row * 10_000)
            lines.append(f"{text.isoformat()},{host},{row},{value}")
        else:
            lines.append(f'{{"ts": {ts!r}, "host": "{host}", "n": {row}, "v": {value}}}')
    path.write_text("\n".join(lines))
    record_format = CSV if is_csv else JSONL
    name = files.unit_name(path, path.parent)
    return files.make_unit("a", name, record_format, path, path.stat().st_size)


TOPIC = Stream.model_validate(
    {
        "columns": COLUMNS,
        "time": "ts",
        "id": ["host", "n"],
        "source": {"kafka": {"servers": "localhost:1", "topic": "t"}},
    }
)


_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def make_records(seed: int, batches: int, rows: int) -> list[pa.Table]:
    """Micro-batches of a topic with three partitions; now and then records are read again."""
    rng = random.Random(seed)
    recent: list[dict[str, Any]] = []
    next_offsets = [0, 0, 0]
    clock = START
    tables: list[pa.Table] = []
    for _ in range(batches):
        columns: dict[str, list[Any]] = {"partition": [], "offset": [], "value": []}
        for _ in range(rng.randint(1, rows)):
            partition = rng.randrange(3)
            clock += timedelta(seconds=rng.uniform(0, 2))
            lines = _json_lines(rng, [_row(rng, clock, recent)]).split(b"\n")
            columns["partition"].append(partition)
            columns["offset"].append(next_offsets[partition])
            columns["value"].append(rng.choice([None, *lines]) if rng.random() < 0.05 else lines[0])
            next_offsets[partition] += rng.choice((1, 1, 2))
        types = (pa.int32(), pa.int64(), pa.binary())
        arrays = [
            pa.array(values, kind) for values, kind in zip(columns.values(), types, strict=True)
        ]
        table = pa.table(arrays, names=list(columns))
        table = table.append_column("headers", pa.nulls(len(table), _HEADERS))
        if tables and rng.random() < 0.3:
            table = pa.concat_tables([tables[-1].slice(len(tables[-1]) // 2), table])
        tables.append(table)
    return tables


def ingest_topic(
    writer: ArchiveWriter,
    tables: Sequence[pa.Table],
    make_frame: Callable[[pa.Table], Any],
) -> None:
    """Ingest micro-batches of a topic as stream a, by the engine of the archive."""
    begin_topic(writer, "a")
    for table in tables:
        ranges = unread_ranges(table, writer.partitions["a"])
        if writer.engines.choose_for_rows(len(table)) == "spark":
            records = make_topic_records("a", TOPIC, "t", make_frame(table), ranges)
            writer.ingest_records(records, to_micros(NOW))
        else:
            units = make_units("a", TOPIC, "t", table, ranges)
            writer.ingest(units, to_micros(NOW))


def begin_topic(writer: ArchiveWriter, stream: str) -> None:
    """Let a stream read a topic from its beginning on, as its reader does."""
    with writer.fenced_transaction():
        writer.topics.begin(stream, TopicIdentity("t", "id", "localhost:1", "cluster"), {}, None)


def unread_ranges(
    records: pa.Table, progress: Mapping[str, PartitionProgress]
) -> dict[str, OffsetRange]:
    """The ranges of the records of a table that are not archived, by partition."""
    ranges: dict[str, OffsetRange] = {}
    for number in pc.unique(records["partition"]).to_pylist():
        offsets = records.filter(pc.equal(records["partition"], number))["offset"]
        name = str(number)
        first = progress[name].next if name in progress else pc.min(offsets).as_py()
        end = pc.max(offsets).as_py() + 1
        if end > first:
            ranges[name] = OffsetRange(first, end)
    return ranges


def split_by_partition(table: pa.Table) -> list[list[pa.RecordBatch]]:
    """A part with the records of two partitions, one of a third in between, and one without any."""
    parts: list[list[pa.RecordBatch]] = [[]]
    for partitions in ((2, 0), (1,)):
        part = table.filter(pc.is_in(table["partition"], pa.array(partitions, pa.int32())))
        parts.append(part.to_batches(max_chunksize=7))
    return parts
