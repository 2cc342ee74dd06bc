"""The growing files of all streams: found again, and ingested in ranges of complete records."""

from collections.abc import Collection, Sequence

from archiver.ingest import SourceUnit
from moirae.config import FileSource, Settings
from moirae.live.sources.archiving import InputArchiving
from moirae.live.sources.growing.growing_stream import GrowingStream
from moirae.live.sources.source import UnitSource
from sql.archive import GrowingFileGateway

# Bytes of all streams that are ingested at a time.
_MAX_BATCH_BYTES = 64 << 20


class GrowingFileInput(UnitSource):
    """Reads in the main thread, which holds the lock of `archiving` while it ingests.

    `drain`: read to the ends that exist at the start.
    """

    def __init__(
        self,
        settings: Settings,
        archiving: InputArchiving,
        gateway: GrowingFileGateway,
        *,
        drain: bool,
    ) -> None:
        self._archiving = archiving
        self._streams: dict[str, GrowingStream] = {}
        for name, declared in settings.streams.items():
            if isinstance(declared.source, FileSource) and declared.source.tail:
                self._streams[name] = GrowingStream(
                    name, declared, settings.file.parent, archiving.archive, gateway, drain=drain
                )

    @property
    def streams(self) -> Collection[str]:
        return self._streams.keys()

    def start(self) -> None:
        """Load what was read."""
        with self._archiving.lock:
            for stream in self._streams.values():
                stream.start()

    def discover(self) -> list[SourceUnit]:
        units: list[SourceUnit] = []
        for name, stream in self._streams.items():
            if not self._archiving.archive.is_waiting(name):
                with self._archiving.archive.fenced_transaction():
                    units += stream.read_units(_MAX_BATCH_BYTES)
        return units

    def settle(self, archived: Sequence[SourceUnit]) -> None:
        if archived:
            with self._archiving.archive.fenced_transaction():
                for unit in archived:
                    self._streams[unit.stream].record_read(unit)

    def has_unread(self, stream: str, partition: str | None = None) -> bool:
        return self._streams[stream].has_unread(partition)

    def oldest_unread(self, stream: str) -> float | None:
        return self._streams[stream].oldest_unread()
