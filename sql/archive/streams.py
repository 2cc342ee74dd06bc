"""Input streams and the partitions of their topics: how far each has been read."""

from dataclasses import dataclass
from datetime import datetime

from sql.gateway import Gateway


@dataclass(frozen=True, slots=True)
class StreamRow:
    """How far a stream has been read.

    `newest`: the newest event time read. `advanced`: the event time it was advanced to without
    data. None: not yet.
    """

    name: str
    newest: datetime | None
    advanced: datetime | None


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """How far a partition has been read. `next`: the offset of its next record; see `StreamRow`."""

    stream: str
    partition: str
    next: int
    newest: datetime | None
    advanced: datetime | None


class StreamGateway(Gateway):
    queries = "streams"

    def list_all(self) -> list[StreamRow]:
        """All streams that were ever declared, in no particular order."""
        return self._records(StreamRow, "list_all")

    def insert(self, name: str) -> None:
        """Register a declared stream, unless it is registered."""
        self._execute("insert", name=name)

    def raise_newest(self, name: str, newest: datetime) -> None:
        """Raise the newest event time of a stream; a lower one is ignored."""
        self._execute("raise_newest", name=name, newest=newest)

    def advance(self, name: str, event_time: datetime) -> None:
        """Advance a stream without data; a lower event time is ignored."""
        self._execute("advance", name=name, advanced=event_time)

    def list_partitions(self) -> list[PartitionRow]:
        """All partitions that were read, in no particular order."""
        return self._records(PartitionRow, "list_partitions")

    def put_partition(
        self,
        stream: str,
        partition: str,
        *,
        next_offset: int,
        newest: datetime | None,
        advanced: datetime | None,
    ) -> None:
        """Store how far a partition has been read. Values below the stored ones are ignored."""
        self._execute(
            "put_partition",
            stream=stream,
            partition=partition,
            next=next_offset,
            newest=newest,
            advanced=advanced,
        )
