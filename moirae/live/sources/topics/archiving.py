"""What archives the records of topics."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from archiver.ingest import ArchiveWriter, SourceUnit
from archiver.ingest.engines import TopicRecords
from sql.archive import UnitGateway
from sql.topics import SourceErrorGateway


class RecordIngest(Protocol):
    """Archives and evaluates a batch."""

    def ingest_units(self, units: Sequence[SourceUnit]) -> Sequence[SourceUnit]:
        """Of source units. Returns those that are not archived, see `UnitFailures`."""

    def ingest_records(self, records: TopicRecords) -> None:
        """Of the records of a topic, which executors archive."""


@dataclass(frozen=True, kw_only=True, eq=False)
class TopicArchiving:
    """What the readers of all topics use while they hold `lock`.

    `units` and `errors` have the connection of the archive.
    """

    archive: ArchiveWriter
    ingest: RecordIngest
    units: UnitGateway
    errors: SourceErrorGateway
    lock: threading.Lock
