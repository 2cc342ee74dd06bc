"""How many consecutive pieces of history one query reads. No I/O."""

from recall.scheduling.statistics import TaskStatistics

# A query should not take longer, as far as its duration can be predicted.
MAX_RUN_SECONDS = 1.0

# Each run has this many times as many pieces as were read before: few queries save planning and
# storing. While pieces are read quickly, lengths do not depend on measured times, so that recalls
# which ask the same later use the same runs and find cached partial answers.
_RUN_GROWTH = 6


def choose_run_length(statistics: TaskStatistics, pieces_left: int, is_alone: bool) -> int:
    """How many consecutive pieces of history the next query of a task reads.

    1, 6, 42 and so on while the task is alone. One while other tasks are ready: shares follow
    tickets, and a query that is killed has little to read again. Also one while the duration of a
    query is not known.
    """
    seconds_per_piece = statistics.query_seconds_per_piece
    if seconds_per_piece is None or not is_alone:
        return 1
    run_length = _RUN_GROWTH * statistics.pieces
    if seconds_per_piece > 0:
        # The quotient may be infinite.
        longest = min(MAX_RUN_SECONDS / seconds_per_piece, float(pieces_left))
        run_length = min(run_length, int(longest))
    return min(max(run_length, 1), pieces_left)
