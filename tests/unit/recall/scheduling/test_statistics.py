"""Shares of a query, and the price of results."""

import pytest

from recall.scheduling.statistics import TurnStatistics, share_query


def test_tasks_share_the_time_of_a_query_equally() -> None:
    first, second = share_query(3.0, pieces=[2, 0], rows=[5, 7], results=[1, 0])
    assert (first.seconds, first.query_seconds, first.rows) == (1.5, 3.0, 5)
    assert (second.seconds, second.query_seconds, second.rows) == (1.5, 3.0, 7)


def test_seconds_per_piece_are_those_of_the_whole_query() -> None:
    """It is what one more piece would take, also for a task that is read alone next time."""
    first, second = share_query(3.0, pieces=[2, 0], rows=[0, 0], results=[0, 0])
    assert first.seconds_per_piece == 1.5
    assert second.seconds_per_piece is None


@pytest.mark.parametrize(("results", "per_result", "price"), [(3, 2, 6), (80, 2, 100), (5, 0, 0)])
def test_price_is_at_most_the_tickets_of_the_task(
    results: int, per_result: int, price: int
) -> None:
    statistics = TurnStatistics(pieces=1, rows=0, results=results, seconds=0.0)
    assert statistics.price(per_result, tickets=100) == price
