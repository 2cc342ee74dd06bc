"""Settling at the end of a drain."""

from archiver.ingest import ArchiveWriter
from moirae.live.chunk_states import ChunkStates
from moirae.live.detection import Detector
from moirae.live.event_time import newest_event_time
from moirae.live.follow_up import AlertFollowUp
from moirae.live.outbox import ArchivedTables


class EndOfInput:
    """Settles all rows, alerts, contexts and chunks."""

    def __init__(
        self,
        *,
        archive: ArchiveWriter,
        detector: Detector,
        follow_up: AlertFollowUp,
        archived_tables: ArchivedTables,
        chunk_states: ChunkStates,
    ) -> None:
        self._archive = archive
        self._detector = detector
        self._follow_up = follow_up
        self._archived_tables = archived_tables
        self._chunk_states = chunk_states

    def settle_all(self) -> None:
        """Advance time past the end of the input, so that all windows and alerts end."""
        newest = newest_event_time(self._archive)
        if newest is not None:
            end = newest + self._detector.reach() + 1
            self._archive.advance(dict.fromkeys(self._archive.tables, end))
            self._detector.settle_to_end(newest + 1, end)
            self._follow_up.run_to_end()
        self._archived_tables.flush()
        self._chunk_states.finish()
