"""Finds the records of a source unit again: in its file, where it was moved to, in the landing folder."""

from dataclasses import replace
from pathlib import Path

from archiver.file_names import unescape_name
from archiver.formats import Format, landed_format
from archiver.ingest import SourceUnit, open_file
from moirae.config import FileSource, Settings
from moirae.runtime.storage import LandingFolder
from sql.archive import RecordedUnitRow

_MICROS = 1_000_000


def find_source(settings: Settings, unit: RecordedUnitRow) -> SourceUnit | None:
    """The records of a unit as they were read; None: nothing has them any more.

    Files must have the size and the modification time that were recorded.
    """
    declared = settings.streams.get(unit.stream)
    if declared is None:
        return None
    source = declared.source
    for batch in LandingFolder(settings.home, unit.stream).pending_batches():
        if batch.name == unit.unit:
            batch_format = landed_format(batch.path.name, source.record_format)
            return _make_unit(unit, batch_format, batch.path)
    if not isinstance(source, FileSource) or source.tail or source.is_in_object_storage:
        return None
    name, _, reading = unit.unit.rpartition("#")
    if not (name and reading.isdecimal() and unit.readings > 1):
        name = unit.unit
    path = settings.file.parent / unescape_name(name)
    candidates = [path]
    if source.after.startswith("move:"):
        folder = settings.file.parent / source.after.removeprefix("move:")
        candidates += sorted(folder.glob(_escape_glob(path.name) + "*"))
    for candidate in candidates:
        if _is_version(candidate, unit):
            source_unit = _make_unit(unit, source.record_format, candidate)
            return replace(source_unit, place=name)
    return None


def _make_unit(unit: RecordedUnitRow, record_format: Format, path: Path) -> SourceUnit:
    return SourceUnit(
        stream=unit.stream,
        name=unit.unit,
        format=record_format,
        read=open_file(record_format, path),
        path=path,
        size=path.stat().st_size,
    )


def _is_version(path: Path, unit: RecordedUnitRow) -> bool:
    try:
        status = path.stat()
    except OSError:
        return False
    modified = status.st_mtime_ns // _MICROS * 1000
    return unit.size in (None, status.st_size) and unit.modified in (None, modified)


def _escape_glob(name: str) -> str:
    return "".join(f"[{character}]" if character in "*?[" else character for character in name)
