"""Batches of the landing folder as source units: what was posted, or handed over by `moirae ingest`."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from archiver.ingest import SourceUnit
from moirae.config import infer_format
from moirae.live.sources import files
from moirae.runtime import LandedBatch, LandingFolder

# Bytes of batches that are taken at a time: bounds how long that takes, and how much is repeated after a crash.
_MAX_BATCH_BYTES = 64 << 20


class LandingFolders:
    """The landing folders of all streams."""

    def __init__(self, home: Path, streams: Iterable[str]) -> None:
        self._folders = {name: LandingFolder(home, name) for name in sorted(streams)}

    def pending_batches(self) -> dict[str, list[LandedBatch]]:
        """All batches that wait now, by stream, in order."""
        listed = {name: landing.pending_batches() for name, landing in self._folders.items()}
        return {name: batches for name, batches in listed.items() if batches}

    def batch_names(self, stream: str) -> set[str]:
        """The names of a stream's batches that wait, as source units."""
        return {batch.name for batch in self._folders[stream].pending_batches()}

    def has_pending(self, stream: str) -> bool:
        """Whether a stream has batches that wait."""
        return bool(self._folders[stream].pending_batches())

    def remove(self, batches_by_stream: Mapping[str, Sequence[LandedBatch]]) -> None:
        """These batches are archived."""
        for stream, batches in batches_by_stream.items():
            self._folders[stream].remove(batches)


def select_batches(pending: Mapping[str, Sequence[LandedBatch]]) -> dict[str, list[LandedBatch]]:
    """The first batches of each stream, as many as are taken at a time, but at least one."""
    taken: dict[str, list[LandedBatch]] = {}
    size = 0
    for stream, batches in pending.items():
        for batch in batches:
            if size and size + batch.size > _MAX_BATCH_BYTES:
                return taken
            size += batch.size
            taken.setdefault(stream, []).append(batch)
    return taken


def make_units(batches_by_stream: Mapping[str, Sequence[LandedBatch]]) -> Sequence[SourceUnit]:
    """The batches as units."""
    return [
        files.make_unit(stream, batch.name, infer_format(batch.path.name), batch.path)
        for stream, batches in batches_by_stream.items()
        for batch in batches
    ]
