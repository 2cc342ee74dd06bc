"""Offsets in the text of the admin client's answer."""

from moirae.live.sources.topics.client import parse_offsets


def test_offsets_are_read_by_partition() -> None:
    text = (
        "{a-topic.x_1-10=ListOffsetsResultInfo(offset=7, timestamp=-1, leaderEpoch=Optional[0]), "
        "a-topic.x_1-0=ListOffsetsResultInfo(offset=-1, timestamp=-1, leaderEpoch=Optional.empty)}"
    )
    assert parse_offsets(text) == {"10": 7, "0": -1}
    assert parse_offsets("{}") == {}
