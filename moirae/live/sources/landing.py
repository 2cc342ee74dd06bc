"""Batches of the landing folders: posted to the server or by `moirae ingest`, deleted once archived."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

from archiver.formats import landed_format
from archiver.ingest import SourceUnit
from archiver.storage import ObjectPath
from moirae.config import Stream
from moirae.live.sources import files
from moirae.live.sources.archiving import InputArchiving
from moirae.live.sources.source import UnitSource
from moirae.runtime.storage import LandedBatch, Landings

# Bytes of batches ingested at a time: bounds the duration, and what is repeated after a crash.
_MAX_BATCH_BYTES = 64 << 20
_MICROS_PER_SECOND = 1_000_000


class LandingFolders:
    """The landing folders of all streams."""

    def __init__(self, landings: Landings, streams: Mapping[str, Stream]) -> None:
        self._folders = {name: landings.open(name) for name in sorted(streams)}
        self._formats = {name: stream.source.record_format for name, stream in streams.items()}

    @property
    def streams(self) -> Collection[str]:
        """All streams."""
        return self._folders.keys()

    def pending_batches(self) -> dict[str, list[LandedBatch]]:
        """All present batches by stream, in order; without streams that have none."""
        pending = {name: folder.pending_batches() for name, folder in self._folders.items()}
        return {stream: batches for stream, batches in pending.items() if batches}

    def batch_names(self, stream: str) -> set[str]:
        """The names of a stream's present batches, as source units."""
        return {batch.name for batch in self._folders[stream].pending_batches()}

    def list_units(self, stream: str) -> Iterator[SourceUnit]:
        """The batches of a stream as source units, in order."""
        for batch in self._folders[stream].pending_batches():
            batch_format = landed_format(batch.path.name, self._formats[stream])
            unit = files.make_unit(stream, batch.name, batch_format, batch.path, batch.size)
            yield replace(unit, arrived_at=batch.modified / _MICROS_PER_SECOND)

    def remove(self, unit: SourceUnit) -> None:
        """Remove a batch that is archived."""
        assert isinstance(unit.path, Path | ObjectPath)
        self._folders[unit.stream].remove(unit.path)


class LandedBatches(UnitSource):
    """Batches that cannot be read stay. `drain`: only those that are there at the start."""

    def __init__(
        self, landing_folders: LandingFolders, archiving: InputArchiving, *, drain: bool
    ) -> None:
        self._landing_folders = landing_folders
        self._archiving = archiving
        self._drain = drain
        self._drained_names: set[tuple[str, str]] = set()

    @property
    def streams(self) -> Collection[str]:
        return self._landing_folders.streams

    def start(self) -> None:
        units = chain.from_iterable(map(self._landing_folders.list_units, self.streams))
        self._drained_names = {(unit.stream, unit.name) for unit in units}

    def discover(self) -> list[SourceUnit]:
        """The first batches that can be read now, up to `_MAX_BATCH_BYTES` but at least one."""
        units: Iterable[SourceUnit] = chain.from_iterable(map(self._list_units, self.streams))
        failures = self._archiving.failures
        if failures.has_failures:
            # Batches that must wait do not keep others from being selected.
            units = failures.select_readable(units)
        selected: list[SourceUnit] = []
        size = 0
        for unit in units:
            size += unit.size or 0
            if selected and size > _MAX_BATCH_BYTES:
                break
            selected.append(unit)
        return selected

    def settle(self, archived: Sequence[SourceUnit]) -> None:
        for unit in archived:
            self._landing_folders.remove(unit)

    def has_unread(self, stream: str, partition: str | None = None) -> bool:
        return self.oldest_unread(stream) is not None

    def oldest_unread(self, stream: str) -> float | None:
        for unit in self._list_units(stream):
            if not self._archiving.failures.is_set_aside(unit):
                return unit.arrived_at
        return None

    def _list_units(self, stream: str) -> Iterator[SourceUnit]:
        if self._archiving.archive.is_waiting(stream):
            return
        for unit in self._landing_folders.list_units(stream):
            if not self._drain or (stream, unit.name) in self._drained_names:
                yield unit
