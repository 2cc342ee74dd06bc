"""The topics of streams, and how far their partitions have been read."""

from dataclasses import dataclass

from sql.archive import ProgressRow
from sql.gateway import Gateway


@dataclass(frozen=True, slots=True)
class TopicRow:
    """A topic that a stream reads or has read.

    `number`: counts the topics of the stream. `name`, `topic_id`, `servers`, `cluster`: None if an
    earlier version has read it and did not store them. `current`: whether the stream reads it.
    """

    id: int
    stream: str
    number: int
    name: str | None
    topic_id: str | None
    servers: str | None
    cluster: str | None
    current: bool


@dataclass(frozen=True, slots=True)
class PartitionRow(ProgressRow):
    """How far a partition has been read.

    `next`: the offset of its next record. `end_offset`: after its last record, as last seen while
    records were unread; None: never so.
    """

    topic: int
    partition: str
    next: int
    end_offset: int | None


class TopicGateway(Gateway):
    queries = "topics"

    def list_all(self) -> list[TopicRow]:
        """All topics that streams read or have read, oldest first."""
        return self._records(TopicRow, "list_all")

    def list_partitions(self) -> list[PartitionRow]:
        """All partitions of all topics, in no particular order."""
        return self._records(PartitionRow, "list_partitions")

    def insert(self, stream: str, number: int, identity: dict[str, str]) -> int:
        """Store a topic that its stream does not read yet; returns its id in the ledger.

        `identity`: `name`, `topic_id`, `servers` and `cluster`.
        """
        return int(self._value("insert", stream=stream, number=number, **identity))

    def identify(self, topic: int, identity: dict[str, str]) -> None:
        """Store by which `name`, `topic_id`, `servers` and `cluster` a topic is read."""
        self._execute("identify", id=topic, **identity)

    def select(self, stream: str, topic: int | None) -> None:
        """Store which topic a stream reads; None: it reads none any more."""
        self._execute("leave", stream=stream)
        if topic is not None:
            self._execute("select", id=topic)

    def put_partition(
        self,
        topic: int,
        partition: str,
        *,
        next_offset: int,
        progress: ProgressRow,
    ) -> None:
        """Store how far a partition has been read. Values below the stored ones are ignored."""
        self._execute(
            "put_partition",
            topic=topic,
            partition=partition,
            next=next_offset,
            newest=progress.newest,
            advanced=progress.advanced,
            newest_not_ahead=progress.newest_not_ahead,
            advanced_ahead=progress.advanced_ahead,
        )

    def put_end(self, topic: int, partition: str, end_offset: int) -> None:
        """Store where a partition ended when it was last seen."""
        self._execute("put_end", topic=topic, partition=partition, end_offset=end_offset)
