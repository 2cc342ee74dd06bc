"""What archives the input of a live process."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from archiver.ingest import ArchiveWriter, SourceUnit
from archiver.ingest.engines import TopicRecords
from moirae.live.unit_failures import UnitFailures
from sql.archive import UnitGateway


class BatchIngest(Protocol):
    """Archives and evaluates a batch."""

    def ingest_units(self, units: Sequence[SourceUnit]) -> Sequence[SourceUnit]:
        """Of source units. Returns those that are not archived, see `UnitFailures`."""

    def ingest_records(self, records: TopicRecords) -> None:
        """Of the records of a topic, which executors archive."""


@dataclass(frozen=True, kw_only=True, eq=False)
class InputArchiving:
    """What the readers of all files and topics use while they hold `lock`.

    `units` has the connection of the archive. `failures`: the units that failed.
    """

    archive: ArchiveWriter
    ingest: BatchIngest
    failures: UnitFailures
    units: UnitGateway
    lock: threading.Lock
