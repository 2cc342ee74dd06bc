"""What turns cost and find: the basis of tickets, of the length of runs and of forecasts. No I/O.

The ledger stores the sums of each task. They are read when a task is claimed or forecast.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace


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

    def price(self, tickets_per_result: int, tickets: int) -> int:
        """The tickets that the task loses for its results, at most those that it has."""
        return min(self.results * tickets_per_result, tickets)


@dataclass(frozen=True, kw_only=True)
class TaskStatistics:
    """The cost and the yield of all turns of a task so far, as those of one turn."""

    pieces: int = 0
    rows: int = 0
    results: int = 0
    seconds: float = 0.0
    query_seconds_per_piece: float | None = None
    """How long a query of one piece took, at the last turn in this process; None: not known."""

    @property
    def seconds_per_piece(self) -> float | None:
        """The task's mean share of the time that a piece took; None: it has read none."""
        if not self.pieces:
            return None
        return self.seconds / self.pieces

    def add(self, turn: TurnStatistics) -> "TaskStatistics":
        """The statistics after a turn."""
        added = replace(
            self,
            pieces=self.pieces + turn.pieces,
            rows=self.rows + turn.rows,
            results=self.results + turn.results,
            seconds=self.seconds + turn.seconds,
        )
        if not turn.pieces:
            return added
        return replace(added, query_seconds_per_piece=turn.query_seconds / turn.pieces)


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
