"""Records of topics that were lost before they were read, and how they are described. No I/O."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from sql.topics import LossReason

_MAX_RANGES = 8  # ranges that one text names


class LostRange(Protocol):
    """Lost records of a partition. `last_offset` None: it is not known how many there were."""

    @property
    def topic(self) -> str: ...

    @property
    def partition(self) -> str: ...

    @property
    def first_offset(self) -> int: ...

    @property
    def last_offset(self) -> int | None: ...

    @property
    def reason(self) -> LossReason: ...


@dataclass(frozen=True)
class LostRecords:
    """A loss that was noticed; see `LostRange`."""

    topic: str
    partition: str
    first_offset: int
    last_offset: int | None
    reason: LossReason


_FACTS: dict[LossReason, str] = {
    "deleted": "topic {topic} deleted records before they were read: {ranges}",
    "recreated": "topic {topic} was deleted and made again; lost with the old one, unread: {ranges}",
    "truncated": "topic {topic} ended before the offset to which it was read; its brokers lost, "
    "after they were archived: {ranges}; others that took their offsets may be lost unread",
    "removed": "file {topic} was truncated, replaced or deleted before all of it was read; lost, in "
    "bytes: {ranges}",
}
_ADVICE: dict[LossReason, str] = {
    "deleted": "reading goes on at the first record that exists; if this is unexpected, raise "
    "`retention.ms` and `retention.bytes` of the topic",
    "recreated": "the new one is read from its beginning",
    "truncated": "reading goes on at the end; see the log of the brokers for an unclean election",
    "removed": "let rotation rename files, and let the glob of the stream match their new names",
}


def describe_losses(losses: Iterable[LostRange]) -> list[str]:
    """A text for each topic and reason: what was lost, by partition and offsets, and what to do."""
    by_cause: dict[tuple[str, LossReason], list[LostRange]] = {}
    for loss in losses:
        by_cause.setdefault((loss.topic, loss.reason), []).append(loss)
    texts: list[str] = []
    for (topic, reason), ranges in by_cause.items():
        fact = _FACTS[reason].format(topic=topic, ranges=_describe_ranges(ranges))
        texts.append(f"{fact}; {_ADVICE[reason]}")
    return texts


def describe_range(loss: LostRange) -> str:
    """`partition 0 offsets 100 to 149`."""
    partition = f"partition {loss.partition}"
    if loss.last_offset is None:
        return f"{partition} from offset {loss.first_offset} on (how many is not known)"
    if loss.last_offset == loss.first_offset:
        return f"{partition} offset {loss.first_offset}"
    return f"{partition} offsets {loss.first_offset} to {loss.last_offset}"


def _describe_ranges(ranges: list[LostRange]) -> str:
    texts = list(map(describe_range, ranges[:_MAX_RANGES]))
    if len(ranges) > _MAX_RANGES:
        texts.append(f"{len(ranges) - _MAX_RANGES:,} more ranges (`moirae streams losses`)")
    return ", ".join(texts)
