"""Reads ranges of a topic again that were read before, outside of the live process."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession

from archiver.ingest import OffsetRange, SourceUnit
from archiver.ingest.topic_records import parse_range_unit, topic_source_name
from moirae.config import KafkaSource, Stream
from moirae.errors import TopicError
from moirae.live.sources.topics.client import TopicClient
from moirae.live.sources.topics.client_settings import ClientSettings
from moirae.live.sources.topics.plan import TopicState
from moirae.live.sources.topics.record_reader import RecordReader
from moirae.live.sources.topics.units import make_units
from sql.topics import PartitionRow, TopicRow

_RANGE_OFFSETS = 100_000  # that are read at once


@dataclass(frozen=True)
class PresentRange:
    """The records of a unit that its topic still has. `deleted`: how many offsets before them are
    gone; `offsets`: of the others.
    """

    partition: str
    offsets: OffsetRange
    deleted: int


class TopicRereading:
    """Of the topic of one stream."""

    def __init__(
        self,
        spark: SparkSession,
        stream: str,
        declared: Stream,
        topic: TopicRow | None,
        partitions: Sequence[PartitionRow],
    ) -> None:
        """`topic`: which the stream reads, as the ledger has it; `partitions`: of all topics."""
        assert isinstance(declared.source, KafkaSource)
        settings = ClientSettings(spark, declared.source.kafka)
        self._stream = stream
        self._declared = declared
        self._topic = topic
        self._source = ""
        self._next_offsets: dict[str, int] = {}
        if topic is not None:
            self._next_offsets = {
                row.partition: row.next for row in partitions if row.topic == topic.id
            }
            self._source = topic_source_name(declared.source.kafka.topic, topic.number)
        has_punctuation = declared.punctuation is not None
        self._reader = RecordReader(spark, stream, settings, has_punctuation)
        self._state = self._fetch_state(TopicClient(spark, settings))

    def _fetch_state(self, client: TopicClient) -> TopicState | None:
        """The topic as it is now; None: it is gone, or another one. Raises `TopicError`."""
        try:
            state = client.fetch_state()
        except TopicError as error:
            if error.kind == "missing":
                return None
            raise
        finally:
            client.close()
        is_same = self._topic is not None and self._topic.topic_id == state.topic_id
        return state if is_same else None

    def find(self, name: str) -> PresentRange | None:
        """What the topic still has of a unit; None: nothing."""
        parsed = parse_range_unit(name, self._source)
        if parsed is None or self._state is None:
            return None
        partition, offsets = parsed
        present = self._state.partitions.get(partition)
        if present is None or present.first >= offsets.end or present.end < offsets.end:
            return None
        first = max(offsets.first, present.first)
        return PresentRange(
            partition, OffsetRange(first, offsets.end), deleted=first - offsets.first
        )

    def list_all(self) -> Iterator[PresentRange]:
        """What the topic still has of all that was read, in ranges."""
        if self._state is None:
            return
        for partition, present in self._state.partitions.items():
            end = min(self._next_offsets.get(partition, 0), present.end)
            for first in range(present.first, end, _RANGE_OFFSETS):
                offsets = OffsetRange(first, min(first + _RANGE_OFFSETS, end))
                yield PresentRange(partition, offsets, deleted=0)

    def read(self, present: PresentRange) -> SourceUnit:
        """The unit of what is present. Raises `TopicError` or `TopicChanged`."""
        assert self._topic is not None
        ranges = {present.partition: present.offsets}
        records = self._reader.read(self._reader.open(ranges, self._topic.number))
        (unit,) = make_units(self._stream, self._declared, self._source, records, ranges)
        return unit
