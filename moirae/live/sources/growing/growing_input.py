"""The growing files of all streams: found again, and ingested in ranges of complete records."""

from collections.abc import Sequence

from archiver.ingest import SourceUnit
from moirae.config import FileSource, Settings
from moirae.live.sources.archiving import InputArchiving
from moirae.live.sources.growing.growing_stream import GrowingStream
from sql.archive import GrowingFileGateway

# Bytes of all streams that are ingested at a time.
_MAX_BATCH_BYTES = 64 << 20


class GrowingFileInput:
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
        self._drain = drain
        self._streams: dict[str, GrowingStream] = {}
        for name, declared in settings.streams.items():
            if isinstance(declared.source, FileSource) and declared.source.tail:
                self._streams[name] = GrowingStream(
                    name, declared, settings.file.parent, archiving.archive, gateway, drain=drain
                )

    @property
    def streams(self) -> frozenset[str]:
        """The streams that read growing files."""
        return frozenset(self._streams)

    def start(self) -> None:
        """Create the folders, and load what was read."""
        with self._archiving.lock:
            for stream in self._streams.values():
                stream.start()

    def update(self) -> None:
        """Ingest what the files have got. The lock is not held."""
        if not self._streams:
            return
        with self._archiving.lock:
            units: list[SourceUnit] = []
            for name, stream in self._streams.items():
                if self._archiving.archive.is_waiting(name):
                    continue
                with self._archiving.archive.fenced_transaction():
                    units += stream.read_units(_MAX_BATCH_BYTES)
            if units:
                self._archiving.ingest.ingest_units(units)
                self._record_read(units)

    def _record_read(self, units: Sequence[SourceUnit]) -> None:
        with self._archiving.archive.fenced_transaction():
            for unit in units:
                self._streams[unit.stream].record_read(unit)

    def has_unread(self, stream: str, partition: str | None = None) -> bool:
        """Whether a file of a stream has records that are not archived; `partition`: one file."""
        return self._streams[stream].has_unread(partition)

    def oldest_unread(self, stream: str) -> float | None:
        """When the oldest file with unread records was changed, in seconds; None: there is none."""
        return self._streams[stream].oldest_unread()

    def is_active(self) -> bool:
        """Whether, in a drain, records are unread."""
        return not self._drain or any(map(self.has_unread, self._streams))
