"""Which step follows from what the brokers say and what the ledger holds."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from archiver.ingest import OffsetRange
from archiver.ingest.ledger import LedgerTopic, LostRecords, TopicIdentity
from archiver.ingest.watermarks import PartitionProgress, ReadProgress
from moirae.live.sources.topics.plan import (
    Adopt,
    Begin,
    Continue,
    Resume,
    TopicState,
    decide_step,
    plan_ranges,
)

IDENTITY = TopicIdentity("t", "id-1", "host:9092", "cluster-1")
MADE_AGAIN = replace(IDENTITY, topic_id="id-2")


def state(topic_id: str = "id-1", **partitions: tuple[int, int]) -> TopicState:
    """A topic; `partitions`: p0=(first, end)."""
    offsets = {name[1:]: OffsetRange(*bounds) for name, bounds in partitions.items()}
    return TopicState(topic_id, "cluster-1", offsets)


def ledger(
    next_offsets: Mapping[str, int],
    identity: TopicIdentity | None = IDENTITY,
    ends: Mapping[str, int] | None = None,
) -> LedgerTopic:
    partitions = {
        name: PartitionProgress(offset, ReadProgress()) for name, offset in next_offsets.items()
    }
    name = None if identity is None else identity.name
    return LedgerTopic(1, 1, name, identity, partitions, ends or {})


def test_first_topic_is_read_from_the_records_that_exist() -> None:
    step = decide_step(IDENTITY, state(p0=(5, 9), p1=(0, 0)), None, None, None)
    assert step == Begin({"0": 5, "1": 0})


@pytest.mark.parametrize("bounds", [(0, 400), (400, 400), (0, 900)])
def test_nothing_is_said_while_offsets_fit(bounds: tuple[int, int]) -> None:
    assert decide_step(IDENTITY, state(p0=bounds), ledger({"0": 400}), None, None) == Continue(
        {}, []
    )


def test_records_that_were_deleted_unread_are_lost_and_reading_goes_on_after_them() -> None:
    step = decide_step(IDENTITY, state(p0=(150, 200)), ledger({"0": 100}), None, None)
    lost = LostRecords("t", "0", 100, 149, "deleted")
    assert step == Continue({"0": 150}, [lost])


def test_new_partition_is_read_from_its_first_record_on() -> None:
    current = ledger({"0": 5})
    step = decide_step(IDENTITY, state(p0=(0, 5), p1=(0, 3)), current, None, None)
    assert step == Continue({"1": 0}, [])
    step = decide_step(IDENTITY, state(p0=(0, 5), p1=(2, 3)), current, None, None)
    assert step == Continue({"1": 2}, [LostRecords("t", "1", 0, 1, "deleted")])


def test_partition_that_ends_before_what_was_read_is_truncated() -> None:
    """Other records get the offsets: another topic in the ledger."""
    current = ledger({"0": 400, "1": 7})
    step = decide_step(IDENTITY, state(p0=(0, 350), p1=(0, 9)), current, current, None)
    assert step == Begin({"0": 350, "1": 7}, [LostRecords("t", "0", 350, 399, "truncated")])


@pytest.mark.parametrize("end", [100, 400, 600])
def test_topic_made_again_is_read_from_its_beginning(end: int) -> None:
    step = decide_step(MADE_AGAIN, state("id-2", p0=(0, end)), ledger({"0": 400}), None, None)
    assert step == Begin(
        {"0": 0}, [LostRecords("t", "0", 400, None, "recreated")], is_recreated=True
    )


def test_unread_records_of_the_old_topic_are_named_as_far_as_known() -> None:
    again = state("id-2", p0=(0, 10))
    current = ledger({"0": 400, "1": 3}, ends={"0": 450})
    step = decide_step(MADE_AGAIN, again, current, None, None)
    assert isinstance(step, Begin)
    assert step.losses == [
        LostRecords("t", "0", 400, 449, "recreated"),
        LostRecords("t", "1", 3, None, "recreated"),
    ]
    observed = decide_step(MADE_AGAIN, again, current, None, {"0": 400, "1": 8})
    assert isinstance(observed, Begin)
    assert observed.losses == [LostRecords("t", "1", 3, 7, "recreated")]


def test_records_of_the_new_topic_that_are_gone_already_are_lost() -> None:
    step = decide_step(MADE_AGAIN, state("id-2", p0=(20, 50)), ledger({}), None, {})
    assert step == Begin({"0": 20}, [LostRecords("t", "0", 0, 19, "deleted")], is_recreated=True)


@pytest.mark.parametrize(
    "identity",
    [
        replace(MADE_AGAIN, name="u"),
        replace(MADE_AGAIN, servers="other:9092", cluster="cluster-2"),
    ],
)
def test_other_topic_or_servers_lose_nothing(identity: TopicIdentity) -> None:
    step = decide_step(identity, state("id-2", p0=(3, 9)), ledger({"0": 400}), None, None)
    assert step == Begin({"0": 3})


@pytest.mark.parametrize(
    "identity",
    [replace(MADE_AGAIN, servers="renamed:9092"), replace(MADE_AGAIN, cluster="cluster-2")],
)
def test_topic_was_made_again_if_servers_or_cluster_are_the_same(identity: TopicIdentity) -> None:
    step = decide_step(identity, state("id-2", p0=(0, 9)), ledger({"0": 400}), None, None)
    assert isinstance(step, Begin) and step.is_recreated


def test_topic_that_was_left_is_resumed() -> None:
    left = ledger({"0": 5})
    other = ledger({"0": 9}, replace(IDENTITY, name="u", topic_id="id-3"))
    assert decide_step(IDENTITY, state(p0=(0, 9)), other, left, None) == Resume(left)
    assert decide_step(IDENTITY, state(p0=(0, 9)), None, left, None) == Resume(left)


def test_topic_of_an_earlier_version_is_adopted_if_its_offsets_fit() -> None:
    unknown = ledger({"0": 400}, identity=None)
    assert decide_step(IDENTITY, state(p0=(0, 400)), unknown, None, None) == Adopt()
    named = replace(unknown, name="t")
    assert decide_step(IDENTITY, state(p0=(300, 500)), named, None, None) == Adopt()


def test_topic_of_an_earlier_version_was_made_again_if_it_is_shorter() -> None:
    unknown = replace(ledger({"0": 400, "1": 2}, identity=None), name="t")
    for again in (state(p0=(0, 399), p1=(0, 2)), state(p0=(0, 500))):
        step = decide_step(IDENTITY, again, unknown, None, None)
        assert isinstance(step, Begin) and step.is_recreated
        assert step.starts["0"] == 0
    other = replace(unknown, name="u")
    step = decide_step(IDENTITY, state(p0=(0, 500)), other, None, None)
    assert step == Begin({"0": 0})


def test_ranges_share_the_limit_by_what_is_unread() -> None:
    ranges = plan_ranges({"0": 1000, "1": 110, "2": 5}, {"0": 0, "1": 10, "2": 5}, {}, limit=110)
    assert ranges == {"0": OffsetRange(0, 100), "1": OffsetRange(10, 20)}
    assert plan_ranges({"0": 3}, {"0": 1}, {}) == {"0": OffsetRange(1, 3)}
    assert plan_ranges({"0": 3}, {"0": 3, "1": 9}, {}) == {}


def test_interrupted_ranges_are_read_again_as_they_were() -> None:
    begun = {"0": OffsetRange(10, 15), "1": OffsetRange(0, 9)}
    next_offsets = {"0": 10, "1": 9}
    ends = {"0": 90, "1": 90}
    assert plan_ranges(ends, next_offsets, begun) == {"0": OffsetRange(10, 15)}
    # Afterwards the others follow.
    assert plan_ranges(ends, {"0": 15, "1": 9}, begun) == {
        "0": OffsetRange(15, 90),
        "1": OffsetRange(9, 90),
    }
