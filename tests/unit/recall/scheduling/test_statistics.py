"""Shares of a query, and the price of results."""

import pytest

from recall.scheduling.statistics import TaskStatistics, TurnStatistics, share_query


def test_tasks_share_the_time_of_a_query_equally() -> None:
    first, second = share_query(3.0, pieces=[2, 0], rows=[5, 7], results=[1, 0])
    assert (first.seconds, first.query_seconds, first.rows) == (1.5, 3.0, 5)
    assert (second.seconds, second.query_seconds, second.rows) == (1.5, 3.0, 7)


def test_turns_are_added_to_what_the_ledger_stores() -> None:
    stored = TaskStatistics(pieces=4, rows=10, results=1, seconds=2.0)
    turn = TurnStatistics(pieces=2, rows=5, results=1, seconds=1.0, query_seconds=4.0)
    assert stored.add(turn) == TaskStatistics(
        pieces=6, rows=15, results=2, seconds=3.0, query_seconds_per_piece=2.0
    )


def test_forecasts_use_the_share_of_a_task_and_run_lengths_the_whole_query() -> None:
    """The latter is what one more piece would take, also for a task that is read alone next."""
    first, second = share_query(3.0, pieces=[2, 0], rows=[0, 0], results=[0, 0])
    statistics = TaskStatistics().add(first)
    assert (statistics.seconds_per_piece, statistics.query_seconds_per_piece) == (0.75, 1.5)
    unread = TaskStatistics().add(second)
    assert (unread.seconds_per_piece, unread.query_seconds_per_piece) == (None, None)


def test_turn_without_pieces_leaves_the_time_of_the_last_query() -> None:
    statistics = TaskStatistics(pieces=1, seconds=1.0, query_seconds_per_piece=1.0)
    added = statistics.add(TurnStatistics(pieces=0, rows=0, results=0, seconds=0.5))
    assert (added.seconds, added.query_seconds_per_piece) == (1.5, 1.0)


@pytest.mark.parametrize(("results", "per_result", "price"), [(3, 2, 6), (80, 2, 100), (5, 0, 0)])
def test_price_is_at_most_the_tickets_of_the_task(
    results: int, per_result: int, price: int
) -> None:
    statistics = TurnStatistics(pieces=1, rows=0, results=results, seconds=0.0)
    assert statistics.price(per_result, tickets=100) == price
