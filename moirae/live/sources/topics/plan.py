"""Decides what to read of a topic, from what the brokers say and what the ledger holds. No I/O."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from archiver.ingest import OffsetRange
from archiver.ingest.ledger import LedgerTopic, LostRecords, TopicIdentity

MAX_BATCH_RECORDS = 200_000  # of all partitions


@dataclass(frozen=True)
class TopicState:
    """A topic as its brokers describe it.

    `partitions`: from the first record that exists to the end, by partition.
    """

    topic_id: str
    cluster: str
    partitions: Mapping[str, OffsetRange]


@dataclass(frozen=True)
class Continue:
    """The topic is the one that was read.

    `starts`: partitions that are read from another offset on, new ones too.
    """

    starts: Mapping[str, int] = field(default_factory=dict)
    losses: Sequence[LostRecords] = ()


@dataclass(frozen=True)
class Begin:
    """The topic is another one, and new: it is read from `starts` on.

    `losses`: unread records of the one before, or records of this one that are gone already.
    `is_recreated`: it has taken the place of the one before.
    """

    starts: Mapping[str, int]
    losses: Sequence[LostRecords] = ()
    is_recreated: bool = False


@dataclass(frozen=True)
class Resume:
    """The topic is one that was read before the present one; `topic` in the ledger."""

    topic: LedgerTopic


@dataclass(frozen=True)
class Adopt:
    """The topic may be the one that an earlier version has read, which did not store its id."""


TopicStep = Continue | Begin | Resume | Adopt


def decide_step(
    identity: TopicIdentity,
    state: TopicState,
    current: LedgerTopic | None,
    previous: LedgerTopic | None,
    last_ends: Mapping[str, int] | None,
) -> TopicStep:
    """How to go on with a topic.

    `identity`: of the topic in the brokers. `current`: which the stream reads; None: none yet.
    `previous`: that of this id in the ledger. `last_ends`: of the partitions of `current`, where they
    ended just before it was gone; None: it was not observed.
    """
    if current is None:
        return Begin(_first_offsets(state)) if previous is None else Resume(previous)
    if current.identity is None:
        if _may_be_same(current, identity, state):
            return Adopt()
        return _begin_recreated(identity, state, current, last_ends)
    if current.identity.topic_id == identity.topic_id:
        return _continue(identity, state, current)
    if previous is not None:
        return Resume(previous)
    if _has_taken_its_place(current.identity, identity):
        return _begin_recreated(identity, state, current, last_ends)
    return Begin(_first_offsets(state))


def _first_offsets(state: TopicState) -> dict[str, int]:
    return {partition: offsets.first for partition, offsets in state.partitions.items()}


def _may_be_same(current: LedgerTopic, identity: TopicIdentity, state: TopicState) -> bool:
    """Whether what was read of a topic of unknown id fits this one."""
    if current.name not in (None, identity.name):
        return False
    for partition, progress in current.partitions.items():
        offsets = state.partitions.get(partition)
        if offsets is None or offsets.end < progress.next:
            return False
    return True


def _has_taken_its_place(before: TopicIdentity, now: TopicIdentity) -> bool:
    """Whether a topic was made in place of another, which then no longer exists."""
    is_same_place = before.servers == now.servers or before.cluster == now.cluster
    return before.name == now.name and is_same_place


def _begin_recreated(
    identity: TopicIdentity,
    state: TopicState,
    current: LedgerTopic,
    last_ends: Mapping[str, int] | None,
) -> Begin:
    if current.name not in (None, identity.name):
        return Begin(_first_offsets(state))
    losses = _list_unread(identity.name, current, last_ends)
    # The stream followed the topic: it was to read the new one from its first record on.
    losses += _list_deleted(identity.name, state, {})
    return Begin(_first_offsets(state), losses, is_recreated=True)


def _list_unread(
    name: str, current: LedgerTopic, last_ends: Mapping[str, int] | None
) -> list[LostRecords]:
    """What a topic that is gone still held unread, as far as it is known."""
    losses: list[LostRecords] = []
    for partition, progress in sorted(current.partitions.items(), key=_partition_number):
        if last_ends is not None:
            end = last_ends.get(partition, progress.next)
            if end > progress.next:
                loss = LostRecords(name, partition, progress.next, end - 1, "recreated")
                losses.append(loss)
            continue
        end = current.ends.get(partition, 0)
        # More may have come than was seen.
        last = end - 1 if end > progress.next else None
        losses.append(LostRecords(name, partition, progress.next, last, "recreated"))
    return losses


def _continue(identity: TopicIdentity, state: TopicState, current: LedgerTopic) -> TopicStep:
    next_offsets = {name: progress.next for name, progress in current.partitions.items()}
    truncated = _list_truncated(identity.name, state, next_offsets)
    deleted = _list_deleted(identity.name, state, next_offsets)
    starts: dict[str, int] = {}
    for partition, offsets in state.partitions.items():
        next_offset = next_offsets.get(partition)
        if next_offset is None or not offsets.first <= next_offset <= offsets.end:
            is_behind = next_offset is None or next_offset < offsets.first
            starts[partition] = offsets.first if is_behind else offsets.end
    if truncated:
        # Other records will have the offsets of those that were read: another topic in the ledger.
        return Begin({**next_offsets, **starts}, [*truncated, *deleted])
    return Continue(starts, deleted)


def _list_truncated(
    name: str, state: TopicState, next_offsets: Mapping[str, int]
) -> list[LostRecords]:
    losses: list[LostRecords] = []
    for partition, next_offset in sorted(next_offsets.items(), key=_partition_number):
        offsets = state.partitions.get(partition)
        if offsets is not None and offsets.end < next_offset:
            losses.append(LostRecords(name, partition, offsets.end, next_offset - 1, "truncated"))
    return losses


def _list_deleted(
    name: str, state: TopicState, next_offsets: Mapping[str, int]
) -> list[LostRecords]:
    """The records that are gone before they were read. A new partition is read from 0 on."""
    losses: list[LostRecords] = []
    for partition, offsets in sorted(state.partitions.items(), key=_partition_number):
        next_offset = next_offsets.get(partition, 0)
        if next_offset < offsets.first:
            losses.append(LostRecords(name, partition, next_offset, offsets.first - 1, "deleted"))
    return losses


def _partition_number(item: tuple[str, object]) -> int:
    return int(item[0])


def plan_ranges(
    ends: Mapping[str, int],
    next_offsets: Mapping[str, int],
    begun: Mapping[str, OffsetRange],
    limit: int = MAX_BATCH_RECORDS,
) -> dict[str, OffsetRange]:
    """The next ranges to read, by partition; together about `limit` offsets.

    `begun`: ranges whose archiving was interrupted; they are read as they were, before any other.
    """
    repeated = {
        partition: offsets
        for partition, offsets in begun.items()
        if next_offsets.get(partition) == offsets.first and offsets.end <= ends.get(partition, 0)
    }
    if repeated:
        return repeated
    unread: dict[str, int] = {}
    for partition, next_offset in next_offsets.items():
        count = ends.get(partition, next_offset) - next_offset
        if count > 0:
            unread[partition] = count
    total = sum(unread.values())
    ranges: dict[str, OffsetRange] = {}
    for partition, count in unread.items():
        share = count if total <= limit else max(1, count * limit // total)
        first = next_offsets[partition]
        ranges[partition] = OffsetRange(first, first + share)
    return ranges
