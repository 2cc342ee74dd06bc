"""Inspect input streams and chunks; list and retry dead letters."""

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import starmap
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field
from typing_extensions import TypedDict

from archiver.clock import utc_now
from moirae.config import Settings
from moirae.errors import NotFound, UsageError
from moirae.runtime.storage import archived_streams, open_storage
from moirae.services.models import (
    Arguments,
    Name,
    PageQuery,
    decode_cursor,
    next_cursor,
    parse_number,
)
from moirae.services.operation import operation
from sql.archive import (
    DeadLetterGateway,
    DeadLetterRow,
    StoredBytesGateway,
    StreamGateway,
    UnitGateway,
)

if TYPE_CHECKING:
    from archiver.chunks import ChunkRecord
    from archiver.delta import ChunkFiles, StreamSchema, StreamTable
    from moirae.services.workspace import LocalWorkspace

Reason = Literal["malformed", "quarantined", "conflict", "expired"]
_MAX_IDS = 100_000


class DeadLetterQuery(PageQuery):
    """Which dead letters to list."""

    stream: Name | None = Field(None, description="Only dead letters of this stream.")
    reason: Reason | None = Field(None, description="Only dead letters with this reason.")


class ChunkQuery(PageQuery):
    """Which part of the list of chunks."""


class RetryBody(Arguments):
    """Which dead letters to retry: some IDs, or all that match."""

    ids: list[str] | None = Field(None, max_length=_MAX_IDS, description="IDs, such as 17:3.")
    stream: Name | None = Field(None, description="Dead letters of this stream.")
    reason: Reason | None = Field(None, description="Dead letters with this reason.")
    all: bool = Field(False, description="All dead letters.")
    limit: int = Field(_MAX_IDS, ge=1, le=_MAX_IDS, description="Maximum number of records.")


class RetryIds(Arguments):
    """Dead letters whose retry was requested."""

    ids: list[str] = Field(max_length=_MAX_IDS, description="IDs, such as 17:3.")


class BatchNames(Arguments):
    """Batches of a stream."""

    batches: list[Name] = Field(max_length=10_000, description="Names of batches.")


@dataclass(frozen=True)
class BatchProgress:
    """Progress of the archiving of batches.

    `archived`: the number of batches that are archived; `accounting`: of their records. `live`:
    whether a live process archives them.
    """

    archived: int
    accounting: Mapping[str, int]
    live: bool


@dataclass(frozen=True)
class StreamSummary:
    """Counters and files of a declared stream.

    `history_bytes`: of superseded files that stay for `archive_history`. `lag`: behind the newest
    stream, in seconds; no row is newer than the clock. `identity`: what makes two records one row:
    the columns of `id` and the time, `row` (their content) or `place` (their place in the source).
    """

    stream: str
    identity: str
    read: int
    archived: int
    late: int
    duplicates: int
    malformed: int
    quarantined: int
    conflicts: int
    expired: int
    deleted: int
    rows: int
    files: int
    bytes: int
    newest: datetime | None
    history_bytes: int
    lag: float | None


ChunkSummary = TypedDict(
    "ChunkSummary",
    {
        "id": int,
        "from": datetime | None,
        "to": datetime | None,
        "state": str,
        "rows": int,
        "files": int,
        "bytes": int,
        "columns": int | None,
        "place": int | None,
        "clustered": bool,
        "version": int,
    },
)
"""A chunk: its range of event time, its state, and its size over all streams.

`columns`, `place`: the bytes of the user's columns and those of the archive, as measured last; null:
not measured yet.
"""


@dataclass(frozen=True)
class ChunkPage:
    """Chunks, oldest first. `next`: cursor of the next page. `total`: if it was asked for."""

    chunks: Sequence[ChunkSummary]
    next: str | None
    total: int | None


@dataclass(frozen=True)
class ChunkStream:
    """The rows of a stream in a chunk."""

    stream: str
    rows: int
    files: int
    bytes: int
    oldest: datetime
    newest: datetime


