"""What a workspace takes on disk: bytes by kind, stream and day, and what its retention will take."""

from collections.abc import Mapping, Sequence
from datetime import UTC, date, timedelta
from typing import NamedTuple

import sql
from archiver.times import Micros, from_micros
from moirae.inspect.report import DayBytes, StoredBytesStatus, StreamBytes
from sql.archive import StoredBytesGateway

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
    kinds = dict.fromkeys(KINDS, 0)
    kinds_by_stream: dict[str, dict[str, int]] = {}
    for (kind, stream), size in gateway.sum_by_kind().items():
        kinds[kind] += size
        if stream:
            of_stream = kinds_by_stream.setdefault(stream, dict.fromkeys(_STREAM_KINDS, 0))
            of_stream[kind] += size
    chunks_by_stream: dict[str, list[ChunkSize]] = {}
    for row in gateway.list_recent_chunks():
        chunk = ChunkSize(row.from_ts, row.to_ts, row.bytes)
        chunks_by_stream.setdefault(row.stream, []).append(chunk)
    streams: list[StreamBytes] = []
    days: list[DayBytes] = []
    for stream, of_stream in sorted(kinds_by_stream.items()):
        chunks = chunks_by_stream.get(stream, [])
        streams.append(_describe_stream(stream, of_stream, measure_rate(chunks), keep.get(stream)))
        for day, day_bytes in sorted(spread_over_days(chunks).items())[-_MAX_DAYS:]:
            days.append({"stream": stream, "day": day.isoformat(), "bytes": round(day_bytes)})
    return {
        "measured_at": gateway.get_measured_at(),
        "kinds": kinds,
        "streams": streams,
        "days": days,
    }


def _describe_stream(
    stream: str, kinds: Mapping[str, int], rate: float | None, keep: timedelta | None
) -> StreamBytes:
    keep_bytes: int | None = None
    if rate is not None and keep is not None:
        stored = kinds["columns"] + kinds["place"]
        with_summaries = 1 + kinds["summaries"] / stored if stored else 1.0
        keep_bytes = round(rate * (keep / timedelta(days=1)) * with_summaries)
    return {
        "stream": stream,
        "kinds": kinds,
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
