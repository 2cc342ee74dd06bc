"""How many consecutive pieces of history one query reads. No I/O."""

from recall.scheduling.statistics import TaskStatistics

# A query should not take longer, as far as its duration can be predicted: alone, and while others
# run or wait.
MAX_RUN_SECONDS = 1.0
SHARED_RUN_SECONDS = 0.1

# Each run has this many times as many pieces as were read before: few queries save planning and
# storing. While pieces are read quickly, lengths do not depend on measured times, so that recalls
# which ask the same later use the same runs and find cached partial answers.
_RUN_GROWTH = 6.0
# While others compete for the engines, no task may get ahead of its share by more than this.
_SHARED_RUN_GROWTH = 1 / 8


def choose_run_length(
    statistics: TaskStatistics,
    pieces_left: int,
    *,
    has_competitors: bool = False,
    max_seconds: float = MAX_RUN_SECONDS,
) -> int:
    """How many consecutive pieces of history the next query of a task reads.

    1, 6, 42 and so on, up to `max_seconds`. While other questions compete, runs grow slowly: shares
    follow tickets, and a query that is killed has little to read again. One while the duration of a
    query is not known.
    """
    seconds_per_piece = statistics.query_seconds_per_piece
    if seconds_per_piece is None:
        return 1
    growth = _SHARED_RUN_GROWTH if has_competitors else _RUN_GROWTH
    run_length = int(growth * statistics.pieces)
    if seconds_per_piece > 0:
        # The quotient may be infinite.
        longest = min(max_seconds / seconds_per_piece, float(pieces_left))
        run_length = min(run_length, int(longest))
    return min(max(run_length, 1), pieces_left)


def find_prefix_end(pieces: int, done: int) -> int:
    """How many of some pieces a query reads that reads all of them again each time.

    `done`: how many it read before. Each time about twice as many, counted from the end: all runs
    together read less than two times the pieces.
    """
    end = pieces
    while end // 2 > done:
        end //= 2
    return end