@dataclass(frozen=True)
class ChunkDetails:
    """A chunk with its streams. `maintenance`: versions of completed tasks, by name."""

    chunk: ChunkSummary
    streams: Sequence[ChunkStream]
    maintenance: Mapping[str, int]


@dataclass(frozen=True)
class DeadLetter:
    """A record that was not archived. `raw`: as text; `raw_base64`: its bytes."""

    id: str
    stream: str
    source: str
    line: int
    reason: str
    detail: str
    raw: str
    at: datetime
    retry: bool
    raw_base64: str


@dataclass(frozen=True)
class DeadLetterPage:
    """Dead letters, newest first. `next`: cursor of the next page."""

    dead_letters: Sequence[DeadLetter]
    next: str | None
    total: int | None


@dataclass(frozen=True)
class Retry:
    """Dead letters marked for retry, and given IDs that no dead letter has."""

    marked: Sequence[str]
    missing: Sequence[str]


@dataclass(frozen=True)
class RetryProgress:
    """Progress of a retry.

    `waiting`: marked dead letters of declared streams; `pending`: of all streams. `rejected`: of
    the given ones, those that were rejected again. `live`: whether a live process retries them.
    """

    waiting: int
    pending: int
    rejected: int
    live: bool


@operation("GET", "/streams", role="viewer")
def list_streams(workspace: "LocalWorkspace") -> list[StreamSummary]:
    """List declared streams: records read, rows archived, and lag behind the newest stream."""
    from moirae.inspect import collect_status

    settings = workspace.settings
    storage = open_storage(settings)
    progress = collect_status(workspace.connection, storage)["streams"]
    lags = measure_lags({stream: entry["newest"] for stream, entry in progress.items()}, utc_now())
    rows = []
    for table in _open_stream_tables(workspace):
        name = table.schema.name
        history_bytes = table.history_bytes(settings.archive_history.total_seconds())
        rows.append(_count_stream(table, progress.get(name), lags.get(name), history_bytes))
    return rows


@operation("POST", "/streams/{stream}/progress", role="viewer", changes=False)
def show_batch_progress(
    workspace: "LocalWorkspace", stream: Name, body: BatchNames
) -> BatchProgress:
    """Show how many of some batches are archived, and the accounting of their records."""
    from moirae.inspect import is_live_available, sum_accounting

    _check_stream(workspace, stream)
    counts = UnitGateway(workspace.connection).list_counts(stream, body.batches)
    return BatchProgress(
        len(counts), sum_accounting(counts), is_live_available(workspace.connection)
    )


@operation("GET", "/chunks", role="viewer")
def list_chunks(workspace: "LocalWorkspace", query: ChunkQuery) -> ChunkPage:
    """List chunks with their time range, state and size, oldest first."""
    from archiver.ingest import Catalog

    cursor = decode_cursor(query.cursor, parse_number)
    all_records = Catalog(workspace.connection).chunk_records()
    records = all_records
    if cursor is not None:
        records = [record for record in records if record.chunk.id > cursor[0]]
    records = records[: query.limit]
    files_by_stream = [table.files_by_chunk() for table in _open_stream_tables(workspace)]
    measured = StoredBytesGateway(workspace.connection).sum_by_chunk()
    chunks = []
    for record in records:
        chunk_files = (files.get(record.chunk.id) for files in files_by_stream)
        chunks.append(_summarize_chunk(record, filter(None, chunk_files), measured))
    following = next_cursor(chunks, query.limit, lambda chunk: (chunk["id"],))
    return ChunkPage(chunks, following, len(all_records) if query.count else None)


@operation("GET", "/chunks/{chunk}", role="viewer")
def show_chunk(workspace: "LocalWorkspace", chunk: int) -> ChunkDetails:
    """Show a chunk: its rows of each stream and its completed maintenance."""
    from archiver.ingest import Catalog

    records = Catalog(workspace.connection).chunk_records()
    record = next((record for record in records if record.chunk.id == chunk), None)
    if record is None:
        raise NotFound(f"no chunk {chunk}: `moirae chunks list` shows all chunks")
    files_by_stream = {}
    for table in _open_stream_tables(workspace):
        files = table.files_by_chunk().get(chunk)
        if files is not None:
            files_by_stream[table.schema.name] = files
    return ChunkDetails(
        _summarize_chunk(
            record,
            files_by_stream.values(),
            StoredBytesGateway(workspace.connection).sum_by_chunk(),
        ),
        list(starmap(_describe_chunk_stream, files_by_stream.items())),
        record.completed_versions,
    )


