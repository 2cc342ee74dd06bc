"""Bytes by day, and the rate by which the retention is projected."""

from datetime import date

import pytest

from moirae.inspect.stored_bytes import ChunkSize, measure_rate, spread_over_days

DAY = 86_400_000_000


def test_bytes_of_a_chunk_are_spread_over_its_days() -> None:
    sizes = [ChunkSize(DAY // 2, 2 * DAY, 300), ChunkSize(2 * DAY, 3 * DAY, 50)]
    assert spread_over_days(sizes) == {
        date(1970, 1, 1): 100,
        date(1970, 1, 2): 200,
        date(1970, 1, 3): 50,
    }


@pytest.mark.parametrize(
    ("sizes", "rate"),
    [
        ([], None),
        ([ChunkSize(0, DAY // 2, 100)], 200.0),
        ([ChunkSize(0, DAY, 100), ChunkSize(DAY, 2 * DAY, 300)], 200.0),
        # Of a chunk of 14 days the newest half counts, and older ones not at all.
        ([ChunkSize(0, DAY, 1 << 40), ChunkSize(DAY, 15 * DAY, 1_400)], 100.0),
    ],
)
def test_rate_is_that_of_the_newest_week(sizes: list[ChunkSize], rate: float | None) -> None:
    assert measure_rate(sizes) == rate
