"""Batches of the landing folders as source units: posted to the server or by `moirae ingest`."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from archiver.formats import landed_format
from archiver.ingest import SourceUnit
from moirae.config import Stream
from moirae.live.sources import files
from moirae.runtime.storage import LandedBatch, LandingFolder

# Bytes of batches ingested at a time: bounds the duration, and what is repeated after a crash.
_MAX_BATCH_BYTES = 64 << 20


class LandingFolders:
    """The landing folders of all streams."""

    def __init__(self, home: Path, streams: Mapping[str, Stream]) -> None:
        self._folders = {name: LandingFolder(home, name) for name in sorted(streams)}
        self._formats = {name: stream.source.record_format for name, stream in streams.items()}

    def pending_batches(self) -> dict[str, list[LandedBatch]]:
        """All present batches by stream, in order; without streams that have none."""
        pending: dict[str, list[LandedBatch]] = {}
        for stream, folder in self._folders.items():
            if batches := folder.pending_batches():
                pending[stream] = batches
        return pending

    def batch_names(self, stream: str) -> set[str]:
        """The names of a stream's present batches, as source units."""
        return {batch.name for batch in self._folders[stream].pending_batches()}

    def has_pending(self, stream: str) -> bool:
        """Whether a stream has batches to ingest."""
        return bool(self._folders[stream].pending_batches())

    def make_units(
        self, batches_by_stream: Mapping[str, Sequence[LandedBatch]]
    ) -> list[SourceUnit]:
        """The source units of batches, in order."""
        units: list[SourceUnit] = []
        for stream, batches in batches_by_stream.items():
            for batch in batches:
                batch_format = landed_format(batch.path.name, self._formats[stream])
                unit = files.make_unit(stream, batch.name, batch_format, batch.path, batch.size)
                units.append(unit)
        return units

    def remove(self, batches_by_stream: Mapping[str, Sequence[LandedBatch]]) -> None:
        """Delete archived batches."""
        for stream, batches in batches_by_stream.items():
            self._folders[stream].remove(batches)


def select_batches(pending: Mapping[str, Sequence[LandedBatch]]) -> dict[str, list[LandedBatch]]:
    """The first batches, up to `_MAX_BATCH_BYTES` in all but at least one, by stream."""
    selected: dict[str, list[LandedBatch]] = {}
    size = 0
    for stream, batches in pending.items():
        for batch in batches:
            if size and size + batch.size > _MAX_BATCH_BYTES:
                return selected
            size += batch.size
            selected.setdefault(stream, []).append(batch)
    return selected
