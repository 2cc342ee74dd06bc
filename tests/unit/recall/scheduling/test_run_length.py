"""Lengths of runs of pieces."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recall.scheduling.run_length import SHARED_RUN_SECONDS, choose_run_length, find_prefix_end
from recall.scheduling.statistics import TaskStatistics


def statistics(pieces: int, query_seconds_per_piece: float | None) -> TaskStatistics:
    return TaskStatistics(pieces=pieces, query_seconds_per_piece=query_seconds_per_piece)


@pytest.mark.parametrize(
    ("pieces_read", "pieces_left", "seconds_per_piece", "run_length"),
    [
        (0, 100, 0.0, 1),
        (1, 100, 0.0, 6),
        (7, 100, 0.0, 42),
        (7, 20, 0.0, 20),
        (7, 100, 0.1, 10),
        (7, 100, 30.0, 1),
        (7, 100, None, 1),
    ],
)
def test_runs_grow_up_to_a_second(
    pieces_read: int, pieces_left: int, seconds_per_piece: float | None, run_length: int
) -> None:
    read = statistics(pieces_read, seconds_per_piece)
    assert choose_run_length(read, pieces_left) == run_length


@pytest.mark.parametrize(("pieces_read", "run_length"), [(1, 1), (15, 1), (16, 2), (80, 10)])
def test_runs_grow_slowly_while_other_questions_compete(pieces_read: int, run_length: int) -> None:
    read = statistics(pieces_read, 0.0)
    assert choose_run_length(read, 100, has_competitors=True) == run_length


def test_run_is_shorter_while_others_run_or_wait() -> None:
    read = statistics(49, 0.01)
    assert choose_run_length(read, 500) == 100
    assert choose_run_length(read, 500, max_seconds=SHARED_RUN_SECONDS) == 10


def test_pieces_that_take_no_measurable_time_are_read_without_a_limit_of_seconds() -> None:
    assert choose_run_length(statistics(10, 5e-324), 50) == 50
    assert choose_run_length(statistics(10, 0.0), 70) == 60


@given(st.integers(0, 5_000))
def test_growing_prefixes_read_less_than_twice_the_pieces(pieces: int) -> None:
    done, ends = 0, []
    while done < pieces:
        done = find_prefix_end(pieces, done)
        ends.append(done)
    assert ends == sorted(set(ends))
    if pieces:
        assert ends[0] == 1 and ends[-1] == pieces
        assert sum(ends) <= 2 * pieces
        assert all(end <= 2 * before + 1 for before, end in pairwise(ends))