@operation("GET", "/dead-letters", role="viewer")
def list_dead_letters(workspace: "LocalWorkspace", query: DeadLetterQuery) -> DeadLetterPage:
    """List dead letters with source, line, reason and record, newest first."""
    _check_stream(workspace, query.stream)
    gateway = DeadLetterGateway(workspace.connection)
    after = decode_cursor(query.cursor, datetime.fromisoformat, parse_number, parse_number)
    rows = gateway.list_newest(query.stream, query.reason, query.limit, after)
    following = next_cursor(rows, query.limit, lambda row: (row.at, *parse_dead_letter_id(row.id)))
    total = gateway.count(query.stream, query.reason) if query.count else None
    return DeadLetterPage(list(map(_describe_dead_letter, rows)), following, total)


@operation("POST", "/dead-letters/retry", role="operator")
def retry_dead_letters(workspace: "LocalWorkspace", body: RetryBody) -> Retry:
    """Retry dead letters after fixing their cause. The live process does it."""
    has_filter = body.stream is not None or body.reason is not None or body.all
    if not body.ids and not has_filter:
        raise UsageError("nothing selected: give IDs, a stream, a reason or all")
    if body.ids is not None and has_filter:
        raise UsageError("IDs cannot be combined with a stream, a reason or all")
    ids = list(map(parse_dead_letter_id, body.ids or ()))
    _check_stream(workspace, body.stream)
    marked = DeadLetterGateway(workspace.connection).mark_for_retry(
        ids, stream=body.stream, reason=body.reason, limit=body.limit
    )
    marked_ids = set(marked)
    given = zip(body.ids or (), ids, strict=True)
    missing = [text for text, letter in given if letter not in marked_ids]
    return Retry([f"{unit}:{line}" for unit, line in marked], missing)


@operation("POST", "/dead-letters/progress", role="viewer", changes=False)
def show_retry_progress(workspace: "LocalWorkspace", body: RetryIds) -> RetryProgress:
    """Show the progress of the retry of dead letters."""
    from moirae.inspect import is_live_available

    gateway = DeadLetterGateway(workspace.connection)
    ids = list(map(parse_dead_letter_id, body.ids))
    return RetryProgress(
        waiting=gateway.count_marked(list(workspace.settings.streams)),
        pending=gateway.count_marked(),
        rejected=gateway.count_unmarked(ids),
        live=is_live_available(workspace.connection),
    )


def check_declared(settings: Settings, stream: str) -> None:
    """Raise `NotFound` for a stream that the workspace does not declare."""
    if stream not in settings.streams:
        streams = ", ".join(settings.streams) or "none"
        raise NotFound(f"no stream {stream!r}: declared are {streams}")


def parse_dead_letter_id(text: str) -> tuple[int, int]:
    """`17:3` -> source unit 17, line 3. Raises `UsageError`."""
    unit, _, line = text.partition(":")
    digits = unit + line
    is_valid = unit and line and digits.isascii() and digits.isdigit() and len(text) < 20
    if not is_valid:
        raise UsageError(f"{text[:80]!r} is not a valid dead letter ID, such as 17:3")
    return int(unit), int(line)


def _check_stream(workspace: "LocalWorkspace", name: str | None) -> None:
    """Raise `NotFound` for a stream that is not declared and of which nothing was read."""
    settings = workspace.settings
    if name is None or name in settings.streams:
        return
    if name not in {row.name for row in StreamGateway(workspace.connection).list_all()}:
        raise NotFound(f"no stream {name!r}: declared are {', '.join(settings.streams)}")


