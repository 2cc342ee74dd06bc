"""Makes ledger and tables agree: rows are read again, taken into the ledger, or recorded as lost."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

import sql
from archiver.chunks import Chunk
from archiver.delta import (
    ArchiveTable,
    Erasures,
    StreamSchema,
    StreamTable,
    TableFiles,
    find_erasures,
)
from archiver.ingest import Catalog
from archiver.times import from_micros, optional_micros
from moirae.config import Settings
from moirae.repair.chunk_catalog import find_unknown_chunks
from moirae.repair.ledger_rows import compare_ledger, count_rows
from moirae.repair.rereading import RowLimits, read_lost_rows
from moirae.repair.source_search import PresentRecords, RecordSearch
from moirae.repair.step import RepairStep
from moirae.runtime.storage import archived_streams, open_storage
from sql.archive import (
    ChunkGateway,
    LostRowsRecord,
    RecordedUnitRow,
    RepairGateway,
    StreamGateway,
    UnitGateway,
)

_SHOWN_SOURCES = 3
_SHOWN_ROWS = 20  # of lost rows whose identities are known


@dataclass(frozen=True)
class _LostFile:
    """A file that is no part of its table any more. `rows`: identity, time and unit of those that
    can be read; None: none can.
    """

    path: str
    oldest: int
    newest: int
    rows: pa.Table | None


class LedgerRepair:
    """The phase after logs and data files."""

    def __init__(
        self, settings: Settings, connection: sql.Connection, search: RecordSearch
    ) -> None:
        self._settings = settings
        self._connection = connection
        self._search = search
        self._repairs = RepairGateway(connection)
        self._units = UnitGateway(connection)
        self._streams = StreamGateway(connection)
        self._lost_files: dict[str, list[_LostFile]] = {}
        self._skipped: set[str] = set()

    def skip(self, table: str) -> None:
        """Do not compare a table in a dry run: its log is damaged."""
        self._skipped.add(table)

    def expect_lost(self, table: ArchiveTable, path: str, schema: StreamSchema) -> None:
        """A file will be removed from its table: remember what is known of its rows."""
        files = {
            file.path: file
            for file in StreamTable(open_storage(self._settings), schema).data_files()
        }
        file = files[path]
        rows = None
        with suppress(OSError, pa.ArrowException):
            rows = TableFiles(schema, table.storage).read(path, ["_id", "_unit", schema.time])
        lost = _LostFile(path, file.oldest, file.newest, rows)
        self._lost_files.setdefault(table.name, []).append(lost)

    def plan(self) -> list[RepairStep]:
        """The steps of all streams."""
        tables: dict[str, StreamTable] = {}
        root = open_storage(self._settings)
        for schema in archived_streams(self._settings, self._connection):
            name = f"streams/{schema.table_name}"
            if StreamTable.exists(root, schema.table_name) and name not in self._skipped:
                tables[name] = StreamTable(root, schema)
        steps = self._plan_chunks(tables.values())
        for name, table in tables.items():
            steps += self._plan_stream(name, table)
        return steps

    def _plan_stream(self, name: str, table: StreamTable) -> list[RepairStep]:
        stream = table.schema.name
        steps: list[RepairStep] = []
        lost_paths = {file.path for file in self._lost_files.get(name, ())}
        counts = count_rows(table, lost_paths)
        difference = compare_ledger(self._units.list_ledger(stream), counts)
        for unit, rows in sorted(difference.unknown.items()):
            steps.append(
                RepairStep(
                    stream,
                    f"{rows:,} rows are of source unit {unit}, which is not in the ledger: the "
                    "database is older than the archive",
                    f"keep the rows, and record the unit as recovered-{unit}",
                    "no events come of these rows; records that are read again are duplicates",
                    partial(self._repairs.adopt_unit, stream, unit, rows),
                )
            )
        recorded = self._repairs.list_units(list(difference.missing))
        erasures = find_erasures(table.files) if recorded else None
        for row in recorded:
            missing = difference.missing[row.id]
            steps.append(self._plan_missing(name, table, row, missing, erasures))
        counted = self._streams.list_appends().get(stream)
        if counted is not None and counted > table.append_count:
            steps.append(
                RepairStep(
                    stream,
                    f"{counted:,} appends in the ledger, {table.append_count:,} in the table",
                    "count from the appends of the table on",
                    "",
                    partial(self._count_appends, table),
                )
            )
        return steps

    def _count_appends(self, table: StreamTable) -> None:
        table.refresh()
        self._streams.put_appends(table.schema.name, table.append_count)

    def _plan_chunks(self, tables: Iterable[StreamTable]) -> list[RepairStep]:
        chunks = Catalog(self._connection).chunks()
        unknown = find_unknown_chunks(chunks, [table.files_by_chunk() for table in tables])
        if not unknown:
            return []

        def run() -> None:
            gateway = ChunkGateway(self._connection)
            with self._connection.transaction():
                newest = chunks[-1]
                start = newest.from_ts
                previous = newest.id
                for chunk, oldest in unknown:
                    end = from_micros(oldest)
                    first = None if start is None else from_micros(start)
                    gateway.put(previous, from_ts=first, to_ts=end, state=newest.state)
                    previous, start = chunk, oldest
                begin = from_micros(unknown[-1][1])
                gateway.put(previous, from_ts=begin, to_ts=None, state="present")

        numbers = ", ".join(str(chunk) for chunk, _ in unknown)
        return [
            RepairStep(
                "chunks",
                f"chunks {numbers} are not in the catalog: the database is older than the archive",
                "add the chunks, from the times of their files",
                "",
                run,
            )
        ]

    def _plan_missing(
        self,
        name: str,
        table: StreamTable,
        unit: RecordedUnitRow,
        missing: int,
        erasures: Erasures | None,
    ) -> RepairStep:
        """`erasures`: what other programs have deleted from the table; None: not known."""
        subject = f"{table.schema.name}: {unit.unit or 'compacted source units'}"
        damage = f"{missing:,} rows that the ledger counts are not in the table"
        if erasures is not None and erasures.commits:
            damage += f"; rows were deleted by {'; '.join(erasures.commits)}"
            is_certain = not (self._lost_files.get(name) or erasures.unknown_chunks)
            if is_certain and self._count_erased(unit, erasures) >= missing:
                return RepairStep(
                    subject,
                    damage,
                    "record them as deleted on purpose",
                    "",
                    partial(self._units.add_deleted_rows, {(unit.stream, unit.id): missing}),
                )
        sources = self._find_sources(unit)
        if sources:
            locations = ", ".join(source.location for source in sources[:_SHOWN_SOURCES])
            if len(sources) > _SHOWN_SOURCES:
                locations += f" and {len(sources) - _SHOWN_SOURCES:,} more"
            return RepairStep(
                subject,
                damage,
                f"read them again from {locations}",
                "; ".join(_describe_losses(sources, erasures)),
                lambda: self._read_again(name, table, unit, sources, missing, erasures),
            )
        return RepairStep(
            subject,
            damage,
            "record them as lost: nothing has their records any more",
            self._describe_loss(name, unit, missing),
            lambda: self._record_loss(name, unit, missing),
        )

    def _read_again(
        self,
        name: str,
        table: StreamTable,
        unit: RecordedUnitRow,
        sources: Sequence[PresentRecords],
        missing: int,
        erasures: Erasures | None,
    ) -> None:
        """What was deleted on purpose stays deleted; what none of the sources has is recorded as lost."""
        present_ids: set[str] = set()
        erased = 0 if erasures is None else self._count_erased(unit, erasures)
        for source in sources:
            if missing == 0:
                return
            table.refresh()
            rows = read_lost_rows(
                table,
                source.open(),
                unit.id,
                self._stored_chunks(),
                refused_lines=set(unit.refused_lines),
                clock=optional_micros(unit.clock),
                lost=self._describe_rows(name, unit, missing, erasures),
            )
            if len(rows):
                table.append(rows, 0)
            missing -= len(rows)
            present_ids.update(row_id.hex() for row_id in rows["_id"].to_pylist())
        deleted = min(erased, missing)
        if deleted:
            self._units.add_deleted_rows({(unit.stream, unit.id): deleted})
        if missing > deleted:
            self._record_loss(name, unit, missing - deleted, present_ids)

    def _describe_rows(
        self, name: str, unit: RecordedUnitRow, missing: int, erasures: Erasures | None
    ) -> RowLimits:
        files = self._lost_files.get(name, [])
        lost_ids = {bytes.fromhex(row_id) for row_id in self._list_ids(name, unit)}
        limits = RowLimits(missing, erased=erasures, lost_ids=lost_ids)
        if unit.unit or not files:
            return limits
        oldest = min(file.oldest for file in files)
        return replace(limits, oldest=oldest, newest=max(file.newest for file in files))

    def _find_sources(self, unit: RecordedUnitRow) -> Sequence[PresentRecords]:
        if not unit.unit:
            return self._search.list_all(unit.stream)
        source = self._search.find(unit)
        return [] if source is None else [source]

    def _count_erased(self, unit: RecordedUnitRow, erasures: Erasures) -> int:
        """The rows of a unit, or of all compacted ones, that other programs have deleted, and the
        ledger does not count as deleted.
        """
        ledger = {row.id: row for row in self._units.list_ledger(unit.stream)}
        erased = erasures.rows_by_unit.get(unit.id, 0)
        if not unit.unit:
            rows_by_unit = erasures.rows_by_unit.items()
            erased += sum(rows for id_, rows in rows_by_unit if id_ not in ledger)
        return max(erased - ledger[unit.id].deleted, 0)

    def _stored_chunks(self) -> Sequence[Chunk]:
        return Catalog(self._connection).chunks()

    def _describe_loss(self, name: str, unit: RecordedUnitRow, rows: int) -> str:
        files = self._lost_files.get(name, [])
        texts: list[str] = [f"{rows:,} rows"]
        for file in files:
            first, last = from_micros(file.oldest), from_micros(file.newest)
            texts.append(f"of {file.path}, event times {first.isoformat()} to {last.isoformat()}")
        ids = self._list_ids(name, unit)
        if ids:
            texts.append("ids " + ", ".join(ids[:_SHOWN_ROWS]))
            if len(ids) > _SHOWN_ROWS:
                texts.append(f"and {len(ids) - _SHOWN_ROWS:,} more")
        return "; ".join(texts)

    def _list_ids(self, name: str, unit: RecordedUnitRow) -> list[str]:
        """Identities of lost rows of a unit, where their file can be read."""
        ids: list[str] = []
        stream_units = {row.id for row in self._units.list_ledger(unit.stream)}
        for file in self._lost_files.get(name, ()):
            if file.rows is not None:
                for row in file.rows.to_pylist():
                    is_compacted = row["_unit"] not in stream_units
                    if row["_unit"] == unit.id or (is_compacted and not unit.unit):
                        ids.append(row["_id"].hex())
        return ids

    def _record_loss(
        self, name: str, unit: RecordedUnitRow, rows: int, present_ids: Collection[str] = ()
    ) -> None:
        """`present_ids`: of rows that were read again."""
        files = self._lost_files.get(name, [])
        first = min((file.oldest for file in files), default=None)
        last = max((file.newest for file in files), default=None)
        ids = self._list_ids(name, unit)
        lost = LostRowsRecord(
            stream=unit.stream,
            unit=unit.unit,
            rows=rows,
            first_ts=None if first is None else from_micros(first),
            last_ts=None if last is None else from_micros(last),
            ids=[row_id for row_id in ids if row_id not in present_ids][:rows],
        )
        with self._connection.transaction():
            self._units.add_deleted_rows({(unit.stream, unit.id): rows})
            self._repairs.record_lost(lost)


def _describe_losses(sources: Sequence[PresentRecords], erasures: Erasures | None) -> Iterator[str]:
    for source in sources:
        if source.loss:
            yield source.loss
    if erasures is not None and erasures.unknown_chunks:
        chunks = ", ".join(map(str, sorted(erasures.unknown_chunks)))
        yield (
            f"rows of chunks {chunks} that are not known to be lost otherwise: rows were deleted "
            "there on purpose, and which is not known any more"
        )
