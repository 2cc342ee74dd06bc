"""Lengths of runs of pieces."""

import pytest

from recall.scheduling.run_length import choose_run_length
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
    assert choose_run_length(read, pieces_left, is_alone=True) == run_length


def test_run_is_one_piece_while_other_tasks_are_ready() -> None:
    assert choose_run_length(statistics(7, 0.0), 100, is_alone=False) == 1


def test_pieces_that_take_no_measurable_time_are_read_without_a_limit_of_seconds() -> None:
    assert choose_run_length(statistics(10, 5e-324), 50, is_alone=True) == 50
    assert choose_run_length(statistics(10, 0.0), 70, is_alone=True) == 60