def _describe_dead_letter(row: DeadLetterRow) -> DeadLetter:
    return DeadLetter(
        id=row.id,
        stream=row.stream,
        source=row.source,
        line=row.line,
        reason=row.reason,
        detail=row.detail,
        raw=row.raw.decode("utf-8", "backslashreplace"),
        at=row.at,
        retry=row.retry,
        raw_base64=base64.b64encode(row.raw).decode(),
    )


def _open_stream_tables(workspace: "LocalWorkspace") -> "list[StreamTable]":
    """The tables of the archived streams, declared or not."""
    from archiver.delta import StreamTable

    storage = open_storage(workspace.settings)
    schemas = archived_streams(workspace.settings, workspace.connection)
    return [StreamTable(storage, schema) for schema in schemas]


def measure_lags(newest: Mapping[str, datetime | None], now: datetime) -> dict[str, float]:
    """How far each stream is behind the newest one, in seconds; `newest`: event times.

    Rows ahead of the clock count as rows at the clock: one host whose clock is fast does not make
    all other streams lag. A stream without rows has no lag.
    """
    times = {stream: min(time, now) for stream, time in newest.items() if time is not None}
    newest_time = max(times.values(), default=now)
    return {stream: (newest_time - time).total_seconds() for stream, time in times.items()}


def _count_stream(
    table: "StreamTable",
    progress: Mapping[str, Any] | None,
    lag: float | None,
    history_bytes: int,
) -> StreamSummary:
    """Counts of a stream. `progress`: its entry in the status, None where nothing was read yet."""
    from moirae.inspect import DEAD_LETTER_COUNTERS, sum_accounting

    counters = ("late", *DEAD_LETTER_COUNTERS, "deleted")
    if progress is None:
        progress = {"accounting": sum_accounting([]), "newest": None, **dict.fromkeys(counters, 0)}
    files = table.files_by_chunk().values()
    return StreamSummary(
        stream=table.schema.name,
        identity=_describe_identity(table.schema),
        read=progress["accounting"]["read"],
        archived=progress["accounting"]["archived"],
        late=progress["late"],
        duplicates=progress["accounting"]["duplicates"],
        **{reason: progress[reason] for reason in DEAD_LETTER_COUNTERS},
        deleted=progress["deleted"],
        rows=sum(map(attrgetter("rows"), files)),
        files=sum(map(attrgetter("file_count"), files)),
        bytes=sum(map(attrgetter("bytes"), files)),
        newest=progress["newest"],
        history_bytes=history_bytes,
        lag=lag,
    )


def _describe_identity(schema: "StreamSchema") -> str:
    if schema.id is None:
        return schema.identity
    return ", ".join(dict.fromkeys([*schema.id, schema.time]))


def _summarize_chunk(
    record: "ChunkRecord",
    files_of_streams: "Iterable[ChunkFiles]",
    measured: Mapping[tuple[str, int], int],
) -> ChunkSummary:
    """`measured`: bytes by kind and chunk."""
    from archiver.times import optional_datetime

    row_count = 0
    file_count = 0
    byte_count = 0
    for files in files_of_streams:
        row_count += files.rows
        file_count += files.file_count
        byte_count += files.bytes
    unknown = None if byte_count else 0
    return {
        "id": record.chunk.id,
        "from": optional_datetime(record.chunk.from_ts),
        "to": optional_datetime(record.chunk.to_ts),
        "state": record.chunk.state,
        "rows": row_count,
        "files": file_count,
        "bytes": byte_count,
        "columns": measured.get(("columns", record.chunk.id), unknown),
        "place": measured.get(("place", record.chunk.id), unknown),
        "clustered": record.is_clustered,
        "version": record.version,
    }


def _describe_chunk_stream(stream: str, files: "ChunkFiles") -> ChunkStream:
    from archiver.times import from_micros

    return ChunkStream(
        stream=stream,
        rows=files.rows,
        files=files.file_count,
        bytes=files.bytes,
        oldest=from_micros(files.oldest),
        newest=from_micros(files.newest),
    )
