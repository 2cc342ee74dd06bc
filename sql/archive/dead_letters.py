"""Dead letters: records that were read and not archived."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import itemgetter
from typing import Any, Protocol

from sql.gateway import Gateway


class RefusedRecord(Protocol):
    """A record to be stored: its line number in the source unit, the reason, and its bytes."""

    @property
    def line(self) -> int: ...
    @property
    def reason(self) -> str: ...
    @property
    def detail(self) -> str: ...
    @property
    def raw(self) -> bytes: ...


@dataclass(frozen=True, slots=True)
class DeadLetterRow:
    """A dead letter. `id`: ledger id of the unit and line, as `17:3`. `source`: name of the unit.

    `at`: when it was stored. `retry`: whether it is marked for retry.
    """

    id: str
    stream: str
    source: str
    line: int
    reason: str
    detail: str
    raw: bytes
    at: datetime
    retry: bool


@dataclass(frozen=True, slots=True)
class MarkedDeadLetterRow:
    """A dead letter marked for retry.

    `fields`: the CSV header of its unit, None if not CSV. `clock`: at which its unit was first
    read, None if by an earlier version. `unit`: its name. `format`: of its records, None: JSON
    lines, or CSV with `fields`. `place`: its name in identities of rows, None: as `unit`.
    """

    stream: str
    unit_id: int
    line: int
    reason: str
    raw: bytes
    fields: Sequence[str] | None
    clock: datetime | None
    unit: str
    format: Mapping[str, Any] | None = None
    place: str | None = None


class DeadLetterGateway(Gateway):
    queries = "dead_letters"

    def insert(self, unit_id: int, records: Sequence[RefusedRecord]) -> None:
        """Store refused records of a unit. Those stored by an earlier read are skipped."""
        if records:
            self._execute_many("insert", [_record_values(unit_id, record) for record in records])

    def list_newest(
        self,
        stream: str | None,
        reason: str | None,
        limit: int,
        after: tuple[datetime, int, int] | None = None,
    ) -> list[DeadLetterRow]:
        """Dead letters, newest first. `stream` and `reason` filter, unless None.

        `after`: time, unit and line of the last one of the previous page.
        """
        cursor_at, cursor_unit, cursor_line = after or (None, None, None)
        return self._records(
            DeadLetterRow,
            "list_newest",
            stream=stream,
            reason=reason,
            limit=limit,
            cursor_at=cursor_at,
            cursor_unit=cursor_unit,
            cursor_line=cursor_line,
        )

    def count(self, stream: str | None, reason: str | None) -> int:
        """Number of dead letters. `stream` and `reason` filter, unless None."""
        return int(self._value("count", stream=stream, reason=reason))

    def count_by_unit(self, stream: str) -> dict[int, int]:
        """Number of dead letters, stored or deleted as old, by unit id."""
        return self._pairs("count_by_unit", stream=stream)

    def mark_for_retry(
        self, ids: Sequence[tuple[int, int]], *, stream: str | None, reason: str | None, limit: int
    ) -> list[tuple[int, int]]:
        """Mark dead letters for retry, oldest first; returns the (unit id, line) of those marked.

        `ids` selects by (unit id, line); an empty sequence selects all. `stream` and `reason`
        restrict the selection further, unless None.
        """
        values = {"stream": stream, "reason": reason, "limit": limit, **_id_arrays(ids)}
        return self._execute("mark_for_retry", has_ids=bool(ids), **values).fetchall()

    def list_marked(self, streams: Sequence[str], limit: int) -> list[MarkedDeadLetterRow]:
        """Dead letters marked for retry, by stream, unit and line."""
        values = {"streams": list(streams), "limit": limit}
        return self._records(MarkedDeadLetterRow, "list_marked", **values)

    def unmark(self, streams: Sequence[str]) -> None:
        """Withdraw the requests to retry dead letters of some streams."""
        self._execute("unmark", streams=list(streams))

    def count_marked(self, streams: Sequence[str] | None = None) -> int:
        """Number of dead letters marked for retry. `streams` None: of all streams."""
        names = None if streams is None else list(streams)
        return int(self._value("count_marked", streams=names))

    def count_unmarked(self, ids: Sequence[tuple[int, int]]) -> int:
        """Number of the (unit id, line) pairs that are dead letters not marked for retry."""
        return int(self._value("count_unmarked", **_id_arrays(ids)))

    def delete(self, unit_id: int, lines: Sequence[int]) -> None:
        """Delete dead letters of a unit."""
        self._execute("delete", unit_id=unit_id, lines=list(lines))

    def delete_old(self, min_age: timedelta, limit: int) -> int:
        """Delete up to `limit` dead letters, except those marked for retry; returns how many.

        `min_age`: since they were stored. Their units count the deleted ones.
        """
        return sum(self._column("delete_old", min_age=min_age, limit=limit))


def _id_arrays(ids: Sequence[tuple[int, int]]) -> dict[str, list[int]]:
    return {"units": list(map(itemgetter(0), ids)), "lines": list(map(itemgetter(1), ids))}


def _record_values(unit_id: int, record: RefusedRecord) -> dict[str, Any]:
    return {
        "unit_id": unit_id,
        "line": record.line,
        "reason": record.reason,
        # PostgreSQL text cannot hold NUL.
        "detail": record.detail.replace("\x00", "\\0"),
        "raw": record.raw,
    }
