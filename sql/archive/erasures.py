"""What was erased on request: erasures, keyed hashes of their rows, and what is left to remove."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from sql.gateway import Gateway
from sql.values import to_json_rows

_BATCH_ROWS = 5_000

LISTED = -1
"""The unit of erased rows that a backup's list names: where they were read is not known."""


@dataclass(frozen=True, slots=True)
class ErasureRow:
    """An erasure. `condition_hash`: keyed. `first_ts`, `last_ts`: between which its rows were, to the
    hour; None: it had no rows. `effects`: what it did where. `finished_at`: None: it goes on.
    """

    id: UUID
    author: str
    condition_hash: bytes
    streams: Sequence[str]
    rows: int
    state: str
    first_ts: datetime | None
    last_ts: datetime | None
    effects: Mapping[str, Any]
    started_at: datetime
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class ErasedRowRow:
    """An erased row: see `archiver.delta.ErasedRow`."""

    hash: bytes
    unit: int
    line: int
    hour: int


@dataclass(frozen=True, slots=True)
class EventMomentRow:
    """An event at a time, in microseconds."""

    eid: UUID
    ts: int
    key: Mapping[str, Any]
    attributes: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _AddedRows:
    unit: int
    rows: int
    first_hour: int
    last_hour: int


class ErasureGateway(Gateway):
    """The caller owns the transaction."""

    queries = "erasures"

    def get_key(self) -> bytes:
        """The key of the keyed hashes."""
        return bytes(self._value("get_key"))

    def put_key(self, key: bytes) -> None:
        """Replace the key. No rows may have been erased under another one."""
        self._execute("put_key", key=key)

    def try_lock(self) -> bool:
        """Take the lock of the erasure that runs. Returns False if another command has it."""
        return bool(self._value("try_lock"))

    def start(
        self,
        erasure: UUID,
        author: str,
        condition_hash: bytes,
        streams: Collection[str],
        state: str = "erasing",
    ) -> None:
        """Record an erasure, once. `state`: `listed`: its values and events are not known yet."""
        self._execute(
            "start",
            id=erasure,
            author=author,
            condition_hash=condition_hash,
            streams=sorted(streams),
            state=state,
        )

    def add_rows(
        self, erasure: UUID, stream: str, rows: Sequence[ErasedRowRow]
    ) -> dict[tuple[str, int], int]:
        """Record erased rows. Returns the number of those that are new, by stream and unit.

        Rows of unit `LISTED` are known from a list only, and do not count.
        """
        rows_by_unit: dict[tuple[str, int], int] = {}
        for start in range(0, len(rows), _BATCH_ROWS):
            values = [
                {"hash": row.hash.hex(), "unit": row.unit, "line": row.line, "hour": row.hour}
                for row in rows[start : start + _BATCH_ROWS]
            ]
            added = self._records(
                _AddedRows, "add_rows", erasure=erasure, stream=stream, rows=to_json_rows(values)
            )
            for unit in added:
                key = stream, unit.unit
                rows_by_unit[key] = rows_by_unit.get(key, 0) + unit.rows
            if added:
                self._execute(
                    "count_rows",
                    id=erasure,
                    rows=sum(unit.rows for unit in added if unit.unit != LISTED),
                    first_hour=min(unit.first_hour for unit in added),
                    last_hour=max(unit.last_hour for unit in added),
                )
        return rows_by_unit

    def list_rows(self, stream: str, erasure: UUID | None = None) -> list[ErasedRowRow]:
        """The erased rows of a stream, of one erasure or all."""
        return self._records(ErasedRowRow, "list_rows", stream=stream, erasure=erasure)

    def add_values(self, erasure: UUID, values: Collection[str]) -> None:
        """Record values that are to be removed everywhere."""
        self._execute("add_values", erasure=erasure, values=sorted(values))

    def list_values(self, erasure: UUID) -> list[str]:
        """The values that are to be removed everywhere."""
        return self._column("list_values", erasure=erasure)

    def add_events(self, erasure: UUID, events: Collection[str]) -> None:
        """Record events that are to be removed with all that belongs to them."""
        self._execute("add_events", erasure=erasure, events=sorted(events))

    def list_events(self, erasure: UUID) -> set[str]:
        """The IDs of the events that are to be removed."""
        return set(map(str, self._column("list_events", erasure=erasure)))

    def put_state(self, erasure: UUID, state: str, effects: Mapping[str, Any]) -> None:
        """Store how far an erasure is, and add to its effects."""
        self._execute("put_state", id=erasure, state=state, effects=Jsonb(dict(effects)))

    def add_changes(self, erasure: UUID, counts: Mapping[str, int]) -> None:
        """Add to the effects how many records of what were changed. An interrupted erasure has several
        runs.
        """
        changed = {name: count for name, count in counts.items() if count}
        self._execute("add_changes", id=erasure, counts=Jsonb(changed))

    def forget(self, erasure: UUID) -> None:
        """Forget what was to be removed: it is."""
        self._execute("forget_values", erasure=erasure)
        self._execute("forget_events", erasure=erasure)

    def list_all(self) -> list[ErasureRow]:
        """All erasures, oldest first."""
        return self._records(ErasureRow, "list_all")

    def streams_erased_since(self, time: datetime) -> set[str]:
        """The streams of which rows were erased after a time."""
        return set(self._column("list_later", time=time))

    def list_source_names(self, units: Collection[int]) -> list[str]:
        """The names of source units, of those that the ledger still names."""
        return self._column("list_source_names", units=list(units))

    def list_units(self, erasure: UUID) -> dict[str, list[int]]:
        """The source units of the rows of an erasure, by stream."""
        units: dict[str, list[int]] = {}
        for stream, unit in self._execute("list_units", erasure=erasure).fetchall():
            units.setdefault(stream, []).append(unit)
        return units

    def list_declarations(self) -> list[str]:
        """The declarations of the rules, as JSON texts."""
        return self._column("list_declarations")

    def list_backups(self, before: datetime) -> dict[str, list[str]]:
        """The backups whose state is from before a time, by destination."""
        backups: dict[str, list[str]] = {}
        for destination, name in self._execute("list_backups", before=before).fetchall():
            backups.setdefault(destination, []).append(name)
        return backups

    def find_moments(self, times: Collection[int]) -> list[EventMomentRow]:
        """The events of the database at some times, in microseconds."""
        return self._records(EventMomentRow, "find_moments", times=list(times))

    def count_unfinished(self) -> int:
        """How many erasures have not ended."""
        return int(self._value("count_unfinished"))
