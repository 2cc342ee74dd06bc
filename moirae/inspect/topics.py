"""Topics that cannot be read, and records that were lost before they were read."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from types import SimpleNamespace
from typing import Any

import sql
from moirae.inspect.report import LostRecordsStatus, SourceErrorStatus
from sql.topics import LostRecordsGateway, LostRecordsRow, SourceErrorGateway


def list_source_errors(connection: sql.Connection) -> list[SourceErrorStatus]:
    """The streams whose topic cannot be read now."""
    return [
        SourceErrorStatus(stream=row.stream, kind=row.kind, error=row.error, since=row.since)
        for row in SourceErrorGateway(connection).list_all()
    ]


def list_unacknowledged_losses(connection: sql.Connection) -> list[LostRecordsStatus]:
    """The losses that nobody has acknowledged, oldest first."""
    return list(map(describe_lost_records, LostRecordsGateway(connection).list_open()))


def describe_lost_records(row: LostRecordsRow) -> LostRecordsStatus:
    """A loss as the status shows it."""
    return LostRecordsStatus(
        id=row.id,
        stream=row.stream,
        topic=row.topic,
        partition=row.partition,
        first_offset=row.first_offset,
        last_offset=row.last_offset,
        reason=row.reason,
        noticed_at=row.noticed_at,
        acknowledged_at=row.acknowledged_at,
    )


def find_topic_problems(status: Mapping[str, Any]) -> Iterator[str]:
    """A line for each stream whose topic cannot be read, and for each loss of a stream."""
    for error in status["source_errors"]:
        yield f"stream {error['stream']}: since {_format_time(error['since'])}, {error['error']}"
    losses: dict[str, list[SimpleNamespace]] = {}
    for loss in status["lost_records"]:
        losses.setdefault(loss["stream"], []).append(SimpleNamespace(**loss))
    if not losses:
        return
    # Loaded here: the command line reads the status without the archive.
    from archiver.ingest.ledger import describe_losses

    for stream, stream_losses in losses.items():
        for text in describe_losses(stream_losses):
            yield f"stream {stream}: {text}; then run `moirae streams acknowledge {stream}`"


def list_brokers_away(errors: Sequence[SourceErrorStatus]) -> list[str]:
    """Why records that were sent to brokers are not archived now."""
    return [
        f"stream {error['stream']}: {error['error']}" for error in errors if error["kind"] == "away"
    ]


def _format_time(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M:%S}Z"
