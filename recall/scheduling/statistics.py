"""What turns cost and find: the basis of tickets, of the length of runs and of forecasts. No I/O."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class TurnStatistics:
    """The cost and the yield of one turn of a task.

    `pieces`: of history that were read. `rows`: of partial answers, or events compared. `results`:
    how many of them were new.
    """

    pieces: int
    rows: int
    results: int
    seconds: float
    """The task's share of the time that the query took."""
    query_seconds: float = 0.0
    """The time that the query took for all its tasks."""

    @property
    def seconds_per_piece(self) -> float | None:
        """How long a query of one piece takes; None: no piece was read."""
        if not self.pieces:
            return None
        return self.query_seconds / self.pieces

    def price(self, tickets_per_result: int, tickets: int) -> int:
        """The tickets that the task loses for its results, at most those that it has."""
        return min(self.results * tickets_per_result, tickets)


def share_query(
    query_seconds: float, pieces: Sequence[int], rows: Sequence[int], results: Sequence[int]
) -> list[TurnStatistics]:
    """The statistics of the tasks of one query: each has an equal share of its time.

    By task: the pieces and rows that were read, and the results that were found.
    """
    return [
        TurnStatistics(
            pieces=task_pieces,
            rows=task_rows,
            results=task_results,
            seconds=query_seconds / len(pieces),
            query_seconds=query_seconds,
        )
        for task_pieces, task_rows, task_results in zip(pieces, rows, results, strict=True)
    ]
