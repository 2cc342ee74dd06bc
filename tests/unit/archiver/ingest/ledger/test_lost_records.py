"""Texts about records that were lost before they were read."""

from archiver.ingest.ledger.lost_records import LostRecords, describe_losses, describe_range


def test_text_names_topic_partitions_offsets_and_remedy() -> None:
    losses = [
        LostRecords("t", "0", 100, 149, "deleted"),
        LostRecords("t", "3", 7, 7, "deleted"),
        LostRecords("t", "1", 400, None, "recreated"),
    ]
    deleted, recreated = describe_losses(losses)
    assert "topic t deleted records before they were read" in deleted
    assert "partition 0 offsets 100 to 149, partition 3 offset 7" in deleted
    assert "retention.ms" in deleted
    assert "partition 1 from offset 400 on (how many is not known)" in recreated
    assert "read from its beginning" in recreated


def test_many_ranges_are_counted() -> None:
    losses = [LostRecords("t", str(number), 0, 1, "deleted") for number in range(20)]
    (text,) = describe_losses(losses)
    assert "12 more ranges" in text
    assert describe_range(losses[3]) == "partition 3 offsets 0 to 1"
