"""The ingest ledger: source units and the number of their records by outcome."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import itemgetter
from typing import Any

from sql.gateway import Gateway


@dataclass(frozen=True, slots=True)
class RecordCounts:
    """Number of records by outcome.

    Each record in `read` is counted in exactly one other counter. `late` is a part of `archived`,
    `late_by_ahead` of `late`: rows that are late because the watermark followed rows ahead of the
    clock.
    """

    read: int
    archived: int
    late: int
    late_by_ahead: int
    duplicates: int
    malformed: int
    quarantined: int
    conflicts: int
    expired: int

    @property
    def dead_lettered(self) -> int:
        return self.malformed + self.quarantined + self.conflicts + self.expired


@dataclass(frozen=True, slots=True)
class UnitCounts(RecordCounts):
    """The counters of a finished source unit. `unit`: its name."""

    unit: str


@dataclass(frozen=True, slots=True)
class StreamCounts(RecordCounts):
    """The sums of a stream. `deleted`: archived rows that were deleted, with expired chunks or, of
    these `erased`, on request. `erased_again`: of the duplicates, those that repeat an erased row.

    `units`: number of finished source units, compacted ones too. `open_units`: number of others.
    `tombstones`: records without a value, and `punctuations`: records that close time, which are not
    in `read`. `rewritten`: number of files that were changed after they were read; `renamed`: of
    those that were renamed, and read again.
    """

    stream: str
    deleted: int
    erased: int
    erased_again: int
    tombstones: int
    punctuations: int
    units: int
    open_units: int
    rewritten: int
    renamed: int


@dataclass(frozen=True, slots=True)
class LedgerRow(RecordCounts):
    """The ledger of a source unit. `unit`: its name; empty for the row of all compacted units.

    `deleted`: archived rows that were deleted with expired chunks, or erased.
    """

    id: int
    unit: str
    done: bool
    deleted: int


@dataclass(frozen=True, slots=True)
class OpenedUnitRow:
    """The id of a source unit, and whether it is finished.

    `clock`: at which it was first read; None only if it was finished by an earlier version.
    """

    id: int
    done: bool
    clock: datetime | None


@dataclass(frozen=True, slots=True)
class FileVersionRow:
    """A file as it was last read, and how often it was.

    `size`: bytes; `modified`: modification time in microseconds. None: not recorded.
    """

    unit: str
    size: int | None
    modified: int | None
    readings: int = 1


@dataclass(frozen=True, slots=True)
class OpenedFileRow:
    """A source unit to be opened. `place`, `stamp`: of a file that may be renamed; else None.

    `place`: the name in the identities of its rows. `stamp`: by what the file is found again; it
    begins with the inode and a colon.
    """

    unit: str
    place: str | None = None
    stamp: str | None = None


@dataclass(frozen=True, slots=True)
class FinishedUnitRow:
    """A source unit whose records are archived. `counters`: as in `RecordCounts`; `replayed`, of
    `archived` those that an interrupted reading had archived, and `replayed_late`.

    `newest`: its newest event time; None without rows. `fields`: the header of CSV lines; None for
    other formats. `record_format`: of the records, to retry dead letters; None: JSON lines, or CSV
    with `fields`. `version`: of a file that was read.
    """

    id: int
    counters: dict[str, int]
    newest: datetime | None
    fields: Sequence[str] | None = None
    record_format: Mapping[str, Any] | None = None
    version: FileVersionRow | None = None


@dataclass(frozen=True, slots=True)
class InterruptedUnitRow:
    """Rows that an interrupted reading of a unit has archived. `late`: how many of them were late."""

    id: int
    archived: int
    late: int


@dataclass(frozen=True, slots=True)
class CompactableUnitRow:
    """A source unit that may be merged into the row of its stream."""

    id: int
    unit: str


@dataclass(frozen=True, slots=True)
class OpenUnitNameRow:
    """A source unit that was begun and not finished."""

    stream: str
    unit: str


class UnitGateway(Gateway):
    queries = "units"

    def list_unfinished(self) -> list[OpenUnitNameRow]:
        """The units that were begun and not finished, in no order."""
        return self._records(OpenUnitNameRow, "list_unfinished")

    def open(
        self, stream: str, unit: str, *, clock: datetime, partition: str | None = None
    ) -> OpenedUnitRow:
        """The id, status and clock of a source unit. Inserts its row if it is new.

        `clock`: the current one, recorded unless an earlier one is. `partition`: of a range of
        Kafka records.
        """
        row = self._record(
            OpenedUnitRow, "open", stream=stream, unit=unit, clock=clock, partition=partition
        )
        assert row is not None
        return row

    def open_files(
        self, stream: str, units: Sequence[OpenedFileRow], *, clock: datetime
    ) -> dict[str, OpenedUnitRow]:
        """The same for different units of a stream, in order, by name."""
        rows = self._execute(
            "open_files",
            stream=stream,
            units=[unit.unit for unit in units],
            places=[unit.place for unit in units],
            stamps=[unit.stamp for unit in units],
            clock=clock,
        )
        return {name: OpenedUnitRow(*values) for name, *values in rows}

    def rename_open_range(self, stream: str, unit: str, *, partition: str, prefix: str) -> None:
        """Give the name `unit` to a range of records that was begun and not finished, if any.

        It is of the partition, and its name starts with `prefix`: both begin with one record.
        """
        self._execute(
            "rename_open_range", stream=stream, unit=unit, partition=partition, prefix=prefix
        )

    def list_partition_clocks(self, stream: str) -> dict[str, datetime]:
        """The clocks at which unfinished ranges of records were first read, by partition."""
        return self._pairs("list_partition_clocks", stream=stream)

    def finish(self, units: Iterable[FinishedUnitRow]) -> None:
        """Mark source units as archived."""
        rows: list[dict[str, Any]] = []
        for unit in units:
            row = {
                "id": unit.id,
                "newest": unit.newest,
                "fields": None if unit.fields is None else list(unit.fields),
                "format": unit.record_format,
                "size": None if unit.version is None else unit.version.size,
                "modified": None if unit.version is None else unit.version.modified,
            }
            rows.append(row | unit.counters)
        self._execute_rows("finish", rows)

    def add_interrupted(self, units: Sequence[InterruptedUnitRow]) -> None:
        """Count rows that interrupted readings have archived, of units that are not finished."""
        self._execute(
            "add_interrupted",
            ids=[unit.id for unit in units],
            archived=[unit.archived for unit in units],
            late=[unit.late for unit in units],
        )

    def put_version(self, stream: str, version: FileVersionRow) -> None:
        """Store the version of a file that was read."""
        self._execute(
            "put_version",
            stream=stream,
            unit=version.unit,
            size=version.size,
            modified=version.modified,
            readings=version.readings,
        )

    def list_versions(self, stream: str, names: Collection[str]) -> dict[str, FileVersionRow]:
        """The versions in which those of some files that were read were last read, by name."""
        rows = self._records(FileVersionRow, "list_versions", stream=stream, units=list(names))
        return {row.unit: row for row in rows}

    def list_places(self, stream: str, inodes: Collection[int]) -> list[tuple[str, str]]:
        """Stamp and place of files with some inodes, the last that were opened first."""
        rows = self._execute("list_places", stream=stream, inodes=list(map(str, inodes)))
        return [(stamp, name) for stamp, name in rows]

    def list_places_of_names(
        self, stream: str, names: Collection[str]
    ) -> dict[str, tuple[str, str]]:
        """Stamp and place of files that were read under some names, by name."""
        rows = self._execute("list_places_of_names", stream=stream, units=list(names))
        return {name: (stamp, first_name) for name, stamp, first_name in rows}

    def add_counters(self, unit_id: int, changes: Mapping[str, int]) -> None:
        """Add to the counters of a unit; see `RecordCounts`."""
        self._execute("add_counters", id=unit_id, **changes)

    def add_deleted_rows(self, rows_by_unit: Mapping[tuple[str, int], int]) -> None:
        """Add the number of rows deleted with a chunk, by stream and source unit id.

        Rows of compacted units count for the row of their stream.
        """
        self._execute(
            "add_deleted_rows",
            streams=list(map(itemgetter(0), rows_by_unit)),
            units=list(map(itemgetter(1), rows_by_unit)),
            rows=list(rows_by_unit.values()),
        )

    def add_erased_rows(self, rows_by_unit: Mapping[tuple[str, int], int]) -> None:
        """Add the number of rows that were erased, as `add_deleted_rows` does."""
        self._execute(
            "add_erased",
            streams=list(map(itemgetter(0), rows_by_unit)),
            units=list(map(itemgetter(1), rows_by_unit)),
            rows=list(rows_by_unit.values()),
        )

    def finished_names(self, stream: str, names: Collection[str] | None = None) -> set[str]:
        """The names of a stream's finished units; only those in `names`, unless None."""
        units = None if names is None else list(names)
        return set(self._column("list_finished", stream=stream, units=units))

    def list_open(self, stream: str) -> list[str]:
        """The names of the units of a stream that were begun and are not finished."""
        return self._column("list_open", stream=stream)

    def abandon_ranges(self, stream: str, partitions: Collection[str] | None = None) -> None:
        """Begun ranges of partitions, all of them if None, will not be read again."""
        names = None if partitions is None else list(partitions)
        self._execute("abandon_ranges", stream=stream, partitions=names)

    def is_finished(self, stream: str, unit: str) -> bool:
        """Whether a unit is finished; False for an unknown or compacted one."""
        return bool(self._value("is_finished", stream=stream, unit=unit))

    def list_counts(self, stream: str, units: Sequence[str]) -> list[UnitCounts]:
        """The counters of the finished ones of some units. Compacted units are missing."""
        return self._records(UnitCounts, "list_counters", stream=stream, units=list(units))

    def sum_by_stream(self) -> list[StreamCounts]:
        """The sums of the counters of each stream, by name."""
        return self._records(StreamCounts, "sum_by_stream")

    def list_ledger(self, stream: str) -> list[LedgerRow]:
        """All units of a stream, in the order of their ids."""
        return self._records(LedgerRow, "list_ledger", stream=stream)

    def find_page(self, stream: str, *, after: int, limit: int) -> tuple[int | None, int]:
        """The last id of up to `limit` units of a stream after an id, and how many they are."""
        row = self._execute("find_page", stream=stream, after=after, limit=limit).fetchone()
        assert row is not None
        return row[0], row[1]

    def list_compactable(
        self,
        stream: str,
        *,
        after: int,
        until: int,
        before: datetime,
        min_age: timedelta,
        key_lifetime: timedelta,
        limit: int,
    ) -> list[CompactableUnitRow]:
        """Up to `limit` units with ids after `after` up to `until`, in the order of ids.

        Their rows are all before event time `before`, and they have no dead letters. They were
        archived `min_age` ago; batches with an idempotency key: `key_lifetime` ago.
        """
        return self._records(
            CompactableUnitRow,
            "list_compactable",
            stream=stream,
            after=after,
            until=until,
            before=before,
            min_age=min_age,
            key_lifetime=key_lifetime,
            limit=limit,
        )

    def compact(self, stream: str, unit_ids: Sequence[int]) -> None:
        """Merge units into the row of their stream that stands for all compacted units."""
        self._execute("compact", stream=stream, ids=list(unit_ids))
