"""What a workspace takes on disk: bytes by kind, stream and day, and what its retention will take."""

from collections.abc import Mapping, Sequence
from datetime import UTC, date, timedelta
from typing import NamedTuple

import sql
from archiver.ingest import Catalog
from archiver.times import Micros, from_micros
from moirae.inspect.report import DayBytes, StoredBytesStatus, StreamBytes
from sql.archive import StoredBytesGateway, StoredBytesRow

KINDS = (
    "columns",
    "place",
    "summaries",
    "derived",
    "events",
    "contexts",
    "revisions",
    "indexes",
    "log",
    "superseded",
    "database",
)
_STREAM_KINDS = ("columns", "place", "summaries", "log", "superseded")
_OF_ROWS = ("columns", "place")
_MAX_DAYS = 31  # newest days of each stream
_DAY = 86_400_000_000  # microseconds
_RATE_SPAN = 7 * _DAY  # of the newest closed chunks, by which the rate is computed


class ChunkSize(NamedTuple):
    """A closed chunk, [start, end) in microseconds of event time, and the bytes of its rows."""

    start: Micros
    end: Micros
    bytes: int


def describe_stored_bytes(
    connection: sql.Connection, keep: Mapping[str, timedelta | None]
) -> StoredBytesStatus:
    """As the live process has measured it last. `keep`: the retention of each stream."""
    gateway = StoredBytesGateway(connection)
    rows = gateway.list_all()
    kinds = dict.fromkeys(KINDS, 0)
    for row in rows:
        kinds[row.kind] += row.bytes
    ranges: dict[int, tuple[Micros, Micros]] = {}
    for chunk in Catalog(connection).chunks():
        if chunk.from_ts is not None and chunk.to_ts is not None:
            ranges[chunk.id] = chunk.from_ts, chunk.to_ts
    streams: list[StreamBytes] = []
    days: list[DayBytes] = []
    for stream in sorted({row.stream for row in rows if row.stream}):
        of_stream = [row for row in rows if row.stream == stream]
        sizes = _size_chunks(of_stream, ranges)
        streams.append(_describe_stream(stream, of_stream, sizes, keep.get(stream)))
        for day, size in sorted(spread_over_days(sizes).items())[-_MAX_DAYS:]:
            days.append({"stream": stream, "day": day.isoformat(), "bytes": round(size)})
    return {
        "measured_at": gateway.get_measured_at(),
        "kinds": kinds,
        "streams": streams,
        "days": days,
    }


def _size_chunks(
    rows: Sequence[StoredBytesRow], ranges: Mapping[int, tuple[Micros, Micros]]
) -> list[ChunkSize]:
    """The closed chunks of a stream that have a beginning and an end, oldest first."""
    sizes: dict[int, int] = {}
    for row in rows:
        if row.kind in _OF_ROWS and row.chunk in ranges:
            sizes[row.chunk] = sizes.get(row.chunk, 0) + row.bytes
    return [ChunkSize(*ranges[chunk], size) for chunk, size in sorted(sizes.items())]


def _describe_stream(
    stream: str,
    rows: Sequence[StoredBytesRow],
    sizes: Sequence[ChunkSize],
    keep: timedelta | None,
) -> StreamBytes:
    totals = dict.fromkeys(_STREAM_KINDS, 0)
    for row in rows:
        totals[row.kind] += row.bytes
    rate = measure_rate(sizes)
    keep_bytes: int | None = None
    if rate is not None and keep is not None:
        stored = totals["columns"] + totals["place"]
        with_summaries = 1 + totals["summaries"] / stored if stored else 1.0
        keep_bytes = round(rate * (keep / timedelta(days=1)) * with_summaries)
    return {
        "stream": stream,
        "kinds": totals,
        "bytes_per_day": rate,
        "keep_seconds": None if keep is None else keep.total_seconds(),
        "keep_bytes": keep_bytes,
    }


def measure_rate(sizes: Sequence[ChunkSize]) -> float | None:
    """Bytes for each day of event time, over the newest chunks; None: there are none."""
    if not sizes:
        return None
    end = max(size.end for size in sizes)
    start = max(min(size.start for size in sizes), end - _RATE_SPAN)
    total = 0.0
    for size in sizes:
        covered = size.end - max(size.start, start)
        if covered > 0:
            total += size.bytes * covered / (size.end - size.start)
    return total * _DAY / (end - start)


def spread_over_days(sizes: Sequence[ChunkSize]) -> dict[date, float]:
    """Bytes by day of event time (UTC): those of a chunk are spread evenly over its time."""
    days: dict[date, float] = {}
    for size in sizes:
        for number in range(size.start // _DAY, (size.end - 1) // _DAY + 1):
            covered = min(size.end, (number + 1) * _DAY) - max(size.start, number * _DAY)
            day = _day_of(number)
            share = size.bytes * covered / (size.end - size.start)
            days[day] = days.get(day, 0.0) + share
    return days


def _day_of(number: int) -> date:
    return from_micros(number * _DAY).astimezone(UTC).date()
