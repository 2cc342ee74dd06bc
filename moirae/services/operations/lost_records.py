"""List and acknowledge records of topics that were lost before they were read."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import Field

from moirae.errors import NotFound
from moirae.inspect import LostRecordsStatus, describe_lost_records
from moirae.services.models import Name, PageQuery, decode_cursor, next_cursor, parse_number
from moirae.services.operation import operation
from sql.archive import StreamGateway
from sql.topics import LostRecordsGateway

if TYPE_CHECKING:
    from moirae.services.workspace import LocalWorkspace


class LostRecordsQuery(PageQuery):
    """Which losses to list."""

    stream: Name | None = Field(None, description="Only losses of this stream.")


@dataclass(frozen=True)
class LostRecordsPage:
    """Losses, newest first. `next`: cursor of the next page. `total`: if it was asked for."""

    losses: Sequence[LostRecordsStatus]
    next: str | None
    total: int | None


@operation("GET", "/lost-records", role="viewer")
def list_lost_records(workspace: "LocalWorkspace", query: LostRecordsQuery) -> LostRecordsPage:
    """List records of topics that were lost before they were read, newest first, for good."""
    if query.stream is not None:
        _check_stream(workspace, query.stream)
    gateway = LostRecordsGateway(workspace.connection)
    cursor = decode_cursor(query.cursor, parse_number)
    rows = gateway.list_newest(query.stream, query.limit, None if cursor is None else cursor[0])
    following = next_cursor(rows, query.limit, lambda row: (row.id,))
    total = gateway.count(query.stream) if query.count else None
    return LostRecordsPage(list(map(describe_lost_records, rows)), following, total)


@operation("POST", "/streams/{stream}/acknowledge", role="operator")
def acknowledge_losses(workspace: "LocalWorkspace", stream: Name) -> list[LostRecordsStatus]:
    """Acknowledge that records of a stream were lost: `status` no longer reports them."""
    _check_stream(workspace, stream)
    rows = LostRecordsGateway(workspace.connection).acknowledge(stream)
    return list(map(describe_lost_records, rows))


def _check_stream(workspace: "LocalWorkspace", name: str) -> None:
    """Raise `NotFound` for a stream that is not declared and never was."""
    declared = workspace.settings.streams
    if name in declared or name in {
        row.name for row in StreamGateway(workspace.connection).list_all()
    }:
        return
    raise NotFound(f"no stream {name!r}: declared are {', '.join(declared) or 'none'}")
