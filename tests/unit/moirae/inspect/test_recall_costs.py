"""What the revisions of a recall cost."""

import pytest

from archiver.time_range import TimeRange
from moirae.inspect.recall_costs import HistoryCosts, count_chunk_reads, estimate_costs
from recall.requests import ChunkRange, SqlQuestion
from sql.recalls import MeasuredRecall

HOUR = 3_600_000_000
CHUNKS = [ChunkRange(0, TimeRange(None, HOUR))]
CHUNKS += [ChunkRange(n, TimeRange(n * HOUR, (n + 1) * HOUR)) for n in range(1, 9)]
CHUNKS += [ChunkRange(9, TimeRange(9 * HOUR, None))]
NOW = 9 * HOUR + 1


def question(range_: int | None) -> SqlQuestion:
    return SqlQuestion(range_, 1.0, "newest", "", {"cpu": "ts"}, (), {}, {}, {}, {})


def test_nothing_is_known_before_a_recall_has_ended() -> None:
    cost = estimate_costs("r", question(3 * HOUR), HistoryCosts(CHUNKS, NOW, {}), is_whole=False)
    assert cost == {"chunks": 4, "measured": "none of its recalls has ended yet"}


@pytest.mark.parametrize(
    ("is_whole", "first", "last", "total"), [(False, 0.1, 0.1, 1.0), (True, 0.05, 0.5, 0.9)]
)
def test_costs_are_those_of_the_last_recalls_by_chunk_read(
    is_whole: bool, first: float, last: float, total: float
) -> None:
    # Two recalls over 4 chunks: 8 reads, or over 1, 2 and 4 chunks, 2 · 7 reads.
    seconds = 0.05 * 14 if is_whole else 0.8
    measured = {"r": MeasuredRecall("r", 2, 8, [4, 4], seconds)}
    cost = estimate_costs(
        "r", question(None), HistoryCosts(CHUNKS, NOW, measured), is_whole=is_whole
    )
    assert cost["chunks"] == 10
    assert cost["measured"] == "the last 2, over 8 chunks in all"
    assert cost["first_revision_seconds"] == pytest.approx(first)
    assert cost["last_revision_seconds"] == pytest.approx(last)
    assert cost["all_revisions_seconds"] == pytest.approx(total)


def test_growing_ranges_read_less_than_twice_the_whole() -> None:
    for chunks in range(1, 300):
        assert chunks <= count_chunk_reads(chunks, is_whole=True) < 2 * chunks
        assert count_chunk_reads(chunks, is_whole=False) == chunks
    assert [count_chunk_reads(n, is_whole=True) for n in (1, 2, 4, 10)] == [1, 3, 7, 18]
