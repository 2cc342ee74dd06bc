"""Settling at the end of a drain."""

import time
from collections.abc import Callable

from archiver.ingest import ArchiveWriter
from archiver.times import Micros
from moirae.incidents import IncidentEngine
from moirae.live.chunk_states import ChunkStates
from moirae.live.detection import Detector
from moirae.live.event_time import newest_event_time
from moirae.live.follow_up import AlertFollowUp
from moirae.live.outbox import ArchivedTables

_WAIT_INTERVAL = 0.2  # seconds between two checks whether recalls have ended


class EndOfInput:
    """Settles all rows, alerts, contexts and chunks."""

    def __init__(
        self,
        *,
        archive: ArchiveWriter,
        detector: Detector,
        follow_up: AlertFollowUp,
        incidents: IncidentEngine,
        archived_tables: ArchivedTables,
        chunk_states: ChunkStates,
        can_wait: Callable[[], bool],
    ) -> None:
        """`can_wait`: whether recalls may still end."""
        self._can_wait = can_wait
        self._archive = archive
        self._detector = detector
        self._follow_up = follow_up
        self._incidents = incidents
        self._archived_tables = archived_tables
        self._chunk_states = chunk_states

    def stop_chunk_work(self) -> None:
        """End the background work on chunks."""
        self._chunk_states.stop()

    def settle_all(self) -> None:
        """Advance time past the end of the input, so that all windows and alerts end."""
        newest = newest_event_time(self._archive)
        if newest is not None:
            end = newest + self._detector.reach() + 1
            self._archive.advance(dict.fromkeys(self._archive.tables, end))
            self._detector.settle_to_end(newest + 1, end)
            self._follow_up.run_to_end()
            self._settle_revisions(end)
        self._incidents.run_to_end()
        self._archived_tables.flush()
        self._chunk_states.finish()

    def _settle_revisions(self, end: Micros) -> None:
        """Settle rules over streams of recalls when these have ended, while a recall process runs.

        Without one they are settled by the next live process.
        """
        if not self._detector.reads_revisions:
            return
        previous = None
        while remaining := self._detector.settle_revisions_to_end(end):
            self._follow_up.run_to_end()
            if remaining == previous:
                if not self._can_wait():
                    return
                time.sleep(_WAIT_INTERVAL)
            previous = remaining
        self._follow_up.run_to_end()
