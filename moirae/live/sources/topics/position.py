"""How far the topic of a stream is read: what the brokers say, brought together with the ledger."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import structlog

from archiver.clock import unix_now
from archiver.ingest import OffsetRange
from archiver.ingest.ledger import LedgerTopic, TopicIdentity, describe_losses
from archiver.ingest.topic_records import parse_range_unit, topic_source_name
from archiver.periodic import Clock
from moirae.config import KafkaSource
from moirae.errors import TopicChanged
from moirae.live.sources.archiving import InputArchiving
from moirae.live.sources.topics.plan import (
    Adopt,
    Begin,
    Continue,
    Resume,
    TopicState,
    TopicStep,
    decide_step,
    plan_ranges,
)

_LOG = structlog.get_logger()

# Seconds: of a topic that is gone so soon after it was seen, what it held unread is known.
_MAX_OBSERVATION_AGE = 5.0


class PlannedBatch(NamedTuple):
    """The next ranges to read, by partition.

    `number`: of the topic among those of its stream. `source`: the topic in the names of units.
    """

    ranges: Mapping[str, OffsetRange]
    number: int
    source: str


class TopicPosition:
    """Of one stream."""

    def __init__(
        self, stream: str, source: KafkaSource, archiving: InputArchiving, clock: Clock
    ) -> None:
        self._stream = stream
        self._kafka = source.kafka
        self._archive = archiving.archive
        self._units = archiving.units
        self._lock = archiving.lock
        self._clock = clock
        self._state: TopicState | None = None
        self._seen_at = 0.0
        self._is_gone = False
        # Of the topic that the stream reads: where its partitions ended when it was last seen;
        # None: that was too long before it was gone.
        self._last_ends: Mapping[str, int] | None = None
        # Ranges whose archiving was interrupted by the end of a process; None: not yet looked up.
        self._begun: Mapping[str, OffsetRange] | None = None
        self.unread_since: float | None = None
        """When unread records were first seen, in seconds; None: there are none."""

    def update(self, state: TopicState, fetch_id: Callable[[], str]) -> None:
        """Record in the ledger which topic is read, from which offsets on, and what was lost.

        Raises `TopicChanged` if the topic is no longer that of `state`; `fetch_id` tells its id.
        """
        identity = TopicIdentity(
            self._kafka.topic, state.topic_id, self._kafka.servers, state.cluster
        )
        with self._lock:
            current = self._archive.topics.current(self._stream)
            previous = self._archive.topics.find(self._stream, state.topic_id)
        if current is not None and _is_other(current, identity):
            self.record_absence()
        step = decide_step(identity, state, current, previous, self._last_ends)
        is_usual = isinstance(step, Continue) and not step.starts
        # The offsets may be those of a topic that was made in between.
        if not is_usual and fetch_id() != state.topic_id:
            raise TopicChanged
        with self._lock, self._archive.fenced_transaction():
            self._apply(step, identity)
        _log_step(self._stream, step, identity, current)
        if isinstance(step, Adopt):
            self.update(state, fetch_id)
            return
        self._state = state
        self._seen_at = self._clock()
        self._is_gone = False
        self._last_ends = {name: offsets.end for name, offsets in state.partitions.items()}
        with self._lock:
            has_unread = self.has_unread(None)
        if not has_unread:
            self.unread_since = None
        elif self.unread_since is None:
            self.unread_since = unix_now()

    def record_absence(self) -> None:
        """Record that the topic that the stream reads was not there."""
        if not self._is_gone and self._clock() - self._seen_at > _MAX_OBSERVATION_AGE:
            self._last_ends = None
        self._is_gone = True

    def _apply(self, step: TopicStep, identity: TopicIdentity) -> None:
        topics = self._archive.topics
        watermark = self._archive.watermark(self._stream)
        if isinstance(step, Begin):
            topics.begin(self._stream, identity, step.starts, watermark)
            topics.record_losses(self._stream, step.losses)
        elif isinstance(step, Resume):
            topics.resume(self._stream, step.topic, identity, watermark)
        else:
            topics.identify(self._stream, identity)
        if isinstance(step, Continue):
            topics.skip(self._stream, step.starts)
            topics.record_losses(self._stream, step.losses)
        else:
            self._begun = None

    def plan(self, limits: Mapping[str, int] | None) -> PlannedBatch:
        """What to read next, after `update`. `limits`: offsets at which a drain ends, or None."""
        assert self._state is not None
        with self._lock:
            topic = self._archive.topics.current(self._stream)
            assert topic is not None
            source = topic_source_name(self._kafka.topic, topic.number)
            if self._begun is None:
                self._begun = self._list_begun(source)
            ends = {name: offsets.end for name, offsets in self._state.partitions.items()}
            if limits is not None:
                ends = {name: min(ends[name], limits.get(name, 0)) for name in ends}
            next_offsets = {name: partition.next for name, partition in topic.partitions.items()}
            ranges = plan_ranges(ends, next_offsets, self._begun)
            unread = {name: end for name, end in ends.items() if name not in ranges}
            unread |= {name: ends[name] for name in ranges if ranges[name].end < ends[name]}
            unread = {name: end for name, end in unread.items() if end > next_offsets[name]}
            if unread:
                with self._archive.fenced_transaction():
                    self._archive.topics.record_ends(self._stream, unread)
        return PlannedBatch(ranges, topic.number, source)

    def _list_begun(self, source: str) -> dict[str, OffsetRange]:
        begun: dict[str, OffsetRange] = {}
        next_offsets = self._archive.partitions[self._stream]
        for name in self._units.list_open(self._stream):
            parsed = parse_range_unit(name, source)
            if parsed is None:
                continue
            partition, offsets = parsed
            if partition in next_offsets and next_offsets[partition].next == offsets.first:
                begun[partition] = offsets
        return begun

    def has_unread(self, partition: str | None) -> bool:
        """Whether a partition may have unread records; None: any of them. The lock is held.

        True while nothing is known of the topic.
        """
        if self._state is None:
            return not self._is_gone
        if self._is_gone:
            return False
        progress = self._archive.partitions.get(self._stream, {})
        names = list(self._state.partitions) if partition is None else [partition]
        for name in names:
            offsets = self._state.partitions.get(name)
            if offsets is not None and (name not in progress or offsets.end > progress[name].next):
                return True
        return False

    @property
    def was_seen(self) -> bool:
        """Whether the topic was seen since the process started."""
        return self._state is not None

    def is_past(self, limits: Mapping[str, int]) -> bool:
        """Whether each partition has been read up to an offset. The lock is held."""
        progress = self._archive.partitions.get(self._stream, {})
        return all(
            name in progress and progress[name].next >= limit for name, limit in limits.items()
        )


def _is_other(current: LedgerTopic, identity: TopicIdentity) -> bool:
    return current.identity is None or current.identity.topic_id != identity.topic_id


def _log_step(
    stream: str, step: TopicStep, identity: TopicIdentity, before: LedgerTopic | None
) -> None:
    """Say what was not to be expected."""
    details = {"stream": stream, "topic": identity.name, "topic_id": identity.topic_id}
    if isinstance(step, Adopt):
        offsets = before.partitions if before is not None else {}
        text = ", ".join(f"{name}: {offsets[name].next}" for name in sorted(offsets, key=int))
        _LOG.info(
            "topic is taken for the one read by the previous version, whose id was not stored",
            action="topic_adopted",
            next_offsets=text,
            **details,
        )
    elif isinstance(step, Resume):
        _LOG.info("topic is read on from where it was left", action="topic_resumed", **details)
    elif isinstance(step, Begin) and step.is_recreated:
        _LOG.warning(
            "topic was deleted and made again: it is read from its beginning",
            action="topic_recreated",
            **details,
        )
    elif isinstance(step, Begin) and before is not None:
        _LOG.info("another topic is read", action="topic_changed", **details)
    if isinstance(step, Begin | Continue):
        for text in describe_losses(step.losses):
            _LOG.error(
                "records were lost before they were read",
                action="records_lost",
                loss=text,
                **details,
            )
