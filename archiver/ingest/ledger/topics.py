"""The topics of streams in the ledger: which one a stream reads, and how far.

A topic that was deleted and made again is another topic, which its id tells; so is one in other
brokers, or of another name. A stream that returns to a topic goes on where it had left it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import sql
from archiver.ingest.ledger.lost_records import LostRecords
from archiver.ingest.watermarks import PartitionProgress, ReadProgress
from archiver.times import Micros, optional_datetime, optional_micros
from sql.archive import ProgressRow, UnitGateway
from sql.topics import LostRecordsGateway, PartitionRow, TopicGateway, TopicRow


@dataclass(frozen=True)
class TopicIdentity:
    """Which topic is read, and where.

    `topic_id`: given by the brokers. `servers`: as declared. `cluster`: the id of their cluster.
    """

    name: str
    topic_id: str
    servers: str
    cluster: str


@dataclass(frozen=True)
class LedgerTopic:
    """A topic that a stream reads or has read.

    `id`: in the ledger. `number`: counts the topics of the stream. `name`: None if an earlier
    version has read the topic and did not store it, like `identity`. `ends`: by partition, the
    offset after its last record, as last seen while records were unread.
    """

    id: int
    number: int
    name: str | None
    identity: TopicIdentity | None
    partitions: Mapping[str, PartitionProgress]
    ends: Mapping[str, int]


class TopicLedger:
    """The topics of all streams on one connection. The caller owns the transaction.

    `partitions`: of the topics that streams read now, by stream and partition.
    """

    def __init__(self, connection: sql.Connection) -> None:
        self._gateway = TopicGateway(connection)
        self._lost_records = LostRecordsGateway(connection)
        self._units = UnitGateway(connection)
        self.partitions: dict[str, dict[str, PartitionProgress]] = {}
        self._current: dict[str, int] = {}
        self._topics: dict[str, list[LedgerTopic]] = {}

    def load(self) -> None:
        """Read what the database holds."""
        by_topic: dict[int, list[PartitionRow]] = {}
        for row in self._gateway.list_partitions():
            by_topic.setdefault(row.topic, []).append(row)
        self.partitions = {}
        self._current = {}
        self._topics = {}
        for topic_row in self._gateway.list_all():
            topic = _to_topic(topic_row, by_topic.get(topic_row.id, []))
            self._topics.setdefault(topic_row.stream, []).append(topic)
            if topic_row.current:
                self._current[topic_row.stream] = topic.id
                self.partitions[topic_row.stream] = dict(topic.partitions)

    def current(self, stream: str) -> LedgerTopic | None:
        """The topic that a stream reads, as far as it has read it; None: none yet."""
        for topic in self._topics.get(stream, ()):
            if topic.id == self._current.get(stream):
                return replace(topic, partitions=dict(self.partitions[stream]))
        return None

    def find(self, stream: str, topic_id: str) -> LedgerTopic | None:
        """The topic of an id that a stream has read; None: it has not."""
        for topic in reversed(self._topics.get(stream, [])):
            if topic.identity is not None and topic.identity.topic_id == topic_id:
                return topic
        return None

    def begin(
        self,
        stream: str,
        identity: TopicIdentity,
        starts: Mapping[str, int],
        watermark: Micros | None,
    ) -> None:
        """A stream reads a topic from given offsets of its partitions on.

        `watermark`: of the stream; rows before it were settled without the topic.
        """
        number = 1 + max((topic.number for topic in self._topics.get(stream, ())), default=0)
        topic_id = self._gateway.insert(stream, number, asdict(identity))
        topic = LedgerTopic(topic_id, number, identity.name, identity, {}, {})
        self._topics.setdefault(stream, []).append(topic)
        self._select(stream, topic)
        for partition, start in starts.items():
            self.put(stream, partition, PartitionProgress(start, ReadProgress(advanced=watermark)))

    def resume(
        self, stream: str, topic: LedgerTopic, identity: TopicIdentity, watermark: Micros | None
    ) -> None:
        """A stream goes on with a topic that it had left."""
        self._select(stream, topic)
        self.identify(stream, identity)
        for partition, before in topic.partitions.items():
            progress = before.progress
            if watermark is not None:
                progress = progress.with_advanced(watermark)
            self.put(stream, partition, replace(before, progress=progress))

    def _select(self, stream: str, topic: LedgerTopic) -> None:
        previous = self.current(stream)
        if previous is not None:
            self._replace(stream, previous)
        self._units.abandon_ranges(stream)
        self._gateway.select(stream, topic.id)
        self._current[stream] = topic.id
        self.partitions[stream] = dict(topic.partitions)

    def leave(self, stream: str) -> None:
        """A stream reads no topic any more."""
        topic = self.current(stream)
        if topic is not None:
            self._replace(stream, topic)
            self._gateway.select(stream, None)
            del self._current[stream]
            del self.partitions[stream]

    def streams(self) -> list[str]:
        """The streams that read a topic."""
        return list(self._current)

    def identify(self, stream: str, identity: TopicIdentity) -> None:
        """Store how the topic that a stream reads is identified."""
        topic = self._require_current(stream)
        if topic.identity != identity:
            self._gateway.identify(topic.id, asdict(identity))
            self._replace(stream, replace(topic, name=identity.name, identity=identity))

    def put(self, stream: str, partition: str, progress: PartitionProgress) -> None:
        """Store how far a partition has been read. Values below the stored ones are ignored."""
        self._gateway.put_partition(
            self._current[stream],
            partition,
            next_offset=progress.next,
            progress=_to_row(progress.progress),
        )
        self.partitions[stream][partition] = progress

    def skip(self, stream: str, starts: Mapping[str, int]) -> None:
        """Read partitions, new ones too, from given offsets on."""
        if starts:
            self._units.abandon_ranges(stream, list(starts))
        for partition, start in starts.items():
            before = self.partitions[stream].get(partition, PartitionProgress(0, ReadProgress()))
            self.put(stream, partition, replace(before, next=start))

    def record_ends(self, stream: str, ends: Mapping[str, int]) -> None:
        """Store where partitions ended when they were last seen: then it can be said what is lost
        with them.
        """
        topic = self._require_current(stream)
        changed = {name: end for name, end in ends.items() if topic.ends.get(name) != end}
        for partition, end in changed.items():
            self._gateway.put_end(topic.id, partition, end)
        if changed:
            self._replace(stream, replace(topic, ends={**topic.ends, **changed}))

    def record_losses(self, stream: str, losses: Sequence[LostRecords]) -> None:
        """Record losses for good."""
        for loss in losses:
            self._lost_records.insert(
                stream,
                topic=loss.topic,
                partition=loss.partition,
                first_offset=loss.first_offset,
                last_offset=loss.last_offset,
                reason=loss.reason,
            )

    def _require_current(self, stream: str) -> LedgerTopic:
        topic = self.current(stream)
        assert topic is not None, "the stream reads a topic"
        return topic

    def _replace(self, stream: str, changed: LedgerTopic) -> None:
        topics = self._topics[stream]
        self._topics[stream] = [changed if topic.id == changed.id else topic for topic in topics]


def load_current_partitions(gateway: TopicGateway) -> dict[str, dict[str, PartitionProgress]]:
    """How far each partition of the topics that streams read now has been read, by stream."""
    stream_by_topic = {row.id: row.stream for row in gateway.list_all() if row.current}
    partitions: dict[str, dict[str, PartitionProgress]] = {}
    for row in gateway.list_partitions():
        if row.topic in stream_by_topic:
            stream = stream_by_topic[row.topic]
            partitions.setdefault(stream, {})[row.partition] = PartitionProgress(
                row.next, to_progress(row)
            )
    return partitions


def _to_topic(row: TopicRow, partition_rows: Sequence[PartitionRow]) -> LedgerTopic:
    identity = None
    if row.name is not None and row.topic_id is not None:
        identity = TopicIdentity(row.name, row.topic_id, row.servers or "", row.cluster or "")
    partitions: dict[str, PartitionProgress] = {}
    ends: dict[str, int] = {}
    for partition in partition_rows:
        partitions[partition.partition] = PartitionProgress(partition.next, to_progress(partition))
        if partition.end_offset is not None:
            ends[partition.partition] = partition.end_offset
    return LedgerTopic(row.id, row.number, row.name, identity, partitions, ends)


def to_progress(row: ProgressRow) -> ReadProgress:
    """The progress of a stream or partition, as it is stored."""
    return ReadProgress(
        newest=optional_micros(row.newest),
        advanced=optional_micros(row.advanced),
        newest_not_ahead=optional_micros(row.newest_not_ahead),
        advanced_ahead=optional_micros(row.advanced_ahead),
    )


def _to_row(progress: ReadProgress) -> ProgressRow:
    return ProgressRow(
        newest=optional_datetime(progress.newest),
        advanced=optional_datetime(progress.advanced),
        newest_not_ahead=optional_datetime(progress.newest_not_ahead),
        advanced_ahead=optional_datetime(progress.advanced_ahead),
    )
