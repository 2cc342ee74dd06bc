"""Finds the records of a source unit again: in its file or object, where it was moved to, in the landing
folder, in its topic.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

import sql
from archiver.file_names import unescape_name
from archiver.formats import Format, landed_format
from archiver.globs import parse_glob
from archiver.ingest import SourceUnit, open_file
from archiver.storage import ObjectPath
from archiver.times import to_micros
from moirae.config import FileSource, KafkaSource, Settings, Stream
from moirae.errors import MoiraeError
from moirae.live.sources import (
    PresentRange,
    TopicRereading,
    find_range,
    read_part_name,
    unit_name,
)
from moirae.runtime.storage import Landings
from sql.archive import GrowingFileGateway, GrowingFileRow, RecordedUnitRow
from sql.topics import TopicGateway

_MILLIS = 1_000  # microseconds: not all file systems have more
_SECONDS = 1_000_000  # microseconds


@dataclass(frozen=True)
class PresentRecords:
    """Records that something still has. `location`: where; `loss`: which records of the unit it lacks,
    empty if none. `open` reads them.
    """

    location: str
    open: Callable[[], SourceUnit]
    loss: str = ""


class RecordSearch:
    """Of the source units of a workspace. `open_spark`: called for topics only."""

    def __init__(
        self, settings: Settings, connection: sql.Connection, open_spark: Callable[[], SparkSession]
    ) -> None:
        self._settings = settings
        self._base = settings.file.parent
        self._topics = TopicGateway(connection)
        self._growing_files = GrowingFileGateway(connection)
        self._open_spark = open_spark
        self._rereadings: dict[str, TopicRereading] = {}
        self._growing_rows: dict[str, list[GrowingFileRow]] = {}

    def find(self, unit: RecordedUnitRow) -> PresentRecords | None:
        """The records of a unit as they were read; None: nothing has them any more.

        Files must have the size and the modification time that were recorded. Raises `MoiraeError`
        and `OSError` where it cannot be known now.
        """
        declared = self._settings.streams.get(unit.stream)
        if declared is None:
            return None
        source = declared.source
        for batch in Landings.of(self._settings).open(unit.stream).pending_batches():
            if batch.name == unit.unit:
                batch_format = landed_format(batch.path.name, source.record_format)
                return _whole_file(unit.stream, unit.unit, batch_format, batch.path)
        if isinstance(source, KafkaSource):
            return self._find_in_topic(unit, declared)
        if not isinstance(source, FileSource):
            return None
        self._check_folders(source)
        if source.tail:
            return self._find_in_growing_file(unit, declared)
        for name in (_first_name(unit), *unit.names):
            for path in self._list_candidates(source, name):
                if _is_version(path, unit):
                    first_name = unit.place or name
                    return _whole_file(unit.stream, first_name, source.record_format, path)
        return None

    def list_all(self, stream: str) -> list[PresentRecords]:
        """All that is known to have records that a stream has read, whatever their units were.

        For units whose names the ledger no longer has. Raises as `find`.
        """
        declared = self._settings.streams.get(stream)
        if declared is None:
            return []
        source = declared.source
        if isinstance(source, KafkaSource):
            topic = self._open_topic(stream, declared)
            return [_in_topic(topic, present) for present in topic.list_all()]
        if not isinstance(source, FileSource):
            return []
        self._check_folders(source)
        if source.tail:
            present_ranges = (
                find_range(stream, declared, self._base, [row], read_part_name(row))
                for row in self._list_growing_files(stream)
            )
            return [_in_file(present) for present in present_ranges if present is not None]
        return list(self._list_moved(stream, source))

    def _check_folders(self, source: FileSource) -> None:
        """Raise `MoiraeError` if a folder is missing: it may not be mounted."""
        if source.is_in_object_storage:
            return
        for path_glob in parse_glob(source.files):
            folder = self._base / path_glob.folder
            if not folder.is_dir():
                raise MoiraeError(
                    f"{folder}: is missing, and may have the records of lost rows: mount it, or "
                    "create an empty folder if it is gone, then repair again"
                )

    def _list_moved(self, stream: str, source: FileSource) -> Iterator[PresentRecords]:
        """Files that were moved, as if they came from the first folder of the pattern."""
        if not source.after.startswith("move:"):
            return
        original = Path(parse_glob(source.files)[0].folder)
        folder = self._base / source.after.removeprefix("move:")
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            name = unit_name(original / path.name, self._base)
            yield _whole_file(stream, name, source.record_format, path)

    def _list_candidates(self, source: FileSource, name: str) -> Iterator[Path | ObjectPath]:
        """Where a file is, or may have been moved to."""
        if source.is_in_object_storage:
            yield ObjectPath(name)
            return
        path = self._base / unescape_name(name)
        yield path
        if source.after.startswith("move:"):
            folder = self._base / source.after.removeprefix("move:")
            yield from sorted(folder.glob(_escape_glob(path.name) + "*"))

    def _find_in_growing_file(
        self, unit: RecordedUnitRow, declared: Stream
    ) -> PresentRecords | None:
        rows = self._list_growing_files(unit.stream)
        present = find_range(unit.stream, declared, self._base, rows, unit.unit)
        return None if present is None else _in_file(present)

    def _list_growing_files(self, stream: str) -> list[GrowingFileRow]:
        if stream not in self._growing_rows:
            self._growing_rows[stream] = self._growing_files.list_all(stream)
        return self._growing_rows[stream]

    def _find_in_topic(self, unit: RecordedUnitRow, declared: Stream) -> PresentRecords | None:
        topic = self._open_topic(unit.stream, declared)
        present = topic.find(unit.unit)
        return None if present is None else _in_topic(topic, present)

    def _open_topic(self, stream: str, declared: Stream) -> TopicRereading:
        if stream not in self._rereadings:
            topics = [row for row in self._topics.list_all() if row.stream == stream]
            current = next((row for row in topics if row.current), None)
            partitions = self._topics.list_partitions()
            self._rereadings[stream] = TopicRereading(
                self._open_spark(), stream, declared, current, partitions
            )
        return self._rereadings[stream]


def _first_name(unit: RecordedUnitRow) -> str:
    """The name of the first reading of a file."""
    name, _, reading = unit.unit.rpartition("#")
    return name if name and reading.isdecimal() and unit.readings > 1 else unit.unit


def _whole_file(
    stream: str, name: str, record_format: Format, path: Path | ObjectPath
) -> PresentRecords:
    """`name`: by which the rows of the file are identified."""
    source_unit = SourceUnit(
        stream=stream,
        name=name,
        format=record_format,
        read=open_file(record_format, path),
        path=path,
    )
    return PresentRecords(str(path), lambda: source_unit)


def _in_file(present: tuple[Path, SourceUnit]) -> PresentRecords:
    path, source_unit = present
    return PresentRecords(str(path), lambda: source_unit)


def _in_topic(topic: TopicRereading, present: PresentRange) -> PresentRecords:
    loss = ""
    if present.deleted:
        loss = f"up to {present.deleted:,} records that the topic has deleted"
    offsets = present.offsets
    offset_range = f"partition {present.partition}, offsets {offsets.first} to {offsets.end - 1}"
    return PresentRecords(f"its topic: {offset_range}", partial(topic.read, present), loss)


def _is_version(path: Path | ObjectPath, unit: RecordedUnitRow) -> bool:
    """Whether a file is what was read. Raises `OSError` if an object may be there, but not now."""
    try:
        if isinstance(path, ObjectPath):
            listed = path.inspect()
            size, modified, precision = listed.size, to_micros(listed.modified), _SECONDS
        else:
            status = path.stat()
            size, modified, precision = status.st_size, status.st_mtime_ns // 1_000, _MILLIS
    except OSError as error:
        if isinstance(path, ObjectPath) and not isinstance(error, FileNotFoundError):
            raise
        return False
    if unit.size not in (None, size):
        return False
    return unit.modified is None or unit.modified // precision == modified // precision


def _escape_glob(name: str) -> str:
    return "".join(f"[{character}]" if character in "*?[" else character for character in name)
