"""What a rule may take, decided. Pure.

Time is the processor time of Spark's JVM: a machine that is busy with other things makes no rule
slow.
"""

import math
from collections.abc import Callable, Sequence

import pyarrow as pa

from moirae.alerts import EventRow

# Rows, and rules in one statement, that each lengthen its limit by a second: what is read at once
# after a pause, or by a thousand rules, may take long.
_ROWS_PER_SECOND, _RULES_PER_SECOND = 20_000, 2
# Rows of one context or surrounding of one event. Of more, the first in the order of their JSON
# text are kept.
CONTEXT_ROWS = 2_000
# By the clock a statement may take so many times its limit: it may hang without computing.
_WALL_CLOCK_FACTOR = 10
# Microseconds of event time over which the limit of matches goes: history read at once may hold
# many.
_MICROS_PER_MINUTE = 60_000_000


def statement_limit(base_limit: float, rows: int, rules: int) -> float:
    """The processor time that a statement of some rules over some rows may take."""
    return base_limit + rows / _ROWS_PER_SECOND + (rules - 1) / _RULES_PER_SECOND


def is_over_limit(limit: float, cpu_seconds: float, wall_seconds: float) -> bool:
    """Whether a statement is over its limit, all in seconds."""
    return cpu_seconds > limit or wall_seconds > limit * _WALL_CLOCK_FACTOR


def truncate_event_rows(
    event_rows: Sequence[EventRow], limit: int | None, limit_per_minute: int
) -> Sequence[EventRow]:
    """The first rows by time, as many as a rule may find in one evaluation: its own `limit`, or
    what is `usual` for each minute of event time that they span.
    """
    if not event_rows or len(event_rows) <= (limit or limit_per_minute):
        return event_rows
    times = [one.ts for one in event_rows]
    most = limit or limit_per_minute * max(
        1, math.ceil((max(times) - min(times)) / _MICROS_PER_MINUTE)
    )
    return (
        event_rows
        if len(event_rows) <= most
        else sorted(event_rows, key=lambda one: (one.ts, repr(one.attributes)))[:most]
    )


def find_failing_row(rows: pa.Table, has_failure: Callable[[pa.Table], bool]) -> pa.Table | None:
    """The one row at which a query over all of them fails; None where no single row is at fault."""
    while len(rows) > 1:
        half = rows.slice(0, len(rows) // 2)
        rows = half if has_failure(half) else rows.slice(len(half))
    return rows if len(rows) and has_failure(rows) else None
